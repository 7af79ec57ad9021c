// PLAID's inverted file: made of codes, and asked which documents the best centroids lead to.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/parallel.hpp"
#include "core/plaid_views.hpp"
#include "core/topk.hpp"
#include "core/views.hpp"
#include "cpu/centroid_scores.hpp"
#include "rowmax/plaid.hpp"

namespace rowmax {

namespace {

using core::IntList;

std::int64_t at(const IntList& list, std::int64_t i) {
    return core::detail::read_int(list.data, list.wide, i);
}

void check_code(std::int64_t code, std::int64_t centroids, std::int64_t token, std::int64_t document) {
    if (code >= 0 && code < centroids) return;
    cpu::refuse_value(fmt::format("codes: token {} of document {} has code {}, but there are {} centroids", token,
                                  document, code, centroids));
}

/// Calls f(centroid, document) for every centroid that a document has, once, documents ascending.
template <class F>
void for_each_entry(std::span<const PlaidPart> parts, std::int64_t centroids, F f) {
    std::vector<std::int64_t> seen(static_cast<std::size_t>(centroids), -1);  // the last document of each centroid
    std::int64_t document = 0;
    for (const PlaidPart& part : parts) {
        core::Copies copies;
        const IntList codes = core::int_list(copies, part.codes, "codes");
        const IntList starts = core::int_list(copies, part.cu_seqlens, "cu_seqlens");
        if (starts.count < 1) cpu::refuse_value("cu_seqlens is empty: it needs one offset more than documents");
        for (std::int64_t i = 0; i + 1 < starts.count; ++i, ++document) {
            const std::int64_t first = at(starts, i);
            const std::int64_t last = at(starts, i + 1);
            if (first < 0 || last < first || last > codes.count) {
                cpu::refuse_value(
                    fmt::format("cu_seqlens: document {} is [{}, {}) of {} codes", document, first, last, codes.count));
            }
            for (std::int64_t t = first; t < last; ++t) {
                const std::int64_t code = at(codes, t);
                check_code(code, centroids, t - first, document);
                if (seen[static_cast<std::size_t>(code)] == document) continue;
                seen[static_cast<std::size_t>(code)] = document;
                f(static_cast<std::size_t>(code), document);
            }
        }
    }
}

/// The best of some query tokens, [first, last), among all centroids.
void probe_tokens(const cpu::CentroidScores& table, std::int64_t first, std::int64_t last, std::int64_t wanted,
                  std::int64_t* cells) {
    core::TopK best(last - first, wanted);
    // Scores at or below it are not among the best: that of the last of a full list, since centroids come in order.
    std::vector<float> least(static_cast<std::size_t>(last - first), -std::numeric_limits<float>::infinity());
    for (std::int64_t c = 0; c < table.centroids(); ++c) {
        const float* row = table.row(c) + first;
        for (std::int64_t s = 0; s < last - first; ++s) {
            if (c >= wanted && row[s] <= least[static_cast<std::size_t>(s)]) continue;
            best.push(s, double{row[s]}, c);
            if (c + 1 < wanted) continue;
            least[static_cast<std::size_t>(s)] = static_cast<float>(best.worst(s).score);
        }
    }
    for (std::int64_t s = first; s < last; ++s) {
        for (const core::Hit& hit : best.ranked(s - first)) *cells++ = hit.document;
    }
}

/// Lists of an inverted file, by centroid.
class Lists {
  public:
    Lists(core::Copies& copies, const InvertedFile& file, bool validate)
        : documents_(core::int_list(copies, file.documents, "ivf")),
          lengths_(core::int_list(copies, file.lengths, "ivf_lengths")),
          validate_(validate) {
        starts_.reserve(static_cast<std::size_t>(lengths_.count) + 1);
        for (std::int64_t c = 0; c < lengths_.count; ++c) {
            const std::int64_t length = at(lengths_, c);
            const bool fits = length >= 0 && length <= documents_.count - starts_.back();
            if (!fits && validate) {
                cpu::refuse_value(fmt::format("ivf_lengths[{}] is {}, but {} of the {} entries of ivf are left", c,
                                              length, documents_.count - starts_.back(), documents_.count));
            }
            starts_.push_back(fits ? starts_.back() + length : starts_.back());
        }
    }

