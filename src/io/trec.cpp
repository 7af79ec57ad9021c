#include "io/trec.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "io/file_error.hpp"
#include "io/text_file.hpp"

namespace rowmax::io {

namespace {

constexpr std::string_view blanks = " \t\r\f\v";

/// Splits a text into lines of exactly `Columns` fields.
template <std::size_t Columns>
class Table {
  public:
    using Fields = std::array<std::string_view, Columns>;

    explicit Table(const std::filesystem::path& path) : text_(read_text(path)), name_(path.string()), rest_(text_) {}
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    /// The next line that is not empty; false at the end of the file.
    bool next(Fields& fields) {
        while (!rest_.empty()) {
            const std::size_t end = std::min(rest_.find('\n'), rest_.size());
            const std::string_view line = rest_.substr(0, end);
            rest_.remove_prefix(std::min(end + 1, rest_.size()));
            ++line_;
            if (split(line, fields)) return true;
        }
        return false;
    }

    [[nodiscard]] std::string where() const { return fmt::format("{}:{}", name_, line_); }

    template <class Number>
    Number number(std::string_view text, std::string_view column) const {
        Number value{};
        const char* first = text.data() + (text.starts_with('+') ? 1 : 0);
        const auto [end, error] = std::from_chars(first, text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size()) return value;
        bad_data(where(), "{}: '{}' is not a number that fits", column, printable(text));
    }

  private:
    bool split(std::string_view line, Fields& fields) const {
        std::size_t count = 0;
        for (std::size_t at = line.find_first_not_of(blanks); at != std::string_view::npos;) {
            const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
            if (count < Columns) fields[count] = line.substr(at, end - at);
            ++count;
            at = line.find_first_not_of(blanks, end);
        }
        if (count == 0) return false;
        if (count != Columns) bad_data(where(), "{} columns, {} are expected: {}", count, Columns, printable(line));
        return true;
    }

    std::string text_;
    std::string name_;
    std::string_view rest_;
    std::int64_t line_ = 0;
};

/// Groups lines by query, in order of first appearance, and refuses a document given twice. Keys point into the table.
template <class Query>
class Grouping {
  public:
    template <std::size_t Columns>
    Query& group(const Table<Columns>& table, std::string_view query, std::string_view doc) {
        const auto [found, fresh] = place_.try_emplace(query, queries.size());
        if (fresh) {
            queries.emplace_back().query = query;
            seen_.emplace_back();
        }
        if (!seen_[found->second].insert(doc).second) {
            bad_data(table.where(), "document '{}' is given twice for query '{}'", printable(doc), printable(query));
        }
        return queries[found->second];
    }

    std::vector<Query> queries;

  private:
    std::unordered_map<std::string_view, std::size_t> place_;
    std::vector<std::unordered_set<std::string_view>> seen_;
};

}  // namespace

std::vector<RunQuery> read_run(const std::filesystem::path& path) {
    Table<6> table(path);
    Grouping<RunQuery> grouping;
    for (Table<6>::Fields fields; table.next(fields);) {
        const auto& [query, iteration, doc, rank, score, tag] = fields;
        RunQuery& entry = grouping.group(table, query, doc);
        entry.entries.push_back(
            {std::string(doc), table.number<std::int64_t>(rank, "rank"), table.number<double>(score, "score")});
    }
    return std::move(grouping.queries);
}

std::vector<QrelsQuery> read_qrels(const std::filesystem::path& path) {
    Table<4> table(path);
    Grouping<QrelsQuery> grouping;
    for (Table<4>::Fields fields; table.next(fields);) {
        const auto& [query, iteration, doc, relevance] = fields;
        QrelsQuery& entry = grouping.group(table, query, doc);
        entry.judgments.push_back({std::string(doc), table.number<std::int64_t>(relevance, "relevance")});
    }
    return std::move(grouping.queries);
}

}  // namespace rowmax::io
