#include "core/reference.hpp"

#include <cmath>
#include <limits>

#include "core/element.hpp"
#include "core/projection.hpp"
#include "core/residual.hpp"

namespace rowmax::core::reference {

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// L2 norm without overflow: scaled by the largest magnitude.
double norm(const std::vector<double>& row) {
    double largest = 0;
    for (const double x : row) largest = std::isnan(x) ? x : std::max(largest, std::fabs(x));
    if (largest == 0 || !std::isfinite(largest)) return largest;
    double sum = 0;
    for (const double x : row) sum += (x / largest) * (x / largest);
    return largest * std::sqrt(sum);
}

// x / |x|; a zero token stays zero.
std::vector<double> unit(std::vector<double> row) {
    const double length = norm(row);
    if (length == 0) return row;
    for (double& x : row) x /= length;
    return row;
}

// Wider than double, since float64 rows are compared with it too.
double dot(const std::vector<double>& a, const std::vector<double>& b) {
    long double sum = 0;
    for (std::size_t k = 0; k < a.size(); ++k) sum += static_cast<long double>(a[k]) * b[k];
    return static_cast<double>(sum);
}

struct Item {
    std::vector<std::vector<double>> rows;  // as the operator sees them: normalised when asked
    std::vector<double> norms;              // of the raw rows, scales included
    std::vector<bool> kept;
    std::vector<float> scales;  // of quantised tokens
    bool integers = false;      // int8, whose products are rounded to float32 before they are scaled
};

// By the definition, bit by bit: bucket k of a token takes nbits from bit k * nbits on, counted from the lowest bit of
// the first byte, or in ColBERT's order from the highest, where each number's lowest bit comes first. Added in float32.
std::vector<double> decode(const Params& params, const std::byte* bytes, std::int64_t item, std::int64_t token) {
    const Residual& residual = params.compressed->residual;
    std::vector<double> row;
    for (std::int64_t k = 0; k < params.dim; ++k) {
        unsigned bucket = 0;
        for (int b = 0; b < residual.nbits; ++b) {
            const std::int64_t at = k * residual.nbits + b;
            const std::int64_t place = residual.little ? at % 8 : 7 - at % 8;
            bucket |= ((std::to_integer<unsigned>(bytes[at / 8]) >> place) & 1U) << b;
        }
        float centroid = 0;
        if (residual.centroids != nullptr) {
            const std::byte* from = residual.centroids + code_of(params, item, token) * residual.centroid_stride;
            const auto size = static_cast<std::int64_t>(size_of(residual.centroid_dtype));
            centroid = static_cast<float>(read_element(from + k * size, residual.centroid_dtype));
        }
        row.push_back(centroid + residual.weights[bucket]);
    }
    return residual.normalize ? unit(std::move(row)) : row;
}

// Sign bits as numbers of one size: +1 where the bit is set. Their order does not matter, as long as both sides have
// the same.
std::vector<double> signs(const std::byte* bytes, std::int64_t dim) {
    std::vector<double> row;
    for (std::int64_t k = 0; k < dim; ++k) {
        row.push_back(((std::to_integer<unsigned>(bytes[k / 8]) >> (k % 8)) & 1U) != 0 ? 1 : -1);
    }
    return row;
}

// A token as numbers: of a residual document the decoded ones, of hidden states the projected ones.
std::vector<double> row_of(const Params& params, const Segments& side, std::int64_t item, std::int64_t token) {
    const Segment segment = side.at(item);
    if (params.compressed != nullptr && params.compressed->coding == Coding::bits) {
        return signs(segment.data + token * side.row_stride, params.dim);
    }
    if (projection_of(params) != nullptr && &side == &params.d) {
        std::vector<double> row = projected_row(params, widen_row(params, side, segment, token));
        return projection_of(params)->normalize ? unit(std::move(row)) : row;
    }
    const bool decoded = params.compressed != nullptr && params.compressed->coding == Coding::residual;
    if (!decoded || &side == &params.q) return widen_row(params, side, segment, token);
    return decode(params, segment.data + token * side.row_stride, item, token);
}

Item read_item(const Params& params, const Segments& side, std::int64_t item) {
    const Segment segment = side.at(item);
    Item out;
    out.integers = params.dtype == DType::i8;
    for (std::int64_t t = 0; t < segment.length; ++t) {
        std::vector<double> row = row_of(params, side, item, t);
        out.norms.push_back(norm(row));
        if (params.compressed != nullptr && params.compressed->coding == Coding::scaled) {
            const Scales& scales = &side == &params.q ? params.compressed->q : params.compressed->d;
            out.scales.push_back(scales.data[scales.steps.first(side, item) + t * scales.steps.token]);
            out.norms.back() *= std::fabs(double{out.scales.back()});
        }
        out.rows.push_back(params.normalize ? unit(std::move(row)) : std::move(row));
        out.kept.push_back(side.keeps(segment, t));
    }
    return out;
}

// A product times a scale; float32 arithmetic for integers, whose kernels it describes to the bit.
double scaled(double product, float scale, bool integers) {
    return integers ? double{static_cast<float>(product) * scale} : product * double{scale};
}

struct Winner {
    double value = minus_infinity;
    std::int32_t token = -1;
};

// The contract's maximum: lowest token among equals, the lowest NaN above everything, the first kept token
// when all are minus infinity.
Winner best(const Item& query, std::size_t token, const Item& document) {
    Winner w;
    for (std::size_t t = 0; t < document.rows.size(); ++t) {
        if (!document.kept[t]) continue;
        double s = dot(query.rows[token], document.rows[t]);
        if (!document.scales.empty()) s = scaled(s, document.scales[t], document.integers);
        // The query's scale joins after the maximum; but where it is NaN, so are all its similarities.
        if (!query.scales.empty() && std::isnan(query.scales[token])) s = query.scales[token];
        const bool wins = w.token < 0 || (!std::isnan(w.value) && (s > w.value || std::isnan(s)));
        if (wins) w = {s, static_cast<std::int32_t>(t)};
    }
    return w;
}

// Gradient through x / |x|: (g - (g . u) u) / |x|; zero for a zero token.
void through_norm(double* gradient, const std::vector<double>& raw) {
    const double length = norm(raw);
    const std::vector<double> u = unit(raw);
    double along = 0;
    for (std::size_t k = 0; k < raw.size(); ++k) along += gradient[k] * u[k];
    for (std::size_t k = 0; k < raw.size(); ++k) gradient[k] = length == 0 ? 0 : (gradient[k] - along * u[k]) / length;
}

// Applies it to every storage row once, even where ranges overlap. Hidden tokens have no gradient, whatever they hold.
void through_norms(const Params& params, const Segments& side, std::vector<double>& gradient) {
    std::vector<bool> done(gradient.size() / static_cast<std::size_t>(params.dim));
    for (std::int64_t i = 0; i < side.count; ++i) {
        const Segment segment = side.at(i);
        for (std::int64_t t = 0; t < segment.length; ++t) {
            const auto row = static_cast<std::size_t>(segment.first_row + t);
            if (done[row] || !side.keeps(segment, t)) continue;
            done[row] = true;
            through_norm(&gradient[row * static_cast<std::size_t>(params.dim)], widen_row(params, side, segment, t));
        }
    }
}

void add_scaled(double* to, const std::vector<double>& row, double factor) {
    for (std::size_t k = 0; k < row.size(); ++k) to[k] += factor * row[k];
}

// What the gradient of one projected token, before it is normalised, adds to those of its hidden state and of the
// layer.
void add_through_projection(const Params& params, const std::vector<double>& token_gradient,
                            const std::vector<double>& hidden, double* hidden_gradient, Gradient& out) {
    const std::vector<double> weights = weights_of(params);
    for (std::size_t k = 0; k < token_gradient.size(); ++k) {
        const double g = token_gradient[k];
        out.bias[k] += g;
        for (std::size_t j = 0; j < hidden.size(); ++j) {
            hidden_gradient[j] += g * weights[k * hidden.size() + j];
            out.weight[k * hidden.size() + j] += g * hidden[j];
        }
    }
}

}  // namespace

