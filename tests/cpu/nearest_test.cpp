// Nearest points: every row against the oracle, both ways to search, special values, layouts.
#include "rowmax/nearest.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "core/points_reference.hpp"
#include "cpu/nearest_tuning.hpp"
#include "cpu/point_rows.hpp"
#include "cpu/points.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

/// The rows that this machine runs.
std::vector<std::string_view> point_row_names() {
    std::vector<std::string_view> names;
    for (const cpu::PointRow& row : cpu::point_rows()) {
        if (row.missing().empty()) names.push_back(row.name);
    }
    return names;
}

constexpr DType types[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Cloud integers(DType dtype, std::vector<std::int64_t> p, std::vector<std::int64_t> r, unsigned seed, int largest = 4) {
    Numbers numbers(seed);
    const auto next = [&] { return numbers.integer(-largest, largest); };
    Array ps = Array::generated(dtype, std::move(p), next);
    return {std::move(ps), Array::generated(dtype, std::move(r), next), {}, {}, {}, {}};
}

Cloud reals(DType dtype, std::vector<std::int64_t> p, std::vector<std::int64_t> r, unsigned seed, double scale = 1) {
    Numbers numbers(seed);
    const auto next = [&] { return scale * numbers.real(); };
    Array ps = Array::generated(dtype, std::move(p), next);
    return {std::move(ps), Array::generated(dtype, std::move(r), next), {}, {}, {}, {}};
}

std::optional<Array> holes(std::vector<std::int64_t> shape, unsigned seed) {
    Numbers numbers(seed);
    return Array::generated(DType::boolean, std::move(shape), [&] { return numbers.integer(0, 3) > 0 ? 1 : 0; });
}

Found oracle(const PointRequest& request, std::int64_t k) {
    const core::PointProblem problem = core::make_point_problem(request);
    const core::reference::Nearest found = core::reference::nearest(problem.params, k);
    return {found.distance, {found.index.begin(), found.index.end()}};
}

void expect_oracle(PointRequest request, std::int64_t k, const std::string& what) {
    for (const Metric metric : {Metric::l2_sq, Metric::l1}) {
        request.options.metric = metric;
        const Found wanted = oracle(request, k);
        for (const std::string_view row : point_row_names()) {
            request.options.kernel = row;
            for (const PointSearch search : {PointSearch::brute, PointSearch::tree}) {
                const std::int64_t dim = request.p.points.shape[static_cast<std::size_t>(request.p.points.ndim - 1)];
                if (search == PointSearch::tree && dim > core::most_tree_dims) continue;
                request.options.search = search;
                const Found found = nearest_of(request, k);
                EXPECT_TRUE(found == wanted) << what << " row " << row << " k " << k << " l1 " << (metric == Metric::l1)
                                             << " tree " << (search == PointSearch::tree);
            }
        }
    }
}

TEST(Nearest, ExactOnEveryRowForOddSizes) {
    constexpr std::pair<std::int64_t, std::int64_t> sizes[] = {{0, 7},  {7, 0},  {1, 1},  {1, 33},
                                                               {33, 1}, {7, 31}, {31, 7}, {33, 130}};
    unsigned seed = 1;
    for (const DType dtype : types) {
        for (const auto& [n, m] : sizes) {
            for (const std::int64_t dim : {1, 3, 16, 17, 40}) {
                const Cloud cloud = integers(dtype, {n, dim}, {m, dim}, seed++, dim < 4 ? 2 : 4);
                const std::string what = std::string(name_of(dtype)) + " " + cloud.request().p.points.shape_text() +
                                         " " + cloud.request().r.points.shape_text();
                for (const std::int64_t k : {1, 5, 40}) expect_oracle(cloud.request(), k, what);
            }
        }
    }
}

TEST(Nearest, ExactOnEveryRowForManyPointsAndCoordinates) {
    expect_oracle(integers(DType::f32, {300, 3}, {1030, 3}, 7, 3).request(), 1, "many targets");
    expect_oracle(integers(DType::f32, {1030, 2}, {257, 2}, 8, 20).request(), 3, "many sources");
    expect_oracle(integers(DType::f64, {70, 8}, {600, 8}, 9, 1).request(), 7, "ties in eight dimensions");
    expect_oracle(integers(DType::f16, {33, 256}, {31, 256}, 10).request(), 2, "one block of coordinates");
    expect_oracle(integers(DType::bf16, {33, 512}, {31, 512}, 11).request(), 2, "two blocks");
    expect_oracle(integers(DType::f32, {9, 4096}, {12, 4096}, 12).request(), 2, "most coordinates");
}

TEST(Nearest, MasksBatchesAndPackedSets) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
        Cloud dense = integers(dtype, {3, 33, 3}, {3, 50, 3}, 20);
        dense.p_mask = holes({3, 33}, 21);
        dense.r_mask = holes({1, 50}, 22);
        expect_oracle(dense.request(), 1, "masked");
        expect_oracle(dense.request(), 4, "masked");
        Cloud grouped = integers(dtype, {2, 3, 9, 5}, {2, 3, 8, 5}, 23);
        grouped.r_mask = holes({2, 3, 8}, 24);
        expect_oracle(grouped.request(), 3, "two dimensions of items");
        Cloud packed = integers(dtype, {40, 3}, {60, 3}, 25);
        packed.cu_seqlens_p = Array(DType::i32, {5}, {0, 11, 11, 30, 37});
        packed.cu_seqlens_r = Array(DType::i64, {5}, {0, 20, 33, 33, 60});
        expect_oracle(packed.request(), 2, "packed, with rows behind the last item");
        Cloud mixed = integers(dtype, {2, 9, 3}, {30, 3}, 26);
        mixed.cu_seqlens_r = Array(DType::i64, {3}, {0, 20, 30});
        expect_oracle(mixed.request(), 2, "dense and packed");
    }
}

