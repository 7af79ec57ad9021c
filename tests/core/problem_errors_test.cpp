// Every way in which a request can be wrong: the code, and a message that names the argument and the values.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "support/array.hpp"
#include "support/throws.hpp"

namespace rowmax::core {
namespace {

using test::Array;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

// Views of any shape over one block of memory that no test reads beyond.
TensorView view(std::initializer_list<std::int64_t> shape, DType dtype = DType::f32) {
    static std::vector<double> memory(4096);
    return {memory.data(), dtype, shape};
}

TensorView offsets(const std::vector<std::int64_t>& values) {
    static std::vector<std::vector<std::int64_t>> kept;  // outlives the view
    kept.push_back(values);
    return {kept.back().data(), DType::i64, {static_cast<std::int64_t>(values.size())}};
}

// Two queries of three tokens, four documents of five, d = 8.
ScoreRequest dense() {
    ScoreRequest request;
    request.q.tokens = view({2, 3, 8});
    request.d.tokens = view({4, 5, 8});
    return request;
}

ScoreRequest packed() {
    ScoreRequest request;
    request.q.tokens = view({6, 8});
    request.q.cu_seqlens = offsets({0, 2, 6});
    request.d.tokens = view({9, 8});
    request.d.cu_seqlens = offsets({0, 4, 4, 9});
    return request;
}

ScoreRequest ranges() {
    ScoreRequest request = dense();
    request.d = {};
    request.d.tokens = view({9, 8});
    request.d.offsets = offsets({0, 4});
    request.d.lengths = offsets({9, 5});
    return request;
}

ScoreRequest pairs() {
    ScoreRequest request = dense();
    request.pairing = Pairing::list;
    request.pair_q = offsets({0, 1, 1});
    request.pair_d = offsets({3, 0, 3});
    return request;
}

struct Fault {
    std::string name;
    ScoreRequest (*good)();
    std::function<void(ScoreRequest&)> spoil;
    ErrorCode code;
    std::vector<std::string> texts;
};

void PrintTo(const Fault& fault, std::ostream* out) {
    *out << fault.name;
}

class FaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultTest, IsNamed) {
    ScoreRequest request = GetParam().good();
    ASSERT_NO_THROW(make_problem(request)) << "before it is spoilt";
    GetParam().spoil(request);
    try {
        make_problem(request);
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), GetParam().code) << error.what();
        for (const std::string& text : GetParam().texts) {
            EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
                << text << " is not in: " << error.what();
        }
    }
}

std::string name_of_fault(const ::testing::TestParamInfo<Fault>& info) {
    return info.param.name;
}

using R = ScoreRequest&;
constexpr auto value = ErrorCode::invalid_value;
constexpr auto type = ErrorCode::invalid_type;