std::vector<double> widen_row(const Params& params, const Segments& side, const Segment& segment, std::int64_t token) {
    const DType dtype = &side == &params.q ? query_dtype(params) : params.dtype;
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    const bool hidden = projection_of(params) != nullptr && &side == &params.d;
    const std::int64_t dim = hidden ? projection_of(params)->hidden : params.dim;
    std::vector<double> row(static_cast<std::size_t>(dim));
    for (std::int64_t k = 0; k < dim; ++k) {
        row[static_cast<std::size_t>(k)] = read_element(segment.data + token * side.row_stride + k * size, dtype);
    }
    return row;
}

Scores score(const Params& params) {
    Scores out;
    const std::int64_t width = params.q.max_length;
    out.index.assign(static_cast<std::size_t>(params.pairs.count * width), -1);
    out.similarity.assign(out.index.size(), 0.0);
    for (std::int64_t p = 0; p < params.pairs.count; ++p) {
        const Item query = read_item(params, params.q, params.pairs.query(p));
        const Item document = read_item(params, params.d, params.pairs.document(p));
        double sum = 0;
        double scale = 0;
        for (std::size_t s = 0; s < query.rows.size(); ++s) {
            Winner w = query.kept[s] ? best(query, s, document) : Winner{};
            if (w.token < 0) continue;
            if (!query.scales.empty()) w.value = scaled(w.value, query.scales[s], query.integers);
            const std::size_t at = static_cast<std::size_t>(p * width) + s;
            out.index[at] = w.token;
            out.similarity[at] = w.value;
            sum += w.value;
            scale += params.normalize ? 1.0 : query.norms[s] * document.norms[static_cast<std::size_t>(w.token)];
        }
        out.scores.push_back(sum);
        out.scale.push_back(scale);
    }
    return out;
}

