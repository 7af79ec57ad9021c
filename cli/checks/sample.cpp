#include "cli/checks/sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/half.hpp"

namespace rowmax::checks {

namespace {

constexpr const char* layout_names[] = {"dense", "packed", "ranges", "grouped", "zipped", "list"};

template <class T>
void put(std::byte* array, std::int64_t i, T value) {
    std::memcpy(array + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
}

std::int64_t between(std::int64_t low, std::int64_t high, std::mt19937_64& rng) {
    return low + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(high - low + 1));
}

}  // namespace

void store(std::byte* array, DType dtype, std::int64_t i, double value) {
    const auto single = static_cast<float>(value);
    switch (dtype) {
        case DType::f16: put(array, i, core::float_to_half(single)); break;
        case DType::bf16: put(array, i, core::float_to_bfloat(single)); break;
        case DType::f64: put(array, i, value); break;
        default: put(array, i, single);
    }
}

std::string Spec::text() const {
    return fmt::format("{} {} x {}, {} x {} x {}{}{}", layout_names[static_cast<int>(layout)], queries, documents,
                       query_length, document_length, dim, masks ? ", masks" : "", normalize ? ", normalize" : "");
}

// Integers stay exact while query_length * dim * largest^2 < 2^24.
double Sample::token_value(Rng& rng) const {
    if (spec_.fill == Fill::gaussians) return std::normal_distribution<double>()(rng);
    const double room = 16777215.0 / static_cast<double>(std::max<std::int64_t>(spec_.query_length * spec_.dim, 1));
    const auto largest = std::min<std::int64_t>(7, static_cast<std::int64_t>(std::sqrt(room)));
    return static_cast<double>(between(-largest, largest, rng));
}

void Sample::fill_tokens(Side& side, std::int64_t rows, Rng& rng) const {
    side.tokens.resize(static_cast<std::size_t>(rows * spec_.dim) * size_of(dtype_));
    for (std::int64_t i = 0; i < rows * spec_.dim; ++i) store(side.tokens.data(), dtype_, i, token_value(rng));
}

void Sample::mask_side(Side& side, std::int64_t items, std::int64_t length, bool hide_first, Rng& rng) const {
    for (std::int64_t row = 0; row < items * length; ++row) {
        const bool hidden = rng() % 4 == 0 || (hide_first && row < length);
        side.mask.push_back(hidden ? 0 : 1);
        for (std::int64_t k = 0; hidden && k < spec_.dim; ++k) {
            store(side.tokens.data(), dtype_, row * spec_.dim + k, std::numeric_limits<double>::quiet_NaN());
        }
    }
}

void Sample::dense_side(Side& side, TokenSet& set, const std::vector<std::int64_t>& items, std::int64_t length,
                        bool hide_first, Rng& rng) const {
    std::int64_t count = 1;
    for (const std::int64_t n : items) count *= n;
    fill_tokens(side, count * length, rng);
    std::vector<std::int64_t> shape = items;
    shape.push_back(length);
    if (spec_.masks) {
        mask_side(side, count, length, hide_first, rng);
        set.mask = TensorView(side.mask.data(), DType::boolean, shape);
    }
    shape.push_back(spec_.dim);
    set.tokens = TensorView(side.tokens.data(), dtype_, shape);
}

void Sample::packed_side(Side& side, TokenSet& set, std::int64_t items, std::int64_t longest, Rng& rng) const {
    side.offsets.push_back(0);
    for (std::int64_t i = 0; i < items; ++i) side.offsets.push_back(side.offsets.back() + between(0, longest, rng));
    fill_tokens(side, side.offsets.back(), rng);
    set.tokens = TensorView(side.tokens.data(), dtype_, {side.offsets.back(), spec_.dim});
    set.cu_seqlens = TensorView(side.offsets.data(), DType::i64, {items + 1});
}

// Overlapping, and in no order.
void Sample::ranges_side(Side& side, TokenSet& set, std::int64_t items, std::int64_t longest, Rng& rng) const {
    const std::int64_t rows = 2 * longest + 3;
    fill_tokens(side, rows, rng);
    for (std::int64_t i = 0; i < items; ++i) {
        side.lengths.push_back(static_cast<std::int32_t>(between(0, longest, rng)));
        side.offsets.push_back(between(0, rows - side.lengths.back(), rng));
    }
    set.tokens = TensorView(side.tokens.data(), dtype_, {rows, spec_.dim});
    set.offsets = TensorView(side.offsets.data(), DType::i64, {items});
    set.lengths = TensorView(side.lengths.data(), DType::i32, {items});
}

void Sample::list_pairs(Rng& rng) {
    const std::int64_t count = spec_.queries * spec_.documents + 5;
    for (std::int64_t p = 0; p < count && spec_.queries > 0 && spec_.documents > 0; ++p) {
        pair_query_.push_back(static_cast<std::int32_t>(between(0, spec_.queries - 1, rng)));
        pair_document_.push_back(static_cast<std::int32_t>(between(0, spec_.documents - 1, rng)));
    }
    const auto size = static_cast<std::int64_t>(pair_query_.size());
    request_.pair_q = TensorView(pair_query_.data(), DType::i32, {size});
    request_.pair_d = TensorView(pair_document_.data(), DType::i32, {size});
}

Sample::Sample(const Spec& spec, DType dtype, std::uint64_t seed) : spec_(spec), dtype_(dtype) {
    Rng rng(seed);
    request_.options.normalize = spec.normalize;
    if (spec.layout == Layout::packed) {
        packed_side(query_, request_.q, spec.queries, spec.query_length, rng);
        packed_side(document_, request_.d, spec.documents, spec.document_length, rng);
        return;
    }
    dense_side(query_, request_.q, {spec.queries}, spec.query_length, false, rng);
    if (spec.layout == Layout::ranges) {
        ranges_side(document_, request_.d, spec.documents, spec.document_length, rng);
        return;
    }
    std::vector<std::int64_t> items{spec.documents};
    if (spec.layout == Layout::grouped) items = {spec.queries, spec.documents};
    if (spec.layout == Layout::zipped) items = {spec.queries};
    dense_side(document_, request_.d, items, spec.document_length, true, rng);
    if (spec.layout == Layout::grouped) request_.pairing = Pairing::grouped;
    if (spec.layout == Layout::zipped) request_.pairing = Pairing::zipped;
    if (spec.layout == Layout::list) {
        request_.pairing = Pairing::list;
        list_pairs(rng);
    }
}

}  // namespace rowmax::checks
