// rowmax inspect: what is in a file.
#include "io/inspect.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/commands.hpp"
#include "cli/inspect_index.hpp"
#include "cli/shared.hpp"
#include "cli/token_statistics.hpp"
#include "io/plaid_index.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::cli {

namespace {

using Json = nlohmann::ordered_json;

struct InspectCommand {
    std::string path;
    bool deep = false;
    bool json = false;
    InputOptions load;
};

struct Findings {
    io::FileSummary file;
    std::optional<Error> no_tokens;  ///< why the input cannot be scored
    std::optional<io::TokenSource> tokens;
    LengthHistogram lengths;
    std::optional<NormStatistics> norms;  ///< --deep
};

void verify(const std::string& corpus) {
    Progress progress("verifying", "bytes");
    Corpus::open(corpus).verify([&](std::uint64_t done, std::uint64_t total) {
        progress.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
    });
    progress.finish();
}

void look_at_tokens(const InspectCommand& command, Findings& found) {
    found.tokens = load_input(command.path, command.load, {});
    found.lengths = item_lengths(*found.tokens);
    if (!command.deep) return;
    if (found.tokens->format() == "corpus") verify(command.path);
    Progress progress("inspecting", "items");
    found.norms = token_norms(*found.tokens, progress.callback());
    progress.finish();
}

Findings look(const InspectCommand& command) {
    Findings found;
    found.file = io::inspect(command.path);
    try {
        look_at_tokens(command, found);
    } catch (const Error& error) {
        found.no_tokens = error;
    }
    return found;
}

std::string tokens_text(const Findings& found) {
    const io::TokenSource& tokens = *found.tokens;
    const LengthHistogram& lengths = found.lengths;
    std::string text = fmt::format("items       {}, {} tokens, d = {}, {}\n", tokens.count(), tokens.token_count(),
                                   tokens.dim(), name_of(tokens.dtype()));
    if (tokens.count() == 0) return text;
    text += fmt::format("ids         {}: {} ... {}\n", tokens.ids().stored() ? "stored" : "numbers", tokens.id(0),
                        tokens.id(tokens.count() - 1));
    text += fmt::format("lengths     {} to {}, median {}\n", lengths.least, lengths.largest, lengths.median);
    for (const LengthHistogram::Bin& bin : lengths.bins) {
        const auto width = static_cast<std::size_t>((40 * bin.count + tokens.count() - 1) / tokens.count());
        text += fmt::format("  <= {:>7}  {:>10}  {}\n", bin.at_most, bin.count, std::string(width, '#'));
    }
    return text;
}

std::string norms_text(const NormStatistics& norms) {
    return fmt::format(
        "norms       {:.6g} to {:.6g}, mean {:.6g}\nchecked     {} tokens: {} zero, {} with NaN, {} infinite; {} "
        "hidden\n",
        norms.least, norms.largest, norms.mean, norms.tokens, norms.zero, norms.nan, norms.infinite, norms.hidden);
}

std::string as_text(const Findings& found, const std::string& path) {
    constexpr std::size_t shown = 20;  // a folder may hold a million files
    std::string text =
        fmt::format("file        {}\nformat      {}, {} bytes\n", path, found.file.format, found.file.file_bytes);
    for (std::size_t i = 0; i < std::min(shown, found.file.arrays.size()); ++i) {
        const io::ArrayInfo& array = found.file.arrays[i];
        text += fmt::format("array       {} {} [{}]{}\n", array.name, array.type.spelled, fmt::join(array.shape, ", "),
                            array.compressed ? ", compressed" : "");
    }
    if (found.file.arrays.size() > shown)
        text += fmt::format("            and {} more\n", found.file.arrays.size() - shown);
    if (found.tokens) text += tokens_text(found);
    if (found.norms) text += norms_text(*found.norms);
    return text;
}

Json tokens_json(const Findings& found) {
    const io::TokenSource& tokens = *found.tokens;
    Json bins = Json::array();
    for (const LengthHistogram::Bin& bin : found.lengths.bins)
        bins.push_back({{"at_most", bin.at_most}, {"count", bin.count}});
    return {{"items", tokens.count()},
            {"tokens", tokens.token_count()},
            {"dim", tokens.dim()},
            {"dtype", name_of(tokens.dtype())},
            {"ids_stored", tokens.ids().stored()},
            {"length",
             {{"min", found.lengths.least},
              {"median", found.lengths.median},
              {"max", found.lengths.largest},
              {"histogram", bins}}}};
}

std::string as_json(const Findings& found, const std::string& path) {
    Json root = {
        {"path", path}, {"format", found.file.format}, {"bytes", found.file.file_bytes}, {"arrays", Json::array()}};
    for (const io::ArrayInfo& array : found.file.arrays) {
        root["arrays"].push_back({{"name", array.name},
                                  {"dtype", array.type.spelled},
                                  {"shape", array.shape},
                                  {"bytes", array.bytes},
                                  {"compressed", array.compressed}});
    }
    if (found.tokens) root["tokens"] = tokens_json(found);
    if (found.norms) {
        const NormStatistics& norms = *found.norms;
        root["norms"] = {{"min", norms.least},     {"mean", norms.mean},    {"max", norms.largest},
                         {"zero", norms.zero},     {"nan", norms.nan},      {"infinite", norms.infinite},
                         {"tokens", norms.tokens}, {"hidden", norms.hidden}};
    }
    if (found.no_tokens) root["error"] = found.no_tokens->what();
    return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void run_inspect(const InspectCommand& command) {
    if (io::is_plaid_index(command.path)) {
        write_all("-", index_report(command.path, command.deep, command.json));
        return;
    }
    const Findings found = look(command);
    write_all("-", command.json ? as_json(found, command.path) : as_text(found, command.path));
    if (found.no_tokens) throw Error(*found.no_tokens);
}

}  // namespace

void add_inspect(Program& program) {
    Command sub = program.add_command("inspect", "Say what is in a file");
    auto command = std::make_shared<InspectCommand>();
    sub.add("path", command->path, ".npy, .npz, safetensors, a folder of .npy, a corpus, or a PLAID index").required();
    sub.add_flag("--deep", command->deep, "Read everything: norms, NaN and infinities, checksums of a corpus");
    sub.add_flag("--json", command->json, "JSON");
    add_input_options(sub, command->load, "", "the items");
    sub.set_footer(
        "Exit code 3 when the input cannot be scored; what could be read is shown all the same.\n\nExamples:\n"
        "  rowmax inspect docs.rmx\n"
        "  rowmax inspect embeddings.npz --deep --json");
    sub.runs([command] { run_inspect(*command); });
}

}  // namespace rowmax::cli
