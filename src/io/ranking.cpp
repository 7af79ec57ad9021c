#include "io/ranking.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/ids.hpp"
#include "rowmax/error.hpp"

namespace rowmax::io {

namespace {

std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump();
}

}  // namespace

std::string score_text(double score, bool single) {
    if (std::isnan(score)) return "nan";  // without the sign fmt would print
    return single ? fmt::format("{}", static_cast<float>(score)) : fmt::format("{}", score);
}

std::string json_score_text(double score, bool single) {
    if (std::isnan(score)) return "\"NaN\"";
    if (std::isinf(score)) return score > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    return score_text(score, single);
}

RankingWriter::RankingWriter(OutputFile& out, RankingFormat format, DType score_type, std::string tag)
    : out_(out), format_(format), single_(score_type != DType::f64), tag_(std::move(tag)) {
    check_id(tag_, "run tag");
}

void RankingWriter::write(std::string_view query, std::span<const RankedHit> hits) {
    check_id(query, "query");
    std::string text;
    const bool json = format_ == RankingFormat::jsonl;
    if (json) text = fmt::format("{{\"query\": {}, \"hits\": [", quoted(std::string(query)));
    for (std::size_t i = 0; i < hits.size(); ++i) {
        const RankedHit& hit = hits[i];
        check_id(hit.doc, "document");
        if (json) {
            text += fmt::format("{}{{\"doc\": {}, \"rank\": {}, \"score\": {}}}", i > 0 ? ", " : "", quoted(hit.doc),
                                i + 1, json_score_text(hit.score, single_));
        } else if (format_ == RankingFormat::trec) {
            text += fmt::format("{} Q0 {} {} {} {}\n", query, hit.doc, i + 1, score_text(hit.score, single_), tag_);
        } else {
            text += fmt::format("{}\t{}\t{}\t{}\n", query, hit.doc, i + 1, score_text(hit.score, single_));
        }
    }
    if (json) text += "]}\n";
    out_.write(text);
}

}  // namespace rowmax::io
