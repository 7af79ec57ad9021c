// The kernels around the matrix products of a backward pass through hidden states, as the host sees them.
#pragma once

#include <cstdint>

#include "core/device_hidden.hpp"

namespace rowmax::cuda {

/// Tokens of a document are looked at so many at a time: a bit each, and a count for every 32.
inline constexpr int winner_window = 1 << 16;
inline constexpr int winner_words = winner_window / 32;
inline constexpr int winner_threads_most = 1024;

inline constexpr int hidden_row_warps = 8;  ///< of a thread block, a row each

/// By type of the states.
struct ProjectionKernels {
    const void* tokens = nullptr;          ///< float32
    const void* rounded_tokens = nullptr;  ///< of the states' type
    const void* through_norm = nullptr;
};

struct HiddenKernels {
    const void* winners = nullptr;
    const void* gather = nullptr;
    const void* scatter = nullptr;
    ProjectionKernels f16;
    ProjectionKernels bf16;
    ProjectionKernels f32;
};

extern const HiddenKernels hidden_kernels;

}  // namespace rowmax::cuda
