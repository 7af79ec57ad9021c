// The sizes of blocks for devices: within memory, and never without work.
#include "stream/device_plan.hpp"

#include <gtest/gtest.h>

#include "support/throws.hpp"

namespace rowmax::stream {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

DeviceNeeds text_search() {
    return {.query_count = 10,
            .query_length = 32,
            .dim = 128,
            .k = 100,
            .row = {256, 0},
            .longest = 512,
            .document_count = 1'000'000,
            .token_count = 300'000'000};
}

TEST(DevicePlan, StaysWithinMemory) {
    DeviceNeeds needs = text_search();
    for (const std::int64_t lanes : {1, 2, 8}) {
        needs.lanes = lanes;
        for (const bool copied : {false, true}) {
            needs.copied = copied;
            const std::int64_t least = least_device_memory(needs);
            for (const std::int64_t memory : {least, least + 1, least + mib, least + 100 * mib}) {
                const DevicePlan plan = plan_device(needs, memory);
                const std::int64_t blocks = 2 * lanes + (copied ? 1 : 0);
                EXPECT_LE(blocks * static_cast<std::int64_t>(plan.block_bytes), memory);
                EXPECT_GE(plan.block_bytes, block_layout(1, needs.longest, needs.row).bytes) << memory;
            }
            EXPECT_ERROR(plan_device(needs, least - 1), out_of_memory, std::to_string(least - 1),
                         std::to_string(least));
            needs.held = 5 * mib;
            EXPECT_ERROR(plan_device(needs, least), out_of_memory, std::to_string(least + 5 * mib));
            needs.held = 0;
        }
    }
}

TEST(DevicePlan, LaysScalesBehindTokens) {
    const BlockLayout plain = block_layout(40, 1000, {33, 0});
    EXPECT_EQ(plain.tokens, 512U);
    EXPECT_EQ(plain.bytes, 512U + 33000);
    const BlockLayout scaled = block_layout(40, 1000, {33, 4});
    EXPECT_EQ(scaled.tokens, plain.tokens);
    EXPECT_EQ(scaled.beside % 256, 0U);
    EXPECT_GE(scaled.beside, plain.bytes);
    EXPECT_EQ(scaled.bytes, scaled.beside + 4000);
}

// Query tokens go through the blocks of documents that are far smaller: sign bits.
TEST(DevicePlan, HoldsAQueryToken) {
    DeviceNeeds needs = text_search();
    needs.row = {16, 0};
    needs.longest = 1;
    needs.document_count = needs.token_count = 2;
    needs.query_row = 16384;
    EXPECT_GE(plan_device(needs, 0).block_bytes, 16384U);
    EXPECT_GE(plan_device(needs, least_device_memory(needs)).block_bytes, 16384U);
}

TEST(DevicePlan, HoldsTheLongestDocument) {
    DeviceNeeds needs = text_search();
    needs.longest = 10'000'000;
    EXPECT_GE(plan_device(needs, 0).block_bytes, block_layout(1, needs.longest, needs.row).bytes);
}

TEST(DevicePlan, TakesNoMoreThanThereIs) {
    DeviceNeeds needs = text_search();
    EXPECT_EQ(plan_device(needs, 0).block_bytes, 32U << 20);
    needs.document_count = 10;
    needs.token_count = 1000;
    EXPECT_EQ(plan_device(needs, 0).block_bytes, block_layout(10, 1000, needs.row).bytes);
}

TEST(DevicePlan, StaysResponsive) {
    DeviceNeeds needs = text_search();
    needs.query_count = 20000;
    needs.query_length = 1024;
    const DevicePlan plan = plan_device(needs, 0);
    const double work = 2.0 * 128 * 20000 * 1024 * static_cast<double>(plan.tokens);
    EXPECT_LE(work, 5.1e13);
    EXPECT_GE(work, 4.9e13);
    needs.query_count = 2'000'000'000;
    EXPECT_EQ(plan_device(needs, 0).tokens, 1);
}

TEST(DevicePlan, ScoresOfACallStaySmall) {
    DeviceNeeds needs = text_search();
    for (const std::int64_t queries : {1, 100, 10000, 100000}) {
        needs.query_count = queries;
        const DevicePlan plan = plan_device(needs, 0);
        EXPECT_GE(plan.chunk_documents, 512);
        EXPECT_LE(queries * plan.chunk_documents * 4, std::max<std::int64_t>(64 * mib, queries * 2048));
    }
    needs.block_documents = 3;
    EXPECT_EQ(plan_device(needs, 0).documents, 3);
    EXPECT_EQ(plan_device(needs, 0).chunk_documents, 3);
}

}  // namespace
}  // namespace rowmax::stream
