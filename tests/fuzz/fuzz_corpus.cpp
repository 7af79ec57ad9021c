// Corpus files whose header has the right checksum and says anything.
#include "fuzz/fuzz.hpp"
#include "io/corpus_format.hpp"
#include "io/token_source.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::fuzz {

namespace {

std::string packed(bool ids, bool coarse) {
    std::vector<CorpusSection> sections{{"tokens", TensorView(nullptr, DType::f16, {3, 2}), 4096, 12, 0},
                                        {"cu_seqlens", TensorView(nullptr, DType::i64, {3}), 4160, 24, 0}};
    if (ids) {
        sections.push_back({"ids.offsets", TensorView(nullptr, DType::i64, {3}), 4224, 24, 0});
        sections.push_back({"ids.text", TensorView(nullptr, DType::u8, {2}), 4288, 2, 0});
    }
    if (coarse) {
        sections.push_back({"int8.codes", TensorView(nullptr, DType::i8, {3, 2}), 4352, 6, 0});
        sections.push_back({"int8.scale", TensorView(nullptr, DType::f32, {3}), 4416, 12, 0});
        sections.push_back({"bits", TensorView(nullptr, DType::u8, {3, 1}), 4480, 3, 0});
    }
    const std::uint64_t size = coarse ? 4483 : 4290;
    const io::CorpusHeader header{size, 2, 3, 2, 2, DType::f16, std::move(sections)};
    const std::vector<std::byte> page = io::encode_corpus_header(header);
    std::string file(reinterpret_cast<const char*>(page.data()), page.size());
    file.resize(size);
    const std::int64_t offsets[2][3] = {{0, 1, 3}, {0, 1, 2}};
    file.replace(4160, 24, reinterpret_cast<const char*>(offsets[0]), 24);
    file.replace(4224, 24, reinterpret_cast<const char*>(offsets[1]), 24);
    file.replace(4288, 2, "ab");
    return file;
}

// The page of the header is mostly empty; only its first 768 bytes are part of an input.
constexpr std::size_t kept = 768;

std::string expand(std::string_view input) {
    std::string file(input.substr(0, std::min(kept, input.size())));
    file.resize(io::corpus_page);
    if (input.size() > kept) file += input.substr(kept);
    file.replace(0, io::corpus_magic.size(), io::corpus_magic);
    const std::uint64_t size = file.size();
    if (file[12] % 4 != 0) file.replace(16, 8, reinterpret_cast<const char*>(&size), 8);
    const std::uint32_t zero = 0;
    file.replace(12, 4, reinterpret_cast<const char*>(&zero), 4);
    const std::uint32_t crc = io::crc32_of(std::as_bytes(std::span(file)).first(io::corpus_page));
    file.replace(12, 4, reinterpret_cast<const char*>(&crc), 4);
    return file;
}

}  // namespace

std::vector<std::string> seeds() {
    std::vector<std::string> out;
    for (const bool ids : {false, true}) {
        for (const bool coarse : {false, true}) out.push_back(packed(ids, coarse).erase(kept, io::corpus_page - kept));
    }
    return out;
}

}  // namespace rowmax::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rowmax;
    const fuzz::MemoryFile file(fuzz::expand(fuzz::text(data, size)));
    fuzz::attempt([&] {
        const Corpus corpus = Corpus::open(file.path());
        for (const CorpusSection& section : corpus.sections()) fuzz::touch(section.view);
        for (std::int64_t i = 0; i < std::min<std::int64_t>(corpus.count(), 16); ++i) {
            fuzz::attempt([&] { fuzz::touch(corpus.document(i)); });
            fuzz::attempt([&] { (void)corpus.id(i); });
        }
        fuzz::attempt([&] { (void)corpus.find("b"); });
        for (const Coarse form : corpus.coarse_forms()) {
            fuzz::attempt([&] {
                const TokenSet set = corpus.coarse(form);
                fuzz::touch(set.tokens);
                fuzz::touch(set.scale);
            });
        }
        fuzz::attempt([&] { corpus.verify(); });
        const io::TokenSource source = io::load_tokens(file.path());
        fuzz::touch(source.all().set.tokens);
    });
    return 0;
}
