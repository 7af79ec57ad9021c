// The public operators on points: checks, and the backend whose memory the points lie in.
#include "rowmax/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/point_backend.hpp"
#include "core/points.hpp"
#include "core/scratch.hpp"

namespace rowmax {

namespace {

using core::PointParams;
using core::PointProblem;

[[noreturn]] void refuse_request(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

std::vector<std::int64_t> with(std::vector<std::int64_t> shape, std::int64_t last) {
    shape.push_back(last);
    return shape;
}

/// Null where the view is absent.
void* optional_result(const TensorView& view, DType dtype, const std::vector<std::int64_t>& shape,
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
    if (k < 1) refuse_request(ErrorCode::invalid_value, fmt::format("k must be at least 1, got {}", k));
    core::checked_product(std::max<std::int64_t>(problem.params.p.total_rows, 1), k, "points of P x k");
    return k;
}

void check_gradients(const PointProblem& problem, const TensorView& grad_p, const TensorView& grad_r,
                     core::PointGradients& gradients) {
    const PointParams& params = problem.params;
    gradients.grad_p = optional_result(grad_p, params.dtype, with(problem.points_p, params.dim), "grad_p");
    gradients.grad_r = optional_result(grad_r, params.dtype, with(problem.points_r, params.dim), "grad_r");
}

const core::PointBackend& point_backend_of(const core::Place& place) {
    if (!place.cuda) return core::cpu_points();
    const core::PointBackend* backend = core::cuda_points();
    if (backend == nullptr) {
        refuse_request(ErrorCode::not_implemented, "device: this build of rowmax has no CUDA kernels");
    }
    return *backend;
}

void find(PointProblem& problem, const PointOptions& options, const core::ChamferOutputs& to) {
    const core::PointBackend& backend = point_backend_of(problem.params.place);
    core::place_workspace(problem.params.place, options.device, backend.nearest_workspace, "nearest points",
                          problem.params, to);
    backend.nearest(problem.params, options.kernel, to);
}

void differentiate(PointProblem& problem, const PointOptions& options, const core::PointGradients& gradients) {
    const core::PointBackend& backend = point_backend_of(problem.params.place);
    core::place_workspace(problem.params.place, options.device, backend.backward_workspace,
                          "gradients of nearest points", problem.params, gradients);
    backend.backward(problem.params, gradients);
}

}  // namespace

void nearest(const PointRequest& request, std::int64_t k, const TensorView& distance, const TensorView& index) {
    const core::StandardFloatMode mode;
    PointProblem problem = core::make_point_problem(request);
    const std::vector<std::int64_t> shape = with(problem.points_p, checked_k(problem, k));
    core::ChamferOutputs all;
    core::NearestOutputs& to = all.p;
    to.wanted = true;
    to.distance = core::checked_output(distance, problem.params.result_dtype(), shape, "distance");
    to.index = static_cast<std::int64_t*>(core::checked_output(index, DType::i64, shape, "index"));
    to.k = k;
    to.none = std::numeric_limits<double>::infinity();
    const core::NamedView written[] = {{"distance", distance}, {"index", index}};
    check_disjoint(written, request);
    find(problem, request.options, all);
}

void nearest_backward(const PointRequest& request, std::int64_t k, const TensorView& index,
                      const TensorView& grad_distance, const TensorView& grad_p, const TensorView& grad_r) {
    const core::StandardFloatMode mode;
    PointProblem problem = core::make_point_problem(request);
    const std::vector<std::int64_t> shape = with(problem.points_p, checked_k(problem, k));
    core::PointGradients gradients;
    core::ChosenPoints& p = gradients.p;
    p.index = static_cast<const std::int64_t*>(core::checked_output(index, DType::i64, shape, "index"));
    p.weight = core::checked_output(grad_distance, problem.params.result_dtype(), shape, "grad_distance");
    p.k = k;
    check_gradients(problem, grad_p, grad_r, gradients);
    const core::NamedView written[] = {{"grad_p", grad_p}, {"grad_r", grad_r}};
    const core::NamedView read[] = {{"index", index}, {"grad_distance", grad_distance}};
    check_disjoint(written, request);
    core::check_disjoint(written, read);
    differentiate(problem, request.options, gradients);
}

void chamfer(const PointRequest& request, Reduction reduction, bool one_sided, const ChamferViews& results,
             const ChamferIndex& index) {
    const core::StandardFloatMode mode;
    PointProblem problem = core::make_point_problem(request);
    const PointParams& params = problem.params;
    const DType type = params.result_dtype();
    if (one_sided && (results.distance_r.given() || index.r.given()))
        refuse_request(ErrorCode::invalid_value, "one_sided: there are no distances and no index of R");
    void* value = optional_result(results.value, type, problem.items, "value");
    void* wanted_p = optional_result(results.distance_p, type, problem.points_p, "distance_p");
    void* wanted_r = optional_result(results.distance_r, type, problem.points_r, "distance_r");
    auto* index_p = static_cast<std::int64_t*>(optional_result(index.p, DType::i64, problem.points_p, "index_p"));
    auto* index_r = static_cast<std::int64_t*>(optional_result(index.r, DType::i64, problem.points_r, "index_r"));
    const core::NamedView written[] = {{"value", results.value},
                                       {"distance_p", results.distance_p},
                                       {"distance_r", results.distance_r},
                                       {"index_p", index.p},
                                       {"index_r", index.r}};
    check_disjoint(written, request);
    core::ChamferOutputs to;
    to.p.wanted = true;
    to.p.distance = wanted_p;
    to.p.index = index_p;
    to.r.wanted = !one_sided;
    to.r.distance = wanted_r;
    to.r.index = index_r;
    to.value = value;
    to.mean = reduction == Reduction::mean;
    find(problem, request.options, to);
}

void chamfer_backward(const PointRequest& request, Reduction reduction, const ChamferIndex& index,
                      const ChamferViews& gradients, const TensorView& grad_p, const TensorView& grad_r) {
    const core::StandardFloatMode mode;
    PointProblem problem = core::make_point_problem(request);
    const DType type = problem.params.result_dtype();
    core::PointGradients all;
    core::ChosenPoints& p = all.p;
    core::ChosenPoints& r = all.r;
    p.of_item = checked_input(gradients.value, type, problem.items, "grad_value");
    p.mean = reduction == Reduction::mean;
    r = p;
    r.reversed = true;
    p.weight = checked_input(gradients.distance_p, type, problem.points_p, "grad_distance_p");
    r.weight = checked_input(gradients.distance_r, type, problem.points_r, "grad_distance_r");
    p.index = static_cast<const std::int64_t*>(checked_input(index.p, DType::i64, problem.points_p, "index_p"));
    r.index = static_cast<const std::int64_t*>(checked_input(index.r, DType::i64, problem.points_r, "index_r"));
    // A side without a gradient of its own adds nothing.
    if (p.of_item == nullptr && p.weight == nullptr) p.index = nullptr;
    if (r.of_item == nullptr && r.weight == nullptr) r.index = nullptr;
    check_gradients(problem, grad_p, grad_r, all);
    const core::NamedView written[] = {{"grad_p", grad_p}, {"grad_r", grad_r}};
    const core::NamedView read[] = {{"index_p", index.p},
                                    {"index_r", index.r},
                                    {"grad_value", gradients.value},
                                    {"grad_distance_p", gradients.distance_p},
                                    {"grad_distance_r", gradients.distance_r}};
    check_disjoint(written, request);
    core::check_disjoint(written, read);
    differentiate(problem, request.options, all);
}

}  // namespace rowmax
