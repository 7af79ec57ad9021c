#include "cpu/sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <sstream>

namespace rowmax::test {

namespace {

constexpr int nbits = 2;  // of residual codes

}  // namespace

std::string_view name_of_layout(Layout layout) {
    switch (layout) {
        case Layout::cross: return "cross";
        case Layout::single: return "single";
        case Layout::grouped: return "grouped";
        case Layout::zipped: return "zipped";
        case Layout::list: return "list";
        case Layout::packed: return "packed";
        case Layout::packed_list: return "packed_list";
        case Layout::ranges: return "ranges";
    }
    return "?";
}

std::ostream& operator<<(std::ostream& out, const Shape& s) {
    out << name_of_layout(s.layout) << " " << name_of(s.dtype) << " queries " << s.queries << " documents "
        << s.documents << " lq " << s.lq << " ld " << s.ld << " dim " << s.dim << (s.masked ? " masked" : "")
        << (s.normalize ? " normalize" : "") << (s.scale_per_item ? " scale per item" : "")
        << (s.residual ? " residual" : "");
    if (s.hidden > 0) out << " hidden " << s.hidden;
    return out << " seed " << s.seed;
}

std::string text_of(const Shape& shape) {
    std::ostringstream out;
    out << shape;
    return out.str();
}

Values small_integers(std::int64_t dim) {
    const int most = dim <= 256 ? 3 : 1;
    return [most](std::mt19937& random) {
        return static_cast<double>(std::uniform_int_distribution(-most, most)(random));
    };
}

double float8_bound(const core::Kernel& row, std::int64_t dim) {
    if (row.backend == "cpu") return 1e-6;
    const bool own_unit = row.name.starts_with("cuda.sm90") && dim <= 384;
    return own_unit ? 0x1p-11 * static_cast<double>((dim + 31) / 32) : 6e-6;
}

Values normal() {
    return [](std::mt19937& random) { return std::normal_distribution()(random); };
}

Values uniform() {
    return [](std::mt19937& random) { return std::uniform_real_distribution()(random); };
}

Values any_codes() {
    return [](std::mt19937& random) {
        return std::clamp<double>(std::uniform_int_distribution(-160, 160)(random), -128, 127);
    };
}

Sample::Sample(const Shape& shape, const Values& values) : shape_(shape), random_(shape.seed) {
    request.options.normalize = shape.normalize && !shape.residual && shape.hidden == 0;
    switch (shape.layout) {
        case Layout::packed:
        case Layout::packed_list: packed(values); break;
        case Layout::ranges: ranges(values); break;
        default: dense(values);
    }
    if (shape.layout == Layout::list || shape.layout == Layout::packed_list) pair_list();
    if (shape.residual) residual_tables(values);
    if (shape.hidden > 0) projection(values);
    if (shape.dtype == DType::u8 && !shape.residual) request.q.sign_bits = request.d.sign_bits = shape.dim;
    if (shape.dtype != DType::i8 && shape.dtype != DType::f8e4m3) return;
    scale(request.q);
    scale(request.d);
}

TensorView Sample::keep(DType dtype, std::vector<std::int64_t> shape, const std::vector<double>& values) {
    arrays_.emplace_back(dtype, std::move(shape), values.empty() ? std::vector<double>{0} : values);
    return arrays_.back().view();
}

TensorView Sample::query_tokens(std::vector<std::int64_t> shape, const Values& values) {
    if (shape_.residual) return tokens(DType::f32, std::move(shape), values);
    return shape_.dtype == DType::u8 ? bytes(std::move(shape), 1) : tokens(shape_.dtype, std::move(shape), values);
}

TensorView Sample::document_tokens(std::vector<std::int64_t> shape, const Values& values) {
    if (shape_.residual) return bytes(std::move(shape), nbits);
    if (shape_.hidden > 0) shape.back() = shape_.hidden;
    return query_tokens(std::move(shape), values);
}

// Any bits; those behind the last dimension are 0, as sign bits must be.
TensorView Sample::bytes(std::vector<std::int64_t> shape, int bits) {
    const std::int64_t used = shape.back() * bits;
    const std::int64_t width = (used + 7) / 8;
    shape.back() = width;
    std::int64_t at = 0;
    arrays_.push_back(Array::generated(DType::u8, std::move(shape), [&] {
        const bool last = ++at % width == 0;
        const int kept = last && used % 8 != 0 ? (1 << (used % 8)) - 1 : 255;
        return static_cast<double>(std::uniform_int_distribution(0, 255)(random_) & kept);
    }));
    return arrays_.back().view();
}

// Codes of hidden tokens are in no table.
void Sample::residual_tables(const Values& values) {
    constexpr std::int64_t centroids = 11;
    const TensorView& documents = request.d.tokens;
    const std::vector<std::int64_t> shape(documents.shape.begin(), documents.shape.begin() + documents.ndim - 1);
    const std::int64_t count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    const auto* kept = static_cast<const std::uint8_t*>(request.d.mask.data);
    std::vector<double> codes;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto code = std::uniform_int_distribution<std::int64_t>(0, centroids - 1)(random_);
        codes.push_back(kept != nullptr && kept[i] == 0 ? 1e6 : static_cast<double>(code));
    }
    request.d.codes = keep(shape_.seed % 2 == 0 ? DType::i32 : DType::i64, shape, codes);
    tables_.centroids = tokens(DType::f32, {centroids, shape_.dim}, values);
    tables_.bucket_weights = keep(DType::f32, {1 << nbits}, {-2, -1, 1, 2});
    tables_.nbits = nbits;
    tables_.bit_order = shape_.seed % 2 == 0 ? BitOrder::colbert : BitOrder::little;
    tables_.normalize = shape_.normalize;
    request.d.residual = &tables_;
}

