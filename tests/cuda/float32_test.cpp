// What float32 risks on tensor cores: rows of numbers of very different sizes, numbers that the parts of a float cannot
// hold, and precision "high".
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// A request of dense float32 tokens: [items, length, dim] on either side.
struct Dense {
    std::mt19937 random;
    Array q;
    Array d;
    ScoreRequest request;

    Dense(std::vector<std::int64_t> q_shape, const Values& q_values, std::vector<std::int64_t> d_shape,
          const Values& d_values, unsigned seed)
        : random(seed),
          q(Array::generated(DType::f32, std::move(q_shape), [&] { return q_values(random); })),
          d(Array::generated(DType::f32, std::move(d_shape), [&] { return d_values(random); })) {
        request.q.tokens = q.view();
        request.d.tokens = d.view();
    }
};

/// Numbers of rows of `dim`, the `spike`-th of each row 1, the others drawn and made smaller.
Values spiky(std::int64_t dim, std::int64_t spike, const Values& rest, double size) {
    return [=, at = std::int64_t{0}](std::mt19937& random) mutable {
        const double other = rest(random) * size;
        return at++ % dim == spike ? 1.0 : other;
    };
}

/// Exponents spread over `bits` bits.
Values wide(int bits, bool one_sign) {
    return [=](std::mt19937& random) {
        const double size = std::exp2(-bits * uniform()(random));
        return one_sign || random() % 2 == 0 ? size : -size;
    };
}

/// Rows of one number, drawn anew for each row.
Values constant_rows(std::int64_t dim) {
    return [=, at = std::int64_t{0}, x = 0.0](std::mt19937& random) mutable {
        if (at++ % dim == 0) x = 1 + uniform()(random);
        return x;
    };
}

void expect_bounded(const Dense& sample, double bound, const std::vector<const core::Kernel*>& rows) {
    const core::Problem problem = core::make_problem(sample.request);
    const core::reference::Scores truth = core::reference::score(problem.params);
    for (const core::Kernel* row : rows) {
        const Results results = run(*row, problem, Want::scores);
        double largest = 0;
        for (std::size_t p = 0; p < truth.scores.size(); ++p) {
            largest = std::fmax(largest, std::fabs(results.scores[p] - truth.scores[p]) / truth.scale[p]);
        }
        EXPECT_LE(largest, bound) << row->name;
    }
}

TEST(Float32, NumbersOfVeryDifferentSizes) {
    unsigned seed = 0;
    for (const std::int64_t dim : {16, 64, 100, 128, 768, 4096}) {
        const std::int64_t count = dim > 200 ? 12 : 40;
        const std::vector<std::int64_t> shape = {count, 1, dim};
        for (int bits = 2; bits <= 24; bits += 2) {
            SCOPED_TRACE("d " + std::to_string(dim) + ", bits " + std::to_string(bits));
            const double size = std::exp2(-bits);
            const auto check = [&](const Values& q, const Values& d) {
                expect_bounded({shape, q, shape, d, ++seed}, 2e-7, rows_for(DType::f32));
            };
            check(spiky(dim, 5, uniform(), size), spiky(dim, 5, uniform(), size));
            check(spiky(dim, 5, constant_rows(dim), size), spiky(dim, 5, constant_rows(dim), size));
            check(spiky(dim, 7, constant_rows(dim), size), constant_rows(dim));
            check(spiky(dim, 3, normal(), size), normal());
            check(wide(bits, true), wide(bits, true));
            check(wide(bits, false), wide(24, false));
        }
    }
}

/// What plain float32 arithmetic gives for two rows, and what its error is relative to.
struct Plain {
    float sum = 0;
    double scale = 0;

    Plain(const Array& q, std::size_t q_row, const Array& d, std::size_t d_row, std::size_t dim) {
        double q2 = 0;
        double d2 = 0;
        for (std::size_t k = 0; k < dim; ++k) {
            const double a = q[q_row * dim + k];
            const double b = d[d_row * dim + k];
            sum = std::fma(static_cast<float>(a), static_cast<float>(b), sum);
            q2 += a * a;
            d2 += b * b;
        }
        scale = std::sqrt(q2) * std::sqrt(d2);
    }
};

