// What a kernel is told beyond Params when it keeps something else of a row of similarities than its maximum.
#pragma once

#include <cstdint>

#include "core/params.hpp"

namespace rowmax::core {

/// The mean or the sum of the `k` largest similarities. Scores and similarities have the type of Outputs.
struct TopTokens {
    std::int64_t k = 1;
    bool mean = true;
    void* scores = nullptr;         ///< [pairs]
    std::int32_t* index = nullptr;  ///< [pairs, q.max_length, k], best first, -1 behind the last; null: not wanted
};

/// temperature x log of the sum of exp(similarity / temperature).
struct Smooth {
    double temperature = 1;
    void* scores = nullptr;  ///< [pairs]
    /// [2, pairs, q.max_length]: of each query token the largest similarity, and the sum of exp((similarity - largest)
    /// / temperature); null: not wanted.
    void* tokens = nullptr;
};

struct SmoothGradients {
    double temperature = 1;
    const void* tokens = nullptr;       ///< as Smooth wrote them
    const void* grad_scores = nullptr;  ///< [pairs]
    void* q = nullptr;                  ///< as in Gradients
    void* d = nullptr;
};

/// Maxima of the first so many dimensions, for several such numbers.
struct Prefixes {
    const std::int64_t* dims = nullptr;  ///< [count], ascending
    std::int64_t count = 0;
    void* scores = nullptr;         ///< [count, pairs]
    std::int32_t* index = nullptr;  ///< [count, pairs, q.max_length]; null: not wanted
};

/// XTR: document tokens that are not among the `k` best of all documents of a query count as the k-th of them
/// (`impute`), or not at all.
struct Retrieval {
    std::int64_t k = 1;
    bool impute = true;
    void* scores = nullptr;              ///< [pairs]
    std::int32_t* index = nullptr;       ///< [pairs, q.max_length], -1 where nothing was retrieved; null: not wanted
    std::int64_t* last_pair = nullptr;   ///< [q.count, q.max_length], the pair of the k-th best token, -1: none
    std::int32_t* last_token = nullptr;  ///< and the token in its document; null with last_pair
};

/// What a row of the table offers besides the maximum.
struct SelectionKernels {
    void (*top_tokens)(const Params&, const TopTokens&);
    void (*smooth)(const Params&, const Smooth&);
    void (*smooth_backward)(const Params&, const SmoothGradients&);
    void (*prefixes)(const Params&, const Prefixes&);
    void (*retrieve)(const Params&, const Retrieval&);
};

}  // namespace rowmax::core
