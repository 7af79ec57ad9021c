// rowmax pack: any input -> a corpus file.
#include "io/pack.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/outputs.hpp"
#include "cli/shared.hpp"

namespace rowmax::cli {

namespace {

struct PackCommand {
    std::string input;
    std::string output;
    std::string convert;
    ComputeOptions compute;
    InputOptions load;
    bool json = false;
};

void run_pack(const PackCommand& command) {
    check_outputs({{"--output", command.output}}, {command.input, command.load.ids});
    const io::TokenSource source = load_input(command.input, command.load, command.compute);
    Progress progress("packing", "documents");
    io::PackOptions options;
    options.progress = progress.callback();
    if (!command.convert.empty()) options.dtype = dtype_from_name(command.convert);
    // A block is read, and perhaps converted: two copies at most.
    if (const std::int64_t memory = memory_bytes(command.compute); memory > 0)
        options.block_bytes = std::min(options.block_bytes, std::max<std::int64_t>(memory / 4, 1));
    const io::PackReport report = io::pack(source, command.output, options);
    progress.finish();
    if (command.json) {
        write_all("-", fmt::format("{{\"documents\": {}, \"tokens\": {}, \"bytes\": {}}}\n", report.documents,
                                   report.tokens, report.file_bytes));
    } else {
        say(fmt::format("{}: {} documents, {} tokens, {} bytes", command.output, report.documents, report.tokens,
                        report.file_bytes));
    }
}

}  // namespace

void add_pack(Program& program) {
    Command sub = program.add_command("pack", "Pack token embeddings into a corpus file");
    auto command = std::make_shared<PackCommand>();
    sub.add("input", command->input, "Tokens: .npy, .npz, safetensors, a folder of .npy, or a corpus").required();
    sub.add("-o,--output", command->output, "The corpus file; it appears whole or not at all").required();
    sub.add("--to", command->convert,
            "Convert tokens, rounding to nearest even; a value that would overflow is an error")
        .one_of({"float16", "bfloat16", "float32", "float64"});
    sub.add_flag("--json", command->json, "Report as JSON on standard output");
    add_memory_option(sub, command->compute);
    add_input_options(sub, command->load, "", "the documents");
    sub.set_footer(
        "Tokens that a mask or lengths in the input hide are left out, ids are kept. Packed corpora are read in place "
        "by\n"
        "search, whatever their size.\n\nExamples:\n"
        "  rowmax pack docs.npz -o docs.rmx\n"
        "  rowmax pack pages/ --to float16 -o pages.rmx\n"
        "  rowmax pack model-output.safetensors --tensor embeddings --ids ids.txt -o docs.rmx");
    sub.runs([command] { run_pack(*command); });
}

}  // namespace rowmax::cli
