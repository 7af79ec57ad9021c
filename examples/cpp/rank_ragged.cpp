// Ranks documents of different lengths for one query, and says which of their tokens answered.
//
// The documents lie packed one behind the other, without padding: tokens [T, d] and the offsets cu_seqlens [N + 1].
#include <array>
#include <cstdint>
#include <cstdio>
#include <random>
#include <rowmax/maxsim.hpp>
#include <vector>

namespace {

constexpr std::int64_t dim = 128;

// Token embeddings come from a model; random ones do for an example.
std::vector<float> random_tokens(std::int64_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> tokens(static_cast<std::size_t>(count * dim));
    for (float& value : tokens) value = normal(generator);
    return tokens;
}

void rank(rowmax::ScoreRequest request, std::int64_t documents) {
    using rowmax::DType;
    // Every score, and for each query token the document token that answered it.
    std::vector<float> scores(static_cast<std::size_t>(documents));
    std::vector<std::array<std::int32_t, 4>> winners(scores.size());
    rowmax::score(request,
                  {{scores.data(), DType::f32, {documents}}, {winners.data(), DType::i32, {documents, 4}}, {}});
    for (std::size_t i = 0; i < scores.size(); ++i) {
        std::printf("document %d: %.3f, answered by tokens %d %d %d %d\n", static_cast<int>(i),
                    static_cast<double>(scores[i]), winners[i][0], winners[i][1], winners[i][2], winners[i][3]);
    }

    // Or only the best, without an array of all scores.
    float score = 0;
    std::int64_t best = -1;
    rowmax::topk(request.q, request.d, 1, 0, request.options, {&score, DType::f32, {1, 1}},
                 {&best, DType::i64, {1, 1}});
    std::printf("best: document %d\n", static_cast<int>(best));
}

}  // namespace

int main() {
    using rowmax::DType;
    const std::vector<std::int64_t> cu_seqlens{0, 40, 41, 160, 160, 420};  // five documents, one of them empty
    const auto documents = static_cast<std::int64_t>(cu_seqlens.size()) - 1;
    const std::vector<float> tokens = random_tokens(cu_seqlens.back(), 1);
    const std::vector<float> query(tokens.begin() + 50 * dim, tokens.begin() + 54 * dim);  // four tokens of document 2

    rowmax::ScoreRequest request;
    request.q.tokens = {query.data(), DType::f32, {4, dim}};
    request.d.tokens = {tokens.data(), DType::f32, {cu_seqlens.back(), dim}};
    request.d.cu_seqlens = {cu_seqlens.data(), DType::i64, {documents + 1}};
    request.options.normalize = true;  // cosines: every token counts the same
    try {
        rank(request, documents);
    } catch (const rowmax::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
