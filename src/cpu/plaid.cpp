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
#include "core/plaid_views.hpp"
#include "core/problem.hpp"
#include "core/views.hpp"
#include "cpu/centroid_scores.hpp"
#include "rowmax/plaid.hpp"

namespace rowmax {

namespace {

using core::CodeRuns;
using core::detail::clamp;
using core::detail::read_int;
using cpu::CentroidScores;
using cpu::CodeRun;

CodeRun run_of(const CodeRuns& documents, std::int64_t i) {
    const CodeRuns::Run run = documents.run(i);
    return {documents.codes, documents.wide_codes, run.first, documents.code_stride, run.count};
}

/// Scores all documents of a call on the CPU.
void score_all(const CentroidScores& table, const CodeRuns& documents, const std::uint8_t* kept, float* to,
               int threads) {
    constexpr std::int64_t step = 16;
    core::parallel_for(core::thread_count(threads), (documents.count + step - 1) / step, [&](std::int64_t task) {
        const auto best = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(table.tokens()));
        const std::int64_t end = std::min(documents.count, (task + 1) * step);
        for (std::int64_t b = task * step; b < end; ++b) {
            to[b] = cpu::score_codes(table, run_of(documents, b), kept, best.get());
        }
    });
}

float* checked_scores(const TensorView& scores, std::int64_t count, std::span<const core::NamedView> read) {
    auto* to = static_cast<float*>(core::checked_output(scores, DType::f32, std::span(&count, 1), "out"));
    const core::NamedView written[] = {{"out", scores}};
    core::check_disjoint(written, read);
    return to;
}

// Padded documents: a length, then its codes.
void check_padded(const CodeRuns& documents, std::int64_t b, std::int64_t centroids, const TensorView& codes,
                  bool validate) {
    const std::int64_t length = read_int(documents.bounds, documents.wide_bounds, b);
    if (validate && (length < 0 || length > documents.total)) {
        cpu::refuse_value(fmt::format("doc_lengths[{}] is {}, but codes {} hold {} tokens a document", b, length,
                                      codes.shape_text(), documents.total));
    }
    const CodeRun run = run_of(documents, b);
    for (std::int64_t t = 0; t < run.count; ++t) {
        const std::int64_t code = run.at(t);
        if (code >= 0 && code < centroids) continue;
        cpu::refuse_value(fmt::format("codes[{}, {}] is {}, but there are {} centroids", b, t, code, centroids));
    }
}

// Packed documents: the document's number, its place, then its codes.
void check_packed(const CodeRuns& documents, std::int64_t b, std::int64_t centroids, bool validate) {
    const std::int64_t count = documents.documents;
    const std::int64_t number = documents.chosen == nullptr ? b : read_int(documents.chosen, documents.wide_chosen, b);
    if ((validate || count < 1) && (number < 0 || number >= count)) {
        cpu::refuse_value(fmt::format("documents[{}] is {}, but there are {} documents", b, number, count));
    }
    const std::int64_t kept = clamp(number, 0, count - 1);
    const std::int64_t first = read_int(documents.bounds, documents.wide_bounds, kept);
    const std::int64_t last = read_int(documents.bounds, documents.wide_bounds, kept + 1);
    if (validate && (first < 0 || last < first || last > documents.total)) {
        cpu::refuse_value(
            fmt::format("cu_seqlens: document {} is [{}, {}) of {} codes", kept, first, last, documents.total));
    }
    const CodeRun run = run_of(documents, b);
    for (std::int64_t t = 0; t < run.count; ++t) {
        const std::int64_t code = run.at(t);
        if (code >= 0 && code < centroids) continue;
        cpu::refuse_value(fmt::format("codes: token {} of document {} has code {}, but there are {} centroids", t, kept,
                                      code, centroids));
    }
}

/// Documents whose lists the host can read.
CodeRuns on_host(core::Copies& copies, CodeRuns documents, std::int64_t codes) {
    if (!copies.on_device) return documents;
    if (documents.code_stride != 1 || (!documents.packed && documents.document_stride != documents.total)) {
        throw Error(ErrorCode::not_implemented, "validate: codes on a CUDA device that are not contiguous");
    }
    const auto brought = [&](const void* list, std::int64_t count, bool wide) {
        return list == nullptr ? nullptr : core::on_host(copies, {list, count, wide}).data;
    };
    documents.codes = brought(documents.codes, codes, documents.wide_codes);
    documents.bounds =
        brought(documents.bounds, documents.documents + (documents.packed ? 1 : 0), documents.wide_bounds);
    documents.chosen = brought(documents.chosen, documents.count, documents.wide_chosen);
    return documents;
}

void score_on_device(const TensorView& centroid_scores, const CodeRuns& documents, float threshold,
                     core::Copies& copies, float* to) {
    if (documents.count > 0 && centroid_scores.shape[0] == 0) {
        cpu::refuse_value("centroid_scores: there are no centroids");
    }
    if (documents.count > 0 && documents.documents == 0) cpu::refuse_value("documents: there are none to choose from");
    const core::CentroidScoresView scores = core::centroid_scores_view(copies, centroid_scores);
    core::required_device_plaid().approximate(copies.place, scores, documents, threshold, to);
}

void score_runs(const TensorView& centroid_scores, const CodeRuns& documents, float threshold, const Options& options,
                core::Copies& copies, float* to) {
    if (copies.on_device) return score_on_device(centroid_scores, documents, threshold, copies, to);
    const CentroidScores table(centroid_scores);
    const bool prunes = threshold > -std::numeric_limits<float>::infinity();
    const std::vector<std::uint8_t> kept = prunes ? table.kept(threshold) : std::vector<std::uint8_t>();
    score_all(table, documents, prunes ? kept.data() : nullptr, to, options.threads);
}

CodeRuns padded(core::Copies& copies, const TensorView& codes, const TensorView& doc_lengths) {
    core::check_input(codes, "codes");
    cpu::check_codes_type(codes);
    if (codes.ndim != 2) cpu::refuse_value(fmt::format("codes must be [B, Ld], got {}", codes.shape_text()));
    const TensorView view = core::aligned_view(copies, codes);
    const core::IntList lengths = core::int_list(copies, doc_lengths, "doc_lengths");
    if (lengths.count != codes.shape[0]) {
        cpu::refuse_value(fmt::format("doc_lengths has {} lengths, but codes {} hold {} documents", lengths.count,
                                      codes.shape_text(), codes.shape[0]));
    }
    CodeRuns documents;
    documents.codes = view.data;
    documents.wide_codes = view.dtype == DType::i64;
    documents.code_stride = view.stride[1];
    documents.document_stride = view.stride[0];
    documents.total = view.shape[1];
    documents.bounds = lengths.data;
    documents.wide_bounds = lengths.wide;
    documents.documents = documents.count = codes.shape[0];
    return documents;
}

CodeRuns packed(core::Copies& copies, const TensorView& codes, const TensorView& cu_seqlens, const TensorView& chosen) {
    core::check_input(codes, "codes");
    cpu::check_codes_type(codes);
    if (codes.ndim != 1) cpu::refuse_value(fmt::format("codes must be [T], got {}", codes.shape_text()));
    const TensorView view = core::aligned_view(copies, codes);
    const core::IntList starts = core::int_list(copies, cu_seqlens, "cu_seqlens");
    if (starts.count < 1) cpu::refuse_value("cu_seqlens is empty: it needs one offset more than documents");
    CodeRuns documents;
    documents.packed = true;
    documents.codes = view.data;
    documents.wide_codes = view.dtype == DType::i64;
    documents.code_stride = view.stride[0];
    documents.total = view.shape[0];
    documents.bounds = starts.data;
    documents.wide_bounds = starts.wide;
    documents.documents = documents.count = starts.count - 1;
    if (!chosen.given()) return documents;
    const core::IntList list = core::int_list(copies, chosen, "documents");
    documents.chosen = list.data;
    documents.wide_chosen = list.wide;
    documents.count = list.count;
    return documents;
}

}  // namespace

