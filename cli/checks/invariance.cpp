// Batch invariance: a pair's score has the same bits alone, in any batch, order and layout, for any threads.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/checks/checks.hpp"
#include "cli/checks/run.hpp"
#include "cpu/sample.hpp"

namespace rowmax::checks {

namespace {

constexpr std::int64_t queries = 3;
constexpr std::int64_t documents = 6;

/// Compares variants of one request with it; pair p of the base is (p / documents, p % documents).
class Variants {
  public:
    Variants(const test::Sample& sample, const Target& target, Report& report)
        : sample_(sample), target_(target), report_(report), base_(run(sample.request, target)) {}

    /// `pair_of(p)`: which pair of the base the variant's pair p is.
    template <class PairOf>
    void expect_same(const std::string& name, const ScoreRequest& request, Wants wants, PairOf&& pair_of) {
        report_.run_case([&] { compare(name, run(request, target_, wants), wants, pair_of); });
    }
    void expect_same(const std::string& name, const ScoreRequest& request, Wants wants = Wants::everything) {
        expect_same(name, request, wants, [](std::int64_t p) { return p; });
    }

  private:
    template <class PairOf>
    void compare(const std::string& name, const Result& got, Wants wants, PairOf&& pair_of) {
        for (std::size_t p = 0; p < got.scores.size(); ++p) {
            const auto b = static_cast<std::size_t>(pair_of(static_cast<std::int64_t>(p)));
            if (same(got.scores[p], base_.scores[b]) && (wants == Wants::scores || same_answers(got, p, b))) continue;
            report_.fail(fmt::format("{}, {}: pair {} differs: {} and {}", text_of(sample_.shape()), name, b,
                                     got.scores[p], base_.scores[b]));
            return;
        }
    }
    [[nodiscard]] bool same_answers(const Result& got, std::size_t p, std::size_t b) const {
        const auto width = static_cast<std::size_t>(sample_.shape().lq);
        for (std::size_t s = 0; s < width; ++s) {
            if (got.index[p * width + s] != base_.index[b * width + s]) return false;
            if (!same(got.similarity[p * width + s], base_.similarity[b * width + s])) return false;
        }
        return true;
    }
    const test::Sample& sample_;
    const Target& target_;
    Report& report_;
    Result base_;
};

// Items first .. first + count - 1 of a dense side.
TokenSet items(const TokenSet& set, std::int64_t first, std::int64_t count) {
    TokenSet part = set;
    const auto slice = [&](TensorView& view) {
        if (!view.given()) return;
        view.data = static_cast<std::byte*>(view.data) +
                    first * view.stride[0] * static_cast<std::int64_t>(size_of(view.dtype));
        view.shape[0] = count;
    };
    slice(part.tokens);
    slice(part.mask);
    slice(part.scale);
    slice(part.codes);
    return part;
}

void vary_batch(const test::Sample& sample, Variants& variants) {
    for (std::int64_t i = 0; i < queries; ++i) {
        for (std::int64_t j = 0; j < documents; ++j) {
            ScoreRequest alone = sample.request;
            alone.q = items(alone.q, i, 1);
            alone.d = items(alone.d, j, 1);
            variants.expect_same("alone", alone, Wants::everything, [&](std::int64_t) { return i * documents + j; });
        }
    }
    ScoreRequest tail = sample.request;
    tail.d = items(tail.d, 2, documents - 2);
    variants.expect_same("without the first documents", tail, Wants::everything,
                         [](std::int64_t p) { return p / (documents - 2) * documents + 2 + p % (documents - 2); });
}

void vary_call(const test::Sample& sample, Variants& variants) {
    variants.expect_same("scores only", sample.request, Wants::scores);
    for (const int threads : {1, 2, 3, 7}) {
        ScoreRequest request = sample.request;
        request.options.threads = threads;
        variants.expect_same(fmt::format("{} threads", threads), request);
    }
}

void vary_order(const test::Sample& sample, Variants& variants) {
    std::vector<std::int64_t> q(queries * documents);
    std::vector<std::int64_t> d(queries * documents);
    for (std::int64_t p = 0; p < queries * documents; ++p) {
        const std::int64_t pair = queries * documents - 1 - p;
        q[static_cast<std::size_t>(p)] = pair / documents;
        d[static_cast<std::size_t>(p)] = pair % documents;
    }
    ScoreRequest request = sample.request;
    request.pairing = Pairing::list;
    request.pair_q = TensorView(q.data(), DType::i64, {queries * documents});
    request.pair_d = TensorView(d.data(), DType::i64, {queries * documents});
    variants.expect_same("as a list, backwards", request, Wants::everything,
                         [](std::int64_t p) { return queries * documents - 1 - p; });
}

// Every query gets all documents as its own, through a stride of 0.
void vary_grouping(const test::Sample& sample, Variants& variants) {
    ScoreRequest request = sample.request;
    const auto widen = [](TensorView& view) {
        if (!view.given()) return;
        for (int i = view.ndim; i > 0; --i) {
            view.shape[static_cast<std::size_t>(i)] = view.shape[static_cast<std::size_t>(i - 1)];
            view.stride[static_cast<std::size_t>(i)] = view.stride[static_cast<std::size_t>(i - 1)];
        }
        view.shape[0] = queries;
        view.stride[0] = 0;
        ++view.ndim;
    };
    widen(request.d.tokens);
    widen(request.d.mask);
    widen(request.d.scale);
    widen(request.d.codes);
    request.pairing = Pairing::grouped;
    variants.expect_same("grouped", request);
}

// Without masks: the same memory as packed tokens and as ranges.
void vary_layout(const test::Sample& sample, Variants& variants) {
    const test::Shape& shape = sample.shape();
    std::vector<std::int64_t> starts(documents + 1);
    for (std::int64_t i = 0; i <= documents; ++i) starts[static_cast<std::size_t>(i)] = i * shape.ld;
    const std::vector<std::int64_t> lengths(documents, shape.ld);
    ScoreRequest request = sample.request;
    const TensorView& dense = request.d.tokens;
    request.d.tokens = TensorView(dense.data, dense.dtype, {documents * shape.ld, dense.shape[2]});
    if (request.d.codes.given()) {
        request.d.codes = TensorView(request.d.codes.data, request.d.codes.dtype, {documents * shape.ld});
    }
    if (request.d.scale.given()) {
        request.d.scale = TensorView(request.d.scale.data, DType::f32, {documents * shape.ld});
    }
    request.d.cu_seqlens = TensorView(starts.data(), DType::i64, {documents + 1});
    variants.expect_same("packed", request);
    request.d.cu_seqlens = {};
    request.d.offsets = TensorView(starts.data(), DType::i64, {documents});
    request.d.lengths = TensorView(lengths.data(), DType::i64, {documents});
    variants.expect_same("ranges", request);
}

}  // namespace

Report check_invariance(const Target& target, DType dtype, const std::function<void()>& pause) {
    Report report;
    unsigned seed = 1;
    for (const std::int64_t length : {5, 16, 37, 150}) {
        for (const bool masked : {false, true}) {
            pause();
            const test::Shape shape = typed(target, dtype,
                                            {.queries = queries,
                                             .documents = documents,
                                             .lq = length,
                                             .ld = 45,
                                             .dim = dim_for(target, dtype, 40),
                                             .masked = masked,
                                             .seed = seed++});
            const test::Sample sample(shape, test::normal());
            report.run_case([&] {
                Variants variants(sample, target, report);
                vary_batch(sample, variants);
                vary_call(sample, variants);
                vary_order(sample, variants);
                vary_grouping(sample, variants);
                if (!masked) vary_layout(sample, variants);
            });
        }
    }
    return report;
}

}  // namespace rowmax::checks
