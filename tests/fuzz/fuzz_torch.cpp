// torch.save's files: the pickle, and the tensors that it describes.
#include "fuzz/fuzz.hpp"
#include "io/torch_builder.hpp"
#include "io/torch_file.hpp"

namespace rowmax::fuzz {

std::vector<std::string> seeds() {
    using namespace test;
    const std::string floats = raw_list<float>({0, 1});
    return {torch_file(pickled({}), floats),
            torch_file(pickled({}) + pickled({.storage = "ByteStorage"}) + "\x86", floats),
            torch_file("](" + pickled({}) + "e}u0", floats), torch_file("N", floats, true)};
}

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const rowmax::fuzz::MemoryFile file(rowmax::fuzz::text(data, size));
    rowmax::fuzz::attempt([&] {
        for (const rowmax::io::Array& array : rowmax::io::read_torch(file.path())) rowmax::fuzz::touch(array.view);
    });
    return 0;
}
