// The checks of `rowmax selftest`, and that they find faults.
#include "cli/checks/checks.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "cli/checks/run.hpp"
#include "cli/checks/sample.hpp"
#include "core/problem.hpp"
#include "core/reference.hpp"
#include "core/registry.hpp"

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

TEST(Sample, CoversEveryLayoutWithTheOracle) {
    for (const Layout layout :
         {Layout::dense, Layout::packed, Layout::ranges, Layout::grouped, Layout::zipped, Layout::list}) {
        const Sample sample({.layout = layout, .queries = 3, .documents = 4, .masks = true}, DType::f32, 1);
        const core::Problem problem = core::make_problem(sample.request());
        EXPECT_GT(problem.params.pairs.count, 0) << sample.spec().text();
        const auto truth = core::reference::score(problem.params);
        EXPECT_EQ(truth.scores.size(), static_cast<std::size_t>(problem.params.pairs.count));
    }
}

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
