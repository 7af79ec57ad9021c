// rowmax pack: any input -> a corpus file, or an index.
#include "io/pack.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/outputs.hpp"
#include "cli/pack_index.hpp"
#include "cli/shared.hpp"

namespace rowmax::cli {

namespace {

struct PackCommand {
    std::string input;
    std::string output;
    std::string convert;
    std::vector<std::string> coarse;
    bool index = false;
    PackIndexOptions index_options;
    ComputeOptions compute;
    InputOptions load;
    bool json = false;
};

void report(const PackCommand& command, const std::string& json, const std::string& text) {
    if (command.json) {
        write_all("-", json + "\n");
    } else {
        say(fmt::format("{}: {}", command.output, text));
    }
}

void run_pack_corpus(const PackCommand& command, const io::TokenSource& source) {
    Progress progress("packing", "documents");
    io::PackOptions options;
    options.progress = progress.callback();
    if (!command.convert.empty()) options.dtype = dtype_from_name(command.convert);
    for (const std::string& form : command.coarse) options.coarse.push_back(coarse_from_name(form));
    // A block is read, and perhaps converted: two copies at most.
    if (const std::int64_t memory = memory_bytes(command.compute); memory > 0)
        options.block_bytes = std::min(options.block_bytes, std::max<std::int64_t>(memory / 4, 1));
    const io::PackReport done = io::pack(source, command.output, options);
    progress.finish();
    report(command,
           fmt::format("{{\"documents\": {}, \"tokens\": {}, \"bytes\": {}}}", done.documents, done.tokens,
                       done.file_bytes),
           fmt::format("{} documents, {} tokens, {} bytes", done.documents, done.tokens, done.file_bytes));
}

void run_pack_index(const PackCommand& command, const io::TokenSource& source) {
    if (!command.convert.empty()) throw UsageError("--to: an index has types of its own");
    if (!command.coarse.empty()) throw UsageError("--coarse: an index has none");
    PackIndexOptions options = command.index_options;
    options.memory = memory_bytes(command.compute);
    const io::PlaidWriteReport done = pack_index(source, command.output, options);
    report(command,
           fmt::format("{{\"documents\": {}, \"tokens\": {}, \"centroids\": {}, \"chunks\": {}}}", done.documents,
                       done.tokens, done.centroids, done.chunks),
           fmt::format("{} documents, {} tokens, {} centroids", done.documents, done.tokens, done.centroids));
}

void run_pack(const PackCommand& command) {
    if (!command.index && command.index_options.any())
        throw UsageError("--nbits, --centroids, --iterations and --threads go with --index");
    if (command.output == "-")
        throw UsageError(
            "--output -: what is packed needs a file, or a folder, and is no stream; ./- is one of that name");
    check_outputs({{"--output", command.output}}, {command.input, command.load.ids});
    const io::TokenSource source = load_input(command.input, command.load, command.compute);
    command.index ? run_pack_index(command, source) : run_pack_corpus(command, source);
}

void add_index_options(Command& sub, PackCommand& command) {
    sub.add_flag("--index", command.index,
                 "Write a folder that fast-plaid and next-plaid read, for `rowmax search --index`");
    sub.add("--nbits", command.index_options.nbits, "With --index: bits of a residual's bucket: 1, 2, 4 or 8 (4)")
        .one_of({"1", "2", "4", "8"});
    sub.add("--centroids", command.index_options.centroids,
            "With --index: how many; when left out, the power of two at or below 16 sqrt(tokens)")
        .at_least(1);
    sub.add("--iterations", command.index_options.iterations, "With --index: rounds of k-means (4)").between(0, 1000);
    sub.add("--threads", command.index_options.threads,
            "With --index: CPU threads; 0: ROWMAX_THREADS, or all. The bytes do not depend on it")
        .between(0, 4096);
}

}  // namespace

void add_pack(Program& program) {
    Command sub = program.add_command("pack", "Pack token embeddings into a corpus file, or an index");
    auto command = std::make_shared<PackCommand>();
    sub.add("input", command->input, "Tokens: .npy, .npz, safetensors, a folder of .npy, or a corpus").required();
    sub.add("-o,--output", command->output, "The corpus file (or folder); it appears whole or not at all").required();
    sub.add("--to", command->convert,
            "Convert tokens, rounding to nearest even; a value that would overflow is an error")
        .one_of({"float16", "bfloat16", "float32", "float64"});
    sub.add("--coarse", command->coarse,
            "Store this form of the tokens too, for `rowmax search --candidates`: int8, fp8 or bits; or several")
        .one_of({"int8", "fp8", "bits"})
        .split_at_commas();
    add_index_options(sub, *command);
    sub.add_flag("--json", command->json, "Report as JSON on standard output");
    add_memory_option(sub, command->compute);
    add_input_options(sub, command->load, "", "the documents");
    sub.set_footer(
        "Tokens that a mask or lengths in the input hide are left out, ids are kept. Packed corpora are read in place "
        "by\n"
        "search, whatever their size. With --index tokens are scaled to length 1, and ids are not kept: an index has "
        "none.\n\n"
        "Examples:\n"
        "  rowmax pack docs.npz -o docs.rmx\n"
        "  rowmax pack pages/ --to float16 -o pages.rmx\n"
        "  rowmax pack docs.npz --coarse int8 -o docs.rmx\n"
        "  rowmax pack docs.npz --index --nbits 2 -o plaid/\n"
        "  rowmax pack model-output.safetensors --tensor embeddings --ids ids.txt -o docs.rmx");
    sub.runs([command] { run_pack(*command); });
}

}  // namespace rowmax::cli
