#include "cli/explain/explanation.hpp"

#include <fmt/format.h>

#include <numeric>

#include "core/problem.hpp"

namespace rowmax::cli::explain {

namespace {

// Values of scores' type, as doubles.
class Values {
  public:
    Values(DType dtype, const std::vector<std::int64_t>& shape) : dtype_(dtype), shape_(shape) {
        std::int64_t count = 1;
        for (const std::int64_t n : shape) count *= n;
        bytes_.resize(static_cast<std::size_t>(count) * size_of(dtype));
    }
    [[nodiscard]] TensorView view() { return {bytes_.data(), dtype_, shape_}; }
    [[nodiscard]] std::vector<double> doubles() const {
        if (dtype_ == DType::f64) return convert<double>();
        return convert<float>();
    }

  private:
    template <class T>
    [[nodiscard]] std::vector<double> convert() const {
        const auto* first = reinterpret_cast<const T*>(bytes_.data());
        return {first, first + bytes_.size() / sizeof(T)};
    }
    DType dtype_;
    std::vector<std::int64_t> shape_;
    std::vector<std::byte> bytes_;
};

std::vector<bool> kept_tokens(const core::Segments& side) {
    std::vector<bool> kept;
    if (side.count == 0) return kept;
    const core::Segment segment = side.at(0);
    for (std::int64_t t = 0; t < segment.length; ++t) kept.push_back(side.keeps(segment, t));
    return kept;
}

std::vector<std::string> placeholders(char prefix, std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
    return names;
}

/// The tokens of the only item of a side, each an item of its own.
struct TokenItems {
    std::vector<std::int64_t> starts;
    TokenSet set;

    TokenItems(const core::Segments& side, std::int64_t length, DType dtype, std::int64_t dim) {
        starts.resize(static_cast<std::size_t>(length) + 1);
        std::iota(starts.begin(), starts.end(), 0);
        const std::int64_t shape[] = {length, dim};
        const std::int64_t stride[] = {side.row_stride / static_cast<std::int64_t>(size_of(dtype)), 1};
        const std::byte* data = length > 0 ? side.at(0).data : side.data;
        set.tokens = TensorView(data, dtype, shape, stride);
        set.cu_seqlens = TensorView(starts.data(), DType::i64, {length + 1});
    }
};

std::vector<double> similarity_matrix(const core::Params& params, const Explanation& pair, const Options& options,
                                      const Score& score) {
    const TokenItems query(params.q, pair.query_length(), params.dtype, params.dim);
    const TokenItems document(params.d, pair.document_length(), params.dtype, params.dim);
    ScoreRequest request;
    request.q = query.set;
    request.d = document.set;
    request.options = options;
    const ResultShape shape = result_shape(request);
    Values scores(shape.dtype, shape.scores);
    ScoreOutputs outputs;
    outputs.scores = scores.view();
    score(request, outputs);
    return scores.doubles();
}

}  // namespace

double Explanation::sum() const {
    return std::accumulate(similarity.begin(), similarity.end(), 0.0);
}

std::vector<double> Explanation::answered() const {
    std::vector<double> strength(document_kept.size(), 0.0);
    for (std::size_t s = 0; s < winner.size(); ++s) {
        if (winner[s] >= 0) strength[static_cast<std::size_t>(winner[s])] += similarity[s];
    }
    return strength;
}

Explanation explain_pair(const io::TokenSource& queries, std::int64_t query, const io::TokenSource& documents,
                         std::int64_t document, const Options& options, const Score& score) {
    const io::TokenBlock q = queries.block(query, query + 1);
    const io::TokenBlock d = documents.block(document, document + 1);
    ScoreRequest request;
    request.q = q.set;
    request.d = d.set;
    request.options = options;
    const ResultShape shape = result_shape(request);
    Values scores(shape.dtype, shape.scores);
    Values similarity(shape.dtype, shape.tokens);
    const core::Problem problem = core::make_problem(request);

    Explanation pair;
    pair.winner.resize(static_cast<std::size_t>(problem.params.q.max_length));
    ScoreOutputs outputs{scores.view(), TensorView(pair.winner.data(), DType::i32, shape.tokens), similarity.view()};
    score(request, outputs);

    pair.query_id = queries.id(query);
    pair.document_id = documents.id(document);
    pair.query_kept = kept_tokens(problem.params.q);
    pair.document_kept = kept_tokens(problem.params.d);
    pair.query_tokens = placeholders('q', pair.query_kept.size());
    pair.document_tokens = placeholders('d', pair.document_kept.size());
    pair.score = scores.doubles().front();
    pair.similarity = similarity.doubles();
    pair.matrix = similarity_matrix(problem.params, pair, options, score);
    return pair;
}

}  // namespace rowmax::cli::explain
