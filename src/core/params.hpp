// Params: what a kernel knows. Every layout and mask of the API is normalised into rows and segments here,
// once, by problem.cpp. Plain data with inline accessors, so that files compiled for one
// instruction set can include it without leaking code; constexpr, so that code on a GPU can call them too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rowmax/tensor.hpp"

namespace rowmax::core {

/// A mask of any type; absent when data is null. Strides in elements.
struct Mask {
    const void* data = nullptr;
    DType dtype = DType::boolean;
    std::int64_t stride_outer = 0;
    std::int64_t stride_inner = 0;
    std::int64_t stride_token = 0;
};

/// The tokens of one item: `length` rows, row t at data + t * row_stride bytes.
struct Segment {
    const std::byte* data = nullptr;
    std::int64_t length = 0;
    std::int64_t first_row = 0;    ///< counted in rows of a contiguous [.., d] gradient buffer
    std::int64_t mask_offset = 0;  ///< elements into the mask
};

enum class SegmentKind : std::uint8_t { strided, offsets, ranges };

/// One side of a problem: how tokens group into items.
struct Segments {
    const std::byte* data = nullptr;
    std::int64_t row_stride = 0;  ///< bytes between tokens
    std::int64_t count = 0;       ///< items
    std::int64_t total_rows = 0;  ///< token rows of the storage (numel / d)
    std::int64_t max_length = 0;  ///< longest item; the query side's Lq, padded
    SegmentKind kind = SegmentKind::strided;
    // strided: item i = (i / inner, i % inner)
    std::int64_t inner = 1;
    std::int64_t stride_outer = 0;  ///< bytes
    std::int64_t stride_inner = 0;  ///< bytes
    std::int64_t length = 0;
    // offsets: [count + 1] starts; ranges: [count] starts and [count] lengths; strided: perhaps [count] lengths
    const void* starts = nullptr;
    const void* lengths = nullptr;
    bool wide_starts = false;  ///< int64 rather than int32
    bool wide_lengths = false;
    Mask mask;

    [[nodiscard]] constexpr Segment at(std::int64_t item) const;
    [[nodiscard]] constexpr bool keeps(const Segment& segment, std::int64_t token) const;
};

enum class PairKind : std::uint8_t { cross, grouped, zipped, list };

/// Which pairs are scored. pair p of `count` is (query(p), document(p)).
struct Pairs {
    PairKind kind = PairKind::cross;
    std::int64_t count = 0;
    std::int64_t width = 1;  ///< cross: documents; grouped: candidates a query
    const void* list_q = nullptr;
    const void* list_d = nullptr;
    bool wide_q = false;
    bool wide_d = false;
    std::int64_t query_count = 0;  ///< list entries are clamped to these
    std::int64_t document_count = 0;

    [[nodiscard]] constexpr std::int64_t query(std::int64_t p) const;
    [[nodiscard]] constexpr std::int64_t document(std::int64_t p) const;
};

/// Where values that belong to the tokens of a side lie: one a token or one an item. Strides in elements.
struct TokenSteps {
    std::int64_t outer = 0;  ///< strided sides; others count from the storage's first row
    std::int64_t inner = 0;
    std::int64_t token = 0;  ///< 0: one for all tokens of an item

