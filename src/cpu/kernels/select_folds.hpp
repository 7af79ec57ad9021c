// What is kept of the similarities of one document: the folds of select_scan.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/selection.hpp"
#include "cpu/kernels/select_scan.hpp"

namespace rowmax::cpu {

/// Whether a similarity comes before another: a NaN before any number, then the larger.
template <class Value>
bool beats(Value a, Value b) {
    return a > b || (a != a && b == b);
}

/// The k best similarities of every lane, best first, the lowest token among equals.
template <class Value>
class BestTokens {
  public:
    explicit BestTokens(const SelectOps<Value>& ops) : ops_(ops) {}
    void reserve(std::int64_t k, std::int64_t lanes) {
        k_ = k;
        lanes_ = lanes;
        best_.reserve(k * lanes);
        token_.reserve(k * lanes);
    }
    void clear() { count_ = 0; }
    /// How many there are: all lanes have seen the same tokens.
    [[nodiscard]] std::int64_t count() const { return count_; }
    [[nodiscard]] Value best(std::int64_t rank, std::int64_t lane) const { return best_[rank * lanes_ + lane]; }
    [[nodiscard]] std::int32_t token(std::int64_t rank, std::int64_t lane) const {
        return token_[rank * lanes_ + lane];
    }

    void add(const Value* similarity, std::int32_t token) {
        if (count_ < k_) {
            for (std::int64_t lane = 0; lane < lanes_; ++lane) insert(lane, count_, similarity[lane], token);
            ++count_;
            return;
        }
        const Value* last = best_.data() + (k_ - 1) * lanes_;
        if (!ops_.any_above(similarity, last, lanes_)) return;
        for (std::int64_t lane = 0; lane < lanes_; ++lane) {
            if (beats(similarity[lane], last[lane])) insert(lane, k_ - 1, similarity[lane], token);
        }
    }

  private:
    /// Into the sorted ranks below `rank`, whose own entry is lost.
    void insert(std::int64_t lane, std::int64_t rank, Value similarity, std::int32_t token) {
        for (; rank > 0 && beats(similarity, best(rank - 1, lane)); --rank) {
            best_[rank * lanes_ + lane] = best_[(rank - 1) * lanes_ + lane];
            token_[rank * lanes_ + lane] = token_[(rank - 1) * lanes_ + lane];
        }
        best_[rank * lanes_ + lane] = similarity;
        token_[rank * lanes_ + lane] = token;
    }

    const SelectOps<Value>& ops_;
    Buffer<Value> best_;          ///< [k][lanes]
    Buffer<std::int32_t> token_;  ///< [k][lanes]
    std::int64_t k_ = 1;
    std::int64_t lanes_ = 0;
    std::int64_t count_ = 0;
};

/// What the folds share: the query block, and scores that grow from slice to slice of a long query.
template <class Value>
class FoldBase {
  public:
    FoldBase(const core::Params& params, const Schedule& schedule) : params_(params), schedule_(schedule) {}

    void load(const QueryBlock<Value>& queries, const Span& span) {
        queries_ = &queries;
        unit_ = span.unit;
        values_.reserve(queries.lanes());
    }

  protected:
    /// Calls f(piece, pair) for every query of the block and document `item`.
    template <class F>
    void each_pair(std::int64_t item, F f) {
        for (const Piece& piece : queries_->pieces()) f(piece, schedule_.pair(piece.query, unit_ + item));
    }
    /// A lane's value times the factor of its token.
    [[nodiscard]] Value scaled(Value value, std::int64_t lane) const {
        return queries_->scales() == nullptr ? value : value * queries_->scales()[lane];
    }

    const core::Params& params_;
    const Schedule& schedule_;
    const QueryBlock<Value>* queries_ = nullptr;
    std::int64_t unit_ = 0;
    Buffer<Value> values_;  ///< of lanes
    Buffer<Value> scratch_;
};

/// The mean or sum of the k best.
template <class Value>
class TopTokensFold : public FoldBase<Value> {
  public:
    TopTokensFold(const core::Params& params, const Schedule& schedule, const SelectOps<Value>& ops,
                  const core::TopTokens& out)
        : FoldBase<Value>(params, schedule), out_(out), best_(ops) {}

    void load(const QueryBlock<Value>& queries, const Span& span) {
        FoldBase<Value>::load(queries, span);
        totals_.reserve(span.count);
        best_.reserve(std::clamp<std::int64_t>(this->params_.d.max_length, 1, out_.k), queries.lanes());
    }
    void open() { best_.clear(); }
    void add(const SimilarityBlock<Value>& block) {
        for (std::int64_t r = 0; r < block.rows->count; ++r) best_.add(block.at(0, r), block.rows->tokens[r]);
    }
    void close(std::int64_t item) {
        for (std::int64_t lane = 0; lane < this->queries_->rows(); ++lane) this->values_[lane] = value(lane);
        this->each_pair(item, [&](const Piece& piece, std::int64_t pair) {
            const Value* values = best_.count() > 0 ? this->values_.data() : nullptr;
            if (out_.index != nullptr) write_index(piece, pair);
            const bool done = write_tokens<Value>(this->params_, *this->queries_, piece, pair, values, totals_[item],
                                                  this->scratch_, nullptr);
            if (done) static_cast<Value*>(out_.scores)[pair] = static_cast<Value>(totals_[item]);
        });
    }

