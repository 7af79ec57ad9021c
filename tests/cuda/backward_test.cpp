// Gradients on the GPU: equal to the oracle's where sums are exact, within bounds elsewhere, in every layout.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/gradients.hpp"

namespace rowmax::test {
namespace {

constexpr DType device_types[] = {DType::f16, DType::bf16, DType::f32};

std::vector<double> upstream(std::int64_t pairs, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<double> all;
    for (std::int64_t p = 0; p < pairs; ++p) all.push_back(std::uniform_int_distribution(-4, 4)(random));
    return all;
}

const core::Kernel& cpu_row(DType dtype) {
    core::Params params;
    params.dtype = dtype;
    params.dim = 1;
    for (const core::Kernel& row : core::cpu_kernels()) {
        if (row.missing_features().empty() && row.refuse(params).empty()) return row;
    }
    throw std::runtime_error("test: the CPU has no row");
}

Array winners(const core::Problem& problem) {
    return run_on_cpu(cpu_row(problem.params.dtype), problem, Want::index, 8).index;
}

core::reference::Gradient truth(const core::Problem& problem, const Array& index, const std::vector<double>& grad) {
    std::vector<std::int32_t> tokens;
    for (const double t : index.values()) tokens.push_back(static_cast<std::int32_t>(t));
    return core::reference::backward(problem.params, tokens, grad);
}

// What the oracle's gradient becomes when it is written in the tokens' type.
std::vector<double> rounded(DType dtype, const std::vector<double>& values) {
    return values.empty() ? values : Array(dtype, {static_cast<std::int64_t>(values.size())}, values).values();
}

void expect_rows(const Array& got, const std::vector<double>& want, std::int64_t dim, std::string_view what) {
    int different = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        if (got[i] == want[i]) continue;
        if (++different > 3) break;
        const auto at = static_cast<std::int64_t>(i);
        ADD_FAILURE() << what << " row " << at / dim << " element " << at % dim << " is " << got[i] << ", not "
                      << want[i];
    }
}

void expect_exact(const Sample& sample, unsigned seed = 1) {
    SCOPED_TRACE(::testing::PrintToString(sample.shape()));
    const core::Problem problem = core::make_problem(sample.request);
    const DType dtype = problem.params.dtype;
    const Array index = winners(problem);
    const std::vector<double> grad = upstream(problem.params.pairs.count, seed);
    const core::reference::Gradient want = truth(problem, index, grad);
    const core::Kernel& row = *rows_for(dtype).front();
    for (const IndexBits bits : {IndexBits::sixteen, IndexBits::thirty_two}) {
        const GradientArrays got = gradients_on_device(row, problem, index, grad, bits);
        expect_rows(got.q, rounded(dtype, want.q), problem.params.dim, "query");
        expect_rows(got.d, rounded(dtype, want.d), problem.params.dim, "document");
    }
}

class GradientsOf : public ::testing::TestWithParam<std::tuple<Layout, DType>> {};

TEST_P(GradientsOf, WholeNumbersAreExact) {
    const auto [layout, dtype] = GetParam();
    unsigned seed = 1;
    for (const std::int64_t lq : {0, 1, 7, 33}) {
        for (const std::int64_t ld : {0, 1, 7, 33, 300}) {
            for (const bool masked : {false, true}) {
                const std::int64_t dim = ++seed % 2 == 0 ? 17 : 64;
                expect_exact(Sample({layout, dtype, 3, 4, lq, ld, dim, masked, false, seed}, small_integers(dim)),
                             seed);
            }
        }
    }
}

TEST_P(GradientsOf, NormalizedTokens) {
    const auto [layout, dtype] = GetParam();
    const double bound = dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 1e-3 : 8e-3;
    for (const std::int64_t dim : {33, 64, 300}) {
        const Sample sample({layout, dtype, 3, 4, 9, 21, dim, true, true, 5}, normal());
        SCOPED_TRACE(::testing::PrintToString(sample.shape()));
        const core::Problem problem = core::make_problem(sample.request);
        const Array index = winners(problem);
        const std::vector<double> grad = upstream(problem.params.pairs.count, 3);
        const core::reference::Gradient want = truth(problem, index, grad);
        const GradientArrays got = gradients_on_device(*rows_for(dtype).front(), problem, index, grad);
        const auto near = [&](const Array& found, const std::vector<double>& wanted) {
            double largest = 0;
            for (const double x : wanted) largest = std::fmax(largest, std::fabs(x));
            for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], bound * largest) << i;
        };
        near(got.q, want.q);
        near(got.d, want.d);
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, GradientsOf,
                         ::testing::Combine(::testing::ValuesIn(all_layouts), ::testing::ValuesIn(device_types)),
                         [](const auto& chosen) {
                             return std::string(name_of_layout(std::get<0>(chosen.param))) + "_" +
                                    std::string(name_of(std::get<1>(chosen.param)));
                         });

