// Shapes at and around the sizes of tiles, blocks and rings; documents that are cut; many units a thread block.
#include <gtest/gtest.h>

#include "cuda/expect.hpp"

namespace rowmax::test {
namespace {

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

// Where a thread block's documents begin is found among all: a search of one step, of two, and of three.
TEST_P(Shapes, ManyPackedDocuments) {
    for (const std::int64_t documents : {133, 5000, 40000}) {
        for (const unsigned seed : {1, 2}) {  // offsets of either width
            expect_exact({Layout::packed, GetParam(), 1, documents, 32, 9, 8, false, false, seed});
        }
        expect_exact({Layout::packed, GetParam(), 5, documents, 40, 9, 8, false, false, 3});
    }
}

// Every row of a type gives the same bits on random numbers: matrix instructions of many shapes among them.
TEST_P(Shapes, RowsAgreeBitForBit) {
    for (const std::int64_t lq : {20, 40, 100}) {
        for (const std::int64_t dim : {48, 64, 128, 192, 200, 256, 320, 768, 1024, 4096}) {
            const std::int64_t documents = dim > 500 ? 3 : 12;
            expect_same_bits_on_every_row(
                Sample({Layout::cross, GetParam(), 3, documents, lq, 200, dim, true, false, 9}, normal()));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Shapes, ::testing::ValuesIn(types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

// Whether a document is cut depends on how many there are: the bits must not.
class Cut : public ::testing::TestWithParam<DType> {};

TEST_P(Cut, DocumentsHaveTheSameBits) {
    constexpr std::size_t many = 300;  // two for every multiprocessor are not cut
    const Shape shape{Layout::cross, GetParam(), 2, many, 33, 2100, 64, true, false, 5};
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
            for (std::size_t j = 0; j < 2; ++j) EXPECT_EQ(cut.scores[i * 2 + j], all.scores[i * many + j]);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Cut, ::testing::ValuesIn(types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

}  // namespace
}  // namespace rowmax::test
