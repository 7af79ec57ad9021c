// Tokens go straight into the file; offsets and ids, whose place comes after, wait in nameless files of their own.
#include <algorithm>
#include <array>
#include <utility>

#include "core/sides.hpp"
#include "io/coarse_writer.hpp"
#include "io/corpus_format.hpp"
#include "io/file_error.hpp"
#include "io/ids.hpp"
#include "io/output_file.hpp"

namespace rowmax {

namespace {

using Progress = std::function<void(std::int64_t done, std::int64_t total)>;
/// Some tens of milliseconds of writing.
constexpr std::int64_t tokens_between_calls = std::int64_t{1} << 16;

constexpr core::SideNames names{"tokens", "mask", "cu_seqlens", "max_seqlen", "documents"};

using Stream = io::SectionStream;

void pad(io::OutputFile& file) {
    constexpr std::array<std::byte, io::corpus_alignment> zeros{};
    const std::uint64_t over = file.size() % io::corpus_alignment;
    if (over != 0) file.write(std::span(zeros).first(io::corpus_alignment - over));
}

}  // namespace

struct CorpusWriter::Impl {
    std::string where;
    DType dtype;
    std::int64_t dim;
    Stream main;  ///< header page and tokens
    Stream offsets;
    Stream id_offsets;
    Stream id_text;
    std::vector<io::CoarseWriter> coarse;
    std::vector<std::byte> gathered;  ///< kept tokens of a document, where it has hidden ones
    std::int64_t count = 0;
    std::int64_t token_count = 0;
    std::int64_t max_length = 0;
    bool has_ids = false;
    enum class State { open, torn, committed } state = State::open;  ///< torn: a write failed half way

    Impl(const std::filesystem::path& path, DType dtype_, std::int64_t dim_, std::span<const Coarse> forms)
        : where(path.string()), dtype(dtype_), dim(dim_), main(path), offsets(path), id_offsets(path), id_text(path) {
        if (main.file.direct()) throw Error(ErrorCode::io, where + ": a corpus needs a regular file");
        for (const io::CoarseSections& sections : io::coarse_sections) {
            if (std::find(forms.begin(), forms.end(), sections.form) != forms.end())
                coarse.emplace_back(path, sections, dim);
        }
        main.file.write(std::vector<std::byte>(io::corpus_page));
        offsets.write(std::int64_t{0});
        id_offsets.write(std::int64_t{0});
    }

    void check_tokens(const TokenSet& documents) const {
        core::check_token_dtype(documents, names);
        core::check_layout(documents, names);
        const std::int64_t d = documents.tokens.shape[documents.tokens.ndim - 1];
        if (documents.tokens.dtype != dtype) {
            throw Error(ErrorCode::invalid_type, fmt::format("tokens: {}, but the corpus {} holds {}",
                                                             name_of(documents.tokens.dtype), where, name_of(dtype)));
        }
        if (d == dim) return;
        throw Error(ErrorCode::invalid_value, fmt::format("tokens {}: dimension {}, but the corpus {} has {}",
                                                          documents.tokens.shape_text(), d, where, dim));
    }

    // Before anything is written, so that a refused batch leaves the corpus as it was.
    void check_ids(std::int64_t documents, std::span<const std::string> ids) const {
        const bool given = !ids.empty();
        if (given && static_cast<std::int64_t>(ids.size()) != documents) {
            throw Error(ErrorCode::invalid_value, fmt::format("ids: {} for {} documents", ids.size(), documents));
        }
        if (count > 0 && documents > 0 && given != has_ids) {
            throw Error(ErrorCode::invalid_value,
                        fmt::format("ids: document {} comes {} an id, those before it {}", count,
                                    given ? "with" : "without", given ? "did not" : "did"));
        }
        for (std::size_t i = 0; i < ids.size(); ++i) io::check_id(ids[i], fmt::format("ids[{}]", i));
    }

    void append_tokens(const core::Segments& documents, const core::Segment& segment) {
        const auto row_bytes = static_cast<std::size_t>(dim) * size_of(dtype);
        const bool whole = documents.mask.data == nullptr &&
                           (documents.row_stride == static_cast<std::int64_t>(row_bytes) || segment.length == 1);
        std::span<const std::byte> rows(segment.data, row_bytes * static_cast<std::size_t>(segment.length));
        if (!whole) {
            gathered.clear();
            for (std::int64_t t = 0; t < segment.length; ++t) {
                const std::byte* row = segment.data + t * documents.row_stride;
                if (documents.keeps(segment, t)) gathered.insert(gathered.end(), row, row + row_bytes);
            }
            rows = gathered;
        }
        main.write(rows);
        const auto kept = static_cast<std::int64_t>(rows.size() / row_bytes);
        for (io::CoarseWriter& form : coarse) form.append(TensorView(rows.data(), dtype, {kept, dim}));
        token_count += kept;
        max_length = std::max(max_length, kept);
        offsets.write(token_count);
    }

