// Every kernel passes the checks of `rowmax selftest`.
#include "cli/checks/checks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "stream/fake_device.hpp"

namespace rowmax::checks {
namespace {

void no_pause() {}

std::vector<const core::Kernel*> available() {
    std::vector<const core::Kernel*> rows;
    for (const core::Kernel& row : core::cpu_kernels()) {
        if (row.missing_features().empty()) rows.push_back(&row);
    }
    return rows;
}

std::string test_name(std::string_view name) {
    std::string text(name);
    for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    return text;
}

class EveryKernel : public ::testing::TestWithParam<const core::Kernel*> {};

TEST_P(EveryKernel, PassesEveryCheck) {
    const Target target{GetParam()};
    const std::vector<DType> dtypes = dtypes_of(target);
    EXPECT_FALSE(dtypes.empty());
    for (const DType dtype : dtypes) {
        for (const Check& check : all_checks()) {
            const Report report = check.run(target, dtype, no_pause);
            EXPECT_TRUE(report.passed()) << check.name << ": "
                                         << (report.failures.empty() ? "" : report.failures.front());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryKernel, ::testing::ValuesIn(available()),
                         [](const auto& chosen) { return test_name(chosen.param->name); });

// The way of the devices' kernels, with one of the CPU's.
TEST(ChecksOnADevice, PassEveryCheckThatAppliesThere) {
    core::Kernel row = *available().front();
    row.backward = nullptr;
    const Target target{&row, &test::fake_backend(), 1};
    const DType dtype = dtypes_of(target).at(0);
    for (const Check& check : all_checks()) {
        const Report report = check.run(target, dtype, no_pause);
        EXPECT_TRUE(report.passed()) << check.name << ": " << (report.failures.empty() ? "" : report.failures.front());
        EXPECT_EQ(report.cases == 0, check.name == "gradient") << check.name;
    }
    EXPECT_EQ(test::fake_use().device, 0U);
}

// As the rows of hidden states, which take nothing else, on a device.
TEST(ChecksOnADevice, OfHiddenStates) {
    core::Kernel row = *available().front();
    row.backward = nullptr;
    row.write_tokens = [](const core::Params&, void*) {};
    const Target target{&row, &test::fake_backend(), 0};
    const std::vector<DType> dtypes = dtypes_of(target);
    ASSERT_FALSE(dtypes.empty());
    for (const DType dtype : dtypes) {
        EXPECT_TRUE(can_be_hidden(dtype)) << name_of(dtype);
        for (const Check& check : {all_checks()[0], all_checks()[1]}) {
            const Report report = check.run(target, dtype, no_pause);
            EXPECT_TRUE(report.passed()) << (report.failures.empty() ? "" : report.failures.front());
            EXPECT_GT(report.cases, 30) << check.name;
        }
    }
}

/// A kernel of the table with a fault of its own, on the CPU and on a device.
class BrokenKernel : public ::testing::TestWithParam<bool> {
  protected:
    using Score = void (*)(const core::Params&, const core::Outputs&);
    /// The names of the checks that notice.
    static std::string noticed_by(Score fault) {
        core::Kernel row = good();
        row.score = fault;
        row.backward = nullptr;
        const Target target{&row, GetParam() ? &test::fake_backend() : nullptr, 0};
        std::string names;
        for (const Check& check : all_checks()) {
            if (!check.run(target, DType::f32, no_pause).passed()) names += std::string(check.name) + " ";
        }
        return names;
    }
    static const core::Kernel& good() {
        for (const core::Kernel* row : available()) {
            if (row->name.ends_with(".f32")) return *row;
        }
        throw std::logic_error("no kernel takes float32");
    }
    static float* scores(const core::Outputs& outputs) { return static_cast<float*>(outputs.scores); }
};

TEST_P(BrokenKernel, WithAScoreThatIsOff) {
    EXPECT_EQ(noticed_by([](const core::Params& params, const core::Outputs& outputs) {
                  good().score(params, outputs);
                  scores(outputs)[params.pairs.count - 1] += 0.01F * std::fabs(scores(outputs)[0]) + 0.01F;
              }),
              "exact random golden invariance ");
}

TEST_P(BrokenKernel, WithTheNeighbourOfTheWinner) {
    EXPECT_EQ(noticed_by([](const core::Params& params, const core::Outputs& outputs) {
                  good().score(params, outputs);
                  if (outputs.index != nullptr && params.q.max_length > 0) outputs.index[0] += 1;
              }),
              "exact golden invariance ");
}

TEST_P(BrokenKernel, WithBitsThatDependOnTheBatch) {
    EXPECT_EQ(noticed_by([](const core::Params& params, const core::Outputs& outputs) {
                  good().score(params, outputs);
                  if (params.pairs.count == 1) scores(outputs)[0] = std::nextafter(scores(outputs)[0], 1e30F);
              }),
              "invariance ");
}

TEST_P(BrokenKernel, ThatWritesOneScoreTooMany) {
    EXPECT_EQ(noticed_by([](const core::Params& params, const core::Outputs& outputs) {
                  good().score(params, outputs);
                  scores(outputs)[params.pairs.count] = 0;
              }),
              "exact ");
}

TEST_P(BrokenKernel, ThatLeavesTheLastScoreOut) {
    EXPECT_EQ(noticed_by([](const core::Params& params, const core::Outputs& outputs) {
                  const float before = scores(outputs)[params.pairs.count - 1];
                  good().score(params, outputs);
                  scores(outputs)[params.pairs.count - 1] = before;
              }),
              "exact random golden invariance ");
}

INSTANTIATE_TEST_SUITE_P(Where, BrokenKernel, ::testing::Bool(),
                         [](const auto& chosen) { return chosen.param ? "OnADevice" : "OnTheCpu"; });

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
