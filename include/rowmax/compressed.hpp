// Compressed tokens: how they are made. They are scored by score() like any others (rowmax/maxsim.hpp).
#pragma once

#include "rowmax/error.hpp"
#include "rowmax/export.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax {

/// What shares one scale.
enum class Granularity {
    token,     ///< each row of d numbers
    document,  ///< the rows of one item: the last two dimensions
};

/// Symmetric int8 codes: scale = largest magnitude / 127, code = x / scale rounded to nearest even, -127 to 127.
///
/// tokens [..., L, d] float16, bfloat16, float32 or float64 -> codes int8 of that shape, and scale float32, the shape
/// without d (token) or without L and d (document). x / scale is computed in float32 (in float64 for such tokens).
/// Tokens of zeros, and only they, have scale 0; one that holds a NaN or an infinity makes its scale NaN, with codes 0.
/// `threads` as in Options. On a CUDA device: codes and scales have the same bits, work is queued on `device.stream`,
/// and tokens may not be float64.
ROWMAX_API void quantize_int8(const TensorView& tokens, Granularity granularity, const TensorView& codes,
                              const TensorView& scale, int threads = 0, const Device& device = {});

/// float8 e4m3 codes: scale = largest magnitude / 448, code = x / scale to nearest even. scale is float32 with one
/// factor a token, the shape without d, or with `per_tensor` one for all, []. Zeros, NaN and infinities as in
/// quantize_int8.
ROWMAX_API void quantize_fp8(const TensorView& tokens, bool per_tensor, const TensorView& codes,
                             const TensorView& scale, int threads = 0, const Device& device = {});

/// One bit a dimension, set where the value is above 0: tokens [..., d] of a floating point type -> bits uint8
/// [..., ceil(d / 8)], the first dimension in the lowest bit of the first byte or (`big`) in the highest. Unused bits
/// are 0. Of the options, threads and the device mean something here.
ROWMAX_API void sign_bits(const TensorView& tokens, bool big, const TensorView& bits, const Options& options = {});

/// How numbers of a few bits are packed into a byte.
enum class BitOrder {
    little,   ///< the first in the lowest bits
    colbert,  ///< from the byte's top, each number's lowest bit first: what ColBERTv2, fast-plaid and next-plaid write
};

/// Bucket numbers of packed residuals: bytes uint8 [..., n] -> values uint8 [..., n * 8 / nbits]; nbits 1, 2, 4 or 8.
ROWMAX_API void unpack_residual(const TensorView& bytes, int nbits, BitOrder order, const TensorView& values);

/// What residual documents are decoded with: token = centroids[code] + bucket_weights[bucket], added in float32 and
/// then normalised. Tables are float32, float16 or bfloat16.
struct ResidualTables {
    TensorView centroids = {};       ///< [C, d]; absent: zeros, and no codes are read
    TensorView bucket_weights = {};  ///< [2^nbits]; absent, with nbits 1: -1 and 1
    int nbits = 2;                   ///< 1, 2, 4 or 8
    BitOrder bit_order = BitOrder::colbert;
    bool normalize = true;  ///< divide by the L2 norm; zeros stay zeros
};

}  // namespace rowmax
