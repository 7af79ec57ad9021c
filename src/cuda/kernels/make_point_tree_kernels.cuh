// The kernels of trees over points for one type of distances; the files of inst/ instantiate them.
#pragma once

#include "cuda/kernels/point_search.cuh"

namespace rowmax::cuda {

template <class Value, int C>
void name_tree_kernels(PointTreeKernels& to) {
    to.bound[C] = reinterpret_cast<const void*>(&bound_points<Value, C>);
    to.morton[C] = reinterpret_cast<const void*>(&morton_keys<Value, C>);
    to.sorted[C] = reinterpret_cast<const void*>(&write_sorted<Value, C>);
    to.leaves[C] = reinterpret_cast<const void*>(&box_leaves<Value, C>);
    to.nodes[C] = reinterpret_cast<const void*>(&box_nodes<Value, C>);
    to.search[0][C] = reinterpret_cast<const void*>(&search_tree<Value, true, C>);
    to.search[1][C] = reinterpret_cast<const void*>(&search_tree<Value, false, C>);
    to.list[0][C] = reinterpret_cast<const void*>(&list_tree<Value, true, C>);
    to.list[1][C] = reinterpret_cast<const void*>(&list_tree<Value, false, C>);
}

template <class Value>
PointTreeKernels make_point_tree_kernels() {
    PointTreeKernels kernels;
    name_tree_kernels<Value, 1>(kernels);
    name_tree_kernels<Value, 2>(kernels);
    name_tree_kernels<Value, 3>(kernels);
    name_tree_kernels<Value, 4>(kernels);
    return kernels;
}

}  // namespace rowmax::cuda
