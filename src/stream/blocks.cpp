#include "stream/blocks.hpp"

#include <algorithm>

namespace rowmax::stream {

bool copies_blocks(const io::TokenSource& source) {
    for (std::int64_t i = 0; i < source.count(); ++i) {
        if (source.length(i) > 0) return source.block(i, i + 1).copied_bytes > 0;  // an empty item says nothing
    }
    return false;
}

std::int64_t block_end(const io::TokenSource& documents, std::int64_t item, bool copied, const StepPlan& plan) {
    const std::int64_t row_bytes = documents.dim() * static_cast<std::int64_t>(size_of(documents.dtype()));
    const std::int64_t copied_rows = copied ? plan.copied_bytes / row_bytes : plan.tokens;
    const std::int64_t most_tokens = std::min(plan.tokens, copied_rows);
    const std::int64_t last = std::min(documents.count(), item + std::max<std::int64_t>(plan.scores / plan.queries, 1));
    std::int64_t end = item + 1;
    for (std::int64_t tokens = documents.length(item); end < last; ++end) {
        tokens += documents.length(end);
        if (tokens > most_tokens) break;
    }
    return end;
}

}  // namespace rowmax::stream
