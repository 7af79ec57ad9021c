// rowmax explain: which document token answered each query token.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/devices.hpp"
#include "cli/exit_code.hpp"
#include "cli/explain/explanation.hpp"
#include "cli/explain/heat_map.hpp"
#include "cli/explain/render.hpp"
#include "cli/explain/token_text.hpp"
#include "cli/outputs.hpp"
#include "cli/shared.hpp"
#include "stream/device_scorer.hpp"

namespace rowmax::cli {

namespace {

using explain::Explanation;

struct ExplainCommand {
    std::string queries;
    std::string documents;
    std::string query = "#0";
    std::string document = "#0";
    std::string query_tokens;
    std::string document_tokens;
    std::string html;
    std::string png;
    std::string grid;
    std::int64_t grid_first = 0;
    std::optional<std::int64_t> query_token;
    std::optional<std::int64_t> cell;
    std::string colour = "auto";
    bool json = false;
    bool matrix = false;
    std::string output;
    ComputeOptions compute;
    InputOptions query_input;
    InputOptions document_input;
};

// On the first device, where one was asked for. A scorer for each call: nothing is the same in two.
explain::Score score_on(int device) {
    if (device < 0) return &rowmax::score;
    return [device](const ScoreRequest& request, const ScoreOutputs& outputs) {
        using stream::DeviceScorer;
        DeviceScorer(stream::device_backend(), device, DeviceScorer::Same::queries).score(request, outputs);
    };
}

// One pair is not worth waking a device for: auto means the CPU.
int device_of(const ComputeOptions& compute) {
    return compute.device == "auto" ? -1 : choose_device(compute);
}

Explanation make_explanation(const ExplainCommand& command) {
    const explain::Score score = score_on(device_of(command.compute));
    const Options options = score_options(command.compute);
    const io::TokenSource queries = load_input(command.queries, command.query_input, command.compute);
    const io::TokenSource documents = load_input(command.documents, command.document_input, command.compute);
    const std::int64_t query = find_item(queries, command.query, "query");
    const std::int64_t document = find_item(documents, command.document, "document");
    Explanation pair = explain::explain_pair(queries, query, documents, document, options, score);
    if (!command.query_tokens.empty())
        pair.query_tokens =
            explain::read_tokens(command.query_tokens, static_cast<std::int64_t>(pair.query_kept.size()));
    if (!command.document_tokens.empty())
        pair.document_tokens = explain::read_tokens(command.document_tokens, pair.document_length());
    return pair;
}

bool wants_colour(const ExplainCommand& command) {
    if (command.colour != "auto") return command.colour == "always";
    const char* off = std::getenv("NO_COLOR");  // https://no-color.org
    const char* kind = std::getenv("TERM");
    const bool terminal = command.output.empty() && isatty(STDOUT_FILENO) != 0;
    const bool plain = kind != nullptr && std::string_view(kind) == "dumb";
    return terminal && !plain && (off == nullptr || *off == '\0');
}

explain::HeatMap heat_map(const ExplainCommand& command, const Explanation& pair) {
    if (command.grid.empty()) return explain::token_map(pair);
    explain::Grid grid = explain::parse_grid(command.grid);
    grid.first = command.grid_first;
    return explain::grid_map(pair, grid, command.query_token);
}

void write_pictures(const ExplainCommand& command, const Explanation& pair) {
    const explain::HeatMap map = heat_map(command, pair);
    const std::string png = explain::png_of(map, command.cell.value_or(explain::default_cell(map)));
    if (!command.png.empty()) write_all(command.png, png);
    if (!command.html.empty()) write_all(command.html, explain::html_page(pair, png, map.caption));
}

void check(const ExplainCommand& command) {
    if (command.grid.empty() && (command.grid_first != 0 || command.query_token)) {
        throw UsageError("--grid-first and --query-token need --grid");
    }
    if (!command.grid.empty()) explain::parse_grid(command.grid);
    if (!command.grid.empty() && command.png.empty() && command.html.empty())
        throw UsageError("--grid needs --png FILE or --html FILE");
    if (command.matrix && !command.json) throw UsageError("--matrix needs --json");
}

// Text is written when it is asked for, and when nothing else is.
bool writes_text(const ExplainCommand& command) {
    return command.json || !command.output.empty() || (command.html.empty() && command.png.empty());
}

void check_files(const ExplainCommand& command) {
    std::vector<OutputPath> outputs;
    if (!command.html.empty()) outputs.push_back({"--html", command.html});
    if (!command.png.empty()) outputs.push_back({"--png", command.png});
    if (writes_text(command)) outputs.push_back({"--output", command.output});
    check_outputs(outputs, {command.queries, command.documents, command.query_tokens, command.document_tokens,
                            command.query_input.ids, command.document_input.ids});
}

void run_explain(const ExplainCommand& command) {
    check(command);
    check_files(command);
    const Explanation pair = make_explanation(command);
    const bool pictures = !command.html.empty() || !command.png.empty();
    if (pictures) write_pictures(command, pair);
    if (!writes_text(command)) return;
    write_all(command.output, command.json ? explain::json_text(pair, command.matrix)
                                           : explain::terminal_text(pair, wants_colour(command)));
}

void add_options(Command& app, ExplainCommand& command) {
    app.add("queries", command.queries, "Query tokens: .npy, .npz, safetensors, a folder of .npy, or a corpus")
        .required();
    app.add("documents", command.documents, "Document tokens: the same kinds").required();
    app.add("--query", command.query, "Id of the query, or #N for its number").show_default();
    app.add("--document", command.document, "Id of the document, or #N for its number").show_default();
    app.add("--query-tokens", command.query_tokens, "Text of the query's tokens: one a line, or a JSON list");
    app.add("--doc-tokens", command.document_tokens, "Text of the document's tokens: one a line, or a JSON list");
    app.add("--html", command.html, "Write a self-contained page");
    app.add("--png", command.png, "Write a heat map");
    app.add("--grid", command.grid,
            "ROWSxCOLUMNS: the document is an image; draw its patches, token 0 at the top left");
    app.add("--grid-first", command.grid_first, "Document token of the first patch").show_default().at_least(0);
    app.add("--query-token", command.query_token, "Query token that --grid shows; when left out, the sum over all")
        .at_least(0);
    app.add("--cell", command.cell, "Side of a cell of the heat map, in pixels").between(1, 1024);
    app.add("--color", command.colour, "auto: on a terminal").show_default().one_of({"auto", "always", "never"});
    app.add_flag("--json", command.json, "JSON");
    app.add_flag("--matrix", command.matrix, "With --json: every similarity as well");
    app.add("-o,--output", command.output, "Where text or JSON goes; standard output when left out");
    add_compute_options(app, command.compute);
    add_input_options(app, command.query_input, "query-", "the queries");
    add_input_options(app, command.document_input, "", "the documents");
}

}  // namespace

void add_explain(Program& program) {
    Command sub = program.add_command("explain", "Show which document token answered each query token");
    auto command = std::make_shared<ExplainCommand>();
    add_options(sub, *command);
    sub.set_footer(
        "The similarities of the answers sum to the score. With --html or --png the text is left out unless -o asks "
        "for it.\n\n"
        "Examples:\n"
        "  rowmax explain queries.npy docs.rmx --query q7 --document d42\n"
        "  rowmax explain queries.npy docs.rmx --query '#0' --document '#42' --query-tokens q.txt --doc-tokens d.json "
        "--html why.html\n"
        "  rowmax explain queries.npy pages.rmx --document page3 --grid 32x32 --png page3.png\n"
        "  rowmax explain queries.npy pages.rmx --document page3 --grid 32x32 --query-token 4 --png page3-token4.png");
    sub.runs([command] { run_explain(*command); });
}

}  // namespace rowmax::cli
