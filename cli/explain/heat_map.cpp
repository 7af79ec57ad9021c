#include "cli/explain/heat_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "cli/exit_code.hpp"

namespace rowmax::cli::explain {

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

std::optional<std::int64_t> side(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 65535) return std::nullopt;
    return value;
}

double patch_value(const Explanation& pair, std::int64_t document_token, const QueryToken& token) {
    if (!pair.document_kept[static_cast<std::size_t>(document_token)]) return none;
    if (token) return pair.at(*token, document_token);
    double sum = 0;
    for (std::int64_t s = 0; s < pair.query_length(); ++s) {
        if (pair.query_kept[static_cast<std::size_t>(s)]) sum += pair.at(s, document_token);
    }
    return sum;
}

}  // namespace

HeatMap token_map(const Explanation& pair) {
    HeatMap map;
    map.rows = static_cast<std::int64_t>(pair.query_kept.size());
    map.columns = pair.document_length();
    map.caption = "Query tokens from top to bottom, document tokens from left to right; frames mark the answers.";
    for (std::int64_t s = 0; s < map.rows; ++s) {
        for (std::int64_t t = 0; t < map.columns; ++t) {
            const bool kept =
                pair.query_kept[static_cast<std::size_t>(s)] && pair.document_kept[static_cast<std::size_t>(t)];
            map.values.push_back(kept ? pair.at(s, t) : none);
            map.marked.push_back(pair.winner[static_cast<std::size_t>(s)] == t);
        }
    }
    return map;
}

Grid parse_grid(const std::string& text) {
    const std::size_t x = text.find('x');
    if (x != std::string::npos) {
        const auto rows = side(std::string_view(text).substr(0, x));
        const auto columns = side(std::string_view(text).substr(x + 1));
        if (rows && columns) return {*rows, *columns, 0};
    }
    throw UsageError(fmt::format("--grid '{}' is not ROWSxCOLUMNS, for instance 32x32", text));
}

HeatMap grid_map(const Explanation& pair, const Grid& grid, const QueryToken& token) {
    const std::int64_t patches = grid.rows * grid.columns;
    if (grid.first > pair.document_length() - patches) {
        throw Error(ErrorCode::data,
                    fmt::format("--grid {}x{} needs {} document tokens from token {}, document '{}' has {}", grid.rows,
                                grid.columns, patches, grid.first, pair.document_id, pair.document_length()));
    }
    if (token && *token >= static_cast<std::int64_t>(pair.query_kept.size())) {
        throw Error(ErrorCode::data, fmt::format("--query-token {}: query '{}' has {} tokens", *token, pair.query_id,
                                                 pair.query_kept.size()));
    }
    HeatMap map;
    map.rows = grid.rows;
    map.columns = grid.columns;
    map.caption = fmt::format("The document as an image of {} x {} patches; {}.", grid.rows, grid.columns,
                              token ? fmt::format("similarity to query token {}, '{}'", *token,
                                                  pair.query_tokens[static_cast<std::size_t>(*token)])
                                    : "sum of the similarities to all query tokens");
    for (std::int64_t i = 0; i < patches; ++i) map.values.push_back(patch_value(pair, grid.first + i, token));
    return map;
}

Scale scale_of(const HeatMap& map) {
    Scale scale{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (const double value : map.values) {
        if (!std::isfinite(value)) continue;
        scale.low = std::min(scale.low, value);
        scale.high = std::max(scale.high, value);
    }
    return scale;
}

std::int64_t default_cell(const HeatMap& map) {
    constexpr std::int64_t good_width = 1024;
    return std::clamp<std::int64_t>(good_width / std::max<std::int64_t>({map.rows, map.columns, 1}), 1, 32);
}

}  // namespace rowmax::cli::explain