TEST(Gradients, AnyDimension) {
    unsigned seed = 1;
    for (const std::int64_t dim :
         {1, 2, 3, 4, 5, 31, 32, 33, 127, 128, 129, 132, 255, 300, 768, 1023, 2048, 2049, 4095, 4096}) {
        for (const DType dtype : device_types) {
            expect_exact(Sample({Layout::cross, dtype, 2, 3, 9, 11, dim, false, false, ++seed}, small_integers(dim)));
        }
    }
}

TEST(Gradients, NormalizedLongRows) {
    for (const std::int64_t dim : {1023, 2048, 4096}) {
        const Sample sample({Layout::cross, DType::f32, 2, 3, 9, 11, dim, false, true, 3}, normal());
        const core::Problem problem = core::make_problem(sample.request);
        const Array index = winners(problem);
        const std::vector<double> grad = upstream(problem.params.pairs.count, 3);
        const core::reference::Gradient want = truth(problem, index, grad);
        const GradientArrays got = gradients_on_device(*rows_for(DType::f32).front(), problem, index, grad);
        for (std::size_t i = 0; i < want.q.size(); ++i) ASSERT_NEAR(got.q[i], want.q[i], 1e-6) << i;
        for (std::size_t i = 0; i < want.d.size(); ++i) ASSERT_NEAR(got.d[i], want.d[i], 1e-6) << i;
    }
}

// Rows that many thousands of query tokens chose, in several blocks of sources, beside rows that none did.
TEST(Gradients, ManySourcesOfOneToken) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
        for (const std::int64_t dim : {8, 130}) {
            expect_exact(Sample({Layout::cross, dtype, 40, 3, 300, 2, dim, false, false, 7}, small_integers(dim)));
            expect_exact(Sample({Layout::list, dtype, 40, 3, 300, 2, dim, false, false, 7}, small_integers(dim)));
        }
        expect_exact(Sample({Layout::cross, dtype, 71, 2, 1000, 3, 8, false, false, 8}, small_integers(8)));
        expect_exact(Sample({Layout::cross, dtype, 5, 2, 16384, 1, 4, false, false, 8}, small_integers(4)));
    }
}

TEST(Gradients, ManyDocumentsOfOneQuery) {
    for (const DType dtype : device_types) {
        expect_exact(Sample({Layout::cross, dtype, 1, 3000, 2, 3, 20, false, false, 7}, small_integers(20)));
        expect_exact(Sample({Layout::packed, dtype, 2, 700, 5, 9, 200, false, false, 7}, small_integers(200)));
    }
}

TEST(Gradients, LongDocuments) {
    for (const Layout layout : {Layout::cross, Layout::packed, Layout::ranges}) {
        expect_exact(Sample({layout, DType::f16, 2, 2, 300, 10000, 16, false, false, 4}, small_integers(16)));
        expect_exact(Sample({layout, DType::f32, 1, 1, 7, 60000, 4, false, false, 4}, small_integers(4)));
    }
    const Sample sample({Layout::cross, DType::f16, 1, 1, 300, 100000, 8, false, false, 4}, normal());
    const core::Problem problem = core::make_problem(sample.request);
    const Array index = winners(problem);
    const std::vector<double> grad = upstream(1, 2);
    const GradientArrays got =
        gradients_on_device(*rows_for(DType::f16).front(), problem, index, grad, IndexBits::thirty_two);
    double sum = 0;
    for (std::size_t i = 0; i < got.d.size(); ++i) sum += std::fabs(got.d[i]);
    EXPECT_GT(sum, 0);
    for (std::size_t s = 0; s < 300; ++s) {
        const auto token = static_cast<std::size_t>(index[s]);
        EXPECT_EQ(got.q[s * 8],
                  rounded(DType::f16, {grad[0] * core::reference::widen_row(problem.params, problem.params.d,
                                                                            problem.params.d.at(0),
                                                                            static_cast<std::int64_t>(token))[0]})[0]);
    }
}