    /// Where those of an item start.
    [[nodiscard]] constexpr std::int64_t first(const Segments& side, std::int64_t item) const;
};

/// Factors of tokens: value(token) = codes x factor.
struct Scales {
    const float* data = nullptr;
    TokenSteps steps;
};

/// Documents whose tokens are a centroid's number and a packed residual.
struct Residual {
    const void* codes = nullptr;
    bool wide_codes = false;  ///< int64 rather than int32
    TokenSteps steps;
    const std::byte* centroids = nullptr;  ///< null: zeros, and no codes
    DType centroid_dtype = DType::f32;
    std::int64_t centroid_stride = 0;  ///< bytes
    std::int64_t centroid_count = 0;
    float weights[256] = {};                 ///< of buckets, where the host can read them
    const std::byte* weight_data = nullptr;  ///< null: -1 and 1
    DType weight_dtype = DType::f32;
    std::int64_t weight_stride = 0;  ///< elements
    int nbits = 0;
    bool little = false;
    bool normalize = false;
    DType query_dtype = DType::f32;
};

/// Documents whose rows are hidden states: token = W h + b.
struct Projection {
    const std::byte* weight = nullptr;  ///< [d] rows, of the tokens' type
    std::int64_t weight_stride = 0;     ///< bytes between rows
    const std::byte* bias = nullptr;    ///< [d], contiguous; null: zeros
    std::int64_t hidden = 0;            ///< elements of a row of the documents
    bool normalize = false;
};

/// What the tokens of a problem are, where they are no numbers as they are.
enum class Coding : std::uint8_t { scaled, residual, bits, projected };

struct Compressed {
    Coding coding = Coding::scaled;
    Scales q;
    Scales d;
    Residual residual;
    Projection projection;
};

/// Whose memory the pointers of a problem lie in, and what a kernel needs to work there.
struct Place {
    bool cuda = false;
    int ordinal = 0;            ///< of the CUDA device
    void* stream = nullptr;     ///< cudaStream_t
    void* workspace = nullptr;  ///< as many bytes as the row asked for
};

struct Params {
    DType dtype = DType::f32;  ///< of the documents' tokens; query_dtype() says that of queries
    std::int64_t dim = 0;
    Segments q;
    Segments d;
    Pairs pairs;
    bool normalize = false;
    bool high_precision_only = true;  ///< Precision::highest
    bool wants_index = false;
    bool backward = false;
    int threads = 0;
    Place place;
    const Compressed* compressed = nullptr;  ///< null: tokens are numbers as they are
};

/// In an index of 16 bits: no token won.
inline constexpr std::uint16_t no_token_narrow = 65535;

/// Contiguous results. index and similarity are [pairs, q.max_length]; null when not wanted.
/// Scores and similarities are double for f64 tokens, else float.
struct Outputs {
    void* scores = nullptr;
    std::int32_t* index = nullptr;
    void* similarity = nullptr;
    bool narrow = false;  ///< index has elements of 16 bits: what a backward pass on a device saves

