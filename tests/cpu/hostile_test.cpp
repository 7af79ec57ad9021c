// No row reads a byte that is not a kept token of the problem: tokens end at a page that cannot be read, padding
// between tokens is poisoned, and offsets lie.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

/// Memory whose last byte is followed by an unreadable page.
class GuardedBytes {
  public:
    explicit GuardedBytes(std::size_t size) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        mapped_ = (size + page - 1) / page * page + page;
        base_ =
            static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(base_ + mapped_ - page, page, PROT_NONE);
        data_ = base_ + mapped_ - page - size;
    }
    ~GuardedBytes() { munmap(base_, mapped_); }
    GuardedBytes(const GuardedBytes&) = delete;
    GuardedBytes& operator=(const GuardedBytes&) = delete;
    [[nodiscard]] std::byte* data() const { return data_; }

  private:
    std::byte* base_;
    std::byte* data_;
    std::size_t mapped_;
};

TensorView guarded_copy(const TensorView& view, const GuardedBytes& to) {
    std::memcpy(to.data(), view.data, static_cast<std::size_t>(view.numel()) * size_of(view.dtype));
    return {to.data(), view.dtype, std::span(view.shape.data(), static_cast<std::size_t>(view.ndim))};
}

class Hostile : public ::testing::TestWithParam<DType> {};

TEST_P(Hostile, NothingIsReadBehindTheLastToken) {
    for (const std::int64_t dim : {1, 3, 16, 33, 128, 517}) {
        for (const std::int64_t ld : {1, 5, 12, 61}) {
            const Sample sample({Layout::cross, GetParam(), 2, 3, 19, ld, dim, false, true, 4}, normal());
            const auto bytes = [&](const TensorView& v) {
                return static_cast<std::size_t>(v.numel()) * size_of(v.dtype);
            };
            const GuardedBytes q(bytes(sample.request.q.tokens));
            const GuardedBytes d(bytes(sample.request.d.tokens));
            ScoreRequest guarded = sample.request;
            guarded.q.tokens = guarded_copy(sample.request.q.tokens, q);
            guarded.d.tokens = guarded_copy(sample.request.d.tokens, d);
            for (const core::Kernel* row : rows_for(GetParam())) {
                EXPECT_TRUE(same_bits(run(*row, core::make_problem(guarded)).scores,
                                      run(*row, core::make_problem(sample.request)).scores))
                    << row->name;
            }
        }
    }
}

// Rows inside wider rows, tokens of which every second is skipped, columns from an odd offset: all read in place or
// copied, with NaN wherever no token is.
TEST_P(Hostile, StridedViewsAmongPoison) {
    constexpr std::int64_t wide = 29;
    constexpr std::int64_t dim = 21;
    const Sample plain({Layout::cross, GetParam(), 2, 3, 7, 11, dim, false, false, 8}, small_integers(dim));
    const auto spread = [&](const TensorView& v) {
        return Array(GetParam(), {v.shape[0], 2 * v.shape[1], wide}, {std::numeric_limits<double>::quiet_NaN()});
    };
    const auto within = [&](const TensorView& v, const Array& poison) {
        TensorView view = poison.view();
        const auto size = static_cast<std::int64_t>(size_of(view.dtype));
        view.data = static_cast<std::byte*>(view.data) + 5 * size;
        view.shape = v.shape;
        view.stride[1] *= 2;
        for (std::int64_t row = 0; row < v.shape[0] * v.shape[1]; ++row) {
            std::memcpy(static_cast<std::byte*>(view.data) + row * 2 * wide * size,
                        static_cast<const std::byte*>(v.data) + row * dim * size, static_cast<std::size_t>(dim * size));
        }
        return view;
    };
    const Array q = spread(plain.request.q.tokens);
    const Array d = spread(plain.request.d.tokens);
    ScoreRequest strided = plain.request;
    strided.q.tokens = within(plain.request.q.tokens, q);
    strided.d.tokens = within(plain.request.d.tokens, d);
    for (const core::Kernel* row : rows_for(GetParam())) {
        const Results expected = run(*row, core::make_problem(plain.request));
        const Results got = run(*row, core::make_problem(strided));
        EXPECT_TRUE(same_bits(got.scores, expected.scores) && same_bits(got.index, expected.index)) << row->name;
    }
}

// A batch of stride 0 is one item many times; a negative stride is the items in reverse.
TEST_P(Hostile, BroadcastAndReversedItems) {
    const Sample sample({Layout::single, GetParam(), 1, 4, 7, 11, 24, false, false, 8}, normal());
    ScoreRequest same = sample.request;
    same.d.tokens.stride[0] = 0;
    ScoreRequest reversed = sample.request;
    reversed.d.tokens.data = static_cast<std::byte*>(reversed.d.tokens.data) +
                             3 * reversed.d.tokens.stride[0] * static_cast<std::int64_t>(size_of(GetParam()));
    reversed.d.tokens.stride[0] *= -1;
    for (const core::Kernel* row : rows_for(GetParam())) {
        const Results forward = run(*row, core::make_problem(sample.request), Want::scores);
        const Results back = run(*row, core::make_problem(reversed), Want::scores);
        const Results first = run(*row, core::make_problem(same), Want::scores);
        for (std::size_t i = 0; i < 4; ++i) {
            EXPECT_EQ(back.scores[i], forward.scores[3 - i]);
            EXPECT_EQ(first.scores[i], forward.scores[0]);
        }
    }
}

TEST_P(Hostile, LyingOffsetsStayInside) {
    const Sample sample({Layout::packed, GetParam(), 1, 3, 5, 9, 16, false, false, 2}, normal());
    const TensorView& tokens = sample.request.d.tokens;
    const GuardedBytes bytes(static_cast<std::size_t>(tokens.numel()) * size_of(tokens.dtype));
    ScoreRequest lying = sample.request;
    lying.options.validate = false;
    lying.d.tokens = guarded_copy(tokens, bytes);
    const Array offsets(DType::i64, {5}, {0, 1e15, 3, -7, 2147483648.0});
    lying.d.cu_seqlens = offsets.view();
    for (const core::Kernel* row : rows_for(GetParam())) run(*row, core::make_problem(lying));
    lying.options.validate = true;
    EXPECT_THROW(core::make_problem(lying), Error);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Hostile, ::testing::ValuesIn(token_types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

}  // namespace
}  // namespace rowmax::test
