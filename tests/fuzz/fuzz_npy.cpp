// .npy: headers, arrays, text arrays.
#include "fuzz/fuzz.hpp"
#include "io/builders.hpp"
#include "io/npy.hpp"

namespace rowmax::fuzz {

std::vector<std::string> seeds() {
    using namespace test;
    const std::string data = raw_list<float>({0, 1, 2, 3, 4, 5});
    return {npy("<f4", "(2, 3)", data),
            npy("<f4", "(2, 3)", data, 2),
            npy("<V2", "(3, 4)", data, 3),
            npy("bfloat16", "(12,)", data),
            npy("|b1", "(2, 3, 4)", data),
            npy("<U2", "(3,)", raw_list<std::uint32_t>({'a', 0, 0xe9, 0x1f600, 0x20ac, 0})),
            npy("|S4", "(6,)", data),
            npy("<i8", "(3,)", data),
            npy_file("{\"shape\":(24,),\"fortran_order\":True,\"descr\":\"|u1\"}", data)};
}

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rowmax;
    const auto bytes = std::as_bytes(std::span(data, size));
    for (const auto dtype : {std::optional<DType>(), std::optional(DType::bf16)}) {
        fuzz::attempt([&] { fuzz::touch(io::npy_array(bytes, nullptr, "x", dtype).view); });
    }
    fuzz::attempt([&] { io::npy_strings(bytes, "x"); });
    return 0;
}
