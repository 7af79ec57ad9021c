// tests/data/golden.json: small inputs and right outcomes, each from a fault that some MaxSim implementation had. Every
// row of the dispatch table that accepts a case must give its numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "rowmax/maxsim.hpp"
#include "support/array.hpp"

namespace rowmax {
namespace {

using nlohmann::json;
using test::Array;

double number(const json& value) {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    return value == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

void flatten(const json& value, std::size_t depth, std::vector<std::int64_t>& shape, std::vector<double>& values) {
    if (!value.is_array()) return values.push_back(number(value));
    if (shape.size() <= depth) shape.push_back(static_cast<std::int64_t>(value.size()));
    for (const json& inner : value) flatten(inner, depth + 1, shape, values);
}

// Nested lists of a case, as an array of the case's type.
std::optional<Array> read(const json& test_case, const std::string& key, DType dtype) {
    if (!test_case.contains(key)) return std::nullopt;
    std::vector<std::int64_t> shape;
    std::vector<double> values;
    flatten(test_case[key], 0, shape, values);
    return Array(dtype, shape, values);
}

TensorView view_of(const std::optional<Array>& array) {
    return array ? array->view() : TensorView();
}

struct Case {
    json row;
    [[nodiscard]] std::string name() const { return row["name"]; }
    [[nodiscard]] std::string call() const { return row["call"]; }
};

void PrintTo(const Case& test_case, std::ostream* out) {
    *out << test_case.name() << ": " << test_case.row["why"].get<std::string>();
}

// The cases of some calls that hold `key`.
std::vector<Case> cases_of(const std::vector<std::string>& calls, const std::string& key = "why") {
    std::ifstream file(ROWMAX_TEST_DATA "/golden.json");
    const json golden = json::parse(file);
    std::vector<Case> cases;
    for (const json& row : golden["cases"]) {
        const std::string call =
            row["call"] == "error" ? "error:" + row["function"].get<std::string>() : row["call"].get<std::string>();
        const bool wanted = std::find(calls.begin(), calls.end(), call) != calls.end();
        if (wanted && row.contains(key)) cases.push_back({row});
    }
    return cases;
}

std::string test_name(const ::testing::TestParamInfo<Case>& info) {
    std::string name = info.param.name();
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

void expect_close(double got, double want, double tolerance, const std::string& where) {
    if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << where << ": " << got;
    } else {
        EXPECT_NEAR(got, want, std::isfinite(want) ? tolerance * std::fabs(want) : 0) << where;
    }
}

// The tokens and masks of a case, and the request over them.
struct Inputs {
    explicit Inputs(const Case& test_case)
        : dtype(dtype_from_name(test_case.row["dtype"].get<std::string>())),
          q(read(test_case.row, "q", dtype)),
          d(read(test_case.row, "d", dtype)),
          q_mask(read(test_case.row, "q_mask", DType::boolean)),
          d_mask(read(test_case.row, "d_mask", DType::boolean)) {
        request.q.tokens = view_of(q);
        request.d.tokens = view_of(d);
        request.q.mask = view_of(q_mask);
        request.d.mask = view_of(d_mask);
        request.options.normalize = test_case.row.value("normalize", false);
    }

    DType dtype;
    std::optional<Array> q, d, q_mask, d_mask;
    ScoreRequest request;
};

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