TEST(Nearest, ViewsAreReadAsTheyLie) {
    const Cloud cloud = integers(DType::f32, {20, 6}, {6, 30}, 30);
    PointRequest request = cloud.request();
    request.p.points.shape[1] = 3;  // the first three of six columns
    request.r.points.shape = {30, 3};
    request.r.points.stride = {1, 30};  // transposed
    expect_oracle(request, 2, "strided");
    request.p.points.data = static_cast<float*>(request.p.points.data) + 19 * 6;
    request.p.points.stride[0] = -6;
    expect_oracle(request, 2, "backwards");
}

/// Sets that are hard for a tree or for its bounds.
std::vector<Cloud> hard_clouds() {
    std::vector<Cloud> clouds;
    const auto add = [&](std::int64_t n, std::int64_t m, std::int64_t dim, const std::function<double(int)>& at) {
        int p = 0;
        int r = 1;
        Array ps = Array::generated(DType::f32, {n, dim}, [&] { return at(2 * p++); });
        clouds.push_back(
            {std::move(ps), Array::generated(DType::f32, {m, dim}, [&] { return at(2 * r++ + 1); }), {}, {}, {}, {}});
    };
    Numbers numbers(40);
    add(700, 3000, 3, [&](int) { return numbers.real(); });
    add(700, 3000, 3, [&](int) { return 1e3 + 1e-3 * numbers.real(); });
    add(300, 2000, 3, [&](int) { return numbers.integer(0, 3); });              // duplicates
    add(300, 2000, 2, [&](int) { return 0.5; });                                // all the same
    add(300, 2000, 3, [&](int i) { return i % 3 == 0 ? numbers.real() : 1; });  // on lines
    add(300, 2000, 3, [&](int) { return 1e38 * 3 * numbers.real(); });          // distances overflow
    add(300, 2000, 3, [&](int) { return 1e-40 * numbers.real(); });             // denormal
    add(300, 2000, 3, [&](int) { return std::pow(10.0, 30 * numbers.real()); });
    add(200, 2000, 8, [&](int) { return numbers.real(); });
    add(100, 600, 16, [&](int) { return numbers.integer(-1, 1); });
    add(300, 2000, 1, [&](int) { return numbers.integer(-1, 1) == 0 ? -0.0 : numbers.real(); });
    return clouds;
}

TEST(Nearest, ATreeGivesTheBitsOfBruteForceOnEveryRow) {
    int number = 0;
    for (const Cloud& cloud : hard_clouds()) {
        for (const Metric metric : {Metric::l2_sq, Metric::l1}) {
            for (const std::int64_t k : {1, 9}) {
                PointRequest request = cloud.request();
                request.options.metric = metric;
                request.options.search = PointSearch::brute;
                request.options.kernel = "cpu.scalar4";
                const Found wanted = nearest_of(request, k);
                for (const std::string_view row : point_row_names()) {
                    request.options.kernel = row;
                    for (const PointSearch search : {PointSearch::brute, PointSearch::tree}) {
                        request.options.search = search;
                        EXPECT_TRUE(nearest_of(request, k) == wanted)
                            << "cloud " << number << " row " << row << " k " << k;
                    }
                }
            }
        }
        ++number;
    }
}