TEST(Gradients, ManyShortDocuments) {
    for (const DType dtype : device_types) {
        expect_exact(Sample({Layout::grouped, dtype, 40, 16, 32, 103, 20, false, false, 4}, small_integers(20)));
        expect_exact(Sample({Layout::zipped, dtype, 300, 300, 8, 40, 48, true, false, 4}, small_integers(48)));
    }
}

// Rows whose address or stride is no multiple of four elements.
TEST(Gradients, UnalignedRows) {
    for (const DType dtype : device_types) {
        for (const std::int64_t dim : {60, 61}) {
            for (const Layout layout : {Layout::cross, Layout::packed}) {
                Sample sample({layout, dtype, 3, 4, 9, 21, 64, false, false, 3}, small_integers(64));
                for (TensorView* view : {&sample.request.q.tokens, &sample.request.d.tokens}) {
                    view->data = static_cast<std::byte*>(view->data) + size_of(dtype);
                    view->shape[static_cast<std::size_t>(view->ndim - 1)] = dim;
                }
                expect_exact(sample);
            }
        }
    }
}

TEST(Gradients, NormsNearTheEndsOfTheRange) {
    for (const DType dtype : {DType::bf16, DType::f32}) {
        for (const double size : {1e20, 1e-20, 1e37, 1e-37}) {
            const Sample plain({Layout::cross, dtype, 2, 2, 9, 21, 40, false, true, 6}, normal());
            const Sample sized({Layout::cross, dtype, 2, 2, 9, 21, 40, false, true, 6},
                               [size, value = normal()](std::mt19937& random) { return size * value(random); });
            const core::Problem problem = core::make_problem(sized.request);
            const Array index = winners(core::make_problem(plain.request));
            const std::vector<double> grad = {1, 2, -1, 3};
            const core::reference::Gradient want = truth(problem, index, grad);
            const GradientArrays got = gradients_on_device(*rows_for(dtype).front(), problem, index, grad);
            double largest = 0;
            for (const double x : want.d) largest = std::fmax(largest, std::fabs(x));
            // Gradients of tokens of 1e37 are too small for float32's normal numbers.
            const double bound = largest * (size == 1e37 || dtype == DType::bf16 ? 1e-2 : 2e-6);
            for (std::size_t i = 0; i < want.d.size(); ++i) ASSERT_NEAR(got.d[i], want.d[i], bound) << size << " " << i;
            for (std::size_t i = 0; i < want.q.size(); ++i)
                ASSERT_NEAR(got.q[i], want.q[i], bound * 4) << size << " " << i;
        }
    }
}

TEST(Gradients, ZeroTokensHaveNone) {
    const Sample sample({Layout::cross, DType::f16, 1, 1, 3, 1, 40, false, true, 6}, [](std::mt19937&) { return 0.0; });
    const core::Problem problem = core::make_problem(sample.request);
    const Array index(DType::i32, {1, 3}, {0, 0, 0});
    const GradientArrays got = gradients_on_device(*rows_for(DType::f16).front(), problem, index, {2});
    for (const double x : got.q.values()) EXPECT_EQ(x, 0);
    for (const double x : got.d.values()) EXPECT_EQ(x, 0);
}

TEST(Gradients, SameBitsOnEveryRun) {
    for (const Layout layout : {Layout::cross, Layout::list, Layout::ranges}) {
        const Sample sample({layout, DType::f32, 40, 6, 100, 7, 132, false, layout == Layout::cross, 7}, normal());
        const core::Problem problem = core::make_problem(sample.request);
        const Array index = winners(problem);
        const std::vector<double> grad = upstream(problem.params.pairs.count, 3);
        const core::Kernel& row = *rows_for(DType::f32).front();
        const GradientArrays first = gradients_on_device(row, problem, index, grad);
        for (int i = 0; i < 5; ++i) {
            const GradientArrays again = gradients_on_device(row, problem, index, grad);
            EXPECT_TRUE(same_bits(first.q, again.q));
            EXPECT_TRUE(same_bits(first.d, again.d));
        }
    }
}

// Added in the same order as on the CPU, whatever is shared out to whom: every product and sum is rounded alike.
TEST(Gradients, TheSameOrderAsOnTheCpu) {
    const Sample sample({Layout::cross, DType::f32, 90, 3, 100, 2, 64, false, false, 7}, normal());
    const core::Problem problem = core::make_problem(sample.request);
    const Array index = winners(problem);
    const std::vector<double> grad = upstream(problem.params.pairs.count, 3);
    const GradientArrays got = gradients_on_device(*rows_for(DType::f32).front(), problem, index, grad);
    GradientArrays want = got;
    const Array scores(DType::f32, {problem.params.pairs.count}, grad);
    core::Gradients gradients;
    gradients.index = static_cast<const std::int32_t*>(index.view().data);
    gradients.scores = scores.view().data;
    gradients.q = want.q.view().data;
    gradients.d = want.d.view().data;
    cpu_row(DType::f32).backward(problem.params, gradients);
    EXPECT_TRUE(same_bits(got.q, want.q));
    EXPECT_TRUE(same_bits(got.d, want.d));
}

