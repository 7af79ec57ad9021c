// The oracle: the definition of every operator, in double precision, written to be read and not to be fast.
// Tests and `rowmax selftest` compare every kernel with it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/params.hpp"

namespace rowmax::core::reference {

struct Scores {
    std::vector<double> scores;       ///< [pairs]
    std::vector<double> scale;        ///< [pairs]: sum over s of |q_s| |d_win(s)|, what error bounds are relative to
    std::vector<double> similarity;   ///< [pairs, q.max_length]
    std::vector<std::int32_t> index;  ///< [pairs, q.max_length], -1 where a token sees nothing
};

/// Scores every pair of a problem of any layout and token type.
Scores score(const Params& params);

struct Gradient {
    std::vector<double> q;  ///< [q rows, d], rows as Segment::first_row counts them
    std::vector<double> d;
    std::vector<double> weight;  ///< of a projection: [d, hidden]; d above is then [rows, hidden]
    std::vector<double> bias;    ///< [d]
};

/// Gradients of sum(grad_scores * scores); grad_scores and index are [pairs] and [pairs, q.max_length].
Gradient backward(const Params& params, const std::vector<std::int32_t>& index, const std::vector<double>& grad_scores);

/// Token row `t` of a segment as doubles, widened from the tokens' type.
std::vector<double> widen_row(const Params& params, const Segments& side, const Segment& segment, std::int64_t token);

}  // namespace rowmax::core::reference
