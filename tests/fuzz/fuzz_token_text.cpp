// Lists of tokens' text, as JSON or in lines, and what a terminal and a page are shown of them.
#include <algorithm>

#include "cli/explain/token_text.hpp"
#include "cli/json_text.hpp"
#include "fuzz/fuzz.hpp"

namespace rowmax::fuzz {

std::vector<std::string> seeds() {
    return {R"(["a", "##b", "\u0007 \ud83d\ude00"])",
            "[CLS]\nwords\r\n\n\x1b[31m\n\xc2\x9b",
            "[]",
            " [ \"<b>\" ]",
            "a&b\n'\"\n\xff\xc3",
            R"(["", [[[[[[1]]]]]])"};
}

namespace {

void check(const std::string& token) {
    expect(cli::as_utf8(token) == token);  // it was UTF-8, or has been mended
    const std::string shown = cli::explain::printable(token);
    expect(!shown.empty() && std::ranges::none_of(shown, [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7f;
    }));
    const std::string page = cli::explain::html_escaped(token);
    expect(page.find_first_of("<>\"'") == std::string::npos);
}

}  // namespace

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rowmax;
    const fuzz::MemoryFile file(fuzz::text(data, size));
    for (std::int64_t count = 0; count < 5; ++count) {
        fuzz::attempt([&] {
            const auto tokens = cli::explain::read_tokens(file.path(), count);
            fuzz::expect(static_cast<std::int64_t>(tokens.size()) == count);
            for (const std::string& token : tokens) fuzz::check(token);
        });
    }
    return 0;
}
