// tests/data/golden.json on every row of the GPU's table; and once more with the dimension filled up with zeros, so
// that the rows that need aligned tokens take part.
#include "support/golden.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

Array widened(const Array& tokens, std::int64_t dim) {
    const TensorView view = tokens.view();
    const std::int64_t old = view.shape[view.ndim - 1];
    std::vector<double> values;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        values.push_back(tokens[i]);
        if ((static_cast<std::int64_t>(i) + 1) % old == 0)
            values.resize(values.size() + static_cast<std::size_t>(dim - old), 0);
    }
    std::vector<std::int64_t> shape(view.shape.begin(), view.shape.begin() + view.ndim);
    shape.back() = dim;
    return {view.dtype, shape, values};
}

class Golden : public ::testing::TestWithParam<Case> {
  protected:
    static void expect_right(const json& expected, const ScoreRequest& request, DType dtype) {
        const core::Problem problem = core::make_problem(request);
        const Array want = *read(expected, "scores", DType::f64);
        for (const core::Kernel* row : rows_for(dtype)) {
            SCOPED_TRACE(row->name);
            const Results results = run(*row, problem);
            for (std::size_t i = 0; i < want.size(); ++i) {
                const double tolerance = std::isfinite(want[i]) ? expected.value("rtol", 1e-6) * std::fabs(want[i]) : 0;
                EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(results.scores[i])
                                                : std::fabs(results.scores[i] - want[i]) <= tolerance)
                    << results.scores[i] << ", not " << want[i];
            }
            if (expected.contains("index")) {
                EXPECT_EQ(results.index.values(), read(expected, "index", DType::i32)->values());
            }
        }
    }
};

TEST_P(Golden, OnEveryRow) {
    const Inputs inputs(GetParam());
    expect_right(GetParam().row, inputs.request, inputs.dtype);
}

TEST_P(Golden, WithAlignedTokens) {
    const Inputs inputs(GetParam());
    const std::int64_t dim = (inputs.q->view().shape[inputs.q->view().ndim - 1] + 7) / 8 * 8;
    const Array q = widened(*inputs.q, dim);
    const Array d = widened(*inputs.d, dim);
    ScoreRequest request = inputs.request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    expect_right(GetParam().row, request, inputs.dtype);
}

INSTANTIATE_TEST_SUITE_P(Cuda, Golden, ::testing::ValuesIn(cases_of({"maxsim"})), test_name);

}  // namespace
}  // namespace rowmax::test
