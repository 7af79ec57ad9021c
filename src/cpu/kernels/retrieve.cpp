// XTR in two passes over the documents: the first finds, for every query token, the k best tokens of all its documents
// and keeps the last of them; the second takes maxima, and compares each with that.
//
// A document's best token is retrieved if any of its tokens is, since it comes before them in the order of retrieval:
// similarity, then document, then token. So the second pass needs the last retrieved token and no list.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/kernels/select.hpp"
#include "cpu/kernels/select_folds.hpp"

namespace rowmax::cpu {

namespace {

/// A document token as a query token found it.
template <class Value>
struct Found {
    Value similarity = 0;
    std::int64_t pair = -1;  ///< -1: there are fewer than k tokens, and all are retrieved
    std::int32_t token = -1;
};

/// The order of retrieval.
template <class Value>
bool before(const Found<Value>& a, const Found<Value>& b) {
    if (beats(a.similarity, b.similarity) || beats(b.similarity, a.similarity)) {
        return beats(a.similarity, b.similarity);
    }
    return a.pair != b.pair ? a.pair < b.pair : a.token < b.token;
}

/// The k first of what is added, in a heap whose top is the last of them.
template <class Value>
class FirstK {
  public:
    void add(const Found<Value>& found, std::int64_t k) {
        if (static_cast<std::int64_t>(heap_.size()) == k) {
            if (!before(found, heap_.front())) return;
            std::pop_heap(heap_.begin(), heap_.end(), before<Value>);
            heap_.back() = found;
        } else {
            heap_.push_back(found);
        }
        std::push_heap(heap_.begin(), heap_.end(), before<Value>);
    }
    void add(const FirstK& other, std::int64_t k) {
        for (const Found<Value>& found : other.heap_) add(found, k);
    }
    /// A similarity below this one is not among them.
    [[nodiscard]] Value least(std::int64_t k) const {
        const bool full = static_cast<std::int64_t>(heap_.size()) == k;
        return full ? heap_.front().similarity : -std::numeric_limits<Value>::infinity();
    }
    [[nodiscard]] Found<Value> last(std::int64_t k) const {
        return static_cast<std::int64_t>(heap_.size()) == k ? heap_.front() : Found<Value>{};
    }

  private:
    std::vector<Found<Value>> heap_;
};

/// Collects over all documents of its span.
template <class Value>
class CollectFold {
  public:
    CollectFold(const core::Params& params, const Schedule& schedule, std::int64_t k)
        : params_(params), schedule_(schedule), k_(k) {}

    void load(const QueryBlock<Value>& queries, const Span& span) {
        queries_ = &queries;
        unit_ = span.unit;
        lists.assign(static_cast<std::size_t>(queries.rows()), {});
        least_.reserve(queries.lanes());
        std::fill_n(least_.data(), queries.lanes(), -std::numeric_limits<Value>::infinity());
    }
    void open() {}
    void add(const SimilarityBlock<Value>& block) {
        const std::int64_t unit = unit_ + block.rows->item;
        for (const Piece& piece : queries_->pieces()) {
            const std::int64_t pair = schedule_.pair(piece.query, unit);
            for (std::int64_t r = 0; r < block.rows->count; ++r) {
                add_row(block.at(0, r), piece, pair, block.rows->tokens[r]);
            }
        }
    }
    void close(std::int64_t) {}

    std::vector<FirstK<Value>> lists;  ///< of lanes

  private:
    void add_row(const Value* row, const Piece& piece, std::int64_t pair, std::int32_t token) {
        for (std::int64_t lane = piece.first_lane; lane < piece.first_lane + piece.kept; ++lane) {
            if (row[lane] < least_[lane]) continue;
            FirstK<Value>& list = lists[static_cast<std::size_t>(lane)];
            list.add({row[lane], pair, token}, k_);
            least_[lane] = list.least(k_);
        }
    }

    const core::Params& params_;
    const Schedule& schedule_;
    std::int64_t k_;
    const QueryBlock<Value>* queries_ = nullptr;
    std::int64_t unit_ = 0;
    Buffer<Value> least_;
};

/// The first pass.
template <class Value>
class FindLast {
  public:
    FindLast(const SelectMachine<Value>& machine, const core::Params& params, std::int64_t k, Found<Value>* last)
        : machine_(machine),
          params_(params),
          k_(k),
          last_(last),
          schedule_(params, select_query_rows(machine, params)) {}

    void run() {
        const std::int64_t width = params_.pairs.width;
        const std::int64_t blocks = width == 0 ? 0 : schedule_.units() / width;
        if (blocks >= schedule_.threads()) {
            core::parallel_for(schedule_.threads(), blocks, [&](std::int64_t block) { run_block(block, 1); });
        } else {
            for (std::int64_t block = 0; block < blocks; ++block) run_block(block, schedule_.threads());
        }
    }

  private:
    void run_block(std::int64_t block, int threads) {
        const std::int64_t width = params_.pairs.width;
        const Span whole = schedule_.span(block * width, (block + 1) * width);
        each_slice(params_, whole, schedule_.slice_rows(), [&](std::int64_t from, std::int64_t to) {
            QueryBlock<Value> queries;
            load_queries(queries, machine_.tiles, params_, whole, from, to);
            const std::int64_t parts = std::min<std::int64_t>(threads, width);
            std::vector<CollectFold<Value>> folds;
            for (std::int64_t part = 0; part < parts; ++part) folds.emplace_back(params_, schedule_, k_);
            core::parallel_for(threads, parts, [&](std::int64_t part) {
                Span span = whole;
                span.unit = whole.unit + width * part / parts;
                span.count = whole.unit + width * (part + 1) / parts - span.unit;
                CollectFold<Value>& fold = folds[static_cast<std::size_t>(part)];
                fold.load(queries, span);
                Similarities<Value> similarities(machine_, params_);
                scan_documents(similarities, params_, schedule_, queries, span, fold);
            });
            write(queries, folds);
        });
    }

