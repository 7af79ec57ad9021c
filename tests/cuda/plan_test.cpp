// How calls are cut, checked on the host: every pair of every layout is some unit's, every row has one place.
#include "cuda/kernels/plan.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cpu/sample.hpp"
#include "cuda/tuning.hpp"

namespace rowmax::test {
namespace {

using cuda::Plan;
using cuda::Unit;

// Each (pair, query position) is met exactly once in each part, and nothing else.
void expect_partition(const core::Params& params, const Plan& plan) {
    std::map<std::pair<std::int64_t, int>, int> met;
    for (std::int64_t u = 0; u < plan.units(); ++u) {
        const Unit unit = cuda::unit_at(plan, u);
        const int used = cuda::rows_used(params, plan, unit);
        ASSERT_LE(used, plan.rows);
        for (int r = 0; r < plan.rows; ++r) {
            const cuda::Row row = cuda::row_of(params, plan, unit, r);
            ASSERT_FALSE(row.kept && !row.in_query);
            if (!row.in_query) continue;
            ASSERT_LT(r, used);
            const std::int64_t pair = cuda::pair_of(params, plan, unit, row.query);
            ASSERT_EQ(row.query, params.pairs.query(pair));
            ASSERT_EQ(cuda::document_of(params, plan, unit), params.pairs.document(pair));
            ++met[{pair, row.position}];
        }
    }
    ASSERT_EQ(met.size(), static_cast<std::size_t>(params.pairs.count * params.q.max_length));
    for (const auto& [place, times] : met) ASSERT_EQ(times, plan.parts) << "pair " << place.first;
}

TEST(Plan, EveryPairAndRowHasOnePlace) {
    for (const Layout layout : all_layouts) {
        for (const std::int64_t lq : {1, 8, 9, 20, 32, 65, 128, 300}) {
            const Shape shape{layout, DType::f16, 5, 6, lq, 40, 8, false, false, 3};
            SCOPED_TRACE(::testing::PrintToString(shape));
            const Sample sample(shape, normal());
            const core::Problem problem = core::make_problem(sample.request);
            for (const int rows : {16, 32, 64, 128, 256})
                expect_partition(problem.params, cuda::make_plan(problem.params, rows, 132));
        }
    }
}

TEST(Plan, FewLongDocumentsAreCut) {
    const Sample sample({Layout::cross, DType::f16, 2, 3, 40, 5000, 8, false, false, 3}, small_integers(8));
    const core::Problem problem = core::make_problem(sample.request);
    const Plan plan = cuda::make_plan(problem.params, 128, 132);
    EXPECT_GT(plan.parts, 1);
    expect_partition(problem.params, plan);
    std::int64_t next = 0;
    for (int part = 0; part < plan.parts; ++part) {
        const cuda::TokenRange range = cuda::tokens_of_part(plan, part, 5000, 128);
        EXPECT_EQ(range.begin, next);
        next = range.end;
    }
    EXPECT_EQ(next, 5000);
}

// The kernels' sizes on devices that are not here: 227 KiB on Hopper; less would leave no ring.
TEST(Tuning, RingsFitSharedMemory) {
    constexpr int hopper = 232448;
    for (const std::int64_t dim : {1, 64, 65, 128, 200, 256}) {
        for (const int rows : {32, 64, 128, 256}) {
            const int slots = cuda::ring_slots(dim, rows, 20000, 1, hopper);
            EXPECT_GE(slots, cuda::ring_slots_least) << dim << " " << rows;
            EXPECT_LE(slots * cuda::ring_slot_bytes + cuda::slots_of_dim(dim) * rows * cuda::query_slot_bytes + 21024,
                      hopper);
        }
    }
    EXPECT_EQ(cuda::ring_slots(256, 256, 20000, 1, 100 * 1024), 0);
}

// As many query rows as are wanted, fewer where they would leave no room for documents.
TEST(Tuning, WideTokensTakeFewerRows) {
    const auto rows = [](std::int64_t dim, std::int64_t wanted) {
        constexpr int hopper = 232448;
        const int chosen = cuda::block_rows(dim, wanted, 16, 128, 12000, hopper);
        EXPECT_GE(cuda::ring_slots(dim, chosen, 12000, 1, hopper), 4) << dim << " " << wanted;
        return chosen;
    };
    for (const std::int64_t dim : {200, 512, 1024, 2048, 4096}) {
        EXPECT_EQ(rows(dim, 1), 16);
        EXPECT_EQ(rows(dim, 16), 16);
    }
    EXPECT_EQ(rows(256, 17), 32);
    EXPECT_EQ(rows(256, 64), 64);
    EXPECT_EQ(rows(256, 65), 128);
    EXPECT_EQ(rows(512, 1024), 128);
    EXPECT_EQ(rows(768, 1024), 64);
    EXPECT_EQ(rows(1024, 1024), 64);
    EXPECT_EQ(rows(2048, 1024), 32);
    EXPECT_EQ(rows(4096, 1024), 16);
}

}  // namespace
}  // namespace rowmax::test
