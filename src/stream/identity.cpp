// What makes two searches the same: the lines a checkpoint begins with.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/mapped_file.hpp"
#include "stream/checkpoint.hpp"
#include "stream/hash.hpp"

namespace rowmax::stream {

namespace {

namespace fs = std::filesystem;

// Both ends: headers and offsets of a file, and where it was last appended to.
constexpr std::size_t sample_bytes = std::size_t{64} << 10;

std::uint64_t hash_file(const fs::path& path, bool whole) {
    const auto mapped = io::MappedFile::open(path);
    const std::span<const std::byte> bytes = mapped->bytes();
    if (whole || bytes.size() <= 2 * sample_bytes) return fnv1a(bytes);
    return fnv1a(bytes.last(sample_bytes), fnv1a(bytes.first(sample_bytes)));
}

std::int64_t changed_at(const fs::path& path) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(fs::last_write_time(path).time_since_epoch()).count();
}

// A folder is its files' names, sizes and times.
std::uint64_t hash_folder(const fs::path& folder) {
    std::vector<std::string> entries;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        if (!entry.is_regular_file()) continue;
        entries.push_back(
            fmt::format("{} {} {}\n", entry.path().filename().string(), entry.file_size(), changed_at(entry.path())));
    }
    std::sort(entries.begin(), entries.end());
    std::uint64_t hash = fnv1a({});
    for (const std::string& entry : entries) hash = fnv1a(std::as_bytes(std::span(entry)), hash);
    return hash;
}

std::string contents(const io::TokenSource& source) {
    return fmt::format("{} items, {} tokens, d = {}, {}", source.count(), source.token_count(), source.dim(),
                       name_of(source.dtype()));
}

std::string describe_queries(const io::TokenSource& queries) {
    const bool folder = fs::is_directory(queries.path());
    const std::uint64_t hash = folder ? hash_folder(queries.path()) : hash_file(queries.path(), true);
    return fmt::format("queries: {}, contents {:016x}\n", contents(queries), hash);
}

std::string describe_corpus(std::size_t number, const io::TokenSource& corpus) {
    if (fs::is_directory(corpus.path())) {
        return fmt::format("corpus {}: {}, files {:016x}\n", number, contents(corpus), hash_folder(corpus.path()));
    }
    return fmt::format("corpus {}: {}, {} bytes, changed at {}, sample {:016x}\n", number, contents(corpus),
                       fs::file_size(corpus.path()), changed_at(corpus.path()), hash_file(corpus.path(), false));
}

}  // namespace

std::string search_identity(const Search& search) {
    const SearchOptions& options = search.options();
    std::string text = fmt::format("version: {}\nkernel: {}\nk: {}\nnormalize: {}\nprecision: {}\n", version(),
                                   search.kernel(), options.k, options.score.normalize,
                                   options.score.precision == Precision::highest ? "highest" : "high");
    text += describe_queries(search.queries());
    for (std::size_t c = 0; c < search.corpora().size(); ++c) text += describe_corpus(c + 1, search.corpora()[c]);
    return text;
}

}  // namespace rowmax::stream
