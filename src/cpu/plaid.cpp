// PLAID's first look at a document: scores of its tokens' centroids instead of its tokens.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/parallel.hpp"
#include "core/views.hpp"
#include "cpu/centroid_scores.hpp"
#include "rowmax/plaid.hpp"

namespace rowmax {

namespace {

using core::detail::clamp;
using core::detail::read_int;
using cpu::CentroidScores;
using cpu::CodeRun;

void check_run(const CodeRun& run, std::int64_t centroids, const std::string& where) {
    for (std::int64_t t = 0; t < run.count; ++t) {
        const std::int64_t code = run.at(t);
        if (code >= 0 && code < centroids) continue;
        cpu::refuse_value(fmt::format("codes[{}{}] is {}, but there are {} centroids", where, t, code, centroids));
    }
}

/// Scores documents 0 .. count - 1, whose codes `run_of` gives.
template <class RunOf>
void score_all(const CentroidScores& table, std::int64_t count, const std::uint8_t* kept, float* to, int threads,
               RunOf run_of) {
    constexpr std::int64_t step = 16;
    core::parallel_for(core::thread_count(threads), (count + step - 1) / step, [&](std::int64_t task) {
        const auto best = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(table.tokens()));
        const std::int64_t end = std::min(count, (task + 1) * step);
        for (std::int64_t b = task * step; b < end; ++b) to[b] = cpu::score_codes(table, run_of(b), kept, best.get());
    });
}

float* checked_scores(const TensorView& scores, std::int64_t count, std::span<const core::NamedView> read) {
    auto* to = static_cast<float*>(core::checked_output(scores, DType::f32, std::span(&count, 1), "out"));
    const core::NamedView written[] = {{"out", scores}};
    core::check_disjoint(written, read);
    return to;
}

/// Padded documents.
struct Padded {
    TensorView codes;
    core::IntList lengths;

    [[nodiscard]] CodeRun run(std::int64_t document) const {
        const std::int64_t length = clamp(read_int(lengths.data, lengths.wide, document), 0, codes.shape[1]);
        return {codes.data, codes.dtype == DType::i64, document * codes.stride[0], codes.stride[1], length};
    }
    void check(std::int64_t document, std::int64_t centroids, bool validate) const {
        const std::int64_t length = read_int(lengths.data, lengths.wide, document);
        if (validate && (length < 0 || length > codes.shape[1])) {
            cpu::refuse_value(fmt::format("doc_lengths[{}] is {}, but codes {} hold {} tokens a document", document,
                                          length, codes.shape_text(), codes.shape[1]));
        }
        check_run(run(document), centroids, fmt::format("{}, ", document));
    }
};

/// Packed documents, all or some.
struct Packed {
    TensorView codes;
    core::IntList starts;
    core::IntList chosen;
    bool all = true;

    [[nodiscard]] std::int64_t documents() const { return starts.count - 1; }
    [[nodiscard]] std::int64_t count() const { return all ? documents() : chosen.count; }
    [[nodiscard]] std::int64_t number(std::int64_t b) const { return all ? b : read_int(chosen.data, chosen.wide, b); }
    [[nodiscard]] CodeRun run(std::int64_t b) const {
        const std::int64_t document = clamp(number(b), 0, documents() - 1);
        const std::int64_t tokens = codes.shape[0];
        const std::int64_t first = clamp(read_int(starts.data, starts.wide, document), 0, tokens);
        const std::int64_t last = clamp(read_int(starts.data, starts.wide, document + 1), first, tokens);
        return {codes.data, codes.dtype == DType::i64, first * codes.stride[0], codes.stride[0], last - first};
    }
    void check(std::int64_t b, std::int64_t centroids, bool validate) const {
        const std::int64_t document = number(b);
        if ((validate || documents() < 1) && (document < 0 || document >= documents())) {
            cpu::refuse_value(fmt::format("documents[{}] is {}, but there are {} documents", b, document, documents()));
        }
        const std::int64_t kept = clamp(document, 0, documents() - 1);
        const std::int64_t first = read_int(starts.data, starts.wide, kept);
        const std::int64_t last = read_int(starts.data, starts.wide, kept + 1);
        if (validate && (first < 0 || last < first || last > codes.shape[0])) {
            cpu::refuse_value(
                fmt::format("cu_seqlens: document {} is [{}, {}) of {} codes", kept, first, last, codes.shape[0]));
        }
        const CodeRun codes_of = run(b);
        for (std::int64_t t = 0; t < codes_of.count; ++t) {
            const std::int64_t code = codes_of.at(t);
            if (code >= 0 && code < centroids) continue;
            cpu::refuse_value(fmt::format("codes: token {} of document {} has code {}, but there are {} centroids", t,
                                          kept, code, centroids));
        }
    }
};

Packed read_packed(core::Copies& copies, const TensorView& codes, const TensorView& cu_seqlens,
                   const TensorView& documents) {
    core::check_input(codes, "codes");
    cpu::check_codes_type(codes);
    if (codes.ndim != 1) cpu::refuse_value(fmt::format("codes must be [T], got {}", codes.shape_text()));
    Packed call;
    call.codes = core::aligned_view(copies, codes);
    call.starts = core::int_list(copies, cu_seqlens, "cu_seqlens");
    if (call.starts.count < 1) cpu::refuse_value("cu_seqlens is empty: it needs one offset more than documents");
    call.all = !documents.given();
    if (!call.all) call.chosen = core::int_list(copies, documents, "documents");
    return call;
}

}  // namespace