    void check_open() const {
        if (state == State::torn) throw Error(ErrorCode::io, where + ": an earlier write failed");
        if (state == State::committed) throw Error(ErrorCode::invalid_value, where + ": already committed");
    }

    void append(const TokenSet& documents, std::span<const std::string> ids, const Progress& progress) {
        check_open();
        check_tokens(documents);
        core::Copies copies;
        const core::Segments segments = core::make_segments(copies, documents, names, true);
        check_ids(segments.count, ids);
        state = State::torn;
        std::int64_t told = token_count;
        for (std::int64_t i = 0; i < segments.count; ++i) {
            append_tokens(segments, segments.at(i));
            if (progress && token_count - told >= tokens_between_calls) {
                progress(i + 1, segments.count);
                told = token_count;
            }
            if (!ids.empty()) {
                id_text.write(ids[static_cast<std::size_t>(i)]);
                id_offsets.write(static_cast<std::int64_t>(id_text.file.size()));
            }
        }
        if (segments.count > 0) has_ids = !ids.empty();
        count += segments.count;
        state = State::open;
    }

    template <class From>
    void add_section(io::CorpusHeader& header, std::string_view name, DType type, From& stream,
                     std::span<const std::int64_t> shape) {
        pad(main.file);
        CorpusSection section{std::string(name), TensorView(nullptr, type, shape), main.file.size(), stream.file.size(),
                              stream.crc};
        main.file.append(stream.file);
        header.sections.push_back(std::move(section));
    }

    void commit() {
        check_open();
        state = State::torn;
        io::CorpusHeader header{0, count, token_count, max_length, dim, dtype, {}};
        const std::uint64_t token_bytes = main.file.size() - io::corpus_page;
        header.sections.push_back({std::string(io::tokens_section), TensorView(nullptr, dtype, {token_count, dim}),
                                   io::corpus_page, token_bytes, main.crc});
        add_section(header, io::cu_seqlens_section, DType::i64, offsets, std::array{count + 1});
        if (has_ids) {
            const auto text_bytes = static_cast<std::int64_t>(id_text.file.size());
            add_section(header, io::id_offsets_section, DType::i64, id_offsets, std::array{count + 1});
            add_section(header, io::id_text_section, DType::u8, id_text, std::array{text_bytes});
        }
        for (io::CoarseWriter& form : coarse) {
            const io::CoarseSections& names_of = form.sections();
            add_section(header, names_of.codes, names_of.dtype, form.codes(),
                        std::array{token_count, io::coarse_width(names_of.form, dim)});
            if (!names_of.scale.empty())
                add_section(header, names_of.scale, DType::f32, form.scale(), std::array{token_count});
        }
        header.file_bytes = main.file.size();
        main.file.write_at(0, io::encode_corpus_header(header));
        main.file.commit();
        state = State::committed;
    }
};

namespace {

TokenSet one_document(const TensorView& tokens) {
    TokenSet set;
    set.tokens = tokens;
    return set;
}

void check_shape(DType dtype, std::int64_t dim) {
    core::check_token_dtype(one_document({&dim, dtype, {1, 1}}), names);
    if (dtype == DType::i8 || dtype == DType::f8e4m3) {
        throw Error(ErrorCode::invalid_type,
                    fmt::format("tokens: {}, whose scales a corpus does not hold", name_of(dtype)));
    }
    if (dim >= 1 && dim <= core::max_dim) return;
    throw Error(ErrorCode::invalid_value, fmt::format("dim: {}, not in 1 to {}", dim, core::max_dim));
}

}  // namespace

CorpusWriter::CorpusWriter(const std::filesystem::path& path, DType dtype, std::int64_t dim,
                           std::span<const Coarse> coarse) {
    check_shape(dtype, dim);
    impl_ = std::make_unique<Impl>(path, dtype, dim, coarse);
}

CorpusWriter::~CorpusWriter() = default;
CorpusWriter::CorpusWriter(CorpusWriter&&) noexcept = default;
CorpusWriter& CorpusWriter::operator=(CorpusWriter&&) noexcept = default;

void CorpusWriter::append(const TensorView& tokens, std::string_view id) {
    if (tokens.ndim != 2) {
        throw Error(ErrorCode::invalid_value, fmt::format("tokens {}: one document is [L, d]", tokens.shape_text()));
    }
    const std::string name(id);
    impl_->append(one_document(tokens), id.empty() ? std::span<const std::string>() : std::span(&name, 1), {});
}

void CorpusWriter::append(const TokenSet& documents, std::span<const std::string> ids,
                          const std::function<void(std::int64_t done, std::int64_t total)>& progress) {
    impl_->append(documents, ids, progress);
}

std::int64_t CorpusWriter::count() const noexcept {
    return impl_->count;
}
std::int64_t CorpusWriter::token_count() const noexcept {
    return impl_->token_count;
}

void CorpusWriter::commit() {
    impl_->commit();
}

}  // namespace rowmax
