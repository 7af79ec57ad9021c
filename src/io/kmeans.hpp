// Spherical k-means (Dhillon and Modha, 2001): centroids of length 1, each token with the one of largest product.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace rowmax::io {

/// Rows of float32, one behind the other.
struct Rows {
    std::vector<float> values;
    std::int64_t dim = 1;

    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(values.size()) / dim; }
    [[nodiscard]] const float* row(std::int64_t i) const { return values.data() + i * dim; }
    [[nodiscard]] float* row(std::int64_t i) { return values.data() + i * dim; }
};

/// The centroid that each row has the largest product with (equal ones: the lowest), and that product.
struct Nearest {
    std::vector<std::int32_t> centroid;
    std::vector<float> similarity;
};
Nearest nearest_centroids(const Rows& rows, const Rows& centroids, int threads);

/// To length 1; zeros stay zeros.
void normalize_row(float* row, std::int64_t dim);

/// `count` centroids (at most as many as there are rows) of rows of length 1, after so many rounds of Lloyd's
/// algorithm. They start at evenly spaced rows; a centroid without rows takes the place of the row that fits its own
/// worst. The same for any number of threads. `pause` is called between rounds and may throw to stop.
Rows spherical_kmeans(const Rows& rows, std::int64_t count, int iterations, int threads,
                      const std::function<void()>& pause = {});

}  // namespace rowmax::io
