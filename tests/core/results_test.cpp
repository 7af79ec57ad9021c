// Where results go: shapes of every layout, and outputs that do not fit.
#include <gtest/gtest.h>

#include <vector>

#include "rowmax/maxsim.hpp"
#include "support/array.hpp"
#include "support/throws.hpp"

namespace rowmax {
namespace {

using test::Array;
using Shape = std::vector<std::int64_t>;

ScoreRequest request_of(const Array& q, const Array& d, Pairing pairing = Pairing::cross) {
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    request.pairing = pairing;
    return request;
}

TEST(ResultShapeTest, LeadingDimensionsFollowTheInputs) {
    const Array q3(DType::f32, {2, 3, 8});
    const Array q2(DType::f32, {3, 8});
    const Array d3(DType::f32, {4, 5, 8});
    const Array d2(DType::f32, {5, 8});
    EXPECT_EQ(result_shape(request_of(q3, d3)).scores, (Shape{2, 4}));
    EXPECT_EQ(result_shape(request_of(q3, d3)).tokens, (Shape{2, 4, 3}));
    EXPECT_EQ(result_shape(request_of(q2, d3)).scores, (Shape{4}));
    EXPECT_EQ(result_shape(request_of(q3, d2)).scores, (Shape{2}));
    EXPECT_EQ(result_shape(request_of(q2, d2)).scores, (Shape{}));
    EXPECT_EQ(result_shape(request_of(q2, d2)).tokens, (Shape{3}));
}

TEST(ResultShapeTest, GroupedCandidates) {
    const Array q3(DType::f32, {2, 3, 8});
    const Array q2(DType::f32, {3, 8});
    const Array d4(DType::f32, {2, 7, 5, 8});
    const Array one(DType::f32, {1, 7, 5, 8});
    const Array flat(DType::f32, {14, 5, 8});
    EXPECT_EQ(result_shape(request_of(q3, d4, Pairing::grouped)).scores, (Shape{2, 7}));
    EXPECT_EQ(result_shape(request_of(q3, flat, Pairing::grouped)).tokens, (Shape{2, 7, 3}));
    EXPECT_EQ(result_shape(request_of(q2, one, Pairing::grouped)).scores, (Shape{1, 7}));
}

TEST(ResultShapeTest, ZippedAndListedPairs) {
    const Array q(DType::f32, {4, 3, 8});
    const Array d(DType::f32, {4, 5, 8});
    const Array list(DType::i32, {6});
    EXPECT_EQ(result_shape(request_of(q, d, Pairing::zipped)).tokens, (Shape{4, 3}));
    ScoreRequest request = request_of(q, d, Pairing::list);
    request.pair_q = list.view();
    request.pair_d = list.view();
    EXPECT_EQ(result_shape(request).tokens, (Shape{6, 3}));
}

TEST(ResultShapeTest, PackedQueriesPadToTheLongest) {
    const Array q(DType::f32, {6, 8});
    const Array d(DType::f32, {9, 8});
    const Array cu_q(DType::i32, {4}, {0, 2, 2, 6});
    const Array cu_d(DType::i64, {3}, {0, 4, 9});
    ScoreRequest request = request_of(q, d);
    request.q.cu_seqlens = cu_q.view();
    request.d.cu_seqlens = cu_d.view();
    EXPECT_EQ(result_shape(request).scores, (Shape{3, 2}));
    EXPECT_EQ(result_shape(request).tokens, (Shape{3, 2, 4}));
    request.q.max_seqlen = 11;
    EXPECT_EQ(result_shape(request).tokens, (Shape{3, 2, 11}));
}

TEST(ResultShapeTest, RangesAreItems) {
    const Array q(DType::f32, {3, 8});
    const Array d(DType::f32, {9, 8});
    const Array offsets(DType::i64, {2}, {1, 0});
    const Array lengths(DType::i32, {2}, {3, 9});
    ScoreRequest request = request_of(q, d);
    request.d.offsets = offsets.view();
    request.d.lengths = lengths.view();
    EXPECT_EQ(result_shape(request).scores, (Shape{2}));
}

TEST(ResultShapeTest, ScoresOfFloat64AreFloat64) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
        const Array tokens(dtype, {3, 8});
        EXPECT_EQ(result_shape(request_of(tokens, tokens)).dtype, dtype == DType::f64 ? DType::f64 : DType::f32);
    }
}

