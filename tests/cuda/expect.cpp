#include "cuda/expect.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace rowmax::test {

namespace {

const core::Kernel& truth_row(DType dtype) {
    core::Params params;
    params.dtype = dtype;
    params.dim = 1;
    for (const core::Kernel& row : core::cpu_kernels()) {
        if (row.missing_features().empty() && row.refuse(params).empty()) return row;
    }
    throw std::runtime_error("test: the CPU has no row");
}

}  // namespace

void expect_same(const Array& got, const Array& want, std::string_view what) {
    if (same_bits(got, want)) return;
    std::size_t different = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        if (got[i] == want[i]) continue;
        if (std::isnan(got[i]) && std::isnan(want[i])) continue;
        if (++different <= 3) ADD_FAILURE() << what << "[" << i << "] is " << got[i] << ", not " << want[i];
    }
    if (different > 3) ADD_FAILURE() << what << ": " << different << " of " << want.size() << " differ";
}

void expect_exact(const Shape& shape, int threads) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    const Sample sample(shape, small_integers(shape.dim));
    const core::Problem problem = core::make_problem(sample.request);
    const Results truth = run_on_cpu(truth_row(shape.dtype), problem, Want::all, threads);
    for (const core::Kernel* row : rows_for(shape.dtype)) {
        SCOPED_TRACE(row->name);
        const Results all = run(*row, problem, Want::all);
        expect_same(all.scores, truth.scores, "score");
        expect_same(all.index, truth.index, "index");
        expect_same(all.similarity, truth.similarity, "similarity");
        expect_same(run(*row, problem, Want::scores).scores, truth.scores, "score without index");
    }
}

void expect_same_bits_on_every_row(const Sample& sample) {
    SCOPED_TRACE(::testing::PrintToString(sample.shape()));
    const core::Problem problem = core::make_problem(sample.request);
    const std::vector<const core::Kernel*> rows = rows_for(sample.shape().dtype);
    const Results first = run(*rows.front(), problem);
    for (const core::Kernel* row : rows) {
        SCOPED_TRACE(row->name);
        const Results other = run(*row, problem);
        expect_same(other.scores, first.scores, "score");
        expect_same(other.similarity, first.similarity, "similarity");
        expect_same(other.index, first.index, "index");
        expect_same(run(*row, problem, Want::scores).scores, first.scores, "score without index");
    }
}

}  // namespace rowmax::test
