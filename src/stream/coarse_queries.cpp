#include "stream/coarse_queries.hpp"

#include <algorithm>
#include <span>

#include "rowmax/compressed.hpp"

namespace rowmax::stream {

DType coarse_query_dtype(Coarse form, DType tokens) {
    if (form == Coarse::bits) return tokens;
    return form == Coarse::int8 ? DType::i8 : DType::f8e4m3;
}

CoarseQueries::CoarseQueries(const TokenSet& queries, Coarse form, int threads) : set_(queries) {
    if (form == Coarse::bits) return;
    const TensorView& tokens = queries.tokens;
    const std::span<const std::int64_t> shape(tokens.shape.data(), static_cast<std::size_t>(tokens.ndim));
    codes_.resize(static_cast<std::size_t>(tokens.numel()));
    scale_.resize(codes_.size() / static_cast<std::size_t>(std::max<std::int64_t>(shape.back(), 1)));
    set_.tokens = TensorView(codes_.data(), coarse_query_dtype(form, tokens.dtype), shape);
    set_.scale = TensorView(scale_.data(), DType::f32, shape.first(shape.size() - 1));
    if (form == Coarse::int8) {
        quantize_int8(tokens, Granularity::token, set_.tokens, set_.scale, threads);
    } else {
        quantize_fp8(tokens, false, set_.tokens, set_.scale, threads);
    }
}

}  // namespace rowmax::stream
