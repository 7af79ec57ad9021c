// Requests of the host on a device that is none: what score() gives, of every layout, call after call.
#include "stream/device_scorer.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "cpu/sample.hpp"
#include "stream/fake_device.hpp"

namespace rowmax::stream {
namespace {

using test::Sample;
using Same = DeviceScorer::Same;

std::vector<float> scores_of(const ScoreRequest& request, DeviceScorer* scorer) {
    const ResultShape shape = result_shape(request);
    std::int64_t count = 1;
    for (const std::int64_t n : shape.scores) count *= n;
    std::vector<float> scores(static_cast<std::size_t>(count), -1);
    ScoreOutputs outputs;
    outputs.scores = TensorView(scores.data(), DType::f32, shape.scores);
    if (scorer != nullptr) {
        scorer->score(request, outputs);
    } else {
        score(request, outputs);
    }
    return scores;
}

TEST(DeviceScorer, ScoresEveryLayout) {
    for (const test::Layout layout : test::all_layouts) {
        for (const bool masked : {false, true}) {
            const Sample sample({layout, DType::f16, 3, 6, 19, 30, 24, masked, true, 7}, test::small_integers(24));
            DeviceScorer scorer(test::fake_backend(), 1, Same::queries);
            EXPECT_EQ(scores_of(sample.request, &scorer), scores_of(sample.request, nullptr))
                << text_of(sample.shape());
        }
    }
    EXPECT_EQ(test::fake_use().device, 0U);
}

TEST(DeviceScorer, BringsWinnersAndSimilarities) {
    const Sample sample({test::Layout::cross, DType::f32, 3, 5, 9, 20, 16, true, false, 3}, test::normal());
    const ResultShape shape = result_shape(sample.request);
    const auto results = [&](auto&& score) {
        test::Array scores(shape.dtype, shape.scores);
        test::Array index(DType::i32, shape.tokens);
        test::Array similarity(shape.dtype, shape.tokens);
        score(ScoreOutputs{scores.view(), index.view(), similarity.view()});
        return std::vector{scores.values(), index.values(), similarity.values()};
    };
    const auto here = results([&](const ScoreOutputs& outputs) { score(sample.request, outputs); });
    const auto there = results([&](const ScoreOutputs& outputs) {
        DeviceScorer(test::fake_backend(), 0, Same::queries).score(sample.request, outputs);
    });
    EXPECT_EQ(there, here);
}

// Documents come one block after another, perhaps each in the memory of the one before.
TEST(DeviceScorer, KeepsOnlyWhatIsTheSame) {
    const Sample sample({test::Layout::cross, DType::f32, 3, 6, 5, 7, 8, false, false, 7}, test::small_integers(8));
    const Sample other({test::Layout::cross, DType::f32, 3, 6, 5, 7, 8, false, false, 8}, test::small_integers(8));
    DeviceScorer scorer(test::fake_backend(), 0, Same::queries);
    const std::vector<float> first = scores_of(sample.request, &scorer);
    const std::size_t bytes = 6 * 7 * 8 * sizeof(float);
    std::memcpy(sample.request.d.tokens.data, other.request.d.tokens.data, bytes);
    test::fake_use().copied = 0;
    const std::vector<float> second = scores_of(sample.request, &scorer);
    EXPECT_NE(first, second);
    EXPECT_EQ(second, scores_of(sample.request, nullptr));
    EXPECT_EQ(test::fake_use().copied, bytes + 3 * 6 * sizeof(float));  // documents there, scores back

    DeviceScorer whole(test::fake_backend(), 0, Same::queries_and_documents);
    scores_of(sample.request, &whole);
    test::fake_use().copied = 0;
    EXPECT_EQ(scores_of(sample.request, &whole), second);
    EXPECT_EQ(test::fake_use().copied, 3 * 6 * sizeof(float));
}

TEST(DeviceScorer, SaysWhatItTakes) {
    const DeviceScorer scorer(test::fake_backend(), 0, Same::queries);
    const Sample sample({test::Layout::cross, DType::f32, 3, 6, 5, 7, 8, false, false, 7}, test::small_integers(8));
    const Sample wide({test::Layout::cross, DType::f64, 3, 6, 5, 7, 8, false, false, 7}, test::small_integers(8));
    EXPECT_TRUE(scorer.takes(sample.request));
    EXPECT_FALSE(scorer.takes(wide.request));
}

}  // namespace
}  // namespace rowmax::stream
