// Requests over points for tests: every layout with masks, and results as vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "core/points.hpp"
#include "rowmax/nearest.hpp"
#include "support/array.hpp"

namespace rowmax::test {

struct Found {
    std::vector<double> distance;
    std::vector<double> index;
    bool operator==(const Found&) const = default;
};

inline DType result_type(const PointRequest& request) {
    return request.p.points.dtype == DType::f64 ? DType::f64 : DType::f32;
}

inline std::vector<std::int64_t> shape_of(const TensorView& points, std::int64_t k) {
    std::vector<std::int64_t> shape(points.shape.begin(), points.shape.begin() + points.ndim - 1);
    shape.push_back(k);
    return shape;
}

inline Found nearest_of(const PointRequest& request, std::int64_t k = 1) {
    const Array distance(result_type(request), shape_of(request.p.points, k), {-7});
    const Array index(DType::i64, shape_of(request.p.points, k), {-7});
    nearest(request, k, distance.view(), index.view());
    return {distance.values(), index.values()};
}

/// Two sides and what hides or groups their points.
struct Cloud {
    Array p;
    Array r;
    std::optional<Array> p_mask, r_mask, cu_seqlens_p, cu_seqlens_r;

    [[nodiscard]] PointRequest request() const {
        PointRequest request;
        request.p = {p.view(), view_of(p_mask), view_of(cu_seqlens_p)};
        request.r = {r.view(), view_of(r_mask), view_of(cu_seqlens_r)};
        return request;
    }
    static TensorView view_of(const std::optional<Array>& array) { return array ? array->view() : TensorView(); }
};

/// Numbers of one kind, the same on every run.
class Numbers {
  public:
    explicit Numbers(unsigned seed) : engine_(seed) {}
    double integer(int least, int largest) {
        return least + static_cast<int>(engine_() % static_cast<unsigned>(largest - least + 1));
    }
    double real() { return static_cast<double>(engine_()) / 4294967296.0 * 2 - 1; }

  private:
    std::mt19937 engine_;
};

}  // namespace rowmax::test
