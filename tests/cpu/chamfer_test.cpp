// Chamfer distances and all gradients, against the oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "core/points_reference.hpp"
#include "cpu/point_rows.hpp"
#include "cpu/points.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::int64_t> points_shape(const TensorView& points) {
    return {points.shape.begin(), points.shape.begin() + points.ndim - 1};
}

std::vector<std::int64_t> all_shape(const TensorView& points) {
    return {points.shape.begin(), points.shape.begin() + points.ndim};
}

struct Results {
    Array value, distance_p, distance_r, index_p, index_r;

    Results(const PointRequest& request, const std::vector<std::int64_t>& items)
        : value(result_type(request), items, {-7}),
          distance_p(result_type(request), points_shape(request.p.points), {-7}),
          distance_r(result_type(request), points_shape(request.r.points), {-7}),
          index_p(DType::i64, points_shape(request.p.points), {-7}),
          index_r(DType::i64, points_shape(request.r.points), {-7}) {}
};

Results chamfer_of(const PointRequest& request, Reduction reduction, bool one_sided = false) {
    const core::PointProblem problem = core::make_point_problem(request);
    Results to(request, problem.items);
    const TensorView none;
    chamfer(request, reduction, one_sided,
            {to.value.view(), to.distance_p.view(), one_sided ? none : to.distance_r.view()},
            {to.index_p.view(), one_sided ? none : to.index_r.view()});
    return to;
}

std::vector<double> zero_where_none(const core::reference::Nearest& found) {
    std::vector<double> distance = found.distance;
    for (std::size_t i = 0; i < distance.size(); ++i) distance[i] = found.index[i] < 0 ? 0 : distance[i];
    return distance;
}

Cloud sample(DType dtype) {
    Numbers numbers(5);
    const auto next = [&] { return numbers.integer(-6, 6); };
    const auto keep = [&] { return numbers.integer(0, 3) > 0 ? 1 : 0; };
    Array p = Array::generated(dtype, {4, 16, 3}, next);
    Array r = Array::generated(dtype, {4, 32, 3}, next);
    Cloud cloud{std::move(p), std::move(r), {}, {}, {}, {}};
    cloud.p_mask = Array::generated(DType::i32, {4, 16}, keep);
    cloud.r_mask = Array::generated(DType::f32, {4, 32}, keep);
    for (std::size_t i = 0; i < 16; ++i) cloud.p_mask->set(16 + i, 0);  // the second item has no P
    for (std::size_t i = 0; i < 32; ++i) cloud.r_mask->set(64 + i, 0);  // the third no R
    return cloud;
}

TEST(Chamfer, DistancesSumsAndMeansOfEveryLayout) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
        const Cloud cloud = sample(dtype);
        for (const Metric metric : {Metric::l2_sq, Metric::l1}) {
            for (const bool one_sided : {false, true}) {
                for (const Reduction reduction : {Reduction::sum, Reduction::mean}) {
                    PointRequest request = cloud.request();
                    request.options.metric = metric;
                    const bool mean = reduction == Reduction::mean;
                    const Results found = chamfer_of(request, reduction, one_sided);
                    const core::PointProblem problem = core::make_point_problem(request);
                    const auto wanted = core::reference::chamfer(problem.params, mean, one_sided);
                    EXPECT_EQ(found.distance_p.values(), zero_where_none(wanted.p));
                    EXPECT_EQ(found.index_p.values(),
                              std::vector<double>(wanted.p.index.begin(), wanted.p.index.end()));
                    for (std::size_t i = 0; i < 4; ++i)
                        EXPECT_NEAR(found.value[i], wanted.value[i], 1e-6 * wanted.value[i]);
                    EXPECT_EQ(found.value[1], 0) << "an empty set adds 0, and nothing sees it";
                    EXPECT_EQ(found.value[2], 0);
                    if (one_sided) continue;
                    EXPECT_EQ(found.distance_r.values(), zero_where_none(wanted.r));
                }
            }
        }
    }
}

TEST(Chamfer, BothDirectionsAtOnceGiveTheBitsOfEachAlone) {
    constexpr std::pair<std::int64_t, std::int64_t> sizes[] = {{1, 33}, {33, 1}, {70, 130}, {300, 1030}};
    Numbers numbers(11);
    for (const DType dtype : {DType::f32, DType::f64}) {
        for (const auto& [n, m] : sizes) {
            for (const std::int64_t dim : {1, 3, 17, 40}) {
                const bool ties = dim == 3 || dim == 17;
                const auto next = [&] { return ties ? numbers.integer(-1, 1) : numbers.real(); };
                Array p = Array::generated(dtype, {n, dim}, next);
                const Cloud cloud{std::move(p), Array::generated(dtype, {m, dim}, next), {}, {}, {}, {}};
                PointRequest request = cloud.request();
                request.options.search = PointSearch::brute;
                PointRequest turned = request;
                std::swap(turned.p, turned.r);
                const Found to_r = nearest_of(request);
                const Found to_p = nearest_of(turned);
                for (const cpu::PointRow& row : cpu::point_rows()) {
                    if (!row.missing().empty()) continue;
                    request.options.kernel = row.name;
                    for (const int threads : {1, 3}) {
                        request.options.threads = threads;
                        const Results both = chamfer_of(request, Reduction::sum);
                        EXPECT_EQ(both.distance_p.values(), to_r.distance)
                            << row.name << " " << n << " " << m << " " << dim;
                        EXPECT_EQ(both.index_p.values(), to_r.index);
                        EXPECT_EQ(both.distance_r.values(), to_p.distance)
                            << row.name << " " << n << " " << m << " " << dim;
                        EXPECT_EQ(both.index_r.values(), to_p.index);
                    }
                }
            }
        }
    }
}

