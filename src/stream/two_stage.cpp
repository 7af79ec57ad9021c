#include "stream/two_stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "core/parallel.hpp"
#include "core/views.hpp"
#include "io/coded_tokens.hpp"
#include "rowmax/compressed.hpp"
#include "stream/coarse_queries.hpp"
#include "stream/device_scorer.hpp"
#include "stream/packing.hpp"
#include "stream/search.hpp"

namespace rowmax::stream {

namespace {

constexpr std::int64_t step_documents = 4096;  // between two looks at progress

std::int64_t start_of(const Corpus& corpus, std::int64_t document) {
    return static_cast<const std::int64_t*>(corpus.cu_seqlens().data)[document];
}

/// Documents [first, last) of a corpus in a coarse form.
TokenSet coarse_block(const Corpus& corpus, Coarse form, std::int64_t first, std::int64_t last,
                      std::vector<std::int64_t>& cu_seqlens) {
    const std::int64_t begin = start_of(corpus, first);
    const std::int64_t end = start_of(corpus, last);
    if (begin < 0 || end < begin || end > corpus.token_count()) {
        throw Error(ErrorCode::data,
                    fmt::format("{}: cu_seqlens: documents {} to {} are [{}, {}) of {} tokens", corpus.path().string(),
                                first, last, begin, end, corpus.token_count()));
    }
    cu_seqlens.clear();
    for (std::int64_t i = first; i <= last; ++i) cu_seqlens.push_back(start_of(corpus, i) - begin);
    TokenSet set = corpus.coarse(form);
    set.tokens = core::rows_of(set.tokens, begin, end);
    set.scale = core::rows_of(set.scale, begin, end);
    set.cu_seqlens = TensorView(cu_seqlens.data(), DType::i64, {last - first + 1});
    return set;
}

class TwoStageSearch {
  public:
    TwoStageSearch(const io::TokenSource& queries, const std::vector<Corpus>& corpora, const TwoStageOptions& options)
        : queries_(queries), corpora_(corpora), options_(options) {
        for (const Corpus& corpus : corpora) {
            check(corpus);
            starts_.push_back(starts_.back() + corpus.count());
        }
        k_ = std::min(options.k, documents());
        candidates_ = std::min(std::max(options.candidates, k_), documents());
        plan_memory();
    }

    core::TopK run() {
        core::TopK best(queries_.count(), std::max<std::int64_t>(k_, 1));
        if (!options_.devices.empty() && queries_.count() > 0 && documents() > 0) check_device();
        for (std::int64_t first = 0; first < queries_.count() && documents() > 0; first += block_) {
            const std::int64_t last = std::min(first + block_, queries_.count());
            const core::TopK found = options_.devices.empty() ? scan(first, last) : scan_on_devices(first, last);
            for (std::int64_t i = first; i < last; ++i) rescore(i, found.ranked(i - first), best);
        }
        return best;
    }

  private:
    [[nodiscard]] std::int64_t documents() const { return starts_.back(); }
    void check(const Corpus& corpus) const;
    void check_device() const;
    void plan_memory();
    [[nodiscard]] core::TopK scan(std::int64_t first, std::int64_t last);
    [[nodiscard]] core::TopK scan_on_devices(std::int64_t first, std::int64_t last) const;
    void scan_corpus(std::size_t corpus, const TokenSet& queries, core::TopK& found, std::int64_t done);
    void rescore(std::int64_t query, const std::vector<core::Hit>& found, core::TopK& best) const;
    void score_on_device(const ScoreRequest& request, const ScoreOutputs& outputs) const;
    [[nodiscard]] const DeviceBackend& backend() const {
        return options_.backend != nullptr ? *options_.backend : device_backend();
    }
    void score_some(const TokenSet& query, std::size_t corpus, std::span<const std::int64_t> documents,
                    std::int64_t number, core::TopK& best) const;

    const io::TokenSource& queries_;
    const std::vector<Corpus>& corpora_;
    const TwoStageOptions& options_;
    std::vector<std::int64_t> starts_{0};  ///< the first document of each corpus, and how many there are
    std::int64_t k_ = 0;
    std::int64_t candidates_ = 0;
    std::int64_t block_ = 1;  ///< queries at a time
    std::int64_t chunk_ = 0;  ///< documents whose scores are held at a time; 0: chosen
};

void TwoStageSearch::check(const Corpus& corpus) const {
    if (corpus.dtype() != queries_.dtype()) {
        throw Error(
            ErrorCode::invalid_type,
            fmt::format("queries {} are {}, corpus {} is {}: both must have the same type", queries_.path().string(),
                        name_of(queries_.dtype()), corpus.path().string(), name_of(corpus.dtype())));
    }
    if (corpus.dim() != queries_.dim()) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("queries {} have d = {}, corpus {} has d = {}", queries_.path().string(),
                                queries_.dim(), corpus.path().string(), corpus.dim()));
    }
    static_cast<void>(corpus.coarse(options_.form));  // throws when there is none
}

