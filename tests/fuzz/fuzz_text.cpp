// TREC runs, qrels and lists of ids.
#include "fuzz/fuzz.hpp"
#include "io/ids.hpp"
#include "io/trec.hpp"

namespace rowmax::fuzz {

std::vector<std::string> seeds() {
    return {"q1 Q0 d1 1 2.5 tag\nq1\tQ0\td2 2 -1e-3 tag\r\nq2 Q0 d1 1 nan tag", "1 0 a 2\n1\t0\tb\t-1\n\n2 0 a 0\n",
            "doc-1\ndoc-2\r\n\xc3\xa9\n"};
}

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rowmax;
    const fuzz::MemoryFile file(fuzz::text(data, size));
    fuzz::attempt([&] { io::read_run(file.path()); });
    fuzz::attempt([&] { io::read_qrels(file.path()); });
    fuzz::attempt([&] { io::Ids(io::read_id_file(file.path()), "x"); });
    return 0;
}
