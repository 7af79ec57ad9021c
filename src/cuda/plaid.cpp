// PLAID's steps behind core/device_plaid.hpp.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "core/device_plaid.hpp"
#include "core/device_topk.hpp"
#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/plaid_arguments.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

constexpr std::int64_t warps_of_block = plaid_threads / 32;

bool by_four(const core::CentroidScoresView& table) {
    return table.dtype == DType::f32 && table.token_stride == 1 && table.tokens % 4 == 0 &&
           table.centroid_stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(table.data) % 16 == 0;
}

void check_size(std::int64_t count, const char* what) {
    if (count < std::numeric_limits<std::int32_t>::max()) return;
    throw Error(ErrorCode::not_implemented, fmt::format("{} {} in one call on a device", count, what));
}

void approximate(const core::Place& place, const core::CentroidScoresView& table, const core::CodeRuns& documents,
                 float threshold, float* scores) {
    if (documents.count == 0) return;
    check_size(documents.count, "documents");
    check_size(table.centroids, "centroids");
    check_size(table.tokens, "query tokens");
    const CurrentDevice current(place.ordinal);
    wake_device(place.ordinal);
    const bool prunes = threshold > -std::numeric_limits<float>::infinity();
    const Scratch scratch(place.workspace, prunes ? static_cast<std::size_t>(table.centroids) : 0, place.stream);
    ApproximateArguments call{table, documents, nullptr, scores, threshold};
    if (prunes) {
        call.kept = reinterpret_cast<const std::uint8_t*>(scratch.data());
        launch(keep_centroids_kernel, {(table.centroids + warps_of_block - 1) / warps_of_block, plaid_threads}, place,
               &call);
    }
    const std::int64_t blocks = (documents.count + warps_of_block - 1) / warps_of_block;
    launch(by_four(table) ? approximate_by_four_kernel : approximate_kernel, {blocks, plaid_threads}, place, &call);
}

// The first part of scratch memory, so that what follows it is aligned.
constexpr std::size_t aligned(std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    return (bytes + alignment - 1) / alignment * alignment;
}

/// A top-k over centroids, whose order among equals and NaN is that of probes.
void probe(const core::Place& place, const core::CentroidScoresView& table, std::int64_t wanted, std::int64_t* cells) {
    if (table.tokens == 0 || table.centroids == 0) return;
    const std::int64_t tiles = (table.centroids + 31) / 32 * ((table.tokens + 31) / 32);
    check_size(tiles, "tiles of centroids and query tokens");
    const CurrentDevice current(place.ordinal);
    wake_device(place.ordinal);
    const core::DeviceTopK& topk = *core::device_topk();
    const std::size_t rows = aligned(static_cast<std::size_t>(table.tokens * table.centroids) * sizeof(float));
    const std::size_t best = aligned(static_cast<std::size_t>(table.tokens * wanted) * sizeof(float));
    const Scratch scratch(place.workspace, rows + best + topk.lists_bytes(table.tokens, wanted), place.stream);
    const TransposeArguments call{table, reinterpret_cast<float*>(scratch.data())};
    launch(transpose_scores_kernel, {tiles, 32 * 8}, place, &call);
    core::TopKChunk chunk;
    chunk.scores = call.to;
    chunk.lists = scratch.data() + rows + best;
    chunk.queries = table.tokens;
    chunk.k = wanted;
    chunk.documents = table.centroids;
    chunk.best = reinterpret_cast<float*>(scratch.data() + rows);
    chunk.index = cells;
    topk.merge(place, chunk);
}

void candidates(const core::Place& place, const core::Numbers& cells, const core::Numbers& lists,
                const core::Numbers& lengths, std::int64_t documents, std::int64_t* found, std::int64_t* count) {
    check_size(cells.count, "cells");
    check_size(lengths.count, "centroids");
    check_size(documents, "documents");
    const CurrentDevice current(place.ordinal);
    wake_device(place.ordinal);
    const CandidateArguments call{cells, lists, lengths, documents};
    const Scratch scratch(place.workspace, candidate_bytes(call), place.stream);
    find_candidates(place, call, scratch.data(), found, count);
}

constexpr core::DevicePlaid plaid_operations{&probe, &candidates, &approximate};

}  // namespace
}  // namespace rowmax::cuda

namespace rowmax::core {

const DevicePlaid* device_plaid() {
    return &cuda::plaid_operations;
}

}  // namespace rowmax::core