    template <class F>
    void for_each(std::int64_t cell, std::int64_t num_documents, F f) const {
        if (cell < 0 || cell >= lengths_.count) {
            if (validate_)
                cpu::refuse_value(fmt::format("cells hold {}, but there are {} centroids", cell, lengths_.count));
            return;
        }
        const auto c = static_cast<std::size_t>(cell);
        for (std::int64_t e = starts_[c]; e < starts_[c + 1]; ++e) {
            const std::int64_t document = at(documents_, e);
            if (document >= 0 && document < num_documents) {
                f(document);
            } else if (validate_) {
                cpu::refuse_value(fmt::format("ivf[{}] is {}, but there are {} documents", e, document, num_documents));
            }
        }
    }

  private:
    IntList documents_;
    IntList lengths_;
    bool validate_;
    std::vector<std::int64_t> starts_{0};
};

}  // namespace

InvertedFile InvertedLists::view() const {
    return {TensorView(documents.data(), DType::i64, {static_cast<std::int64_t>(documents.size())}),
            TensorView(lengths.data(), DType::i32, {static_cast<std::int64_t>(lengths.size())})};
}

InvertedLists plaid_invert(std::span<const PlaidPart> parts, std::int64_t centroids) {
    if (centroids < 0) cpu::refuse_value(fmt::format("centroids must not be negative, got {}", centroids));
    InvertedLists lists;
    lists.lengths.resize(static_cast<std::size_t>(centroids));
    for_each_entry(parts, centroids, [&](std::size_t centroid, std::int64_t) { ++lists.lengths[centroid]; });
    std::vector<std::int64_t> next{0};
    for (const std::int32_t length : lists.lengths) next.push_back(next.back() + length);
    lists.documents.resize(static_cast<std::size_t>(next.back()));
    for_each_entry(parts, centroids, [&](std::size_t centroid, std::int64_t document) {
        lists.documents[static_cast<std::size_t>(next[centroid]++)] = document;
    });
    return lists;
}

void plaid_probe(const TensorView& centroid_scores, std::int64_t nprobe, const TensorView& cells,
                 const Options& options) {
    const core::StandardFloatMode mode;
    cpu::check_threads(options.threads);
    if (nprobe < 1) cpu::refuse_value(fmt::format("nprobe must be at least 1, got {}", nprobe));
    core::check_centroid_scores(centroid_scores);
    const std::int64_t wanted = std::min(nprobe, centroid_scores.shape[0]);
    const std::int64_t shape[] = {centroid_scores.shape[1], wanted};
    auto* to = static_cast<std::int64_t*>(core::checked_output(cells, DType::i64, shape, "out"));
    const core::NamedView written[] = {{"out", cells}};
    const core::NamedView read[] = {{"centroid_scores", centroid_scores}};
    core::check_disjoint(written, read);
    if (wanted == 0) return;
    core::Copies copies = core::copies_for(options);
    if (copies.on_device) {
        const core::CentroidScoresView scores = core::centroid_scores_view(copies, centroid_scores);
        return core::required_device_plaid().probe(copies.place, scores, wanted, to);
    }
    const cpu::CentroidScores table(centroid_scores);
    constexpr std::int64_t step = 8;
    core::parallel_for(core::thread_count(options.threads), (table.tokens() + step - 1) / step, [&](std::int64_t task) {
        const std::int64_t first = task * step;
        probe_tokens(table, first, std::min(first + step, table.tokens()), wanted, to + first * wanted);
    });
}

std::vector<std::int64_t> plaid_candidates(const TensorView& cells, const InvertedFile& lists,
                                           std::int64_t num_documents, bool validate) {
    if (num_documents < 0) cpu::refuse_value(fmt::format("num_documents must not be negative, got {}", num_documents));
    core::Copies copies;
    const IntList wanted = core::flat_list(copies, cells, "cells");
    const Lists all(copies, lists, validate);
    std::vector<std::int64_t> probed;
    for (std::int64_t i = 0; i < wanted.count; ++i) probed.push_back(at(wanted, i));
    std::sort(probed.begin(), probed.end());
    probed.erase(std::unique(probed.begin(), probed.end()), probed.end());
    // One bit a document: lists are long and overlap.
    std::vector<bool> named(static_cast<std::size_t>(num_documents));
    std::int64_t count = 0;
    for (const std::int64_t cell : probed) {
        all.for_each(cell, num_documents, [&](std::int64_t document) {
            count += named[static_cast<std::size_t>(document)] ? 0 : 1;
            named[static_cast<std::size_t>(document)] = true;
        });
    }
    std::vector<std::int64_t> documents;
    documents.reserve(static_cast<std::size_t>(count));
    for (std::int64_t document = 0; document < num_documents; ++document) {
        if (named[static_cast<std::size_t>(document)]) documents.push_back(document);
    }
    return documents;
}

}  // namespace rowmax
