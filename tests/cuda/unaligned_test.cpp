// Documents at addresses and strides that the copy engine cannot read: every row gives the bits that it gives for the
// same documents where they are easy to read.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/expect.hpp"

namespace rowmax::test {
namespace {

constexpr DType types[] = {DType::f16, DType::bf16, DType::f32, DType::i8, DType::f8e4m3};

bool are_codes(DType dtype) {
    return dtype == DType::i8 || dtype == DType::f8e4m3;
}

Values values_of(DType dtype) {
    return dtype == DType::i8 ? any_codes() : normal();
}

/// Those that take a request: of float32's, the ones for its precision.
std::vector<const core::Kernel*> rows_taking(const ScoreRequest& request) {
    if (request.options.precision == Precision::highest) return rows_for(request.d.tokens.dtype);
    std::vector<const core::Kernel*> rows;
    for (const core::Kernel& row : core::cuda_kernels()) {
        if (row.missing_features().empty() && row.name.ends_with(".tf32")) rows.push_back(&row);
    }
    return rows;
}

/// Where documents are put: elements from one token to the next, and from an address of 256 bytes to the first.
struct Place {
    std::int64_t pitch = 0;
    std::int64_t shift = 0;
};

/// A request like the sample's whose documents lie elsewhere, NaN between them and around.
class Moved {
  public:
    Moved(const Sample& sample, const Place& place) : request(sample.request) {
        const TensorView& from = sample.request.d.tokens;
        const std::size_t size = size_of(from.dtype);
        const std::int64_t dim = from.shape[from.ndim - 1];
        const std::int64_t tokens = dim == 0 ? 0 : from.numel() / dim;
        bytes_.assign(static_cast<std::size_t>(tokens * place.pitch + place.shift + 16) * size + 256, std::byte{0xff});
        const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
        std::byte* to = bytes_.data() + (256 - address % 256) % 256 + static_cast<std::size_t>(place.shift) * size;
        const auto row = static_cast<std::size_t>(dim) * size;
        for (std::int64_t t = 0; t < tokens; ++t) {
            std::memcpy(to + static_cast<std::size_t>(t * place.pitch) * size,
                        static_cast<const std::byte*>(from.data) + static_cast<std::size_t>(t) * row, row);
        }
        TensorView& view = request.d.tokens;
        view.data = to;
        std::int64_t stride = place.pitch;
        for (int i = view.ndim - 2; i >= 0; --i) {
            view.stride[i] = stride;
            stride *= view.shape[i];
        }
    }
    ScoreRequest request;

