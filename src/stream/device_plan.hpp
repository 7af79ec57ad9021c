// How large the blocks are that go to devices: large enough that copies run at full speed, small enough for the memory
// cap and for somebody who waits for Ctrl-C to be heard.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stream/packing.hpp"

namespace rowmax::stream {

struct DeviceNeeds {
    std::int64_t query_count = 0;
    std::int64_t query_length = 0;  ///< longest query, tokens
    std::int64_t dim = 1;
    std::int64_t k = 1;
    RowBytes row = {};           ///< of documents, the widest
    std::int64_t query_row = 0;  ///< bytes of a query token as it is scored
    std::int64_t longest = 0;    ///< tokens of the longest document
    std::int64_t document_count = 0;
    std::int64_t token_count = 0;      ///< of all documents
    std::int64_t lanes = 1;            ///< devices, each as often as it is named
    bool copied = false;               ///< some blocks are copies on the host before they are packed
    std::int64_t held = 0;             ///< bytes of `memory` that are taken already
    std::int64_t block_documents = 0;  ///< most documents a block; 0: chosen
};

/// Limits of one block, and of one kernel call on it.
struct DevicePlan {
    std::size_t block_bytes = 0;  ///< offsets and tokens; each device has two blocks, on both sides
    std::int64_t tokens = 1;      ///< unless one document has more
    std::int64_t documents = 1;
    std::int64_t chunk_documents = 1;  ///< scored in one call
};

/// A block of documents: their offsets, then their tokens, then what belongs to each of these.
struct BlockLayout {
    std::size_t tokens = 0;  ///< where they begin
    std::size_t beside = 0;
    std::size_t bytes = 0;
};
BlockLayout block_layout(std::int64_t documents, std::int64_t tokens, const RowBytes& row);

/// What a search needs on the host at the least: its lists, and blocks that hold the longest document.
std::int64_t least_device_memory(const DeviceNeeds& needs);

/// memory in bytes, 0: no cap. Throws Error(out_of_memory) naming both values when memory is less than what is held
/// and least_device_memory().
DevicePlan plan_device(const DeviceNeeds& needs, std::int64_t memory);

}  // namespace rowmax::stream
