#include "core/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/projection.hpp"
#include "core/residual.hpp"
#include "core/scales.hpp"
#include "core/sides.hpp"

namespace rowmax::core {

namespace {

const SideNames& names_of(const TokenSet& documents) {
    if (documents.projection != nullptr) return hidden_names;
    return documents.residual != nullptr ? residual_names : document_names;
}

/// How messages call the two sides of a request.
struct Names {
    SideNames q;
    SideNames d;

    explicit Names(const ScoreRequest& request)
        : q(named(request.q, query_names)), d(named(request.d, names_of(request.d))) {}
};

void check_types(const TokenSet& q, const TokenSet& d, const Names& names) {
    check_token_dtype(q, names.q);
    check_token_dtype(d, names.d);
    if (q.tokens.dtype != d.tokens.dtype) {
        throw Error(ErrorCode::invalid_type,
                    fmt::format("{} is {} but {} is {}: token types are not promoted, convert one of them",
                                names.q.tokens, name_of(q.tokens.dtype), names.d.tokens, name_of(d.tokens.dtype)));
    }
}

void check_scales(const ScoreRequest& request, const Names& names) {
    check_scale(request.q, names.q);
    check_scale(request.d, names.d);
    const bool coded = is_quantised(request.q.tokens.dtype) || request.q.sign_bits > 0;
    if (!request.options.normalize || !coded) return;
    throw Error(ErrorCode::invalid_value, fmt::format("normalize: {} tokens cannot be normalised, do that before they "
                                                      "are quantised",
                                                      name_of(request.q.tokens.dtype)));
}

// Sign bits: both sides have as many, in as many bytes.
void check_bits(const TokenSet& q, const TokenSet& d, const Names& names) {
    if (q.sign_bits != d.sign_bits) {
        throw Error(ErrorCode::invalid_value, fmt::format("{} and {} differ in dimensions of sign bits: {} and {}",
                                                          names.q.tokens, names.d.tokens, q.sign_bits, d.sign_bits));
    }
    if (q.sign_bits == 0) return;
    for (const TokenSet* side : {&q, &d}) {
        if (side->tokens.dtype != DType::u8) {
            throw Error(ErrorCode::invalid_type,
                        fmt::format("sign bits must be uint8, got {}", name_of(side->tokens.dtype)));
        }
        if (side->tokens.shape[side->tokens.ndim - 1] != (q.sign_bits + 7) / 8) {
            throw Error(ErrorCode::invalid_value,
                        fmt::format("{} {}: sign bits of {} dimensions take {} bytes",
                                    side == &q ? names.q.tokens : names.d.tokens, side->tokens.shape_text(),
                                    q.sign_bits, (q.sign_bits + 7) / 8));
        }
    }
    if (q.sign_bits > max_dim) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("sign bits: {} dimensions, at most {}", q.sign_bits, max_dim));
    }
}

void check_dims(const TokenSet& q, const TokenSet& d, const Names& names) {
    const std::int64_t dq = q.tokens.shape[q.tokens.ndim - 1];
    const std::int64_t dd = d.tokens.shape[d.tokens.ndim - 1];
    if (dq != dd) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("{} {} and {} {} differ in the embedding dimension: {} and {}", names.q.tokens,
                                q.tokens.shape_text(), names.d.tokens, d.tokens.shape_text(), dq, dd));
    }
    if (dq < 1 || dq > max_dim) {
        throw Error(ErrorCode::invalid_value, fmt::format("{} {}: the embedding dimension must be 1 to {}, got {}",
                                                          names.q.tokens, q.tokens.shape_text(), max_dim, dq));
    }
}

// Cross: a 2-D dense side is one item without a dimension of its own.
void pair_cross(Problem& p, const ScoreRequest& request) {
    Pairs& pairs = p.params.pairs;
    pairs.width = p.params.d.count;
    pairs.count = checked_product(p.params.q.count, p.params.d.count, "queries x documents");
    if (!single_item(request.q)) p.shape.scores.push_back(p.params.q.count);
    if (!single_item(request.d)) p.shape.scores.push_back(p.params.d.count);
}

void pair_grouped(Problem& p, const ScoreRequest& request) {
    const std::int64_t nq = p.params.q.count;
    const std::int64_t nd = p.params.d.count;
    const TensorView& d = request.d.tokens;
    const Names names(request);
    if (d.ndim == 4 && d.shape[0] != nq) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("{} {} groups candidates for {} queries, but {} {} holds {}", names.d.tokens,
                                d.shape_text(), d.shape[0], names.q.tokens, request.q.tokens.shape_text(), nq));
    }
    if (d.ndim != 4 && (nq == 0 ? nd != 0 : nd % nq != 0)) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("{} holds {} documents, which {} queries of {} cannot share equally", names.d.tokens,
                                nd, nq, names.q.tokens));
    }
    Pairs& pairs = p.params.pairs;
    pairs.kind = PairKind::grouped;
    pairs.width = d.ndim == 4 ? d.shape[1] : (nq == 0 ? 0 : nd / nq);
    pairs.count = nd;
    p.shape.scores = {nq, pairs.width};
}

void pair_zipped(Problem& p, const ScoreRequest& request) {
    if (p.params.q.count != p.params.d.count) {
        throw Error(ErrorCode::invalid_value, fmt::format("Q {} and D {} pair item by item, but hold {} and {} items",
                                                          request.q.tokens.shape_text(), request.d.tokens.shape_text(),
                                                          p.params.q.count, p.params.d.count));
    }
    p.params.pairs.kind = PairKind::zipped;
    p.params.pairs.count = p.params.q.count;
    p.shape.scores = {p.params.q.count};
}