  private:
    [[nodiscard]] Value value(std::int64_t lane) const {
        double sum = 0;
        for (std::int64_t rank = 0; rank < best_.count(); ++rank) sum += double{best_.best(rank, lane)};
        if (out_.mean && best_.count() > 1) sum /= static_cast<double>(best_.count());
        return this->scaled(static_cast<Value>(sum), lane);
    }

    void write_index(const Piece& piece, std::int64_t pair) const {
        std::int32_t* to = out_.index + pair * this->params_.q.max_length * out_.k;
        const std::int64_t end = piece.final ? this->params_.q.max_length : piece.end;
        std::fill(to + piece.begin * out_.k, to + end * out_.k, -1);
        for (std::int64_t lane = piece.first_lane; lane < piece.first_lane + piece.kept; ++lane) {
            std::int32_t* tokens = to + this->queries_->position(lane) * out_.k;
            for (std::int64_t rank = 0; rank < best_.count(); ++rank) tokens[rank] = best_.token(rank, lane);
        }
    }

    const core::TopTokens& out_;
    BestTokens<Value> best_;
    Buffer<double> totals_;
};

/// Maxima of lanes and their tokens, as the tile kernel folds them.
template <class Value>
struct LaneMaxima {
    Buffer<Value> best;
    Buffer<Index<Value>> token;
    std::int64_t lanes = 0;

    void reserve(std::int64_t count) {
        lanes = count;
        best.reserve(count);
        token.reserve(count);
    }
    void clear() {
        std::fill_n(best.data(), lanes, -std::numeric_limits<Value>::infinity());
        std::fill_n(token.data(), lanes, Index<Value>{-1});
    }
    void add(const SelectOps<Value>& ops, const SimilarityBlock<Value>& block, std::int64_t prefix) {
        ops.fold_rows(block.at(prefix, 0), block.rows->tokens, block.rows->count, lanes, best.data(), token.data());
    }
    /// The token that gave a lane's maximum: where all are minus infinity, the first.
    [[nodiscard]] std::int32_t winner(std::int64_t lane, std::int32_t first_kept) const {
        return token[lane] < 0 ? first_kept : static_cast<std::int32_t>(token[lane]);
    }
};

/// The maximum over every prefix of the dimensions.
template <class Value>
class PrefixFold : public FoldBase<Value> {
  public:
    PrefixFold(const core::Params& params, const Schedule& schedule, const SelectOps<Value>& ops,
               const core::Prefixes& out)
        : FoldBase<Value>(params, schedule), ops_(ops), out_(out), maxima_(static_cast<std::size_t>(out.count)) {}

    void load(const QueryBlock<Value>& queries, const Span& span) {
        FoldBase<Value>::load(queries, span);
        totals_.reserve(span.count * out_.count);
        for (LaneMaxima<Value>& maxima : maxima_) maxima.reserve(queries.lanes());
    }
    void open() {
        first_kept_ = -1;
        for (LaneMaxima<Value>& maxima : maxima_) maxima.clear();
    }
    void add(const SimilarityBlock<Value>& block) {
        if (first_kept_ < 0) first_kept_ = block.rows->tokens[0];
        for (std::int64_t p = 0; p < out_.count; ++p) {
            maxima_[static_cast<std::size_t>(p)].add(ops_, block, p);
        }
    }
    void close(std::int64_t item) {
        for (std::int64_t p = 0; p < out_.count; ++p) {
            const LaneMaxima<Value>& maxima = maxima_[static_cast<std::size_t>(p)];
            const Value* values = first_kept_ < 0 ? nullptr : maxima.best.data();
            double& total = totals_[item * out_.count + p];
            const std::int64_t first = p * this->params_.pairs.count;
            this->each_pair(item, [&](const Piece& piece, std::int64_t pair) {
                if (out_.index != nullptr) write_index(maxima, piece, first + pair);
                const bool done = write_tokens<Value>(this->params_, *this->queries_, piece, pair, values, total,
                                                      this->scratch_, nullptr);
                if (done) static_cast<Value*>(out_.scores)[first + pair] = static_cast<Value>(total);
            });
        }
    }

  private:
    void write_index(const LaneMaxima<Value>& maxima, const Piece& piece, std::int64_t row) const {
        std::int32_t* to = out_.index + row * this->params_.q.max_length;
        std::fill(to + piece.begin, to + (piece.final ? this->params_.q.max_length : piece.end), -1);
        if (first_kept_ < 0) return;
        for (std::int64_t lane = piece.first_lane; lane < piece.first_lane + piece.kept; ++lane) {
            to[this->queries_->position(lane)] = maxima.winner(lane, first_kept_);
        }
    }