void Sample::projection(const Values& values) {
    projection_.weight = tokens(shape_.dtype, {shape_.dim, shape_.hidden}, values);
    if (shape_.seed % 4 != 0) projection_.bias = tokens(shape_.dtype, {shape_.dim}, values);
    projection_.normalize = shape_.normalize;
    request.d.projection = &projection_;
}

TensorView Sample::tokens(DType dtype, std::vector<std::int64_t> shape, const Values& values) {
    const bool codes = dtype == DType::i8;
    arrays_.push_back(Array::generated(dtype, std::move(shape), [&] {
        return codes ? std::clamp(std::round(values(random_)), -128.0, 127.0) : values(random_);
    }));
    return arrays_.back().view();
}

// Powers of two, which keep small products exact, and now and then zero. Those of hidden tokens are NaN.
void Sample::scale(TokenSet& side) {
    const int rank = side.tokens.ndim - (shape_.scale_per_item ? 2 : 1);
    const std::vector<std::int64_t> shape(side.tokens.shape.begin(), side.tokens.shape.begin() + rank);
    const std::int64_t count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<double> all;
    for (std::int64_t i = 0; i < count; ++i) {
        const int power = std::uniform_int_distribution(-3, 1)(random_);
        all.push_back(power == -3 ? 0 : std::ldexp(1.0, power));
        const auto* kept = static_cast<const std::uint8_t*>(side.mask.data);
        if (!shape_.scale_per_item && kept != nullptr && kept[i] == 0) {
            all.back() = std::numeric_limits<double>::quiet_NaN();
        }
    }
    side.scale = keep(DType::f32, shape, all);
}

// About two thirds kept; now and then an item with nothing kept. Hidden tokens become NaN, which whoever reads them
// shows.
TensorView Sample::mask(Array& tokens, std::vector<std::int64_t> shape) {
    const std::int64_t length = shape.back();
    const std::int64_t count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    const std::int64_t width = count > 0 ? static_cast<std::int64_t>(tokens.size()) / count : 0;
    const DType dtype = tokens.view().dtype;
    std::vector<double> all;
    for (std::int64_t i = 0; i < count; ++i) {
        const bool empty = length > 0 && (i / length) % 5 == 3;
        all.push_back(!empty && std::uniform_int_distribution(0, 2)(random_) > 0 ? 1 : 0);
        for (std::int64_t k = 0; all.back() == 0 && k < width; ++k) {
            const bool codes = dtype == DType::i8 || dtype == DType::u8;
            const double poison = codes ? 127 : std::numeric_limits<double>::quiet_NaN();
            tokens.set(static_cast<std::size_t>(i * width + k), poison);
        }
    }
    return keep(DType::boolean, std::move(shape), all);
}

