// float8 codes on the GPU, whose unit adds up in fewer bits than float32, and shapes of both kinds of codes that
// kernels find hard; tests/cpu/int8_rows_test.cpp has the rest of int8.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <limits>

#include "cuda/device_memory.hpp"
#include "cuda/expect.hpp"
#include "rowmax/compressed.hpp"

namespace rowmax::test {
namespace {

class Float8OnDevice : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Every, Float8OnDevice, ::testing::ValuesIn(all_layouts),
                         [](const auto& chosen) { return std::string(name_of_layout(chosen.param)); });

TEST_P(Float8OnDevice, SmallNumbersAreExact) {
    unsigned seed = 1;
    for (const std::int64_t dim : {1, 15, 16, 48, 128, 200, 384, 385, 768}) {
        for (const std::int64_t lq : {1, 9, 33, 150}) {
            const Shape shape{GetParam(), DType::f8e4m3, 3, 4, lq, 50, dim, true, false, ++seed, lq == 9};
            SCOPED_TRACE(::testing::PrintToString(shape));
            const Sample sample(shape, small_integers(dim));
            const core::Problem problem = core::make_problem(sample.request);
            const core::reference::Scores truth = core::reference::score(problem.params);
            for (const core::Kernel* row : rows_for(DType::f8e4m3)) {
                SCOPED_TRACE(row->name);
                const Results got = run(*row, problem);
                EXPECT_EQ(got.similarity.values(), truth.similarity);
                EXPECT_EQ(got.index.values(), (std::vector<double>(truth.index.begin(), truth.index.end())));
                expect_same(run(*row, problem, Want::scores).scores, got.scores, "score without index");
            }
        }
    }
}

TEST_P(Float8OnDevice, AnyNumbersAreWithinTheBound) {
    for (const std::int64_t dim : {24, 128, 384, 1024}) {
        const Sample sample({GetParam(), DType::f8e4m3, 3, 4, 20, 50, dim, true, false, 5}, normal());
        const core::Problem problem = core::make_problem(sample.request);
        const core::reference::Scores truth = core::reference::score(problem.params);
        for (const core::Kernel* row : rows_for(DType::f8e4m3)) {
            SCOPED_TRACE(row->name);
            const Results got = run(*row, problem);
            for (std::size_t p = 0; p < truth.scores.size(); ++p) {
                EXPECT_LE(std::fabs(got.scores[p] - truth.scores[p]), float8_bound(*row, dim) * truth.scale[p]);
            }
        }
    }
}

// The rows that automatic dispatch chooses among: those for one architecture.
TEST_P(Float8OnDevice, BothKernelsForHopperGiveTheSameBits) {
    for (const bool per_item : {false, true}) {
        const Sample sample({GetParam(), DType::f8e4m3, 3, 4, 40, 300, 128, true, false, 9, per_item}, normal());
        const core::Problem problem = core::make_problem(sample.request);
        const Results* first = nullptr;
        std::deque<Results> all;
        for (const core::Kernel* row : rows_for(DType::f8e4m3)) {
            if (!row->name.starts_with("cuda.sm90")) continue;
            all.push_back(run(*row, problem));
            if (first == nullptr) first = &all.front();
            SCOPED_TRACE(row->name);
            EXPECT_EQ(all.back().similarity.values(), first->similarity.values());
            expect_same(all.back().index, first->index, "index");
            expect_same(all.back().scores, first->scores, "score");
            expect_same(run(*row, problem, Want::scores).scores, first->scores, "score without index");
        }
    }
}

TEST(Float8, NanOfCodesAndScales) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Array q(DType::f8e4m3, {2, 2}, {1, 1, 1, 0});
    const Array d(DType::f8e4m3, {3, 2}, {1, 1, 2, nan, 3, 3});
    const Array q_scale(DType::f32, {2}, {1, nan});
    const Array d_scale(DType::f32, {}, {2});
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    request.q.scale = q_scale.view();
    request.d.scale = d_scale.view();
    for (const core::Kernel* row : rows_for(DType::f8e4m3)) {
        SCOPED_TRACE(row->name);
        const Results got = run(*row, core::make_problem(request));
        EXPECT_TRUE(std::isnan(got.scores[0]));
        EXPECT_EQ(got.index.values(), (std::vector<double>{1, 0}));
    }
}