  private:
    std::vector<std::byte> bytes_;
};

void expect_same(const ScoreRequest& easy, const ScoreRequest& hard) {
    const core::Problem tidy = core::make_problem(easy);
    const core::Problem problem = core::make_problem(hard);
    for (const core::Kernel* row : rows_taking(hard)) {
        SCOPED_TRACE(row->name);
        const Results want = run(*row, tidy);
        const Results got = run(*row, problem);
        EXPECT_TRUE(same_bits(got.scores, want.scores));
        EXPECT_TRUE(same_bits(got.similarity, want.similarity));
        EXPECT_TRUE(same_bits(got.index, want.index));
        EXPECT_TRUE(same_bits(run(*row, problem, Want::scores).scores, want.scores));
    }
}

std::int64_t up_to_16_bytes(std::int64_t dim, DType dtype) {
    const auto elements = static_cast<std::int64_t>(16 / size_of(dtype));
    return (dim + elements - 1) / elements * elements;
}

class Unaligned : public ::testing::TestWithParam<std::tuple<Layout, DType>> {};

TEST_P(Unaligned, SameBitsAsAligned) {
    const auto [layout, dtype] = GetParam();
    std::mt19937 random(11);
    constexpr std::int64_t lqs[] = {1, 20, 33, 64, 100, 128, 200, 300};
    constexpr std::int64_t lds[] = {1, 2, 31, 64, 65, 127, 128, 150, 300, 513, 1500};
    constexpr std::int64_t dims[] = {1, 7, 32, 33, 63, 64, 65, 66, 68, 72, 127, 128, 129, 130, 192, 193, 194, 256, 321};
    for (unsigned i = 0; i < 40; ++i) {
        const auto one_of = [&](const auto& list) { return list[random() % std::size(list)]; };
        const std::int64_t dim = one_of(dims);
        const bool masked = random() % 2 == 0;
        const bool normalize = random() % 3 == 0 && !are_codes(dtype);
        const Shape shape{layout, dtype, 2, 5, one_of(lqs), one_of(lds), dim, masked, normalize, i};
        SCOPED_TRACE(::testing::PrintToString(shape));
        Sample sample(shape, values_of(dtype));
        const bool high = dtype == DType::f32 && random() % 2 == 0;
        if (high) sample.request.options.precision = Precision::high;
        const Moved easy(sample, {up_to_16_bytes(dim, dtype), 0});
        const Place place{dim + static_cast<std::int64_t>(random() % 6), static_cast<std::int64_t>(random() % 16)};
        SCOPED_TRACE(::testing::Message() << place.pitch << " elements apart from " << place.shift << " on" << high);
        expect_same(easy.request, Moved(sample, place).request);
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Unaligned,
                         ::testing::Combine(::testing::ValuesIn(all_layouts), ::testing::ValuesIn(types)),
                         [](const auto& chosen) {
                             return std::string(name_of_layout(std::get<0>(chosen.param))) + "_" +
                                    std::string(name_of(std::get<1>(chosen.param)));
                         });

class UnalignedShapes : public ::testing::TestWithParam<DType> {};

TEST_P(UnalignedShapes, ManyTilesForEachRing) {
    const DType dtype = GetParam();
    for (const std::int64_t lq : {32, 300}) {
        for (const std::int64_t dim : {64, 193, 1030}) {
            const std::int64_t documents = dim > 1000 ? 100 : 450;
            for (const Layout layout : {Layout::cross, Layout::packed}) {
                const Sample sample({layout, dtype, 1, documents, lq, 260, dim, false, false, 3}, values_of(dtype));
                const Moved easy(sample, {up_to_16_bytes(dim, dtype), 0});
                for (const Place& place : {Place{dim, 1}, Place{dim + 1, 4}}) {
                    SCOPED_TRACE(::testing::PrintToString(sample.shape()));
                    SCOPED_TRACE(::testing::Message() << place.pitch << ", " << place.shift);
                    expect_same(easy.request, Moved(sample, place).request);
                }
            }
        }
    }
}

// Tokens that overlap, are one and the same, or descend, against copies of them.
TEST_P(UnalignedShapes, OverlappingRepeatedAndDescendingTokens) {
    const DType dtype = GetParam();
    const Sample sample({Layout::cross, dtype, 2, 4, 40, 150, 64, false, false, 5}, values_of(dtype));
    const Array storage = Array::generated(
        dtype, {20000}, [random = std::mt19937(3), draw = values_of(dtype)]() mutable { return draw(random); });
    const std::size_t size = size_of(dtype);
    for (const std::int64_t document_step : {600, -600, 0}) {
        for (const std::int64_t token_step : {8, 3, 0, -8, -3}) {
            SCOPED_TRACE(::testing::Message() << document_step << ", " << token_step);
            ScoreRequest hard = sample.request;
            hard.d.tokens.data = static_cast<std::byte*>(storage.view().data) + 8000 * size;
            hard.d.tokens.stride = {document_step, token_step, 1, 0};
            ScoreRequest easy = sample.request;
            Array copy(dtype, {4, 150, 64});
            for (std::int64_t j = 0; j < 4; ++j) {
                for (std::int64_t t = 0; t < 150; ++t) {
                    for (std::int64_t k = 0; k < 64; ++k) {
                        const std::int64_t at = 8000 + j * document_step + t * token_step + k;
                        copy.set(static_cast<std::size_t>((j * 150 + t) * 64 + k),
                                 storage[static_cast<std::size_t>(at)]);
                    }
                }
            }
            easy.d.tokens = copy.view();
            expect_same(easy, hard);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, UnalignedShapes, ::testing::ValuesIn(types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

}  // namespace
}  // namespace rowmax::test
