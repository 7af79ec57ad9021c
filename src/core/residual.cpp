#include "core/residual.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "core/bit_fields.hpp"
#include "core/element.hpp"

namespace rowmax::core {

namespace {

[[noreturn]] void refuse(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

bool is_short_float(DType dtype) {
    return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

void check_float(const TensorView& view, std::string_view name) {
    check_input(view, name);
    if (is_short_float(view.dtype)) return;
    refuse(ErrorCode::invalid_type,
           fmt::format("{} must be float32, float16 or bfloat16, got {}", name, name_of(view.dtype)));
}

void check_weights(const ResidualTables& tables) {
    check_float(tables.bucket_weights, "bucket_weights");
    const std::int64_t buckets = std::int64_t{1} << tables.nbits;
    if (tables.bucket_weights.ndim == 1 && tables.bucket_weights.shape[0] == buckets) return;
    refuse(ErrorCode::invalid_value, fmt::format("bucket_weights {} must be [{}]: one weight for each value of {} bits",
                                                 tables.bucket_weights.shape_text(), buckets, tables.nbits));
}

void check_tables(const ResidualTables& tables, std::int64_t dim, const TensorView& q) {
    check_nbits(tables.nbits);
    const bool signs = tables.nbits == 1 && !tables.bucket_weights.given();
    if (!signs) check_weights(tables);
    if (!tables.centroids.given()) return;
    check_float(tables.centroids, "centroids");
    if (tables.centroids.ndim != 2 || tables.centroids.shape[1] != dim) {
        refuse(ErrorCode::invalid_value, fmt::format("centroids {} must be [C, {}], as Q {} has d = {}",
                                                     tables.centroids.shape_text(), dim, q.shape_text(), dim));
    }
}

void check_codes(const TokenSet& documents) {
    const TensorView& codes = documents.codes;
    check_input(codes, "codes");
    if (codes.dtype != DType::i32 && codes.dtype != DType::i64) {
        refuse(ErrorCode::invalid_type, fmt::format("codes must be int32 or int64, got {}", name_of(codes.dtype)));
    }
    const TensorView& residuals = documents.tokens;
    if (codes.ndim == residuals.ndim - 1 &&
        std::equal(codes.shape.begin(), codes.shape.begin() + codes.ndim, residuals.shape.begin())) {
        return;
    }
    refuse(ErrorCode::invalid_value, fmt::format("codes {} and residuals {} differ: one code a token",
                                                 codes.shape_text(), residuals.shape_text()));
}

std::int64_t stored_code(const Residual& residual, const Segments& side, std::int64_t item, std::int64_t token) {
    const std::int64_t at = residual.steps.first(side, item) + token * residual.steps.token;
    return detail::read_int(residual.codes, residual.wide_codes, at);
}

/// `side` and `residual` where the host can read them.
void check_code_values(const Residual& residual, const Segments& side) {
    for (std::int64_t item = 0; item < side.count; ++item) {
        const Segment segment = side.at(item);
        for (std::int64_t t = 0; t < segment.length; ++t) {
            if (!side.keeps(segment, t)) continue;
            const std::int64_t code = stored_code(residual, side, item, t);
            if (code >= 0 && code < residual.centroid_count) continue;
            refuse(ErrorCode::invalid_value, fmt::format("codes: token {} of document {} has code {}, but there are {} "
                                                         "centroids",
                                                         t, item, code, residual.centroid_count));
        }
    }
}

const void* brought(Copies& copies, const void* list, std::int64_t count, bool wide) {
    return list == nullptr ? nullptr : on_host(copies, {list, count, wide}).data;
}

// Memory of a device comes here first. Of masks, which no front end offers with codes, nothing is known here.
void check_device_codes(Copies& copies, const Residual& residual, const Segments& documents, const TensorView& codes) {
    if (documents.mask.data != nullptr || !codes.contiguous()) {
        refuse(ErrorCode::not_implemented,
               "validate: codes of masked documents, or that are not contiguous, on a CUDA device");
    }
    Residual here = residual;
    here.codes = brought(copies, codes.data, codes.numel(), residual.wide_codes);
    Segments side = documents;
    side.starts =
        brought(copies, side.starts, side.count + (side.kind == SegmentKind::offsets ? 1 : 0), side.wide_starts);
    side.lengths = brought(copies, side.lengths, side.count, side.wide_lengths);
    check_code_values(here, side);
}

/// Buckets' weights, where the host can read them.
void read_weights(const TensorView& weights, Residual& residual) {
    const auto* weight = static_cast<const std::byte*>(weights.data);
    const auto size = static_cast<std::int64_t>(size_of(weights.dtype));
    for (std::int64_t b = 0; b < weights.shape[0]; ++b) {
        residual.weights[b] = static_cast<float>(read_element(weight + b * weights.stride[0] * size, weights.dtype));
    }
}

}  // namespace

void check_residual(const ScoreRequest& request) {
    const TensorView& q = request.q.tokens;
    const TensorView& residuals = request.d.tokens;
    check_float(q, "Q");
    check_input(residuals, "residuals");
    if (residuals.dtype != DType::u8) {
        refuse(ErrorCode::invalid_type, fmt::format("residuals must be uint8, got {}", name_of(residuals.dtype)));
    }
    if (q.ndim < 2 || residuals.ndim < 2) return;  // check_layout says it
    const ResidualTables& tables = *request.d.residual;
    const std::int64_t dim = q.shape[q.ndim - 1];
    if (dim < 1 || dim > max_dim) {
        refuse(ErrorCode::invalid_value,
               fmt::format("Q {}: the embedding dimension must be 1 to {}, got {}", q.shape_text(), max_dim, dim));
    }
    check_tables(tables, dim, q);
    const std::int64_t bytes = residuals.shape[residuals.ndim - 1];
    if (bytes != (dim * tables.nbits + 7) / 8) {
        refuse(ErrorCode::invalid_value,
               fmt::format("residuals {} hold {} values of {} bits a token, but Q {} has d = {}",
                           residuals.shape_text(), bytes * 8 / tables.nbits, tables.nbits, q.shape_text(), dim));
    }
    if (tables.centroids.given()) check_codes(request.d);
}

Residual make_residual(Copies& copies, const ScoreRequest& request, const Segments& documents, bool validate) {
    const ResidualTables& tables = *request.d.residual;
    Residual residual;
    residual.query_dtype = request.q.tokens.dtype;
    residual.nbits = tables.nbits;
    residual.little = tables.bit_order == BitOrder::little;
    residual.normalize = tables.normalize;
    residual.weights[0] = -1;
    residual.weights[1] = 1;
    if (tables.bucket_weights.given()) {
        const TensorView weights = aligned_view(copies, tables.bucket_weights);
        residual.weight_data = static_cast<const std::byte*>(weights.data);
        residual.weight_dtype = weights.dtype;
        residual.weight_stride = weights.stride[0];
        if (!copies.on_device) read_weights(weights, residual);
    }
    if (!tables.centroids.given()) return residual;
    const TensorView centroids = readable(copies, tables.centroids);
    residual.centroids = static_cast<const std::byte*>(centroids.data);
    residual.centroid_dtype = centroids.dtype;
    residual.centroid_count = centroids.shape[0];
    residual.centroid_stride = centroids.stride[0] * static_cast<std::int64_t>(size_of(centroids.dtype));
    const TensorView codes = aligned_view(copies, request.d.codes);
    residual.codes = codes.data;
    residual.wide_codes = codes.dtype == DType::i64;
    residual.steps = token_steps(codes, request.d.tokens.ndim - 2);
    // Even unvalidated, a code into nothing cannot be clamped to something.
    if (copies.on_device) {
        if (validate) check_device_codes(copies, residual, documents, codes);
        if (residual.centroid_count == 0 && documents.total_rows > 0) {
            refuse(ErrorCode::invalid_value, "centroids: there are none, but documents have tokens");
        }
    } else if (validate || residual.centroid_count == 0) {
        check_code_values(residual, documents);
    }
    return residual;
}

std::int64_t code_of(const Params& params, std::int64_t item, std::int64_t token) {
    const Residual& residual = params.compressed->residual;
    return detail::clamp(stored_code(residual, params.d, item, token), 0, residual.centroid_count - 1);
}

}  // namespace rowmax::core
