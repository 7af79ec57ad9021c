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

// The short cuts for plain arrays say what the long way says.
void expect_short_cuts(const core::Params& params, const Plan& plan) {
    for (int r = 0; plan.plain_queries && r < plan.rows; ++r) {
        const cuda::Row row = cuda::row_of(params, plan, {0, 0, 0}, r);
        const cuda::Row plain = cuda::plain_row(params, r);
        ASSERT_EQ(plain.in_query, row.in_query) << r;
        ASSERT_EQ(plain.kept, row.kept) << r;
        if (!row.in_query) continue;
        ASSERT_EQ(plain.query, row.query);
        ASSERT_EQ(plain.position, row.position);
        ASSERT_EQ(plain.segment.data, row.segment.data);
        ASSERT_EQ(plain.segment.length, row.segment.length);
        ASSERT_EQ(plain.segment.mask_offset, row.segment.mask_offset);
    }
    for (std::int64_t u = 0; plan.plain_documents && u < plan.units(); ++u) {
        const Unit unit = cuda::unit_at(plan, u);
        ASSERT_EQ(unit.block, 0);
        ASSERT_EQ(unit.part, 0);
        ASSERT_EQ(cuda::document_of(params, plan, unit), u);
        const core::Segment document = params.d.at(u);
        ASSERT_EQ(document.length, params.d.length);
        ASSERT_EQ(document.data, params.d.data + u * params.d.stride_outer);
        ASSERT_EQ(document.mask_offset, u * params.d.mask.stride_outer);
    }
}

TEST(Plan, ShortCutsOfPlainArrays) {
    int queries = 0;
    int documents = 0;
    for (const Layout layout : all_layouts) {
        for (const std::int64_t nq : {1, 5}) {
            for (const bool masked : {false, true}) {
                const Shape shape{layout, DType::f16, nq, 6, 20, 40, 8, masked, false, 3};
                const Sample sample(shape, normal());
                const core::Problem problem = core::make_problem(sample.request);
                const Plan plan = cuda::make_plan(problem.params, 32, 132);
                expect_short_cuts(problem.params, plan);
                queries += plan.plain_queries ? 1 : 0;
                documents += plan.plain_documents ? 1 : 0;
            }
        }
    }
    EXPECT_GE(queries, 2);
    EXPECT_GE(documents, 2);
}

TEST(Plan, SharesAreAllUnitsInOrder) {
    Plan plan;
    for (const int width : {1, 7, 131, 132, 133, 100000, 2000000000}) {
        plan.blocks = 1;
        plan.width = width;
        for (const std::int64_t grid : {1, 2, 131, 132}) {
            if (grid > width) continue;
            cuda::share_out(plan, grid);
            EXPECT_EQ(cuda::share_begin(plan, 0), 0);
            EXPECT_EQ(cuda::share_begin(plan, static_cast<unsigned>(grid)), width);
            for (unsigned b = 0; b < grid; ++b) {
                EXPECT_EQ(cuda::share_begin(plan, b), plan.units() * b / grid);
                EXPECT_LT(cuda::share_begin(plan, b), cuda::share_begin(plan, b + 1));
            }
        }
    }
}

// Packed documents are shared out by their tokens, those of each block of rows behind those of the one before.
TEST(Plan, SharesOfPackedDocumentsAreAllTokens) {
    Plan plan;
    plan.by_tokens = true;
    plan.width = 7;
    for (const int blocks : {1, 3}) {
        for (const std::int64_t tokens : {std::int64_t{7}, std::int64_t{1234567}, std::int64_t{1} << 40}) {
            plan.blocks = blocks;
            plan.tokens = tokens;
            for (const std::int64_t grid : {1, 3, 131, 132}) {
                cuda::share_out(plan, grid);
                for (unsigned b = 0; b <= grid; ++b) {
                    EXPECT_EQ(cuda::share_begin(plan, b), blocks * tokens * b / grid);
                }
            }
        }
    }
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
            expect_partition(problem.params, cuda::make_plan(problem.params, 256, 132, 64));
        }
    }
}

// With a step, blocks are as full as can be: rows of a block, and how many of them.
TEST(Plan, BlocksHaveNoMoreRowsThanTheyNeed) {
    const auto blocks = [](std::int64_t nq, std::int64_t lq) {
        const Sample sample({Layout::cross, DType::f16, nq, 6, lq, 40, 8, false, false, 3}, normal());
        const Plan plan = cuda::make_plan(core::make_problem(sample.request).params, 256, 132, 64);
        return std::pair(plan.rows, plan.blocks);
    };
    EXPECT_EQ(blocks(16, 20), std::pair(192, 2));
    EXPECT_EQ(blocks(16, 32), std::pair(256, 2));
    EXPECT_EQ(blocks(1, 100), std::pair(128, 1));
    EXPECT_EQ(blocks(1, 1), std::pair(128, 1));
    EXPECT_EQ(blocks(1, 256), std::pair(256, 1));
    EXPECT_EQ(blocks(1, 257), std::pair(192, 2));
    EXPECT_EQ(blocks(3, 513), std::pair(192, 9));
    EXPECT_EQ(blocks(1, 1024), std::pair(256, 4));
    EXPECT_EQ(blocks(1, 1032), std::pair(256, 5));
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
            for (const cuda::TokenType type : {cuda::TokenType::bf16, cuda::TokenType::f32, cuda::TokenType::tf32}) {
                const int slots = cuda::ring_slots(type, dim, rows, 20000, 1, hopper);
                const std::int64_t queries = cuda::query_row_bytes(type, dim) * rows;
                EXPECT_GE(slots, queries < 190000 ? cuda::ring_slots_least : 0) << dim << " " << rows;
                EXPECT_LE(slots * cuda::slot_bytes_of(type), hopper - 21024 - (slots > 0 ? queries : 0));
            }
        }
    }
    EXPECT_EQ(cuda::ring_slots(cuda::TokenType::f16, 256, 256, 20000, 1, 100 * 1024), 0);
    // A float32 row in three parts of 2 bytes, whole tiles of 64 dimensions.
    EXPECT_EQ(cuda::query_row_bytes(cuda::TokenType::f32, 128), 128 * 3 * 2);
    EXPECT_EQ(cuda::query_row_bytes(cuda::TokenType::f32, 65), 128 * 3 * 2);
    EXPECT_EQ(cuda::query_row_bytes(cuda::TokenType::tf32, 65), 96 * 4);
    EXPECT_EQ(cuda::slot_bytes_of(cuda::TokenType::f32), 8192);
}

// As many query rows as are wanted, fewer where they would leave no room for documents.
TEST(Tuning, WideTokensTakeFewerRows) {
    const auto rows = [](std::int64_t dim, std::int64_t wanted) {
        constexpr int hopper = 232448;
        const int chosen = cuda::block_rows(cuda::TokenType::f16, dim, wanted, 16, 128, 12000, hopper);
        EXPECT_GE(cuda::ring_slots(cuda::TokenType::f16, dim, chosen, 12000, 1, hopper), 4) << dim << " " << wanted;
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