INSTANTIATE_TEST_SUITE_P(
    Tokens, FaultTest,
    ::testing::Values(
        Fault{"QMissing", dense, [](R r) { r.q.tokens = {}; }, value, {"Q is missing"}},
        Fault{"DMissing", dense, [](R r) { r.d.tokens = {}; }, value, {"D is missing"}},
        Fault{"QNull", dense, [](R r) { r.q.tokens.data = nullptr; }, value, {"Q [2, 3, 8]", "null pointer"}},
        Fault{"QInt", dense, [](R r) { r.q.tokens.dtype = DType::i32; }, type, {"Q", "float16", "int32"}},
        Fault{"DBool", dense, [](R r) { r.d.tokens.dtype = DType::boolean; }, type, {"D", "bool"}},
        Fault{
            "MixedTypes", dense, [](R r) { r.d.tokens.dtype = DType::bf16; }, type, {"Q is float32", "D is bfloat16"}},
        Fault{"DimsDiffer",
              dense,
              [](R r) {
                  r.d.tokens = view({4, 5, 7});
              },
              value,
              {"Q [2, 3, 8]", "D [4, 5, 7]", "8 and 7"}},
        Fault{"DimZero",
              dense,
              [](R r) {
                  r.q.tokens = view({2, 3, 0});
                  r.d.tokens = view({4, 5, 0});
              },
              value,
              {"Q [2, 3, 0]", "1 to 4096", "got 0"}},
        Fault{"DimTooLarge",
              dense,
              [](R r) {
                  r.q.tokens = r.d.tokens = view({1, 1, 4097});
              },
              value,
              {"4096", "4097"}},
        Fault{"QOneDimension", dense, [](R r) { r.q.tokens = view({8}); }, value, {"Q [8]", "2 to 3 dimensions"}},
        Fault{"QScalar", dense, [](R r) { r.q.tokens = view({}); }, value, {"Q []", "2 to 3 dimensions"}},
        Fault{"QFourDimensions",
              dense,
              [](R r) {
                  r.q.tokens = view({1, 2, 3, 8});
              },
              value,
              {"Q [1, 2, 3, 8]", "2 to 3 dimensions"}},
        Fault{"DOneDimension", dense, [](R r) { r.d.tokens = view({8}); }, value, {"D [8]", "2 to 4 dimensions"}},
        Fault{"NegativeSize", dense, [](R r) { r.d.tokens.shape[1] = -5; }, value, {"D [4, -5, 8]", "negative"}},
        Fault{"TooManyDimensions", dense, [](R r) { r.d.tokens.ndim = 5; }, value, {"D", "4 dimensions", "5"}},
        Fault{"TooManyElements",
              dense,
              [](R r) { r.d.tokens.shape[0] = huge; },
              value,
              {"D [9223372036854775807, 5, 8]", "64 bits"}},
        Fault{"StrideTooLong",
              dense,
              [](R r) { r.d.tokens.stride[0] = huge / 4; },
              value,
              {"D [4, 5, 8]", "2305843009213693951", "64 bits"}},
        Fault{"StrideTooNegative",
              dense,
              [](R r) { r.q.tokens.stride[0] = std::numeric_limits<std::int64_t>::min(); },
              value,
              {"Q [2, 3, 8]", "-9223372036854775808"}},
        Fault{"TooManyItems",
              dense,
              [](R r) {
                  r.d.tokens.shape[0] = huge;
                  r.d.tokens.shape[1] = 0;
              },
              value,
              {"queries x documents", "2", "9223372036854775807"}},
        Fault{"TooManyGroupedItems",
              dense,
              [](R r) {
                  r.d.tokens = view({huge, 2, 0, 8});
                  r.pairing = Pairing::grouped;
              },
              value,
              {"documents", "9223372036854775807 x 2"}},
        Fault{"DocumentTooLong",
              dense,
              [](R r) {
                  r.d.tokens = view({1, std::int64_t{1} << 31, 8});
                  r.d.tokens.stride[1] = 0;
              },
              value,
              {"D", "2147483648", "2147483647"}},
        Fault{"NegativeThreads", dense, [](R r) { r.options.threads = -1; }, value, {"threads", "-1"}}),
    name_of_fault);

INSTANTIATE_TEST_SUITE_P(
    Masks, FaultTest,
    ::testing::Values(
        Fault{"WrongItems",
              dense,
              [](R r) {
                  r.d.mask = view({3, 5});
              },
              value,
              {"d_mask [3, 5]", "D [4, 5, 8]"}},
        Fault{"WrongLength",
              dense,
              [](R r) {
                  r.d.mask = view({4, 4});
              },
              value,
              {"d_mask [4, 4]", "D [4, 5, 8]"}},
        Fault{"LengthOneIsNoBroadcast",
              dense,
              [](R r) {
                  r.d.mask = view({4, 1});
              },
              value,
              {"d_mask [4, 1]"}},
        Fault{"AllOnes",
              dense,
              [](R r) {
                  r.d.mask = view({1, 1});
              },
              value,
              {"d_mask [1, 1]"}},
        Fault{"OneDimension", dense, [](R r) { r.q.mask = view({3}); }, value, {"q_mask [3]", "Q [2, 3, 8]"}},
        Fault{"Scalar", dense, [](R r) { r.q.mask = view({}); }, value, {"q_mask []"}},
        Fault{"ThreeDimensions",
              dense,
              [](R r) {
                  r.q.mask = view({2, 3, 1});
              },
              value,
              {"q_mask [2, 3, 1]"}},
        Fault{"SingleItemOfTwo",
              dense,
              [](R r) {
                  r.d.tokens = view({5, 8});
                  r.d.mask = view({2, 5});
              },
              value,
              {"d_mask [2, 5]", "D [5, 8]"}},
        Fault{"Null",
              dense,
              [](R r) {
                  r.q.mask = view({2, 3});
                  r.q.mask.data = nullptr;
              },
              value,
              {"q_mask [2, 3]", "null"}},
        Fault{"GroupedInnerOne",
              dense,
              [](R r) {
                  r.d.tokens = view({2, 4, 5, 8});
                  r.d.mask = view({2, 1, 5});
                  r.pairing = Pairing::grouped;
              },
              value,
              {"d_mask [2, 1, 5]", "D [2, 4, 5, 8]"}},
        Fault{"WithPacked",
              packed,
              [](R r) {
                  r.d.mask = view({3, 5});
              },
              value,
              {"d_mask", "packed"}},
        Fault{"WithRanges",
              ranges,
              [](R r) {
                  r.d.mask = view({2, 9});
              },
              value,
              {"d_mask"}}),
    name_of_fault);

