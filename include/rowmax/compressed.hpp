// Compressed tokens: how they are made. They are scored by score() like any others (rowmax/maxsim.hpp).
#pragma once

#include "rowmax/error.hpp"
#include "rowmax/export.hpp"
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
/// without d (token) or without L and d (document). Tokens of zeros have scale 0; one that holds a NaN or an infinity
/// makes its scale NaN, with codes 0. `threads` as in Options.
ROWMAX_API void quantize_int8(const TensorView& tokens, Granularity granularity, const TensorView& codes,
                              const TensorView& scale, int threads = 0);

/// How numbers of a few bits are packed into a byte.
enum class BitOrder {
    little,   ///< the first in the lowest bits
    colbert,  ///< from the byte's top, each number's lowest bit first: what ColBERTv2, fast-plaid and next-plaid write
};

/// Bucket numbers of packed residuals: bytes uint8 [..., n] -> values uint8 [..., n * 8 / nbits]; nbits 1, 2, 4 or 8.
ROWMAX_API void unpack_residual(const TensorView& bytes, int nbits, BitOrder order, const TensorView& values);

}  // namespace rowmax
