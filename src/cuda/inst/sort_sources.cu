#include "cuda/sort_sources.hpp"

#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/number_sources.cuh"
#include "cuda/radix_sort.hpp"

namespace rowmax::cuda {

namespace {

std::int64_t sources_of(const core::Params& params) {
    return params.pairs.count * params.q.max_length;
}

/// One past the last row is where sources without one go.
std::int64_t rows_of(const core::Params& params, Side side) {
    return side == Side::queries ? params.q.total_rows : params.d.total_rows;
}

}  // namespace

std::size_t sort_sources_bytes(const core::Params& params, Side side) {
    return sort_bytes(sources_of(params), rows_of(params, side));
}

SortedSources sort_sources(const core::Params& params, const core::Gradients& gradients, Side side, std::byte* memory) {
    const std::int64_t count = sources_of(params);
    const SortLists lists = lists_to_sort(memory, count);
    const NumberArguments arguments{params, gradients, {lists.keys, lists.numbers, count}, side};
    launch(reinterpret_cast<const void*>(&number_sources),
           {(count + number_threads - 1) / number_threads, number_threads}, params.place, &arguments);
    const SortLists sorted = sort_by_key(memory, count, rows_of(params, side), params.place);
    return {sorted.keys, sorted.numbers, count};
}

}  // namespace rowmax::cuda