TEST(ResultShapeTest, EmptySides) {
    const Array none(DType::f32, {0, 3, 8});
    const Array empty(DType::f32, {4, 0, 8});
    EXPECT_EQ(result_shape(request_of(none, empty)).tokens, (Shape{0, 4, 3}));
    EXPECT_EQ(result_shape(request_of(empty, none)).tokens, (Shape{4, 0, 0}));
}

class OutputsTest : public ::testing::Test {
  protected:
    Array q{DType::f32, {2, 3, 8}};
    Array d{DType::f32, {4, 5, 8}};
    Array scores{DType::f32, {2, 4}};
    Array index{DType::i32, {2, 4, 3}};
    Array similarity{DType::f32, {2, 4, 3}};
    ScoreRequest request = request_of(q, d);
    ScoreOutputs outputs{scores.view(), index.view(), similarity.view()};
};

TEST_F(OutputsTest, FitsAndIsWritten) {
    EXPECT_NO_THROW(score(request, outputs));
}

TEST_F(OutputsTest, ScoresMustBeGiven) {
    EXPECT_ERROR(score(request, {}), invalid_value, "out is missing");
}

TEST_F(OutputsTest, WrongTypes) {
    outputs.scores.dtype = DType::f64;
    EXPECT_ERROR(score(request, outputs), invalid_type, "out must be float32", "float64");
    outputs = {scores.view(), index.view(), similarity.view()};
    outputs.index.dtype = DType::i64;
    EXPECT_ERROR(score(request, outputs), invalid_type, "index must be int32", "int64");
    outputs = {scores.view(), index.view(), similarity.view()};
    outputs.similarity.dtype = DType::f16;
    EXPECT_ERROR(score(request, outputs), invalid_type, "similarity must be float32", "float16");
}

TEST_F(OutputsTest, WrongShapes) {
    outputs.scores = TensorView(outputs.scores.data, DType::f32, {4, 2});
    EXPECT_ERROR(score(request, outputs), invalid_value, "out must have shape [2, 4]", "got [4, 2]");
    outputs = {scores.view(), TensorView(index.view().data, DType::i32, {2, 4}), {}};
    EXPECT_ERROR(score(request, outputs), invalid_value, "index must have shape [2, 4, 3]", "got [2, 4]");
}

TEST_F(OutputsTest, MustBeContiguous) {
    outputs.scores.stride[0] = 5;
    EXPECT_ERROR(score(request, outputs), invalid_value, "out [2, 4] must be contiguous");
}

TEST_F(OutputsTest, MustHaveData) {
    outputs.similarity.data = nullptr;
    EXPECT_ERROR(score(request, outputs), invalid_value, "similarity [2, 4, 3]", "null pointer");
}

class GradientsTest : public OutputsTest {
  protected:
    Array grad_scores{DType::f32, {2, 4}};
    Array grad_q{DType::f32, {2, 3, 8}};
    Array grad_d{DType::f32, {4, 5, 8}};
};

TEST_F(GradientsTest, FitsAndIsWritten) {
    EXPECT_NO_THROW(score_backward(request, index.view(), grad_scores.view(), grad_q.view(), grad_d.view()));
}

