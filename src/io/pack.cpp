#include "io/pack.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/sides.hpp"
#include "io/convert.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::io {

namespace {

constexpr core::SideNames names{"tokens", "mask", "cu_seqlens", "max_seqlen", "documents"};

std::vector<std::string> ids_of(const TokenSource& source, std::int64_t first, std::int64_t last) {
    std::vector<std::string> ids;
    if (!source.ids().stored()) return ids;
    for (std::int64_t i = first; i < last; ++i) ids.push_back(source.id(i));
    return ids;
}

// Document by document, through a buffer that holds the kept tokens of one.
void append_converted(CorpusWriter& writer, const TokenSet& set, DType dtype, std::span<const std::string> ids) {
    core::Copies copies;
    const core::Segments segments = core::make_segments(copies, set, names, true);
    const std::int64_t dim = set.tokens.shape[set.tokens.ndim - 1];
    const std::size_t row_bytes = static_cast<std::size_t>(dim) * size_of(dtype);
    std::vector<std::byte> rows;
    for (std::int64_t i = 0; i < segments.count; ++i) {
        const core::Segment segment = segments.at(i);
        rows.clear();
        for (std::int64_t t = 0; t < segment.length; ++t) {
            if (!segments.keeps(segment, t)) continue;
            rows.resize(rows.size() + row_bytes);
            convert_row(segment.data + t * segments.row_stride, set.tokens.dtype, rows.data() + rows.size() - row_bytes,
                        dtype, dim, fmt::format("document {}, token {}", writer.count(), t));
        }
        const auto kept = static_cast<std::int64_t>(rows.size() / row_bytes);
        writer.append(TensorView(rows.data(), dtype, {kept, dim}),
                      ids.empty() ? std::string_view() : ids[static_cast<std::size_t>(i)]);
    }
}

}  // namespace

PackReport pack(const TokenSource& source, const std::filesystem::path& path, const PackOptions& options) {
    const DType dtype = options.dtype.value_or(source.dtype());
    CorpusWriter writer(path, dtype, source.dim(), options.coarse);
    for (std::int64_t first = 0; first < source.count();) {
        const std::int64_t last = source.block_end(first, options.block_bytes);
        const TokenBlock block = source.block(first, last);
        const std::vector<std::string> ids = ids_of(source, first, last);
        if (dtype == source.dtype()) {
            writer.append(block.set, ids);
        } else {
            append_converted(writer, block.set, dtype, ids);
        }
        first = last;
        if (options.progress) options.progress(first, source.count());
    }
    writer.commit();
    std::error_code ignored;
    return {writer.count(), writer.token_count(), std::filesystem::file_size(path, ignored)};
}

}  // namespace rowmax::io
