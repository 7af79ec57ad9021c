// Memory that is not as tidy as an array: pages that must not be touched, odd addresses, gaps, poison.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/guarded.hpp"
#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

/// Scores of `request` equal, bit for bit, those of the tidy `sample` on every row.
void expect_same(const Sample& sample, const ScoreRequest& request) {
    const core::Problem tidy = core::make_problem(sample.request);
    const core::Problem problem = core::make_problem(request);
    for (const core::Kernel* row : rows_for(sample.shape().dtype)) {
        SCOPED_TRACE(row->name);
        EXPECT_TRUE(same_bits(run(*row, problem).similarity, run(*row, tidy).similarity));
    }
}

TEST(Hostile, NothingIsReadBehindTheLastRow) {
    for (const DType dtype : token_types) {
        for (const std::int64_t dim : {1, 3, 7, 17, 31, 128}) {
            const Sample sample({Layout::cross, dtype, 2, 2, 9, 21, dim, false, dim == 31, 3}, normal());
            SCOPED_TRACE(::testing::PrintToString(sample.shape()));
            ScoreRequest request = sample.request;
            const Guarded q(bytes_of(request.q.tokens));
            const Guarded d(bytes_of(request.d.tokens));
            request.q.tokens = copy_to(q.data(), request.q.tokens);
            request.d.tokens = copy_to(d.data(), request.d.tokens);
            expect_same(sample, request);
        }
    }
}

TEST(Hostile, OddAddresses) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
        const Sample sample({Layout::cross, dtype, 2, 3, 5, 19, 37, false, false, 3}, normal());
        ScoreRequest request = sample.request;
        std::vector<std::byte> q(bytes_of(request.q.tokens) + 64);
        std::vector<std::byte> d(bytes_of(request.d.tokens) + 64);
        for (const std::ptrdiff_t shift : {1, 2, 3, 7}) {
            request.q.tokens = copy_to(q.data() + shift, sample.request.q.tokens);
            request.d.tokens = copy_to(d.data() + 8 - shift, sample.request.d.tokens);
            expect_same(sample, request);
        }
    }
}

// Rows with gaps between them, documents in reverse order, everything else poisoned.
TEST(Hostile, StridedViews) {
    for (const DType dtype : token_types) {
        const Sample sample({Layout::cross, dtype, 2, 3, 5, 19, 24, false, false, 3}, normal());
        const TensorView from = sample.request.d.tokens;
        constexpr std::int64_t wide = 41;
        const Array storage(dtype, {3, 2 * 19, wide}, {std::numeric_limits<double>::quiet_NaN()});
        TensorView view = storage.view();
        const std::size_t row = 24 * size_of(dtype);
        for (std::size_t j = 0; j < 3; ++j) {
            for (std::size_t t = 0; t < 19; ++t) {
                std::memcpy(static_cast<std::byte*>(view.data) + ((2 - j) * 38 + 2 * t) * wide * size_of(dtype),
                            static_cast<std::byte*>(from.data) + (j * 19 + t) * row, row);
            }
        }
        view.data = static_cast<std::byte*>(view.data) + 2 * 38 * wide * size_of(dtype);
        view.shape = {3, 19, 24, 0};
        view.stride = {-38 * wide, 2 * wide, 1, 0};
        ScoreRequest request = sample.request;
        request.d.tokens = view;
        expect_same(sample, request);
    }
}

TEST(Hostile, ABroadcastBatch) {
    const Sample sample({Layout::cross, DType::f32, 2, 1, 5, 19, 24, false, false, 3}, normal());
    ScoreRequest request = sample.request;
    request.d.tokens.shape[0] = 4;
    request.d.tokens.stride[0] = 0;
    for (const core::Kernel* row : rows_for(DType::f32)) {
        const Results one = run(*row, core::make_problem(sample.request));
        const Results four = run(*row, core::make_problem(request));
        for (std::size_t p = 0; p < 8; ++p) EXPECT_EQ(four.scores[p], one.scores[p / 4]);
    }
}

TEST(Hostile, HiddenTokensMayHoldAnything) {
    for (const DType dtype : token_types) {
        for (const bool normalize : {false, true}) {
            const Sample sample({Layout::cross, dtype, 3, 4, 12, 40, 24, true, normalize, 3}, normal());
            SCOPED_TRACE(::testing::PrintToString(sample.shape()));
            ScoreRequest request = sample.request;
            std::vector<std::byte> q(bytes_of(request.q.tokens));
            std::vector<std::byte> d(bytes_of(request.d.tokens));
            request.q.tokens = copy_to(q.data(), request.q.tokens);
            request.d.tokens = copy_to(d.data(), request.d.tokens);
            const core::Params params = core::make_problem(request).params;
            for (const core::Segments* side : {&params.q, &params.d}) {
                for (std::int64_t i = 0; i < side->count; ++i) {
                    const core::Segment item = side->at(i);
                    for (std::int64_t t = 0; t < item.length; ++t) {
                        if (side->keeps(item, t)) continue;
                        std::memset(const_cast<std::byte*>(item.data) + t * side->row_stride, 0xff,
                                    static_cast<std::size_t>(24) * size_of(dtype));
                    }
                }
            }
            expect_same(sample, request);
        }
    }
}

// Offsets that lie are clamped to the storage when nobody validates them.
TEST(Hostile, OffsetsThatLie) {
    const Guarded storage(10 * 8 * sizeof(float));
    std::memset(storage.data(), 0, 10 * 8 * sizeof(float));
    const Array q(DType::f32, {2, 8}, {1});
    const Array cu_q(DType::i32, {3}, {0, 1, 2});
    const Array cu_d(DType::i64, {5}, {-7, 4, 2, 100, 9e15});
    ScoreRequest request;
    request.options.validate = false;
    request.q = {q.view(), {}, cu_q.view(), {}, {}, -1};
    request.d = {TensorView(storage.data(), DType::f32, {10, 8}), {}, cu_d.view(), {}, {}, -1};
    const core::Problem problem = core::make_problem(request);
    for (const core::Kernel* row : rows_for(DType::f32)) {
        const Results results = run(*row, problem);
        for (std::size_t p = 0; p < 8; ++p) EXPECT_EQ(results.scores[p], 0);
    }
}

}  // namespace
}  // namespace rowmax::test
