// The kernels on points for one type of distances; the files of inst/ instantiate them.
#pragma once

#include "cuda/kernels/nearest_held.cuh"
#include "cuda/kernels/nearest_pairs.cuh"
#include "cuda/kernels/nearest_tiles.cuh"
#include "cuda/kernels/point_gradients.cuh"
#include "cuda/kernels/point_lists.cuh"
#include "cuda/kernels/point_results.cuh"

namespace rowmax::cuda {

template <class Value, bool Squared>
void name_nearest(const void* (&to)[held_dims + 1]) {
    to[0] = reinterpret_cast<const void*>(&nearest_tiles<Value, Squared>);
    to[1] = reinterpret_cast<const void*>(&nearest_held<Value, Squared, 1>);
    to[2] = reinterpret_cast<const void*>(&nearest_held<Value, Squared, 2>);
    to[3] = reinterpret_cast<const void*>(&nearest_held<Value, Squared, 3>);
    to[4] = reinterpret_cast<const void*>(&nearest_held<Value, Squared, 4>);
}

template <class Value>
PointKernels make_point_kernels() {
    PointKernels kernels;
    kernels.gather = reinterpret_cast<const void*>(&gather_points<Value>);
    name_nearest<Value, true>(kernels.nearest[0]);
    name_nearest<Value, false>(kernels.nearest[1]);
    if constexpr (sizeof(Value) == sizeof(float)) {
        kernels.pairs[0][0] = reinterpret_cast<const void*>(&nearest_pairs<true, false>);
        kernels.pairs[0][1] = reinterpret_cast<const void*>(&nearest_pairs<true, true>);
        kernels.pairs[1][0] = reinterpret_cast<const void*>(&nearest_pairs<false, false>);
        kernels.pairs[1][1] = reinterpret_cast<const void*>(&nearest_pairs<false, true>);
    }
    kernels.clear_lists = reinterpret_cast<const void*>(&clear_lists<Value>);
    kernels.list[0] = reinterpret_cast<const void*>(&list_tiles<Value, true>);
    kernels.list[1] = reinterpret_cast<const void*>(&list_tiles<Value, false>);
    kernels.write_nearest = reinterpret_cast<const void*>(&write_nearest<Value>);
    kernels.chamfer = reinterpret_cast<const void*>(&add_chamfer<Value>);
    kernels.weigh = reinterpret_cast<const void*>(&weigh_items<Value>);
    kernels.gradient[0] = ordered_sum_kernels<PointTerms<Value, 1>>();
    kernels.gradient[1] = ordered_sum_kernels<PointTerms<Value, 3>>();
    kernels.gradient[2] = ordered_sum_kernels<PointTerms<Value, 16 / sizeof(Value)>>();
    return kernels;
}

}  // namespace rowmax::cuda
