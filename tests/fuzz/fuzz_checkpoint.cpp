// Checkpoints of a search: whole files, and ones whose name, search and hash are right and whose contents are anything.
#include "stream/checkpoint.hpp"

#include "fuzz/fuzz.hpp"
#include "stream/collection.hpp"
#include "stream/hash.hpp"

namespace rowmax::fuzz {

namespace {

constexpr std::int64_t queries = 2;
constexpr std::int64_t documents = 9;
constexpr std::int64_t most = 3;
constexpr std::string_view identity = "k: 3\nqueries: two\n";

stream::Search new_search() {
    stream::SearchOptions options;
    options.k = most;
    options.score.threads = 1;
    return {test::collection(queries, 2, 4, 1), {test::collection(documents, 3, 4, 2)}, options};
}

template <class Number>
void append(std::string& to, Number value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Position and hits, after `done` documents for `ahead` queries.
std::string contents(std::int64_t done, std::int64_t ahead) {
    std::string out;
    for (const std::int64_t number : {done, done, ahead}) append(out, number);
    for (std::int64_t i = 0; i < queries; ++i) {
        const std::int64_t hits = std::min(done, most);
        append(out, hits);
        for (std::int64_t j = 0; j < hits; ++j) {
            append(out, 10.0 - static_cast<double>(j));
            append(out, j);
        }
    }
    return out;
}

/// An input that begins with 'w' is the whole file.
std::string expand(std::string_view input) {
    if (input.starts_with('w')) return std::string(input.substr(1));
    std::string file = "rowmax search checkpoint 1\n";
    file.append(identity).append("\n").append(input);
    append(file, stream::fnv1a(std::as_bytes(std::span(file))));
    return file;
}

}  // namespace

std::vector<std::string> seeds() {
    return {contents(0, 0), contents(4, 0), contents(9, 0), contents(2, 1), "w" + expand(contents(4, 0))};
}

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rowmax;
    const fuzz::MemoryFile file(fuzz::expand(fuzz::text(data, size)));
    fuzz::attempt([&] {
        stream::Search search = fuzz::new_search();
        stream::resume_checkpoint(file.path(), std::string(fuzz::identity), search);
        while (search.step()) search.settle();
        // Whatever it went on from: a whole search, of documents that there are.
        if (search.pairs_done() != search.pairs_total()) abort();
        for (std::int64_t i = 0; i < fuzz::queries; ++i) {
            for (const core::Hit& hit : search.ranked(i)) {
                if (hit.document < 0 || hit.document >= fuzz::documents) abort();
            }
        }
    });
    return 0;
}
