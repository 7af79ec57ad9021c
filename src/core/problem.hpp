// Validation, all of it, in one place: a ScoreRequest of any layout becomes Params, or an Error that names the argument
// and the values.
#pragma once

#include <memory>

#include "core/params.hpp"
#include "core/views.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::core {

/// Params plus the copies they may point into (views with a negative or non-unit last stride).
struct Problem {
    Params params;
    ResultShape shape;
    Copies copies;
    std::unique_ptr<Compressed> compressed;  ///< what params.compressed points to
};

/// Whether the contents of offsets and lists are to be looked at.
bool validates(const Options& options);

Problem make_problem(const ScoreRequest& request);

/// rowmax::score() for callers that have made the problem of the request, to learn the shapes of its results.
void score(Problem& problem, const ScoreRequest& request, const ScoreOutputs& outputs);

/// Whether score() can write the winning tokens as 16 bits (65535: none), and score_backward() read them: on devices,
/// where documents have fewer than 65535 tokens.
bool index_fits_16_bits(const Problem& problem);

/// Checks that result views fit the problem and returns their raw form.
Outputs check_outputs(const Problem& problem, const ScoreOutputs& outputs);
Gradients check_gradients(const Problem& problem, const ScoreRequest& request, const TensorView& index,
                          const TensorView& grad_scores, const TensorView& grad_q, const TensorView& grad_d);

struct TopKOutputs {
    void* scores = nullptr;
    std::int64_t* index = nullptr;
};
TopKOutputs check_topk_outputs(const Problem& problem, std::int64_t k, const TensorView& scores,
                               const TensorView& index);

}  // namespace rowmax::core
