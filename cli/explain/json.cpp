// Explanations for programs.
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/explain/render.hpp"

namespace rowmax::cli::explain {

namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity: strings, as in JSONL runs.
Json number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return value;
}

Json row(const Explanation& pair, std::size_t s) {
    Json item = {{"token", s},
                 {"text", pair.query_tokens[s]},
                 {"kept", static_cast<bool>(pair.query_kept[s])},
                 {"similarity", number(pair.similarity[s])},
                 {"winner", pair.winner[s]}};
    if (pair.winner[s] >= 0) item["winner_text"] = pair.document_tokens[static_cast<std::size_t>(pair.winner[s])];
    return item;
}

}  // namespace

std::string json_text(const Explanation& pair, bool matrix) {
    Json root = {{"query", pair.query_id},
                 {"document", pair.document_id},
                 {"score", number(pair.score)},
                 {"sum", number(pair.sum())}};
    root["tokens"] = Json::array();
    for (std::size_t s = 0; s < pair.query_tokens.size(); ++s) root["tokens"].push_back(row(pair, s));
    root["document_tokens"] = pair.document_tokens;
    for (std::int64_t s = 0; matrix && s < pair.query_length(); ++s) {
        Json line = Json::array();
        for (std::int64_t t = 0; t < pair.document_length(); ++t) line.push_back(number(pair.at(s, t)));
        root["matrix"].push_back(std::move(line));
    }
    return root.dump() + "\n";
}

}  // namespace rowmax::cli::explain
