// scatter_sum: every instruction set and both ways against the definition, bit for bit; lies and errors.
#include "rowmax/scatter.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <vector>

#include "core/half.hpp"
#include "cpu/kernels/counting_sort.hpp"
#include "cpu/kernels/row_sum_table.hpp"
#include "cpu/kernels/scatter.hpp"
#include "rowmax/maxsim.hpp"
#include "support/array.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

constexpr DType value_types[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

/// What the header promises, in the order it promises.
template <class Sum>
std::vector<double> by_definition(const Array& index, const Array& values, std::int64_t n, std::int64_t channels,
                                  DType dtype) {
    Array out(dtype, {n, channels});
    for (std::int64_t d = 0; d < n; ++d) {
        for (std::int64_t c = 0; c < channels; ++c) {
            std::vector<Sum> runs{0};
            int in_run = 0;
            for (std::size_t s = 0; s < index.size(); ++s) {
                if (static_cast<std::int64_t>(index[s]) != d) continue;
                if (in_run == 256) {
                    runs.push_back(0);
                    in_run = 0;
                }
                ++in_run;
                runs.back() += static_cast<Sum>(values[s * static_cast<std::size_t>(channels) + std::size_t(c)]);
            }
            Sum total = runs[0];
            for (std::size_t r = 1; r < runs.size(); ++r) total += runs[r];
            out.set(static_cast<std::size_t>(d * channels + c), double{total});
        }
    }
    return out.values();
}

struct Case {
    std::int64_t sources;
    std::int64_t destinations;
    std::int64_t channels;
};
constexpr Case cases[] = {{0, 3, 2},   {1, 1, 1},    {7, 3, 1},     {300, 1, 1},  {1030, 2, 33}, {515, 1, 3},
                          {64, 90, 5}, {900, 7, 19}, {2000, 1, 65}, {700, 40, 8}, {600, 2, 140}, {33, 4, 512}};

Array random_index(const Case& shape, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<std::int64_t> any(-1, shape.destinations - 1);
    return Array::generated(DType::i64, {shape.sources}, [&] { return static_cast<double>(any(random)); });
}

Array random_values(DType dtype, const Case& shape, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> any;
    return Array::generated(dtype, {shape.sources, shape.channels}, [&] { return any(random); });
}

template <class Sum>
const cpu::RowSums<Sum>& sums_of(const cpu::RowSumOps& ops, DType dtype) {
    if constexpr (sizeof(Sum) == sizeof(double)) {
        return ops.f64;
    } else {
        return dtype == DType::f16 ? ops.f16 : dtype == DType::bf16 ? ops.bf16 : ops.f32;
    }
}

/// Both ways, with 1 and 3 threads' shares.
template <class Sum>
void expect_all_ways(const Case& shape, DType dtype, const cpu::RowSumOps& table) {
    const Array index = random_index(shape, 3);
    const Array values = random_values(dtype, shape, 5);
    const auto wanted = by_definition<Sum>(index, values, shape.destinations, shape.channels, dtype);
    const auto& ops = sums_of<Sum>(table, dtype);
    const auto at = [&](std::int64_t s) { return static_cast<std::int64_t>(index[static_cast<std::size_t>(s)]); };
    for (const int threads : {1, 3}) {
        Array out(dtype, {shape.destinations, shape.channels}, {77});
        cpu::ScatterBatch batch;
        batch.rows = {static_cast<const std::byte*>(values.view().data),
                      shape.channels * static_cast<std::int64_t>(size_of(dtype)), shape.channels};
        batch.sources = shape.sources;
        batch.destinations = shape.destinations;
        batch.out = static_cast<std::byte*>(out.view().data);
        batch.dtype = dtype;
        for (int part = 0; part < threads; ++part) {
            const auto share = cpu::scatter_share(shape.destinations, shape.channels, part, threads);
            cpu::ScatterDirect<Sum>(ops, batch, share).run(at);
        }
        EXPECT_EQ(out.values(), wanted) << "direct, " << threads << " threads";
        std::vector<std::int64_t> starts(static_cast<std::size_t>(shape.destinations + 1));
        std::vector<std::int64_t> sources(static_cast<std::size_t>(shape.sources));
        cpu::counting_sort(shape.sources, shape.destinations, at, starts.data(), sources.data());
        for (const bool trusted : {true, false}) {
            std::fill_n(batch.out, out.size() * size_of(dtype), std::byte{7});
            const cpu::Csr csr{starts.data(), sources.data(), trusted};
            cpu::ScatterCsr<Sum>(ops, batch, csr).run(threads);
            EXPECT_EQ(out.values(), wanted) << "csr, " << threads << " threads";
        }
    }
}

TEST(ScatterSum, EveryWayGivesTheBitsOfTheDefinition) {
    for (const cpu::RowSumRow& row : cpu::row_sum_rows()) {
        if (!row.missing_features().empty()) continue;
        for (const Case& shape : cases) {
            for (const DType dtype : value_types) {
                SCOPED_TRACE(std::string(row.name) + " " + std::string(name_of(dtype)) + " " +
                             std::to_string(shape.sources) + " x " + std::to_string(shape.channels));
                if (dtype == DType::f64) {
                    expect_all_ways<double>(shape, dtype, *row.ops);
                } else {
                    expect_all_ways<float>(shape, dtype, *row.ops);
                }
            }
        }
    }
}

TEST(ScatterSum, ThreadsAndDispatchChangeNoBit) {
    for (const Case& shape : {Case{70000, 3, 7}, Case{40000, 30000, 40}, Case{5000, 5000, 300}, Case{200000, 1, 1}}) {
        const Array index = random_index(shape, 9);
        const Array values = random_values(DType::f32, shape, 10);
        const Array once(DType::f32, {shape.destinations, shape.channels});
        scatter_sum(index.view(), values.view(), shape.destinations, once.view(), {}, true, 1);
        const Array row_ptr(DType::i64, {shape.destinations + 1});
        const Array source(DType::i64, {shape.sources});
        inverse_grid(index.view(), shape.destinations, row_ptr.view(), source.view());
        for (const int threads : {2, 5}) {
            for (const InverseGrid& grid : {InverseGrid{}, InverseGrid{row_ptr.view(), source.view()}}) {
                const Array again(DType::f32, {shape.destinations, shape.channels});
                scatter_sum(index.view(), values.view(), shape.destinations, again.view(), grid, true, threads);
                EXPECT_EQ(again.values(), once.values());
            }
        }
    }
}

TEST(ScatterSum, BatchesStridesAndMissingChannels) {
    const Array index(DType::i32, {2, 3}, {0, 1, 0, -1, 1, 1});
    const Array values(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
    const Array out(DType::f32, {2, 2});
    scatter_sum(index.view(), values.view(), 2, out.view());
    EXPECT_EQ(out.values(), (std::vector<double>{4, 2, 0, 11}));
    // Columns of a matrix as sources, and one row for all sources (stride 0).
    const Array matrix(DType::f64, {3, 2}, {1, 10, 2, 20, 3, 30});
    TensorView transposed = matrix.view();
    transposed.shape = {2, 3};
    transposed.stride = {1, 2};
    const Array two(DType::i64, {2}, {1, 1});
    const Array sums(DType::f64, {2, 3});
    scatter_sum(two.view(), transposed, 2, sums.view());
    EXPECT_EQ(sums.values(), (std::vector<double>{0, 0, 0, 11, 22, 33}));
    TensorView same = matrix.view();
    same.shape = {2, 2};
    same.stride = {0, 1};
    const Array twice(DType::f64, {2, 2});
    scatter_sum(two.view(), same, 2, twice.view());
    EXPECT_EQ(twice.values(), (std::vector<double>{0, 0, 2, 20}));
}

TEST(ScatterSum, SpecialValues) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    const Array index(DType::i32, {6}, {0, 0, 1, 2, 2, 3});
    const Array values(DType::f32, {6}, {inf, -inf, inf, 1e38, 3e38, -0.0});
    const Array out(DType::f32, {5}, {9});
    scatter_sum(index.view(), values.view(), 5, out.view());
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_EQ(out[1], inf);
    EXPECT_EQ(out[2], inf);
    EXPECT_EQ(out[3], 0);
    EXPECT_FALSE(std::signbit(out[3])) << "sums start from zero";
    EXPECT_EQ(out[4], 0);
    // 2048 + 1 + 1 in float16 steps would stay 2048: it is added in float32.
    const Array halves(DType::f16, {6}, {2048, 1, 1, 1, 1, 1});
    const Array all(DType::i32, {6}, {0});
    const Array sum(DType::f16, {1});
    scatter_sum(all.view(), halves.view(), 1, sum.view());
    EXPECT_EQ(sum[0], 2052);  // 2053, rounded to even
}

TEST(ScatterSum, GridsThatLieAreRefusedOrHarmless) {
    const Array index(DType::i64, {4}, {0, 1, 0, -1});
    const Array values(DType::f32, {4}, {1, 2, 4, 8});
    const Array out(DType::f32, {2});
    const std::vector<std::pair<std::vector<double>, std::vector<double>>> lies = {
        {{0, 2, 4}, {0, 2, 1, 3}},      {{0, 3, 2}, {0, 2, 1, -1}}, {{0, 2, 3}, {2, 0, 1, -1}},
        {{-5, 1e15, 3}, {0, 2, 1, -1}}, {{0, 2, 3}, {0, 0, 1, -1}}, {{0, 2, 3}, {0, 2, -4, 1}},
        {{0, 2, 3}, {0, 1e12, 1, -1}}};
    for (const auto& [starts, sources] : lies) {
        const Array row_ptr(DType::i64, {3}, starts);
        const Array source(DType::i64, {4}, sources);
        const InverseGrid grid{row_ptr.view(), source.view()};
        EXPECT_ERROR(scatter_sum(index.view(), values.view(), 2, out.view(), grid), invalid_value, "grid", "batch 0");
        scatter_sum(index.view(), values.view(), 2, out.view(), grid, false);
    }
}

TEST(ScatterSum, NamesWhatIsWrong) {
    const Array index(DType::i32, {3}, {0, 5, -2});
    const Array values(DType::f32, {3, 2});
    const Array out(DType::f32, {2, 2});
    const Array ints(DType::i32, {3, 2});
    const Array few(DType::f32, {2, 2});
    const Array good(DType::i32, {3}, {0});
    EXPECT_ERROR(scatter_sum(index.view(), values.view(), 2, out.view()), invalid_value, "index", "5", "2");
    scatter_sum(index.view(), values.view(), 2, out.view(), {}, false);
    EXPECT_ERROR(scatter_sum(values.view(), values.view(), 2, out.view()), invalid_type, "index", "float32");
    EXPECT_ERROR(scatter_sum(good.view(), ints.view(), 2, out.view()), invalid_type, "values", "int32");
    EXPECT_ERROR(scatter_sum(good.view(), few.view(), 2, out.view()), invalid_value, "values", "[2, 2]", "[3]");
    EXPECT_ERROR(scatter_sum(good.view(), values.view(), 3, out.view()), invalid_value, "out", "[3, 2]", "[2, 2]");
    EXPECT_ERROR(scatter_sum(good.view(), values.view(), -1, out.view()), invalid_value, "num_destinations", "-1");
    EXPECT_ERROR(scatter_sum(good.view(), values.view(), 2, out.view(), {}, true, -1), invalid_value, "threads", "-1");
    EXPECT_ERROR(scatter_sum(good.view(), out.view(), 2, out.view()), invalid_value, "values");
    const Array row_ptr(DType::i64, {2});
    EXPECT_ERROR(scatter_sum(good.view(), values.view(), 2, out.view(), {row_ptr.view(), {}}), invalid_value, "row_ptr",
                 "[3]", "[2]");
    TensorView shared = values.view();
    shared.shape = {2, 2};
    EXPECT_ERROR(scatter_sum(good.view(), values.view(), 2, shared), invalid_value, "out", "values");
}

}  // namespace
}  // namespace rowmax::test
