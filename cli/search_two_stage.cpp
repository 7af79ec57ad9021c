#include "cli/search_two_stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/shared.hpp"
#include "rowmax/corpus.hpp"
#include "stream/two_stage.hpp"

namespace rowmax::cli {

namespace {

std::vector<Corpus> open_corpora(const std::vector<io::TokenSource>& sources) {
    std::vector<Corpus> corpora;
    for (const io::TokenSource& source : sources) {
        if (source.format() != "corpus") {
            throw Error(ErrorCode::data,
                        fmt::format("{}: --candidates needs a corpus with a coarse form, which `rowmax "
                                    "pack --coarse int8` makes",
                                    source.path().string()));
        }
        corpora.push_back(Corpus::open(source.path()));
    }
    return corpora;
}

bool has(const Corpus& corpus, Coarse form) {
    const std::vector<Coarse> forms = corpus.coarse_forms();
    return std::find(forms.begin(), forms.end(), form) != forms.end();
}

Coarse form_of(const std::vector<Corpus>& corpora, const std::string& name) {
    if (!name.empty()) return coarse_from_name(name);
    for (const Coarse form : {Coarse::int8, Coarse::fp8, Coarse::bits}) {
        if (std::all_of(corpora.begin(), corpora.end(), [&](const Corpus& c) { return has(c, form); })) return form;
    }
    for (const Corpus& corpus : corpora) {
        if (!corpus.coarse_forms().empty()) continue;
        throw Error(ErrorCode::data, fmt::format("{}: it was packed without a coarse form; `rowmax pack --coarse int8` "
                                                 "makes one",
                                                 corpus.path().string()));
    }
    throw Error(ErrorCode::data, "the corpora have no coarse form in common");
}

std::string id_of(const std::vector<io::TokenSource>& sources, std::int64_t document) {
    std::int64_t first = 0;
    for (const io::TokenSource& source : sources) {
        if (document < first + source.count()) {
            return source.ids().stored() ? source.id(document - first) : std::to_string(document);
        }
        first += source.count();
    }
    return std::to_string(document);
}

}  // namespace

Ranking search_two_stage(const io::TokenSource& queries, const std::vector<io::TokenSource>& sources,
                         const TwoStageRequest& request) {
    const std::vector<Corpus> corpora = open_corpora(sources);
    Progress progress("searching", "pairs");
    stream::TwoStageOptions options;
    options.k = request.k;
    options.candidates = request.candidates;
    options.form = form_of(corpora, request.form);
    options.memory = request.memory;
    options.held = held_bytes();
    options.score = request.score;
    options.progress = progress.callback();
    const auto best = std::make_shared<core::TopK>(stream::search_two_stages(queries, corpora, options));
    progress.finish();
    std::int64_t documents = 0;
    for (const Corpus& corpus : corpora) documents += corpus.count();
    return {queries.count(),
            std::min(request.k, documents),
            queries.dtype() == DType::f64 ? DType::f64 : DType::f32,
            [&queries](std::int64_t i) { return queries.id(i); },
            [&sources](std::int64_t document) { return id_of(sources, document); },
            [best](std::int64_t i) { return best->ranked(i); }};
}

}  // namespace rowmax::cli