void plaid_approx_score(const TensorView& centroid_scores, const TensorView& codes, const TensorView& doc_lengths,
                        const TensorView& scores, const Options& options) {
    const core::StandardFloatMode mode;
    cpu::check_threads(options.threads);
    core::check_centroid_scores(centroid_scores);
    core::Copies copies = core::copies_for(options);
    const CodeRuns documents = padded(copies, codes, doc_lengths);
    const core::NamedView read[] = {
        {"centroid_scores", centroid_scores}, {"codes", codes}, {"doc_lengths", doc_lengths}};
    float* to = checked_scores(scores, documents.count, read);
    const std::int64_t centroids = centroid_scores.shape[0];
    const bool validate = core::validates(options);
    // Even unvalidated, a code into nothing cannot be clamped to something.
    if (validate || (centroids == 0 && !copies.on_device)) {
        const CodeRuns here = on_host(copies, documents, codes.numel());
        for (std::int64_t b = 0; b < here.count; ++b) check_padded(here, b, centroids, codes, validate);
    }
    score_runs(centroid_scores, documents, -std::numeric_limits<float>::infinity(), options, copies, to);
}

void plaid_approx_score_packed(const TensorView& centroid_scores, const TensorView& codes, const TensorView& cu_seqlens,
                               const TensorView& documents, const TensorView& scores, float threshold,
                               const Options& options) {
    const core::StandardFloatMode mode;
    cpu::check_threads(options.threads);
    if (threshold != threshold) cpu::refuse_value("threshold must be a number, got NaN");
    core::check_centroid_scores(centroid_scores);
    core::Copies copies = core::copies_for(options);
    const CodeRuns call = packed(copies, codes, cu_seqlens, documents);
    const core::NamedView read[] = {
        {"centroid_scores", centroid_scores}, {"codes", codes}, {"cu_seqlens", cu_seqlens}, {"documents", documents}};
    float* to = checked_scores(scores, call.count, read);
    const std::int64_t centroids = centroid_scores.shape[0];
    const bool validate = core::validates(options);
    const bool nothing_to_name = centroids == 0 || call.documents == 0;
    if (validate || (nothing_to_name && !copies.on_device)) {
        const CodeRuns here = on_host(copies, call, codes.numel());
        for (std::int64_t b = 0; b < here.count; ++b) check_packed(here, b, centroids, validate);
    }
    score_runs(centroid_scores, call, threshold, options, copies, to);
}

}  // namespace rowmax
