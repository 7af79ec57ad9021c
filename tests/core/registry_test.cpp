// Which kernel runs: preference, forcing by name and by prefix, refusals, and what is said about them.
#include "core/registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "rowmax/maxsim.hpp"
#include "support/array.hpp"
#include "support/throws.hpp"

namespace rowmax::core {
namespace {

using test::Array;

class RegistryTest : public ::testing::Test {
  protected:
    // The variable of whoever runs the tests must not decide them.
    void SetUp() override { unsetenv("ROWMAX_KERNEL"); }
    void TearDown() override { unsetenv("ROWMAX_KERNEL"); }

    [[nodiscard]] ScoreRequest request(std::string_view kernel = {}) const {
        ScoreRequest r;
        r.q.tokens = tokens.view();
        r.d.tokens = tokens.view();
        r.options.kernel = kernel;
        return r;
    }

    [[nodiscard]] std::string chosen(std::string_view kernel = {}) const {
        for (const KernelInfo& row : explain_dispatch(request(kernel))) {
            if (row.chosen) return row.name;
        }
        return "none";
    }

    double run(std::string_view kernel = {}) const {
        float result = -1;
        score(request(kernel), {{&result, DType::f32, {}}, {}, {}});
        return result;
    }

    // The rows that accept the request, in order.
    [[nodiscard]] std::vector<std::string> accepting() const {
        std::vector<std::string> names;
        for (const KernelInfo& row : explain_dispatch(request())) {
            if (row.refusal.empty()) names.push_back(row.name);
        }
        return names;
    }

    Array tokens{DType::f32, {2, 2}, {1, 2, 3, 4}};
};

TEST_F(RegistryTest, RowsAreNamedAndDescribed) {
    std::vector<std::string> names;
    for (const KernelInfo& row : kernels()) {
        EXPECT_TRUE(row.name.starts_with(row.backend + ".")) << row.name;
        EXPECT_FALSE(row.description.empty()) << row.name;
        EXPECT_EQ(row.available, row.refusal.empty()) << row.name;
        EXPECT_FALSE(row.chosen) << row.name;
        names.push_back(row.name);
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << "two rows of one name";
}

TEST_F(RegistryTest, TheFirstThatAcceptsRuns) {
    ASSERT_FALSE(accepting().empty());
    EXPECT_EQ(chosen(), accepting().front());
    EXPECT_EQ(run(), 36);
}

TEST_F(RegistryTest, EveryAcceptingRowRunsByName) {
    for (const std::string& name : accepting()) {
        EXPECT_EQ(chosen(name), name);
        EXPECT_EQ(run(name), 36) << name;
    }
}

TEST_F(RegistryTest, APrefixEndsBeforeADot) {
    const std::string name = accepting().back();
    const std::string set = name.substr(0, name.rfind('.'));
    EXPECT_TRUE(chosen(set).starts_with(set + "."));
    EXPECT_EQ(run(set), 36);
    EXPECT_ERROR(run(set.substr(0, set.size() - 1)), invalid_value, "kernel", set.substr(0, set.size() - 1));
    EXPECT_ERROR(run(name + ".more"), invalid_value, name + ".more");
}

TEST_F(RegistryTest, UnknownNamesAreErrors) {
    EXPECT_ERROR(run("cpu.abacus"), invalid_value, "kernel", "'cpu.abacus'");
    EXPECT_EQ(chosen("cpu.abacus"), "none");
}

TEST_F(RegistryTest, TheEnvironmentForcesToo) {
    const std::string last = accepting().back();
    setenv("ROWMAX_KERNEL", last.c_str(), 1);
    EXPECT_EQ(chosen(), last);
    setenv("ROWMAX_KERNEL", "no.such.kernel", 1);
    EXPECT_ERROR(run(), invalid_value, "ROWMAX_KERNEL", "no.such.kernel");
    EXPECT_EQ(run(last), 36) << "the option goes before the variable";
}

TEST_F(RegistryTest, ARefusalNamesWhatIsMissing) {
    for (const KernelInfo& row : explain_dispatch(request())) {
        if (row.refusal.empty()) continue;
        EXPECT_ERROR(run(row.name), not_implemented, row.name, row.refusal);
    }
}

TEST_F(RegistryTest, RowsNotNamedAreSaidToBePassedOver) {
    const std::string name = accepting().back();
    for (const KernelInfo& row : explain_dispatch(request(name))) {
        EXPECT_EQ(row.refusal.empty(), row.name == name) << row.name << ": " << row.refusal;
    }
}

}  // namespace
}  // namespace rowmax::core
