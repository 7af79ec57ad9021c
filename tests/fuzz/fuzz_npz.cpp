// .npz: the zip directory, inflation, the arrays inside.
#include "fuzz/archive_reader.hpp"
#include "io/builders.hpp"

namespace rowmax::fuzz {

std::vector<std::string> seeds() {
    using namespace test;
    const std::string tokens = npy("<f4", "(2, 3)", raw_list<float>({0, 1, 2, 3, 4, 5}));
    const std::string ids = npy("|S2", "(2,)", "abcd");
    const std::vector<ZipEntry> stored{{.name = "a.npy", .data = tokens}, {.name = "ids.npy", .data = ids}};
    const std::vector<ZipEntry> deflated{{.name = "a.npy", .data = tokens, .deflate = true},
                                         {.name = "b.npy", .data = ids, .deflate = true, .zip64 = true}};
    return {zip(stored), zip(stored, true), zip(deflated), zip(deflated, true, "comment"), zip({})};
}

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::uint64_t cap = std::uint64_t{1} << 20;
    rowmax::fuzz::read_archive(rowmax::fuzz::text(data, size),
                               [](const std::string& path) { return rowmax::io::open_npz(path, cap); });
    return 0;
}