void check_pair_values(const IntList& list, std::int64_t count, std::string_view name, std::string_view items) {
    for (std::int64_t i = 0; i < list.count; ++i) {
        const std::int64_t value = detail::read_int(list.data, list.wide, i);
        if (value >= 0 && value < count) continue;
        throw Error(ErrorCode::invalid_value,
                    fmt::format("{}[{}] is {}, but there are {} {}", name, i, value, count, items));
    }
}

void pair_list(Problem& p, const ScoreRequest& request) {
    const IntList q = int_list(p.copies, request.pair_q, "pair_q");
    const IntList d = int_list(p.copies, request.pair_d, "pair_d");
    if (q.count != d.count) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("pair_q and pair_d differ in length: {} and {}", q.count, d.count));
    }
    Pairs& pairs = p.params.pairs;
    pairs = {PairKind::list, q.count, 1, q.data, d.data, q.wide, d.wide, p.params.q.count, p.params.d.count};
    // Even unvalidated, an index into nothing cannot be clamped to something.
    const bool nothing_to_name = pairs.query_count == 0 || pairs.document_count == 0;
    if (validates(request.options) || (nothing_to_name && !p.copies.on_device)) {
        check_pair_values(on_host(p.copies, q), pairs.query_count, "pair_q", "queries in Q");
        check_pair_values(on_host(p.copies, d), pairs.document_count, "pair_d", "documents in D");
    } else if (nothing_to_name && q.count > 0) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("pair_q, pair_d: {} pairs, but there are {} queries and {} documents", q.count,
                                pairs.query_count, pairs.document_count));
    }
    p.shape.scores = {q.count};
}

void check_pair_lists_absent(const ScoreRequest& request) {
    if (request.pairing == Pairing::list || (!request.pair_q.given() && !request.pair_d.given())) return;
    throw Error(ErrorCode::invalid_value, "pair_q, pair_d: only the list pairing takes them");
}

void make_pairs(Problem& p, const ScoreRequest& request) {
    check_pair_lists_absent(request);
    const bool grouped_shape = request.d.tokens.ndim == 4;
    if (grouped_shape && request.pairing != Pairing::grouped) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("D {}: four dimensions need the grouped pairing", request.d.tokens.shape_text()));
    }
    switch (request.pairing) {
        case Pairing::cross: return pair_cross(p, request);
        case Pairing::grouped: return pair_grouped(p, request);
        case Pairing::zipped: return pair_zipped(p, request);
        case Pairing::list: return pair_list(p, request);
    }
    throw Error(ErrorCode::invalid_value, fmt::format("pairing: no such value, {}", static_cast<int>(request.pairing)));
}

}  // namespace

namespace {

void compress(Problem& p, const ScoreRequest& request) {
    p.compressed = std::make_unique<Compressed>();
    p.params.compressed = p.compressed.get();
    if (request.d.projection != nullptr) {
        p.compressed->coding = Coding::projected;
        p.compressed->projection = make_projection(p.copies, request);
        return;
    }
    if (request.d.residual == nullptr && p.params.dtype == DType::u8) {
        p.compressed->coding = Coding::bits;
        return;
    }
    if (request.d.residual == nullptr) {
        p.compressed->q = make_scales(p.copies, request.q);
        p.compressed->d = make_scales(p.copies, request.d);
        return;
    }
    p.compressed->coding = Coding::residual;
    p.compressed->residual = make_residual(p.copies, request, p.params.d, validates(request.options));
}

}  // namespace

bool validates(const Options& options) {
    return options.validate.value_or(options.device.kind == Device::Kind::cpu);
}

Problem make_problem(const ScoreRequest& request) {
    const bool residual = request.d.residual != nullptr;
    const bool projected = request.d.projection != nullptr;
    const Names names(request);
    if (projected) {
        check_projection(request);
    } else if (residual) {
        check_residual(request);
    } else {
        check_types(request.q, request.d, names);
    }
    check_layout(request.q, names.q);
    check_layout(request.d, names.d);
    if (!residual) {
        if (!projected) check_dims(request.q, request.d, names);
        check_bits(request.q, request.d, names);
        check_scales(request, names);
    }
    if (request.options.threads < 0) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("threads: must not be negative, got {}", request.options.threads));
    }
    Problem p;
    p.params.dtype = request.d.tokens.dtype;
    p.params.dim = request.q.tokens.shape[request.q.tokens.ndim - 1];
    if (request.q.sign_bits > 0 && !residual) p.params.dim = request.q.sign_bits;
    p.params.normalize = request.options.normalize;
    p.params.high_precision_only = request.options.precision == Precision::highest;
    p.params.threads = request.options.threads;
    const Device& device = request.options.device;
    p.copies.on_device = device.kind == Device::Kind::cuda;
    p.params.place = {p.copies.on_device, device.ordinal, device.stream, nullptr};
    p.copies.place = p.params.place;
    const bool validate = validates(request.options);
    p.params.q = make_segments(p.copies, request.q, names.q, validate);
    p.params.d = make_segments(p.copies, request.d, names.d, validate);
    make_pairs(p, request);
    const bool plain = !residual && !projected && !is_quantised(p.params.dtype) && p.params.dtype != DType::u8;
    if (!plain) compress(p, request);
    p.shape.dtype = p.params.dtype == DType::f64 ? DType::f64 : DType::f32;
    p.shape.tokens = p.shape.scores;
    p.shape.tokens.push_back(p.params.q.max_length);
    checked_product(p.params.pairs.count, std::max<std::int64_t>(p.params.q.max_length, 1), "pairs x query tokens");
    return p;
}

}  // namespace rowmax::core
