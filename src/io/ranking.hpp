// Ranked results as text: TREC run, JSONL, TSV.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/output_file.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::io {

struct RankedHit {
    std::string doc;
    double score = 0;
};

enum class RankingFormat {
    trec,   ///< qid Q0 docid rank score tag
    jsonl,  ///< {"query": qid, "hits": [{"doc": docid, "rank": 1, "score": 3.5}, ...]}, a line for each query
    tsv,    ///< qid, docid, rank, score
};

/// Writes one query after another. Ranks count from 1; scores have the fewest digits that read back to the same
/// number of the type they were computed in.
class RankingWriter {
  public:
    /// `out` must outlive the writer and is committed by its owner. score_type: f32 or f64.
    RankingWriter(OutputFile& out, RankingFormat format, DType score_type, std::string tag = "rowmax");
    void write(std::string_view query, std::span<const RankedHit> hits);

  private:
    OutputFile& out_;
    RankingFormat format_;
    bool single_;
    std::string tag_;
};

/// The shortest text that reads back to the same float (single) or double; "nan", "inf", "-inf".
std::string score_text(double score, bool single);
/// The same for JSON, which has no NaN and no infinity: "NaN", "Infinity" and "-Infinity" in quotes.
std::string json_score_text(double score, bool single);

}  // namespace rowmax::io