INSTANTIATE_TEST_SUITE_P(
    Offsets, FaultTest,
    ::testing::Values(
        Fault{"FirstNotZero",
              packed,
              [](R r) {
                  r.d.cu_seqlens = offsets({1, 4, 9});
              },
              value,
              {"cu_seqlens_d[0]", "got 1"}},
        Fault{"Decreasing",
              packed,
              [](R r) {
                  r.q.cu_seqlens = offsets({0, 4, 2});
              },
              value,
              {"cu_seqlens_q", "at 2", "2 after 4"}},
        Fault{"PastTheEnd",
              packed,
              [](R r) {
                  r.d.cu_seqlens = offsets({0, 10});
              },
              value,
              {"cu_seqlens_d", "10", "D", "9 tokens"}},
        Fault{"Empty", packed, [](R r) { r.d.cu_seqlens = offsets({}); }, value, {"cu_seqlens_d", "empty"}},
        Fault{"Float",
              packed,
              [](R r) { r.d.cu_seqlens = view({3}); },
              type,
              {"cu_seqlens_d", "int32 or int64", "float32"}},
        Fault{"TwoDimensions",
              packed,
              [](R r) {
                  r.q.cu_seqlens = view({1, 3}, DType::i32);
              },
              value,
              {"cu_seqlens_q", "[1, 3]"}},
        Fault{"Null", packed, [](R r) { r.q.cu_seqlens.data = nullptr; }, value, {"cu_seqlens_q [3]", "null"}},
        Fault{"TokensThreeDimensions",
              packed,
              [](R r) {
                  r.d.tokens = view({1, 9, 8});
              },
              value,
              {"D [1, 9, 8]", "[T, d]"}},
        Fault{"MaxSeqlenTooSmall", packed, [](R r) { r.d.max_seqlen = 4; }, value, {"max_seqlen_d is 4", "5 tokens"}},
        Fault{"MaxSeqlenTooLarge",
              packed,
              [](R r) { r.q.max_seqlen = huge; },
              value,
              {"Q", "9223372036854775807", "2147483647"}},
        Fault{"PackedAndRanges",
              packed,
              [](R r) { r.d.offsets = offsets({0}); },
              value,
              {"D", "cu_seqlens_d", "offsets"}},
        Fault{"LengthsMissing", ranges, [](R r) { r.d.lengths = {}; }, value, {"lengths is missing"}},
        Fault{"OffsetsMissing", ranges, [](R r) { r.d.offsets = {}; }, value, {"offsets is missing"}},
        Fault{"LengthsDiffer", ranges, [](R r) { r.d.lengths = offsets({1}); }, value, {"2 and 1"}},
        Fault{"LengthsFloat", ranges, [](R r) { r.d.lengths = view({2}); }, type, {"lengths", "float32"}},
        Fault{"RangeNegativeStart",
              ranges,
              [](R r) {
                  r.d.offsets = offsets({0, -1});
              },
              value,
              {"offsets[1] = -1"}},
        Fault{"RangeNegativeLength",
              ranges,
              [](R r) {
                  r.d.lengths = offsets({-2, 0});
              },
              value,
              {"lengths[0] = -2"}},
        Fault{"RangePastTheEnd",
              ranges,
              [](R r) {
                  r.d.lengths = offsets({9, 6});
              },
              value,
              {"offsets[1] = 4", "lengths[1] = 6", "9 tokens"}},
        Fault{"RangeOverflow",
              ranges,
              [](R r) {
                  r.d.offsets = offsets({0, huge});
                  r.d.lengths = offsets({1, huge});
              },
              value,
              {"offsets[1] = 9223372036854775807"}}),
    name_of_fault);