// Infinities, NaN, numbers that bfloat16 rounds to infinity, sums that overflow, rows so small that their parts vanish:
// what float32 arithmetic gives, and only there. Numbers of both signs that overflow give an infinity or NaN, whichever
// the order of additions meets.
void expect_plain(const Values& values, bool one_sign) {
    constexpr std::int64_t dim = 80;
    const double odd[] = {3.4028e38, 1e34, infinity, std::nan(""), 1e-30, 1e-40, 1e20, -3.4e38, -infinity};
    const std::size_t count = one_sign ? 7 : std::size(odd);
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = 0; j <= count; ++j) {
            SCOPED_TRACE("odd " + std::to_string(i) + " and " + std::to_string(j));
            Dense sample({1, 3, dim}, values, {5, 1, dim}, values, 7);
            // One odd number in a document's chunk, one whole odd chunk, one whole odd row; the same for queries.
            sample.d.set(dim + 40, odd[i]);
            for (std::size_t k = 32; k < 64; ++k) sample.d.set(2 * dim + k, odd[i]);
            for (std::size_t k = 0; k < dim; ++k) sample.d.set(3 * dim + k, odd[i] / 64);
            if (j < count) {
                sample.q.set(dim + 41, odd[j]);
                for (std::size_t k = 0; k < dim; ++k) sample.q.set(2 * dim + k, odd[j]);
            }
            const core::Problem problem = core::make_problem(sample.request);
            for (const core::Kernel* row : rows_for(DType::f32)) {
                SCOPED_TRACE(row->name);
                const Results results = run(*row, problem);
                for (std::size_t p = 0; p < 15; ++p) {
                    const Plain want(sample.q, p % 3, sample.d, p / 3, dim);
                    const double got = results.similarity[p];
                    if (std::isnan(want.sum)) {
                        EXPECT_TRUE(std::isnan(got) || (!one_sign && std::isinf(got))) << p << ": " << got;
                    } else if (std::isinf(want.sum)) {
                        EXPECT_TRUE(one_sign ? got == double{want.sum} : !std::isfinite(got)) << p << ": " << got;
                    } else {
                        EXPECT_NEAR(got, double{want.sum}, 2e-6 * want.scale) << p;
                    }
                }
            }
        }
    }
}

TEST(Float32, NumbersThatPartsCannotHold) {
    expect_plain(uniform(), true);
    expect_plain(normal(), false);
}

TEST(Float32, SmallRowsKeepTheirBits) {
    for (const double size : {1e-20, 1e-28, 1e-29, 1e-35, 1e-38}) {
        SCOPED_TRACE(size);
        const Values small = [=](std::mt19937& random) { return size * (1 + uniform()(random)); };
        const Values large = [](std::mt19937& random) { return 1e15 * (1 + uniform()(random)); };
        expect_bounded({{4, 1, 96}, small, {5, 1, 96}, large, 3}, 2e-7, rows_for(DType::f32));
        expect_bounded({{4, 1, 96}, large, {5, 1, 96}, small, 4}, 2e-7, rows_for(DType::f32));
    }
}

// Rows that are computed anew among others: the same bits on every row of the table, in every layout.
TEST(Float32, OddTokensHaveTheSameBitsOnEveryRow) {
    const Values some_odd = [](std::mt19937& random) {
        const double x = normal()(random);
        return random() % 3000 == 0 ? x * 3e38 : x;
    };
    for (const Layout layout : all_layouts) {
        for (const std::int64_t dim : {32, 128}) {
            const Sample sample({layout, DType::f32, 3, 20, 40, 200, dim, true, false, 9}, some_odd);
            SCOPED_TRACE(::testing::PrintToString(sample.shape()));
            const core::Problem problem = core::make_problem(sample.request);
            const std::vector<const core::Kernel*> rows = rows_for(DType::f32);
            const Results first = run(*rows.back(), problem);
            for (const core::Kernel* row : rows) {
                SCOPED_TRACE(row->name);
                const Results other = run(*row, problem);
                EXPECT_TRUE(same_bits(other.scores, first.scores));
                EXPECT_TRUE(same_bits(other.index, first.index));
            }
        }
    }
}

std::vector<const core::Kernel*> tf32_rows() {
    std::vector<const core::Kernel*> rows;
    for (const core::Kernel& row : core::cuda_kernels()) {
        if (row.name.ends_with(".tf32") && row.missing_features().empty()) rows.push_back(&row);
    }
    return rows;
}

