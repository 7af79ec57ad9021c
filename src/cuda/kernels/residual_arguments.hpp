// What the kernels of residual documents are given, and how what they share is laid out. Plain arithmetic, tested on
// the host.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/arguments.hpp"

namespace rowmax::cuda {

/// Dimensions that a quad of lanes takes at once, 16 neighbours a lane: four steps of the matrix unit.
inline constexpr int residual_chunk = 64;
inline constexpr int residual_lane_dims = 16;
/// Chunks whose products tensor cores add in one chain.
inline constexpr int chunks_of_residual_chain = 2;
inline constexpr int residual_tile = 16;  ///< tokens of a warp
inline constexpr int residual_warps = 4;

/// Where dimension `e` of a lane's 16 goes in query rows and centroids: number 4 t + 2 r + h is half h of register r of
/// step t. Buckets of 1 and 2 bits are looked up in pairs that lie a byte apart.
constexpr int residual_slot(int nbits, int e) {
    if (nbits == 1) return e % 8 * 2 + e / 8;
    if (nbits == 2) return e % 4 * 4 + e / 4;
    return e;
}
/// The inverse.
constexpr int residual_dim(int nbits, int slot) {
    if (nbits == 1) return slot % 2 * 8 + slot / 2;
    if (nbits == 2) return slot % 4 * 4 + slot / 4;
    return slot;
}

/// Elements of a row of centroids or queries in float16: whole chunks.
constexpr std::int64_t residual_row(std::int64_t dim) {
    return (dim + residual_chunk - 1) / residual_chunk * residual_chunk;
}

/// Of a query row in shared memory: eight of them meet no bank twice.
constexpr std::int64_t residual_query_bytes(std::int64_t dim) {
    return residual_row(dim) * 2 + 16;
}

/// Centroids as the matrix unit takes them: rows of float16, times a power of two, and what float16 did not hold.
struct CentroidTable {
    std::byte* rows = nullptr;  ///< [count][parts][residual_row]
    float2* rest = nullptr;     ///< [count]: the square of the norm, and one over the power of two
    std::int64_t count = 0;
    int parts = 1;
};

/// The documents of `call.params` are rows of packed bytes.
struct ResidualArguments {
    Arguments call;
    CentroidTable table;
    core::TokenSteps steps;  ///< of codes
    const void* codes = nullptr;
    const std::byte* centroids = nullptr;  ///< as they were given; null: zeros, and no codes
    std::int64_t centroid_stride = 0;
    const std::byte* weights = nullptr;  ///< null: -1 and 1
    std::int64_t weight_stride = 0;
    DType centroid_dtype = DType::f32;
    DType weight_dtype = DType::f32;
    DType query_dtype = DType::f32;
    bool wide_codes = false;
    bool little = false;
    bool normalize = false;       ///< documents' tokens
    bool fields_by_lane = false;  ///< a lane's bytes of a chunk can be loaded at once
    int nbits = 0;
    int query_parts = 1;
    float surplus = 0;  ///< what each similarity has too much: of bits behind the last dimension, equal on both sides
};

}  // namespace rowmax::cuda
