// TREC runs and relevance judgments (qrels) as trec_eval reads them: columns separated by blanks or tabs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace rowmax::io {

struct RunEntry {
    std::string doc;
    std::int64_t rank = 0;  ///< as the file says; trec_eval sorts by score
    double score = 0;
};

struct RunQuery {
    std::string query;
    std::vector<RunEntry> entries;  ///< in file order
};

struct Judgment {
    std::string doc;
    std::int64_t relevance = 0;
};

struct QrelsQuery {
    std::string query;
    std::vector<Judgment> judgments;
};

/// "qid Q0 docid rank score tag"; a pipe or "-", standard input, will do. Queries in order of first appearance, their
/// lines need not be adjacent. Empty lines are skipped; anything else that is wrong, a document given twice included,
/// is an Error(data) with the line number.
std::vector<RunQuery> read_run(const std::filesystem::path& path);
/// "qid iteration docid relevance".
std::vector<QrelsQuery> read_qrels(const std::filesystem::path& path);

}  // namespace rowmax::io