void Sample::dense(const Values& values) {
    const Shape& s = shape_;
    const bool zipped = s.layout == Layout::zipped;
    const std::int64_t queries = s.layout == Layout::single ? 1 : s.queries;
    std::vector<std::int64_t> q = {queries, s.lq, s.dim};
    std::vector<std::int64_t> d = {zipped ? queries : s.documents, s.ld, s.dim};
    if (s.layout == Layout::single) q.erase(q.begin());
    if (s.layout == Layout::grouped) d.insert(d.begin(), queries);
    request.q.tokens = query_tokens(q, values);
    Array& query = arrays_.back();
    request.d.tokens = document_tokens(d, values);
    Array& document = arrays_.back();
    if (s.masked) {
        request.q.mask = mask(query, {q.begin(), q.end() - 1});
        request.d.mask = mask(document, {d.begin(), d.end() - 1});
    }
    if (zipped) request.pairing = Pairing::zipped;
    if (s.layout == Layout::grouped) request.pairing = Pairing::grouped;
}

TensorView Sample::offsets(std::int64_t items, std::int64_t longest, std::int64_t& total) {
    std::vector<double> starts = {0};
    for (std::int64_t i = 0; i < items; ++i) {
        const std::int64_t length = i == 0 ? longest : std::uniform_int_distribution<std::int64_t>(0, longest)(random_);
        starts.push_back(starts.back() + static_cast<double>(length));
    }
    total = static_cast<std::int64_t>(starts.back());
    return keep(shape_.seed % 2 == 0 ? DType::i32 : DType::i64, {items + 1}, starts);
}

void Sample::packed(const Values& values) {
    std::int64_t total = 0;
    request.q.cu_seqlens = offsets(shape_.queries, shape_.lq, total);
    request.q.tokens = query_tokens({total, shape_.dim}, values);
    request.d.cu_seqlens = offsets(shape_.documents, shape_.ld, total);
    request.d.tokens = document_tokens({total, shape_.dim}, values);
}

void Sample::ranges(const Values& values) {
    const std::int64_t storage = 2 * shape_.ld + 3;
    std::vector<double> starts;
    std::vector<double> lengths;
    for (std::int64_t i = 0; i < shape_.documents; ++i) {
        const auto length = std::uniform_int_distribution<std::int64_t>(0, shape_.ld)(random_);
        starts.push_back(
            static_cast<double>(std::uniform_int_distribution<std::int64_t>(0, storage - length)(random_)));
        lengths.push_back(static_cast<double>(length));
    }
    request.q.tokens = query_tokens({shape_.lq, shape_.dim}, values);
    request.d.tokens = document_tokens({storage, shape_.dim}, values);
    request.d.offsets = keep(DType::i64, {shape_.documents}, starts);
    request.d.lengths = keep(DType::i32, {shape_.documents}, lengths);
}

void Sample::pair_list() {
    request.pairing = Pairing::list;
    const std::int64_t count = shape_.queries * shape_.documents / 2 + 2;
    std::vector<double> q;
    std::vector<double> d;
    for (std::int64_t p = 0; p < count; ++p) {
        q.push_back(static_cast<double>(std::uniform_int_distribution<std::int64_t>(0, shape_.queries - 1)(random_)));
        d.push_back(static_cast<double>(std::uniform_int_distribution<std::int64_t>(0, shape_.documents - 1)(random_)));
    }
    request.pair_q = keep(DType::i32, {count}, q);
    request.pair_d = keep(DType::i64, {count}, d);
}

Results no_results(const core::Params& params, Want want) {
    const DType dtype = params.dtype == DType::f64 ? DType::f64 : DType::f32;
    const std::int64_t pairs = params.pairs.count;
    const std::int64_t tokens = want == Want::scores ? 0 : params.q.max_length;
    // Filled with what no kernel writes, so that an element left out shows.
    return {Array(dtype, {pairs}, {-12345}), Array(DType::i32, {pairs, tokens}, {-99}),
            Array(dtype, {pairs, want == Want::all ? tokens : 0}, {-12345})};
}

Results run_on_cpu(const core::Kernel& row, const core::Problem& problem, Want want, int threads) {
    core::Params params = problem.params;
    params.threads = threads;
    params.wants_index = want != Want::scores;
    Results results = no_results(params, want);
    core::Outputs outputs;
    outputs.scores = results.scores.view().data;
    if (want != Want::scores) outputs.index = static_cast<std::int32_t*>(results.index.view().data);
    if (want == Want::all) outputs.similarity = results.similarity.view().data;
    row.score(params, outputs);
    return results;
}

bool same_bits(const Array& a, const Array& b) {
    const TensorView x = a.view();
    const TensorView y = b.view();
    if (x.dtype != y.dtype || a.size() != b.size()) return false;
    return a.size() == 0 || std::memcmp(x.data, y.data, a.size() * size_of(x.dtype)) == 0;
}

}  // namespace rowmax::test
