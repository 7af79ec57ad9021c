// What the kernels of PLAID's steps are given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device_plaid.hpp"

namespace rowmax::cuda {

inline constexpr int plaid_threads = 128;

struct ApproximateArguments {
    core::CentroidScoresView table;
    core::CodeRuns documents;
    const std::uint8_t* kept = nullptr;  ///< of centroids; null: all
    float* scores = nullptr;
    float threshold = 0;
};

/// Scores of centroids by query token, [tokens][centroids] float32.
struct TransposeArguments {
    core::CentroidScoresView table;
    float* to = nullptr;
};
extern const void* const transpose_scores_kernel;

/// Documents in the lists of some cells: `marks` of each.
struct CandidateArguments {
    core::Numbers cells;
    core::Numbers lists;
    core::Numbers lengths;
    std::int64_t documents = 0;
    const std::int64_t* starts = nullptr;  ///< of lists
    std::uint8_t* marks = nullptr;
};

/// Scratch memory for plaid_candidates(), and its work.
std::size_t candidate_bytes(const CandidateArguments& call);
void find_candidates(const core::Place& place, CandidateArguments call, std::byte* memory, std::int64_t* found,
                     std::int64_t* count);

/// Approximate scores from rows of float32 that can be read 16 bytes at a time, and from any other table.
extern const void* const approximate_by_four_kernel;
extern const void* const approximate_kernel;
/// Which centroids some token scores at the threshold or above, to `kept`.
extern const void* const keep_centroids_kernel;

}  // namespace rowmax::cuda
