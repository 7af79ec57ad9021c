// A compiled kernel, as the host sees it.
#pragma once

#include <cstdint>

#include "core/params.hpp"
#include "cuda/kernels/plan.hpp"
#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

enum class NormalizeUse : std::uint8_t { either, never, only };

struct KernelEntry {
    explicit constexpr KernelEntry(TokenType of) : type(of) {}

    TokenType type;
    const void* function = nullptr;
    int rows = 0;          ///< most query rows of a block
    int least_rows = 0;    ///< least that it can be told to take instead, in powers of two
    int row_step = 0;      ///< where not 0: it takes any multiple of that instead, from two on
    bool indexed = false;  ///< keeps winning tokens
    NormalizeUse normalize = NormalizeUse::either;
    int control_bytes = 0;  ///< shared memory; for Hopper: besides the slots of both sides
    int rings = 1;          ///< of document tiles, each with a warpgroup or two that read it
    int threads = 0;
};

/// The kernels of one row of the table: with and without winning tokens, by rising number of rows.
struct KernelSet {
    const KernelEntry* entries = nullptr;
    int count = 0;
};

}  // namespace rowmax::cuda
