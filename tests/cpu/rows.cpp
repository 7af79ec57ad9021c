// The rows under test: those of the CPU's table.
#include "cpu/sample.hpp"

namespace rowmax::test {

Results run(const core::Kernel& row, const core::Problem& problem, Want want, int threads) {
    return run_on_cpu(row, problem, want, threads);
}

std::vector<const core::Kernel*> rows_for(DType dtype) {
    core::Params params;
    params.dtype = dtype;
    params.dim = 1;
    std::vector<const core::Kernel*> rows;
    for (const core::Kernel& row : core::cpu_kernels()) {
        if (row.missing_features().empty() && row.refuse(params).empty()) rows.push_back(&row);
    }
    return rows;
}

std::vector<const core::Kernel*> rows_named(std::string_view end) {
    std::vector<const core::Kernel*> rows;
    for (const core::Kernel& row : core::cpu_kernels()) {
        if (row.name.ends_with(end) && row.missing_features().empty()) rows.push_back(&row);
    }
    return rows;
}

}  // namespace rowmax::test
