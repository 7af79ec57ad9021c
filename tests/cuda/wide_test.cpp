// Tokens of more than 192 dimensions: at and around the numbers of query rows and dimensions where blocks change, and
// how a tile is shared by the warpgroups.
#include <gtest/gtest.h>

#include "cuda/expect.hpp"

namespace rowmax::test {
namespace {

constexpr DType half_types[] = {DType::f16, DType::bf16};

class Wide : public ::testing::TestWithParam<std::tuple<Layout, DType>> {};

TEST_P(Wide, OddLengths) {
    const auto [layout, dtype] = GetParam();
    std::mt19937 random(17);
    constexpr std::int64_t lqs[] = {1, 8, 16, 17, 20, 32, 33, 64, 65, 100, 128, 129, 300};
    constexpr std::int64_t lds[] = {0, 1, 31, 32, 33, 64, 65, 96, 97, 127, 128, 129, 180, 300};
    constexpr std::int64_t dims[] = {193, 200, 256, 264, 320, 384, 512, 576, 640, 768, 1024};
    for (int i = 0; i < 20; ++i) {
        const auto one_of = [&](const auto& list) { return list[random() % std::size(list)]; };
        const std::int64_t queries = 1 + random() % 3;
        const std::int64_t documents = 1 + random() % 5;
        expect_exact({layout, dtype, queries, documents, one_of(lqs), one_of(lds), one_of(dims), random() % 2 == 0,
                      false, static_cast<unsigned>(i)});
    }
}

TEST_P(Wide, AsManyDimensionsAsThereMayBe) {
    const auto [layout, dtype] = GetParam();
    for (const std::int64_t lq : {5, 16, 40}) expect_exact({layout, dtype, 2, 3, lq, 130, 4096, true, false, 3});
    for (const std::int64_t lq : {33, 70}) expect_exact({layout, dtype, 2, 2, lq, 70, 2304, false, false, 4});
}

INSTANTIATE_TEST_SUITE_P(Cuda, Wide,
                         ::testing::Combine(::testing::ValuesIn(all_layouts), ::testing::ValuesIn(half_types)),
                         [](const auto& chosen) {
                             return std::string(name_of_layout(std::get<0>(chosen.param))) + "_" +
                                    std::string(name_of(std::get<1>(chosen.param)));
                         });

class WideShapes : public ::testing::TestWithParam<DType> {};

// Rings and buffers go round many times, and blocks change within a thread block's share.
TEST_P(WideShapes, ManyUnitsForEachThreadBlock) {
    expect_exact({Layout::cross, GetParam(), 1, 1000, 32, 70, 256, false, false, 1});
    expect_exact({Layout::packed, GetParam(), 1, 700, 32, 150, 200, false, false, 2});
    expect_exact({Layout::cross, GetParam(), 37, 100, 20, 150, 256, true, false, 3});
    expect_exact({Layout::packed, GetParam(), 9, 200, 70, 130, 320, false, false, 4});
    expect_exact({Layout::grouped, GetParam(), 30, 8, 32, 140, 256, true, false, 5});
    expect_exact({Layout::zipped, GetParam(), 300, 300, 24, 90, 256, true, false, 6});
    expect_exact({Layout::cross, GetParam(), 2, 60, 600, 140, 256, true, false, 7});
    expect_exact({Layout::cross, GetParam(), 1, 300, 70, 140, 1024, false, false, 8});
}

TEST_P(WideShapes, LongDocumentsAreCut) {
    expect_exact({Layout::single, GetParam(), 1, 1, 32, 20000, 256, true, false, 1});
    expect_exact({Layout::cross, GetParam(), 2, 3, 100, 3001, 256, true, false, 2});
    expect_exact({Layout::packed, GetParam(), 2, 3, 50, 3003, 320, false, false, 3});
}

INSTANTIATE_TEST_SUITE_P(Cuda, WideShapes, ::testing::ValuesIn(half_types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

}  // namespace
}  // namespace rowmax::test
