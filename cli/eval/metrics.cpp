#include "cli/eval/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <unordered_map>

#include "rowmax/error.hpp"

namespace rowmax::cli::eval {

namespace {

struct Name {
    std::string_view text;  ///< lower case, cut removed
    Kind kind;
    bool needs_cut;
};

constexpr std::array names = {
    Name{"ndcg_cut", Kind::ndcg, true},
    Name{"ndcg", Kind::ndcg, false},
    Name{"map_cut", Kind::map, true},
    Name{"map", Kind::map, false},
    Name{"recip_rank", Kind::recip_rank, false},
    Name{"mrr", Kind::recip_rank, false},
    Name{"recall", Kind::recall, true},
    Name{"success", Kind::success, true},
    Name{"p", Kind::precision, true},
    Name{"precision", Kind::precision, true},
};

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
    return result;
}

struct Split {
    std::string_view head;
    std::optional<std::int64_t> cut;
};

// "recall@100", "recall_100", "recall.100" -> recall, 100.
Split split_cut(std::string_view text) {
    const std::size_t at = text.find_last_of("@_.");
    if (at == std::string_view::npos) return {text, std::nullopt};
    const std::string_view digits = text.substr(at + 1);
    std::int64_t cut = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), cut);
    if (error != std::errc() || end != digits.data() + digits.size() || cut < 1) return {text, std::nullopt};
    return {text.substr(0, at), cut};
}

bool fits(const Name& name, const Split& split) {
    return name.text == split.head && (split.cut || !name.needs_cut);
}

std::size_t depth(const Measure& measure, std::size_t size) {
    return measure.cut == 0 ? size : std::min(size, static_cast<std::size_t>(measure.cut));
}

double dcg(const std::vector<std::int64_t>& relevance, std::size_t depth) {
    double sum = 0;
    for (std::size_t i = 0; i < std::min(depth, relevance.size()); ++i) {
        if (relevance[i] > 0) sum += static_cast<double>(relevance[i]) / std::log2(static_cast<double>(i) + 2.0);
    }
    return sum;
}

double ndcg(const Measure& measure, const JudgedRanking& ranking) {
    const double best = dcg(ranking.ideal, depth(measure, ranking.ideal.size()));
    return best == 0 ? 0 : dcg(ranking.relevance, depth(measure, ranking.relevance.size())) / best;
}

std::int64_t relevant_within(const JudgedRanking& ranking, std::size_t depth) {
    return std::count_if(ranking.relevance.begin(), ranking.relevance.begin() + static_cast<std::ptrdiff_t>(depth),
                         [&](std::int64_t r) { return r >= ranking.level; });
}

double average_precision(const JudgedRanking& ranking, std::size_t depth) {
    std::int64_t found = 0;
    double sum = 0;
    for (std::size_t i = 0; i < depth; ++i) {
        if (ranking.relevance[i] >= ranking.level) sum += static_cast<double>(++found) / static_cast<double>(i + 1);
    }
    return ranking.num_relevant == 0 ? 0 : sum / static_cast<double>(ranking.num_relevant);
}

double reciprocal_rank(const JudgedRanking& ranking, std::size_t depth) {
    for (std::size_t i = 0; i < depth; ++i) {
        if (ranking.relevance[i] >= ranking.level) return 1.0 / static_cast<double>(i + 1);
    }
    return 0;
}

bool ranks_before(const io::RunEntry& a, const io::RunEntry& b) {
    const auto a_score = static_cast<float>(a.score);
    const auto b_score = static_cast<float>(b.score);
    if (std::isnan(a_score) != std::isnan(b_score)) return std::isnan(a_score);
    if (!std::isnan(a_score) && a_score != b_score) return a_score > b_score;
    return a.doc > b.doc;
}

}  // namespace

std::string Measure::name() const {
    switch (kind) {
        case Kind::ndcg: return cut == 0 ? "ndcg" : fmt::format("ndcg_cut_{}", cut);
        case Kind::map: return cut == 0 ? "map" : fmt::format("map_cut_{}", cut);
        case Kind::recip_rank: return cut == 0 ? "recip_rank" : fmt::format("recip_rank_{}", cut);
        case Kind::recall: return fmt::format("recall_{}", cut);
        case Kind::success: return fmt::format("success_{}", cut);
        case Kind::precision: break;
    }
    return fmt::format("P_{}", cut);
}

Measure parse_measure(std::string_view text) {
    const std::string lowered = lower(text);
    const Split split = split_cut(lowered);
    for (const Name& name : names) {
        if (fits(name, split)) return {name.kind, split.cut.value_or(0)};
    }
    throw Error(
        ErrorCode::invalid_value,
        fmt::format("'{}' is not a measure; known: ndcg, ndcg@K, map, map@K, mrr, mrr@K, recall@K, success@K, P@K",
                    text));
}

JudgedRanking judge(std::vector<io::RunEntry> entries, const std::vector<io::Judgment>& judgments, std::int64_t level) {
    std::sort(entries.begin(), entries.end(), ranks_before);
    std::unordered_map<std::string_view, std::int64_t> relevance_of;
    JudgedRanking judged;
    judged.level = level;
    for (const io::Judgment& judgment : judgments) {
        relevance_of.emplace(judgment.doc, judgment.relevance);
        if (judgment.relevance >= level) ++judged.num_relevant;
        if (judgment.relevance > 0) judged.ideal.push_back(judgment.relevance);
    }
    std::sort(judged.ideal.begin(), judged.ideal.end(), std::greater<>());
    for (const io::RunEntry& entry : entries) {
        const auto found = relevance_of.find(entry.doc);
        // An unjudged document is never relevant, however low the level.
        judged.relevance.push_back(found == relevance_of.end() ? std::min<std::int64_t>(0, level - 1) : found->second);
    }
    return judged;
}

double value_of(const Measure& measure, const JudgedRanking& ranking) {
    const std::size_t size = depth(measure, ranking.relevance.size());
    switch (measure.kind) {
        case Kind::ndcg: return ndcg(measure, ranking);
        case Kind::map: return average_precision(ranking, size);
        case Kind::recip_rank: return reciprocal_rank(ranking, size);
        case Kind::recall:
            return ranking.num_relevant == 0 ? 0
                                             : static_cast<double>(relevant_within(ranking, size)) /
                                                   static_cast<double>(ranking.num_relevant);
        case Kind::success: return relevant_within(ranking, size) > 0 ? 1 : 0;
        case Kind::precision: break;
    }
    return static_cast<double>(relevant_within(ranking, size)) / static_cast<double>(measure.cut);
}

}  // namespace rowmax::cli::eval
