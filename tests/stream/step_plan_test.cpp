// The sizes of steps: within memory, worth a kernel's while.
#include "stream/step_plan.hpp"

#include <gtest/gtest.h>

#include "support/throws.hpp"

namespace rowmax::stream {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

StepNeeds text_search() {
    return {.query_count = 1000, .query_length = 32, .dim = 128, .k = 100, .token_bytes = 2};
}

TEST(StepPlan, StaysWithinMemory) {
    StepNeeds needs = text_search();
    needs.longest_copied = 500;
    const std::int64_t least = least_memory(needs, 2);
    for (const std::int64_t memory : {least, least + 1, least + mib, least + 100 * mib}) {
        const StepPlan plan = plan_step(needs, memory, 2);
        const std::int64_t packed = plan.queries * 32 * 128 * 4;
        EXPECT_LE(packed + plan.scores * 8 + plan.copied_bytes, memory - least + 32 * 128 * 4 + 8 * plan.queries)
            << memory;
    }
    EXPECT_ERROR(plan_step(needs, least - 1, 2), out_of_memory, std::to_string(least - 1), std::to_string(least));
    needs.held = 5 * mib;
    EXPECT_ERROR(plan_step(needs, least, 2), out_of_memory, std::to_string(least), std::to_string(least + 5 * mib));
    EXPECT_EQ(plan_step(needs, least + 5 * mib, 2).scores, plan_step(needs, least + 5 * mib, 2).queries);
}

TEST(StepPlan, AlwaysTakesSomething) {
    const StepPlan plan = plan_step({.query_count = 1, .query_length = 100000, .dim = 4096}, 0, 1);
    EXPECT_GE(plan.queries, 1);
    EXPECT_GE(plan.scores, 1);
    EXPECT_GE(plan.tokens, 1);
}

TEST(StepPlan, GrowsWithThreadsAndStaysResponsive) {
    for (const int threads : {1, 2, 16}) {
        const StepPlan plan = plan_step(text_search(), 0, threads);
        const double work = 2.0 * static_cast<double>(plan.queries * 32) * static_cast<double>(plan.tokens) * 128;
        EXPECT_LE(work, 4.1e9 * threads);
        EXPECT_GE(work, 3.5e9 * threads);
        EXPECT_GE(plan.tokens, 2000);  // packing the queries does not show
    }
}

TEST(StepPlan, DoesNotTakeMoreQueriesThanThereAre) {
    StepNeeds needs = text_search();
    needs.query_count = 3;
    EXPECT_EQ(plan_step(needs, 0, 1).queries, 3);
}

}  // namespace
}  // namespace rowmax::stream