class DeviceQuantisers : public ::testing::Test {
  protected:
    ~DeviceQuantisers() override { memory_.give_back(); }

    TensorView on_device(const Array& array) {
        TensorView view = array.view();
        const std::size_t bytes = array.size() * size_of(view.dtype);
        std::byte* to = memory_.take(bytes, reinterpret_cast<std::uintptr_t>(view.data));
        DeviceMemory::to_device(to, view.data, bytes);
        view.data = to;
        return view;
    }
    void fetch(const Array& array, const TensorView& view) {
        DeviceMemory::to_host(array.view().data, static_cast<std::byte*>(view.data),
                              array.size() * size_of(view.dtype));
    }

    /// `quantize(tokens, codes, scale, device)`: both places give the same bits.
    template <class Quantize>
    void expect_the_hosts(const Array& tokens, DType dtype, std::vector<std::int64_t> scale_shape, Quantize quantize) {
        const TensorView view = tokens.view();
        const std::vector<std::int64_t> shape(view.shape.begin(), view.shape.begin() + view.ndim);
        const Array codes(dtype, shape, {1});
        const Array scale(DType::f32, scale_shape, {-1});
        quantize(view, codes.view(), scale.view(), Device{});
        const Array found(dtype, shape, {1});
        const Array found_scale(DType::f32, scale_shape, {-1});
        const TensorView in = on_device(tokens);
        const TensorView to = on_device(found);
        const TensorView scale_to = on_device(found_scale);
        quantize(in, to, scale_to, Device{Device::Kind::cuda, 0});
        fetch(found, to);
        fetch(found_scale, scale_to);
        expect_same(found_scale, scale, "scale");
        expect_same(found, codes, "code");
        EXPECT_TRUE(memory_.guards_hold());
        memory_.give_back();
    }

    DeviceMemory memory_;
};

TEST_F(DeviceQuantisers, GiveTheBitsOfTheHost) {
    std::mt19937 random(3);
    const Values draw = normal();
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        for (const std::int64_t length : {1, 7, 300}) {
            for (const std::int64_t dim : {1, 31, 128, 4095}) {
                if (length * dim > 100000) continue;
                SCOPED_TRACE(fmt::format("{} {} x {}", name_of(dtype), length, dim));
                const Array tokens = Array::generated(dtype, {3, length, dim}, [&] {
                    const auto kind = random() % 97;
                    return kind == 0 ? 0 : kind == 1 ? 1e-6 : draw(random);
                });
                for (const Granularity g : {Granularity::token, Granularity::document}) {
                    std::vector<std::int64_t> shape{3};
                    if (g == Granularity::token) shape.push_back(length);
                    expect_the_hosts(tokens, DType::i8, shape,
                                     [&](const auto& in, const auto& codes, const auto& scale, const auto& on) {
                                         quantize_int8(in, g, codes, scale, 1, on);
                                     });
                }
                for (const bool whole : {false, true}) {
                    const auto shape = whole ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{3, length};
                    expect_the_hosts(tokens, DType::f8e4m3, shape,
                                     [&](const auto& in, const auto& codes, const auto& scale, const auto& on) {
                                         quantize_fp8(in, whole, codes, scale, 1, on);
                                     });
                }
            }
        }
    }
}

TEST_F(DeviceQuantisers, ZerosNanInfinityAndTheSmallestNumbers) {
    const double inf = std::numeric_limits<double>::infinity();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Array tokens(DType::f32, {7, 2}, {0, 0, 1, -2, 3, inf, nan, 1, 1e-45, -3e-45, 1e-40, 2e-40, 3e38, -1});
    expect_the_hosts(tokens, DType::i8, {7}, [](const auto& in, const auto& codes, const auto& scale, const auto& on) {
        quantize_int8(in, Granularity::token, codes, scale, 1, on);
    });
    expect_the_hosts(tokens, DType::f8e4m3, {7},
                     [](const auto& in, const auto& codes, const auto& scale, const auto& on) {
                         quantize_fp8(in, false, codes, scale, 1, on);
                     });
    expect_the_hosts(tokens, DType::f8e4m3, {},
                     [](const auto& in, const auto& codes, const auto& scale, const auto& on) {
                         quantize_fp8(in, true, codes, scale, 1, on);
                     });
}

