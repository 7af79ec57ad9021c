#include "io/kmeans.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/parallel.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::io {

namespace {

// Rows are the tokens of queries, centroids those of one document: the winning token is the nearest centroid.
void score_rows(const float* rows, std::int64_t queries, std::int64_t length, const Rows& centroids, int threads,
                std::int32_t* winner, float* similarity) {
    if (queries * length == 0) return;
    ScoreRequest request;
    request.q.tokens = TensorView(rows, DType::f32, {queries, length, centroids.dim});
    request.d.tokens = TensorView(centroids.values.data(), DType::f32, {1, centroids.count(), centroids.dim});
    request.options.threads = threads;
    std::vector<float> sums(static_cast<std::size_t>(queries));
    score(request,
          {TensorView(sums.data(), DType::f32, {queries, 1}), TensorView(winner, DType::i32, {queries, 1, length}),
           TensorView(similarity, DType::f32, {queries, 1, length})});
}

/// Rows by centroid: those of centroid c are members[starts[c]] .. members[starts[c + 1] - 1], ascending.
struct Groups {
    std::vector<std::int64_t> starts;
    std::vector<std::int64_t> members;

    Groups(const std::vector<std::int32_t>& centroid, std::int64_t count)
        : starts(static_cast<std::size_t>(count) + 1), members(centroid.size()) {
        for (const std::int32_t c : centroid) ++starts[static_cast<std::size_t>(c) + 1];
        std::partial_sum(starts.begin(), starts.end(), starts.begin());
        std::vector<std::int64_t> next(starts.begin(), starts.end() - 1);
        for (std::size_t i = 0; i < centroid.size(); ++i) {
            members[static_cast<std::size_t>(next[static_cast<std::size_t>(centroid[i])]++)] =
                static_cast<std::int64_t>(i);
        }
    }
    [[nodiscard]] std::span<const std::int64_t> of(std::int64_t c) const {
        const auto first = static_cast<std::size_t>(starts[static_cast<std::size_t>(c)]);
        const auto last = static_cast<std::size_t>(starts[static_cast<std::size_t>(c) + 1]);
        return std::span(members).subspan(first, last - first);
    }
};

/// The mean's direction; where there is none, the centroid stays.
void update_centroid(const Rows& rows, std::span<const std::int64_t> members, float* centroid) {
    std::vector<double> sum(static_cast<std::size_t>(rows.dim));
    for (const std::int64_t i : members) {
        const float* row = rows.row(i);
        for (std::int64_t k = 0; k < rows.dim; ++k) sum[static_cast<std::size_t>(k)] += double{row[k]};
    }
    const double norm = std::sqrt(std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0));
    if (norm == 0) return;
    for (std::int64_t k = 0; k < rows.dim; ++k)
        centroid[k] = static_cast<float>(sum[static_cast<std::size_t>(k)] / norm);
}

void reseed_empty(const Rows& rows, const Nearest& nearest, const Groups& groups, Rows& centroids) {
    std::vector<std::int64_t> empty;
    for (std::int64_t c = 0; c < centroids.count(); ++c) {
        if (groups.of(c).empty()) empty.push_back(c);
    }
    if (empty.empty()) return;
    std::vector<std::int64_t> worst(nearest.centroid.size());
    std::iota(worst.begin(), worst.end(), 0);
    const auto before = [&](std::int64_t a, std::int64_t b) {
        const float x = nearest.similarity[static_cast<std::size_t>(a)];
        const float y = nearest.similarity[static_cast<std::size_t>(b)];
        return x != y ? x < y : a < b;
    };
    const auto wanted = static_cast<std::ptrdiff_t>(empty.size());
    std::partial_sort(worst.begin(), worst.begin() + wanted, worst.end(), before);
    for (std::size_t i = 0; i < empty.size(); ++i) {
        std::copy_n(rows.row(worst[i]), rows.dim, centroids.row(empty[i]));
    }
}

}  // namespace

Nearest nearest_centroids(const Rows& rows, const Rows& centroids, int threads) {
    constexpr std::int64_t length = 64;  // rows to a query: enough to fill a kernel's tile, few enough to share out
    const auto count = static_cast<std::size_t>(rows.count());
    Nearest nearest{std::vector<std::int32_t>(count), std::vector<float>(count)};
    const std::int64_t whole = rows.count() / length;
    const auto done = static_cast<std::size_t>(whole * length);
    score_rows(rows.values.data(), whole, length, centroids, threads, nearest.centroid.data(),
               nearest.similarity.data());
    score_rows(rows.row(whole * length), 1, rows.count() - whole * length, centroids, threads,
               nearest.centroid.data() + done, nearest.similarity.data() + done);
    return nearest;
}

void normalize_row(float* row, std::int64_t dim) {
    double sum = 0;
    for (std::int64_t k = 0; k < dim; ++k) sum += double{row[k]} * double{row[k]};
    const double norm = std::sqrt(sum);
    if (norm == 0) return;
    for (std::int64_t k = 0; k < dim; ++k) row[k] = static_cast<float>(double{row[k]} / norm);
}

Rows spherical_kmeans(const Rows& rows, std::int64_t count, int iterations, int threads,
                      const std::function<void()>& pause) {
    count = std::min(count, rows.count());
    Rows centroids{std::vector<float>(static_cast<std::size_t>(count * rows.dim)), rows.dim};
    for (std::int64_t c = 0; c < count; ++c)
        std::copy_n(rows.row(c * rows.count() / count), rows.dim, centroids.row(c));
    for (int round = 0; round < iterations && count > 0; ++round) {
        if (pause) pause();
        const Nearest nearest = nearest_centroids(rows, centroids, threads);
        const Groups groups(nearest.centroid, count);
        core::parallel_for(core::thread_count(threads), count,
                           [&](std::int64_t c) { update_centroid(rows, groups.of(c), centroids.row(c)); });
        reseed_empty(rows, nearest, groups, centroids);
    }
    return centroids;
}

}  // namespace rowmax::io
