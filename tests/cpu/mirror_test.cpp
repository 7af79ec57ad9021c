// Copies of problems need nothing of the host's arrays, whatever their tokens are compressed with: devices have only
// copies.
#include "core/mirror.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

/// Copies as far from a multiple of 256 as the originals, and whether an address lies in one.
class Copies {
  public:
    const std::byte* put(const std::byte* first, std::size_t bytes) {
        constexpr std::size_t step = 256;
        std::vector<std::byte>& block = blocks_.emplace_back(bytes + 2 * step);
        const auto begin = reinterpret_cast<std::uintptr_t>(block.data());
        const std::uintptr_t wanted = reinterpret_cast<std::uintptr_t>(first) % step;
        std::byte* to = block.data() + (wanted + step - begin % step) % step;
        if (bytes > 0) std::memcpy(to, first, bytes);
        return to;
    }
    [[nodiscard]] bool hold(const void* address) const {
        for (const std::vector<std::byte>& block : blocks_) {
            if (address >= block.data() && address < block.data() + block.size()) return true;
        }
        return address == nullptr;
    }

  private:
    std::deque<std::vector<std::byte>> blocks_;
};

struct Form {
    DType dtype;
    bool residual;
    bool scale_per_item;
    std::int64_t hidden = 0;
};

void expect_same_scores(const Shape& shape) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    auto sample = std::make_unique<Sample>(shape, small_integers(shape.dim));
    std::optional<core::Problem> problem = core::make_problem(sample->request);
    const core::reference::Scores truth = core::reference::score(problem->params);
    Copies copies;
    core::Compressed compressed;
    const core::Params params = core::mirror(
        problem->params, compressed, [&](const std::byte* first, std::size_t n) { return copies.put(first, n); });
    problem.reset();
    sample.reset();
    ASSERT_EQ(params.compressed, &compressed);
    EXPECT_TRUE(copies.hold(compressed.q.data));
    EXPECT_TRUE(copies.hold(compressed.d.data));
    EXPECT_TRUE(copies.hold(compressed.residual.codes));
    EXPECT_TRUE(copies.hold(compressed.residual.centroids));
    EXPECT_TRUE(copies.hold(compressed.residual.weight_data));
    EXPECT_TRUE(copies.hold(compressed.projection.weight));
    EXPECT_TRUE(copies.hold(compressed.projection.bias));
    EXPECT_EQ(core::reference::score(params).scores, truth.scores);
}

TEST(Mirror, CopiesOfCompressedTokensNeedNothingOfTheHost) {
    const Form forms[] = {{DType::i8, false, false}, {DType::i8, false, true}, {DType::f8e4m3, false, false},
                          {DType::u8, false, false}, {DType::u8, true, false}, {DType::f32, false, false, 24}};
    for (const Form& form : forms) {
        for (const Layout layout : all_layouts) {
            for (const std::int64_t ld : {7, 0}) {
                expect_same_scores({.layout = layout,
                                    .dtype = form.dtype,
                                    .queries = 3,
                                    .documents = 4,
                                    .lq = 5,
                                    .ld = ld,
                                    .dim = 16,
                                    .masked = true,
                                    .scale_per_item = form.scale_per_item,
                                    .residual = form.residual,
                                    .hidden = form.hidden});
            }
        }
    }
}

}  // namespace
}  // namespace rowmax::test
