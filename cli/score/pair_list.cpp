#include "cli/score/pair_list.hpp"

#include <fmt/format.h>

#include <optional>
#include <sstream>
#include <unordered_map>

#include "cli/item_number.hpp"
#include "io/text_file.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cli::score_command {

namespace {

/// Item numbers by id; a list of pairs names items too often to look each one up in the source.
class Numbers {
  public:
    explicit Numbers(const io::TokenSource& source) : count_(source.count()) {
        for (std::int64_t i = 0; i < count_; ++i) by_id_.emplace(source.id(i), i);
    }
    [[nodiscard]] std::optional<std::int64_t> find(const std::string& name) const {
        if (name.starts_with('#')) return item_number(name, count_);
        const auto found = by_id_.find(name);
        if (found == by_id_.end()) return std::nullopt;
        return found->second;
    }

  private:
    std::int64_t count_;
    std::unordered_map<std::string, std::int64_t> by_id_;
};

[[noreturn]] void bad_line(const std::string& path, std::int64_t line, const std::string& what) {
    throw Error(ErrorCode::data, fmt::format("{}, line {}: {}", path, line, what));
}

}  // namespace

PairList read_pairs(const std::string& path, const io::TokenSource& queries, const io::TokenSource& documents) {
    std::istringstream file(io::read_text(path));
    const Numbers query_numbers(queries);
    const Numbers document_numbers(documents);
    PairList pairs;
    std::string line;
    for (std::int64_t number = 1; std::getline(file, line); ++number) {
        std::istringstream words(line);
        std::string query;
        std::string document;
        std::string more;
        if (!(words >> query)) continue;
        if (!(words >> document) || words >> more)
            bad_line(path, number, fmt::format("expected 'query document', got '{}'", line));
        const auto q = query_numbers.find(query);
        const auto d = document_numbers.find(document);
        if (!q)
            bad_line(path, number,
                     fmt::format("no query '{}' among the {} of {}", query, queries.count(), queries.path().string()));
        if (!d)
            bad_line(path, number,
                     fmt::format("no document '{}' among the {} of {}", document, documents.count(),
                                 documents.path().string()));
        pairs.query.push_back(*q);
        pairs.document.push_back(*d);
    }
    return pairs;
}

PairList grouped_pairs(const io::TokenSource& queries, const io::TokenSource& documents) {
    if (queries.count() == 0 || documents.count() % queries.count() != 0) {
        throw Error(
            ErrorCode::data,
            fmt::format("--grouped: {} documents of {} cannot be shared evenly by {} queries of {}", documents.count(),
                        documents.path().string(), queries.count(), queries.path().string()));
    }
    const std::int64_t each = documents.count() / queries.count();
    PairList pairs;
    for (std::int64_t i = 0; i < documents.count(); ++i) {
        pairs.query.push_back(i / each);
        pairs.document.push_back(i);
    }
    return pairs;
}

}  // namespace rowmax::cli::score_command