    const SelectOps<Value>& ops_;
    const core::Prefixes& out_;
    std::vector<LaneMaxima<Value>> maxima_;
    std::int32_t first_kept_ = -1;
    Buffer<double> totals_;
};

/// temperature x log of the sum of exp(similarity / temperature), the largest similarity taken out: one pass, as online
/// softmax has it (Milakov and Gimelshein, 2018, https://arxiv.org/abs/1805.02867).
template <class Value>
class SmoothFold : public FoldBase<Value> {
  public:
    SmoothFold(const core::Params& params, const Schedule& schedule, const SelectOps<Value>& ops,
               const core::Smooth& out)
        : FoldBase<Value>(params, schedule),
          ops_(ops),
          out_(out),
          factor_(exponential_factor<Value>(out.temperature)) {}

    void load(const QueryBlock<Value>& queries, const Span& span) {
        FoldBase<Value>::load(queries, span);
        totals_.reserve(span.count);
        for (Buffer<Value>* lanes : {&largest_, &sum_, &shift_, &old_}) lanes->reserve(queries.lanes());
    }
    void open() {
        seen_ = false;
        std::fill_n(largest_.data(), lanes(), -std::numeric_limits<Value>::infinity());
        std::fill_n(sum_.data(), lanes(), Value{0});
    }
    void add(const SimilarityBlock<Value>& block) {
        seen_ = true;
        std::copy_n(largest_.data(), lanes(), old_.data());
        for (std::int64_t r = 0; r < block.rows->count; ++r) raise_largest(block.at(0, r));
        for (std::int64_t lane = 0; lane < lanes(); ++lane) {
            shift_[lane] = std::isfinite(largest_[lane]) ? largest_[lane] : Value{0};
        }
        ops_.exponentials(old_.data(), shift_.data(), factor_, lanes());
        for (std::int64_t lane = 0; lane < lanes(); ++lane) sum_[lane] *= old_[lane];
        for (std::int64_t r = 0; r < block.rows->count; ++r) {
            Value* row = block.at(0, r);
            ops_.exponentials(row, shift_.data(), factor_, lanes());
            for (std::int64_t lane = 0; lane < lanes(); ++lane) sum_[lane] += row[lane];
        }
    }
    void close(std::int64_t item) {
        for (std::int64_t lane = 0; lane < this->queries_->rows(); ++lane) this->values_[lane] = value(lane);
        const Value* values = seen_ ? this->values_.data() : nullptr;
        this->each_pair(item, [&](const Piece& piece, std::int64_t pair) {
            const bool done = write_tokens<Value>(this->params_, *this->queries_, piece, pair, values, totals_[item],
                                                  this->scratch_, nullptr);
            if (done) static_cast<Value*>(out_.scores)[pair] = static_cast<Value>(totals_[item]);
            if (out_.tokens != nullptr) keep(piece, pair);
        });
    }

  private:
    [[nodiscard]] std::int64_t lanes() const { return this->queries_->lanes(); }

    /// The row times the factors of the query tokens, and the largest of each lane; a NaN is the largest.
    void raise_largest(Value* row) {
        const Value* scales = this->queries_->scales();
        if (scales != nullptr) {
            for (std::int64_t lane = 0; lane < this->queries_->rows(); ++lane) row[lane] *= scales[lane];
        }
        Value* largest = largest_.data();
        for (std::int64_t lane = 0; lane < lanes(); ++lane) {
            const bool wins = !(row[lane] <= largest[lane]) & (largest[lane] == largest[lane]);
            largest[lane] = wins ? row[lane] : largest[lane];
        }
    }

    /// What the backward pass wants.
    void keep(const Piece& piece, std::int64_t pair) {
        auto* to = static_cast<Value*>(out_.tokens);
        for (const Buffer<Value>* lanes : {&largest_, &sum_}) {
            double unused = 0;
            write_tokens<Value>(this->params_, *this->queries_, piece, pair, seen_ ? lanes->data() : nullptr, unused,
                                this->scratch_, to);
            to += this->params_.pairs.count * this->params_.q.max_length;
        }
    }

    [[nodiscard]] Value value(std::int64_t lane) const {
        if (!std::isfinite(largest_[lane])) return largest_[lane];
        return static_cast<Value>(double{largest_[lane]} + out_.temperature * std::log(double{sum_[lane]}));
    }

    const SelectOps<Value>& ops_;
    const core::Smooth& out_;
    Value factor_;
    bool seen_ = false;
    Buffer<Value> largest_;
    Buffer<Value> sum_;
    Buffer<Value> shift_;
    Buffer<Value> old_;
    Buffer<double> totals_;
};

}  // namespace rowmax::cpu
