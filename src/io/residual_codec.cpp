#include "io/residual_codec.hpp"

#include <algorithm>
#include <cmath>

#include "core/bit_fields.hpp"
#include "core/half.hpp"
#include "core/parallel.hpp"

namespace rowmax::io {

namespace {

constexpr std::int64_t most_trained = std::int64_t{1} << 15;  // tokens: some millions of numbers

float rounded_to_half(float x) {
    return core::half_to_float(core::float_to_half(x));
}

/// Between the two nearest, as torch.quantile; `sorted` is not empty.
float quantile(const std::vector<float>& sorted, double q) {
    const double place = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    const double part = place - static_cast<double>(below);
    return static_cast<float>((1 - part) * double{sorted[below]} + part * double{sorted[above]});
}

/// Evenly spaced rows, at most most_trained.
Rows some_of(const Rows& rows) {
    const std::int64_t count = std::min(rows.count(), most_trained);
    Rows some{{}, rows.dim};
    for (std::int64_t i = 0; i < count; ++i) {
        const float* row = rows.row(i * rows.count() / count);
        some.values.insert(some.values.end(), row, row + rows.dim);
    }
    return some;
}

/// Rows less their centroids.
void subtract_centroids(Rows& rows, const std::vector<std::int32_t>& codes, const Rows& centroids) {
    for (std::int64_t i = 0; i < rows.count(); ++i) {
        const float* centroid = centroids.row(codes[static_cast<std::size_t>(i)]);
        float* row = rows.row(i);
        for (std::int64_t k = 0; k < rows.dim; ++k) row[k] -= centroid[k];
    }
}

void measure(const Rows& residuals, ResidualCodec& codec) {
    const auto dim = static_cast<std::size_t>(residuals.dim);
    std::vector<double> magnitude(dim);
    std::vector<float> lengths;
    for (std::int64_t i = 0; i < residuals.count(); ++i) {
        double square = 0;
        for (std::size_t k = 0; k < dim; ++k) {
            const double x = double{residuals.row(i)[k]};
            magnitude[k] += std::fabs(x);
            square += x * x;
        }
        lengths.push_back(static_cast<float>(std::sqrt(square)));
    }
    for (const double sum : magnitude) {
        const double count = std::max<double>(1, static_cast<double>(residuals.count()));
        codec.avg_residual.push_back(rounded_to_half(static_cast<float>(sum / count)));
    }
    std::sort(lengths.begin(), lengths.end());
    codec.cluster_threshold = lengths.empty() ? 0 : quantile(lengths, 0.75);
}

/// Packed from the top of each byte, each number's lowest bit first: the little order of the reversed byte.
void pack_row(const ResidualCodec& codec, const float* row, const float* centroid, std::uint8_t* to) {
    const int per_byte = 8 / codec.nbits;
    for (std::int64_t k = 0; k < codec.centroids.dim;) {
        unsigned byte = 0;
        for (int i = 0; i < per_byte; ++i, ++k) {
            const auto at = std::lower_bound(codec.cutoffs.begin(), codec.cutoffs.end(), row[k] - centroid[k]);
            byte |= static_cast<unsigned>(at - codec.cutoffs.begin()) << (i * codec.nbits);
        }
        *to++ = core::reversed(static_cast<std::uint8_t>(byte));
    }
}

}  // namespace

ResidualCodec train_codec(const Rows& rows, Rows centroids, int nbits, int threads) {
    ResidualCodec codec;
    codec.nbits = nbits;
    for (float& x : centroids.values) x = rounded_to_half(x);
    codec.centroids = std::move(centroids);
    Rows residuals = some_of(rows);
    subtract_centroids(residuals, nearest_centroids(residuals, codec.centroids, threads).centroid, codec.centroids);
    measure(residuals, codec);
    std::vector<float>& sorted = residuals.values;
    if (sorted.empty()) sorted.push_back(0);
    std::sort(sorted.begin(), sorted.end());
    const int buckets = 1 << nbits;
    for (int b = 1; b < buckets; ++b) codec.cutoffs.push_back(rounded_to_half(quantile(sorted, b / double(buckets))));
    for (int b = 0; b < buckets; ++b) {
        codec.weights.push_back(rounded_to_half(quantile(sorted, (b + 0.5) / buckets)));
    }
    return codec;
}

void encode_rows(const ResidualCodec& codec, const Rows& rows, int threads, std::vector<std::int64_t>& codes,
                 std::vector<std::uint8_t>& residuals) {
    const Nearest nearest = nearest_centroids(rows, codec.centroids, threads);
    codes.assign(nearest.centroid.begin(), nearest.centroid.end());
    residuals.resize(static_cast<std::size_t>(rows.count() * codec.bytes()));
    constexpr std::int64_t step = 256;
    core::parallel_for(core::thread_count(threads), (rows.count() + step - 1) / step, [&](std::int64_t task) {
        for (std::int64_t i = task * step; i < std::min(rows.count(), (task + 1) * step); ++i) {
            const float* centroid = codec.centroids.row(nearest.centroid[static_cast<std::size_t>(i)]);
            pack_row(codec, rows.row(i), centroid, residuals.data() + i * codec.bytes());
        }
    });
}

}  // namespace rowmax::io
