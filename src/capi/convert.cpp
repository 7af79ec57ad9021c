#include "capi/convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace rowmax::capi {

namespace {

static_assert(ROWMAX_MAX_NDIM == TensorView::max_ndim);
static_assert(ROWMAX_FLOAT16 == static_cast<int>(DType::f16) + 1);
static_assert(ROWMAX_BFLOAT16 == static_cast<int>(DType::bf16) + 1);
static_assert(ROWMAX_FLOAT32 == static_cast<int>(DType::f32) + 1);
static_assert(ROWMAX_FLOAT64 == static_cast<int>(DType::f64) + 1);
static_assert(ROWMAX_INT8 == static_cast<int>(DType::i8) + 1);
static_assert(ROWMAX_UINT8 == static_cast<int>(DType::u8) + 1);
static_assert(ROWMAX_INT16 == static_cast<int>(DType::i16) + 1);
static_assert(ROWMAX_INT32 == static_cast<int>(DType::i32) + 1);
static_assert(ROWMAX_INT64 == static_cast<int>(DType::i64) + 1);
static_assert(ROWMAX_BOOL == static_cast<int>(DType::boolean) + 1);

[[noreturn]] void refuse(std::string_view name, std::string_view what, std::int64_t value) {
    throw Error(ErrorCode::invalid_value, fmt::format("{}: {}, got {}", name, what, value));
}

DType dtype_of(std::int32_t dtype, std::string_view name) {
    if (dtype < ROWMAX_FLOAT16 || dtype > ROWMAX_BOOL) {
        throw Error(ErrorCode::invalid_type, fmt::format("{}: dtype {} is none of rowmax_dtype", name, dtype));
    }
    return static_cast<DType>(dtype - 1);
}

Pairing pairing_of(std::int32_t pairing) {
    switch (pairing) {
        case ROWMAX_CROSS: return Pairing::cross;
        case ROWMAX_GROUPED: return Pairing::grouped;
        case ROWMAX_ZIPPED: return Pairing::zipped;
        case ROWMAX_LIST: return Pairing::list;
        default: refuse("pairing", "must be one of rowmax_pairing", pairing);
    }
}

Precision precision_of(std::int32_t precision) {
    switch (precision) {
        case ROWMAX_PRECISION_HIGHEST: return Precision::highest;
        case ROWMAX_PRECISION_HIGH: return Precision::high;
        default: refuse("options.precision", "must be one of rowmax_precision", precision);
    }
}

/// The sizes of the first release: no caller has smaller ones, but for those who initialised nothing.
constexpr std::size_t first_options_size = 32;
constexpr std::size_t first_request_size = offsetof(rowmax_request, pairing) + sizeof(void*);
static_assert(sizeof(rowmax_options) >= first_options_size && sizeof(rowmax_request) >= first_request_size);

Options options_of(const rowmax_options* options) {
    if (options == nullptr) return {};
    const rowmax_options known = known_form(*options, first_options_size, "options");
    Options out;
    out.normalize = known.normalize != 0;
    out.precision = precision_of(known.precision);
    out.validate = known.validate != 0;
    out.threads = known.threads;
    if (known.kernel != nullptr) out.kernel = known.kernel;
    return out;
}

struct Names {
    std::string_view tokens, mask, cu_seqlens;
};

TokenSet token_set_of(const rowmax_token_set& set, const Names& names) {
    TokenSet out;
    out.tokens = view_of(set.tokens, names.tokens);
    out.mask = view_of(set.mask, names.mask);
    out.cu_seqlens = view_of(set.cu_seqlens, names.cu_seqlens);
    out.offsets = view_of(set.offsets, "offsets");
    out.lengths = view_of(set.lengths, "lengths");
    out.max_seqlen = set.max_seqlen > 0 ? set.max_seqlen : -1;
    return out;
}

}  // namespace

void require(const void* pointer, std::string_view name) {
    if (pointer == nullptr) throw Error(ErrorCode::invalid_value, fmt::format("{} is a null pointer", name));
}

TensorView view_of(const rowmax_view& view, std::string_view name) {
    if (view.data == nullptr && view.ndim == 0) return {};
    if (view.ndim < 0 || view.ndim > ROWMAX_MAX_NDIM) {
        refuse(name, fmt::format("a view has 0 to {} dimensions", +ROWMAX_MAX_NDIM), view.ndim);
    }
    const auto rank = static_cast<std::size_t>(view.ndim);
    return {view.data, dtype_of(view.dtype, name), std::span(view.shape).first(rank),
            std::span(view.stride).first(rank)};
}

TensorView view_of(const rowmax_view* view, std::string_view name) {
    return view == nullptr ? TensorView() : view_of(*view, name);
}

TensorView optional_output(const rowmax_view& view, std::string_view name) {
    return view.data == nullptr ? TensorView() : view_of(view, name);
}

rowmax_view c_view(void* data, std::int32_t dtype, std::span<const std::int64_t> shape) {
    const TensorView view(nullptr, DType::f32, shape);
    rowmax_view out{};
    out.data = data;
    out.dtype = dtype;
    out.ndim = view.ndim;
    std::copy(view.shape.begin(), view.shape.end(), out.shape);
    std::copy(view.stride.begin(), view.stride.end(), out.stride);
    return out;
}

ScoreRequest request_of(const rowmax_request* request) {
    require(request, "request");
    const rowmax_request known = known_form(*request, first_request_size, "request");
    ScoreRequest out;
    out.q = token_set_of(known.q, {"Q", "q_mask", "cu_seqlens_q"});
    out.d = token_set_of(known.d, {"D", "d_mask", "cu_seqlens_d"});
    out.pairing = pairing_of(known.pairing);
    out.pair_q = view_of(known.pair_q, "pair_q");
    out.pair_d = view_of(known.pair_d, "pair_d");
    out.options = options_of(known.options);
    return out;
}

ScoreOutputs outputs_of(const rowmax_outputs* outputs) {
    require(outputs, "outputs");
    return {view_of(outputs->scores, "out"), optional_output(outputs->index, "index"),
            optional_output(outputs->similarity, "similarity")};
}

}  // namespace rowmax::capi
