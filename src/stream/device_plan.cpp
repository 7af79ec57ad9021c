#include "stream/device_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "rowmax/error.hpp"

namespace rowmax::stream {

namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

// Copies of this size run at full speed, and what threads write of it is still in their cache when it is copied.
constexpr std::int64_t block_chosen = 32 * mib;
// A tenth of a second of a fast device.
constexpr double work_chosen = 5e13;
constexpr std::int64_t scores_chosen = std::int64_t{1} << 24;
// Fewer documents a call do not fill a device.
constexpr std::int64_t least_chunk = 512;

// Lists of the host, which grow by doubling; the best of one device on their way there; offsets of the queries.
std::int64_t fixed_bytes(const DeviceNeeds& needs) {
    return needs.query_count * (needs.k * (32 + 12) + 64 + 8) + 2 * mib;
}

/// Both pinned blocks of every device, the copy, and an eighth for what packing notes down.
std::int64_t eighths_of_block(const DeviceNeeds& needs) {
    return 8 * (2 * needs.lanes + (needs.copied ? 1 : 0)) + 1;
}

std::int64_t least_block(const DeviceNeeds& needs) {
    const BlockLayout one = block_layout(1, std::max<std::int64_t>(needs.longest, 1), needs.row);
    return std::max(static_cast<std::int64_t>(one.bytes), needs.query_row);  // queries pass through the same memory
}

}  // namespace

BlockLayout block_layout(std::int64_t documents, std::int64_t tokens, const RowBytes& row) {
    const auto aligned = [](std::size_t bytes) {
        constexpr std::size_t alignment = 256;  // more than any kernel asks for
        return (bytes + alignment - 1) / alignment * alignment;
    };
    BlockLayout layout;
    layout.tokens = aligned((static_cast<std::size_t>(documents) + 1) * sizeof(std::int64_t));
    layout.bytes = layout.tokens + static_cast<std::size_t>(tokens * row.token);
    layout.beside = layout.bytes;
    if (row.beside == 0) return layout;
    layout.beside = aligned(layout.bytes);
    layout.bytes = layout.beside + static_cast<std::size_t>(tokens * row.beside);
    return layout;
}

std::int64_t least_device_memory(const DeviceNeeds& needs) {
    return fixed_bytes(needs) + eighths_of_block(needs) * least_block(needs) / 8 + 8;
}

DevicePlan plan_device(const DeviceNeeds& needs, std::int64_t memory) {
    const std::int64_t least = least_device_memory(needs);
    if (memory > 0 && memory - needs.held < least) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("memory: {} bytes are too little, at least {} are needed ({} queries with their k = {} "
                                "best, and two blocks of one document for each of {} devices)",
                                memory, needs.held + least, needs.query_count, needs.k, needs.lanes));
    }
    const auto everything =
        static_cast<std::int64_t>(block_layout(needs.document_count, needs.token_count, needs.row).bytes);
    std::int64_t block = std::max(std::min(block_chosen, everything), least_block(needs));
    if (memory > 0) block = std::min(block, (memory - needs.held - fixed_bytes(needs)) * 8 / eighths_of_block(needs));
    const double flops_a_token = 2.0 * static_cast<double>(needs.dim) *
                                 static_cast<double>(std::max<std::int64_t>(needs.query_count * needs.query_length, 1));
    DevicePlan plan;
    plan.block_bytes = static_cast<std::size_t>(block);
    plan.tokens = std::max<std::int64_t>(static_cast<std::int64_t>(work_chosen / flops_a_token), 1);
    plan.documents = needs.block_documents > 0 ? needs.block_documents : std::max<std::int64_t>(block / 64, 1);
    plan.chunk_documents = std::max(scores_chosen / std::max<std::int64_t>(needs.query_count, 1), least_chunk);
    plan.chunk_documents = std::min(plan.chunk_documents, plan.documents);
    return plan;
}

}  // namespace rowmax::stream
