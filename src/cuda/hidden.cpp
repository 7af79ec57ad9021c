// Around the matrix products of a backward pass through hidden states, behind core/device_hidden.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "core/device_hidden.hpp"
#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/hidden_kernels.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

template <class Call>
void run(const core::Place& place, const void* kernel, std::int64_t blocks, int threads, const Call& call) {
    if (blocks == 0) return;
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    if (blocks > most) {
        throw Error(ErrorCode::not_implemented,
                    fmt::format("hidden states on {} thread blocks, more than 2^31", blocks));
    }
    const CurrentDevice current(place.ordinal);
    wake_device(place.ordinal);
    launch(kernel, {blocks, threads}, place, &call);
}

/// A warp for each of `rows` rows.
template <class Call>
void run_rows(const core::Place& place, const void* kernel, std::int64_t rows, const Call& call) {
    run(place, kernel, (rows + hidden_row_warps - 1) / hidden_row_warps, 32 * hidden_row_warps, call);
}

const ProjectionKernels& projection_of(DType dtype) {
    switch (dtype) {
        case DType::f16: return hidden_kernels.f16;
        case DType::bf16: return hidden_kernels.bf16;
        default: return hidden_kernels.f32;
    }
}

void find_winners(const core::Place& place, const core::HiddenWinners& call) {
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    if (call.sources() > most) {
        throw Error(ErrorCode::not_implemented,
                    fmt::format("gradients from {} query tokens: at most 2^31", call.sources()));
    }
    constexpr std::int64_t least_threads = 128;
    const std::int64_t sources = (call.sources() + 31) / 32 * 32;
    const std::int64_t threads = std::clamp<std::int64_t>(sources, least_threads, winner_threads_most);
    run(place, hidden_kernels.winners, call.documents, static_cast<int>(threads), call);
}

void gather_rows(const core::Place& place, const core::ChosenRows& call) {
    run_rows(place, hidden_kernels.gather, call.count, call);
}

void scatter_rows(const core::Place& place, const core::ChosenRows& call) {
    run_rows(place, hidden_kernels.scatter, call.count, call);
}

void make_tokens(const core::Place& place, const core::ProjectedSums& call) {
    const ProjectionKernels& kernels = projection_of(call.dtype);
    run_rows(place, call.rounded ? kernels.rounded_tokens : kernels.tokens, call.count, call);
}

void through_norm(const core::Place& place, const core::ProjectedGradients& call) {
    run_rows(place, projection_of(call.dtype).through_norm, call.count, call);
}

constexpr core::DeviceHidden operations{&find_winners, &gather_rows, &scatter_rows, &make_tokens, &through_norm};

}  // namespace
}  // namespace rowmax::cuda

namespace rowmax::core {

const DeviceHidden* device_hidden() {
    return &cuda::operations;
}

}  // namespace rowmax::core
