// The cases of tests/data/golden.json, as arrays and requests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rowmax/maxsim.hpp"
#include "support/array.hpp"

namespace rowmax::test {

using nlohmann::json;

inline double number(const json& value) {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    return value == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

inline void flatten(const json& value, std::size_t depth, std::vector<std::int64_t>& shape,
                    std::vector<double>& values) {
    if (!value.is_array()) return values.push_back(number(value));
    if (shape.size() <= depth) shape.push_back(static_cast<std::int64_t>(value.size()));
    for (const json& inner : value) flatten(inner, depth + 1, shape, values);
}

// Nested lists of a case, as an array of the case's type.
inline std::optional<Array> read(const json& test_case, const std::string& key, DType dtype) {
    if (!test_case.contains(key)) return std::nullopt;
    std::vector<std::int64_t> shape;
    std::vector<double> values;
    flatten(test_case[key], 0, shape, values);
    return Array(dtype, shape, values);
}

inline TensorView view_of(const std::optional<Array>& array) {
    return array ? array->view() : TensorView();
}

struct Case {
    json row;
    [[nodiscard]] std::string name() const { return row["name"]; }
    [[nodiscard]] std::string call() const { return row["call"]; }
};

inline void PrintTo(const Case& test_case, std::ostream* out) {
    *out << test_case.name() << ": " << test_case.row["why"].get<std::string>();
}

// The cases of some calls that hold `key`.
inline std::vector<Case> cases_of(const std::vector<std::string>& calls, const std::string& key = "why") {
    // The variable is for programs that run elsewhere than they were built.
    const char* folder = std::getenv("ROWMAX_TEST_DATA");
    std::ifstream file(std::string(folder == nullptr ? ROWMAX_TEST_DATA : folder) + "/golden.json");
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

inline std::string test_name(const ::testing::TestParamInfo<Case>& info) {
    std::string name = info.param.name();
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
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

}  // namespace rowmax::test
