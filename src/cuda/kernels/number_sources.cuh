// Sources and the gradient rows that they add to, to be sorted by row.
#pragma once

#include "cuda/kernels/winner.cuh"

namespace rowmax::cuda {

inline constexpr int number_threads = 256;

/// One thread a source: the gradient row that it adds to, one past the last where it adds nothing.
__global__ void __launch_bounds__(number_threads) number_sources(const __grid_constant__ NumberArguments call) {
    const std::int64_t number = std::int64_t{blockIdx.x} * number_threads + threadIdx.x;
    if (number >= call.to.count) return;
    const core::Params& params = call.params;
    const std::int64_t pair = core::detail::quotient(number, params.q.max_length);
    const std::int64_t position = number - pair * params.q.max_length;
    const std::int64_t token = winner(call.gradients, number);
    const core::Segment query = params.q.at(params.pairs.query(pair));
    const core::Segment document = params.d.at(params.pairs.document(pair));
    const bool adds = token >= 0 && token < document.length && position < query.length;
    const core::Segments& own = call.side == Side::queries ? params.q : params.d;
    const std::int64_t row = call.side == Side::queries ? query.first_row + position : document.first_row + token;
    call.to.rows[number] = static_cast<std::uint32_t>(adds ? row : own.total_rows);
    call.to.numbers[number] = static_cast<std::uint32_t>(number);
}

}  // namespace rowmax::cuda
