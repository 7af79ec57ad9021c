// The public operators: problem -> registry -> kernel.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/problem.hpp"
#include "core/registry.hpp"
#include "core/topk.hpp"
#include "core/version.hpp"

namespace rowmax {

namespace {

using core::Problem;

// Enough documents a chunk to feed every core, few enough scores to stay in cache.
std::int64_t default_chunk(std::int64_t queries) {
    constexpr std::int64_t scores_held = std::int64_t{1} << 20;
    return std::max<std::int64_t>(scores_held / std::max<std::int64_t>(queries, 1), 256);
}

template <class Score>
void push_chunk(core::TopK& best, const std::vector<Score>& scores, std::int64_t first, std::int64_t documents) {
    for (std::int64_t i = 0; i < best.queries(); ++i) {
        for (std::int64_t j = 0; j < documents; ++j) {
            best.push(i, static_cast<double>(scores[static_cast<std::size_t>(i * documents + j)]), first + j);
        }
    }
}

template <class Score>
void search_chunks(const Problem& problem, const core::Kernel& row, std::int64_t chunk, core::TopK& best) {
    const std::int64_t total = problem.params.d.count;
    std::vector<Score> scores(static_cast<std::size_t>(problem.params.q.count * std::min(chunk, total)));
    for (std::int64_t first = 0; first < total; first += chunk) {
        core::Params part = problem.params;
        const std::int64_t documents = std::min(chunk, total - first);
        part.d = core::slice(problem.params.d, first, documents);
        part.pairs.width = documents;
        part.pairs.count = problem.params.q.count * documents;
        core::Outputs outputs;
        outputs.scores = scores.data();
        row.score(part, outputs);
        push_chunk(best, scores, first, documents);
    }
}

template <class Score>
void write_hits(const core::TopK& best, Score* scores, std::int64_t* index) {
    for (std::int64_t i = 0; i < best.queries(); ++i) {
        for (const core::Hit& hit : best.ranked(i)) {
            *scores++ = static_cast<Score>(hit.score);
            *index++ = hit.document;
        }
    }
}

template <class Score>
void run_topk(const Problem& problem, const core::Kernel& row, std::int64_t k, std::int64_t chunk,
              const core::TopKOutputs& out) {
    core::TopK best(problem.params.q.count, k);
    search_chunks<Score>(problem, row, chunk, best);
    write_hits(best, static_cast<Score*>(out.scores), out.index);
}

// Scratch memory for a call on a device, where the caller hands it out.
void place_workspace(core::Params& params, const core::Kernel& row, const core::Outputs& outputs,
                     const Device& device) {
    if (row.workspace == nullptr || device.allocate == nullptr) return;
    const std::size_t bytes = row.workspace(params, outputs);
    if (bytes == 0) return;
    params.place.workspace = device.allocate(device.context, bytes);
    if (params.place.workspace != nullptr) return;
    throw Error(ErrorCode::out_of_memory, fmt::format("no {} bytes of scratch memory for {}", bytes, row.name));
}

}  // namespace

ResultShape result_shape(const ScoreRequest& request) {
    return core::make_problem(request).shape;
}

void score(const ScoreRequest& request, const ScoreOutputs& outputs) {
    const core::StandardFloatMode mode;
    Problem problem = core::make_problem(request);
    const core::Outputs raw = core::check_outputs(problem, outputs);
    const core::NamedView written[] = {
        {"out", outputs.scores}, {"index", outputs.index}, {"similarity", outputs.similarity}};
    core::check_disjoint(written, request);
    problem.params.wants_index = raw.index != nullptr;
    if (problem.params.pairs.count == 0) return;
    const core::Kernel& row = core::choose(problem.params, request.options.kernel);
    place_workspace(problem.params, row, raw, request.options.device);
    row.score(problem.params, raw);
}

void score_backward(const ScoreRequest& request, const TensorView& index, const TensorView& grad_scores,
                    const TensorView& grad_q, const TensorView& grad_d) {
    const core::StandardFloatMode mode;
    Problem problem = core::make_problem(request);
    const core::Gradients raw = core::check_gradients(problem, request, index, grad_scores, grad_q, grad_d);
    const core::NamedView written[] = {{"grad_q", grad_q}, {"grad_d", grad_d}};
    const core::NamedView read[] = {{"index", index}, {"grad_scores", grad_scores}};
    core::check_disjoint(written, request);
    core::check_disjoint(written, read);
    problem.params.backward = true;
    core::choose(problem.params, request.options.kernel).backward(problem.params, raw);
}

void topk(const TokenSet& q, const TokenSet& d, std::int64_t k, std::int64_t chunk, const Options& options,
          const TensorView& scores, const TensorView& index) {
    const core::StandardFloatMode mode;
    if (k < 1) throw Error(ErrorCode::invalid_value, fmt::format("k must be at least 1, got {}", k));
    if (chunk < 0) throw Error(ErrorCode::invalid_value, fmt::format("chunk must not be negative, got {}", chunk));
    ScoreRequest request;
    request.q = q;
    request.d = d;
    request.options = options;
    const Problem problem = core::make_problem(request);
    const std::int64_t kept = std::min(k, problem.params.d.count);
    const core::TopKOutputs out = core::check_topk_outputs(problem, kept, scores, index);
    const core::NamedView written[] = {{"scores", scores}, {"index", index}};
    core::check_disjoint(written, request);
    if (kept == 0 || problem.params.q.count == 0) return;
    if (problem.params.place.cuda) throw Error(ErrorCode::not_implemented, "top-k on a CUDA device");
    const core::Kernel& row = core::choose(problem.params, options.kernel);
    const std::int64_t step = chunk > 0 ? chunk : default_chunk(problem.params.q.count);
    const auto run = problem.shape.dtype == DType::f64 ? run_topk<double> : run_topk<float>;
    run(problem, row, kept, step, out);
}

std::string_view version() noexcept {
    return ROWMAX_VERSION;
}

}  // namespace rowmax
