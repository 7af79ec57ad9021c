#include "stream/device_scorer.hpp"

#include "core/mirror.hpp"

namespace rowmax::stream {

void run_row(DeviceArrays& arrays, const core::Kernel& row, const core::Params& params, const core::Outputs& outputs) {
    core::Params placed = params;
    placed.place = arrays.place();
    const std::size_t scratch = row.workspace == nullptr ? 0 : row.workspace(placed, outputs);
    if (scratch > 0) placed.place.workspace = arrays.take(scratch);
    row.score(placed, outputs);
    arrays.finish();
}

void DeviceScorer::check(const ScoreRequest& request) const {
    core::Params params = core::make_problem(request).params;
    params.place = {true, ordinal_, nullptr, nullptr};
    backend_.choose(params, request.options.kernel);
}

bool DeviceScorer::takes(const ScoreRequest& request) const {
    try {
        check(request);
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_implemented) throw;
        return false;
    }
}

core::Segments DeviceScorer::bring(std::optional<Side>& side, bool same, const core::Segments& host,
                                   std::int64_t row_bytes) {
    if (side && same) return side->segments;
    side.reset();  // the old one goes before the new one comes
    side.emplace(Side{DeviceArrays(backend_, ordinal_), {}});
    side->segments = core::mirror(
        host, row_bytes, [&](const std::byte* first, std::size_t bytes) { return side->arrays.put(first, bytes); });
    return side->segments;
}

void DeviceScorer::score(const ScoreRequest& request, const ScoreOutputs& outputs) {
    const core::Problem problem = core::make_problem(request);
    const core::Outputs raw = core::check_outputs(problem, outputs);
    core::Params params = problem.params;
    if (params.pairs.count == 0) return;
    params.q = bring(q_, true, params.q, core::query_row_bytes(params));
    params.d = bring(d_, same_ == Same::queries_and_documents, params.d, core::document_row_bytes(params));
    DeviceArrays call(backend_, ordinal_);
    const auto put = [&](const std::byte* first, std::size_t bytes) { return call.put(first, bytes); };
    params.pairs = core::mirror(params.pairs, put);
    core::Compressed compressed;
    params.compressed = core::mirror_compressed(problem.params, compressed, put);
    params.place = call.place();
    params.wants_index = raw.index != nullptr;
    const core::Kernel& row = backend_.choose(params, request.options.kernel);
    const auto pairs = static_cast<std::size_t>(params.pairs.count);
    const std::size_t rows = pairs * static_cast<std::size_t>(params.q.max_length);
    core::Outputs there;
    there.scores = call.take(pairs * sizeof(float));
    if (raw.index != nullptr) there.index = reinterpret_cast<std::int32_t*>(call.take(rows * sizeof(std::int32_t)));
    if (raw.similarity != nullptr) there.similarity = call.take(rows * sizeof(float));
    run_row(call, row, params, there);
    const auto fetch = [&](void* here, const void* from, std::size_t count) {
        if (here != nullptr) call.get(here, static_cast<const std::byte*>(from), count * sizeof(float));
    };
    fetch(raw.scores, there.scores, pairs);
    fetch(raw.index, there.index, rows);
    fetch(raw.similarity, there.similarity, rows);
}

}  // namespace rowmax::stream
