// A block of query rows, packed for the tile kernel, and the way back from lanes to queries and positions.
//
//   queries            positions 0 1 2 3 | 0 1 2        x: hidden
//                                a b x c | d x e
//   lanes                        a b c d e 0 0 0        panels of two vectors, the last perhaps of one; a few rows
//   panel                        [dim][lanes]           element k of every lane side by side     left over: no padding
#pragma once

#include <cstdint>
#include <vector>

#include "core/params.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/row_values.hpp"
#include "cpu/kernels/tile_ops.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

/// Positions begin .. end of one query, and where their kept tokens are.
struct Piece {
    std::int64_t query = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t first_lane = 0;
    std::int64_t kept = 0;
    bool final = true;  ///< the query ends here
};

template <class Value>
class QueryBlock {
  public:
    /// Takes queries [first, last), or positions [begin, end) of the query `first`.
    void gather_queries(const core::Params& params, std::int64_t first, std::int64_t last);
    void gather_slice(const core::Params& params, std::int64_t query, std::int64_t begin, std::int64_t end);
    /// Packs what was gathered, with the factor of each row where there are any. `few` false: in panels only.
    void pack(const TileOps& ops, const core::Params& params, bool few = true);

    [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
    [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
    /// Position in its query of a lane's token.
    [[nodiscard]] std::int64_t position(std::int64_t lane) const { return positions_[static_cast<std::size_t>(lane)]; }
    /// Factor of a lane's maximum: its token's inverse norm with `normalize`, or its scale; null where there is none.
    [[nodiscard]] const Value* scales() const { return scaled_ ? scales_.data() : nullptr; }
    [[nodiscard]] const Value* panels() const { return panels_.data(); }
    /// Wide panels, then narrow ones, then the panel of the few rows that need no whole vector.
    [[nodiscard]] const QuerySplit& split() const { return split_; }
    /// Lanes of wide and narrow panels; those of the few rows follow.
    [[nodiscard]] std::int64_t panel_lanes() const { return panel_lanes_; }
    [[nodiscard]] std::int64_t lanes() const { return panel_lanes_ + split_.few; }

  private:
    void clear();
    void add(const core::Params& params, std::int64_t query, std::int64_t begin, std::int64_t end);
    void pack_panel(const TileOps& ops, const core::Params& params, Value* panel, std::int64_t first,
                    std::int64_t lanes);

    std::vector<Piece> pieces_;
    std::vector<const std::byte*> rows_;
    std::vector<std::int64_t> positions_;
    std::vector<float> stored_scales_;  ///< of quantised tokens, row by row
    Buffer<Value> scales_;
    Buffer<Value> panels_;
    Buffer<Value> scratch_;
    bool scaled_ = false;
    QuerySplit split_;
    std::int64_t panel_lanes_ = 0;
};

}  // namespace rowmax::cpu
