// load_tokens() of a folder: one array a document, whatever the others are.
#include <array>

#include "fuzz/folder.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/token_blocks.hpp"
#include "io/builders.hpp"
#include "io/inspect.hpp"

namespace rowmax::fuzz {

namespace {

constexpr std::array names = {"1.npy", "2.npy", "10.npy"};

}  // namespace

std::vector<std::string> seeds() {
    using test::npy;
    using test::raw_list;
    const std::string two = npy("<f4", "(2, 2)", raw_list<float>({1, 2, 3, 4}));
    const std::string none = npy("<f4", "(0, 2)", "");
    const std::string bits = npy("<u2", "(1, 3)", std::string(6, '\x40'));
    return {joined({two, none, two}),
            joined({two}),
            joined({none}),
            joined({bits, bits}),
            joined({two, npy("<f8", "(1, 2)", std::string(16, '\0'))}),
            ""};
}

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rowmax;
    static const fuzz::Folder folder;
    folder.fill(fuzz::names, fuzz::text(data, size));
    fuzz::attempt([&] { io::inspect(folder.path()); });
    for (const char* dtype : {"", "bfloat16"}) {
        fuzz::attempt([&] { fuzz::read_source(io::load_tokens(folder.path(), {.dtype = dtype})); });
    }
    return 0;
}
