// What the two kernels for Hopper share besides the ring: how threads and registers are shared out.
#pragma once

#include "cuda/kernels/document_ring.cuh"

namespace rowmax::cuda {

/// Threads of a kernel with so many reading warpgroups, and one of warps that do the rest.
constexpr int tiled_threads(int groups) {
    return 128 * (groups + 1);
}

/// What a thread of each of so many warpgroups holds at the kernel's start, added up: they cannot share out more, or
/// wait for it forever.
constexpr int registers_of_warpgroups(int groups) {
    return 65536 / (128 * groups) / 8 * 8 * groups;
}

/// Registers of a thread after the warpgroups have shared them out anew. Who fills the ring with scales too needs more.
template <int Groups, bool Scaled = false>
struct Registers {
    static constexpr int more = Scaled && Groups > 2 ? 8 : 0;
    static constexpr int reader = (Groups == 2 ? 208 : (Groups == 3 ? 144 : 104)) - more;
    static constexpr int others = (Groups == 2 ? 88 : (Groups == 3 ? 80 : 64)) + Groups * more;
    static_assert(Groups * reader + others <= registers_of_warpgroups(Groups + 1));
};

/// Start of the ring's slots: their layout repeats every 1024 bytes.
__device__ __forceinline__ std::byte* aligned_slots(std::byte* memory) {
    return memory + (1024 - shared_address(memory) % 1024) % 1024;
}

template <TokenType Type = TokenType::f16>
__host__ __device__ constexpr int slots_of_token(std::int64_t dim) {
    return static_cast<int>((dim + slot_dims_of(Type) - 1) / slot_dims_of(Type));
}

/// Written at a kernel's start and never read.
struct Warmth {
    int words[16];
};

/// At a kernel's start: its arguments lie in constant memory, whose lines would arrive one after the other, each when
/// it is first asked for. Here every warp asks for one; the compiler leaves it in because something is done with it.
__device__ __forceinline__ void warm_up(const TiledArguments& arguments, Warmth& warmth) {
    constexpr int line = 64;
    constexpr int words = line / sizeof(int);
    constexpr int lines = static_cast<int>((sizeof(Arguments) + line - 1) / line);
    const auto warp = static_cast<int>(threadIdx.x / 32);
    if (threadIdx.x == blockDim.x - 1 && !arguments.call.d_by_loads) {
        prefetch_map(&arguments.tile);
        prefetch_map(&arguments.quarter);
    }
    if (warp < lines) warmth.words[warp] = reinterpret_cast<const int*>(&arguments.call)[warp * words];
}

/// True when `next` brings other query rows than `now`.
__device__ __forceinline__ bool new_queries(const core::Params& params, const Unit& now, const Unit& next) {
    return next.block != now.block || (query_by_item(params) && next.item != now.item);
}

}  // namespace rowmax::cuda
