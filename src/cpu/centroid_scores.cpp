#include "cpu/centroid_scores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/element.hpp"
#include "core/plaid_views.hpp"
#include "core/views.hpp"
#include "cpu/kernels/token_sum.hpp"

namespace rowmax::cpu {

void refuse_value(const std::string& message) {
    throw Error(ErrorCode::invalid_value, message);
}

void check_threads(int threads) {
    if (threads < 0) refuse_value(fmt::format("threads: must not be negative, got {}", threads));
}

void check_codes_type(const TensorView& codes) {
    if (codes.dtype == DType::i32 || codes.dtype == DType::i64) return;
    throw Error(ErrorCode::invalid_type, fmt::format("codes must be int32 or int64, got {}", name_of(codes.dtype)));
}

CentroidScores::CentroidScores(const TensorView& scores) {
    core::check_centroid_scores(scores);
    centroids_ = scores.shape[0];
    tokens_ = scores.shape[1];
    const bool aligned = reinterpret_cast<std::uintptr_t>(scores.data) % sizeof(float) == 0;
    table_ = static_cast<const float*>(scores.data);
    if (scores.dtype == DType::f32 && scores.contiguous() && aligned) return;
    copy_ = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(scores.numel()));
    table_ = copy_.get();
    const auto size = static_cast<std::int64_t>(size_of(scores.dtype));
    float* to = copy_.get();
    for (std::int64_t c = 0; c < centroids_; ++c) {
        for (std::int64_t s = 0; s < tokens_; ++s) {
            const std::int64_t at = (c * scores.stride[0] + s * scores.stride[1]) * size;
            const auto* element = static_cast<const std::byte*>(scores.data) + at;
            *to++ = static_cast<float>(core::read_element(element, scores.dtype));
        }
    }
}

std::vector<std::uint8_t> CentroidScores::kept(float threshold) const {
    std::vector<std::uint8_t> all(static_cast<std::size_t>(centroids_));
    for (std::int64_t c = 0; c < centroids_; ++c) {
        const auto reaches = [&](float score) { return !(score < threshold); };
        all[static_cast<std::size_t>(c)] = std::any_of(row(c), row(c) + tokens_, reaches) ? 1 : 0;
    }
    return all;
}

float score_codes(const CentroidScores& scores, const CodeRun& document, const std::uint8_t* kept, float* best) {
    if (document.count == 0) return 0;
    const std::int64_t tokens = scores.tokens();
    std::fill_n(best, tokens, -std::numeric_limits<float>::infinity());
    bool found = false;
    for (std::int64_t t = 0; t < document.count; ++t) {
        const std::int64_t code = core::detail::clamp(document.at(t), 0, scores.centroids() - 1);
        if (kept != nullptr && kept[code] == 0) continue;
        found = true;
        const float* row = scores.row(code);
        for (std::int64_t s = 0; s < tokens; ++s) {
            const bool wins = !(row[s] <= best[s]) & (best[s] == best[s]);  // a NaN wins, and stays
            best[s] = wins ? row[s] : best[s];
        }
    }
    if (!found) return -std::numeric_limits<float>::infinity();
    return static_cast<float>(add_groups(0, best, tokens));
}

}  // namespace rowmax::cpu
