// Which query is scored against which document, as lists of numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/token_source.hpp"

namespace rowmax::cli::score_command {

struct PairList {
    std::vector<std::int64_t> query;
    std::vector<std::int64_t> document;
    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(query.size()); }
};

/// Lines "query document" of ids, or of "#N" for numbers; blank lines are skipped. Throws Error(data) naming file and
/// line.
PairList read_pairs(const std::string& path, const io::TokenSource& queries, const io::TokenSource& documents);

/// Documents i * K .. (i + 1) * K - 1 belong to query i. Throws Error(data) when they do not divide evenly.
PairList grouped_pairs(const io::TokenSource& queries, const io::TokenSource& documents);

}  // namespace rowmax::cli::score_command
