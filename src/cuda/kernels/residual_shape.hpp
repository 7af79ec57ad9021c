// Which residual kernel is meant: what it was compiled for.
#pragma once

namespace rowmax::cuda {

/// Any table, any layout, any number of dimensions. Long: more than one chain of them.
template <int Bits, int Tiles, bool Long>
struct AnyResidual {
    static constexpr int bits = Bits;
    static constexpr int tiles = Tiles;  ///< eights of query rows
    static constexpr int dim = 0;        ///< known when it runs
    static constexpr bool is_long = Long;
    static constexpr bool indexed = true;
    static constexpr int query_parts = 0;  ///< known when it runs
    static constexpr int blocks = 2;       ///< thread blocks that share a multiprocessor
};

/// 128 dimensions, float16 tables, no mask, bytes that can be copied 16 at a time. QueryParts: 0, as in AnyResidual.
/// Without Centroids: sign bits.
template <int Bits, int QueryParts, bool Centroids, bool Indexed>
struct HalfResidual {
    static constexpr int bits = Bits;
    static constexpr int tiles = 4;
    static constexpr int dim = 128;
    static constexpr bool is_long = false;
    static constexpr bool indexed = Indexed;
    static constexpr int query_parts = QueryParts;
    static constexpr bool centroids = Centroids;
    /// As many as there are registers for.
    static constexpr int blocks = Indexed || (Centroids && Bits != 2) ? 3 : 4;
};

/// Whether tiles come through shared memory.
template <class Shape>
inline constexpr bool ringed = Shape::dim != 0;

}  // namespace rowmax::cuda
