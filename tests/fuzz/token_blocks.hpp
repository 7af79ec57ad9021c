// Every token of a source, through blocks.
#pragma once

#include "core/sides.hpp"
#include "fuzz/fuzz.hpp"
#include "io/token_source.hpp"

namespace rowmax::fuzz {

inline void read_block(const io::TokenBlock& block) {
    if (block.set.tokens.dtype == DType::i8) return touch(block.set.tokens);  // the core does not take it yet
    core::Copies copies;
    const core::Segments segments = core::make_segments(copies, block.set, core::document_names, true);
    const std::int64_t dim = block.set.tokens.shape[block.set.tokens.ndim - 1];
    for (std::int64_t i = 0; i < segments.count; ++i) {
        const core::Segment segment = segments.at(i);
        for (std::int64_t t = 0; t < segment.length; ++t) {
            if (segments.keeps(segment, t))
                touch({segment.data + t * segments.row_stride, block.set.tokens.dtype, {dim}});
        }
    }
}

inline void read_source(const io::TokenSource& source) {
    if (source.count() > 4096) return;
    for (std::int64_t first = 0; first < source.count();) {
        const std::int64_t last = source.block_end(first, 16);
        read_block(source.block(first, last));
        first = last;
    }
    read_block(source.all());
}

}  // namespace rowmax::fuzz
