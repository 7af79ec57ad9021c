#include "io/plaid_writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/bit_fields.hpp"
#include "core/element.hpp"
#include "core/float_mode.hpp"
#include "core/parallel.hpp"
#include "core/sides.hpp"
#include "io/npy.hpp"
#include "io/output_file.hpp"
#include "io/output_folder.hpp"
#include "io/plaid_index.hpp"
#include "io/residual_codec.hpp"

namespace rowmax::io {

namespace {

namespace fs = std::filesystem;

constexpr core::SideNames token_names{"tokens", "mask", "cu_seqlens", "max_seqlen", "documents"};

/// Well mixed bits of a number (the finaliser of MurmurHash3, Appleby): which tokens are sampled must not follow the
/// documents' lengths.
std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

class Writer {
  public:
    Writer(const TokenSource& source, const PlaidWriteOptions& options) : source_(source), options_(options) {
        core::check_nbits(options.nbits);
        switch (source.dtype()) {
            case DType::f16:
            case DType::bf16:
            case DType::f32:
            case DType::f64: break;
            default:
                throw Error(ErrorCode::invalid_type,
                            fmt::format("documents must be float16, bfloat16, float32 or float64, got {}",
                                        name_of(source.dtype())));
        }
        check(options.centroids >= 0, "centroids must not be negative, got {}", options.centroids);
        check(options.iterations >= 0, "iterations must not be negative, got {}", options.iterations);
        check(options.chunk_documents >= 1, "chunk_documents must be at least 1, got {}", options.chunk_documents);
        check(options.threads >= 0, "threads: must not be negative, got {}", options.threads);
        if (source.dim() * options.nbits % 8 != 0) {
            throw Error(ErrorCode::invalid_value, fmt::format("nbits: {} bits of {} dimensions fill no whole bytes",
                                                              options.nbits, source.dim()));
        }
    }

    PlaidWriteReport write(const fs::path& folder) {
        OutputFolder out(folder);
        folder_ = out.inside();
        train();
        write_tables();
        std::int64_t chunks = 0;
        for (std::int64_t first = 0; first < source_.count(); first += options_.chunk_documents, ++chunks) {
            write_chunk(chunks, first, std::min(first + options_.chunk_documents, source_.count()));
        }
        write_metadata(chunks);
        write_lists();
        out.commit();
        return {source_.count(), tokens_, codec_.centroids.count(), chunks};
    }

  private:
    template <class... Args>
    static void check(bool fine, fmt::format_string<Args...> text, Args&&... args) {
        if (!fine) throw Error(ErrorCode::invalid_value, fmt::format(text, std::forward<Args>(args)...));
    }

    /// Calls f(number of the document, its segment, the side) for documents [first, last), block by block; `done`
    /// documents were read before.
    template <class F>
    void for_documents(std::int64_t first, std::int64_t last, std::int64_t done, F f) {
        while (first < last) {
            const std::int64_t end = std::min(source_.block_end(first, options_.block_bytes), last);
            const TokenBlock block = source_.block(first, end);
            core::Copies copies;
            const core::Segments side = core::make_segments(copies, block.set, token_names, true);
            for (std::int64_t i = 0; i < side.count; ++i) f(first + i, side.at(i), side);
            done += end - first;
            first = end;
            if (options_.progress) options_.progress(done, 2 * source_.count());
        }
    }

    /// Appends a token as float32 of length 1.
    void append(Rows& rows, std::int64_t document, std::int64_t token, const std::byte* from) const {
        const auto size = static_cast<std::int64_t>(size_of(source_.dtype()));
        for (std::int64_t k = 0; k < source_.dim(); ++k) {
            rows.values.push_back(static_cast<float>(core::read_element(from + k * size, source_.dtype())));
            check(std::isfinite(rows.values.back()), "document {}, token {} holds {}, which an index cannot", document,
                  token, rows.values.back());
        }
        normalize_row(rows.values.data() + rows.values.size() - source_.dim(), source_.dim());
    }

    void train();
    void write_tables() const;
    void write_chunk(std::int64_t number, std::int64_t first, std::int64_t last);
    void write_metadata(std::int64_t chunks) const;
    void write_lists() const;

    void array(const std::string& name, const TensorView& view) const {
        OutputFile out(folder_ / name);
        write_npy(out, view);
        out.commit();
    }
    void text(const std::string& name, const std::string& content) const {
        OutputFile out(folder_ / name);
        out.write(content);
        out.commit();
    }

