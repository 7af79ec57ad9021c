// What the selection kernel is given: one chunk of scores, the lists before and after it.
#pragma once

#include <cstdint>

namespace rowmax::cuda {

inline constexpr int topk_threads = 512;
/// Lists of this many keys are sorted in shared memory, longer ones where they lie.
inline constexpr std::int64_t topk_in_shared = 2048;

struct TopKArguments {
    const float* scores = nullptr;             ///< [queries][chunk]
    const unsigned long long* list = nullptr;  ///< [queries][list_size], `held` keys in each
    unsigned long long* next = nullptr;        ///< the same after this chunk, `kept` keys in each
    std::int64_t list_size = 1;                ///< a power of two
    std::int64_t held = 0;
    std::int64_t kept = 0;
    std::int64_t first = 0;  ///< number of the chunk's first document
    std::int64_t chunk = 0;
    float* best = nullptr;  ///< [queries][kept], with the last chunk
    std::int64_t* documents = nullptr;
};

extern const void* const merge_chunk_kernel;

}  // namespace rowmax::cuda