INSTANTIATE_TEST_SUITE_P(
    Pairs, FaultTest,
    ::testing::Values(
        Fault{"NoSuchPairing", dense, [](R r) { r.pairing = static_cast<Pairing>(9); }, value, {"pairing", "9"}},
        Fault{
            "ListsWithoutListPairing", dense, [](R r) { r.pair_q = offsets({0}); }, value, {"pair_q", "list pairing"}},
        Fault{"FourDimensionsWithoutGrouped",
              dense,
              [](R r) {
                  r.d.tokens = view({2, 4, 5, 8});
              },
              value,
              {"D [2, 4, 5, 8]", "grouped"}},
        Fault{"GroupedQueriesDiffer",
              dense,
              [](R r) {
                  r.d.tokens = view({3, 4, 5, 8});
                  r.pairing = Pairing::grouped;
              },
              value,
              {"D [3, 4, 5, 8]", "3 queries", "Q [2, 3, 8]", "2"}},
        Fault{"GroupedUneven",
              dense,
              [](R r) {
                  r.d.tokens = view({5, 5, 8});
                  r.pairing = Pairing::grouped;
              },
              value,
              {"5 documents", "2 queries"}},
        Fault{"GroupedNoQueries",
              dense,
              [](R r) {
                  r.q.tokens = view({0, 3, 8});
                  r.pairing = Pairing::grouped;
              },
              value,
              {"4 documents", "0 queries"}},
        Fault{"ZippedCountsDiffer",
              dense,
              [](R r) { r.pairing = Pairing::zipped; },
              value,
              {"Q [2, 3, 8]", "D [4, 5, 8]", "2 and 4"}},
        Fault{"ListMissing", pairs, [](R r) { r.pair_d = {}; }, value, {"pair_d is missing"}},
        Fault{
            "ListLengthsDiffer", pairs, [](R r) { r.pair_q = offsets({0}); }, value, {"pair_q and pair_d", "1 and 3"}},
        Fault{"ListFloat", pairs, [](R r) { r.pair_q = view({3}); }, type, {"pair_q", "float32"}},
        Fault{"ListQueryTooLarge",
              pairs,
              [](R r) {
                  r.pair_q = offsets({0, 2, 1});
              },
              value,
              {"pair_q[1] is 2", "2 queries"}},
        Fault{"ListDocumentNegative",
              pairs,
              [](R r) {
                  r.pair_d = offsets({0, 1, -1});
              },
              value,
              {"pair_d[2] is -1", "4 documents"}}),
    name_of_fault);

// Without validation a pair list is clamped, but there must be something to clamp to.
TEST(UnvalidatedTest, PairListIntoNothingIsAnError) {
    ScoreRequest request = pairs();
    request.options.validate = false;
    request.pair_d = offsets({99, -99, 0});
    EXPECT_NO_THROW(make_problem(request));
    request.d.tokens = view({0, 5, 8});
    EXPECT_ERROR(make_problem(request), invalid_value, "pair_d[0]", "0 documents");
}

TEST(UnvalidatedTest, OffsetsMayLie) {
    ScoreRequest request = packed();
    request.options.validate = false;
    request.d.cu_seqlens = offsets({5, -3, huge});
    EXPECT_EQ(make_problem(request).params.d.max_length, 9);
}

Device on_a_device() {
    return {Device::Kind::cuda, 0, nullptr, nullptr, nullptr};
}

// What cannot be read in place is refused there; nothing of an empty view is read.
TEST(DeviceTest, ViewsAreNotCopied) {
    ScoreRequest request = dense();
    request.options.device = on_a_device();
    request.d.tokens.stride[2] = 2;
    EXPECT_ERROR(make_problem(request), not_implemented, "on a CUDA device", "not contiguous");
    request.d.tokens.data = nullptr;
    request.d.tokens.shape[1] = 0;
    EXPECT_NO_THROW(make_problem(request));
}

TEST(DeviceTest, OffsetsAreNotReadUnlessAskedFor) {
    ScoreRequest request = packed();
    request.options.device = on_a_device();
    EXPECT_FALSE(validates(request.options));
    request.d.cu_seqlens.data = reinterpret_cast<void*>(std::uintptr_t{64});  // nobody may look there
    EXPECT_EQ(make_problem(request).params.d.max_length, request.d.tokens.shape[0]);
    request.options.validate = true;
    EXPECT_TRUE(validates(request.options));
}

}  // namespace
}  // namespace rowmax::core