TEST(Chamfer, OfNothing) {
    const Cloud none{Array(DType::f32, {0, 3}), Array(DType::f32, {0, 3}), {}, {}, {}, {}};
    EXPECT_EQ(chamfer_of(none.request(), Reduction::mean).value[0], 0);
    const Cloud no_items{Array(DType::f32, {0, 4, 3}), Array(DType::f32, {0, 2, 3}), {}, {}, {}, {}};
    EXPECT_EQ(chamfer_of(no_items.request(), Reduction::mean).value.size(), 0U);
}

TEST(Chamfer, OneNanSpoilsItsItemOnly) {
    Cloud cloud = sample(DType::f32);
    const std::vector<double> before = chamfer_of(cloud.request(), Reduction::sum).value.values();
    cloud.p_mask->set(0, 1);
    cloud.p.set(1, nan);
    const Results found = chamfer_of(cloud.request(), Reduction::sum);
    EXPECT_TRUE(std::isnan(found.value[0]));
    for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(found.value[i], before[i]);
    cloud.p_mask->set(0, 0);  // hidden, it spoils nothing
    EXPECT_FALSE(std::isnan(chamfer_of(cloud.request(), Reduction::sum).value[0]));
}

struct Gradients {
    Array p, r;
    explicit Gradients(const PointRequest& request)
        : p(request.p.points.dtype, all_shape(request.p.points), {-7}),
          r(request.p.points.dtype, all_shape(request.r.points), {-7}) {}
};

Gradients gradients_of(const PointRequest& request, std::int64_t k, const Array& index, const Array& grad) {
    Gradients to(request);
    nearest_backward(request, k, index.view(), grad.view(), to.p.view(), to.r.view());
    return to;
}

std::vector<std::int64_t> as_index(const Array& array) {
    const std::vector<double> values = array.values();
    return {values.begin(), values.end()};
}

TEST(PointGradients, OfNearestEqualTheOracle) {
    for (const DType dtype : {DType::f16, DType::f32, DType::f64}) {
        for (const Metric metric : {Metric::l2_sq, Metric::l1}) {
            const Cloud cloud = sample(dtype);
            PointRequest request = cloud.request();
            request.options.metric = metric;
            constexpr std::int64_t k = 3;
            const Array distance(result_type(request), {4, 16, k});
            const Array index(DType::i64, {4, 16, k});
            nearest(request, k, distance.view(), index.view());
            Numbers numbers(6);
            const Array grad =
                Array::generated(result_type(request), {4, 16, k}, [&] { return numbers.integer(-2, 2); });
            const Gradients found = gradients_of(request, k, index, grad);
            const core::PointProblem problem = core::make_point_problem(request);
            core::reference::PointGradient wanted{std::vector<double>(4 * 16 * 3), std::vector<double>(4 * 32 * 3)};
            core::reference::add_nearest_gradient(problem.params, k, false, as_index(index), grad.values(), wanted);
            EXPECT_EQ(found.p.values(), wanted.p);
            EXPECT_EQ(found.r.values(), wanted.r);
        }
    }
}

TEST(PointGradients, OfChamferAddBothDirections) {
    const Cloud cloud = sample(DType::f64);
    const PointRequest request = cloud.request();
    const Results found = chamfer_of(request, Reduction::sum);
    const Array grad(DType::f64, {4}, {1, 2, 3, -1});
    Gradients to(request);
    chamfer_backward(request, Reduction::sum, {found.index_p.view(), found.index_r.view()}, {grad.view(), {}, {}},
                     to.p.view(), to.r.view());
    const core::PointProblem problem = core::make_point_problem(request);
    core::reference::PointGradient wanted{std::vector<double>(4 * 16 * 3), std::vector<double>(4 * 32 * 3)};
    std::vector<double> each_p;
    std::vector<double> each_r;
    for (std::size_t i = 0; i < 4; ++i) {
        each_p.insert(each_p.end(), 16, grad[i]);
        each_r.insert(each_r.end(), 32, grad[i]);
    }
    core::reference::add_nearest_gradient(problem.params, 1, false, as_index(found.index_p), each_p, wanted);
    core::reference::add_nearest_gradient(problem.params, 1, true, as_index(found.index_r), each_r, wanted);
    EXPECT_EQ(to.p.values(), wanted.p);
    EXPECT_EQ(to.r.values(), wanted.r);
    // The same as gradients of the distances.
    const Array grad_p(DType::f64, {4, 16}, each_p);
    const Array grad_r(DType::f64, {4, 32}, each_r);
    Gradients again(request);
    chamfer_backward(request, Reduction::mean, {found.index_p.view(), found.index_r.view()},
                     {{}, grad_p.view(), grad_r.view()}, again.p.view(), again.r.view());
    EXPECT_EQ(again.p.values(), wanted.p);
}

