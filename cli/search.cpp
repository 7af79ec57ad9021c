// rowmax search: queries + corpora -> a ranked run.
#include "stream/search.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "cli/commands.hpp"
#include "cli/devices.hpp"
#include "cli/exit_code.hpp"
#include "cli/hits_npy.hpp"
#include "cli/outputs.hpp"
#include "cli/search_checkpoints.hpp"
#include "cli/search_index.hpp"
#include "cli/search_two_stage.hpp"
#include "cli/shared.hpp"
#include "cli/signals.hpp"
#include "io/ids.hpp"
#include "io/ranking.hpp"
#include "stream/checkpoint.hpp"

namespace rowmax::cli {

namespace {

struct SearchCommand {
    std::string queries;
    std::vector<std::string> corpora;
    std::string index;
    std::optional<std::int64_t> nprobe;
    std::optional<std::int64_t> candidates;
    std::string threshold;
    std::string coarse;
    bool exact = false;
    std::optional<std::int64_t> k;
    std::string format;
    std::string tag = "rowmax";
    std::string output;
    std::string checkpoint;
    double checkpoint_every = 2;
    bool no_checkpoint = false;
    ComputeOptions compute;
    InputOptions query_input;
    InputOptions corpus_input;
};

/// Documents to return for each query.
std::int64_t wanted_hits(const SearchCommand& command) {
    constexpr std::int64_t usual = 100;
    return command.k.value_or(std::min(usual, command.candidates.value_or(usual)));
}

std::string check_tag(const std::string& tag) {
    try {
        io::check_id(tag, "tag");
        return {};
    } catch (const Error& error) {
        return error.what();
    }
}

std::string check_number(const std::string& text) {
    char* end = nullptr;
    const float value = std::strtof(text.c_str(), &end);
    return text.empty() || *end != '\0' || value != value ? fmt::format("'{}' is not a number", text) : std::string();
}

// The format that was asked for, or else what the output's name says.
std::string format_of(const SearchCommand& command) {
    if (!command.format.empty()) return command.format;
    for (const char* format : {"jsonl", "tsv", "npy"}) {
        if (command.output.ends_with(std::string(".") + format)) return format;
    }
    return "trec";
}

stream::Search start_search(const SearchCommand& command, const io::TokenSource& queries,
                            const std::vector<io::TokenSource>& corpora, const stream::SearchOptions& options) {
    try {
        return {queries, corpora, options};
    } catch (const Error& error) {
        if (error.code() != ErrorCode::out_of_memory) throw;
        throw UsageError(fmt::format("--memory {}: {}", command.compute.memory, error.what()));
    }
}

stream::Search open_search(const SearchCommand& command) {
    stream::SearchOptions options;
    options.k = wanted_hits(command);
    options.score = score_options(command.compute);
    const Devices devices = choose_devices(command.compute);
    options.devices = devices.cuda;
    const io::TokenSource queries = load_input(command.queries, command.query_input, command.compute);
    std::vector<io::TokenSource> corpora;
    for (const std::string& path : command.corpora)
        corpora.push_back(load_input(path, command.corpus_input, command.compute));
    options.memory = memory_cap(command.compute);
    options.held = held_bytes();
    try {
        return start_search(command, queries, corpora, options);
    } catch (const Error& error) {
        // float64 tokens, or a kernel of the CPU by name.
        if (!devices.left_to_us || error.code() != ErrorCode::not_implemented) throw;
        options.devices.clear();
        return start_search(command, queries, corpora, options);
    }
}

/// Empty: none.
std::string checkpoint_path(const SearchCommand& command) {
    if (command.no_checkpoint) return {};
    if (!command.checkpoint.empty() || command.output.empty()) return command.checkpoint;
    return command.output + ".checkpoint";
}

/// The same where `out` is a stream, which has no place for one beside it.
std::string kept_checkpoint(const SearchCommand& command, const io::OutputFile& out) {
    return command.checkpoint.empty() && out.direct() ? std::string() : checkpoint_path(command);
}

std::string identity_of(const SearchCommand& command, const stream::Search& search) {
    return stream::search_identity(search) +
           fmt::format("tensors: '{}' and '{}'\n", command.query_input.tensor, command.corpus_input.tensor);
}

constexpr const char* const continues = "the same command continues this search";

void run_steps(stream::Search& search, Checkpoints& checkpoints) {
    Progress progress("searching", "pairs");
    try {
        while (search.step()) {
            progress.update(search.pairs_done(), search.pairs_total());
            checkpoints.tick();
        }
    } catch (const Interrupted&) {
        if (checkpoints.save()) say(continues);
        throw;
    }
    checkpoints.finish();
    progress.finish();
}

// Ids differ within an input, but two inputs may share some.
std::string repeated_id(const std::vector<io::RankedHit>& hits) {
    std::unordered_set<std::string_view> seen;
    for (const io::RankedHit& hit : hits) {
        if (!seen.insert(hit.doc).second) return hit.doc;
    }
    return {};
}

Ranking ranking_of(const stream::Search& search) {
    return {search.query_count(),
            std::min(search.options().k, search.document_count()),
            search.score_dtype(),
            [&](std::int64_t i) { return search.query_id(i); },
            [&](std::int64_t document) { return search.document_id(document); },
            [&](std::int64_t i) { return search.ranked(i); }};
}

void write_run(const SearchCommand& command, const Ranking& ranking, io::OutputFile& out) {
    const std::string format = format_of(command);
    if (format == "npy") {
        write_hits_npy(out, ranking);
        return;
    }
    const auto style = format == "jsonl" ? io::RankingFormat::jsonl
                       : format == "tsv" ? io::RankingFormat::tsv
                                         : io::RankingFormat::trec;
    io::RankingWriter writer(out, style, ranking.score_dtype, command.tag);
    bool warned = false;
    for (std::int64_t i = 0; i < ranking.query_count; ++i) {
        check_interrupted();
        std::vector<io::RankedHit> hits;
        for (const core::Hit& hit : ranking.ranked(i)) hits.push_back({ranking.document_id(hit.document), hit.score});
        if (const std::string twice = repeated_id(hits); !twice.empty() && !warned) {
            say(fmt::format("the id '{}' names several documents, which the run cannot tell apart", twice));
            warned = true;
        }
        writer.write(ranking.query_id(i), hits);
    }
}

void check_files(const SearchCommand& command) {
    std::vector<std::string> inputs = command.corpora;
    inputs.insert(inputs.end(), {command.queries, command.query_input.ids, command.corpus_input.ids});
    std::vector<OutputPath> outputs{{"--output", command.output}};
    const std::string checkpoint = checkpoint_path(command);
    if (!checkpoint.empty()) outputs.push_back({"--checkpoint", checkpoint});
    check_outputs(outputs, inputs);
}

void run_search(const SearchCommand& command) {
    check_files(command);
    io::OutputFile out = open_output(command.output);
    stream::Search search = open_search(command);
    const std::string saved = kept_checkpoint(command, out);
    Checkpoints checkpoints(search, saved, saved.empty() ? saved : identity_of(command, search),
                            command.checkpoint_every);
    checkpoints.resume();
    run_steps(search, checkpoints);
    try {
        write_run(command, ranking_of(search), out);
    } catch (const Interrupted&) {
        if (checkpoints.any()) say(continues);
        throw;
    }
    out.commit();
    checkpoints.remove();
}

/// Whether the lists of an index are to be asked.
bool probes(const SearchCommand& command) {
    return command.nprobe || command.candidates || !command.threshold.empty();
}

void refuse_devices(const SearchCommand& command, const char* what) {
    if (command.compute.device == "auto" || command.compute.device == "cpu") return;
    throw UsageError(fmt::format("--device {}: {} is scored on the CPU", command.compute.device, what));
}

[[noreturn]] void too_little_memory(const SearchCommand& command, const Error& error) {
    throw UsageError(fmt::format("--memory {}: {}", command.compute.memory, error.what()));
}

// Corpora with a coarse form, on the CPU, in one go.
void run_two_stage_search(const SearchCommand& command) {
    refuse_devices(command, "a coarse form");
    if (command.compute.normalize) throw UsageError("--normalize: a coarse form is of tokens as they are");
    check_files(command);
    io::OutputFile out = open_output(command.output);
    const io::TokenSource queries = load_input(command.queries, command.query_input, command.compute);
    std::vector<io::TokenSource> corpora;
    for (const std::string& path : command.corpora)
        corpora.push_back(load_input(path, command.corpus_input, command.compute));
    const TwoStageRequest request{wanted_hits(command), *command.candidates, command.coarse,
                                  memory_cap(command.compute), score_options(command.compute)};
    try {
        write_run(command, search_two_stage(queries, corpora, request), out);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::out_of_memory || command.compute.memory.empty()) throw;
        too_little_memory(command, error);
    }
    out.commit();
}

PlaidSearchOptions plaid_options(const SearchCommand& command) {
    PlaidSearchOptions how;
    how.nprobe = command.nprobe.value_or(how.nprobe);
    how.candidates = command.candidates.value_or(how.candidates);
    if (!command.threshold.empty()) how.threshold = std::strtof(command.threshold.c_str(), nullptr);
    return how;
}

// An index is scored on the CPU, in one go.
void run_index_search(const SearchCommand& command) {
    if (!command.corpora.empty())
        throw UsageError("--index: it takes the place of the corpora, of which some are named");
    refuse_devices(command, "an index");
    if (!command.coarse.empty()) throw UsageError("--coarse: an index has none");
    if (command.compute.normalize) throw UsageError("--normalize: the tokens of an index are normalised as it is");
    if (probes(command) && !command.compute.memory.empty())
        throw UsageError("--memory: it does not bound a search by --nprobe, which holds tables of the index");
    if (command.exact && probes(command)) {
        throw UsageError("--exact: --nprobe, --candidates and --threshold look at some of the documents only");
    }
    check_outputs({{"--output", command.output}}, {command.queries, command.query_input.ids});
    io::OutputFile out = open_output(command.output);
    const io::TokenSource queries = load_input(command.queries, command.query_input, command.compute);
    const io::PlaidIndex index = io::PlaidIndex::open(command.index);
    const Options options = score_options(command.compute);
    const std::int64_t k = wanted_hits(command);
    try {
        write_run(command,
                  probes(command) ? probe_index(index, queries, k, plaid_options(command), options)
                                  : search_index(index, queries, k, options, memory_cap(command.compute)),
                  out);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::out_of_memory || command.compute.memory.empty()) throw;
        too_little_memory(command, error);
    }
    out.commit();
}

