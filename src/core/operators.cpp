// The public operators: problem -> registry -> kernel.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/device_topk.hpp"
#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/problem.hpp"
#include "core/projection.hpp"
#include "core/registry.hpp"
#include "core/scratch.hpp"
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

/// The problem of documents first .. first + count - 1; `compressed` is where its scales and codes go.
core::Params chunk_of(const core::Params& params, std::int64_t first, std::int64_t count,
                      core::Compressed& compressed) {
    core::Params part = params;
    if (params.compressed != nullptr) {
        compressed = core::slice(params.d, *params.compressed, first);
        part.compressed = &compressed;
    }
    part.d = core::slice(params.d, first, count);
    part.pairs.width = count;
    part.pairs.count = params.q.count * count;
    return part;
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
        const std::int64_t documents = std::min(chunk, total - first);
        core::Outputs outputs;
        core::Compressed compressed;
        outputs.scores = scores.data();
        row.score(chunk_of(problem.params, first, documents, compressed), outputs);
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

/// Scratch memory of a top-k on a device: lists, the scores of a chunk, and what the row needs besides.
class DeviceScratch {
  public:
    DeviceScratch(const core::DeviceTopK& device, const core::Place& place, const Device& caller, std::size_t bytes)
        : device_(device), place_(place) {
        memory_ = caller.allocate != nullptr ? caller.allocate(caller.context, bytes) : device.take(place, bytes);
        if (memory_ == nullptr) {
            throw Error(ErrorCode::out_of_memory, fmt::format("no {} bytes of scratch memory for top-k", bytes));
        }
        owned_ = caller.allocate == nullptr;
    }
    ~DeviceScratch() {
        if (owned_) device_.give_back(place_, memory_);
    }
    DeviceScratch(const DeviceScratch&) = delete;
    DeviceScratch& operator=(const DeviceScratch&) = delete;
    [[nodiscard]] std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(memory_) + offset; }

  private:
    const core::DeviceTopK& device_;
    core::Place place_;
    void* memory_ = nullptr;
    bool owned_ = false;
};

constexpr std::size_t aligned(std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    return (bytes + alignment - 1) / alignment * alignment;
}

// 64 MiB of scores at most, unless there are very many queries: a chunk must also fill the device.
std::int64_t default_device_chunk(std::int64_t queries) {
    constexpr std::int64_t scores_held = std::int64_t{1} << 24;
    return std::max<std::int64_t>(scores_held / queries, 4096);
}

void run_device_topk(const Problem& problem, const core::Kernel& row, const Options& options, std::int64_t k,
                     std::int64_t chunk, const core::TopKOutputs& out) {
    const core::DeviceTopK* device = core::device_topk();
    const core::Params& params = problem.params;
    const std::int64_t total = params.d.count;
    if (device == nullptr) throw Error(ErrorCode::internal, "a build without CUDA was given a CUDA problem");
    if (total > core::most_device_documents) {
        throw Error(ErrorCode::not_implemented, fmt::format("top-k of {} documents in one call on a device", total));
    }
    const std::int64_t step = std::min(chunk > 0 ? chunk : default_device_chunk(params.q.count), total);
    core::Outputs outputs;
    const std::size_t scores_at = aligned(device->lists_bytes(params.q.count, k));
    const std::size_t rest_at = scores_at + aligned(static_cast<std::size_t>(params.q.count * step) * sizeof(float));
    std::size_t rest = 0;
    core::Compressed compressed;
    for (const std::int64_t size : {step, total % step}) {
        if (size > 0 && row.workspace != nullptr) {
            rest = std::max(rest, row.workspace(chunk_of(params, 0, size, compressed), outputs));
        }
    }
    const DeviceScratch scratch(*device, params.place, options.device, rest_at + rest);
    outputs.scores = scratch.at(scores_at);
    core::TopKChunk merged{reinterpret_cast<const float*>(scratch.at(scores_at)), scratch.at(0), params.q.count, k};
    for (; merged.first < total; merged.first += step, ++merged.number) {
        merged.documents = std::min(step, total - merged.first);
        core::Params part = chunk_of(params, merged.first, merged.documents, compressed);
        part.place.workspace = rest > 0 ? scratch.at(rest_at) : nullptr;
        row.score(part, outputs);
        if (merged.first + step >= total) {
            merged.best = static_cast<float*>(out.scores);
            merged.index = out.index;
        }
        device->merge(params.place, merged);
    }
}

}  // namespace

