// Bits do not depend on the caller's floating point mode, and the mode is given back.
#include <gtest/gtest.h>

#include <cfenv>
#include <random>

#include "rowmax/maxsim.hpp"
#include "support/array.hpp"

namespace rowmax {
namespace {

using test::Array;

Array random_array(std::vector<std::int64_t> shape, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    return Array::generated(DType::f32, std::move(shape), [&] { return normal(random); });
}

struct Results {
    Array scores{DType::f32, {3, 40}};
    Array index{DType::i32, {3, 40, 7}};
    Array gradient{DType::f32, {40, 9, 33}};
    Array best{DType::f32, {3, 5}};
    Array documents{DType::i64, {3, 5}};
    friend bool operator==(const Results& a, const Results& b) {
        return a.scores.values() == b.scores.values() && a.gradient.values() == b.gradient.values() &&
               a.best.values() == b.best.values() && a.documents.values() == b.documents.values();
    }
};

Results compute(const Array& q, const Array& d, int threads) {
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    request.options.threads = threads;
    request.options.normalize = true;
    Results results;
    score(request, {results.scores.view(), results.index.view(), {}});
    score_backward(request, results.index.view(), results.scores.view(), {}, results.gradient.view());
    topk(request.q, request.d, 5, 7, request.options, results.best.view(), results.documents.view());
    return results;
}

TEST(FloatMode, OfTheCallerDoesNotMatter) {
    const Array q = random_array({3, 7, 33}, 1);
    const Array d = random_array({40, 9, 33}, 2);
    const Results wanted = compute(q, d, 1);
    for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        for (const int threads : {1, 3}) {
            ASSERT_EQ(std::fesetround(mode), 0);
            const Results found = compute(q, d, threads);
            const int after = std::fegetround();
            std::fesetround(FE_TONEAREST);
            EXPECT_EQ(after, mode);
            EXPECT_TRUE(found == wanted) << mode << ", " << threads << " threads";
        }
    }
}

}  // namespace
}  // namespace rowmax
