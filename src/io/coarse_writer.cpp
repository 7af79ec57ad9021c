#include "io/coarse_writer.hpp"

#include "rowmax/compressed.hpp"

namespace rowmax::io {

CoarseWriter::CoarseWriter(const std::filesystem::path& path, const CoarseSections& sections, std::int64_t dim)
    : sections_(&sections), width_(coarse_width(sections.form, dim)), codes_(path) {
    if (!sections.scale.empty()) scale_ = std::make_unique<SectionStream>(path);
}

void CoarseWriter::append(const TensorView& tokens) {
    constexpr int threads = 1;  // a document is too little to share
    const std::int64_t count = tokens.shape[0];
    code_rows_.resize(static_cast<std::size_t>(count * width_));
    scales_.resize(static_cast<std::size_t>(count));
    const TensorView scale(scales_.data(), DType::f32, {count});
    Options options;
    options.threads = threads;
    const auto codes = [&](DType dtype) { return TensorView(code_rows_.data(), dtype, {count, width_}); };
    switch (sections_->form) {
        case Coarse::int8: quantize_int8(tokens, Granularity::token, codes(DType::i8), scale, threads); break;
        case Coarse::fp8: quantize_fp8(tokens, false, codes(DType::f8e4m3), scale, threads); break;
        case Coarse::bits: sign_bits(tokens, false, codes(DType::u8), options); break;
    }
    codes_.write(std::as_bytes(std::span(code_rows_)));
    if (scale_) scale_->write(std::as_bytes(std::span(scales_)));
}

}  // namespace rowmax::io