// Lists of candidates and what a step of the scan returns, and the query as it is packed and as codes.
void TwoStageSearch::plan_memory() {
    constexpr std::int64_t mib = std::int64_t{1} << 20;
    constexpr std::int64_t uncapped = 256 * mib;
    const std::int64_t scratch = 4 * mib + mib / 2 * core::thread_count(options_.score.threads);
    const std::int64_t lists = queries_.count() * (k_ * 32 + 64);
    const std::int64_t rows = (queries_.max_length() + 15) / 16 * 16;
    const std::int64_t each = candidates_ * 128 + rows * queries_.dim() * 16 + 4096;
    const std::int64_t least = scratch + lists + 4 * each;
    if (options_.memory > 0 && options_.memory - options_.held < least) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("memory: {} bytes are too little, at least {} are needed ({} queries with their k = {} "
                                "best, and {} candidates of one query)",
                                options_.memory, options_.held + least, queries_.count(), k_, candidates_));
    }
    const std::int64_t spare = options_.memory > 0 ? options_.memory - options_.held - scratch - lists : uncapped;
    block_ = std::clamp<std::int64_t>(spare / 2 / each, 1, std::max<std::int64_t>(queries_.count(), 1));
    if (options_.memory > 0) chunk_ = std::max<std::int64_t>(spare / 8 / (4 * block_), 1);
}

core::TopK TwoStageSearch::scan(std::int64_t first, std::int64_t last) {
    const io::TokenBlock block = queries_.block(first, last);
    const CoarseQueries coarse(block.set, options_.form, options_.score.threads);
    core::TopK found(last - first, candidates_);
    for (std::size_t c = 0; c < corpora_.size(); ++c) scan_corpus(c, coarse.set(), found, first * documents());
    return found;
}

void TwoStageSearch::scan_corpus(std::size_t corpus, const TokenSet& queries, core::TopK& found, std::int64_t done) {
    const Corpus& from = corpora_[corpus];
    Options options = options_.score;
    options.kernel = {};  // which is that of the exact scores
    std::vector<std::int64_t> cu_seqlens;
    for (std::int64_t first = 0; first < from.count(); first += step_documents) {
        const std::int64_t last = std::min(first + step_documents, from.count());
        const std::int64_t kept = std::min(candidates_, last - first);
        const TokenSet documents_here = coarse_block(from, options_.form, first, last, cu_seqlens);
        std::vector<float> scores(static_cast<std::size_t>(found.queries() * kept));
        std::vector<std::int64_t> index(scores.size());
        topk(queries, documents_here, kept, chunk_, options,
             TensorView(scores.data(), DType::f32, {found.queries(), kept}),
             TensorView(index.data(), DType::i64, {found.queries(), kept}));
        for (std::int64_t i = 0; i < found.queries(); ++i) {
            for (std::int64_t j = 0; j < kept; ++j) {
                const auto at = static_cast<std::size_t>(i * kept + j);
                found.push(i, double{scores[at]}, starts_[corpus] + first + index[at]);
            }
        }
        if (options_.progress)
            options_.progress(done + (starts_[corpus] + last) * found.queries(), queries_.count() * documents());
    }
}

// Before the scan: whether what comes after it can be done there.
void TwoStageSearch::check_device() const {
    const auto some = std::upper_bound(starts_.begin(), starts_.end(), 0) - starts_.begin() - 1;
    const io::TokenBlock query = queries_.block(0, 1);
    ScoreRequest request;
    request.q = query.set;
    request.d.tokens = corpora_[static_cast<std::size_t>(some)].document(0);
    const std::int64_t starts[] = {0, request.d.tokens.shape[0]};
    request.d.cu_seqlens = TensorView(starts, DType::i64, {2});
    request.options = options_.score;
    DeviceScorer(backend(), options_.devices.front(), DeviceScorer::Same::queries).check(request);
}

