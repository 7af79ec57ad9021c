// rowmax kernels: the rows of the dispatch table, and which of them runs for a given call.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/devices.hpp"
#include "cli/shared.hpp"
#include "cli/table.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::cli {

namespace {

struct KernelsCommand {
    std::optional<std::int64_t> dim;
    std::optional<std::string> dtype;
    std::int64_t query_length = 32;
    std::int64_t document_length = 180;
    ComputeOptions compute;
    bool json = false;
};

bool asks_for_a_call(const KernelsCommand& command) {
    return command.dim || command.dtype || command.compute.normalize || !command.compute.kernel.empty();
}

// A call of this shape over one row of memory, or on a device: dispatch looks at shapes, never at tokens.
std::vector<KernelInfo> explain(const KernelsCommand& command, int device) {
    const std::int64_t dim = command.dim.value_or(128);
    const DType dtype = dtype_from_name(command.dtype.value_or("float32"));
    const std::vector<std::byte> row(static_cast<std::size_t>(dim) * size_of(dtype));
    const auto tokens = [&](std::int64_t length) {
        const std::int64_t shape[] = {length, dim};
        const std::int64_t stride[] = {device < 0 ? 0 : dim, 1};
        return TensorView(row.data(), dtype, shape, stride);
    };
    ScoreRequest request;
    request.q.tokens = tokens(command.query_length);
    request.d.tokens = tokens(command.document_length);
    request.options = score_options(command.compute);
    if (device >= 0) request.options.device = {Device::Kind::cuda, device};
    return explain_dispatch(request);
}

/// What a command would do: a device that is left to us serves where it has a kernel.
std::vector<KernelInfo> explain_where_it_runs(const KernelsCommand& command, const Devices& devices) {
    constexpr auto chosen = [](const KernelInfo& row) { return row.chosen; };
    if (devices.cuda.empty()) return explain(command, -1);
    std::vector<KernelInfo> rows = explain(command, devices.cuda.front());
    const bool served = std::any_of(rows.begin(), rows.end(), chosen);
    return served || !devices.left_to_us ? rows : explain(command, -1);
}

std::string as_text(const std::vector<KernelInfo>& rows, bool judged) {
    Table table({"kernel", judged ? "runs" : "available", "what it is, and why not"});
    for (const KernelInfo& row : rows) {
        const bool yes = judged ? row.chosen : row.available;
        const std::string later = judged && !row.chosen && row.refusal.empty() ? "accepts too" : "no";
        table.add({row.name, yes ? "yes" : later,
                   row.refusal.empty() ? row.description : fmt::format("{} [{}]", row.description, row.refusal)});
    }
    return table.text();
}

std::string as_json(const std::vector<KernelInfo>& rows, bool judged) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const KernelInfo& row : rows) {
        nlohmann::ordered_json item = {{"name", row.name},
                                       {"backend", row.backend},
                                       {"description", row.description},
                                       {"available", row.available},
                                       {"refusal", row.refusal}};
        if (judged) item["chosen"] = row.chosen;
        list.push_back(std::move(item));
    }
    return list.dump(2) + "\n";
}

void run_kernels(const KernelsCommand& command) {
    const bool judged = asks_for_a_call(command);
    score_options(command.compute);  // refuses a kernel that does not exist
    const Devices devices = choose_devices(command.compute);
    const std::vector<KernelInfo> rows = judged ? explain_where_it_runs(command, devices) : kernels();
    write_all("-", command.json ? as_json(rows, judged) : as_text(rows, judged));
}

}  // namespace

void add_kernels(Program& program) {
    Command sub = program.add_command("kernels", "List the kernels, and which one runs for a call");
    auto command = std::make_shared<KernelsCommand>();
    sub.add("-d,--dim", command->dim, "Dimension of a token [128 when a call is described]").between(1, 4096);
    sub.add("--dtype", command->dtype, "Type of the tokens [float32 when a call is described]")
        .one_of({"float16", "bfloat16", "float32", "float64"});
    sub.add("--lq", command->query_length, "Query tokens").show_default().at_least(0);
    sub.add("--ld", command->document_length, "Document tokens").show_default().at_least(0);
    add_compute_options(sub, command->compute);
    sub.add_flag("--json", command->json, "JSON");
    sub.set_footer(
        "Kernels are listed in order of preference: the first that accepts a call runs, unless --kernel or "
        "ROWMAX_KERNEL\n"
        "names another.\n\nExamples:\n"
        "  rowmax kernels\n"
        "  rowmax kernels --dtype float16 --dim 96\n"
        "  rowmax kernels --device cpu --dtype float16\n"
        "  rowmax kernels --kernel cpu.scalar4 --json");
    sub.runs([command] { run_kernels(*command); });
}

}  // namespace rowmax::cli