TEST(Nearest, RowsAgreeOnTheBitsOfLongSums) {
    for (const DType dtype : {DType::f32, DType::f64}) {
        for (const std::int64_t dim : {17, 100, 255, 257, 513, 4096}) {
            const Cloud cloud = reals(dtype, {21, dim}, {45, dim}, 50);
            PointRequest request = cloud.request();
            request.options.kernel = "cpu.scalar4";
            const Found wanted = nearest_of(request, 3);
            for (const std::string_view row : point_row_names()) {
                request.options.kernel = row;
                EXPECT_TRUE(nearest_of(request, 3) == wanted) << row << " " << dim;
                const Found one = nearest_of(request, 1);
                for (std::size_t i = 0; i < one.distance.size(); ++i)
                    EXPECT_EQ(one.distance[i], wanted.distance[3 * i]);
            }
        }
    }
}

TEST(Nearest, DistancesHoldTheirBound) {
    for (const std::int64_t dim : {3, 64, 512, 4096}) {
        const Cloud cloud = reals(DType::f32, {10, dim}, {30, dim}, 51);
        const Found found = nearest_of(cloud.request());
        const Found exact = oracle(cloud.request(), 1);
        for (std::size_t i = 0; i < found.distance.size(); ++i)
            EXPECT_NEAR(found.distance[i], exact.distance[i], 1e-6 * exact.distance[i]) << dim;
    }
}

TEST(Nearest, PointsOneThousandthApartFarFromTheOrigin) {
    const Array p(DType::f32, {1, 3}, {1000, 1000, 1000});
    const Array r(DType::f32, {3, 3}, {1000.002, 1000, 1000, 1000.001, 1000, 1000, 999.997, 1000, 1000});
    const Cloud cloud{p, r, {}, {}, {}, {}};
    const Found found = nearest_of(cloud.request());
    EXPECT_EQ(found.index, std::vector<double>{1});
    const double d = static_cast<float>(1000.001) - 1000.0;
    EXPECT_NEAR(found.distance[0], d * d, 1e-7 * d * d);
}

TEST(Nearest, SpecialValues) {
    const Array p(DType::f32, {3, 2}, {0, 0, nan, 0, inf, 0});
    const Array r(DType::f32, {4, 2}, {1, 0, 0, nan, 0, 0, nan, 0});
    const Cloud cloud{p, r, {}, {}, {}, {}};
    const Array far(DType::f32, {2, 2}, {inf, 0, -inf, 1});
    for (const std::string_view row : point_row_names()) {
        for (const PointSearch search : {PointSearch::brute, PointSearch::tree}) {
            PointRequest request = cloud.request();
            request.options.kernel = row;
            request.options.search = search;
            const Found found = nearest_of(request, 3);
            EXPECT_EQ(found.index, (std::vector<double>{1, 3, 2, 0, 1, 2, 1, 3, 0})) << "NaN first, the lowest of them";
            EXPECT_TRUE(std::isnan(found.distance[0]) && std::isnan(found.distance[1]) && found.distance[2] == 0);
            EXPECT_EQ(nearest_of(request, 1).index, (std::vector<double>{1, 0, 1}));
            request.r.points = far.view();
            const Found all_far = nearest_of(request, 1);
            EXPECT_EQ(all_far.index[0], 0) << "all are infinitely far: the first";
            EXPECT_EQ(all_far.distance[0], inf);
            EXPECT_TRUE(std::isnan(all_far.distance[2])) << "infinity less infinity";
        }
    }
}

TEST(Nearest, NeitherThreadsNorLayoutChangeABit) {
    const Cloud cloud = reals(DType::f32, {4, 3000, 3}, {4, 5000, 3}, 60);
    PointRequest request = cloud.request();
    request.options.threads = 1;
    const Found wanted = nearest_of(request, 2);
    request.options.threads = 5;
    EXPECT_TRUE(nearest_of(request, 2) == wanted);
    PointRequest packed = request;
    const Array cu_p(DType::i64, {5}, {0, 3000, 6000, 9000, 12000});
    const Array cu_r(DType::i32, {5}, {0, 5000, 10000, 15000, 20000});
    packed.p = {{request.p.points.data, DType::f32, {12000, 3}}, {}, cu_p.view()};
    packed.r = {{request.r.points.data, DType::f32, {20000, 3}}, {}, cu_r.view()};
    EXPECT_TRUE(nearest_of(packed, 2) == wanted);
    packed.options.search = PointSearch::brute;
    EXPECT_TRUE(nearest_of(packed, 2) == wanted);
}

