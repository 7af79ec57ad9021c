#include "cli/score/score_writer.hpp"

#include <fmt/format.h>

#include "cli/json_text.hpp"
#include "io/npy.hpp"
#include "io/ranking.hpp"

namespace rowmax::cli::score_command {

namespace {

constexpr std::size_t buffered_bytes = std::size_t{1} << 16;

}  // namespace

ScoreWriter::ScoreWriter(io::OutputFile& out, Format format, DType dtype, std::span<const std::int64_t> shape)
    : out_(out), format_(format), single_(dtype == DType::f32) {
    if (format == Format::npy) io::write_npy_header(out, dtype, shape);
}

void ScoreWriter::add_line(const std::string& query, const std::string& document, double score) {
    if (format_ == Format::tsv) {
        buffer_ += fmt::format("{}\t{}\t{}\n", query, document, io::score_text(score, single_));
    } else {
        buffer_ += fmt::format("{{\"query\": {}, \"document\": {}, \"score\": {}}}\n", json_quoted(query),
                               json_quoted(document), io::json_score_text(score, single_));
    }
}

void ScoreWriter::add_binary(double score) {
    const auto single = static_cast<float>(score);
    if (single_) buffer_.append(reinterpret_cast<const char*>(&single), sizeof(single));
    if (!single_) buffer_.append(reinterpret_cast<const char*>(&score), sizeof(score));
}

void ScoreWriter::write(const io::TokenSource& queries, std::int64_t query, const io::TokenSource& documents,
                        std::int64_t document, double score) {
    if (format_ == Format::npy) {
        add_binary(score);
    } else {
        add_line(queries.id(query), documents.id(document), score);
    }
    if (buffer_.size() >= buffered_bytes) flush();
}

void ScoreWriter::flush() {
    out_.write(std::string_view(buffer_));
    buffer_.clear();
}

}  // namespace rowmax::cli::score_command
