// Lists of pairs, of items that have ids and of items that have numbers.
#include <array>

#include "cli/score/pair_list.hpp"
#include "fuzz/fuzz.hpp"

namespace rowmax::fuzz {

std::vector<std::string> seeds() {
    return {"q1 d1\nq2\td2\r\n\n \xc3\xa9 d3", "#0 #2\n#1 #0\n", "0 2\n1 1\n2 0\n", "q1 2\n#2 d3 \n"};
}

namespace {

constexpr std::int64_t items = 3;

io::TokenSource source(io::Ids ids) {
    static const std::array<float, items> tokens{1, 2, 3};
    TokenSet set;
    set.tokens = TensorView(tokens.data(), DType::f32, {items, 1, 1});
    return io::tokens_in_memory(set, std::move(ids));
}

void read(const std::string& path, const io::TokenSource& queries, const io::TokenSource& documents) {
    attempt([&] {
        const auto pairs = cli::score_command::read_pairs(path, queries, documents);
        expect(pairs.query.size() == pairs.document.size());
        for (const auto& numbers : {pairs.query, pairs.document}) {
            for (const std::int64_t number : numbers) expect(number >= 0 && number < items);
        }
    });
}

}  // namespace

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rowmax;
    static const io::TokenSource numbered = fuzz::source(io::Ids(fuzz::items));
    static const io::TokenSource queries = fuzz::source(io::Ids({"q1", "q2", "\xc3\xa9"}, "queries"));
    static const io::TokenSource documents = fuzz::source(io::Ids({"d1", "d2", "d3"}, "documents"));
    const fuzz::MemoryFile file(fuzz::text(data, size));
    fuzz::read(file.path(), queries, documents);
    fuzz::read(file.path(), numbered, numbered);
    fuzz::read(file.path(), queries, numbered);
    return 0;
}
