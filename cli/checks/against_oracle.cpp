// Exact and random checks: a kernel against the oracle.
#include <fmt/format.h>

#include <cmath>

#include "cli/checks/checks.hpp"
#include "cli/checks/run.hpp"
#include "cli/checks/sample.hpp"
#include "core/problem.hpp"
#include "core/reference.hpp"

namespace rowmax::checks {

namespace {

using core::reference::Scores;

constexpr Layout layouts[] = {Layout::dense,   Layout::packed, Layout::ranges,
                              Layout::grouped, Layout::zipped, Layout::list};

// Odd sizes: none, one, around a group of 16 query tokens, around vectors and tiles, long.
std::vector<Spec> sized_specs() {
    std::vector<Spec> specs;
    for (const std::int64_t length : {0, 1, 2, 7, 15, 16, 17, 31, 33, 64, 70}) {
        specs.push_back({.query_length = length, .document_length = 33, .dim = 24});
    }
    for (const std::int64_t length : {0, 1, 5, 7, 8, 29, 30, 31, 33, 180, 1030}) {
        specs.push_back({.query_length = 17, .document_length = length, .dim = 16});
    }
    for (const std::int64_t dim : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 96, 100, 128, 129, 768, 1030, 4096}) {
        specs.push_back({.query_length = 3, .document_length = 9, .dim = dim});
    }
    for (const std::int64_t count : {0, 1, 5}) {
        specs.push_back({.queries = count, .documents = 2});
        specs.push_back({.queries = 2, .documents = count});
    }
    return specs;
}

std::vector<Spec> specs_of(Fill fill) {
    std::vector<Spec> specs = sized_specs();
    for (const Layout layout : layouts) {
        for (const bool masks : {false, true}) {
            specs.push_back({.layout = layout,
                             .queries = 3,
                             .documents = 5,
                             .query_length = 19,
                             .document_length = 45,
                             .dim = 40,
                             .masks = masks});
        }
    }
    for (Spec& spec : specs) spec.fill = fill;
    return specs;
}

core::Params params_of(const ScoreRequest& request, core::Problem& keep) {
    keep = core::make_problem(request);
    return keep.params;
}

void compare_exactly(const Spec& spec, const Result& got, const Scores& want, Report& report) {
    if (!got.intact) report.fail(fmt::format("{}: wrote outside its outputs", spec.text()));
    for (std::size_t p = 0; p < want.scores.size(); ++p) {
        if (!same(got.scores[p], want.scores[p])) {
            report.fail(
                fmt::format("{}: score of pair {} is {}, not {}", spec.text(), p, got.scores[p], want.scores[p]));
            return;
        }
    }
    for (std::size_t i = 0; i < want.index.size(); ++i) {
        if (got.index[i] != want.index[i] || !same(got.similarity[i], want.similarity[i])) {
            report.fail(fmt::format("{}: answer {} is token {} with {}, not token {} with {}", spec.text(), i,
                                    got.index[i], got.similarity[i], want.index[i], want.similarity[i]));
            return;
        }
    }
}

// The contract's bounds, relative to sum |q_s| |d_win(s)|; inverse norms in float32 add their own rounding.
double bound_of(DType dtype, bool normalize) {
    const double products = dtype == DType::f64 ? 1e-14 : (dtype == DType::f32 ? 2e-7 : 1e-6);
    return products + (normalize && dtype != DType::f64 ? 5e-7 : 0);
}

void compare_closely(const Spec& spec, DType dtype, const Result& got, const Scores& want, Report& report) {
    const double bound = bound_of(dtype, spec.normalize);
    for (std::size_t p = 0; p < want.scores.size(); ++p) {
        const double error = std::fabs(got.scores[p] - want.scores[p]);
        if (error <= bound * want.scale[p]) continue;
        report.fail(
            fmt::format("{}: score of pair {} is {}, the oracle says {}: {:.3g} of its scale, {:.3g} is allowed",
                        spec.text(), p, got.scores[p], want.scores[p], error / want.scale[p], bound));
        return;
    }
}

template <class Compare>
Report check_specs(const std::vector<Spec>& specs, std::string_view kernel, DType dtype,
                   const std::function<void()>& pause, Compare&& compare) {
    Report report;
    std::uint64_t seed = 1;
    for (const Spec& spec : specs) {
        pause();
        const Sample sample(spec, dtype, seed++);
        core::Problem keep;
        const Scores want = core::reference::score(params_of(sample.request(), keep));
        compare(spec, run(sample.request(), kernel), want, report);
        ++report.cases;
    }
    return report;
}

}  // namespace

Report check_exact(std::string_view kernel, DType dtype, const std::function<void()>& pause) {
    return check_specs(specs_of(Fill::integers), kernel, dtype, pause, compare_exactly);
}

Report check_random(std::string_view kernel, DType dtype, const std::function<void()>& pause) {
    std::vector<Spec> specs = specs_of(Fill::gaussians);
    for (const std::int64_t dim : {3, 64, 128}) {
        specs.push_back({.query_length = 33,
                         .document_length = 70,
                         .dim = dim,
                         .masks = true,
                         .normalize = true,
                         .fill = Fill::gaussians});
    }
    return check_specs(specs, kernel, dtype, pause,
                       [&](const Spec& spec, const Result& got, const Scores& want, Report& report) {
                           compare_closely(spec, dtype, got, want, report);
                       });
}

}  // namespace rowmax::checks
