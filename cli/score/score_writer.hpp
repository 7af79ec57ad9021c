// Scores of pairs as TSV, JSON lines, or npy.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/output_file.hpp"
#include "io/token_source.hpp"

namespace rowmax::cli::score_command {

enum class Format {
    tsv,    ///< query, document, score
    jsonl,  ///< {"query": ..., "document": ..., "score": ...}; "NaN", "Infinity", "-Infinity" are strings
    npy,    ///< the scores alone, as one array
};

class ScoreWriter {
  public:
    /// `shape` is the npy array's. dtype: f32 or f64, of the scores.
    ScoreWriter(io::OutputFile& out, Format format, DType dtype, std::span<const std::int64_t> shape);
    /// The next score; pairs come in the order of the array.
    void write(const io::TokenSource& queries, std::int64_t query, const io::TokenSource& documents,
               std::int64_t document, double score);
    void flush();

  private:
    void add_line(const std::string& query, const std::string& document, double score);
    void add_binary(double score);
    io::OutputFile& out_;
    Format format_;
    bool single_;
    std::string buffer_;
};

}  // namespace rowmax::cli::score_command