TEST(Nearest, OffsetsThatLie) {
    Cloud cloud = integers(DType::f32, {10, 2}, {10, 2}, 70);
    cloud.cu_seqlens_p = Array(DType::i64, {4}, {0, 8, 3, 99});
    cloud.cu_seqlens_r = Array(DType::i64, {4}, {-5, 4, 1000000000000, 2});
    PointRequest request = cloud.request();
    EXPECT_ERROR(nearest_of(request), invalid_value, "cu_seqlens_p", "3", "8");
    request.options.validate = false;
    const Found found = nearest_of(request, 3);
    for (const double index : found.index) EXPECT_TRUE(index >= -1 && index < 10);
}

TEST(Nearest, NamesWhatIsWrong) {
    const Cloud cloud = integers(DType::f32, {4, 3}, {5, 3}, 80);
    const Array wide(DType::f32, {5, 4});
    const Array doubles(DType::f64, {5, 3});
    const Array codes(DType::i8, {5, 3});
    const Array batch(DType::f32, {2, 5, 3});
    const Array many(DType::f32, {5, 20});
    const Array mask(DType::boolean, {4});
    const Array flat(DType::f32, {5});
    const auto with_r = [&](const Array& r) {
        PointRequest request = cloud.request();
        request.r.points = r.view();
        return request;
    };
    EXPECT_ERROR(nearest_of(with_r(wide)), invalid_value, "P", "R", "3", "4");
    EXPECT_ERROR(nearest_of(with_r(doubles)), invalid_type, "P is float32", "R is float64");
    EXPECT_ERROR(nearest_of(with_r(codes)), invalid_type, "R must be", "int8");
    EXPECT_ERROR(nearest_of(with_r(batch)), invalid_value, "P", "R", "1 and 2");
    EXPECT_ERROR(nearest_of(with_r(flat)), invalid_value, "R must be", "[5]");
    PointRequest request = cloud.request();
    request.r.mask = mask.view();
    EXPECT_ERROR(nearest_of(request), invalid_value, "r_mask", "[4]", "[5, 3]");
    request = cloud.request();
    const Array distance(DType::f32, {4, 2});
    const Array index(DType::i64, {4, 3});
    EXPECT_ERROR(nearest(request, 0, distance.view(), index.view()), invalid_value, "k", "0");
    EXPECT_ERROR(nearest(request, 2, distance.view(), index.view()), invalid_value, "index", "[4, 2]", "[4, 3]");
    EXPECT_ERROR(nearest(request, 2, index.view(), index.view()), invalid_type, "distance", "int64");
    request.options.threads = -1;
    EXPECT_ERROR(nearest_of(request), invalid_value, "threads", "-1");
    request.options = {};
    request.options.kernel = "cpu.mmx";
    EXPECT_ERROR(nearest_of(request), invalid_value, "kernel", "cpu.mmx");
    request = with_r(many);
    request.p.points = many.view();
    request.options.search = PointSearch::tree;
    EXPECT_ERROR(nearest_of(request), not_implemented, "search", "16", "20");
}

TEST(NearestTuning, ATreeIsForManyPointsOfFewCoordinates) {
    EXPECT_FALSE(cpu::tree_pays(1000, 1000, 3, 1));
    EXPECT_TRUE(cpu::tree_pays(100'000, 100'000, 3, 1));
    EXPECT_TRUE(cpu::tree_pays(1'000'000, 1'000'000, 3, 16));
    EXPECT_FALSE(cpu::tree_pays(10, 1'000'000, 3, 1)) << "the tree takes longer than ten scans";
    EXPECT_FALSE(cpu::tree_pays(1'000'000, 1'000'000, 64, 1));
    EXPECT_FALSE(cpu::tree_pays(1'000'000, 1'000'000, 3, 500'000)) << "most points are looked at";
    EXPECT_TRUE(cpu::tree_pays(2000, 4000, 3, 16)) << "lists make pairs dear";
    for (std::int64_t dim = 1; dim < 12; ++dim) {
        for (const std::int64_t targets : {1000, 10'000, 100'000, 1'000'000})
            EXPECT_GE(cpu::tree_pays(100'000, targets, dim, 1), cpu::tree_pays(100'000, targets, dim + 1, 1));
    }
}

TEST(NearestTuning, PortionsFitTheCaches) {
    for (const std::int64_t dim : {1, 3, 64, 512, 4096}) {
        for (const std::int64_t bytes : {4, 8}) {
            EXPECT_GE(cpu::panels_of_task(dim, bytes, 32), 1);
            EXPECT_LE(cpu::panels_of_task(dim, bytes, 32) * dim * bytes * 32,
                      std::max<std::int64_t>(256 * 1024, dim * bytes * 32));
            EXPECT_GE(cpu::targets_of_block(dim, bytes), 8);
        }
    }
}

}  // namespace
}  // namespace rowmax::test
