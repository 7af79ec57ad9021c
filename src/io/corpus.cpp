#include "rowmax/corpus.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "io/corpus_format.hpp"
#include "io/file_error.hpp"
#include "io/ids.hpp"
#include "io/mapped_file.hpp"
#include "rowmax/compressed.hpp"

namespace rowmax {

namespace {

const CorpusSection* find_section(const io::CorpusHeader& header, std::string_view name) {
    const auto found = std::find_if(header.sections.begin(), header.sections.end(),
                                    [&](const CorpusSection& section) { return section.name == name; });
    return found == header.sections.end() ? nullptr : &*found;
}

}  // namespace

std::string_view name_of(Coarse form) noexcept {
    switch (form) {
        case Coarse::int8: return "int8";
        case Coarse::fp8: return "fp8";
        case Coarse::bits: break;
    }
    return "bits";
}

Coarse coarse_from_name(std::string_view name) {
    for (const Coarse form : {Coarse::int8, Coarse::fp8, Coarse::bits}) {
        if (name_of(form) == name) return form;
    }
    throw Error(ErrorCode::invalid_value, fmt::format("coarse must be 'int8', 'fp8' or 'bits', got '{}'", name));
}

struct Corpus::Impl {
    using Report = std::function<void(std::uint64_t, std::uint64_t)>;

    std::shared_ptr<const io::MappedFile> file;
    std::string where;
    io::CorpusHeader header;
    TensorView tokens;
    TensorView cu_seqlens;
    io::Ids ids;

    explicit Impl(std::shared_ptr<const io::MappedFile> mapped)
        : file(std::move(mapped)),
          where(file->path().string()),
          header(io::decode_corpus_header(file->bytes(), where)),
          tokens(find_section(header, io::tokens_section)->view),
          cu_seqlens(find_section(header, io::cu_seqlens_section)->view),
          ids(header.count) {
        const CorpusSection* offsets = find_section(header, io::id_offsets_section);
        const CorpusSection* text = find_section(header, io::id_text_section);
        if (offsets == nullptr || text == nullptr) return;
        ids = io::Ids(header.count, static_cast<const std::int64_t*>(offsets->view.data),
                      {static_cast<const char*>(text->view.data), text->bytes}, where, file);
    }

