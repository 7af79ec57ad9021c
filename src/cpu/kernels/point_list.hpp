// The k nearest of one source, as they come. Included by files under inst/ only; everything here is private to them.
#pragma once

#include "cpu/kernels/point_ops.hpp"

namespace rowmax::cpu {
namespace {

template <class Value>
bool is_nearer(Value d, std::int32_t i, Value e, std::int32_t j) {
    const bool d_nan = d != d;
    if (d_nan != (e != e)) return d_nan;
    if (!d_nan && d != e) return d < e;
    return i < j;
}

/// Takes a target in where it belongs; returns that place, or k when it is none of the nearest.
template <class Value>
__attribute__((noinline)) std::int64_t offer(NeighbourList<Value>& list, Value d, std::int32_t i) {
    if (list.count == list.k && !is_nearer(d, i, list.distance[list.k - 1], list.index[list.k - 1])) return list.k;
    std::int64_t at = list.count < list.k ? list.count++ : list.k - 1;
    for (; at > 0 && is_nearer(d, i, list.distance[at - 1], list.index[at - 1]); --at) {
        list.distance[at] = list.distance[at - 1];
        list.index[at] = list.index[at - 1];
    }
    list.distance[at] = d;
    list.index[at] = i;
    return at;
}

}  // namespace
}  // namespace rowmax::cpu
