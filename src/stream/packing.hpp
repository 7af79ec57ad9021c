// Items of any layout, their tokens one behind the other: the one form in which blocks go to a device. The layout
// changes no bit of a score, so what reads in place on the host need not be told apart there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/views.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::stream {

/// What becomes of tokens that a mask hides.
/// Bytes of a token, and of what belongs to it: its scale or its centroid's number.
struct RowBytes {
    std::int64_t token = 1;
    std::int64_t beside = 0;
};

enum class Hidden {
    left_out,  ///< documents: they are not there
    kept,      ///< queries: a token's place decides in which group it is summed, so it keeps it, and mask() says so
};

class Packing {
  public:
    /// `items` must outlive it.
    Packing(const TokenSet& items, Hidden hidden);

    [[nodiscard]] std::int64_t items() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
    [[nodiscard]] std::int64_t rows() const { return starts_.back(); }
    [[nodiscard]] std::int64_t longest() const { return longest_; }
    [[nodiscard]] const RowBytes& row_bytes() const { return row_bytes_; }
    /// items() + 1: the row where each item begins.
    [[nodiscard]] const std::vector<std::int64_t>& starts() const { return starts_; }
    /// One byte a row, 0 for hidden ones; empty when nothing is hidden.
    [[nodiscard]] const std::vector<std::uint8_t>& mask() const { return mask_; }

    /// Writes the tokens of rows [first, last).
    void write(std::int64_t first, std::int64_t last, std::byte* to, int threads) const;
    /// Writes what belongs to them.
    void write_beside(std::int64_t first, std::int64_t last, std::byte* to) const;

  private:
    /// Rows that lie one behind the other at `from` too, and what belongs to them at `beside`; the first of them
    /// becomes row `at`.
    struct Run {
        const std::byte* from = nullptr;
        const std::byte* beside = nullptr;
        std::int64_t at = 0;
    };
    /// Elements of which each row has one.
    struct Column {
        const std::byte* Run::*start;
        std::int64_t bytes = 0;
        std::int64_t stride = 0;  ///< bytes, where they are read
    };
    void find_beside(const TokenSet& items);
    void add(const core::Segments& side, std::int64_t item, std::int64_t token, std::int64_t rows);
    void write_column(const Column& column, std::int64_t first, std::int64_t last, std::byte* to) const;

    core::Copies copies_;
    RowBytes row_bytes_;
    std::int64_t row_stride_ = 0;
    const std::byte* beside_ = nullptr;  ///< of the first item of the storage
    core::TokenSteps beside_steps_;
    std::vector<Run> runs_;
    std::int64_t written_ = 0;  ///< rows of all runs
    std::vector<std::int64_t> starts_{0};
    std::vector<std::uint8_t> mask_;
    std::int64_t longest_ = 0;
};

}  // namespace rowmax::stream