/// Every row gives the first one's bits, with and without the winning tokens: int8 is exact.
void expect_same_bits(const Shape& shape) {
    expect_same_bits_on_every_row(Sample(shape, any_codes()));
}

TEST(Int8OnDevice, ManyQueryRowsAndLongDocuments) {
    unsigned seed = 100;
    for (const Layout layout : {Layout::cross, Layout::packed, Layout::grouped, Layout::list}) {
        for (const bool per_item : {false, true}) {
            for (const std::int64_t lq : {20, 129, 300, 1030}) {
                expect_same_bits({layout, DType::i8, 2, 3, lq, 700, 128, lq == 20, false, ++seed, per_item});
            }
            expect_same_bits({layout, DType::i8, 1, 2, 40, 5000, 96, false, false, ++seed, per_item});
        }
    }
}

TEST(Int8OnDevice, DocumentsThatTheCopyEngineCannotRead) {
    unsigned seed = 200;
    for (const std::int64_t dim : {17, 130, 250, 383}) {
        for (const std::int64_t lq : {9, 70, 200}) {
            expect_same_bits({Layout::packed, DType::i8, 2, 9, lq, 180, dim, false, false, ++seed, false});
        }
    }
}

/// Similarities and winning tokens of int8 are the oracle's, whatever is rounded on the way.
void expect_the_oracles(const Sample& sample) {
    SCOPED_TRACE(::testing::PrintToString(sample.shape()));
    const core::Problem problem = core::make_problem(sample.request);
    const core::reference::Scores truth = core::reference::score(problem.params);
    for (const core::Kernel* row : rows_for(DType::i8)) {
        SCOPED_TRACE(row->name);
        const Results got = run(*row, problem);
        for (std::size_t i = 0; i < truth.similarity.size(); ++i) {
            const bool both_nan = std::isnan(truth.similarity[i]) && std::isnan(got.similarity[i]);
            EXPECT_TRUE(both_nan || truth.similarity[i] == got.similarity[i]) << i;
            EXPECT_EQ(got.index[i], truth.index[i]) << i;
        }
        EXPECT_TRUE(same_bits(run(*row, problem, Want::scores).scores, got.scores));
    }
}

TEST(Int8OnDevice, ScalesThatAreNoPowersOfTwo) {
    unsigned seed = 300;
    for (const bool per_item : {false, true}) {
        for (const std::int64_t lq : {33, 200}) {
            Sample sample({Layout::cross, DType::i8, 2, 4, lq, 300, 128, false, false, ++seed, per_item}, any_codes());
            std::mt19937 random(seed);
            for (const TensorView& view : {sample.request.q.scale, sample.request.d.scale}) {
                auto* scale = static_cast<float*>(view.data);
                const auto draw = [&] { return std::uniform_real_distribution<float>(-0.01F, 0.05F)(random); };
                std::generate_n(scale, view.numel(), draw);
            }
            expect_the_oracles(sample);
        }
    }
}

// One scale a document may wait for the maximum, but not where it turns the order round or is not a number.
TEST(Int8OnDevice, ScalesOfDocumentsThatAreNoOrdinaryNumbers) {
    const float inf = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const std::int64_t lq : {20, 200}) {
        const Sample sample({Layout::cross, DType::i8, 1, 8, lq, 300, 64, false, false, 7, true}, any_codes());
        const float odd[] = {-1.5F, 0, -0.0F, inf, -inf, nan, 1e-45F, 3e38F};
        std::copy(std::begin(odd), std::end(odd), static_cast<float*>(sample.request.d.scale.data));
        expect_the_oracles(sample);
    }
}

}  // namespace
}  // namespace rowmax::test