    const TokenSource& source_;
    const PlaidWriteOptions& options_;
    fs::path folder_;
    ResidualCodec codec_;
    std::int64_t tokens_ = 0;
};

void Writer::train() {
    const auto most = static_cast<double>(std::max<std::int64_t>(source_.token_count(), 1));
    std::int64_t count = options_.centroids;
    if (count == 0) count = std::int64_t{1} << static_cast<int>(std::log2(16 * std::sqrt(most)));
    const std::int64_t row_bytes = source_.dim() * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t wanted = std::max(std::min(64 * count, options_.sample_bytes / row_bytes), count);
    const auto one_in = static_cast<std::uint64_t>(std::max<std::int64_t>(source_.token_count() / wanted, 1));
    Rows sample{{}, source_.dim()};
    std::uint64_t seen = 0;
    for_documents(0, source_.count(), 0,
                  [&](std::int64_t number, const core::Segment& item, const core::Segments& side) {
                      for (std::int64_t t = 0; t < item.length; ++t) {
                          if (!side.keeps(item, t) || mixed(seen++) % one_in != 0) continue;
                          append(sample, number, t, item.data + t * side.row_stride);
                      }
                  });
    check(sample.count() > 0, "{} documents without tokens: centroids are made of them", source_.count());
    const auto pause = [&] {
        if (options_.progress) options_.progress(source_.count(), 2 * source_.count());
    };
    Rows centroids = spherical_kmeans(sample, count, options_.iterations, options_.threads, pause);
    check(options_.centroids == 0 || centroids.count() == count, "centroids: {}, but there are {} tokens", count,
          sample.count());
    codec_ = train_codec(sample, std::move(centroids), options_.nbits, options_.threads);
}

void Writer::write_tables() const {
    const auto half = [](const std::vector<float>& values, std::vector<std::uint16_t>& bits) {
        bits.clear();
        for (const float x : values) bits.push_back(core::float_to_half(x));
        return bits.data();
    };
    const auto floats = [](const std::vector<float>& values) {
        return TensorView(values.data(), DType::f32, {static_cast<std::int64_t>(values.size())});
    };
    std::vector<std::uint16_t> bits;
    const Rows& centroids = codec_.centroids;
    array("centroids.npy", TensorView(half(centroids.values, bits), DType::f16, {centroids.count(), centroids.dim}));
    array("avg_residual.npy", TensorView(half(codec_.avg_residual, bits), DType::f16, {centroids.dim}));
    array("bucket_cutoffs.npy", floats(codec_.cutoffs));
    array("bucket_weights.npy", floats(codec_.weights));
    array("cluster_threshold.npy", TensorView(&codec_.cluster_threshold, DType::f32, std::span<const std::int64_t>()));
}

// The lengths first, since the headers of codes and residuals say how many there are; masks alone are read for them.
void Writer::write_chunk(std::int64_t number, std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t from = first; from < last;) {
        const std::int64_t end = std::min(source_.block_end(from, options_.block_bytes), last);
        const TokenBlock block = source_.block(from, end);
        core::Copies copies;
        const core::Segments side = core::make_segments(copies, block.set, token_names, true);
        for (std::int64_t i = 0; i < side.count; ++i) {
            const core::Segment item = side.at(i);
            std::int64_t kept = 0;
            for (std::int64_t t = 0; t < item.length; ++t) kept += side.keeps(item, t) ? 1 : 0;
            lengths.push_back(kept);
        }
        from = end;
    }
    std::int64_t total = 0;
    for (const std::int64_t length : lengths) total += length;
    OutputFile codes_file(folder_ / fmt::format("{}.codes.npy", number));
    OutputFile residuals_file(folder_ / fmt::format("{}.residuals.npy", number));
    write_npy_header(codes_file, DType::i64, std::array{total});
    write_npy_header(residuals_file, DType::u8, std::array{total, codec_.bytes()});
    Rows rows{{}, source_.dim()};
    std::vector<std::int64_t> codes;
    std::vector<std::uint8_t> residuals;
    const auto flush = [&] {
        encode_rows(codec_, rows, options_.threads, codes, residuals);
        codes_file.write(std::as_bytes(std::span(codes)));
        residuals_file.write(std::as_bytes(std::span(residuals)));
        rows.values.clear();
    };
    constexpr std::int64_t rows_held = std::int64_t{1} << 16;
    for_documents(first, last, source_.count() + first,
                  [&](std::int64_t document, const core::Segment& item, const core::Segments& side) {
                      for (std::int64_t t = 0; t < item.length; ++t) {
                          if (side.keeps(item, t)) append(rows, document, t, item.data + t * side.row_stride);
                      }
                      if (rows.count() >= rows_held) flush();
                  });
    flush();
    codes_file.commit();
    residuals_file.commit();
    text(fmt::format("doclens.{}.json", number), fmt::format("[{}]", fmt::join(lengths, ",")));
    text(fmt::format("{}.metadata.json", number),
         fmt::format("{{\"num_documents\": {}, \"num_embeddings\": {}, \"embedding_offset\": {}}}\n", lengths.size(),
                     total, tokens_));
    tokens_ += total;
}

void Writer::write_metadata(std::int64_t chunks) const {
    text("plan.json", fmt::format("{{\"nbits\": {}, \"num_chunks\": {}}}\n", codec_.nbits, chunks));
    const double average = static_cast<double>(tokens_) / static_cast<double>(source_.count());
    text("metadata.json",
         fmt::format("{{\"num_chunks\": {}, \"nbits\": {}, \"num_partitions\": {}, \"num_embeddings\": {}, "
                     "\"avg_doclen\": {}, \"num_documents\": {}}}\n",
                     chunks, codec_.nbits, codec_.centroids.count(), tokens_, average, source_.count()));
}

void Writer::write_lists() const {
    const PlaidLists made = PlaidIndex::open(folder_).lists();
    const InvertedFile lists = made.view();
    array("ivf.npy", lists.documents);
    array("ivf_lengths.npy", lists.lengths);
}

}  // namespace

PlaidWriteReport write_plaid_index(const TokenSource& source, const fs::path& folder,
                                   const PlaidWriteOptions& options) {
    const core::StandardFloatMode mode;
    return Writer(source, options).write(folder);
}

}  // namespace rowmax::io
