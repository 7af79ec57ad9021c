// The golden cases: small inputs and right outcomes, each from a fault that some implementation had. The file is
// tests/data/golden.json, compiled in so that a user's machine has it.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/checks/checks.hpp"
#include "cli/checks/golden_text.hpp"
#include "cli/checks/run.hpp"
#include "core/element.hpp"
#include "stream/search.hpp"

namespace rowmax::checks {

namespace {

using nlohmann::json;

double number(const json& value) {
    if (value.is_number()) return value.get<double>();
    const auto text = value.get<std::string>();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    return std::numeric_limits<double>::quiet_NaN();
}

void flatten(const json& value, std::vector<double>& out) {
    if (!value.is_array()) {
        out.push_back(number(value));
        return;
    }
    for (const json& item : value) flatten(item, out);
}

std::vector<double> numbers(const json& value) {
    std::vector<double> out;
    flatten(value, out);
    return out;
}

/// A nested list as an array of some type.
struct Tensor {
    std::vector<std::byte> memory;
    TensorView view;

    Tensor(const json& value, DType dtype) {
        std::vector<std::int64_t> shape;
        for (const json* level = &value; level->is_array(); level = &level->front())
            shape.push_back(static_cast<std::int64_t>(level->size()));
        const std::vector<double> values = numbers(value);
        memory.resize(values.size() * size_of(dtype));
        for (std::size_t i = 0; i < values.size(); ++i)
            core::write_element(&memory[i * size_of(dtype)], dtype, values[i]);
        view = TensorView(memory.data(), dtype, shape);
    }
};

bool close(double got, double want, double rtol) {
    if (same(got, want)) return true;
    return std::fabs(got - want) <= rtol * std::fabs(want);
}

void compare(const json& golden, const char* field, const std::vector<double>& got, double rtol, Report& report) {
    const std::vector<double> want = numbers(golden.at(field));
    for (std::size_t i = 0; i < want.size() && i < got.size(); ++i) {
        if (close(got[i], want[i], rtol)) continue;
        report.fail(
            fmt::format("{}: {} {} is {}, not {}", golden.at("name").get<std::string>(), field, i, got[i], want[i]));
        return;
    }
    if (want.size() != got.size())
        report.fail(
            fmt::format("{}: {} {}, not {}", golden.at("name").get<std::string>(), got.size(), field, want.size()));
}

void check_scores(const json& golden, const Target& target, DType dtype, Report& report) {
    const Tensor q(golden.at("q"), dtype);
    const Tensor d(golden.at("d"), dtype);
    const Tensor q_mask(golden.value("q_mask", json::array({1})), DType::f32);
    const Tensor d_mask(golden.value("d_mask", json::array({1})), DType::f32);
    ScoreRequest request;
    request.q.tokens = q.view;
    request.d.tokens = d.view;
    if (golden.contains("q_mask")) request.q.mask = q_mask.view;
    if (golden.contains("d_mask")) request.d.mask = d_mask.view;
    request.options.normalize = golden.value("normalize", false);
    const Result result = run(request, target);
    if (result.high) throw Error(ErrorCode::not_implemented, "more accuracy than precision \"high\" has");
    compare(golden, "scores", result.scores, golden.value("rtol", 1e-6), report);
    if (golden.contains("index")) compare(golden, "index", {result.index.begin(), result.index.end()}, 0, report);
}

void check_topk(const json& golden, const Target& target, DType dtype, Report& report) {
    const Tensor q(golden.at("q"), dtype);
    const Tensor d(golden.at("d"), dtype);
    TokenSet queries;
    TokenSet documents;
    queries.tokens = q.view;
    documents.tokens = d.view;
    stream::SearchOptions options;
    options.k = golden.at("k").get<std::int64_t>();
    options.score.kernel = target.row->name;
    if (target.backend != nullptr) options.devices = {target.ordinal};
    options.backend = target.backend;
    stream::Search search(io::tokens_in_memory(queries, io::Ids(q.view.shape[0])),
                          {io::tokens_in_memory(documents, io::Ids(d.view.shape[0]))}, options);
    while (search.step()) {
    }
    std::vector<double> scores;
    std::vector<double> index;
    for (std::int64_t i = 0; i < search.query_count(); ++i) {
        for (const core::Hit& hit : search.ranked(i)) {
            scores.push_back(hit.score);
            index.push_back(static_cast<double>(hit.document));
        }
    }
    compare(golden, "scores", scores, 1e-6, report);
    compare(golden, "indices", index, 0, report);
}

}  // namespace

Report check_golden(const Target& target, DType dtype, const std::function<void()>& pause) {
    Report report;
    const json golden = json::parse(golden_text);
    for (const json& item : golden.at("cases")) {
        pause();
        const auto call = item.at("call").get<std::string>();
        if ((call != "maxsim" && call != "topk") || item.at("dtype").get<std::string>() != name_of(dtype)) continue;
        report.run_case([&] { (call == "maxsim" ? check_scores : check_topk)(item, target, dtype, report); });
    }
    return report;
}

}  // namespace rowmax::checks
