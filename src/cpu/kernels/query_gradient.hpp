// The gradient of queries whose documents are projected: sums over documents that come group by group.
#pragma once

#include <cstdint>
#include <vector>

#include "core/params.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/regions.hpp"
#include "cpu/kernels/tile_ops.hpp"
#include "cpu/kernels/winners.hpp"

namespace rowmax::cpu {

/// Tokens of a group's winners: the one that was scored is row * factor.
template <class Value>
struct WinnerRows {
    const Value* rows = nullptr;
    const Value* factors = nullptr;
    std::int64_t width = 0;  ///< values between rows
};

/// A row's sources are added in runs of 256, in the order of the documents' storage; the runs in order.
template <class Value>
class QueryGradient {
  public:
    QueryGradient(const TileOps& ops, const core::Params& params, const core::Gradients& gradients, int threads);

    void add(const WinnerGroups& groups, const WinnerRows<Value>& winners);
    /// Writes the rows, rounded once to the queries' type.
    void finish();

  private:
    /// A pair of the group.
    struct Pair {
        std::int64_t pair = 0;
        const RegionWinners* region = nullptr;
    };

    void sort_pairs(const WinnerGroups& groups);
    void add_pair(const WinnerGroups& groups, const Pair& pair, const WinnerRows<Value>& winners);
    void close_run(std::int64_t row);

    const TileOps& ops_;
    const core::Params& params_;
    const core::Gradients& gradients_;
    int threads_;
    Regions regions_;                   ///< of the queries
    std::vector<Pair> pairs_;           ///< of the group
    std::vector<std::int64_t> first_;   ///< of every region: order_[first_[r]] ..
    std::vector<std::int64_t> order_;   ///< numbers of pairs_
    std::vector<std::int32_t> in_run_;  ///< sources of each row's run
    Buffer<Value> run_;                 ///< [rows][d]
    Buffer<Value> total_;
};

}  // namespace rowmax::cpu