    constexpr void write_index(std::int64_t at, std::int32_t token) const;
};

/// Inputs and results of the backward pass. Gradients are contiguous, in the tokens' type, one row per
/// token row of the storage; null when not wanted.
struct Gradients {
    const std::int32_t* index = nullptr;  ///< [pairs, q.max_length], or [.., fan]
    const void* scores = nullptr;         ///< [pairs], double for f64 tokens, else float
    void* q = nullptr;
    void* d = nullptr;
    bool narrow = false;     ///< index has elements of 16 bits
    std::int64_t fan = 1;    ///< tokens that each query token chose; more than 1 on the CPU only
    void* weight = nullptr;  ///< of a projection, like its bias
    void* bias = nullptr;
};

namespace detail {

constexpr std::int64_t read_int(const void* data, bool wide, std::int64_t i) {
    return wide ? static_cast<const std::int64_t*>(data)[i] : std::int64_t{static_cast<const std::int32_t*>(data)[i]};
}

/// a / b of numbers that are not negative. A GPU divides 64-bit numbers in about a hundred instructions, 32-bit ones in
/// twenty.
constexpr std::int64_t quotient(std::int64_t a, std::int64_t b) {
    if (((a | b) >> 32) == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
    return a / b;
}

constexpr std::int64_t clamp(std::int64_t value, std::int64_t low, std::int64_t high) {
    return value < low ? low : (value > high ? high : value);
}

}  // namespace detail

constexpr void Outputs::write_index(std::int64_t at, std::int32_t token) const {
    if (narrow) {
        static_cast<std::uint16_t*>(static_cast<void*>(index))[at] = static_cast<std::uint16_t>(token);
    } else {
        index[at] = token;
    }
}

// Offsets that lie (validate off) are clamped to the storage: never a read out of bounds.
constexpr Segment Segments::at(std::int64_t item) const {
    Segment s;
    if (kind == SegmentKind::strided) {
        const std::int64_t outer = inner == 1 ? item : detail::quotient(item, inner);
        const std::int64_t in = item - outer * inner;
        s.data = data + outer * stride_outer + in * stride_inner;
        s.length =
            lengths == nullptr ? length : detail::clamp(detail::read_int(lengths, wide_lengths, item), 0, length);
        s.first_row = item * length;
        s.mask_offset = outer * mask.stride_outer + in * mask.stride_inner;
        return s;
    }
    const std::int64_t first = detail::clamp(detail::read_int(starts, wide_starts, item), 0, total_rows);
    std::int64_t size = 0;
    if (kind == SegmentKind::offsets) {
        size = detail::clamp(detail::read_int(starts, wide_starts, item + 1), 0, total_rows) - first;
    } else {
        size = detail::read_int(lengths, wide_lengths, item);
    }
    s.data = data + first * row_stride;
    s.length = detail::clamp(size, 0, total_rows - first);
    s.first_row = first;
    return s;
}

constexpr bool Segments::keeps(const Segment& segment, std::int64_t token) const {
    if (mask.data == nullptr) return true;
    const std::int64_t i = segment.mask_offset + token * mask.stride_token;
    switch (mask.dtype) {
        case DType::f16:
        case DType::bf16: return (static_cast<const std::uint16_t*>(mask.data)[i] & 0x7fffU) != 0;
        case DType::f32: return static_cast<const float*>(mask.data)[i] != 0.0F;
        case DType::f64: return static_cast<const double*>(mask.data)[i] != 0.0;
        case DType::i16: return static_cast<const std::int16_t*>(mask.data)[i] != 0;
        case DType::i32: return static_cast<const std::int32_t*>(mask.data)[i] != 0;
        case DType::i64: return static_cast<const std::int64_t*>(mask.data)[i] != 0;
        case DType::i8:
        case DType::u8:
        case DType::boolean: break;
        case DType::f8e4m3: return (static_cast<const std::uint8_t*>(mask.data)[i] & 0x7fU) != 0;
    }
    return static_cast<const std::uint8_t*>(mask.data)[i] != 0;
}

constexpr std::int64_t TokenSteps::first(const Segments& side, std::int64_t item) const {
    if (side.kind != SegmentKind::strided) return side.at(item).first_row * token;
    const std::int64_t in = item % side.inner;
    return item / side.inner * outer + in * inner;
}

constexpr std::int64_t Pairs::query(std::int64_t p) const {
    switch (kind) {
        case PairKind::cross:
        case PairKind::grouped: return detail::quotient(p, width);
        case PairKind::zipped: return p;
        case PairKind::list: break;
    }
    return detail::clamp(detail::read_int(list_q, wide_q, p), 0, query_count - 1);
}

constexpr std::int64_t Pairs::document(std::int64_t p) const {
    switch (kind) {
        case PairKind::cross: return p % width;
        case PairKind::grouped:
        case PairKind::zipped: return p;
        case PairKind::list: break;
    }
    return detail::clamp(detail::read_int(list_d, wide_d, p), 0, document_count - 1);
}

/// Items [first, first + count) of a side whose items have one dimension (not grouped documents).
inline Segments slice(const Segments& side, std::int64_t first, std::int64_t count) {
    Segments part = side;
    part.count = count;
    if (side.lengths != nullptr) {
        part.lengths = static_cast<const std::byte*>(side.lengths) + first * (side.wide_lengths ? 8 : 4);
    }
    if (side.kind == SegmentKind::strided) {
        part.data += first * side.stride_outer;
        const auto step = static_cast<std::int64_t>(size_of(side.mask.dtype));
        if (side.mask.data != nullptr) {
            part.mask.data = static_cast<const std::byte*>(side.mask.data) + first * side.mask.stride_outer * step;
        }
        return part;
    }
    part.starts = static_cast<const std::byte*>(side.starts) + first * (side.wide_starts ? 8 : 4);
    return part;
}

/// What belongs to items [first, ..) of the documents `d`.
inline Compressed slice(const Segments& d, const Compressed& compressed, std::int64_t first) {
    Compressed part = compressed;
    if (d.kind != SegmentKind::strided) return part;
    if (part.d.data != nullptr) part.d.data += first * part.d.steps.outer;
    const std::int64_t codes = first * part.residual.steps.outer * (part.residual.wide_codes ? 8 : 4);
    if (part.residual.codes != nullptr)
        part.residual.codes = static_cast<const std::byte*>(part.residual.codes) + codes;
    return part;
}

/// How documents become tokens, where they are hidden states; else null.
inline const Projection* projection_of(const Params& params) {
    const bool is = params.compressed != nullptr && params.compressed->coding == Coding::projected;
    return is ? &params.compressed->projection : nullptr;
}

/// The type of a problem's query tokens, which that of its documents is too unless they are residuals.
inline DType query_dtype(const Params& params) {
    const bool own = params.compressed != nullptr && params.compressed->coding == Coding::residual;
    return own ? params.compressed->residual.query_dtype : params.dtype;
}

}  // namespace rowmax::core
