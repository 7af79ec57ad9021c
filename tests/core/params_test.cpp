// Params: what make_problem says about items, masks and pairs, and how lies are clamped.
#include "core/params.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "core/problem.hpp"
#include "support/array.hpp"

namespace rowmax::core {
namespace {

using test::Array;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();

std::int64_t row_of(const Segments& side, std::int64_t item) {
    return side.row_stride == 0 ? 0 : (side.at(item).data - side.data) / side.row_stride;
}

Segments over(const std::vector<std::int64_t>& starts, const std::vector<std::int64_t>& lengths = {}) {
    Segments s;
    s.row_stride = 4;
    s.total_rows = 10;
    s.kind = lengths.empty() ? SegmentKind::offsets : SegmentKind::ranges;
    s.count = static_cast<std::int64_t>(starts.size()) - (lengths.empty() ? 1 : 0);
    s.starts = starts.data();
    s.wide_starts = true;
    s.lengths = lengths.empty() ? nullptr : lengths.data();
    s.wide_lengths = true;
    return s;
}

TEST(SegmentsTest, LyingOffsetsStayInTheStorage) {
    const std::vector<std::int64_t> starts{lowest, 3, -1, 7, 5, huge, 2};
    const Segments s = over(starts);
    const std::vector<std::pair<std::int64_t, std::int64_t>> want{{0, 3}, {3, 0}, {0, 7}, {7, 0}, {5, 5}, {10, 0}};
    for (std::int64_t i = 0; i < s.count; ++i) {
        EXPECT_EQ(s.at(i).first_row, want[static_cast<std::size_t>(i)].first) << i;
        EXPECT_EQ(s.at(i).length, want[static_cast<std::size_t>(i)].second) << i;
        EXPECT_EQ(s.at(i).data - s.data, s.at(i).first_row * s.row_stride) << i;
    }
}

TEST(SegmentsTest, LyingRangesStayInTheStorage) {
    const std::vector<std::int64_t> starts{-5, 8, huge, 4, 0};
    const std::vector<std::int64_t> lengths{4, huge, 1, -3, 10};
    const Segments s = over(starts, lengths);
    const std::vector<std::pair<std::int64_t, std::int64_t>> want{{0, 4}, {8, 2}, {10, 0}, {4, 0}, {0, 10}};
    for (std::int64_t i = 0; i < s.count; ++i) {
        EXPECT_EQ(s.at(i).first_row, want[static_cast<std::size_t>(i)].first) << i;
        EXPECT_EQ(s.at(i).length, want[static_cast<std::size_t>(i)].second) << i;
    }
}

TEST(SegmentsTest, NarrowOffsets) {
    const std::vector<std::int32_t> starts{0, 4, 9};
    Segments s = over({0, 0, 0});
    s.starts = starts.data();
    s.wide_starts = false;
    EXPECT_EQ(s.at(1).first_row, 4);
    EXPECT_EQ(s.at(1).length, 5);
}

TEST(PairsTest, ListIsClamped) {
    const std::vector<std::int64_t> q{-1, 2, huge};
    const std::vector<std::int32_t> d{9, 0, -9};
    const Pairs pairs{PairKind::list, 3, 1, q.data(), d.data(), true, false, 3, 5};
    EXPECT_EQ(pairs.query(0), 0);
    EXPECT_EQ(pairs.query(1), 2);
    EXPECT_EQ(pairs.query(2), 2);
    EXPECT_EQ(pairs.document(0), 4);
    EXPECT_EQ(pairs.document(1), 0);
    EXPECT_EQ(pairs.document(2), 0);
}

TEST(PairsTest, EveryKindNumbersItsPairs) {
    Pairs pairs;
    pairs.width = 3;
    EXPECT_EQ(pairs.query(7), 2);
    EXPECT_EQ(pairs.document(7), 1);
    pairs.kind = PairKind::grouped;
    EXPECT_EQ(pairs.query(7), 2);
    EXPECT_EQ(pairs.document(7), 7);
    pairs.kind = PairKind::zipped;
    EXPECT_EQ(pairs.query(7), 7);
    EXPECT_EQ(pairs.document(7), 7);
}

class ProblemTest : public ::testing::Test {
  protected:
    static ScoreRequest request_of(const TensorView& q, const TensorView& d) {
        ScoreRequest request;
        request.q.tokens = q;
        request.d.tokens = d;
        return request;
    }
    Array q{DType::f32, {2, 3, 8}};
    Array d{DType::f32, {4, 5, 8}};
};

TEST_F(ProblemTest, DenseItemsFollowTheStrides) {
    const Problem p = make_problem(request_of(q.view(), d.view()));
    EXPECT_EQ(p.params.d.count, 4);
    EXPECT_EQ(p.params.d.total_rows, 20);
    EXPECT_EQ(row_of(p.params.d, 3), 15);
    EXPECT_EQ(p.params.d.at(3).first_row, 15);
    EXPECT_EQ(p.params.d.at(3).length, 5);
    EXPECT_TRUE(p.copies.held.empty());
}

TEST_F(ProblemTest, GroupedItemsFollowBothStrides) {
    const Array candidates(DType::f32, {2, 4, 5, 8});
    ScoreRequest request = request_of(q.view(), candidates.view());
    request.d.tokens.stride = {8 * 5, 8 * 5 * 2, 8, 1};  // candidates outermost in memory
    request.pairing = Pairing::grouped;
    const Problem p = make_problem(request);
    EXPECT_EQ(p.params.d.count, 8);
    EXPECT_EQ(row_of(p.params.d, 5), 5 + 10);      // query 1, candidate 1
    EXPECT_EQ(p.params.d.at(5).first_row, 5 * 5);  // gradients are contiguous
}

TEST_F(ProblemTest, BroadcastBatchIsReadInPlace) {
    ScoreRequest request = request_of(q.view(), d.view());
    request.d.tokens.shape[0] = 1000;
    request.d.tokens.stride[0] = 0;
    const Problem p = make_problem(request);
    EXPECT_EQ(p.params.d.at(999).data, d.view().data);
    EXPECT_TRUE(p.copies.held.empty());
}

TEST_F(ProblemTest, NegativeStridesBetweenTokensAreReadInPlace) {
    ScoreRequest request = request_of(q.view(), d.view());
    request.d.tokens.data = static_cast<float*>(request.d.tokens.data) + 4 * 8;
    request.d.tokens.stride[1] = -8;
    const Problem p = make_problem(request);
    EXPECT_EQ(p.params.d.row_stride, -32);
    EXPECT_TRUE(p.copies.held.empty());
}

TEST_F(ProblemTest, ColumnsAreCopied) {
    std::vector<double> numbers(160);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
    const Array columns(DType::f32, {4, 8, 5}, numbers);
    ScoreRequest request = request_of(q.view(), d.view());
    request.d.tokens = columns.view();
    std::swap(request.d.tokens.shape[1], request.d.tokens.shape[2]);
    std::swap(request.d.tokens.stride[1], request.d.tokens.stride[2]);
    const Problem p = make_problem(request);
    EXPECT_EQ(p.copies.held.size(), 1U);
    const Segment item = p.params.d.at(2);
    EXPECT_EQ(load<float>(item.data + 3 * p.params.d.row_stride + 4 * 6), static_cast<float>(2 * 40 + 6 * 5 + 3));
}

TEST_F(ProblemTest, UnalignedMemoryIsCopied) {
    std::vector<std::byte> memory(4 * 160 + 1);
    std::memcpy(memory.data() + 1, d.view().data, 4 * 160);
    ScoreRequest request = request_of(q.view(), d.view());
    request.d.tokens.data = memory.data() + 1;
    request.d.mask = TensorView(memory.data() + 1, DType::i64, {1, 5});
    const Problem p = make_problem(request);
    EXPECT_EQ(p.copies.held.size(), 2U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.params.d.data) % 4, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.params.d.mask.data) % 8, 0U);
}

