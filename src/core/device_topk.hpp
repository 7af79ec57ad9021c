// Top-k on a device: what a backend offers so that scores stay in its memory. Core schedules the chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/params.hpp"

namespace rowmax::core {

/// Scores of documents first .. first + documents - 1, to be merged into the lists.
struct TopKChunk {
    const float* scores = nullptr;  ///< [queries][documents]
    void* lists = nullptr;          ///< DeviceTopK::lists_bytes of scratch memory, the same for all chunks
    std::int64_t queries = 0;
    std::int64_t k = 0;
    std::int64_t number = 0;  ///< of the chunk: 0, 1, 2...
    std::int64_t first = 0;
    std::int64_t documents = 0;
    float* best = nullptr;          ///< [queries][min(k, all documents)], with the last chunk: where results go
    std::int64_t* index = nullptr;  ///< likewise
};

/// Documents that one call can number.
inline constexpr std::int64_t most_device_documents = std::int64_t{1} << 32;

struct DeviceTopK {
    std::size_t (*lists_bytes)(std::int64_t queries, std::int64_t k);
    void (*merge)(const Place&, const TopKChunk&);
    /// Scratch memory in the order of the place's stream, for callers that bring none.
    void* (*take)(const Place&, std::size_t bytes);
    void (*give_back)(const Place&, void* memory);
};

/// Null in a build without CUDA (src/no_cuda).
const DeviceTopK* device_topk();

}  // namespace rowmax::core