void run(const SearchCommand& command) {
    if (command.candidates.value_or(wanted_hits(command)) < wanted_hits(command)) {
        throw UsageError(
            fmt::format("--candidates {}: so many documents get exact scores, fewer than the -k {} to return",
                        *command.candidates, *command.k));
    }
    if (!command.index.empty()) return run_index_search(command);
    if (command.corpora.empty()) throw UsageError("corpora: name some, or an --index");
    if (command.nprobe || !command.threshold.empty()) throw UsageError("--nprobe and --threshold go with an --index");
    if (!command.candidates && !command.coarse.empty()) throw UsageError("--coarse goes with --candidates");
    if (command.candidates && command.exact)
        throw UsageError("--exact: --candidates gives exact scores to some documents only");
    if (command.candidates) return run_two_stage_search(command);
    run_search(command);
}

void add_options(Command& app, SearchCommand& command) {
    app.add("queries", command.queries, "Query tokens: .npy, .npz, safetensors, a folder of .npy, or a corpus")
        .required();
    app.add("corpora", command.corpora, "Document tokens, one input or several: the same kinds");
    app.add("--index", command.index, "A folder that fast-plaid, next-plaid or ColBERTv2 wrote, in place of corpora");
    app.add("--nprobe", command.nprobe,
            "With --index: look only at documents near so many centroids of each query token, as PLAID does (8 when "
            "--candidates or --threshold is given)")
        .at_least(1);
    app.add("--candidates", command.candidates,
            "Score so many documents exactly: with --index the best of those by their centroids (1024), else the best "
            "of all by the coarse form of the corpora")
        .at_least(1);
    app.add("--coarse", command.coarse,
            "With --candidates: the coarse form to scan, int8, fp8 or bits; when left out, the first that all corpora "
            "have")
        .one_of({"int8", "fp8", "bits"});
    app.add("--threshold", command.threshold,
            "With --index: leave out centroids below this score in a first round, as PLAID does")
        .satisfies(check_number);
    app.add_flag("--exact", command.exact, "Score every document, which is the default");
    app.add("-k", command.k, "Documents to return for each query (100, or all --candidates where those are fewer)")
        .at_least(1);
    app.add("-o,--output", command.output, "Output file; standard output when left out");
    app.add("--format", command.format,
            "trec, jsonl, tsv or npy; when left out, what the output's name ends in, else trec")
        .one_of({"trec", "jsonl", "tsv", "npy"});
    app.add("--tag", command.tag, "Last column of a TREC run").show_default().satisfies(check_tag);
    app.add("--checkpoint", command.checkpoint, "Where to save progress; when left out, OUTPUT.checkpoint");
    app.add("--checkpoint-every", command.checkpoint_every, "Seconds between checkpoints")
        .show_default()
        .within(0.0, 1e9);
    app.add_flag("--no-checkpoint", command.no_checkpoint, "Save no progress");
    add_compute_options(app, command.compute);
    add_memory_option(app, command.compute);
    add_input_options(app, command.query_input, "query-", "the queries");
    add_input_options(app, command.corpus_input, "", "the documents");
}

}  // namespace

