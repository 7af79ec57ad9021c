// PLAID's first look at a document: scores of its tokens' centroids instead of its tokens.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <span>

#include "core/element.hpp"
#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/parallel.hpp"
#include "core/views.hpp"
#include "cpu/kernels/token_sum.hpp"
#include "rowmax/compressed.hpp"

namespace rowmax {

namespace {

using core::detail::read_int;

/// The call, checked: contiguous rows of centroid scores, codes by their strides.
struct Plaid {
    const float* table = nullptr;  ///< [centroids][tokens]
    std::int64_t centroids = 0;
    std::int64_t tokens = 0;
    TensorView codes;
    core::IntList lengths;

    [[nodiscard]] std::int64_t length(std::int64_t document) const {
        return core::detail::clamp(read_int(lengths.data, lengths.wide, document), 0, codes.shape[1]);
    }
    [[nodiscard]] std::int64_t code(std::int64_t document, std::int64_t token) const {
        const std::int64_t at = document * codes.stride[0] + token * codes.stride[1];
        return read_int(codes.data, codes.dtype == DType::i64, at);
    }
};

[[noreturn]] void fail(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

void check_inputs(const TensorView& scores, const TensorView& codes) {
    core::check_input(scores, "centroid_scores");
    core::check_input(codes, "codes");
    if (scores.dtype != DType::f32 && scores.dtype != DType::f16 && scores.dtype != DType::bf16) {
        fail(ErrorCode::invalid_type,
             fmt::format("centroid_scores must be float32, float16 or bfloat16, got {}", name_of(scores.dtype)));
    }
    if (codes.dtype != DType::i32 && codes.dtype != DType::i64) {
        fail(ErrorCode::invalid_type, fmt::format("codes must be int32 or int64, got {}", name_of(codes.dtype)));
    }
    if (scores.ndim != 2) {
        fail(ErrorCode::invalid_value, fmt::format("centroid_scores must be [C, Lq], got {}", scores.shape_text()));
    }
    if (codes.ndim != 2)
        fail(ErrorCode::invalid_value, fmt::format("codes must be [B, Ld], got {}", codes.shape_text()));
}

/// The scores in place where they are rows of float32, else a copy.
const float* table_of(const TensorView& scores, std::unique_ptr<float[]>& copy) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(scores.data) % sizeof(float) == 0;
    if (scores.dtype == DType::f32 && scores.contiguous() && aligned) return static_cast<const float*>(scores.data);
    copy = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(scores.numel()));
    const auto size = static_cast<std::int64_t>(size_of(scores.dtype));
    float* to = copy.get();
    for (std::int64_t c = 0; c < scores.shape[0]; ++c) {
        for (std::int64_t s = 0; s < scores.shape[1]; ++s) {
            const std::int64_t at = (c * scores.stride[0] + s * scores.stride[1]) * size;
            const auto* element = static_cast<const std::byte*>(scores.data) + at;
            *to++ = static_cast<float>(core::read_element(element, scores.dtype));
        }
    }
    return copy.get();
}

void check_values(const Plaid& call, bool validate) {
    for (std::int64_t b = 0; b < call.codes.shape[0]; ++b) {
        const std::int64_t length = read_int(call.lengths.data, call.lengths.wide, b);
        if (validate && (length < 0 || length > call.codes.shape[1])) {
            fail(ErrorCode::invalid_value, fmt::format("doc_lengths[{}] is {}, but codes {} hold {} tokens a document",
                                                       b, length, call.codes.shape_text(), call.codes.shape[1]));
        }
        for (std::int64_t t = 0; t < call.length(b); ++t) {
            const std::int64_t code = call.code(b, t);
            if (code >= 0 && code < call.centroids) continue;
            fail(ErrorCode::invalid_value,
                 fmt::format("codes[{}, {}] is {}, but there are {} centroids", b, t, code, call.centroids));
        }
    }
}

float score_document(const Plaid& call, std::int64_t document, float* best) {
    const std::int64_t length = call.length(document);
    if (length == 0) return 0;
    std::fill_n(best, call.tokens, -std::numeric_limits<float>::infinity());
    for (std::int64_t t = 0; t < length; ++t) {
        const std::int64_t code = core::detail::clamp(call.code(document, t), 0, call.centroids - 1);
        const float* row = call.table + code * call.tokens;
        for (std::int64_t s = 0; s < call.tokens; ++s) {
            const bool wins = !(row[s] <= best[s]) & (best[s] == best[s]);  // a NaN wins, and stays
            best[s] = wins ? row[s] : best[s];
        }
    }
    return static_cast<float>(cpu::add_groups(0, best, call.tokens));
}

}  // namespace

void plaid_approx_score(const TensorView& centroid_scores, const TensorView& codes, const TensorView& doc_lengths,
                        const TensorView& scores, bool validate, int threads) {
    const core::StandardFloatMode mode;
    if (threads < 0) {
        throw Error(ErrorCode::invalid_value, fmt::format("threads: must not be negative, got {}", threads));
    }
    check_inputs(centroid_scores, codes);
    core::Copies copies;
    Plaid call;
    call.codes = core::aligned_view(copies, codes);
    call.lengths = core::int_list(copies, doc_lengths, "doc_lengths");
    const std::int64_t documents = codes.shape[0];
    if (call.lengths.count != documents) {
        fail(ErrorCode::invalid_value, fmt::format("doc_lengths has {} lengths, but codes {} hold {} documents",
                                                   call.lengths.count, codes.shape_text(), documents));
    }
    auto* to = static_cast<float*>(core::checked_output(scores, DType::f32, std::span(&documents, 1), "out"));
    const core::NamedView written[] = {{"out", scores}};
    const core::NamedView read[] = {
        {"centroid_scores", centroid_scores}, {"codes", codes}, {"doc_lengths", doc_lengths}};
    core::check_disjoint(written, read);
    call.centroids = centroid_scores.shape[0];
    call.tokens = centroid_scores.shape[1];
    // Even unvalidated, a code into nothing cannot be clamped to something.
    if (validate || call.centroids == 0) check_values(call, validate);
    std::unique_ptr<float[]> copy;
    call.table = table_of(centroid_scores, copy);
    constexpr std::int64_t step = 16;
    core::parallel_for(core::thread_count(threads), (documents + step - 1) / step, [&](std::int64_t task) {
        const auto best = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(call.tokens));
        const std::int64_t end = std::min(documents, (task + 1) * step);
        for (std::int64_t b = task * step; b < end; ++b) to[b] = score_document(call, b, best.get());
    });
}

}  // namespace rowmax
