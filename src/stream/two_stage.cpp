#include "stream/two_stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "core/parallel.hpp"
#include "rowmax/compressed.hpp"

namespace rowmax::stream {

namespace {

constexpr std::int64_t step_documents = 4096;  // between two looks at progress

std::int64_t start_of(const Corpus& corpus, std::int64_t document) {
    return static_cast<const std::int64_t*>(corpus.cu_seqlens().data)[document];
}

/// Rows [first, last) of something that belongs to tokens.
TensorView rows_of(TensorView view, std::int64_t first, std::int64_t last) {
    if (!view.given()) return view;
    const std::int64_t bytes = view.stride[0] * static_cast<std::int64_t>(size_of(view.dtype));
    view.data = static_cast<std::byte*>(view.data) + first * bytes;
    view.shape[0] = last - first;
    return view;
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
    set.tokens = rows_of(set.tokens, begin, end);
    set.scale = rows_of(set.scale, begin, end);
    set.cu_seqlens = TensorView(cu_seqlens.data(), DType::i64, {last - first + 1});
    return set;
}

/// Queries as the coarse form is compared with.
class CoarseQueries {
  public:
    CoarseQueries(const TokenSet& queries, Coarse form, int threads) : set_(queries) {
        if (form == Coarse::bits) return;  // as they are
        const TensorView& tokens = queries.tokens;
        const std::span<const std::int64_t> shape(tokens.shape.data(), static_cast<std::size_t>(tokens.ndim));
        const DType dtype = form == Coarse::int8 ? DType::i8 : DType::f8e4m3;
        codes_.resize(static_cast<std::size_t>(tokens.numel()));
        scale_.resize(codes_.size() / static_cast<std::size_t>(std::max<std::int64_t>(shape.back(), 1)));
        set_.tokens = TensorView(codes_.data(), dtype, shape);
        set_.scale = TensorView(scale_.data(), DType::f32, shape.first(shape.size() - 1));
        if (form == Coarse::int8) {
            quantize_int8(tokens, Granularity::token, set_.tokens, set_.scale, threads);
        } else {
            quantize_fp8(tokens, false, set_.tokens, set_.scale, threads);
        }
    }
    [[nodiscard]] const TokenSet& set() const { return set_; }

  private:
    TokenSet set_;
    std::vector<std::byte> codes_;
    std::vector<float> scale_;
};

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
        for (std::int64_t first = 0; first < queries_.count() && documents() > 0; first += block_) {
            const std::int64_t last = std::min(first + block_, queries_.count());
            const core::TopK found = scan(first, last);
            for (std::int64_t i = first; i < last; ++i) rescore(i, found.ranked(i - first), best);
        }
        return best;
    }

  private:
    [[nodiscard]] std::int64_t documents() const { return starts_.back(); }
    void check(const Corpus& corpus) const;
    void plan_memory();
    [[nodiscard]] core::TopK scan(std::int64_t first, std::int64_t last);
    void scan_corpus(std::size_t corpus, const TokenSet& queries, core::TopK& found, std::int64_t done);
    void rescore(std::int64_t query, const std::vector<core::Hit>& found, core::TopK& best) const;
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
    score(request, {TensorView(scores.data(), shape.dtype, shape.scores), {}, {}});
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
