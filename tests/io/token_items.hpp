// The tokens of each item of a set, as plain lists, read through the core's own view of layouts.
#pragma once

#include <vector>

#include "core/half.hpp"
#include "core/sides.hpp"

namespace rowmax::test {

using Items = std::vector<std::vector<float>>;

/// float32 tokens only; masked tokens are left out.
inline Items items_of(const TokenSet& set) {
    core::Copies copies;
    const core::Segments segments = core::make_segments(copies, set, core::document_names, true);
    const std::int64_t dim = set.tokens.shape[set.tokens.ndim - 1];
    Items items;
    for (std::int64_t i = 0; i < segments.count; ++i) {
        const core::Segment segment = segments.at(i);
        items.emplace_back();
        for (std::int64_t t = 0; t < segment.length; ++t) {
            if (!segments.keeps(segment, t)) continue;
            for (std::int64_t k = 0; k < dim; ++k) {
                items.back().push_back(core::load<float>(segment.data + t * segments.row_stride + 4 * k));
            }
        }
    }
    return items;
}

}  // namespace rowmax::test