void add_search(Program& program) {
    Command sub = program.add_command("search", "Rank the documents of corpora for each query");
    auto command = std::make_shared<SearchCommand>();
    add_options(sub, *command);
    sub.set_footer(
        "Every document is scored exactly, unless --candidates says otherwise; equal scores: first document first. "
        "Corpus files are read in place, so a "
        "corpus\n"
        "may be much larger than memory. While a search runs it saves its progress beside the output; after a crash,\n"
        "a full disk or Ctrl-C the same command continues there and gives the same bytes. A checkpoint of another "
        "search\n"
        "(other options, changed files) is not used: the search says so and starts afresh.\n\n"
        "--device auto takes the first CUDA device that can be used. Blocks of the corpus are streamed there, so it "
        "may be\n"
        "larger than the device's memory; cuda:0,1 and all share them out, with the same result. --memory is the "
        "host's,\n"
        "the buffers of the stream included.\n\n"
        "--format npy writes one array [queries, min(k, documents)] with the fields 'index' (the document's number, "
        "counted\n"
        "through all corpora) and 'score'.\n\n"
        "--index ranks all documents of a PLAID index by their decoded tokens, exactly; ids are document numbers. With "
        "--nprobe\n"
        "only documents near the query's centroids are looked at, whose scores are the same: a list may lack what was "
        "not\n"
        "found, or be short. Neither saves progress nor uses a device.\n\nExamples:\n"
        "  rowmax search queries.npy docs.rmx -k 10\n"
        "  rowmax search queries.npz part1.rmx part2.rmx -k 1000 --memory 4G -o run.trec\n"
        "  rowmax search queries.npy docs.rmx --device all -o run.trec\n"
        "  rowmax search queries.npy --index plaid/ -k 10\n"
        "  rowmax search queries.npy --index plaid/ -k 10 --nprobe 8 --candidates 500\n"
        "  rowmax search queries.npy coarse.rmx -k 10 --candidates 500\n"
        "  rowmax search queries.npy pages/ --normalize --format jsonl | jq .hits[0]");
    sub.runs([command] { run(*command); });
}

}  // namespace rowmax::cli