/// A search of the coarse form for as many documents as are candidates.
core::TopK TwoStageSearch::scan_on_devices(std::int64_t first, std::int64_t last) const {
    std::vector<io::TokenSource> coarse;
    for (const Corpus& corpus : corpora_) coarse.push_back(io::coded_tokens(corpus, options_.form));
    const io::TokenBlock block = queries_.block(first, last);
    SearchOptions how;
    how.k = candidates_;
    how.memory = options_.memory;
    how.held = options_.held + queries_.count() * (k_ * 32 + 64);
    how.devices = options_.devices;
    how.form = options_.form;
    how.backend = options_.backend;
    how.score = options_.score;
    how.score.kernel = {};  // which is that of the exact scores
    Search search(io::tokens_in_memory(block.set, io::Ids(last - first), block.owner), std::move(coarse), how);
    while (search.step()) {
        if (options_.progress)
            options_.progress(first * documents() + search.pairs_done(), queries_.count() * documents());
    }
    core::TopK found(last - first, candidates_);
    for (std::int64_t i = 0; i < last - first; ++i) {
        for (const core::Hit& hit : search.ranked(i)) found.push(i, hit.score, hit.document);
    }
    return found;
}

/// Documents that lie anywhere in a file go there one behind the other.
void TwoStageSearch::score_on_device(const ScoreRequest& request, const ScoreOutputs& outputs) const {
    const Packing packing(request.d, Hidden::left_out);
    std::vector<std::byte> tokens(static_cast<std::size_t>(packing.rows() * packing.row_bytes().token));
    packing.write(0, packing.rows(), tokens.data(), core::thread_count(options_.score.threads));
    ScoreRequest packed = request;
    packed.d = {};
    packed.d.tokens = TensorView(tokens.data(), request.d.tokens.dtype, {packing.rows(), queries_.dim()});
    packed.d.cu_seqlens = TensorView(packing.starts().data(), DType::i64, {packing.items() + 1});
    DeviceScorer(backend(), options_.devices.front(), DeviceScorer::Same::queries).score(packed, outputs);
}

void TwoStageSearch::rescore(std::int64_t query, const std::vector<core::Hit>& found, core::TopK& best) const {
    std::vector<std::int64_t> numbers;
    numbers.reserve(found.size());
    for (const core::Hit& hit : found) numbers.push_back(hit.document);
    std::sort(numbers.begin(), numbers.end());
    const io::TokenBlock block = queries_.block(query, query + 1);
    for (auto first = numbers.begin(); first != numbers.end();) {
        const auto after = std::upper_bound(starts_.begin(), starts_.end(), *first);
        const auto last = std::lower_bound(first, numbers.end(), *after);
        score_some(block.set, static_cast<std::size_t>(after - starts_.begin()) - 1, {first, last}, query, best);
        first = last;
    }
}

void TwoStageSearch::score_some(const TokenSet& query, std::size_t corpus, std::span<const std::int64_t> documents,
                                std::int64_t number, core::TopK& best) const {
    const Corpus& from = corpora_[corpus];
    std::vector<std::int64_t> offsets;
    std::vector<std::int64_t> lengths;
    for (const std::int64_t document : documents) {
        const std::int64_t here = document - starts_[corpus];
        offsets.push_back(start_of(from, here));
        lengths.push_back(start_of(from, here + 1) - offsets.back());
    }
    const auto count = static_cast<std::int64_t>(documents.size());
    ScoreRequest request;
    request.q = query;
    request.d.tokens = from.tokens();
    request.d.offsets = TensorView(offsets.data(), DType::i64, {count});
    request.d.lengths = TensorView(lengths.data(), DType::i64, {count});
    request.options = options_.score;
    const ResultShape shape = result_shape(request);
    std::vector<double> scores(static_cast<std::size_t>(count));  // room for either type
    const ScoreOutputs outputs{TensorView(scores.data(), shape.dtype, shape.scores), {}, {}};
    if (options_.devices.empty()) {
        score(request, outputs);
    } else {
        score_on_device(request, outputs);
    }
    for (std::size_t i = 0; i < documents.size(); ++i) {
        const double exact =
            shape.dtype == DType::f64 ? scores[i] : double{reinterpret_cast<const float*>(scores.data())[i]};
        best.push(number, exact, documents[i]);
    }
}

}  // namespace

core::TopK search_two_stages(const io::TokenSource& queries, const std::vector<Corpus>& corpora,
                             const TwoStageOptions& options) {
    if (options.k < 1) throw Error(ErrorCode::invalid_value, fmt::format("k must be at least 1, got {}", options.k));
    if (options.candidates < 1) {
        throw Error(ErrorCode::invalid_value, fmt::format("candidates must be at least 1, got {}", options.candidates));
    }
    if (options.score.normalize) {
        throw Error(ErrorCode::invalid_value, "normalize: coarse forms are of tokens as they are");
    }
    return TwoStageSearch(queries, corpora, options).run();
}

}  // namespace rowmax::stream