TEST_F(GradientsTest, EachArgumentIsChecked) {
    const auto backward = [&](const TensorView& i, const TensorView& s, const TensorView& gq, const TensorView& gd) {
        score_backward(request, i, s, gq, gd);
    };
    const TensorView i = index.view();
    const TensorView s = grad_scores.view();
    EXPECT_ERROR(backward({}, s, grad_q.view(), {}), invalid_value, "index is missing");
    EXPECT_ERROR(backward(i, {}, grad_q.view(), {}), invalid_value, "grad_scores is missing");
    EXPECT_ERROR(backward(i, scores.view(), grad_d.view(), {}), invalid_value, "grad_q", "[2, 3, 8]", "[4, 5, 8]");
    const Array wide(DType::f64, {4, 5, 8});
    EXPECT_ERROR(backward(i, s, {}, wide.view()), invalid_type, "grad_d", "float32", "float64");
}

TEST_F(GradientsTest, IndexMustStayInsideItsDocument) {
    for (const double lie : {5.0, -2.0, 2147483647.0}) {
        std::vector<double> values(24, 0);
        values[23] = lie;
        const Array lying(DType::i32, {2, 4, 3}, values);
        EXPECT_ERROR(score_backward(request, lying.view(), grad_scores.view(), grad_q.view(), grad_d.view()),
                     invalid_value, "pair 7", "query token 2", "document 3", "5 tokens");
    }
}

// Results in the memory of an input, and of each other.
TEST(Overlap, IsRefusedByName) {
    const Array memory(DType::f32, {400});
    const auto at = [&](std::ptrdiff_t offset, DType dtype, std::initializer_list<std::int64_t> shape) {
        return TensorView(static_cast<float*>(memory.view().data) + offset, dtype, shape);
    };
    ScoreRequest request;
    request.q.tokens = at(0, DType::f32, {2, 3, 8});
    request.d.tokens = at(48, DType::f32, {4, 5, 8});
    const TensorView index = at(300, DType::i32, {2, 4, 3});
    EXPECT_NO_THROW(score(request, {at(208, DType::f32, {2, 4}), index, {}}));
    EXPECT_ERROR(score(request, {at(40, DType::f32, {2, 4}), index, {}}), invalid_value, "out", "Q");
    EXPECT_ERROR(score(request, {at(207, DType::f32, {2, 4}), index, {}}), invalid_value, "out", "D [4, 5, 8]");
    EXPECT_ERROR(score(request, {at(323, DType::f32, {2, 4}), index, {}}), invalid_value, "index", "out");
    EXPECT_ERROR(score_backward(request, index, at(290, DType::f32, {2, 4}), at(250, DType::f32, {2, 3, 8}), {}),
                 invalid_value, "grad_q", "grad_scores");
    EXPECT_ERROR(topk(request.q, request.d, 2, 0, {}, at(208, DType::f32, {2, 2}), at(210, DType::i64, {2, 2})),
                 invalid_value, "index", "scores");
    request.q.mask = at(208, DType::f32, {2, 3});
    EXPECT_ERROR(score(request, {at(210, DType::f32, {2, 4}), index, {}}), invalid_value, "out", "q_mask");
}

TEST(Overlap, CountsFromTheLowestAddressOfAView) {
    const Array memory(DType::f32, {100});
    float* base = static_cast<float*>(memory.view().data);
    const std::int64_t shape[] = {3, 8};
    const std::int64_t backwards[] = {-8, 1};
    ScoreRequest request;
    request.q.tokens = TensorView(base + 26, DType::f32, shape, backwards);  // elements 10 to 33
    request.d.tokens = TensorView(base + 40, DType::f32, {5, 8});
    EXPECT_ERROR(score(request, {TensorView(base + 10, DType::f32, {}), {}, {}}), invalid_value, "out", "Q");
    EXPECT_ERROR(score(request, {TensorView(base + 33, DType::f32, {}), {}, {}}), invalid_value, "out", "Q");
    EXPECT_NO_THROW(score(request, {TensorView(base + 9, DType::f32, {}), {}, {}}));
    EXPECT_NO_THROW(score(request, {TensorView(base + 34, DType::f32, {}), {}, {}}));
}

}  // namespace
}  // namespace rowmax
