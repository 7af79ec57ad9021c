#include "core/projection.hpp"

#include <fmt/format.h>

#include <span>

#include "core/element.hpp"
#include "rowmax/error.hpp"

namespace rowmax::core {

namespace {

[[noreturn]] void refuse_projection(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

bool is_projected_float(DType dtype) {
    return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

void check_layer_type(const TensorView& view, std::string_view name, DType wanted) {
    check_input(view, name);
    if (view.dtype == wanted) return;
    refuse_projection(ErrorCode::invalid_type,
                      fmt::format("Q is {} but {} is {}: types are not promoted, convert one of them", name_of(wanted),
                                  name, name_of(view.dtype)));
}

void check_projected_types(const ScoreRequest& request) {
    const TensorView& q = request.q.tokens;
    check_input(q, "Q");
    if (!is_projected_float(q.dtype)) {
        refuse_projection(
            ErrorCode::invalid_type,
            fmt::format("Q must be float16, bfloat16, float32 or float64 with documents that are projected, got {}",
                        name_of(q.dtype)));
    }
    const rowmax::Projection& projection = *request.d.projection;
    check_layer_type(request.d.tokens, "H", q.dtype);
    check_layer_type(projection.weight, "W", q.dtype);
    if (projection.bias.given()) check_layer_type(projection.bias, "b", q.dtype);
}

void check_layer(const ScoreRequest& request) {
    const auto& [weight, bias, normalize] = *request.d.projection;
    if (weight.ndim != 2) {
        refuse_projection(ErrorCode::invalid_value, fmt::format("W {} must be [d, hidden]", weight.shape_text()));
    }
    if (bias.given() && (bias.ndim != 1 || bias.shape[0] != weight.shape[0])) {
        refuse_projection(ErrorCode::invalid_value,
                          fmt::format("b {} must be [{}], as W {} has {} rows", bias.shape_text(), weight.shape[0],
                                      weight.shape_text(), weight.shape[0]));
    }
}

void check_projected_dims(const ScoreRequest& request) {
    const TensorView& q = request.q.tokens;
    const TensorView& h = request.d.tokens;
    const TensorView& weight = request.d.projection->weight;
    if (q.ndim < 2 || h.ndim < 2) return;  // check_layout says it
    const std::int64_t dim = q.shape[q.ndim - 1];
    const std::int64_t hidden = h.shape[h.ndim - 1];
    if (dim < 1 || dim > max_dim) {
        refuse_projection(ErrorCode::invalid_value, fmt::format("Q {}: the embedding dimension must be 1 to {}, got {}",
                                                                q.shape_text(), max_dim, dim));
    }
    if (weight.shape[0] != dim) {
        refuse_projection(ErrorCode::invalid_value,
                          fmt::format("Q {} and W {} differ in the embedding dimension: {} and {}", q.shape_text(),
                                      weight.shape_text(), dim, weight.shape[0]));
    }
    if (weight.shape[1] != hidden) {
        refuse_projection(ErrorCode::invalid_value,
                          fmt::format("H {} and W {} differ in the hidden dimension: {} and {}", h.shape_text(),
                                      weight.shape_text(), hidden, weight.shape[1]));
    }
    if (hidden < 1) {
        refuse_projection(ErrorCode::invalid_value,
                          fmt::format("H {}: the hidden dimension must be at least 1, got {}", h.shape_text(), hidden));
    }
}

}  // namespace

void check_projection(const ScoreRequest& request) {
    if (request.d.residual != nullptr) {
        refuse_projection(ErrorCode::invalid_value, "D: residual tables and a projection exclude each other");
    }
    check_projected_types(request);
    check_layer(request);
    check_projected_dims(request);
}

Projection make_projection(Copies& copies, const ScoreRequest& request) {
    const auto& [weights, biases, normalize] = *request.d.projection;
    Projection projection;
    const TensorView weight = readable(copies, weights);
    projection.weight = static_cast<const std::byte*>(weight.data);
    projection.weight_stride = weight.stride[0] * static_cast<std::int64_t>(size_of(weight.dtype));
    projection.hidden = weight.shape[1];
    if (biases.given()) projection.bias = static_cast<const std::byte*>(readable(copies, biases).data);
    projection.normalize = normalize;
    return projection;
}

void add_projection_gradients(Gradients& raw, const ScoreRequest& request, const TensorView& grad_weight,
                              const TensorView& grad_bias) {
    if (!grad_weight.given() && !grad_bias.given()) return;
    const std::string_view name = grad_weight.given() ? "grad_weight" : "grad_bias";
    if (request.d.projection == nullptr) {
        refuse_projection(ErrorCode::invalid_value, fmt::format("{}: these documents have no projection", name));
    }
    const auto shape = [](const TensorView& view) {
        return std::span(view.shape).first(static_cast<std::size_t>(view.ndim));
    };
    const auto& [weight, bias, normalize] = *request.d.projection;
    if (grad_weight.given()) {
        raw.weight = checked_output(grad_weight, weight.dtype, shape(weight), "grad_weight");
    }
    if (!grad_bias.given()) return;
    if (!bias.given()) refuse_projection(ErrorCode::invalid_value, "grad_bias: the projection has no bias");
    raw.bias = checked_output(grad_bias, bias.dtype, shape(bias), "grad_bias");
}

std::vector<double> weights_of(const Params& params) {
    const Projection& projection = *projection_of(params);
    const auto size = static_cast<std::int64_t>(size_of(params.dtype));
    std::vector<double> weights;
    for (std::int64_t k = 0; k < params.dim; ++k) {
        for (std::int64_t j = 0; j < projection.hidden; ++j) {
            weights.push_back(read_element(projection.weight + k * projection.weight_stride + j * size, params.dtype));
        }
    }
    return weights;
}

std::vector<double> projected_row(const Params& params, const std::vector<double>& hidden) {
    const Projection& projection = *projection_of(params);
    const auto size = static_cast<std::int64_t>(size_of(params.dtype));
    const std::vector<double> weights = weights_of(params);
    std::vector<double> row;
    for (std::int64_t k = 0; k < params.dim; ++k) {
        long double sum = projection.bias == nullptr ? 0 : read_element(projection.bias + k * size, params.dtype);
        const double* weight = &weights[static_cast<std::size_t>(k) * hidden.size()];
        for (std::size_t j = 0; j < hidden.size(); ++j) sum += static_cast<long double>(weight[j]) * hidden[j];
        row.push_back(static_cast<double>(sum));
    }
    return row;
}

}  // namespace rowmax::core
