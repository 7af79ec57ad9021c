// The bits of a pair's score depend on that pair alone: not on its neighbours, the layout, what else is asked for, or
// the number of threads.
#include <gtest/gtest.h>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

constexpr std::int64_t lq = 37;
constexpr std::int64_t ld = 70;
constexpr std::int64_t dim = 72;

class EveryRow : public ::testing::TestWithParam<DType> {
  protected:
    Shape shape(Layout layout, std::int64_t queries, std::int64_t documents, bool normalize) const {
        return {layout, GetParam(), queries, documents, lq, ld, dim, false, normalize, 77};
    }
};

TensorView item(const TensorView& all, std::int64_t i) {
    auto* data = static_cast<std::byte*>(all.data) + i * all.stride[0] * static_cast<std::int64_t>(size_of(all.dtype));
    return {data, all.dtype, std::span(all.shape.data() + 1, static_cast<std::size_t>(all.ndim - 1))};
}

double score_of(const core::Kernel& row, const ScoreRequest& request) {
    return run(row, core::make_problem(request), Want::scores).scores[0];
}

TEST_P(EveryRow, AloneAsInABatch) {
    for (const bool normalize : {false, true}) {
        const Sample sample(shape(Layout::cross, 3, 5, normalize), normal());
        const core::Problem problem = core::make_problem(sample.request);
        for (const core::Kernel* row : rows_for(GetParam())) {
            SCOPED_TRACE(row->name);
            const Results batch = run(*row, problem, Want::scores);
            for (std::int64_t p = 0; p < 15; ++p) {
                ScoreRequest alone = sample.request;
                alone.q.tokens = item(sample.request.q.tokens, p / 5);
                alone.d.tokens = item(sample.request.d.tokens, p % 5);
                EXPECT_EQ(score_of(*row, alone), batch.scores[static_cast<std::size_t>(p)]);
            }
        }
    }
}

// The same documents as ranges, in reverse and overlapping, and as packed tokens.
TEST_P(EveryRow, LayoutsAgree) {
    const Sample sample(shape(Layout::single, 1, 4, false), normal());
    const Array starts(DType::i64, {4}, {3 * ld, 2 * ld, ld, 0});
    const Array lengths(DType::i32, {4}, {ld});
    const Array cu(DType::i32, {5}, {0, ld, 2 * ld, 3 * ld, 4 * ld});
    ScoreRequest ranges = sample.request;
    ranges.d.tokens = TensorView(sample.request.d.tokens.data, GetParam(), {4 * ld, dim});
    ScoreRequest packed = ranges;
    ranges.d.offsets = starts.view();
    ranges.d.lengths = lengths.view();
    packed.d.cu_seqlens = cu.view();
    for (const core::Kernel* row : rows_for(GetParam())) {
        SCOPED_TRACE(row->name);
        const Results dense = run(*row, core::make_problem(sample.request));
        EXPECT_TRUE(same_bits(run(*row, core::make_problem(packed)).scores, dense.scores));
        const Results reversed = run(*row, core::make_problem(ranges));
        for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(reversed.scores[i], dense.scores[3 - i]);
    }
}

// A padded document with its padding hidden is the document without padding; what the padding holds does not matter.
TEST_P(EveryRow, HiddenPaddingChangesNothing) {
    const Sample sample(shape(Layout::single, 1, 1, false), normal());
    constexpr std::int64_t kept = 41;
    std::vector<double> mask(static_cast<std::size_t>(ld), 0);
    std::fill_n(mask.begin(), kept, 1);
    const Array hidden(DType::u8, {1, ld}, mask);
    ScoreRequest masked = sample.request;
    masked.d.mask = hidden.view();
    ScoreRequest cut = sample.request;
    cut.d.tokens = TensorView(sample.request.d.tokens.data, GetParam(), {1, kept, dim});
    for (const core::Kernel* row : rows_for(GetParam())) {
        SCOPED_TRACE(row->name);
        EXPECT_EQ(score_of(*row, masked), score_of(*row, cut));
    }
}

TEST_P(EveryRow, ThreadsAndWishesChangeNothing) {
    for (const Layout layout : all_layouts) {
        SCOPED_TRACE(name_of_layout(layout));
        const Sample sample({layout, GetParam(), 3, 40, 33, 90, 128, true, true, 9}, normal());
        const core::Problem problem = core::make_problem(sample.request);
        for (const core::Kernel* row : rows_for(GetParam())) {
            if (row->name.find("scalar") != std::string_view::npos) continue;  // the same driver, slowly
            SCOPED_TRACE(row->name);
            const Results one = run(*row, problem);
            for (const int threads : {2, 3, 4}) {
                const Results many = run(*row, problem, Want::all, threads);
                EXPECT_TRUE(same_bits(many.scores, one.scores) && same_bits(many.index, one.index));
            }
            EXPECT_TRUE(same_bits(run(*row, problem, Want::scores, 2).scores, one.scores));
            EXPECT_TRUE(same_bits(run(*row, problem, Want::index, 1).index, one.index));
        }
    }
}

// One document is cut between threads.
TEST_P(EveryRow, CutDocuments) {
    const Sample sample({Layout::single, GetParam(), 1, 1, 33, 20011, 64, true, false, 3}, normal());
    const core::Problem problem = core::make_problem(sample.request);
    const core::Kernel& row = *rows_for(GetParam()).front();
    const Results one = run(row, problem);
    for (const int threads : {2, 4, 7}) {
        const Results many = run(row, problem, Want::all, threads);
        EXPECT_TRUE(same_bits(many.scores, one.scores) && same_bits(many.index, one.index));
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, EveryRow, ::testing::ValuesIn(token_types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

}  // namespace
}  // namespace rowmax::test
