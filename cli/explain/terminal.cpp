// Explanations in a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/columns.hpp"
#include "cli/explain/colours.hpp"
#include "cli/explain/render.hpp"
#include "cli/explain/token_text.hpp"

namespace rowmax::cli::explain {

namespace {

constexpr int bar_width = 20;

std::string painted(const std::string& text, double share, bool colour) {
    if (!colour) return text;
    const Rgb back = colour_of(share);
    const int ink = is_light(back) ? 16 : 231;  // black, white
    return fmt::format("\033[38;5;{}m\033[48;2;{};{};{}m{}\033[0m", ink, back.r, back.g, back.b, text);
}

std::string bar(double share) {
    const double cut = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
    std::string text;
    for (int i = 0; i < static_cast<int>(std::lround(cut * bar_width)); ++i) text += "\u2588";
    return padded(text, bar_width);
}

std::string answer(const Explanation& pair, std::size_t s) {
    if (!pair.query_kept[s]) return "(hidden by the mask)";
    if (pair.winner[s] < 0) return "(sees nothing)";
    return fmt::format("{:>5}  {}", pair.winner[s],
                       printable(pair.document_tokens[static_cast<std::size_t>(pair.winner[s])]));
}

std::string table(const Explanation& pair, bool colour) {
    const Scale scale = scale_from_zero(pair.similarity);
    std::size_t width = 11;
    for (const std::string& token : pair.query_tokens) width = std::max(width, columns(printable(token)));
    std::string text = fmt::format("{}  similarity  {}  token  answered by\n", padded("query token", width),
                                   std::string(bar_width, ' '));
    for (std::size_t s = 0; s < pair.query_tokens.size(); ++s) {
        const double share = scale.share(pair.similarity[s]);
        text += fmt::format("{}  {:10.6f}  {}  {}\n",
                            painted(padded(printable(pair.query_tokens[s]), width), share, colour), pair.similarity[s],
                            bar(share), answer(pair, s));
    }
    return text + fmt::format("{}  {:10.6f}  = score {:.6f}\n", padded("sum", width), pair.sum(), pair.score);
}

std::string document(const Explanation& pair, bool colour) {
    const std::vector<double> strength = pair.answered();
    const Scale scale = scale_from_zero(strength);
    std::string text;
    for (std::size_t t = 0; t < strength.size(); ++t) {
        const bool won =
            std::find(pair.winner.begin(), pair.winner.end(), static_cast<std::int32_t>(t)) != pair.winner.end();
        const std::string token = printable(pair.document_tokens[t]);
        if (!won) text += token;
        if (won) text += colour ? painted(token, scale.share(strength[t]), true) : "[" + token + "]";
        text += ' ';
    }
    return text + "\n";
}

}  // namespace

std::string terminal_text(const Explanation& pair, bool colour) {
    return fmt::format("query {} and document {}: score {:.6f}\n\n{}\n{}", pair.query_id, pair.document_id, pair.score,
                       table(pair, colour), document(pair, colour));
}

}  // namespace rowmax::cli::explain