    void write(const QueryBlock<Value>& queries, std::vector<CollectFold<Value>>& folds) {
        for (const Piece& piece : queries.pieces()) {
            for (std::int64_t lane = piece.first_lane; lane < piece.first_lane + piece.kept; ++lane) {
                const auto at = static_cast<std::size_t>(lane);
                FirstK<Value>& all = folds[0].lists[at];
                for (std::size_t part = 1; part < folds.size(); ++part) all.add(folds[part].lists[at], k_);
                last_[piece.query * params_.q.max_length + queries.position(lane)] = all.last(k_);
            }
        }
    }

    SelectMachine<Value> machine_;
    const core::Params& params_;
    std::int64_t k_;
    Found<Value>* last_;  ///< [q.count, q.max_length]
    Schedule schedule_;
};

/// The second pass: maxima, where they were retrieved.
template <class Value>
class RetrievedFold : public FoldBase<Value> {
  public:
    RetrievedFold(const core::Params& params, const Schedule& schedule, const SelectOps<Value>& ops,
                  const core::Retrieval& out, const Found<Value>* last)
        : FoldBase<Value>(params, schedule), ops_(ops), out_(out), last_(last) {}

    void load(const QueryBlock<Value>& queries, const Span& span) {
        FoldBase<Value>::load(queries, span);
        totals_.reserve(span.count);
        counts_.reserve(span.count);
        maxima_.reserve(queries.lanes());
    }
    void open() {
        first_kept_ = -1;
        maxima_.clear();
    }
    void add(const SimilarityBlock<Value>& block) {
        if (first_kept_ < 0) first_kept_ = block.rows->tokens[0];
        maxima_.add(ops_, block, 0);
    }
    void close(std::int64_t item) {
        this->each_pair(item, [&](const Piece& piece, std::int64_t pair) {
            std::int64_t& count = counts_[item];
            if (piece.begin == 0) count = 0;
            count += take(piece, pair);
            const Value* values = first_kept_ < 0 ? nullptr : this->values_.data();
            const bool done = write_tokens<Value>(this->params_, *this->queries_, piece, pair, values, totals_[item],
                                                  this->scratch_, nullptr);
            if (!done) return;
            const double mean = count == 0 ? 0 : totals_[item] / static_cast<double>(count);
            static_cast<Value*>(out_.scores)[pair] = static_cast<Value>(mean);
        });
    }

  private:
    /// The values of a piece's lanes, and how many of its tokens count.
    std::int64_t take(const Piece& piece, std::int64_t pair) {
        std::int32_t* index = nullptr;
        if (out_.index != nullptr) {
            index = out_.index + pair * this->params_.q.max_length;
            std::fill(index + piece.begin, index + (piece.final ? this->params_.q.max_length : piece.end), -1);
        }
        if (first_kept_ < 0) return out_.impute ? piece.kept : 0;
        std::int64_t count = 0;
        for (std::int64_t lane = piece.first_lane; lane < piece.first_lane + piece.kept; ++lane) {
            const std::int64_t position = this->queries_->position(lane);
            const std::int32_t token = maxima_.winner(lane, first_kept_);
            const Found<Value> best{maxima_.best[lane], pair, token};
            const Found<Value>& last = last_[piece.query * this->params_.q.max_length + position];
            const bool retrieved = last.pair < 0 || !before(last, best);
            const Value missing = out_.impute ? last.similarity : Value{0};
            this->values_[lane] =
                retrieved || out_.impute ? this->scaled(retrieved ? best.similarity : missing, lane) : Value{0};
            if (index != nullptr) index[position] = retrieved ? token : (out_.impute ? imputed_token : -1);
            count += retrieved || out_.impute ? 1 : 0;
        }
        return count;
    }

    static constexpr std::int32_t imputed_token = -2;

    const SelectOps<Value>& ops_;
    const core::Retrieval& out_;
    const Found<Value>* last_;
    LaneMaxima<Value> maxima_;
    std::int32_t first_kept_ = -1;
    Buffer<double> totals_;
    Buffer<std::int64_t> counts_;
};

template <class Value>
void retrieve(const SelectMachine<Value>& machine, const core::Params& params, const core::Retrieval& out) {
    const std::int64_t positions = params.q.count * params.q.max_length;
    std::vector<Found<Value>> last(static_cast<std::size_t>(positions));
    FindLast<Value>(machine, params, out.k, last.data()).run();
    for (std::int64_t i = 0; out.last_pair != nullptr && i < positions; ++i) {
        out.last_pair[i] = last[static_cast<std::size_t>(i)].pair;
        out.last_token[i] = last[static_cast<std::size_t>(i)].token;
    }
    scan_pairs(machine, params, [&](const Schedule& schedule) {
        return RetrievedFold<Value>(params, schedule, machine.select, out, last.data());
    });
}

}  // namespace

void score_retrieved(const TileOps& tiles, const SelectionOps& ops, const core::Params& params,
                     const core::Retrieval& out) {
    if (params.dtype == DType::f64) {
        retrieve(machine_of<double>(tiles, ops), params, out);
    } else {
        retrieve(machine_of<float>(tiles, ops), params, out);
    }
}

}  // namespace rowmax::cpu
