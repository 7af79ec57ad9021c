// Shapes at and around the sizes of tiles, blocks and rings; documents that are cut; many units a thread block. Small
// whole numbers: scores and tokens must equal the CPU's, whose rows tests/cpu compares with the oracle.
#include <gtest/gtest.h>

#include "cpu/sample.hpp"

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

void expect_equal(const Array& got, const Array& want, std::string_view what) {
    if (same_bits(got, want)) return;
    std::size_t different = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        if (got[i] == want[i]) continue;
        if (++different <= 3) ADD_FAILURE() << what << "[" << i << "] is " << got[i] << ", not " << want[i];
    }
    if (different > 3) ADD_FAILURE() << what << ": " << different << " of " << want.size() << " differ";
}

void expect_exact(const Shape& shape, int threads = 8) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    const Sample sample(shape, small_integers(shape.dim));
    const core::Problem problem = core::make_problem(sample.request);
    const Results truth = run_on_cpu(truth_row(shape.dtype), problem, Want::all, threads);
    for (const core::Kernel* row : rows_for(shape.dtype)) {
        SCOPED_TRACE(row->name);
        const Results all = run(*row, problem, Want::all);
        expect_equal(all.scores, truth.scores, "score");
        expect_equal(all.index, truth.index, "index");
        expect_equal(all.similarity, truth.similarity, "similarity");
        expect_equal(run(*row, problem, Want::scores).scores, truth.scores, "score without index");
    }
}

constexpr DType types[] = {DType::f16, DType::bf16, DType::f32};

class Tiles : public ::testing::TestWithParam<std::tuple<Layout, DType>> {};

TEST_P(Tiles, OddLengths) {
    const auto [layout, dtype] = GetParam();
    std::mt19937 random(7);
    constexpr std::int64_t lqs[] = {1, 8, 9, 16, 20, 32, 33, 64, 100, 128, 129, 257, 300, 511};
    constexpr std::int64_t lds[] = {0, 1, 31, 32, 33, 64, 96, 97, 127, 128, 129, 180, 256, 300, 513};
    constexpr std::int64_t dims[] = {8, 48, 64, 72, 96, 128, 136, 200, 256};
    for (int i = 0; i < 60; ++i) {
        const auto one_of = [&](const auto& list) { return list[random() % std::size(list)]; };
        const std::int64_t queries = 1 + random() % 4;
        const std::int64_t documents = 1 + random() % 7;
        expect_exact({layout, dtype, queries, documents, one_of(lqs), one_of(lds), one_of(dims), random() % 2 == 0,
                      false, static_cast<unsigned>(i)});
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Tiles, ::testing::Combine(::testing::ValuesIn(all_layouts), ::testing::ValuesIn(types)),
                         [](const auto& chosen) {
                             return std::string(name_of_layout(std::get<0>(chosen.param))) + "_" +
                                    std::string(name_of(std::get<1>(chosen.param)));
                         });

class Shapes : public ::testing::TestWithParam<DType> {};

TEST_P(Shapes, ManyUnitsForEachThreadBlock) {
    expect_exact({Layout::cross, GetParam(), 1, 1500, 32, 70, 64, false, false, 1});
    expect_exact({Layout::packed, GetParam(), 1, 1500, 32, 70, 64, false, false, 2});
    expect_exact({Layout::cross, GetParam(), 37, 300, 20, 150, 64, true, false, 3});
    expect_exact({Layout::packed, GetParam(), 40, 300, 33, 130, 64, false, false, 4});
    expect_exact({Layout::grouped, GetParam(), 50, 12, 32, 140, 64, true, false, 5});
    expect_exact({Layout::packed_list, GetParam(), 30, 40, 40, 140, 64, false, false, 6});
    expect_exact({Layout::zipped, GetParam(), 500, 500, 24, 90, 64, true, false, 7});
}

TEST_P(Shapes, LongQueries) {
    expect_exact({Layout::cross, GetParam(), 3, 50, 1030, 140, 64, true, false, 1});
    expect_exact({Layout::grouped, GetParam(), 3, 7, 700, 140, 64, true, false, 2});
    expect_exact({Layout::zipped, GetParam(), 5, 5, 513, 300, 64, true, false, 3});
    expect_exact({Layout::packed, GetParam(), 3, 9, 600, 300, 64, false, false, 4});
}

TEST_P(Shapes, LongDocumentsAreCut) {
    expect_exact({Layout::single, GetParam(), 1, 1, 32, 100000, 64, false, false, 1});
    expect_exact({Layout::single, GetParam(), 1, 1, 32, 100000, 64, true, false, 1});
    expect_exact({Layout::cross, GetParam(), 2, 3, 1, 5000, 64, true, false, 2});
    expect_exact({Layout::cross, GetParam(), 2, 3, 300, 5001, 64, true, false, 3});
    expect_exact({Layout::packed, GetParam(), 2, 3, 50, 7003, 64, false, false, 4});
    expect_exact({Layout::ranges, GetParam(), 1, 9, 40, 3000, 64, false, false, 5});
    expect_exact({Layout::zipped, GetParam(), 4, 4, 150, 3000, 64, true, false, 6});
}

TEST_P(Shapes, RaggedFromNothingToLong) {
    Shape shape{Layout::packed, GetParam(), 1, 400, 32, 2000, 64, false, false, 11};
    expect_exact(shape);
    shape.lq = 200;
    shape.documents = 100;
    expect_exact(shape);
}

INSTANTIATE_TEST_SUITE_P(Cuda, Shapes, ::testing::ValuesIn(types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

// Every row of a half type gives the same bits on random numbers: matrix instructions of three shapes among them.
TEST(Rows, AgreeBitForBit) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
        for (const std::int64_t dim : {48, 64, 128, 256}) {
            const Sample sample({Layout::cross, dtype, 3, 20, 40, 200, dim, true, false, 9}, normal());
            const core::Problem problem = core::make_problem(sample.request);
            const std::vector<const core::Kernel*> rows = rows_for(dtype);
            const Results first = run(*rows.front(), problem);
            for (const core::Kernel* row : rows) {
                SCOPED_TRACE(std::string(row->name) + ", d " + std::to_string(dim));
                const Results other = run(*row, problem);
                EXPECT_TRUE(same_bits(other.scores, first.scores));
                EXPECT_TRUE(same_bits(other.similarity, first.similarity));
                EXPECT_TRUE(same_bits(other.index, first.index));
            }
        }
    }
}

// Whether a document is cut depends on how many there are: the bits must not.
TEST(Rows, CutDocumentsHaveTheSameBits) {
    const Shape shape{Layout::cross, DType::f16, 2, 700, 33, 3000, 64, true, false, 5};
    const Sample sample(shape, normal());
    const core::Problem whole = core::make_problem(sample.request);
    for (const core::Kernel* row : rows_for(shape.dtype)) {
        SCOPED_TRACE(row->name);
        const Results all = run(*row, whole);
        core::Problem few = core::make_problem(sample.request);
        few.params.d = core::slice(few.params.d, 0, 2);
        few.params.pairs.width = 2;
        few.params.pairs.count = 4;
        const Results cut = run(*row, few);
        for (std::size_t i = 0; i < 2; ++i) {
            for (std::size_t j = 0; j < 2; ++j) EXPECT_EQ(cut.scores[i * 2 + j], all.scores[i * 700 + j]);
        }
    }
}

}  // namespace
}  // namespace rowmax::test
