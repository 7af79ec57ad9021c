// load_tokens() on any bytes: which arrays belong together, and the blocks that come out.
#include "fuzz/fuzz.hpp"
#include "fuzz/token_blocks.hpp"
#include "io/builders.hpp"
#include "io/inspect.hpp"

namespace rowmax::fuzz {

std::vector<std::string> seeds() {
    using namespace test;
    const std::string data = raw_list<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    const ZipEntry dense{.name = "tokens.npy", .data = npy("<f4", "(2, 3, 2)", data)};
    const ZipEntry packed{.name = "tokens.npy", .data = npy("<f4", "(6, 2)", data)};
    const auto list = [](const char* name, const std::vector<std::int64_t>& values) {
        return ZipEntry{.name = name, .data = npy("<i8", "(" + std::to_string(values.size()) + ",)", raw_list(values))};
    };
    return {npy("<f4", "(2, 3, 2)", data),
            npy("<u2", "(12, 2)", data),
            zip({dense, {.name = "mask.npy", .data = npy("|b1", "(2, 3)", std::string("\1\0\1\0\0\1", 6))}}),
            zip({dense, list("lengths.npy", {1, 3}), {.name = "ids.npy", .data = npy("|S1", "(2,)", "ab")}}),
            zip({packed, list("cu_seqlens.npy", {0, 1, 1, 6}), list("ids.npy", {7, 8, 9})}),
            zip({packed, list("doclens.npy", {1, 0, 5})}),
            zip({packed, list("offsets.npy", {4, 0, 3}), list("lengths.npy", {1, 2, 2})}),
            safetensors(R"({"emb":{"dtype":"F32","shape":[6,2],"data_offsets":[16,64]},)"
                        R"("lengths":{"dtype":"I32","shape":[4],"data_offsets":[0,16]}})",
                        raw_list<std::int32_t>({1, 2, 0, 3}) + data)};
}

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rowmax;
    const fuzz::MemoryFile file(fuzz::text(data, size));
    fuzz::attempt([&] { io::inspect(file.path()); });
    for (const char* dtype : {"", "bfloat16"}) {
        fuzz::attempt(
            [&] { fuzz::read_source(io::load_tokens(file.path(), {.dtype = dtype, .max_inflated_bytes = 1 << 20})); });
    }
    return 0;
}