ResultShape result_shape(const ScoreRequest& request) {
    return core::make_problem(request).shape;
}

void score(const ScoreRequest& request, const ScoreOutputs& outputs) {
    Problem problem = core::make_problem(request);
    core::score(problem, request, outputs);
}

void core::score(Problem& problem, const ScoreRequest& request, const ScoreOutputs& outputs) {
    const core::StandardFloatMode mode;
    const core::Outputs raw = core::check_outputs(problem, outputs);
    const core::NamedView written[] = {
        {"out", outputs.scores}, {"index", outputs.index}, {"similarity", outputs.similarity}};
    core::check_disjoint(written, request);
    problem.params.wants_index = raw.index != nullptr;
    if (problem.params.pairs.count == 0) return;
    const core::Kernel& row = core::choose(problem.params, request.options.kernel);
    core::place_workspace(problem.params.place, request.options.device, row.workspace, row.name, problem.params, raw);
    row.score(problem.params, raw);
}

void core::write_tokens(const ScoreRequest& request, const TensorView& tokens) {
    const Problem problem = core::make_problem(request);
    const TensorView& d = request.d.tokens;
    std::vector<std::int64_t> shape(d.shape.begin(), d.shape.begin() + d.ndim);
    shape.back() = (problem.params.dim + 7) / 8 * 8;
    void* to = core::checked_output(tokens, problem.params.dtype, shape, "tokens");
    const core::Kernel& row = core::choose(problem.params, request.options.kernel);
    if (row.write_tokens == nullptr) {
        throw Error(ErrorCode::not_implemented, fmt::format("{} writes no tokens", row.name));
    }
    row.write_tokens(problem.params, to);
}

void score_backward(const ScoreRequest& request, const TensorView& index, const TensorView& grad_scores,
                    const TensorView& grad_q, const TensorView& grad_d, const TensorView& grad_weight,
                    const TensorView& grad_bias) {
    const core::StandardFloatMode mode;
    Problem problem = core::make_problem(request);
    if (request.d.residual != nullptr && grad_d.given()) {
        throw Error(ErrorCode::not_implemented, "grad_d: residuals have no gradient");
    }
    core::Gradients raw = core::check_gradients(problem, request, index, grad_scores, grad_q, grad_d);
    core::add_projection_gradients(raw, request, grad_weight, grad_bias);
    const core::NamedView written[] = {
        {"grad_q", grad_q}, {"grad_d", grad_d}, {"grad_weight", grad_weight}, {"grad_bias", grad_bias}};
    const core::NamedView read[] = {{"index", index}, {"grad_scores", grad_scores}};
    core::check_disjoint(written, request);
    core::check_disjoint(written, read);
    problem.params.backward = true;
    const core::Kernel& row = core::choose(problem.params, request.options.kernel);
    core::place_workspace(problem.params.place, request.options.device, row.backward_workspace, row.name,
                          problem.params, raw);
    row.backward(problem.params, raw);
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
    const core::Kernel& row = core::choose(problem.params, options.kernel);
    if (problem.params.place.cuda) return run_device_topk(problem, row, options, kept, chunk, out);
    const std::int64_t step = chunk > 0 ? chunk : default_chunk(problem.params.q.count);
    const auto run = problem.shape.dtype == DType::f64 ? run_topk<double> : run_topk<float>;
    run(problem, row, kept, step, out);
}

std::string_view version() noexcept {
    return ROWMAX_VERSION;
}

}  // namespace rowmax
