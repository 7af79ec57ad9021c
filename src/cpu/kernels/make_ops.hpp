// Gathers the functions of one instruction set into the table that its file under inst/ exports.
#pragma once

#include "cpu/kernels/few.hpp"
#include "cpu/kernels/rows.hpp"
#include "cpu/kernels/tile.hpp"

namespace rowmax::cpu {
namespace {

/// `Few`: the vectors of the kernel for few query rows.
template <class Vec, class Few, bool ShortChains>
constexpr TypedOps<typename Vec::Value> typed_ops() {
    static_assert(Few::lanes <= row_padding && tile_rows(Vec::registers) <= row_padding);
    TypedOps<typename Vec::Value> ops;
    ops.lanes = Vec::lanes;
    ops.tile_rows = tile_rows(Vec::registers);
    ops.few_lanes = Few::lanes;
    ops.fold_wide = &fold<Vec, 2>;
    // Plain C++ gains nothing by it.
    if constexpr (ShortChains && Vec::unrolled > 1 && paired_rows(Vec::registers) > 0) {
        ops.paired_rows = paired_rows(Vec::registers);
        ops.fold_paired = &fold<Vec, 2, true>;
    }
    ops.fold_narrow = &fold<Vec, 1>;
    ops.fold_few = &fold_few<PlainRows<Few>, most_few_rows(Vec::lanes)>;
    ops.sum_squares = &sum_squares<Vec>;
    ops.add_scaled = &add_scaled<Vec>;
    return ops;
}

/// For rows of codes: vectors whose products are those of words, and how codes become words.
template <class Vec, class Few, class Codes>
constexpr CodeOps code_ops() {
    CodeOps ops;
    ops.fold.lanes = Vec::lanes;
    ops.fold.tile_rows = tile_rows(Vec::registers);
    ops.fold.few_lanes = Few::lanes;
    ops.fold.fold_wide = &fold<Vec, 2>;
    ops.fold.fold_narrow = &fold<Vec, 1>;
    ops.fold.fold_few = &fold_few<WordRows<Few>, most_few_rows(Vec::lanes)>;
    ops.in_word = Codes::in_word;
    ops.offset = Codes::offset;
    ops.widen = &widen_codes<Codes>;
    return ops;
}

/// A table for sign bits alone.
inline constexpr TileOps bits_only(const CodeOps& bits) {
    TileOps ops;
    ops.bits = bits;
    return ops;
}

/// A table for codes alone.
inline constexpr TileOps codes_only(const CodeOps& codes) {
    TileOps ops;
    ops.codes = codes;
    return ops;
}

/// A table for float64 alone.
template <class F64, class Few = F64>
constexpr TileOps doubles_only(const ProjectOps& project) {
    TileOps ops;
    ops.f64 = typed_ops<F64, Few, false>();
    ops.project = &project;
    return ops;
}

/// A table for all that is multiplied as float32.
template <class F32, class Half, class FewF32 = F32, class FewHalf = Half>
constexpr TileOps floats_only(const ProjectOps& project) {
    TileOps ops;
    ops.f32 = typed_ops<F32, FewF32, true>();
    // Plain C++ widens one by one, here or before.
    if constexpr (FewF32::unrolled > 1) {
        ops.fold_few_f16 = &fold_few<F16Rows<FewF32, FewHalf>, most_few_rows(F32::lanes)>;
        ops.fold_few_bf16 = &fold_few<Bf16Rows<FewF32, FewHalf>, most_few_rows(F32::lanes)>;
    }
    ops.widen_f16 = &widen_f16<Half>;
    ops.widen_bf16 = &widen_bf16<Half>;
    ops.widen_f8 = &widen_f8<Half>;
    ops.add_weights = &add_weights;
    ops.project = &project;
    return ops;
}

template <class F32, class F64, class Half, class FewF32 = F32, class FewF64 = F64, class FewHalf = Half>
constexpr TileOps make_ops(const CodeOps& codes, const CodeOps& bits, const ProjectOps& project) {
    TileOps ops = floats_only<F32, Half, FewF32, FewHalf>(project);
    ops.f64 = typed_ops<F64, FewF64, false>();
    ops.codes = codes;
    ops.bits = bits;
    return ops;
}

}  // namespace
}  // namespace rowmax::cpu