TEST(PointGradients, ATargetThatVeryManyChoseIsSharedWithoutChangingABit) {
    Numbers numbers(9);
    constexpr std::int64_t n = 20000;
    Array p = Array::generated(DType::f32, {n, 3}, [&] { return numbers.real(); });
    const Array r(DType::f32, {3, 3}, {0, 0, 0, 50, 50, 50, 0.1, 0, 0});
    const Cloud cloud{std::move(p), r, {}, {}, {}, {}};
    PointRequest request = cloud.request();
    const Results found = chamfer_of(request, Reduction::mean);
    const Array grad(DType::f32, {}, {1});
    const auto run = [&](int threads) {
        request.options.threads = threads;
        Gradients to(request);
        chamfer_backward(request, Reduction::mean, {found.index_p.view(), found.index_r.view()}, {grad.view(), {}, {}},
                         to.p.view(), to.r.view());
        return std::pair(to.p.values(), to.r.values());
    };
    const auto wanted = run(1);
    EXPECT_EQ(run(2), wanted);
    EXPECT_EQ(run(7), wanted);
    double sum = 0;  // of mean (r - p) * 2 over those that chose the first target
    const std::vector<double> x = cloud.p.values();
    for (std::size_t i = 0; i < n; ++i) sum += found.index_p[i] == 0 ? -2 * x[3 * i] / n : 0;
    const std::vector<double> own = cloud.p.values();
    const auto chosen = static_cast<std::size_t>(found.index_r[0]);
    EXPECT_NEAR(wanted.second[0], sum - 2 * own[3 * chosen] / 3, 1e-4 * std::fabs(sum) + 1e-6);
}

TEST(PointGradients, OfL1AreZeroWhereCoordinatesAreEqual) {
    const Cloud cloud{Array(DType::f32, {1, 3}, {1, 2, 3}), Array(DType::f32, {1, 3}, {1, 5, 0}), {}, {}, {}, {}};
    PointRequest request = cloud.request();
    request.options.metric = Metric::l1;
    const Gradients found = gradients_of(request, 1, Array(DType::i64, {1, 1}, {0}), Array(DType::f32, {1, 1}, {2}));
    EXPECT_EQ(found.p.values(), (std::vector<double>{0, -2, 2}));
    EXPECT_EQ(found.r.values(), (std::vector<double>{0, 2, -2}));
}

TEST(PointGradients, AnIndexThatLiesAddsNothing) {
    const Cloud cloud{Array(DType::f32, {3, 1}, {1, 2, 3}), Array(DType::f32, {2, 1}, {0, 9}), {}, {}, {}, {}};
    const Array index(DType::i64, {3, 1}, {2, -5, 1});
    const Gradients found = gradients_of(cloud.request(), 1, index, Array(DType::f32, {3, 1}, {1}));
    EXPECT_EQ(found.p.values(), (std::vector<double>{0, 0, -12}));
    EXPECT_EQ(found.r.values(), (std::vector<double>{0, 12}));
    EXPECT_ERROR(gradients_of(cloud.request(), 1, Array(DType::i32, {3, 1}), Array(DType::f32, {3, 1})), invalid_type,
                 "index", "int32");
    EXPECT_ERROR(gradients_of(cloud.request(), 1, index, Array(DType::f32, {3, 2})), invalid_value, "grad_distance",
                 "[3, 1]", "[3, 2]");
}

TEST(Chamfer, NamesWhatIsWrong) {
    const Cloud cloud = sample(DType::f32);
    const PointRequest request = cloud.request();
    const Array value(DType::f32, {3});
    const Array doubles(DType::f64, {4});
    const Array index(DType::i64, {4, 32});
    EXPECT_ERROR(chamfer(request, Reduction::sum, false, {value.view(), {}, {}}, {}), invalid_value, "value", "[4]",
                 "[3]");
    EXPECT_ERROR(chamfer(request, Reduction::sum, false, {doubles.view(), {}, {}}, {}), invalid_type, "value",
                 "float64");
    EXPECT_ERROR(chamfer(request, Reduction::sum, true, {}, {{}, index.view()}), invalid_value, "one_sided");
    EXPECT_ERROR(chamfer(request, Reduction::sum, false, {request.p.points, {}, {}}, {}), invalid_value, "value");
    TensorView in_place = request.p.points;
    in_place.ndim = 2;
    in_place.shape = {4, 16};
    in_place.stride = {16, 1};
    EXPECT_ERROR(chamfer(request, Reduction::sum, false, {{}, in_place, {}}, {}), invalid_value, "distance_p", "P",
                 "shares memory");
}

}  // namespace
}  // namespace rowmax::test