// Strides that are never stepped along may hold anything.
TEST_F(ProblemTest, IdleStridesAreIgnored) {
    ScoreRequest request = request_of(q.view(), d.view());
    request.q.tokens.shape[0] = 1;
    request.q.tokens.stride[0] = lowest;
    request.d.tokens.shape[1] = 0;
    request.d.tokens.stride = {huge, huge, 1, 0};
    const Problem p = make_problem(request);
    EXPECT_EQ(p.params.q.at(0).data, q.view().data);
    EXPECT_EQ(p.params.d.at(3).data, d.view().data);
}

TEST_F(ProblemTest, OptionsArrive) {
    ScoreRequest request = request_of(q.view(), d.view());
    request.options.normalize = true;
    request.options.precision = Precision::high;
    request.options.threads = 3;
    const Problem p = make_problem(request);
    EXPECT_TRUE(p.params.normalize);
    EXPECT_FALSE(p.params.high_precision_only);
    EXPECT_EQ(p.params.threads, 3);
}

TEST_F(ProblemTest, SlicesAreTheItemsInTheMiddle) {
    ScoreRequest request = request_of(q.view(), d.view());
    const Array mask(DType::i32, {4, 5}, {0, 1, 1});
    request.d.mask = mask.view();
    const Segments whole = make_problem(request).params.d;
    const Segments part = slice(whole, 1, 2);
    ASSERT_EQ(part.count, 2);
    for (std::int64_t i = 0; i < part.count; ++i) {
        EXPECT_EQ(part.at(i).data, whole.at(i + 1).data);
        for (std::int64_t t = 0; t < 5; ++t) EXPECT_EQ(part.keeps(part.at(i), t), whole.keeps(whole.at(i + 1), t));
    }
}