namespace {

// One source after another; gradients are linear in them.
Gradient backward_projected(const Params& params, const std::vector<std::int32_t>& index,
                            const std::vector<double>& grad_scores) {
    const Projection& projection = *projection_of(params);
    const bool normalize = projection.normalize || params.normalize;
    const auto dim = static_cast<std::size_t>(params.dim);
    const auto width = static_cast<std::size_t>(projection.hidden);
    Gradient out;
    out.q.assign(static_cast<std::size_t>(params.q.total_rows) * dim, 0.0);
    out.d.assign(static_cast<std::size_t>(params.d.total_rows) * width, 0.0);
    out.weight.assign(dim * width, 0.0);
    out.bias.assign(dim, 0.0);
    for (std::int64_t p = 0; p < params.pairs.count; ++p) {
        const Segment query = params.q.at(params.pairs.query(p));
        const Segment document = params.d.at(params.pairs.document(p));
        for (std::int64_t s = 0; s < query.length; ++s) {
            const std::int32_t t = index[static_cast<std::size_t>(p * params.q.max_length + s)];
            if (t < 0) continue;
            std::vector<double> q = widen_row(params, params.q, query, s);
            if (params.normalize) q = unit(std::move(q));
            const std::vector<double> hidden = widen_row(params, params.d, document, t);
            const std::vector<double> raw = projected_row(params, hidden);
            const double g = grad_scores[static_cast<std::size_t>(p)];
            add_scaled(&out.q[static_cast<std::size_t>(query.first_row + s) * dim], normalize ? unit(raw) : raw, g);
            for (double& x : q) x *= g;
            if (normalize) through_norm(q.data(), raw);
            add_through_projection(params, q, hidden, &out.d[static_cast<std::size_t>(document.first_row + t) * width],
                                   out);
        }
    }
    if (params.normalize) through_norms(params, params.q, out.q);
    return out;
}

}  // namespace

Gradient backward(const Params& params, const std::vector<std::int32_t>& index,
                  const std::vector<double>& grad_scores) {
    if (projection_of(params) != nullptr) return backward_projected(params, index, grad_scores);
    Gradient out;
    const auto dim = static_cast<std::size_t>(params.dim);
    out.q.assign(static_cast<std::size_t>(params.q.total_rows) * dim, 0.0);
    out.d.assign(static_cast<std::size_t>(params.d.total_rows) * dim, 0.0);
    for (std::int64_t p = 0; p < params.pairs.count; ++p) {
        const Segment query = params.q.at(params.pairs.query(p));
        const Segment document = params.d.at(params.pairs.document(p));
        const double g = grad_scores[static_cast<std::size_t>(p)];
        for (std::int64_t s = 0; s < query.length; ++s) {
            const std::int32_t t = index[static_cast<std::size_t>(p * params.q.max_length + s)];
            if (t < 0) continue;
            std::vector<double> q = widen_row(params, params.q, query, s);
            std::vector<double> d = row_of(params, params.d, params.pairs.document(p), t);
            if (params.normalize) {
                q = unit(std::move(q));
                d = unit(std::move(d));
            }
            add_scaled(&out.q[static_cast<std::size_t>(query.first_row + s) * dim], d, g);
            add_scaled(&out.d[static_cast<std::size_t>(document.first_row + t) * dim], q, g);
        }
    }
    if (params.normalize) {
        through_norms(params, params.q, out.q);
        if (query_dtype(params) == params.dtype) through_norms(params, params.d, out.d);  // residuals have no gradient
    }
    return out;
}

}  // namespace rowmax::core::reference
