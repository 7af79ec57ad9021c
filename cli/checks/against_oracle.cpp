// Exact and random checks: a kernel against the oracle.
#include <fmt/format.h>

#include <cmath>

#include "cli/checks/checks.hpp"
#include "cli/checks/run.hpp"
#include "core/problem.hpp"
#include "core/reference.hpp"
#include "cpu/sample.hpp"

namespace rowmax::checks {

namespace {

using core::reference::Scores;
using test::Layout;
using test::Shape;

// Odd sizes: none, one, around a group of 16 query tokens, around vectors and tiles, long.
std::vector<Shape> sized_shapes() {
    std::vector<Shape> shapes;
    for (const std::int64_t length : {0, 1, 2, 7, 15, 16, 17, 31, 33, 64, 70}) {
        shapes.push_back({.queries = 2, .documents = 3, .lq = length, .ld = 33, .dim = 24});
    }
    for (const std::int64_t length : {0, 1, 5, 7, 8, 29, 30, 31, 33, 180, 1030}) {
        shapes.push_back({.queries = 2, .documents = 3, .lq = 17, .ld = length, .dim = 16});
    }
    for (const std::int64_t dim : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 96, 100, 128, 129, 768, 1030, 4096}) {
        shapes.push_back({.queries = 2, .documents = 3, .lq = 3, .ld = 9, .dim = dim});
    }
    for (const std::int64_t count : {0, 1, 5}) {
        shapes.push_back({.queries = count, .documents = 2, .lq = 5, .ld = 7, .dim = 8});
        shapes.push_back({.queries = 2, .documents = count, .lq = 5, .ld = 7, .dim = 8});
    }
    return shapes;
}

std::vector<Shape> oracle_shapes() {
    std::vector<Shape> shapes = sized_shapes();
    for (const Layout layout : test::all_layouts) {
        for (const bool masked : {false, true}) {
            shapes.push_back(
                {.layout = layout, .queries = 3, .documents = 5, .lq = 19, .ld = 45, .dim = 40, .masked = masked});
            shapes.push_back(shapes.back());
            shapes.back().hidden = 24;
        }
    }
    return shapes;
}

void compare_exactly(const Shape& shape, const Result& got, const Scores& want, Report& report) {
    if (!got.intact) report.fail(fmt::format("{}: wrote outside its outputs", text_of(shape)));
    for (std::size_t p = 0; p < want.scores.size(); ++p) {
        if (!same(got.scores[p], want.scores[p])) {
            report.fail(
                fmt::format("{}: score of pair {} is {}, not {}", text_of(shape), p, got.scores[p], want.scores[p]));
            return;
        }
    }
    for (std::size_t i = 0; i < want.index.size(); ++i) {
        if (got.index[i] != want.index[i] || !same(got.similarity[i], want.similarity[i])) {
            report.fail(fmt::format("{}: answer {} is token {} with {}, not token {} with {}", text_of(shape), i,
                                    got.index[i], got.similarity[i], want.index[i], want.similarity[i]));
            return;
        }
    }
}

// The contract's bounds, relative to sum |q_s| |d_win(s)|; inverse norms in float32 add their own rounding.
double bound_of(const Target& target, DType dtype, const Shape& shape, bool high) {
    constexpr double bound_of_tf32 = 2e-3;
    if (high && dtype == DType::f32) return bound_of_tf32;
    if (dtype == DType::f8e4m3) return test::float8_bound(*target.row, shape.dim);
    const double products = dtype == DType::f64 ? 1e-14 : (dtype == DType::f32 ? 2e-7 : 1e-6);
    return products + (shape.normalize && dtype != DType::f64 ? 5e-7 : 0);
}

// What a projection loses is relative to |W| |h|, about sqrt(hidden) times a token of normal numbers.
double bound_of_hidden(const Target& target, DType dtype, const Shape& shape) {
    const double rounding = dtype == DType::bf16 ? 0x1p-9 : 0x1p-12;
    const double projected = bound_of(target, dtype, shape, false) * (4 + 2 * std::sqrt(shape.hidden));
    return projected + (takes_hidden_states(target) ? 2 * rounding : 0);
}

void compare_closely(const Target& target, const Shape& shape, DType dtype, const Result& got, const Scores& want,
                     Report& report) {
    const double bound =
        shape.hidden > 0 ? bound_of_hidden(target, dtype, shape) : bound_of(target, dtype, shape, got.high);
    for (std::size_t p = 0; p < want.scores.size(); ++p) {
        const double error = std::fabs(got.scores[p] - want.scores[p]);
        if (error <= bound * want.scale[p]) continue;
        report.fail(
            fmt::format("{}: score of pair {} is {}, the oracle says {}: {:.3g} of its scale, {:.3g} is allowed",
                        text_of(shape), p, got.scores[p], want.scores[p], error / want.scale[p], bound));
        return;
    }
}

/// Runs every shape; `values_of(dim)` fills it, `compare` judges.
template <class ValuesOf, class Compare>
Report check_shapes(std::vector<Shape> shapes, const Target& target, DType dtype, const std::function<void()>& pause,
                    ValuesOf&& values_of, Compare&& compare) {
    Report report;
    unsigned seed = 1;
    for (Shape& shape : shapes) {
        pause();
        shape = typed(target, dtype, shape);
        if (shape.hidden > 0 && !can_be_hidden(dtype)) continue;
        shape.dim = dim_for(target, dtype, shape.dim);
        shape.seed = seed++;
        const test::Sample sample(shape, values_of(shape.dim));
        const Scores want = core::reference::score(core::make_problem(sample.request).params);
        report.run_case([&] { compare(shape, run(sample.request, target), want, report); });
    }
    return report;
}

}  // namespace

Report check_exact(const Target& target, DType dtype, const std::function<void()>& pause) {
    return check_shapes(oracle_shapes(), target, dtype, pause, test::small_integers, compare_exactly);
}

Report check_random(const Target& target, DType dtype, const std::function<void()>& pause) {
    std::vector<Shape> shapes = oracle_shapes();
    const bool bits = dtype == DType::u8 && !typed(target, dtype, {}).residual;
    const bool codes = dtype == DType::i8 || dtype == DType::f8e4m3 || bits;  // which cannot be normalised
    for (const std::int64_t dim : {3, 64, 128}) {
        if (codes) break;
        shapes.push_back(
            {.queries = 2, .documents = 3, .lq = 33, .ld = 70, .dim = dim, .masked = true, .normalize = true});
    }
    return check_shapes(
        shapes, target, dtype, pause, [](std::int64_t) { return test::normal(); },
        [&](const Shape& shape, const Result& got, const Scores& want, Report& report) {
            compare_closely(target, shape, dtype, got, want, report);
        });
}

}  // namespace rowmax::checks
