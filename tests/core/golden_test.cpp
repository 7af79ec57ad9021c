// tests/data/golden.json: small inputs and right outcomes, each from a fault that some MaxSim implementation had. Every
// row of the dispatch table that accepts a case must give its numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "rowmax/compressed.hpp"
#include "rowmax/maxsim.hpp"
#include "support/array.hpp"
#include "support/golden.hpp"

namespace rowmax {
namespace {

using nlohmann::json;
using test::Array;

using test::Case;
using test::cases_of;
using test::Inputs;
using test::read;
using test::test_name;
using test::view_of;

void expect_close(double got, double want, double tolerance, const std::string& where) {
    if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << where << ": " << got;
    } else {
        EXPECT_NEAR(got, want, std::isfinite(want) ? tolerance * std::fabs(want) : 0) << where;
    }
}

std::vector<std::string> accepting(const ScoreRequest& request) {
    std::vector<std::string> names;
    for (const KernelInfo& row : explain_dispatch(request)) {
        if (row.refusal.empty()) names.push_back(row.name);
    }
    return names;
}

class GoldenScores : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenScores, OnEveryKernel) {
    const json& row = GetParam().row;
    Inputs inputs(GetParam());
    const ResultShape shape = result_shape(inputs.request);
    const std::vector<std::string> names = accepting(inputs.request);
    ASSERT_FALSE(names.empty());
    const Array want = *read(row, "scores", DType::f64);
    for (const std::string& kernel : names) {
        const Array scores(shape.dtype, shape.scores);
        const Array index(DType::i32, shape.tokens, {-9});
        inputs.request.options.kernel = kernel;
        score(inputs.request, {scores.view(), index.view(), {}});
        ASSERT_EQ(want.size(), scores.size());
        for (std::size_t i = 0; i < want.size(); ++i) {
            expect_close(scores[i], want[i], row.value("rtol", 1e-6), kernel + ", score " + std::to_string(i));
        }
        if (row.contains("index")) {
            EXPECT_EQ(index.values(), read(row, "index", DType::i32)->values()) << kernel;
        }
    }
}

// `order`: documents from best to worst; scores that the input type would tie must not tie.
class GoldenOrder : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenOrder, OnEveryKernel) {
    const json& row = GetParam().row;
    Inputs inputs(GetParam());
    const std::vector<std::int64_t> shape = result_shape(inputs.request).scores;
    for (const std::string& kernel : accepting(inputs.request)) {
        const Array scores(DType::f32, shape);
        const Array index(DType::i64, shape);
        inputs.request.options.kernel = kernel;
        topk(inputs.request.q, inputs.request.d, shape[1], 0, inputs.request.options, scores.view(), index.view());
        EXPECT_EQ(index.values(), read(row, "order", DType::i64)->values()) << kernel;
    }
}