    [[nodiscard]] const std::int64_t* offsets() const { return static_cast<const std::int64_t*>(cu_seqlens.data); }
    void verify_offsets() const;
    void verify_checksums(const Report& progress) const;
};

void Corpus::Impl::verify_offsets() const {
    const std::int64_t* cu = offsets();
    std::int64_t longest = 0;
    if (cu[0] != 0) io::bad_data(where, "cu_seqlens[0]: {}, it must be 0", cu[0]);
    for (std::int64_t i = 0; i < header.count; ++i) {
        if (cu[i + 1] < cu[i] || cu[i + 1] > header.token_count) {
            io::bad_data(where, "cu_seqlens[{}]: {} after {}, of {} tokens", i + 1, cu[i + 1], cu[i],
                         header.token_count);
        }
        longest = std::max(longest, cu[i + 1] - cu[i]);
    }
    if (cu[header.count] != header.token_count) {
        io::bad_data(where, "cu_seqlens: it ends at {}, of {} tokens", cu[header.count], header.token_count);
    }
    if (longest != header.max_length) {
        io::bad_data(where, "max_length: {} announced, {} found", header.max_length, longest);
    }
}

void Corpus::Impl::verify_checksums(const Report& progress) const {
    constexpr std::uint64_t step = std::uint64_t{16} << 20;
    for (const CorpusSection& section : header.sections) {
        std::uint32_t crc = io::crc32_of({});
        for (std::uint64_t at = 0; at < section.bytes; at += step) {
            const std::uint64_t size = std::min(step, section.bytes - at);
            crc = io::crc32_of(file->bytes().subspan(section.offset + at, size), crc);
            if (progress) progress(section.offset + at + size, header.file_bytes);
        }
        if (crc == section.crc32) continue;
        io::bad_data(where, "section '{}' checksum: {:08x} stored, {:08x} found", section.name, section.crc32, crc);
    }
}

Corpus::Corpus(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Corpus Corpus::open(const std::filesystem::path& path) {
    return Corpus(std::make_shared<const Impl>(io::MappedFile::open(path)));
}

const std::filesystem::path& Corpus::path() const noexcept {
    return impl_->file->path();
}
std::uint64_t Corpus::file_bytes() const noexcept {
    return impl_->header.file_bytes;
}
std::int64_t Corpus::count() const noexcept {
    return impl_->header.count;
}
std::int64_t Corpus::token_count() const noexcept {
    return impl_->header.token_count;
}
std::int64_t Corpus::max_length() const noexcept {
    return impl_->header.max_length;
}
std::int64_t Corpus::dim() const noexcept {
    return impl_->header.dim;
}
DType Corpus::dtype() const noexcept {
    return impl_->header.dtype;
}
TensorView Corpus::tokens() const noexcept {
    return impl_->tokens;
}
TensorView Corpus::cu_seqlens() const noexcept {
    return impl_->cu_seqlens;
}
bool Corpus::has_ids() const noexcept {
    return impl_->ids.stored();
}
std::string Corpus::id(std::int64_t i) const {
    return impl_->ids[i];
}
std::optional<std::int64_t> Corpus::find(std::string_view id) const {
    return impl_->ids.find(id);
}
const std::vector<CorpusSection>& Corpus::sections() const noexcept {
    return impl_->header.sections;
}

TokenSet Corpus::documents() const {
    TokenSet set;
    set.tokens = impl_->tokens;
    set.cu_seqlens = impl_->cu_seqlens;
    return set;
}

std::vector<Coarse> Corpus::coarse_forms() const {
    std::vector<Coarse> forms;
    for (const io::CoarseSections& names : io::coarse_sections) {
        if (find_section(impl_->header, names.codes) != nullptr) forms.push_back(names.form);
    }
    return forms;
}

TokenSet Corpus::coarse(Coarse form) const {
    const io::CoarseSections& names = io::coarse_sections[static_cast<std::size_t>(form)];
    TokenSet set = documents();
    set.tokens = section(names.codes);
    if (!set.tokens.given()) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("{}: it was packed without a coarse form {}", impl_->where, name_of(form)));
    }
    if (form == Coarse::bits) {
        static constexpr float minus_and_plus[] = {-1, 1};
        static const ResidualTables signs{{}, TensorView(minus_and_plus, DType::f32, {2}), 1, BitOrder::little, false};
        set.residual = &signs;
        return set;
    }
    set.scale = section(names.scale);
    if (form == Coarse::fp8) set.tokens.dtype = DType::f8e4m3;
    return set;
}

TensorView Corpus::document(std::int64_t i) const {
    if (i < 0 || i >= count()) {
        throw Error(ErrorCode::invalid_value, fmt::format("document {}: there are {} documents, from 0", i, count()));
    }
    const std::int64_t first = impl_->offsets()[i];
    const std::int64_t last = impl_->offsets()[i + 1];
    if (first < 0 || last < first || last > token_count()) {
        io::bad_data(impl_->where, "cu_seqlens: document {} is [{}, {}) of {} tokens", i, first, last, token_count());
    }
    const auto row_bytes = static_cast<std::size_t>(dim()) * size_of(dtype());
    const auto* data = static_cast<const std::byte*>(impl_->tokens.data) + static_cast<std::size_t>(first) * row_bytes;
    return {data, dtype(), {last - first, dim()}};
}

TensorView Corpus::section(std::string_view name) const noexcept {
    const CorpusSection* found = find_section(impl_->header, name);
    return found == nullptr ? TensorView() : found->view;
}

void Corpus::verify(const std::function<void(std::uint64_t, std::uint64_t)>& progress) const {
    impl_->verify_offsets();
    impl_->verify_checksums(progress);
    impl_->ids.verify();
}

}  // namespace rowmax
