#include "cli/checks/checks.hpp"

#include "core/problem.hpp"
#include "cpu/sample.hpp"

namespace rowmax::checks {

void Report::fail(std::string what) {
    constexpr std::size_t shown = 5;
    ++failed;
    if (failures.size() < shown) failures.push_back(std::move(what));
}

void Report::run_case(const std::function<void()>& body) {
    try {
        body();
        ++cases;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_implemented) throw;
    }
}

const std::vector<Check>& all_checks() {
    static const std::vector<Check> checks = {
        {"exact", "small integers: every score, index and similarity equals the oracle, bit for bit", check_exact},
        {"random", "error against the double precision oracle, within the contract's bound", check_random},
        {"golden", "small cases that other implementations got wrong", check_golden},
        {"invariance", "a pair's bits do not depend on batch, order, layout, threads or wanted outputs",
         check_invariance},
        {"gradient", "gradients of small integers equal the oracle's, and every run gives the same", check_gradient},
    };
    return checks;
}

namespace {

constexpr std::int64_t small_dim = 16;
constexpr std::int64_t large_dim = 200;

bool takes_tokens(const Target& target, DType dtype, std::int64_t dim) {
    return takes(target, typed(target, dtype, {.documents = 2, .lq = 2, .ld = 2, .dim = dim}), false);
}

}  // namespace

bool takes(const Target& target, const test::Shape& shape, bool backward) {
    const test::Sample sample(shape, test::small_integers(shape.dim));
    const core::Problem problem = core::make_problem(sample.request);
    core::Params params = problem.params;
    params.place = {target.backend != nullptr, target.ordinal, nullptr, nullptr};
    params.backward = backward;
    if (target.row->refuse(params).empty()) return true;
    params.high_precision_only = false;
    return target.row->refuse(params).empty();
}

std::vector<DType> dtypes_of(const Target& target) {
    std::vector<DType> taken;
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8, DType::f8e4m3, DType::u8}) {
        if (takes_tokens(target, dtype, small_dim) || takes_tokens(target, dtype, large_dim)) taken.push_back(dtype);
    }
    return taken;
}

bool can_be_hidden(DType dtype) {
    return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

bool takes_hidden_states(const Target& target) {
    return target.row->write_tokens != nullptr;
}

test::Shape typed(const Target& target, DType dtype, test::Shape shape) {
    shape.dtype = dtype;
    shape.residual = dtype == DType::u8 && target.row->name.ends_with(".residual");
    constexpr std::int64_t hidden_dim = 24;
    if (takes_hidden_states(target) && can_be_hidden(dtype) && shape.hidden == 0) shape.hidden = hidden_dim;
    return shape;
}

std::int64_t dim_for(const Target& target, DType dtype, std::int64_t dim) {
    if (dim >= large_dim || takes_tokens(target, dtype, small_dim)) return dim;
    return large_dim + dim;
}

}  // namespace rowmax::checks
