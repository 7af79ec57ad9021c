// Gradients against the oracle, and against themselves.
#include <fmt/format.h>

#include "cli/checks/checks.hpp"
#include "cli/checks/run.hpp"
#include "core/element.hpp"
#include "core/mirror.hpp"
#include "core/problem.hpp"
#include "core/reference.hpp"
#include "cpu/sample.hpp"
#include "stream/device_scorer.hpp"

namespace rowmax::checks {

namespace {

struct Gradients {
    std::vector<double> q;
    std::vector<double> d;
};

std::vector<double> widened(const std::vector<std::byte>& bytes, DType dtype) {
    std::vector<double> values;
    for (std::size_t at = 0; at < bytes.size(); at += size_of(dtype))
        values.push_back(core::read_element(&bytes[at], dtype));
    return values;
}

std::vector<std::byte> narrowed(const std::vector<double>& values, DType dtype) {
    std::vector<std::byte> bytes(values.size() * size_of(dtype));
    for (std::size_t i = 0; i < values.size(); ++i) core::write_element(&bytes[i * size_of(dtype)], dtype, values[i]);
    return bytes;
}

// Gradients have the tokens' type: the exact value, rounded once.
std::vector<double> rounded(const std::vector<double>& values, DType dtype) {
    return widened(narrowed(values, dtype), dtype);
}

TensorView gradient_of(const TensorView& tokens, std::vector<std::byte>& memory) {
    memory.assign(static_cast<std::size_t>(tokens.numel()) * size_of(tokens.dtype), std::byte{0xa5});
    return {memory.data(), tokens.dtype,
            std::span<const std::int64_t>(tokens.shape.data(), static_cast<std::size_t>(tokens.ndim))};
}

Gradients run_there(const ScoreRequest& request, const Target& target, const Result& forward,
                    const std::vector<double>& grad_scores) {
    const core::Problem problem = core::make_problem(request);
    stream::DeviceArrays arrays(*target.backend, target.ordinal);
    core::Compressed compressed;
    core::Params params = core::mirror(problem.params, compressed, [&](const std::byte* first, std::size_t bytes) {
        return arrays.put(first, bytes);
    });
    params.place = arrays.place();
    params.backward = true;
    const std::vector<std::byte> grad = narrowed(grad_scores, problem.shape.dtype);
    std::vector<std::byte> q;
    std::vector<std::byte> d;
    gradient_of(request.q.tokens, q);
    gradient_of(request.d.tokens, d);
    std::byte* q_there = arrays.put(q.data(), q.size());
    std::byte* d_there = arrays.put(d.data(), d.size());
    core::Gradients gradients;
    gradients.index = reinterpret_cast<const std::int32_t*>(
        arrays.put(forward.index.data(), forward.index.size() * sizeof(std::int32_t)));
    gradients.scores = arrays.put(grad.data(), grad.size());
    gradients.q = q_there;
    gradients.d = request.d.residual == nullptr ? d_there : nullptr;  // which have none
    const std::size_t scratch = target.row->backward_workspace(params, gradients);
    if (scratch > 0) params.place.workspace = arrays.take(scratch);
    target.row->backward(params, gradients);
    arrays.get(q.data(), q_there, q.size());
    arrays.get(d.data(), d_there, d.size());
    return {widened(q, request.q.tokens.dtype), widened(d, request.d.tokens.dtype)};
}

Gradients run_backward(ScoreRequest request, const Target& target, const Result& forward,
                       const std::vector<double>& grad_scores, int threads) {
    if (target.backend != nullptr) return run_there(request, target, forward, grad_scores);
    request.options.kernel = target.row->name;
    request.options.threads = threads;
    const ResultShape shape = result_shape(request);
    const std::vector<std::byte> grad = narrowed(grad_scores, shape.dtype);
    std::vector<std::byte> q;
    std::vector<std::byte> d;
    const TensorView q_view = gradient_of(request.q.tokens, q);
    const bool residual = request.d.residual != nullptr;  // which have none
    const TensorView d_view = residual ? TensorView() : gradient_of(request.d.tokens, d);
    score_backward(request, TensorView(forward.index.data(), DType::i32, shape.tokens),
                   TensorView(grad.data(), shape.dtype, shape.scores), q_view, d_view);
    return {widened(q, request.q.tokens.dtype), widened(d, request.d.tokens.dtype)};
}

std::vector<double> small_integers(std::size_t count) {
    std::vector<double> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i % 5) - 2);
    return values;
}

void compare(const std::string& name, const std::vector<double>& got, const std::vector<double>& want, Report& report) {
    for (std::size_t i = 0; i < want.size(); ++i) {
        if (same(got[i], want[i])) continue;
        report.fail(fmt::format("{}: element {} is {}, not {}", name, i, got[i], want[i]));
        return;
    }
}

void check_shape(const test::Shape& shape, const Target& target, Report& report) {
    const test::Sample sample(shape, test::small_integers(shape.dim));
    const std::string name = text_of(shape);
    const Result forward = run(sample.request, target);
    const std::vector<double> grad = small_integers(forward.scores.size());
    const core::Problem problem = core::make_problem(sample.request);
    const core::reference::Gradient want = core::reference::backward(problem.params, forward.index, grad);
    const Gradients got = run_backward(sample.request, target, forward, grad, 0);
    compare(name + ", queries' gradient", got.q, rounded(want.q, sample.request.q.tokens.dtype), report);
    if (!shape.residual) compare(name + ", documents' gradient", got.d, rounded(want.d, shape.dtype), report);
    const Gradients again = run_backward(sample.request, target, forward, grad, 1);
    compare(name + ", queries' gradient again", again.q, got.q, report);
    compare(name + ", documents' gradient again", again.d, got.d, report);
}

std::vector<test::Shape> gradient_shapes() {
    // Many sources, few destinations.
    std::vector<test::Shape> shapes = {{.queries = 40, .documents = 30, .lq = 20, .ld = 3, .dim = 5}};
    for (const test::Layout layout : test::all_layouts) {
        for (const bool masked : {false, true}) {
            shapes.push_back(
                {.layout = layout, .queries = 3, .documents = 4, .lq = 18, .ld = 21, .dim = 33, .masked = masked});
        }
    }
    return shapes;
}

}  // namespace

Report check_gradient(const Target& target, DType dtype, const std::function<void()>& pause) {
    Report report;
    if (target.row->backward == nullptr) return report;
    for (test::Shape& shape : gradient_shapes()) {
        pause();
        shape = typed(target, dtype, shape);
        shape.dim = dim_for(target, dtype, shape.dim);
        if (!takes(target, shape, true)) continue;
        report.run_case([&] { check_shape(shape, target, report); });
    }
    return report;
}

}  // namespace rowmax::checks
