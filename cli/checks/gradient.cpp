// Gradients against the oracle, and against themselves.
#include <fmt/format.h>

#include "cli/checks/checks.hpp"
#include "cli/checks/run.hpp"
#include "cli/checks/sample.hpp"
#include "core/half.hpp"
#include "core/problem.hpp"
#include "core/reference.hpp"

namespace rowmax::checks {

namespace {

struct Gradients {
    std::vector<double> q;
    std::vector<double> d;
};

double widened(const std::byte* at, DType dtype) {
    switch (dtype) {
        case DType::f16: return core::half_to_float(core::load<std::uint16_t>(at));
        case DType::bf16: return core::bfloat_to_float(core::load<std::uint16_t>(at));
        case DType::f64: return core::load<double>(at);
        default: return core::load<float>(at);
    }
}

std::vector<double> widened(const std::vector<std::byte>& bytes, DType dtype) {
    std::vector<double> values;
    for (std::size_t at = 0; at < bytes.size(); at += size_of(dtype)) values.push_back(widened(&bytes[at], dtype));
    return values;
}

// Gradients have the tokens' type: the exact value, rounded once.
std::vector<double> rounded(const std::vector<double>& values, DType dtype) {
    std::vector<std::byte> bytes(values.size() * size_of(dtype));
    for (std::size_t i = 0; i < values.size(); ++i) store(bytes.data(), dtype, static_cast<std::int64_t>(i), values[i]);
    return widened(bytes, dtype);
}

TensorView gradient_of(const TensorView& tokens, std::vector<std::byte>& memory) {
    memory.assign(static_cast<std::size_t>(tokens.numel()) * size_of(tokens.dtype), std::byte{0xa5});
    return {memory.data(), tokens.dtype,
            std::span<const std::int64_t>(tokens.shape.data(), static_cast<std::size_t>(tokens.ndim))};
}

Gradients run_backward(ScoreRequest request, std::string_view kernel, const Result& forward,
                       const std::vector<double>& grad_scores, int threads) {
    request.options.kernel = kernel;
    request.options.threads = threads;
    const ResultShape shape = result_shape(request);
    std::vector<std::byte> grad(grad_scores.size() * size_of(shape.dtype));
    for (std::size_t p = 0; p < grad_scores.size(); ++p)
        store(grad.data(), shape.dtype, static_cast<std::int64_t>(p), grad_scores[p]);
    std::vector<std::byte> q;
    std::vector<std::byte> d;
    const TensorView q_view = gradient_of(request.q.tokens, q);
    const TensorView d_view = gradient_of(request.d.tokens, d);
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

void check_spec(const Spec& spec, std::string_view kernel, DType dtype, Report& report) {
    const Sample sample(spec, dtype, 3);
    const Result forward = run(sample.request(), kernel);
    const std::vector<double> grad = small_integers(forward.scores.size());
    const core::Problem problem = core::make_problem(sample.request());
    const core::reference::Gradient want = core::reference::backward(problem.params, forward.index, grad);
    const Gradients got = run_backward(sample.request(), kernel, forward, grad, 0);
    compare(spec.text() + ", queries' gradient", got.q, rounded(want.q, dtype), report);
    compare(spec.text() + ", documents' gradient", got.d, rounded(want.d, dtype), report);
    const Gradients again = run_backward(sample.request(), kernel, forward, grad, 1);
    compare(spec.text() + ", queries' gradient on one thread", again.q, got.q, report);
    compare(spec.text() + ", documents' gradient on one thread", again.d, got.d, report);
    ++report.cases;
}

}  // namespace

Report check_gradient(std::string_view kernel, DType dtype, const std::function<void()>& pause) {
    Report report;
    std::vector<Spec> specs = {{.queries = 40,
                                .documents = 30,
                                .query_length = 20,
                                .document_length = 3,
                                .dim = 5}};  // many sources, few destinations
    for (const Layout layout :
         {Layout::dense, Layout::packed, Layout::ranges, Layout::grouped, Layout::zipped, Layout::list}) {
        for (const bool masks : {false, true}) {
            specs.push_back({.layout = layout,
                             .queries = 3,
                             .documents = 4,
                             .query_length = 18,
                             .document_length = 21,
                             .dim = 33,
                             .masks = masks});
        }
    }
    for (const Spec& spec : specs) {
        pause();
        try {
            check_spec(spec, kernel, dtype, report);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::not_implemented) throw;
            return {};  // this kernel has no backward
        }
    }
    return report;
}

}  // namespace rowmax::checks
