// rowmax search: queries + corpora -> a ranked run.
#include "stream/search.hpp"

#include <fmt/format.h>

#include <chrono>
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
#include "cli/search_index.hpp"
#include "cli/shared.hpp"
#include "cli/signals.hpp"
#include "io/ids.hpp"
#include "io/ranking.hpp"
#include "stream/checkpoint.hpp"

namespace rowmax::cli {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct SearchCommand {
    std::string queries;
    std::vector<std::string> corpora;
    std::string index;
    std::int64_t k = 100;
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

std::string check_tag(const std::string& tag) {
    try {
        io::check_id(tag, "tag");
        return {};
    } catch (const Error& error) {
        return error.what();
    }
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
    options.k = command.k;
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

// Empty: none.
std::string checkpoint_path(const SearchCommand& command) {
    if (command.no_checkpoint) return {};
    if (!command.checkpoint.empty() || command.output.empty()) return command.checkpoint;
    return command.output + ".checkpoint";
}

/// Saves a search now and then, so that a rerun of the same command continues it.
class Checkpoints {
  public:
    /// `beside_output`: the output is a file, so that there is a place for its checkpoint.
    Checkpoints(const SearchCommand& command, stream::Search& search, bool beside_output)
        : search_(search), every_(command.checkpoint_every) {
        if (command.checkpoint.empty() && !beside_output) return;
        path_ = checkpoint_path(command);
        if (path_.empty()) return;
        identity_ = stream::search_identity(search) +
                    fmt::format("tensors: '{}' and '{}'\n", command.query_input.tensor, command.corpus_input.tensor);
    }

    void resume() {
        if (path_.empty()) return;
        const stream::ResumeResult result = stream::resume_checkpoint(path_, identity_, search_);
        if (result.outcome == stream::Resumed::foreign) {
            throw UsageError(
                fmt::format("--checkpoint {}: this file is no checkpoint of a search, and would be lost; remove it, or "
                            "name another",
                            path_));
        }
        if (result.outcome == stream::Resumed::refused)
            say(fmt::format("starting afresh: {} cannot be continued, {}", path_, result.reason));
        if (result.outcome == stream::Resumed::taken)
            say(fmt::format("continuing from {} ({:.1f} % done)", path_, percent()));
    }

    /// Saves if one is due: after the interval, or longer when saving itself takes its time.
    void tick() {
        if (path_.empty() || Seconds(Clock::now() - saved_at_).count() < every_) return;
        save();
    }

    /// False when this search keeps no checkpoints.
    bool save() {
        if (path_.empty()) return false;
        search_.settle();  // work, not saving
        const Clock::time_point start = Clock::now();
        stream::save_checkpoint(path_, identity_, search_);
        saved_at_ = Clock::now();
        saved_ = search_.pairs_done();
        every_ = std::max(every_, 20 * Seconds(saved_at_ - start).count());
        return true;
    }

    /// Before the output is written, which may fail: a search long enough to have been saved is saved whole.
    void finish() {
        tick();
        if (saved_ > 0 && saved_ < search_.pairs_done()) save();
    }

    void remove() const {
        std::error_code absent;
        if (!path_.empty()) std::filesystem::remove(path_, absent);
    }

  private:
    [[nodiscard]] double percent() const {
        return 100.0 * static_cast<double>(search_.pairs_done()) /
               static_cast<double>(std::max<std::int64_t>(search_.pairs_total(), 1));
    }
    stream::Search& search_;
    double every_;
    std::string path_;
    std::string identity_;
    Clock::time_point saved_at_ = Clock::now();
    std::int64_t saved_ = 0;
};

void run_steps(stream::Search& search, Checkpoints& checkpoints) {
    Progress progress("searching", "pairs");
    try {
        while (search.step()) {
            progress.update(search.pairs_done(), search.pairs_total());
            checkpoints.tick();
        }
    } catch (const Interrupted&) {
        if (checkpoints.save()) say("the same command continues this search");
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
    Checkpoints checkpoints(command, search, !out.direct());
    checkpoints.resume();
    run_steps(search, checkpoints);
    write_run(command, ranking_of(search), out);
    out.commit();
    checkpoints.remove();
}

// An index is scored on the CPU, in one go.
void run_index_search(const SearchCommand& command) {
    if (!command.corpora.empty())
        throw UsageError("--index: it takes the place of the corpora, of which some are named");
    if (command.compute.device != "auto" && command.compute.device != "cpu") {
        throw UsageError(fmt::format("--device {}: an index is scored on the CPU", command.compute.device));
    }
    if (command.compute.normalize) throw UsageError("--normalize: the tokens of an index are normalised as it is");
    check_outputs({{"--output", command.output}}, {command.queries, command.query_input.ids});
    io::OutputFile out = open_output(command.output);
    const io::TokenSource queries = load_input(command.queries, command.query_input, command.compute);
    const io::PlaidIndex index = io::PlaidIndex::open(command.index);
    write_run(command, search_index(index, queries, command.k, score_options(command.compute)), out);
    out.commit();
}

void run(const SearchCommand& command) {
    if (!command.index.empty()) return run_index_search(command);
    if (command.corpora.empty()) throw UsageError("corpora: name some, or an --index");
    run_search(command);
}

void add_options(Command& app, SearchCommand& command) {
    app.add("queries", command.queries, "Query tokens: .npy, .npz, safetensors, a folder of .npy, or a corpus")
        .required();
    app.add("corpora", command.corpora, "Document tokens, one input or several: the same kinds");
    app.add("--index", command.index, "A folder that fast-plaid, next-plaid or ColBERTv2 wrote, in place of corpora");
    app.add("-k", command.k, "Documents to return for each query").show_default().at_least(1);
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
        "Every document is scored exactly; equal scores: first document first. Corpus files are read in place, so a "
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
        "--index ranks all documents of a PLAID index by their decoded tokens, exactly; ids are document numbers. It "
        "neither\n"
        "saves progress nor uses a device.\n\nExamples:\n"
        "  rowmax search queries.npy docs.rmx -k 10\n"
        "  rowmax search queries.npz part1.rmx part2.rmx -k 1000 --memory 4G -o run.trec\n"
        "  rowmax search queries.npy docs.rmx --device all -o run.trec\n"
        "  rowmax search queries.npy --index plaid/ -k 10\n"
        "  rowmax search queries.npy pages/ --normalize --format jsonl | jq .hits[0]");
    sub.runs([command] { run(*command); });
}

}  // namespace rowmax::cli