void plaid_approx_score(const TensorView& centroid_scores, const TensorView& codes, const TensorView& doc_lengths,
                        const TensorView& scores, bool validate, int threads) {
    const core::StandardFloatMode mode;
    cpu::check_threads(threads);
    const CentroidScores table(centroid_scores);
    core::check_input(codes, "codes");
    cpu::check_codes_type(codes);
    if (codes.ndim != 2) cpu::refuse_value(fmt::format("codes must be [B, Ld], got {}", codes.shape_text()));
    core::Copies copies;
    const Padded call{core::aligned_view(copies, codes), core::int_list(copies, doc_lengths, "doc_lengths")};
    const std::int64_t documents = codes.shape[0];
    if (call.lengths.count != documents) {
        cpu::refuse_value(fmt::format("doc_lengths has {} lengths, but codes {} hold {} documents", call.lengths.count,
                                      codes.shape_text(), documents));
    }
    const core::NamedView read[] = {
        {"centroid_scores", centroid_scores}, {"codes", codes}, {"doc_lengths", doc_lengths}};
    float* to = checked_scores(scores, documents, read);
    // Even unvalidated, a code into nothing cannot be clamped to something.
    for (std::int64_t b = 0; b < documents && (validate || table.centroids() == 0); ++b) {
        call.check(b, table.centroids(), validate);
    }
    score_all(table, documents, nullptr, to, threads, [&](std::int64_t b) { return call.run(b); });
}

void plaid_approx_score_packed(const TensorView& centroid_scores, const TensorView& codes, const TensorView& cu_seqlens,
                               const TensorView& documents, const TensorView& scores, float threshold, bool validate,
                               int threads) {
    const core::StandardFloatMode mode;
    cpu::check_threads(threads);
    if (threshold != threshold) cpu::refuse_value("threshold must be a number, got NaN");
    const CentroidScores table(centroid_scores);
    core::Copies copies;
    const Packed call = read_packed(copies, codes, cu_seqlens, documents);
    const core::NamedView read[] = {
        {"centroid_scores", centroid_scores}, {"codes", codes}, {"cu_seqlens", cu_seqlens}, {"documents", documents}};
    float* to = checked_scores(scores, call.count(), read);
    const bool nothing_to_name = table.centroids() == 0 || call.documents() == 0;
    for (std::int64_t b = 0; b < call.count() && (validate || nothing_to_name); ++b) {
        call.check(b, table.centroids(), validate);
    }
    const bool prunes = threshold > -std::numeric_limits<float>::infinity();
    const std::vector<std::uint8_t> kept = prunes ? table.kept(threshold) : std::vector<std::uint8_t>();
    score_all(table, call.count(), prunes ? kept.data() : nullptr, to, threads,
              [&](std::int64_t b) { return call.run(b); });
}

}  // namespace rowmax
