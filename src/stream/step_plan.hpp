// How large a step of a search is: large enough to keep the kernels busy, small enough for the memory cap and for
// somebody who waits for Ctrl-C to be heard.
#pragma once

#include <cstdint>

namespace rowmax::stream {

struct StepNeeds {
    std::int64_t query_count = 0;
    std::int64_t query_length = 0;  ///< longest query, tokens
    std::int64_t dim = 1;
    std::int64_t k = 1;
    std::int64_t token_bytes = 4;     ///< of one element of a token
    bool queries_copied = false;      ///< blocks of queries are copies, not views
    std::int64_t longest_copied = 0;  ///< tokens of the longest document that is copied; 0: none is
    std::int64_t held = 0;            ///< bytes of `memory` that are taken already
};

/// Limits of one step; each is at least what one query and one document need.
struct StepPlan {
    std::int64_t queries = 1;
    std::int64_t scores = 1;        ///< query-document pairs
    std::int64_t tokens = 1;        ///< document tokens
    std::int64_t copied_bytes = 0;  ///< of copied documents
};

/// What a search needs at the least: its result lists, one query, one document.
std::int64_t least_memory(const StepNeeds& needs, int threads);

/// memory in bytes, 0: no cap; threads 0: all. Throws Error(out_of_memory) naming both values when memory is
/// less than what is held and least_memory().
StepPlan plan_step(const StepNeeds& needs, std::int64_t memory, int threads);

}  // namespace rowmax::stream
