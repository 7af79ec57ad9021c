// PLAID's steps on a device: what a backend offers. Arguments are checked; their memory is the device's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/params.hpp"

namespace rowmax::core {

/// Scores of centroids: element [c, s] at c * centroid_stride + s * token_stride.
struct CentroidScoresView {
    const void* data = nullptr;
    DType dtype = DType::f32;
    std::int64_t centroids = 0;
    std::int64_t tokens = 0;
    std::int64_t centroid_stride = 0;
    std::int64_t token_stride = 0;
};

/// Documents as runs of codes, all of them or some.
struct CodeRuns {
    const void* codes = nullptr;
    bool wide_codes = false;
    std::int64_t code_stride = 1;
    std::int64_t total = 0;  ///< codes of the storage, or of a padded document
    // Padded: document i from i * document_stride on, lengths[i] codes. Packed: from starts[i] to starts[i + 1].
    bool packed = false;
    std::int64_t document_stride = 0;
    const void* bounds = nullptr;  ///< lengths or starts
    bool wide_bounds = false;
    std::int64_t documents = 0;
    const void* chosen = nullptr;  ///< numbers of the documents to score; null: all
    bool wide_chosen = false;
    std::int64_t count = 0;  ///< documents to score

    struct Run {
        std::int64_t first = 0;
        std::int64_t count = 0;
    };
    /// Of document number i of those to score; what lies beyond the storage is cut off.
    [[nodiscard]] constexpr Run run(std::int64_t i) const {
        std::int64_t number = i;
        if (chosen != nullptr) number = detail::clamp(detail::read_int(chosen, wide_chosen, i), 0, documents - 1);
        const std::int64_t bound = detail::read_int(bounds, wide_bounds, number);
        if (!packed) return {number * document_stride, detail::clamp(bound, 0, total)};
        const std::int64_t first = detail::clamp(bound, 0, total);
        const std::int64_t end = detail::read_int(bounds, wide_bounds, number + 1);
        return {first * code_stride, detail::clamp(end, first, total) - first};
    }
};

/// A list of int32 or int64.
struct Numbers {
    const void* data = nullptr;
    bool wide = false;
    std::int64_t count = 0;

    [[nodiscard]] constexpr std::int64_t at(std::int64_t i) const { return detail::read_int(data, wide, i); }
};

struct DevicePlaid {
    /// The best `wanted` centroids of every query token, to [tokens][wanted].
    void (*probe)(const Place&, const CentroidScoresView&, std::int64_t wanted, std::int64_t* cells);
    /// The documents in the lists of `cells`, ascending, to `found` [documents], and how many there are.
    void (*candidates)(const Place&, const Numbers& cells, const Numbers& lists, const Numbers& lengths,
                       std::int64_t documents, std::int64_t* found, std::int64_t* count);
    /// Approximate scores [count] of documents; centroids that no token scores at `threshold` or above are left out.
    void (*approximate)(const Place&, const CentroidScoresView&, const CodeRuns&, float threshold, float* scores);
};

/// Null in a build without CUDA (src/no_cuda).
const DevicePlaid* device_plaid();
/// Throws not_implemented there.
const DevicePlaid& required_device_plaid();

}  // namespace rowmax::core