TEST(Gradients, NanOfAScoreStaysWithItsPair) {
    const Sample sample({Layout::cross, DType::f32, 2, 2, 3, 4, 8, false, false, 7}, small_integers(8));
    const core::Problem problem = core::make_problem(sample.request);
    const Array index(DType::i32, {2, 2, 3}, {0, 0, 1, 2, 2, 2, 0, 1, 1, 3, 3, 3});
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const GradientArrays got = gradients_on_device(*rows_for(DType::f32).front(), problem, index, {1, nan, 1, 1});
    for (std::int64_t row = 0; row < 8; ++row) {
        EXPECT_EQ(std::isnan(got.d[static_cast<std::size_t>(row * 8)]), row == 6) << row;  // document 1's token 2
    }
    for (std::int64_t row = 0; row < 6; ++row) {
        EXPECT_EQ(std::isnan(got.q[static_cast<std::size_t>(row * 8)]), row < 3) << row;
    }
}

TEST(Gradients, AnIndexThatLiesIsIgnored) {
    for (const Layout layout : {Layout::cross, Layout::list}) {
        const Sample sample({layout, DType::f32, 1, 1, 3, 4, 5, false, false, 7}, small_integers(5));
        const core::Problem problem = core::make_problem(sample.request);
        const std::vector<double> honest = {2, -1, -1};
        const std::vector<double> lying = {2, 4, -2147483647};
        const std::int64_t pairs = problem.params.pairs.count;
        const std::vector<double> grad = upstream(pairs, 3);
        const core::Kernel& row = *rows_for(DType::f32).front();
        const GradientArrays a =
            gradients_on_device(row, problem, Array(DType::i32, {pairs, 3}, honest), grad, IndexBits::thirty_two);
        const GradientArrays b =
            gradients_on_device(row, problem, Array(DType::i32, {pairs, 3}, lying), grad, IndexBits::thirty_two);
        EXPECT_TRUE(same_bits(a.q, b.q));
        EXPECT_TRUE(same_bits(a.d, b.d));
    }
}

// Lies are clamped: whatever comes out, nothing is read or written outside.
TEST(Gradients, OffsetsThatLie) {
    Sample sample({Layout::packed, DType::f16, 3, 4, 9, 21, 64, false, false, 2}, small_integers(64));
    const core::Problem problem = core::make_problem(sample.request);
    const Array index = winners(problem);
    auto* starts = static_cast<std::int32_t*>(sample.request.d.cu_seqlens.data);
    for (const std::int32_t lie : {-5, 1000000, 0}) {
        starts[2] = lie;
        gradients_on_device(*rows_for(DType::f16).front(), problem, index, upstream(12, 1));
    }
}

// Short and cut documents, few and many queries: what every kernel writes as 16 bits.
TEST(Gradients, AnIndexOf16Bits) {
    const Shape shapes[] = {{Layout::cross, DType::f16, 1, 40, 32, 100, 64, true, false, 3},
                            {Layout::cross, DType::f16, 2, 9, 300, 100, 64, true, false, 3},
                            {Layout::cross, DType::f16, 1, 1, 5, 50000, 64, false, false, 3},
                            {Layout::packed, DType::f16, 3, 9, 40, 100, 256, false, false, 3},
                            {Layout::zipped, DType::f32, 3, 3, 40, 100, 20, true, false, 3},
                            {Layout::cross, DType::f32, 3, 3, 40, 100, 32, false, false, 3}};
    for (const Shape& shape : shapes) {
        const Sample sample(shape, small_integers(shape.dim));
        SCOPED_TRACE(::testing::PrintToString(shape));
        const core::Problem problem = core::make_problem(sample.request);
        const Array want = winners(problem);
        for (const core::Kernel* row : rows_for(shape.dtype)) {
            if (!row->refuse(problem.params).empty()) continue;
            EXPECT_EQ(narrow_index(*row, problem).values(), want.values()) << row->name;
        }
    }
}

}  // namespace
}  // namespace rowmax::test
