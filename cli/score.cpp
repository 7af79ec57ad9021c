// rowmax score: the score of every pair, or of chosen pairs.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/devices.hpp"
#include "cli/exit_code.hpp"
#include "cli/outputs.hpp"
#include "cli/score/pair_list.hpp"
#include "cli/score/score_writer.hpp"
#include "cli/shared.hpp"
#include "io/npy.hpp"
#include "rowmax/maxsim.hpp"
#include "stream/blocks.hpp"
#include "stream/device_scorer.hpp"
#include "stream/step_plan.hpp"

namespace rowmax::cli {

namespace {

using score_command::Format;
using score_command::PairList;
using score_command::ScoreWriter;
using Same = stream::DeviceScorer::Same;

struct ScoreCommand {
    std::string queries;
    std::string documents;
    std::string pairs;
    bool grouped = false;
    std::string query_mask;
    std::string document_mask;
    std::string format;
    std::string output;
    ComputeOptions compute;
    InputOptions query_input;
    InputOptions document_input;
};

struct Inputs {
    io::TokenSource queries;
    io::TokenSource documents;
    Options options;
    int device = -1;  ///< of CUDA; -1: the CPU
};

// A mask beside the tokens: the source seen through it.
io::TokenSource masked(const io::TokenSource& source, const std::string& path, const std::string& option) {
    if (path.empty()) return source;
    io::Array mask = io::aligned(io::read_npy(path));
    io::TokenBlock all = source.all();
    if (all.set.cu_seqlens.given() || all.set.offsets.given()) {
        throw Error(ErrorCode::data,
                    fmt::format("{} {}: masks need dense tokens [N, L, d], {} holds items of different lengths", option,
                                path, source.path().string()));
    }
    all.set.mask = mask.view;
    const auto owner =
        std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(all.owner, mask.owner);
    try {
        return io::tokens_in_memory(all.set, source.ids(), owner);
    } catch (const Error& error) {
        throw Error(ErrorCode::data, fmt::format("{} {}: {}", option, path, error.what()));
    }
}

// Whether its device has a kernel for these tokens.
bool scores_on_device(const Inputs& inputs) {
    if (inputs.queries.count() == 0 || inputs.documents.count() == 0) return true;
    const io::TokenBlock query = inputs.queries.block(0, 1);
    const io::TokenBlock document = inputs.documents.block(0, 1);
    ScoreRequest request;
    request.q = query.set;
    request.d = document.set;
    request.options = inputs.options;
    return stream::DeviceScorer(stream::device_backend(), inputs.device, Same::queries).takes(request);
}

Inputs open_inputs(const ScoreCommand& command) {
    const Options options = score_options(command.compute);
    const Devices devices = choose_devices(command.compute);
    Inputs inputs{
        masked(load_input(command.queries, command.query_input, command.compute), command.query_mask, "--q-mask"),
        masked(load_input(command.documents, command.document_input, command.compute), command.document_mask,
               "--d-mask"),
        options};
    if (devices.cuda.empty()) return inputs;
    inputs.device = devices.cuda.front();
    if (devices.left_to_us && !scores_on_device(inputs)) inputs.device = -1;
    return inputs;
}

Format format_of(const ScoreCommand& command) {
    const auto asks = [&](const std::string& name) {
        return command.format.empty() ? command.output.ends_with("." + name) : command.format == name;
    };
    if (asks("npy")) return Format::npy;
    return asks("jsonl") ? Format::jsonl : Format::tsv;
}

DType score_dtype(const Inputs& inputs) {
    return inputs.queries.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

/// Scores of the kernels' type, to be read as doubles.
class Scores {
  public:
    Scores(const Inputs& inputs, Same same) : dtype_(score_dtype(inputs)) {
        if (inputs.device >= 0) scorer_.emplace(stream::device_backend(), inputs.device, same);
    }
    void run(const ScoreRequest& request) {
        const ResultShape shape = result_shape(request);
        std::int64_t count = 1;
        for (const std::int64_t n : shape.scores) count *= n;
        bytes_.resize(static_cast<std::size_t>(count) * size_of(dtype_));
        ScoreOutputs outputs;
        outputs.scores = TensorView(bytes_.data(), shape.dtype, shape.scores);
        if (scorer_) {
            scorer_->score(request, outputs);
        } else {
            score(request, outputs);
        }
    }
    [[nodiscard]] double at(std::int64_t i) const {
        if (dtype_ == DType::f64) return reinterpret_cast<const double*>(bytes_.data())[i];
        return static_cast<double>(reinterpret_cast<const float*>(bytes_.data())[i]);
    }

  private:
    DType dtype_;
    std::optional<stream::DeviceScorer> scorer_;
    std::vector<std::byte> bytes_;
};

stream::StepNeeds needs_of(const Inputs& inputs) {
    stream::StepNeeds needs;
    needs.query_count = inputs.queries.count();
    needs.query_length = inputs.queries.max_length();
    needs.dim = inputs.queries.dim();
    needs.k = 0;
    needs.token_bytes = static_cast<std::int64_t>(size_of(inputs.queries.dtype()));
    needs.queries_copied = stream::copies_blocks(inputs.queries);
    needs.longest_copied = stream::copies_blocks(inputs.documents) ? inputs.documents.max_length() : 0;
    return needs;
}

// Rows of the score matrix are held until they are whole: half of the cap, and as many queries as fit there.
stream::StepPlan plan_of(const Inputs& inputs, const ComputeOptions& compute) {
    const std::int64_t cap = memory_cap(compute);
    const std::int64_t held = held_bytes();
    const std::int64_t memory = cap - held;
    const stream::StepNeeds needs = needs_of(inputs);
    const std::int64_t least = stream::least_memory(needs, inputs.options.threads);
    const std::int64_t row_bytes =
        std::max<std::int64_t>(inputs.documents.count(), 1) * static_cast<std::int64_t>(sizeof(double));
    const std::int64_t needed = row_bytes + std::max(row_bytes, least);
    if (cap > 0 && memory < needed) {
        throw UsageError(
            fmt::format("--memory {}: too little, at least {} bytes are needed (one query's scores of {} "
                        "documents, one query and one document at a time)",
                        compute.memory, held + needed, inputs.documents.count()));
    }
    const std::int64_t for_rows = cap > 0 ? std::min(memory / 2, memory - least) : std::int64_t{256} << 20;
    stream::StepPlan plan = stream::plan_step(needs, cap > 0 ? memory - for_rows : 0, inputs.options.threads);
    plan.queries = std::min(plan.queries, std::max<std::int64_t>(for_rows / row_bytes, 1));
    return plan;
}

// Scores of queries [first, last) with every document: rows [last - first, documents].
std::vector<double> score_rows(const Inputs& inputs, std::int64_t first, std::int64_t last,
                               const stream::StepPlan& plan, Progress& progress) {
    const std::int64_t width = inputs.documents.count();
    const bool copied = stream::copies_blocks(inputs.documents);
    std::vector<double> rows(static_cast<std::size_t>((last - first) * width));
    const io::TokenBlock queries = inputs.queries.block(first, last);
    Scores scores(inputs, Same::queries);
    for (std::int64_t at = 0; at < width;) {
        const std::int64_t end = stream::block_end(inputs.documents, at, copied, plan);
        const io::TokenBlock documents = inputs.documents.block(at, end);
        ScoreRequest request;
        request.q = queries.set;
        request.d = documents.set;
        request.options = inputs.options;
        scores.run(request);
        for (std::int64_t i = 0; i < last - first; ++i) {
            for (std::int64_t j = at; j < end; ++j)
                rows[static_cast<std::size_t>(i * width + j)] = scores.at(i * (end - at) + j - at);
        }
        at = end;
        progress.update(first * width + at * (last - first), inputs.queries.count() * width);
    }
    return rows;
}

void score_all(const Inputs& inputs, const stream::StepPlan& plan, ScoreWriter& writer, Progress& progress) {
    for (std::int64_t first = 0; first < inputs.queries.count(); first += plan.queries) {
        const std::int64_t last = std::min(first + plan.queries, inputs.queries.count());
        const std::vector<double> rows = score_rows(inputs, first, last, plan, progress);
        std::size_t at = 0;
        for (std::int64_t i = first; i < last; ++i) {
            for (std::int64_t j = 0; j < inputs.documents.count(); ++j)
                writer.write(inputs.queries, i, inputs.documents, j, rows[at++]);
        }
    }
}

void score_list(const Inputs& inputs, const PairList& pairs, ScoreWriter& writer, Progress& progress) {
    constexpr std::int64_t pairs_per_call = 4096;
    const io::TokenBlock queries = inputs.queries.all();
    const io::TokenBlock documents = inputs.documents.all();
    Scores scores(inputs, Same::queries_and_documents);
    for (std::int64_t first = 0; first < pairs.size(); first += pairs_per_call) {
        const std::int64_t count = std::min(pairs_per_call, pairs.size() - first);
        ScoreRequest request;
        request.q = queries.set;
        request.d = documents.set;
        request.pairing = Pairing::list;
        request.pair_q = TensorView(pairs.query.data() + first, DType::i64, {count});
        request.pair_d = TensorView(pairs.document.data() + first, DType::i64, {count});
        request.options = inputs.options;
        scores.run(request);
        for (std::int64_t p = 0; p < count; ++p) {
            const auto i = static_cast<std::size_t>(first + p);
            writer.write(inputs.queries, pairs.query[i], inputs.documents, pairs.document[i], scores.at(p));
        }
        progress.update(first + count, pairs.size());
    }
}

// Pairs may name any item at any time, so copied inputs are held whole.
void require_room_for_all(const Inputs& inputs, const ComputeOptions& compute) {
    const std::int64_t memory = memory_bytes(compute);
    for (const io::TokenSource& source : {inputs.queries, inputs.documents}) {
        const std::int64_t bytes =
            source.token_count() * source.dim() * static_cast<std::int64_t>(size_of(source.dtype()));
        if (memory > 0 && stream::copies_blocks(source) && bytes > memory) {
            throw UsageError(fmt::format(
                "--memory {}: {} must be held whole, {} bytes; `rowmax pack` makes a corpus that is read in place",
                compute.memory, source.path().string(), bytes));
        }
    }
}

void run_score(const ScoreCommand& command) {
    if (command.grouped && !command.pairs.empty()) throw UsageError("--grouped and --pairs exclude each other");
    check_outputs({{"--output", command.output}},
                  {command.queries, command.documents, command.pairs, command.query_mask, command.document_mask,
                   command.query_input.ids, command.document_input.ids});
    io::OutputFile out = open_output(command.output);
    const Inputs inputs = open_inputs(command);
    Progress progress("scoring", "pairs");
    if (command.grouped || !command.pairs.empty()) {
        require_room_for_all(inputs, command.compute);
        const PairList pairs = command.grouped
                                   ? score_command::grouped_pairs(inputs.queries, inputs.documents)
                                   : score_command::read_pairs(command.pairs, inputs.queries, inputs.documents);
        std::vector<std::int64_t> shape{pairs.size()};
        if (command.grouped) shape = {inputs.queries.count(), pairs.size() / inputs.queries.count()};
        ScoreWriter writer(out, format_of(command), score_dtype(inputs), shape);
        score_list(inputs, pairs, writer, progress);
        writer.flush();
    } else {
        const stream::StepPlan plan = plan_of(inputs, command.compute);
        const std::vector<std::int64_t> shape{inputs.queries.count(), inputs.documents.count()};
        ScoreWriter writer(out, format_of(command), score_dtype(inputs), shape);
        score_all(inputs, plan, writer, progress);
        writer.flush();
    }
    progress.finish();
    out.commit();
}

void add_options(Command& app, ScoreCommand& command) {
    app.add("queries", command.queries, "Query tokens: .npy, .npz, safetensors, a folder of .npy, or a corpus")
        .required();
    app.add("documents", command.documents, "Document tokens: the same kinds").required();
    app.add("--pairs", command.pairs, "Score only these: lines 'query document' of ids, or of #N for numbers");
    app.add_flag("--grouped", command.grouped,
                 "Each query has its own K documents: the first K belong to the first query, and so on");
    app.add("--q-mask", command.query_mask, ".npy [N, L], [1, L] or [L]: non-zero keeps a query token");
    app.add("--d-mask", command.document_mask, ".npy [N, L], [1, L] or [L]: non-zero keeps a document token");
    app.add("-o,--output", command.output, "Output file; standard output when left out");
    app.add("--format", command.format, "tsv, jsonl or npy; when left out, what the output's name ends in, else tsv")
        .one_of({"tsv", "jsonl", "npy"});
    add_compute_options(app, command.compute);
    add_memory_option(app, command.compute);
    add_input_options(app, command.query_input, "query-", "the queries");
    add_input_options(app, command.document_input, "", "the documents");
}

}  // namespace

void add_score(Program& program) {
    Command sub = program.add_command("score", "Score queries against documents, every pair or chosen ones");
    auto command = std::make_shared<ScoreCommand>();
    add_options(sub, *command);
    sub.set_footer(
        "npy holds [queries, documents]; with --grouped [queries, K]; with --pairs [pairs], in the order of the list. "
        "Scores are\n"
        "float32, float64 for float64 tokens.\n\nExamples:\n"
        "  rowmax score queries.npy docs.npy\n"
        "  rowmax score queries.npy docs.npy --d-mask mask.npy -o scores.npy\n"
        "  rowmax score queries.npz docs.rmx --pairs candidates.txt --normalize --format jsonl");
    sub.runs([command] { run_score(*command); });
}

}  // namespace rowmax::cli
