// Operators on points, on the CPU: the first instruction set that this machine has, and what is made of distances.
#include <algorithm>
#include <memory>

#include "core/point_backend.hpp"
#include "cpu/kernels/nearest.hpp"
#include "cpu/kernels/nearest_backward.hpp"
#include "cpu/point_rows.hpp"

namespace rowmax::cpu {

namespace {

using core::ChamferOutputs;
using core::NearestOutputs;
using core::PointParams;

/// Sum of an item's distances; those of points that are not kept, or see nothing, are 0.
template <class Value>
double sum_of(const core::Segments& side, std::int64_t item, const Value* distance, bool mean) {
    constexpr std::int64_t run = 256;
    const core::Segment segment = side.at(item);
    double total = 0;
    std::int64_t kept = 0;
    for (std::int64_t first = 0; first < segment.length; first += run) {
        double sum = 0;
        for (std::int64_t s = first; s < std::min(first + run, segment.length); ++s) {
            kept += side.keeps(segment, s) ? 1 : 0;
            sum += distance[segment.first_row + s];
        }
        total += sum;
    }
    return mean && kept > 0 ? total / static_cast<double>(kept) : total;
}

template <class Value>
void reduce_chamfer(const PointParams& params, const ChamferOutputs& to) {
    for (std::int64_t i = 0; i < params.p.count; ++i) {
        double sum = sum_of(params.p, i, static_cast<const Value*>(to.p.distance), to.mean);
        if (to.r.wanted) sum += sum_of(params.r, i, static_cast<const Value*>(to.r.distance), to.mean);
        static_cast<Value*>(to.value)[i] = static_cast<Value>(sum);
    }
}

/// The distances of one direction: where the caller wants them, or in memory of the call.
std::unique_ptr<std::byte[]> place_distances(const PointParams& params, const core::Segments& side,
                                             NearestOutputs& to) {
    if (!to.wanted || to.distance != nullptr) return nullptr;
    const auto bytes = static_cast<std::size_t>(side.total_rows) * size_of(params.result_dtype());
    auto held = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(bytes, 1));
    to.distance = held.get();
    return held;
}

void find_nearest(const PointParams& params, std::string_view kernel, const ChamferOutputs& outputs) {
    ChamferOutputs to = outputs;
    const auto distance_p = place_distances(params, params.p, to.p);
    const auto distance_r = place_distances(params, params.r, to.r);
    nearest(choose_point_ops(params.dtype, kernel), params, to.p, to.r);
    if (to.value == nullptr) return;
    if (params.dtype == DType::f64) {
        reduce_chamfer<double>(params, to);
    } else {
        reduce_chamfer<float>(params, to);
    }
}

void differentiate_nearest(const PointParams& params, const core::PointGradients& gradients) {
    nearest_backward(params, gradients.p, gradients.r, gradients.grad_p, gradients.grad_r);
}

constexpr core::PointBackend backend_of_points{&find_nearest, &differentiate_nearest};

}  // namespace
}  // namespace rowmax::cpu

namespace rowmax::core {

const PointBackend& cpu_points() {
    return cpu::backend_of_points;
}

}  // namespace rowmax::core
