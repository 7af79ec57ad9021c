// Gradients of a problem, found on the GPU.
#pragma once

#include <vector>

#include "cpu/sample.hpp"

namespace rowmax::test {

struct GradientArrays {
    Array q;
    Array d;
};

/// How the winning tokens are handed over.
enum class IndexBits { sixteen, thirty_two };

/// From the winning tokens, [pairs, q.max_length] of int32, and the gradients of the scores.
GradientArrays gradients_on_device(const core::Kernel& row, const core::Problem& problem, const Array& index,
                                   const std::vector<double>& grad_scores, IndexBits bits = IndexBits::sixteen);

/// The winning tokens of the GPU's forward pass, in 16 bits, as int32.
Array narrow_index(const core::Kernel& row, const core::Problem& problem);

}  // namespace rowmax::test