// `grad_d_zero`: documents whose gradient is exactly zero.
class GoldenZeroGradient : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenZeroGradient, OnEveryKernel) {
    const json& row = GetParam().row;
    Inputs inputs(GetParam());
    const ResultShape shape = result_shape(inputs.request);
    for (const std::string& kernel : accepting(inputs.request)) {
        const Array scores(shape.dtype, shape.scores);
        const Array index(DType::i32, shape.tokens);
        const Array ones(shape.dtype, shape.scores, {1});
        const TensorView d = inputs.request.d.tokens;
        const Array gradient(inputs.dtype, {d.shape[0], d.shape[1], d.shape[2]}, {9});
        inputs.request.options.kernel = kernel;
        score(inputs.request, {scores.view(), index.view(), {}});
        score_backward(inputs.request, index.view(), ones.view(), {}, gradient.view());
        for (const json& document : row["grad_d_zero"]) {
            const auto size = static_cast<std::size_t>(d.shape[1] * d.shape[2]);
            for (std::size_t i = 0; i < size; ++i) {
                EXPECT_EQ(gradient[document.get<std::size_t>() * size + i], 0) << kernel << ", element " << i;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenScores, ::testing::ValuesIn(cases_of({"maxsim"})), test_name);
INSTANTIATE_TEST_SUITE_P(Cases, GoldenOrder, ::testing::ValuesIn(cases_of({"maxsim"}, "order")), test_name);
INSTANTIATE_TEST_SUITE_P(Cases, GoldenZeroGradient, ::testing::ValuesIn(cases_of({"maxsim"}, "grad_d_zero")),
                         test_name);

class GoldenTopK : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenTopK, OnEveryKernel) {
    const json& row = GetParam().row;
    Inputs inputs(GetParam());
    const Array want = *read(row, "scores", DType::f32);
    const Array want_index = *read(row, "indices", DType::i64);
    for (const std::string& kernel : accepting(inputs.request)) {
        const std::int64_t kept = static_cast<std::int64_t>(row["scores"][0].size());
        const Array scores(DType::f32, {inputs.request.q.tokens.shape[0], kept});
        const Array index(DType::i64, {inputs.request.q.tokens.shape[0], kept});
        inputs.request.options.kernel = kernel;
        topk(inputs.request.q, inputs.request.d, row["k"], 0, inputs.request.options, scores.view(), index.view());
        EXPECT_EQ(index.values(), want_index.values()) << kernel;
        for (std::size_t i = 0; i < want.size(); ++i) expect_close(scores[i], want[i], 1e-6, kernel);
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTopK, ::testing::ValuesIn(cases_of({"topk"})), test_name);

class GoldenInt8 : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenInt8, OnEveryKernel) {
    const json& row = GetParam().row;
    const Array q = *read(row, "q", DType::i8);
    const Array d = *read(row, "d", DType::i8);
    const Array q_scale = *read(row, "q_scale", DType::f32);
    const Array d_scale = *read(row, "d_scale", DType::f32);
    ScoreRequest request;
    request.q.tokens = q.view();
    request.q.scale = q_scale.view();
    request.d.tokens = d.view();
    request.d.scale = d_scale.view();
    const std::vector<std::string> names = accepting(request);
    ASSERT_FALSE(names.empty());
    const Array want = *read(row, "scores", DType::f64);
    for (const std::string& kernel : names) {
        const Array scores(DType::f32, result_shape(request).scores);
        request.options.kernel = kernel;
        score(request, {scores.view(), {}, {}});
        ASSERT_EQ(want.size(), scores.size());
        for (std::size_t i = 0; i < want.size(); ++i) expect_close(scores[i], want[i], 1e-6, kernel);
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenInt8, ::testing::ValuesIn(cases_of({"maxsim_int8"})), test_name);

class GoldenResidual : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenResidual, IsUnpacked) {
    const json& row = GetParam().row;
    const Array bytes = *read(row, "bytes", DType::u8);
    const Array want = *read(row, "values", DType::u8);
    const Array values(DType::u8, {static_cast<std::int64_t>(want.size())}, {99});
    unpack_residual(bytes.view(), row["nbits"], BitOrder::colbert, values.view());
    EXPECT_EQ(values.values(), want.values());
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenResidual, ::testing::ValuesIn(cases_of({"unpack_residual"})), test_name);

class GoldenResidualErrors : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenResidualErrors, AreNamed) {
    const json& args = GetParam().row["args"];
    const Array bytes = *read(args, "bytes", DType::u8);
    try {
        unpack_residual(bytes.view(), args["nbits"], BitOrder::colbert, bytes.view());
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_value);
        for (const json& text : GetParam().row["message_has"]) {
            EXPECT_NE(std::string(error.what()).find(text.get<std::string>()), std::string::npos) << error.what();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenResidualErrors, ::testing::ValuesIn(cases_of({"error:unpack_residual"})),
                         test_name);

class GoldenErrors : public ::testing::TestWithParam<Case> {
  protected:
    static std::optional<Array> zeros(const json& args, const std::string& side, const char* suffix, DType dtype) {
        if (!args.contains(side + suffix)) return std::nullopt;
        return Array(dtype, args[side + suffix].get<std::vector<std::int64_t>>());
    }

    struct Set {
        Set(const json& args, const std::string& side)
            : tokens(*zeros(args, side, "_shape", dtype_from_name(args.value(side + "_dtype", "float32")))),
              mask(zeros(args, side, "_mask_shape", DType::boolean)),
              cu_seqlens(read(args, "cu_seqlens_" + side, DType::i64)) {}
        [[nodiscard]] TokenSet set() const {
            TokenSet set;
            set.tokens = tokens.view();
            set.mask = view_of(mask);
            set.cu_seqlens = view_of(cu_seqlens);
            return set;
        }
        Array tokens;
        std::optional<Array> mask, cu_seqlens;
    };
};

TEST_P(GoldenErrors, AreNamed) {
    const json& row = GetParam().row;
    const Set q(row["args"], "q");
    const Set d(row["args"], "d");
    ScoreRequest request;
    request.q = q.set();
    request.d = d.set();
    request.options.validate = row["args"].value("validate", true);
    try {
        result_shape(request);
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), row["error"] == "TypeError" ? ErrorCode::invalid_type : ErrorCode::invalid_value);
        for (const json& text : row["message_has"]) {
            EXPECT_NE(std::string(error.what()).find(text.get<std::string>()), std::string::npos)
                << text << ": " << error.what();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenErrors, ::testing::ValuesIn(cases_of({"error:maxsim", "error:maxsim_varlen"})),
                         test_name);

}  // namespace
}  // namespace rowmax
