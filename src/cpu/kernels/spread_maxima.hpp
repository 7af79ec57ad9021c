// Maxima of few query rows while a document goes by: spread over the lanes of document tokens, gathered at its end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/results.hpp"

namespace rowmax::cpu {

template <class Value>
class SpreadMaxima {
  public:
    /// Room for `rows` query rows over `lanes` lanes, with tokens when `indexed`.
    void reserve(std::int64_t rows, std::int64_t lanes, bool indexed) {
        rows_ = rows;
        lanes_ = lanes;
        best_.reserve(rows * lanes);
        if (indexed) index_.reserve(rows * lanes);
        indexed_ = indexed;
    }

    void reset() {
        std::fill_n(best_.data(), rows_ * lanes_, -std::numeric_limits<Value>::infinity());
        if (indexed_) std::fill_n(index_.data(), rows_ * lanes_, Index<Value>{-1});
    }

    Value* best() { return best_.data(); }
    Index<Value>* index() { return indexed_ ? index_.data() : nullptr; }

    /// One maximum and one token a row, from lane `lane` of `to` on.
    void gather(const Maxima<Value>& to, std::int64_t lane) const {
        for (std::int64_t row = 0; row < rows_; ++row) {
            const std::int64_t winner = winner_of(row * lanes_);
            to.best[lane + row] = best_[winner];
            if (to.index != nullptr) to.index[lane + row] = index_[winner];
        }
    }

  private:
    // Tokens ascend within a lane but not from lane to lane: among equals the lowest token wins, and any NaN over any
    // number. Equal maxima without tokens are the same but for the sign of zero, which then nobody asked for.
    [[nodiscard]] std::int64_t winner_of(std::int64_t first) const {
        std::int64_t winner = first;
        for (std::int64_t i = first + 1; i < first + lanes_; ++i) {
            if (beats(i, winner)) winner = i;
        }
        return winner;
    }
    [[nodiscard]] bool beats(std::int64_t a, std::int64_t b) const {
        const bool nan_a = best_[a] != best_[a];
        const bool nan_b = best_[b] != best_[b];
        if (nan_a != nan_b) return nan_a;
        if (!nan_a && best_[a] != best_[b]) return best_[a] > best_[b];
        return indexed_ && index_[a] < index_[b];
    }

    Buffer<Value> best_;
    Buffer<Index<Value>> index_;
    std::int64_t rows_ = 0;
    std::int64_t lanes_ = 0;
    bool indexed_ = false;
};

}  // namespace rowmax::cpu