TEST(SegmentsTest, SlicesOfOffsetsAndRanges) {
    const std::vector<std::int64_t> starts{0, 2, 5, 10};
    const std::vector<std::int64_t> lengths{1, 2, 3, 0};
    for (const Segments& whole : {over(starts), over(starts, lengths)}) {
        const Segments part = slice(whole, 1, 2);
        EXPECT_EQ(part.count, 2);
        for (std::int64_t i = 0; i < 2; ++i) {
            EXPECT_EQ(part.at(i).first_row, whole.at(i + 1).first_row);
            EXPECT_EQ(part.at(i).length, whole.at(i + 1).length);
        }
    }
}

// Every mask type: zero (either sign) hides, anything else, NaN too, keeps.
class MaskTest : public ::testing::TestWithParam<DType> {};

TEST_P(MaskTest, NonZeroKeeps) {
    const Array tokens(DType::f32, {2, 4, 1});
    const Array mask(GetParam(), {2, 4}, {0, 1, -0.0, 2, 1, 0, 0, 100});
    ScoreRequest request;
    request.q.tokens = tokens.view();
    request.d.tokens = tokens.view();
    request.d.mask = mask.view();
    const Segments d = make_problem(request).params.d;
    const std::vector<bool> want{false, true, false, true, true, false, false, true};
    for (std::int64_t i = 0; i < 8; ++i) {
        EXPECT_EQ(d.keeps(d.at(i / 4), i % 4), want[static_cast<std::size_t>(i)]) << i;
    }
}

TEST_P(MaskTest, LeadingOneServesEveryItem) {
    const Array tokens(DType::f32, {2, 3, 4, 1});
    const Array queries(DType::f32, {2, 1, 1});
    const Array one(GetParam(), {1, 1, 4}, {0, 1, 1, 0});
    const Array group(GetParam(), {1, 3, 4}, {0, 1, 1, 0, 1});
    ScoreRequest request;
    request.q.tokens = queries.view();
    request.d.tokens = tokens.view();
    request.pairing = Pairing::grouped;
    request.d.mask = one.view();
    const Segments by_one = make_problem(request).params.d;
    request.d.mask = group.view();
    const Segments by_group = make_problem(request).params.d;
    for (std::int64_t i = 0; i < 6; ++i) {
        for (std::int64_t t = 0; t < 4; ++t) {
            EXPECT_EQ(by_one.keeps(by_one.at(i), t), one[static_cast<std::size_t>(t)] != 0);
            EXPECT_EQ(by_group.keeps(by_group.at(i), t), group[static_cast<std::size_t>(i % 3 * 4 + t)] != 0);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, MaskTest,
                         ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::u8,
                                           DType::i16, DType::i32, DType::i64, DType::boolean),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(SingleItemTest, TakesAOneDimensionalMask) {
    const Array tokens(DType::f32, {4, 1});
    const Array flat(DType::boolean, {4}, {1, 0});
    const Array row(DType::boolean, {1, 4}, {1, 0});
    for (const Array* mask : {&flat, &row}) {
        ScoreRequest request;
        request.q.tokens = request.d.tokens = tokens.view();
        request.d.mask = mask->view();
        const Segments d = make_problem(request).params.d;
        for (std::int64_t t = 0; t < 4; ++t) EXPECT_EQ(d.keeps(d.at(0), t), t % 2 == 0);
    }
}

}  // namespace
}  // namespace rowmax::core
