// The tokens that were chosen, region by region: each with the query tokens that chose it, ascending.
#pragma once

#include <cstdint>
#include <vector>

#include "core/params.hpp"
#include "cpu/kernels/regions.hpp"

namespace rowmax::cpu {

/// A query token that chose a document's token.
struct Source {
    std::int64_t pair = 0;
    std::int64_t position = 0;  ///< in the query
    std::int64_t row = -1;      ///< of the documents' storage; -1: none won, or the index lies
};

/// The winners of one region of the documents, a map from their rows to the sources that chose them and back.
struct RegionWinners {
    RowRange rows;
    const std::int64_t* pairs = nullptr;  ///< of the region, ascending
    std::int64_t pair_count = 0;
    std::vector<std::int64_t> starts;   ///< [rows + 1]: sources of each row, into `sources`
    std::vector<std::int64_t> sources;  ///< numbers that source() takes
    std::vector<std::int32_t> number;   ///< [rows]: which winner of the group a row is; -1: none
};

/// One winner of a group.
struct Winner {
    std::int64_t row = 0;     ///< of the documents' storage
    std::int64_t region = 0;  ///< of the group
};

/// Walks through the regions of the documents' storage in groups of about so many sources.
class WinnerGroups {
  public:
    WinnerGroups(const core::Params& params, const core::Gradients& gradients, std::int64_t most_sources,
                 std::int64_t most_winners, int threads);

    /// Takes the regions that follow; false when there are no more.
    bool next();

    [[nodiscard]] const std::vector<RegionWinners>& regions() const { return group_; }
    /// In the order of their rows.
    [[nodiscard]] const std::vector<Winner>& winners() const { return winners_; }
    /// Source `number` of a region's pairs.
    [[nodiscard]] Source source(const RegionWinners& region, std::int64_t number) const;
    /// Source of a pair at a position of its query.
    [[nodiscard]] Source source_of(std::int64_t pair, std::int64_t position) const;

  private:
    void choose_regions();
    void sort(RegionWinners& region) const;
    void number_winners();

    const core::Params& params_;
    const core::Gradients& gradients_;
    Regions all_;
    std::int64_t most_sources_;
    std::int64_t most_winners_;
    int threads_;
    std::int64_t region_ = 0;               ///< the first that was not taken yet
    std::vector<std::int64_t> first_pair_;  ///< pairs of every region: pairs_[first_pair_[r]] .., ascending
    std::vector<std::int64_t> pairs_;
    std::vector<RegionWinners> group_;
    std::vector<Winner> winners_;
};

}  // namespace rowmax::cpu
