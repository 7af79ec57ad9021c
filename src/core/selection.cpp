// The public operators of rowmax/selection.hpp: problem -> registry -> kernel.
#include "rowmax/selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <vector>

#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/problem.hpp"
#include "core/registry.hpp"

namespace rowmax {

namespace {

using core::Problem;
using Shape = std::vector<std::int64_t>;

[[noreturn]] void fail(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

Problem make_problem(const ScoreRequest& request) {
    if (request.options.device.kind != Device::Kind::cpu) {
        fail(ErrorCode::not_implemented, "Q and D are on a CUDA device: only the maximum is scored there");
    }
    Problem problem = core::make_problem(request);
    if (problem.params.compressed != nullptr) {
        fail(ErrorCode::not_implemented, "compressed tokens: only their maximum is scored");
    }
    if (problem.params.d.kind == core::SegmentKind::ranges) {
        fail(ErrorCode::not_implemented, "ranges: only their maximum is scored; pack the documents");
    }
    return problem;
}

const core::SelectionKernels& selection_of(const core::Kernel& row) {
    if (row.selection == nullptr) {
        fail(ErrorCode::not_implemented, fmt::format("{}: this kernel keeps the maximum only", row.name));
    }
    return *row.selection;
}

Shape joined(Shape a, std::initializer_list<std::int64_t> b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

Shape joined(std::initializer_list<std::int64_t> a, const Shape& b) {
    Shape all(a);
    all.insert(all.end(), b.begin(), b.end());
    return all;
}

/// null where the view is not given.
template <class T>
T* optional_output(const TensorView& view, DType dtype, const Shape& shape, std::string_view name) {
    return view.given() ? static_cast<T*>(core::checked_output(view, dtype, shape, name)) : nullptr;
}

/// What a backward pass reads: as an output would be.
const void* contiguous_input(const TensorView& view, DType dtype, const Shape& shape, std::string_view name) {
    return core::checked_output(view, dtype, shape, name);
}

void check_k(std::int64_t k) {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    if (k < 1 || k >= most)
        fail(ErrorCode::invalid_value, fmt::format("k must be at least 1 and below 2^31, got {}", k));
}

void check_temperature(double temperature) {
    if (temperature > 0 && std::isfinite(temperature)) return;
    fail(ErrorCode::invalid_value, fmt::format("temperature must be positive and finite, got {}", temperature));
}

/// Where every task owns rows of the gradient, items must not share them.
void check_separate(const core::Segments& side, std::string_view name) {
    if (side.kind == core::SegmentKind::strided) return;
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < side.count; ++i) {
        const core::Segment item = side.at(i);
        if (item.first_row < end) {
            fail(ErrorCode::invalid_value, fmt::format("{} decreases at {}: gradients need items apart", name, i));
        }
        end = item.first_row + item.length;
    }
}

/// g / tokens that share it, pair by pair.
template <class Value>
void share_gradient(const core::Params& params, std::int64_t k, const std::int32_t* index, const Value* from,
                    Value* to) {
    for (std::int64_t p = 0; p < params.pairs.count; ++p) {
        std::int64_t tokens = 0;
        for (std::int64_t s = 0; s < params.q.max_length; ++s) {
            const std::int32_t* chosen = index + (p * params.q.max_length + s) * k;
            const auto count = std::count_if(chosen, chosen + k, [](std::int32_t token) { return token >= 0; });
            tokens = std::max<std::int64_t>(tokens, count);
        }
        to[p] = tokens > 1 ? from[p] / static_cast<Value>(tokens) : from[p];
    }
}

}  // namespace

void score_topk_tokens(const ScoreRequest& request, std::int64_t k, TokenReduction reduction, const TensorView& scores,
                       const TensorView& index) {
    const core::StandardFloatMode mode;
    check_k(k);
    const Problem problem = make_problem(request);
    core::TopTokens out;
    out.k = k;
    out.mean = reduction == TokenReduction::mean;
    out.scores = core::checked_output(scores, problem.shape.dtype, problem.shape.scores, "out");
    out.index = optional_output<std::int32_t>(index, DType::i32, joined(problem.shape.tokens, {k}), "index");
    const core::NamedView written[] = {{"out", scores}, {"index", index}};
    core::check_disjoint(written, request);
    if (problem.params.pairs.count == 0) return;
    const core::Kernel& row = core::choose(problem.params, request.options.kernel);
    selection_of(row).top_tokens(problem.params, out);
}

void score_topk_tokens_backward(const ScoreRequest& request, std::int64_t k, TokenReduction reduction,
                                const TensorView& index, const TensorView& grad_scores, const TensorView& grad_q,
                                const TensorView& grad_d) {
    const core::StandardFloatMode mode;
    check_k(k);
    Problem problem = make_problem(request);
    const DType dtype = problem.shape.dtype;
    core::Gradients raw;
    raw.fan = k;
    raw.index = static_cast<const std::int32_t*>(
        contiguous_input(index, DType::i32, joined(problem.shape.tokens, {k}), "index"));
    raw.scores = contiguous_input(grad_scores, dtype, problem.shape.scores, "grad_scores");
    const auto shape_of = [](const TensorView& t) { return Shape(t.shape.begin(), t.shape.begin() + t.ndim); };
    raw.q = optional_output<void>(grad_q, request.q.tokens.dtype, shape_of(request.q.tokens), "grad_q");
    raw.d = optional_output<void>(grad_d, request.d.tokens.dtype, shape_of(request.d.tokens), "grad_d");
    const core::NamedView written[] = {{"grad_q", grad_q}, {"grad_d", grad_d}};
    const core::NamedView read[] = {{"index", index}, {"grad_scores", grad_scores}};
    core::check_disjoint(written, request);
    core::check_disjoint(written, read);
    problem.params.backward = true;
    const core::Kernel& row = core::choose(problem.params, request.options.kernel);
    selection_of(row);
    std::vector<std::byte> shared;
    if (reduction == TokenReduction::mean) {
        shared.resize(static_cast<std::size_t>(problem.params.pairs.count) * size_of(dtype));
        const auto share = [&](auto zero) {
            using Value = decltype(zero);
            share_gradient(problem.params, k, raw.index, static_cast<const Value*>(raw.scores),
                           reinterpret_cast<Value*>(shared.data()));
        };
        dtype == DType::f64 ? share(0.0) : share(0.0F);
        raw.scores = shared.data();
    }
    row.backward(problem.params, raw);
}

void score_smooth(const ScoreRequest& request, double temperature, const TensorView& scores, const TensorView& tokens) {
    const core::StandardFloatMode mode;
    check_temperature(temperature);
    const Problem problem = make_problem(request);
    core::Smooth out;
    out.temperature = temperature;
    out.scores = core::checked_output(scores, problem.shape.dtype, problem.shape.scores, "out");
    out.tokens = optional_output<void>(tokens, problem.shape.dtype, joined({2}, problem.shape.tokens), "tokens");
    const core::NamedView written[] = {{"out", scores}, {"tokens", tokens}};
    core::check_disjoint(written, request);
    if (problem.params.pairs.count == 0) return;
    selection_of(core::choose(problem.params, request.options.kernel)).smooth(problem.params, out);
}

void score_smooth_backward(const ScoreRequest& request, double temperature, const TensorView& tokens,
                           const TensorView& grad_scores, const TensorView& grad_q, const TensorView& grad_d) {
    const core::StandardFloatMode mode;
    check_temperature(temperature);
    Problem problem = make_problem(request);
    const auto shape_of = [](const TensorView& t) { return Shape(t.shape.begin(), t.shape.begin() + t.ndim); };
    core::SmoothGradients raw;
    raw.temperature = temperature;
    raw.tokens = contiguous_input(tokens, problem.shape.dtype, joined({2}, problem.shape.tokens), "tokens");
    raw.grad_scores = contiguous_input(grad_scores, problem.shape.dtype, problem.shape.scores, "grad_scores");
    raw.q = optional_output<void>(grad_q, request.q.tokens.dtype, shape_of(request.q.tokens), "grad_q");
    raw.d = optional_output<void>(grad_d, request.d.tokens.dtype, shape_of(request.d.tokens), "grad_d");
    const core::NamedView written[] = {{"grad_q", grad_q}, {"grad_d", grad_d}};
    const core::NamedView read[] = {{"tokens", tokens}, {"grad_scores", grad_scores}};
    core::check_disjoint(written, request);
    core::check_disjoint(written, read);
    check_separate(problem.params.q, "cu_seqlens_q");
    check_separate(problem.params.d, "cu_seqlens_d");
    problem.params.backward = true;
    selection_of(core::choose(problem.params, request.options.kernel)).smooth_backward(problem.params, raw);
}

void score_prefixes(const ScoreRequest& request, std::span<const std::int64_t> dims, const TensorView& scores,
                    const TensorView& index) {
    const core::StandardFloatMode mode;
    const Problem problem = make_problem(request);
    const bool ascend = std::ranges::adjacent_find(dims, std::greater_equal<>()) == dims.end();
    if (dims.empty() || !ascend || dims.front() < 1 || dims.back() > problem.params.dim) {
        fail(ErrorCode::invalid_value, fmt::format("dims must ascend from 1 or more to at most d = {}, got [{}]",
                                                   problem.params.dim, fmt::join(dims, ", ")));
    }
    if (problem.params.normalize) {
        fail(ErrorCode::not_implemented, "normalize: each prefix has norms of its own; score them one by one");
    }
    const auto count = static_cast<std::int64_t>(dims.size());
    core::Prefixes out;
    out.dims = dims.data();
    out.count = count;
    out.scores = core::checked_output(scores, problem.shape.dtype, joined({count}, problem.shape.scores), "out");
    out.index = optional_output<std::int32_t>(index, DType::i32, joined({count}, problem.shape.tokens), "index");
    const core::NamedView written[] = {{"out", scores}, {"index", index}};
    core::check_disjoint(written, request);
    if (problem.params.pairs.count == 0) return;
    selection_of(core::choose(problem.params, request.options.kernel)).prefixes(problem.params, out);
}

void score_xtr(const ScoreRequest& request, std::int64_t k, Imputation imputation, const TensorView& scores,
               const TensorView& index, const TensorView& last_document, const TensorView& last_token) {
    const core::StandardFloatMode mode;
    check_k(k);
    if (request.pairing != Pairing::cross && request.pairing != Pairing::grouped) {
        fail(ErrorCode::invalid_value, "XTR: retrieval is among all documents of a query: cross or grouped pairing");
    }
    const Problem problem = make_problem(request);
    core::Retrieval out;
    out.k = k;
    out.impute = imputation == Imputation::last;
    out.scores = core::checked_output(scores, problem.shape.dtype, problem.shape.scores, "out");
    out.index = optional_output<std::int32_t>(index, DType::i32, problem.shape.tokens, "index");
    Shape last{problem.params.q.max_length};
    if (request.q.tokens.ndim != 2 || request.q.cu_seqlens.given()) last.insert(last.begin(), problem.params.q.count);
    out.last_pair = optional_output<std::int64_t>(last_document, DType::i64, last, "last_document");
    out.last_token = optional_output<std::int32_t>(last_token, DType::i32, last, "last_token");
    if (last_document.given() != last_token.given()) {
        fail(ErrorCode::invalid_value, "last_document and last_token: give both or neither");
    }
    const core::NamedView written[] = {
        {"out", scores}, {"index", index}, {"last_document", last_document}, {"last_token", last_token}};
    core::check_disjoint(written, request);
    if (problem.params.q.count * problem.params.q.max_length > 0 && out.last_pair != nullptr) {
        std::fill_n(out.last_pair, problem.params.q.count * problem.params.q.max_length, std::int64_t{-1});
        std::fill_n(out.last_token, problem.params.q.count * problem.params.q.max_length, std::int32_t{-1});
    }
    if (problem.params.pairs.count == 0) return;
    selection_of(core::choose(problem.params, request.options.kernel)).retrieve(problem.params, out);
    if (out.last_pair == nullptr || request.pairing != Pairing::cross) return;
    // A pair of a cross problem is query x documents + document.
    for (std::int64_t i = 0; i < problem.params.q.count * problem.params.q.max_length; ++i) {
        if (out.last_pair[i] >= 0) out.last_pair[i] %= problem.params.pairs.width;
    }
}

}  // namespace rowmax
