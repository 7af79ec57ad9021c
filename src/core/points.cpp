#include "core/points.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/scratch.hpp"
#include "core/sides.hpp"

namespace rowmax::core {

namespace {

constexpr SideNames names_of_points(std::string_view points, std::string_view mask, std::string_view cu_seqlens) {
    SideNames names{points, mask, cu_seqlens, "", "point sets"};
    names.token = "point";
    names.dims = "c";
    return names;
}
constexpr SideNames p_names = names_of_points("P", "p_mask", "cu_seqlens_p");
constexpr SideNames r_names = names_of_points("R", "r_mask", "cu_seqlens_r");

[[noreturn]] void refuse_points(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

void check_type(const TensorView& points, std::string_view name) {
    check_input(points, name);
    switch (points.dtype) {
        case DType::f16:
        case DType::bf16:
        case DType::f32:
        case DType::f64: return;
        default: break;
    }
    refuse_points(ErrorCode::invalid_type,
                  fmt::format("{} must be float16, bfloat16, float32 or float64, got {}", name, name_of(points.dtype)));
}

void check_points(const TensorView& p, const TensorView& r) {
    check_type(p, "P");
    check_type(r, "R");
    if (p.dtype != r.dtype) {
        refuse_points(ErrorCode::invalid_type,
                      fmt::format("P is {} but R is {}: points are not promoted, convert one of them", name_of(p.dtype),
                                  name_of(r.dtype)));
    }
    for (const auto& [view, name] : {std::pair(&p, "P"), std::pair(&r, "R")}) {
        if (view->ndim >= 2) continue;
        refuse_points(ErrorCode::invalid_value,
                      fmt::format("{} must be [..., points, coordinates], got {}", name, view->shape_text()));
    }
    const std::int64_t dim_p = p.shape[static_cast<std::size_t>(p.ndim - 1)];
    const std::int64_t dim_r = r.shape[static_cast<std::size_t>(r.ndim - 1)];
    if (dim_p != dim_r) {
        refuse_points(ErrorCode::invalid_value, fmt::format("P {} and R {} differ in their coordinates: {} and {}",
                                                            p.shape_text(), r.shape_text(), dim_p, dim_r));
    }
    if (dim_p < 1 || dim_p > max_dim) {
        refuse_points(ErrorCode::invalid_value, fmt::format("P {}: points must have 1 to {} coordinates, got {}",
                                                            p.shape_text(), max_dim, dim_p));
    }
}

TokenSet as_tokens(const PointSet& set) {
    TokenSet side;
    side.tokens = set.points;
    side.mask = set.mask;
    side.cu_seqlens = set.cu_seqlens;
    return side;
}

/// Offsets that nobody checked, made to ascend, so that no two items share a row. Those of a device are straightened
/// there.
void straighten(Copies& copies, Segments& side) {
    if (side.kind != SegmentKind::offsets || copies.on_device) return;
    const auto count = static_cast<std::size_t>(side.count) + 1;
    copies.held.emplace_back(new std::byte[count * sizeof(std::int64_t)]);
    auto* to = reinterpret_cast<std::int64_t*>(copies.held.back().get());
    std::int64_t least = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t at = detail::read_int(side.starts, side.wide_starts, static_cast<std::int64_t>(i));
        to[i] = least = detail::clamp(at, least, side.total_rows);
    }
    side.starts = to;
    side.wide_starts = true;
}

std::vector<std::int64_t> item_shape(const PointSet& set, const Segments& side) {
    if (set.cu_seqlens.given()) return {side.count};
    const auto& shape = set.points.shape;
    return {shape.begin(), shape.begin() + set.points.ndim - 2};
}

std::vector<std::int64_t> point_shape(const TensorView& points) {
    return {points.shape.begin(), points.shape.begin() + points.ndim - 1};
}

}  // namespace

PointProblem make_point_problem(const PointRequest& request) {
    const PointOptions& options = request.options;
    check_points(request.p.points, request.r.points);
    const TokenSet p = as_tokens(request.p);
    const TokenSet r = as_tokens(request.r);
    check_layout(p, p_names);
    check_layout(r, r_names);
    if (options.threads < 0)
        refuse_points(ErrorCode::invalid_value, fmt::format("threads: must not be negative, got {}", options.threads));
    PointProblem problem;
    PointParams& params = problem.params;
    params.dtype = p.tokens.dtype;
    params.dim = p.tokens.shape[static_cast<std::size_t>(p.tokens.ndim - 1)];
    params.metric = options.metric;
    params.search = options.search;
    params.threads = options.threads;
    params.place = place_of(options.device);
    problem.copies.on_device = params.place.cuda;
    problem.copies.place = params.place;
    const bool validate = options.validate.value_or(!params.place.cuda);
    params.p = make_segments(problem.copies, p, p_names, validate);
    params.r = make_segments(problem.copies, r, r_names, validate);
    if (!validate) {
        straighten(problem.copies, params.p);
        straighten(problem.copies, params.r);
    }
    problem.items = item_shape(request.p, params.p);
    if (problem.items != item_shape(request.r, params.r)) {
        refuse_points(ErrorCode::invalid_value,
                      fmt::format("P {} and R {} pair item by item, but hold {} and {} items{}", p.tokens.shape_text(),
                                  r.tokens.shape_text(), params.p.count, params.r.count,
                                  params.p.count == params.r.count ? " of different dimensions" : ""));
    }
    problem.points_p = point_shape(p.tokens);
    problem.points_r = point_shape(r.tokens);
    if (options.search == PointSearch::tree && params.dim > most_tree_dims) {
        refuse_points(ErrorCode::not_implemented,
                      fmt::format("search: a tree takes at most {} coordinates, P {} has {}", most_tree_dims,
                                  p.tokens.shape_text(), params.dim));
    }
    return problem;
}

}  // namespace rowmax::core
