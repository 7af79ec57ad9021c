// rowmax eval: qrels + run -> measures, as trec_eval computes them.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/eval/metrics.hpp"
#include "cli/exit_code.hpp"
#include "cli/outputs.hpp"
#include "cli/shared.hpp"
#include "io/output_file.hpp"
#include "io/trec.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cli {

namespace {

struct EvalOptions {
    std::string qrels;
    std::string run;
    std::vector<std::string> measures = {"ndcg@10",    "ndcg",      "map",        "mrr",
                                         "recall@100", "success@1", "success@10", "P@10"};
    std::int64_t level = 1;
    bool per_query = false;
    bool complete = false;
    bool json = false;
    std::string output;
};

struct QueryValues {
    std::string query;
    std::vector<double> values;
};

struct Evaluation {
    std::vector<eval::Measure> measures;
    std::vector<QueryValues> queries;
    std::vector<double> mean;
    std::size_t unjudged = 0;  ///< queries of the run that the qrels do not know
    std::size_t missing = 0;   ///< judged queries that the run does not answer
};

std::vector<eval::Measure> parse_measures(const std::vector<std::string>& names) {
    std::vector<eval::Measure> measures;
    try {
        for (const std::string& name : names) measures.push_back(eval::parse_measure(name));
    } catch (const Error& error) {
        throw UsageError(fmt::format("--measure: {}", error.what()));
    }
    return measures;
}

void add_query(Evaluation& evaluation, const io::QrelsQuery& qrels, const std::vector<io::RunEntry>& entries,
               std::int64_t level) {
    const eval::JudgedRanking judged = eval::judge(entries, qrels.judgments, level);
    QueryValues row{qrels.query, {}};
    for (const eval::Measure& measure : evaluation.measures) row.values.push_back(eval::value_of(measure, judged));
    evaluation.queries.push_back(std::move(row));
}

std::vector<double> mean_of(const Evaluation& evaluation) {
    std::vector<double> mean(evaluation.measures.size(), 0.0);
    for (const QueryValues& row : evaluation.queries) {
        for (std::size_t m = 0; m < mean.size(); ++m) mean[m] += row.values[m];
    }
    for (double& value : mean) value /= static_cast<double>(evaluation.queries.size());
    return mean;
}

Evaluation evaluate(const EvalOptions& options) {
    Evaluation evaluation;
    evaluation.measures = parse_measures(options.measures);
    const std::vector<io::QrelsQuery> qrels = io::read_qrels(options.qrels);
    std::map<std::string, std::vector<io::RunEntry>> run;
    for (io::RunQuery& query : io::read_run(options.run)) run.emplace(query.query, std::move(query.entries));
    std::size_t answered = 0;
    for (const io::QrelsQuery& query : qrels) {
        const auto found = run.find(query.query);
        ++(found == run.end() ? evaluation.missing : answered);
        if (found == run.end() && !options.complete) continue;
        add_query(evaluation, query, found == run.end() ? std::vector<io::RunEntry>() : found->second, options.level);
    }
    evaluation.unjudged = run.size() - answered;
    if (evaluation.queries.empty()) {
        throw Error(ErrorCode::data, fmt::format("{} and {} share no query ({} judged, {} answered)", options.qrels,
                                                 options.run, qrels.size(), run.size()));
    }
    evaluation.mean = mean_of(evaluation);
    return evaluation;
}

void warn(const Evaluation& evaluation, bool complete) {
    if (evaluation.unjudged > 0) {
        say(fmt::format("{} queries of the run have no judgments and are left out", evaluation.unjudged));
    }
    if (evaluation.missing > 0) {
        say(fmt::format("{} judged queries are not in the run and {}", evaluation.missing,
                        complete ? "count as zero" : "are left out (--complete counts them as zero)"));
    }
}

std::string as_text(const Evaluation& evaluation, bool per_query) {
    std::string text;
    const auto rows = [&](const std::string& query, const std::vector<double>& values) {
        for (std::size_t m = 0; m < values.size(); ++m) {
            text += fmt::format("{:<22}\t{}\t{:.6f}\n", evaluation.measures[m].name(), query, values[m]);
        }
    };
    if (per_query) {
        for (const QueryValues& row : evaluation.queries) rows(row.query, row.values);
    }
    text += fmt::format("{:<22}\tall\t{}\n", "num_q", evaluation.queries.size());
    rows("all", evaluation.mean);
    return text;
}

std::string as_json(const Evaluation& evaluation, bool per_query) {
    const auto object = [&](const std::vector<double>& values) {
        nlohmann::ordered_json result = nlohmann::ordered_json::object();
        for (std::size_t m = 0; m < values.size(); ++m) result[evaluation.measures[m].name()] = values[m];
        return result;
    };
    nlohmann::ordered_json root;
    root["num_q"] = evaluation.queries.size();
    root["unjudged_queries"] = evaluation.unjudged;
    root["missing_queries"] = evaluation.missing;
    root["mean"] = object(evaluation.mean);
    if (per_query) {
        root["queries"] = nlohmann::ordered_json::object();
        for (const QueryValues& row : evaluation.queries) root["queries"][row.query] = object(row.values);
    }
    return root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void run_eval(const EvalOptions& options) {
    check_outputs({{"--output", options.output}}, {options.qrels, options.run});
    const Evaluation evaluation = evaluate(options);
    warn(evaluation, options.complete);
    io::OutputFile output = open_output(options.output);
    output.write(options.json ? as_json(evaluation, options.per_query) : as_text(evaluation, options.per_query));
    output.commit();
}

}  // namespace

void add_eval(Program& program) {
    Command sub = program.add_command("eval", "Measure a run against relevance judgments");
    auto options = std::make_shared<EvalOptions>();
    sub.add("qrels", options->qrels, "Judgments: 'query iteration document relevance' a line").required();
    sub.add("run", options->run, "TREC run: 'query Q0 document rank score tag' a line").required();
    sub.add("-m,--measure", options->measures,
            "Measures, by trec_eval's names or the usual ones: ndcg@K, map, mrr, recall@K, success@K, P@K")
        .split_at_commas()
        .show_default();
    sub.add("-l,--relevance-level", options->level, "Least relevance that counts as relevant (not for nDCG)")
        .show_default();
    sub.add_flag("-q,--per-query", options->per_query, "Also one line for each query");
    sub.add_flag("-c,--complete", options->complete,
                 "Average over all judged queries: those missing from the run count as zero");
    sub.add_flag("--json", options->json, "JSON, with full precision");
    sub.add("-o,--output", options->output, "Output file; standard output when left out");
    sub.set_footer(
        "The run is sorted again as trec_eval does: by score as float32, descending; equal scores by document id,\n"
        "descending. The rank column is not used.\n\nExamples:\n"
        "  rowmax eval qrels.txt run.trec\n"
        "  rowmax eval qrels.txt run.trec -m ndcg@10,recall@1000 -q --json -o measures.json");
    sub.runs([options] { run_eval(*options); });
}

}  // namespace rowmax::cli
