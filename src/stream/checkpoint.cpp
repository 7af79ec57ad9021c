#include "stream/checkpoint.hpp"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "io/mapped_file.hpp"
#include "io/output_file.hpp"
#include "stream/hash.hpp"

namespace rowmax::stream {

namespace {

constexpr std::string_view magic = "rowmax search checkpoint 1\n";

// Numbers go into the file as they lie in memory; a machine of the other byte order reads a wrong hash.
class HashedWriter {
  public:
    explicit HashedWriter(io::OutputFile& out) : out_(out) {}
    void text(std::string_view text) { bytes(std::as_bytes(std::span(text))); }
    template <class Number>
    void number(Number value) {
        bytes(std::as_bytes(std::span(&value, 1)));
    }
    void finish() {
        const std::uint64_t hash = hash_;
        number(hash);
    }

  private:
    void bytes(std::span<const std::byte> data) {
        hash_ = fnv1a(data, hash_);
        out_.write(data);
    }
    io::OutputFile& out_;
    std::uint64_t hash_ = fnv1a({});
};

class Reader {
  public:
    explicit Reader(std::span<const std::byte> data) : data_(data) {}
    template <class Number>
    std::optional<Number> number() {
        if (data_.size() < sizeof(Number)) return std::nullopt;
        Number value;
        std::memcpy(&value, data_.data(), sizeof(Number));
        data_ = data_.subspan(sizeof(Number));
        return value;
    }
    [[nodiscard]] bool empty() const { return data_.empty(); }

  private:
    std::span<const std::byte> data_;
};

std::string_view next_line(std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
}

// "k: 10 in the checkpoint, 20 now", for the first line that differs.
std::string first_difference(std::string_view stored, std::string_view current) {
    while (!stored.empty() && !current.empty()) {
        const std::string_view a = next_line(stored);
        const std::string_view b = next_line(current);
        if (a == b) continue;
        const std::size_t colon = a.find(": ");
        if (colon == std::string_view::npos || a.substr(0, colon) != b.substr(0, colon)) break;
        return fmt::format("{} in the checkpoint, {} now", a, b.substr(colon + 2));
    }
    return "its inputs or options differ in number";
}

std::optional<SearchPosition> read_position(Reader& reader, const Search& search) {
    const auto first = reader.number<std::int64_t>();
    const auto last = reader.number<std::int64_t>();
    const auto queries = reader.number<std::int64_t>();
    if (!first || !last || !queries) return std::nullopt;
    const bool ordered = 0 <= *first && *first <= *last && *last <= search.document_count();
    if (!ordered || *queries < 0 || *queries > search.query_count()) return std::nullopt;
    const SearchPosition position{*first, *last, *queries};
    if (!search.takes(position)) return std::nullopt;
    return position;
}

std::optional<std::vector<core::Hit>> read_hits(Reader& reader, const Search& search) {
    const auto count = reader.number<std::int64_t>();
    if (!count || *count < 0 || *count > std::min(search.options().k, search.document_count())) return std::nullopt;
    std::vector<core::Hit> hits;
    hits.reserve(static_cast<std::size_t>(*count));
    for (std::int64_t i = 0; i < *count; ++i) {
        const auto score = reader.number<double>();
        const auto document = reader.number<std::int64_t>();
        if (!score || !document || *document < 0 || *document >= search.document_count()) return std::nullopt;
        hits.push_back({*score, *document});
    }
    return hits;
}

bool read_state(Reader reader, Search& search) {
    const auto position = read_position(reader, search);
    if (!position) return false;
    std::vector<std::vector<core::Hit>> ranked;
    for (std::int64_t i = 0; i < search.query_count(); ++i) {
        auto hits = read_hits(reader, search);
        if (!hits) return false;
        ranked.push_back(std::move(*hits));
    }
    if (!reader.empty()) return false;
    search.resume(*position, ranked);
    return true;
}

ResumeResult refused(std::string reason) {
    return {Resumed::refused, std::move(reason)};
}

bool intact(std::span<const std::byte> file) {
    if (file.size() < sizeof(std::uint64_t)) return false;
    const std::span<const std::byte> body = file.first(file.size() - sizeof(std::uint64_t));
    return Reader(file.subspan(body.size())).number<std::uint64_t>() == fnv1a(body);
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const std::string& identity, const Search& search) {
    io::OutputFile out(path);
    HashedWriter writer(out);
    writer.text(magic);
    writer.text(identity);
    writer.text("\n");
    writer.number(search.position().first);
    writer.number(search.position().last);
    writer.number(search.position().queries);
    for (std::int64_t i = 0; i < search.query_count(); ++i) {
        const std::vector<core::Hit> hits = search.ranked(i);
        writer.number(static_cast<std::int64_t>(hits.size()));
        for (const core::Hit& hit : hits) {
            writer.number(hit.score);
            writer.number(hit.document);
        }
    }
    writer.finish();
    out.commit();
}

ResumeResult resume_checkpoint(const std::filesystem::path& path, const std::string& identity, Search& search) {
    if (!std::filesystem::exists(path)) return {};
    const auto mapped = io::MappedFile::open(path);
    const std::span<const std::byte> file = mapped->bytes();
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    if (text.empty()) return refused("it is empty");
    if (!text.starts_with(magic)) return {Resumed::foreign, "it is not a checkpoint of a rowmax search"};
    if (!intact(file)) return refused("it is damaged");
    const std::size_t end = text.find("\n\n");
    if (end == std::string_view::npos) return refused("it is damaged");
    const std::string_view stored = text.substr(magic.size(), end + 1 - magic.size());
    if (stored != identity) return refused(first_difference(stored, identity));
    if (!read_state(Reader(file.subspan(end + 2, file.size() - end - 2 - sizeof(std::uint64_t))), search))
        return refused("it is damaged");
    return {Resumed::taken, {}};
}

}  // namespace rowmax::stream
