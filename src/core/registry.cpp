#include "core/registry.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string>

#include "core/problem.hpp"
#include "rowmax/error.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::core {

namespace {

std::string_view forced_name(std::string_view option) {
    if (!option.empty()) return option;
    const char* variable = std::getenv("ROWMAX_KERNEL");
    return variable == nullptr ? std::string_view() : std::string_view(variable);
}

std::string refusal(const Kernel& row, const Params& params) {
    if ((row.backend == "cuda") != params.place.cuda) {
        return params.place.cuda ? "memory of a CUDA device" : "memory of the CPU";
    }
    std::string machine = row.missing_features();
    if (!machine.empty()) return machine;
    if (params.backward && row.backward == nullptr) return "a backward pass";
    return row.refuse(params);
}

std::array<std::span<const Kernel>, 2> tables() {
    return {cuda_kernels(), cpu_kernels()};
}

struct Verdict {
    const Kernel* row = nullptr;
    std::string refusal;
    bool named = true;
};

std::vector<Verdict> judge(const Params& params, std::string_view forced) {
    std::vector<Verdict> verdicts;
    for (const auto table : tables()) {
        for (const Kernel& row : table)
            verdicts.push_back({&row, refusal(row, params), forced.empty() || names(forced, row.name)});
    }
    return verdicts;
}

const Kernel* first_accepted(const std::vector<Verdict>& verdicts) {
    for (const Verdict& v : verdicts) {
        if (v.named && v.refusal.empty()) return v.row;
    }
    return nullptr;
}

[[noreturn]] void refuse_all(const std::vector<Verdict>& verdicts, std::string_view option) {
    const std::string_view forced = forced_name(option);
    std::string missing;
    bool any = false;
    for (const Verdict& v : verdicts) {
        if (!v.named) continue;
        any = true;
        missing += fmt::format("{}{}: {}", missing.empty() ? "" : "; ", v.row->name, v.refusal);
    }
    if (!any) {
        throw Error(ErrorCode::invalid_value, fmt::format("{}: no kernel is named '{}'; see `rowmax kernels`",
                                                          option.empty() ? "ROWMAX_KERNEL" : "kernel", forced));
    }
    throw Error(ErrorCode::not_implemented, fmt::format("no kernel accepts this call; missing: {}", missing));
}

}  // namespace

bool names(std::string_view forced, std::string_view row) {
    return row.starts_with(forced) && (row.size() == forced.size() || row[forced.size()] == '.');
}

const Kernel& choose(const Params& params, std::string_view option) {
    const std::string_view forced = forced_name(option);
    // The common case without building messages: nothing forced, an early row accepts.
    for (const auto table : tables()) {
        for (const Kernel& row : table) {
            if ((forced.empty() || names(forced, row.name)) && refusal(row, params).empty()) return row;
        }
    }
    refuse_all(judge(params, forced), option);
}

}  // namespace rowmax::core

namespace rowmax {

std::vector<KernelInfo> kernels() {
    std::vector<KernelInfo> list;
    for (const auto table : core::tables()) {
        for (const core::Kernel& row : table) {
            KernelInfo info;
            info.name = row.name;
            info.backend = row.backend;
            info.description = row.description;
            info.refusal = row.missing_features();
            info.available = info.refusal.empty();
            list.push_back(std::move(info));
        }
    }
    return list;
}

std::vector<KernelInfo> explain_dispatch(const ScoreRequest& request) {
    const core::Problem problem = core::make_problem(request);
    const std::string_view forced = core::forced_name(request.options.kernel);
    const std::vector<core::Verdict> verdicts = core::judge(problem.params, forced);
    const core::Kernel* chosen = core::first_accepted(verdicts);
    std::vector<KernelInfo> list = kernels();
    for (std::size_t i = 0; i < list.size(); ++i) {
        list[i].refusal = verdicts[i].named ? verdicts[i].refusal : fmt::format("'{}' is forced", forced);
        list[i].chosen = verdicts[i].row == chosen;
    }
    return list;
}

}  // namespace rowmax
