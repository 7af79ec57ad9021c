// Documents as hidden states: the last linear layer of an encoder is computed while its tokens are scored.
#pragma once

#include "rowmax/tensor.hpp"

namespace rowmax {

/// A document's token is W h + b for a row h of TokenSet::tokens, [.., hidden]; with `normalize` divided by its L2 norm
/// (zeros stay zeros). Everything has the queries' type: float64, float32, float16 or bfloat16. Tokens are computed and
/// kept in float32 (float64), a block at a time, and never rounded back nor all held at once. On a CUDA device float16
/// and bfloat16 tokens are rounded to their type; documents must be dense there, d at most 128, and there is no
/// gradient.
struct Projection {
    TensorView weight;     ///< [d, hidden]
    TensorView bias = {};  ///< [d]; absent: zeros
    bool normalize = true;
};

}  // namespace rowmax
