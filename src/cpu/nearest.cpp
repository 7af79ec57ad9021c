// The public operators on points: checks, the first instruction set that this machine has, and what is made of
// distances.
#include "rowmax/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/points.hpp"
#include "core/registry.hpp"
#include "cpu/kernels/nearest.hpp"
#include "cpu/kernels/nearest_backward.hpp"
#include "cpu/nearest_tuning.hpp"
#include "cpu/point_rows.hpp"

namespace rowmax {

namespace {

using core::PointParams;
using core::PointProblem;

[[noreturn]] void refuse(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

std::vector<std::int64_t> with(std::vector<std::int64_t> shape, std::int64_t last) {
    shape.push_back(last);
    return shape;
}

/// Null where the view is absent.
void* optional_output(const TensorView& view, DType dtype, const std::vector<std::int64_t>& shape,
                      std::string_view name) {
    return view.given() ? core::checked_output(view, dtype, shape, name) : nullptr;
}

const void* checked_input(const TensorView& view, DType dtype, const std::vector<std::int64_t>& shape,
                          std::string_view name) {
    return view.given() ? core::checked_output(view, dtype, shape, name) : nullptr;
}

void check_disjoint(std::span<const core::NamedView> written, const PointRequest& request) {
    const core::NamedView read[] = {
        {"P", request.p.points}, {"p_mask", request.p.mask}, {"cu_seqlens_p", request.p.cu_seqlens},
        {"R", request.r.points}, {"r_mask", request.r.mask}, {"cu_seqlens_r", request.r.cu_seqlens}};
    core::check_disjoint(written, read);
}

std::int64_t checked_k(const PointProblem& problem, std::int64_t k) {
    if (k < 1) refuse(ErrorCode::invalid_value, fmt::format("k must be at least 1, got {}", k));
    core::checked_product(std::max<std::int64_t>(problem.params.p.total_rows, 1), k, "points of P x k");
    return k;
}

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

/// The distances of one side of a Chamfer distance: where the caller wants them, or in memory of the call.
class SideDistances {
  public:
    SideDistances(const PointParams& params, const core::Segments& side, void* wanted, std::int64_t* index)
        : side_(side) {
        if (wanted == nullptr) {
            const auto bytes = static_cast<std::size_t>(side.total_rows) * size_of(params.result_dtype());
            held_ = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(bytes, 1));
            wanted = held_.get();
        }
        to_.distance = wanted;
        to_.index = index;
    }
    [[nodiscard]] const cpu::NearestOutputs& outputs() const { return to_; }
    template <class Value>
    [[nodiscard]] double sum(std::int64_t item, bool mean) const {
        return sum_of(side_, item, static_cast<const Value*>(to_.distance), mean);
    }

  private:
    const core::Segments& side_;
    cpu::NearestOutputs to_;
    std::unique_ptr<std::byte[]> held_;
};

template <class Value>
void reduce(const PointParams& params, const SideDistances& p, const SideDistances* r, bool mean, void* value) {
    for (std::int64_t i = 0; i < params.p.count; ++i) {
        const double sum = p.sum<Value>(i, mean) + (r == nullptr ? 0 : r->sum<Value>(i, mean));
        static_cast<Value*>(value)[i] = static_cast<Value>(sum);
    }
}

struct GradientOutputs {
    void* p = nullptr;
    void* r = nullptr;
};

GradientOutputs check_gradients(const PointProblem& problem, const TensorView& grad_p, const TensorView& grad_r) {
    const PointParams& params = problem.params;
    return {optional_output(grad_p, params.dtype, with(problem.points_p, params.dim), "grad_p"),
            optional_output(grad_r, params.dtype, with(problem.points_r, params.dim), "grad_r")};
}

}  // namespace

void nearest(const PointRequest& request, std::int64_t k, const TensorView& distance, const TensorView& index) {
    const core::StandardFloatMode mode;
    const PointProblem problem = core::make_point_problem(request);
    const std::vector<std::int64_t> shape = with(problem.points_p, checked_k(problem, k));
    cpu::NearestOutputs to;
    to.distance = core::checked_output(distance, problem.params.result_dtype(), shape, "distance");
    to.index = static_cast<std::int64_t*>(core::checked_output(index, DType::i64, shape, "index"));
    to.k = k;
    to.none = std::numeric_limits<double>::infinity();
    const core::NamedView written[] = {{"distance", distance}, {"index", index}};
    check_disjoint(written, request);
    cpu::nearest(cpu::choose_point_ops(problem.params.dtype, request.options.kernel), problem.params, to, {});
}

void nearest_backward(const PointRequest& request, std::int64_t k, const TensorView& index,
                      const TensorView& grad_distance, const TensorView& grad_p, const TensorView& grad_r) {
    const core::StandardFloatMode mode;
    const PointProblem problem = core::make_point_problem(request);
    const std::vector<std::int64_t> shape = with(problem.points_p, checked_k(problem, k));
    cpu::ChosenPoints p;
    p.index = static_cast<const std::int64_t*>(core::checked_output(index, DType::i64, shape, "index"));
    p.weight = core::checked_output(grad_distance, problem.params.result_dtype(), shape, "grad_distance");
    p.k = k;
    const GradientOutputs to = check_gradients(problem, grad_p, grad_r);
    const core::NamedView written[] = {{"grad_p", grad_p}, {"grad_r", grad_r}};
    const core::NamedView read[] = {{"index", index}, {"grad_distance", grad_distance}};
    check_disjoint(written, request);
    core::check_disjoint(written, read);
    cpu::nearest_backward(problem.params, p, {}, to.p, to.r);
}

void chamfer(const PointRequest& request, Reduction reduction, bool one_sided, const ChamferViews& results,
             const ChamferIndex& index) {
    const core::StandardFloatMode mode;
    const PointProblem problem = core::make_point_problem(request);
    const PointParams& params = problem.params;
    const DType type = params.result_dtype();
    if (one_sided && (results.distance_r.given() || index.r.given()))
        refuse(ErrorCode::invalid_value, "one_sided: there are no distances and no index of R");
    void* value = optional_output(results.value, type, problem.items, "value");
    void* wanted_p = optional_output(results.distance_p, type, problem.points_p, "distance_p");
    void* wanted_r = optional_output(results.distance_r, type, problem.points_r, "distance_r");
    auto* index_p = static_cast<std::int64_t*>(optional_output(index.p, DType::i64, problem.points_p, "index_p"));
    auto* index_r = static_cast<std::int64_t*>(optional_output(index.r, DType::i64, problem.points_r, "index_r"));
    const core::NamedView written[] = {{"value", results.value},
                                       {"distance_p", results.distance_p},
                                       {"distance_r", results.distance_r},
                                       {"index_p", index.p},
                                       {"index_r", index.r}};
    check_disjoint(written, request);
    const SideDistances p(params, params.p, wanted_p, index_p);
    std::unique_ptr<SideDistances> r;
    if (!one_sided) r = std::make_unique<SideDistances>(params, params.r, wanted_r, index_r);
    cpu::nearest(cpu::choose_point_ops(params.dtype, request.options.kernel), params, p.outputs(),
                 one_sided ? cpu::NearestOutputs{} : r->outputs());
    if (value == nullptr) return;
    const bool mean = reduction == Reduction::mean;
    if (params.dtype == DType::f64) {
        reduce<double>(params, p, r.get(), mean, value);
    } else {
        reduce<float>(params, p, r.get(), mean, value);
    }
}

void chamfer_backward(const PointRequest& request, Reduction reduction, const ChamferIndex& index,
                      const ChamferViews& gradients, const TensorView& grad_p, const TensorView& grad_r) {
    const core::StandardFloatMode mode;
    const PointProblem problem = core::make_point_problem(request);
    const DType type = problem.params.result_dtype();
    cpu::ChosenPoints p;
    p.of_item = checked_input(gradients.value, type, problem.items, "grad_value");
    p.mean = reduction == Reduction::mean;
    cpu::ChosenPoints r = p;
    r.reversed = true;
    p.weight = checked_input(gradients.distance_p, type, problem.points_p, "grad_distance_p");
    r.weight = checked_input(gradients.distance_r, type, problem.points_r, "grad_distance_r");
    p.index = static_cast<const std::int64_t*>(checked_input(index.p, DType::i64, problem.points_p, "index_p"));
    r.index = static_cast<const std::int64_t*>(checked_input(index.r, DType::i64, problem.points_r, "index_r"));
    // A side without a gradient of its own adds nothing.
    if (p.of_item == nullptr && p.weight == nullptr) p.index = nullptr;
    if (r.of_item == nullptr && r.weight == nullptr) r.index = nullptr;
    const GradientOutputs to = check_gradients(problem, grad_p, grad_r);
    const core::NamedView written[] = {{"grad_p", grad_p}, {"grad_r", grad_r}};
    const core::NamedView read[] = {{"index_p", index.p},
                                    {"index_r", index.r},
                                    {"grad_value", gradients.value},
                                    {"grad_distance_p", gradients.distance_p},
                                    {"grad_distance_r", gradients.distance_r}};
    check_disjoint(written, request);
    core::check_disjoint(written, read);
    cpu::nearest_backward(problem.params, p, r, to.p, to.r);
}

}  // namespace rowmax
