// Every kernel passes the checks of `rowmax selftest`.
#include "cli/checks/checks.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rowmax::checks {
namespace {

void no_pause() {}

std::vector<std::string> available() {
    std::vector<std::string> names;
    for (const KernelInfo& kernel : kernels()) {
        if (kernel.available) names.push_back(kernel.name);
    }
    return names;
}

std::string test_name(std::string text) {
    for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    return text;
}

class EveryKernel : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryKernel, PassesEveryCheck) {
    const std::vector<DType> dtypes = dtypes_of(GetParam());
    EXPECT_FALSE(dtypes.empty());
    for (const DType dtype : dtypes) {
        for (const Check& check : all_checks()) {
            const Report report = check.run(GetParam(), dtype, no_pause);
            EXPECT_TRUE(report.passed()) << check.name << ": "
                                         << (report.failures.empty() ? "" : report.failures.front());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryKernel, ::testing::ValuesIn(available()),
                         [](const auto& chosen) { return test_name(chosen.param); });

TEST(Report, KeepsTheFirstFailuresAndCountsAll) {
    Report report;
    EXPECT_TRUE(report.passed());
    for (int i = 0; i < 100; ++i) report.fail(std::to_string(i));
    EXPECT_FALSE(report.passed());
    EXPECT_EQ(report.failed, 100);
    EXPECT_EQ(report.failures, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
}

}  // namespace
}  // namespace rowmax::checks
