#include "cli/checks/checks.hpp"

#include "cpu/sample.hpp"

namespace rowmax::checks {

void Report::fail(std::string what) {
    constexpr std::size_t shown = 5;
    ++failed;
    if (failures.size() < shown) failures.push_back(std::move(what));
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

std::vector<DType> dtypes_of(std::string_view kernel) {
    std::vector<DType> taken;
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
        const test::Sample sample({.dtype = dtype}, test::small_integers(1));
        ScoreRequest request = sample.request;
        request.options.kernel = kernel;
        for (const KernelInfo& info : explain_dispatch(request)) {
            if (info.chosen) taken.push_back(dtype);
        }
    }
    return taken;
}

}  // namespace rowmax::checks
