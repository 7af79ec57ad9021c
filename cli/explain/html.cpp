// Explanations as one self-contained page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "cli/explain/colours.hpp"
#include "cli/explain/render.hpp"
#include "cli/explain/token_text.hpp"

namespace rowmax::cli::explain {

namespace {

constexpr std::string_view style = R"(
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; background: #fff; }
table { border-collapse: collapse; } th { text-align: left; font-weight: 600; }
td, th { padding: .15em .8em .15em 0; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
.bar { display: inline-block; height: .8em; background: #3b518b; } tfoot td { border-top: 1px solid #888; font-weight: 600; }
.t { padding: .1em .2em; border-radius: .2em; } .on { outline: 2px solid #d33; }
.document { line-height: 2; } .hidden { color: #999; text-decoration: line-through; }
img { max-width: 100%; image-rendering: pixelated; border: 1px solid #ccc; }
)";

// Pointing at a query token shows the document token that answered it.
constexpr std::string_view script = R"(
for (const row of document.querySelectorAll("tr[data-t]")) {
  const target = document.getElementById("d" + row.dataset.t);
  row.onmouseenter = () => target.classList.add("on");
  row.onmouseleave = () => target.classList.remove("on");
}
)";

// RFC 4648.
std::string base64(std::string_view bytes) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
        std::uint32_t group = 0;
        for (std::size_t b = 0; b < 3; ++b) group = group << 8 | (b < n ? static_cast<std::uint8_t>(bytes[i + b]) : 0);
        for (std::size_t d = 0; d < 4; ++d) text += d <= n ? digits[group >> (18 - 6 * d) & 63] : '=';
    }
    return text;
}

std::string table_answer(const Explanation& pair, std::size_t s) {
    if (!pair.query_kept[s]) return "<td></td><td>hidden by the mask</td>";
    if (pair.winner[s] < 0) return "<td></td><td>sees nothing</td>";
    const auto t = static_cast<std::size_t>(pair.winner[s]);
    return fmt::format("<td class=n>{}</td><td>{}</td>", t, html_escaped(pair.document_tokens[t]));
}

std::string table(const Explanation& pair) {
    const Scale scale = scale_from_zero(pair.similarity);
    std::string text =
        "<table>\n<thead><tr><th>query token<th>similarity<th><th>token<th>answered by</tr></thead>\n<tbody>\n";
    for (std::size_t s = 0; s < pair.query_tokens.size(); ++s) {
        const double share = scale.share(pair.similarity[s]);
        const std::string link = pair.winner[s] < 0 ? "" : fmt::format(" data-t={}", pair.winner[s]);
        text += fmt::format(
            "<tr{}><td>{}</td><td class=n>{:.6f}</td><td><span class=bar "
            "style=\"width:{:.1f}em\"></span></td>{}</tr>\n",
            link, html_escaped(pair.query_tokens[s]), pair.similarity[s],
            std::isfinite(share) ? std::clamp(share, 0.0, 1.0) * 12 : 0.0, table_answer(pair, s));
    }
    return text + fmt::format(
                      "</tbody>\n<tfoot><tr><td>sum</td><td class=n>{:.6f}</td><td colspan=3>= score "
                      "{:.6f}</td></tr></tfoot>\n</table>\n",
                      pair.sum(), pair.score);
}

std::string document(const Explanation& pair) {
    const std::vector<double> strength = pair.answered();
    const Scale scale = scale_from_zero(strength);
    std::string text = "<p class=document>\n";
    for (std::size_t t = 0; t < strength.size(); ++t) {
        const auto wins = std::count(pair.winner.begin(), pair.winner.end(), static_cast<std::int32_t>(t));
        std::string looks = pair.document_kept[t] ? "class=t" : "class=\"t hidden\"";
        if (wins > 0) {
            const Rgb c = colour_of(scale.share(strength[t]));
            looks += fmt::format(
                " style=\"background:rgb({},{},{});color:{}\" title=\"answered {} query tokens, {:.6f} together\"", c.r,
                c.g, c.b, is_light(c) ? "#000" : "#fff", wins, strength[t]);
        }
        text += fmt::format("<span id=d{} {}>{}</span>\n", t, looks, html_escaped(pair.document_tokens[t]));
    }
    return text + "</p>\n";
}

}  // namespace

std::string html_page(const Explanation& pair, const std::string& png, std::string_view caption) {
    const std::string title = fmt::format("query {} and document {}: score {:.6f}", html_escaped(pair.query_id),
                                          html_escaped(pair.document_id), pair.score);
    std::string page = fmt::format(
        "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta "
        "charset=utf-8>\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
        title, style, title);
    page += "<h2>What answered each query token</h2>\n" + table(pair);
    page += "<h2>The document</h2>\n" + document(pair);
    page += fmt::format(
        "<h2>Similarities</h2>\n<p>{}</p>\n<img alt=\"heat map\" src=\"data:image/png;base64,{}\">\n"
        "<script>{}</script>\n</body>\n</html>\n",
        html_escaped(caption), base64(png), script);
    return page;
}

}  // namespace rowmax::cli::explain