TEST(Tf32, RunsOnlyWhereAskedFor) {
    Dense sample({1, 9, 64}, normal(), {4, 30, 64}, normal(), 1);
    ASSERT_FALSE(tf32_rows().empty());
    for (const core::Kernel* row : tf32_rows()) {
        EXPECT_EQ(row->refuse(core::make_problem(sample.request).params), "precision \"highest\"") << row->name;
    }
    sample.request.options.precision = Precision::high;
    const core::Params params = core::make_problem(sample.request).params;
    for (const core::Kernel& row : core::cuda_kernels()) {
        if (!row.missing_features().empty() || !row.refuse(params).empty()) continue;
        EXPECT_TRUE(row.name.ends_with(".tf32")) << "the first that accepts is " << row.name;
        break;
    }
}

TEST(Tf32, StaysWithinItsBound) {
    for (const std::int64_t dim : {5, 32, 100, 128, 768, 4096}) {
        for (const Values& values : {normal(), uniform(), wide(20, true)}) {
            Dense sample({2, 20, dim}, values, {5, 60, dim}, values, 5);
            sample.request.options.precision = Precision::high;
            expect_bounded(sample, 2e-3, tf32_rows());
        }
    }
}

void expect_rows_agree(Sample& sample) {
    sample.request.options.precision = Precision::high;
    SCOPED_TRACE(::testing::PrintToString(sample.shape()));
    const core::Problem problem = core::make_problem(sample.request);
    const std::vector<const core::Kernel*> rows = tf32_rows();
    const Results first = run(*rows.back(), problem);
    for (const core::Kernel* row : rows) {
        SCOPED_TRACE(row->name);
        const Results other = run(*row, problem);
        EXPECT_TRUE(same_bits(other.scores, first.scores));
        EXPECT_TRUE(same_bits(other.similarity, first.similarity));
        EXPECT_TRUE(same_bits(other.index, first.index));
    }
}

// Numbers of up to 11 bits are multiplied exactly; every row gives the same bits, on others too.
TEST(Tf32, EveryRowAgrees) {
    for (const Layout layout : all_layouts) {
        for (const std::int64_t dim : {4, 20, 64, 72, 128}) {
            for (const Values& values : {small_integers(dim), normal()}) {
                Sample sample({layout, DType::f32, 3, 20, 40, 200, dim, true, false, 9}, values);
                expect_rows_agree(sample);
            }
            Sample exact({layout, DType::f32, 3, 20, 40, 200, dim, true, false, 9}, small_integers(dim));
            exact.request.options.precision = Precision::high;
            const core::Problem problem = core::make_problem(exact.request);
            const core::reference::Scores truth = core::reference::score(problem.params);
            for (const core::Kernel* row : tf32_rows()) {
                EXPECT_EQ(run(*row, problem).scores.values(), truth.scores) << row->name;
            }
        }
    }
}

// Tiles of more slots than a ring has beside 256 query rows: blocks have fewer.
TEST(Tf32, TokensOfManyDimensionsBesideManyRows) {
    for (const std::int64_t dim : {132, 160, 192}) {
        for (const std::int64_t lq : {180, 256, 700}) {
            Sample sample({Layout::cross, DType::f32, 1, 9, lq, 300, dim, false, false, 9}, normal());
            expect_rows_agree(sample);
        }
    }
}

TEST(Tf32, NanAndInfinity) {
    Dense sample({1, 2, 40}, normal(), {3, 50, 40}, normal(), 5);
    sample.d.set(7 * 40 + 3, std::nan(""));
    sample.d.set((50 + 9) * 40 + 3, infinity);
    sample.q.set(3, 1);
    sample.q.set(40 + 3, 2);
    sample.request.options.precision = Precision::high;
    for (const core::Kernel* row : tf32_rows()) {
        SCOPED_TRACE(row->name);
        const Results results = run(*row, core::make_problem(sample.request));
        EXPECT_TRUE(std::isnan(results.scores[0]));
        EXPECT_EQ(results.index[0], 7);
        EXPECT_EQ(results.scores[1], double{infinity});
        EXPECT_EQ(results.index[2], 9);
        EXPECT_TRUE(std::isfinite(results.scores[2]));
    }
}

}  // namespace
}  // namespace rowmax::test
