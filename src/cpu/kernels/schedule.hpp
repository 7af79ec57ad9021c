// How the pairs of a call are cut into tasks: which queries share a block, which documents go past it, and whether
// documents are cut as well.
#pragma once

#include <cstdint>
#include <vector>

#include "core/params.hpp"

namespace rowmax::cpu {

/// Consecutive units that share a query block: one per document (cross: for all queries of the block) or per pair.
struct Span {
    std::int64_t first_query = 0;
    std::int64_t last_query = 0;
    std::int64_t unit = 0;   ///< first unit
    std::int64_t count = 0;  ///< units
};

class Schedule {
  public:
    /// `block_rows`: query rows that are packed at once, a multiple of 16.
    Schedule(const core::Params& params, std::int64_t block_rows);

    [[nodiscard]] std::int64_t units() const { return units_; }
    [[nodiscard]] int threads() const { return threads_; }
    /// Into how many parts every document is cut; above 1 only when there are too few units for the threads.
    [[nodiscard]] std::int64_t parts() const { return parts_; }
    /// Tasks, each of them units [first_unit(t), first_unit(t + 1)) or, with parts, one part of one unit.
    [[nodiscard]] std::int64_t tasks() const { return tasks_; }
    [[nodiscard]] std::int64_t first_unit(std::int64_t task) const { return units_ * task / tasks_; }

    /// The longest span that starts at `unit` and ends before `limit`.
    [[nodiscard]] Span span(std::int64_t unit, std::int64_t limit) const;
    [[nodiscard]] std::int64_t document(std::int64_t unit) const;
    [[nodiscard]] std::int64_t pair(std::int64_t query, std::int64_t unit) const;
    [[nodiscard]] std::int64_t slice_rows() const { return block_rows_; }

  private:
    void group_queries();
    void choose_tasks();

    const core::Params& params_;
    std::int64_t block_rows_;
    bool cross_;
    std::vector<std::int64_t> blocks_;  ///< cross: first query of every block, and the end
    std::int64_t units_ = 0;
    std::int64_t tasks_ = 1;
    std::int64_t parts_ = 1;
    int threads_ = 1;
};

}  // namespace rowmax::cpu
