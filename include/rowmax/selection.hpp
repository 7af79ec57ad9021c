// Kin of MaxSim that keep something else of a row of similarities than its maximum. Requests are those of
// rowmax/maxsim.hpp, in every layout but ranges, of float16, bfloat16, float32 or float64 tokens on the CPU;
// similarities, sums over query tokens, masks, NaN and bits that depend on nothing but the pair are those of score().
// Nothing of size Lq x Ld is ever written.
#pragma once

#include <cstdint>
#include <span>

#include "rowmax/error.hpp"
#include "rowmax/export.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax {

/// What is made of a query token's best similarities.
enum class TokenReduction { mean, sum };

/// score[i, j] = sum over query tokens of the mean or sum of the k largest similarities; of all where a document keeps
/// fewer than k tokens. Scores as result_shape(); index, which may be absent, int32 [.., Lq, k]: those tokens, best
/// first, the lowest token among equals, -1 behind the last. k = 1 is score().
ROWMAX_API void score_topk_tokens(const ScoreRequest& request, std::int64_t k, TokenReduction reduction,
                                  const TensorView& scores, const TensorView& index);
/// As score_backward().
ROWMAX_API void score_topk_tokens_backward(const ScoreRequest& request, std::int64_t k, TokenReduction reduction,
                                           const TensorView& index, const TensorView& grad_scores,
                                           const TensorView& grad_q, const TensorView& grad_d);

/// A smooth maximum: score[i, j] = sum over query tokens of temperature x log(sum over document tokens of
/// exp(similarity / temperature)), temperature > 0; towards 0 it becomes score(). `tokens`, which may be absent: what
/// the backward pass wants of each query token, scores' type, [2] + scores' shape + [Lq]: the largest similarity, and
/// the sum of exp((similarity - largest) / temperature), which in one number with it would be lost where temperature is
/// low.
ROWMAX_API void score_smooth(const ScoreRequest& request, double temperature, const TensorView& scores,
                             const TensorView& tokens);
/// Similarities are computed again. Deterministic: a row's pairs are cut into runs of 32, each added in order, then the
/// runs. Outputs as in score_backward().
ROWMAX_API void score_smooth_backward(const ScoreRequest& request, double temperature, const TensorView& tokens,
                                      const TensorView& grad_scores, const TensorView& grad_q,
                                      const TensorView& grad_d);

/// Matryoshka embeddings (Kusupati et al., 2022, https://arxiv.org/abs/2205.13147): scores of the first dims[p]
/// dimensions for every p, with the bits that score() gives for such tokens, in one pass over the documents. `dims`
/// ascend and end at d or before; normalize is not implemented. scores [P, ..], index int32 [P, .., Lq] or absent.
ROWMAX_API void score_prefixes(const ScoreRequest& request, std::span<const std::int64_t> dims,
                               const TensorView& scores, const TensorView& index);

/// What XTR puts in the place of a token that was not retrieved.
enum class Imputation {
    last,  ///< the similarity of the k-th best token: scoring after retrieval; scores are means over query tokens
    none,  ///< nothing: training; scores are means over the query tokens that retrieved something of the document
};

/// XTR (Lee et al., 2023, https://arxiv.org/abs/2304.01982): of a query token, only the k best document tokens of all
/// its documents count (ties: the lowest document, then token). Cross or grouped pairing. `index`, which may be absent:
/// int32 [.., Lq], the document's best token where it was retrieved; -1: a query token that is hidden, sees nothing or
/// (`none`) retrieved nothing, -2: an imputed one. `last_document` int64 and `last_token` int32 [Nq, Lq] ([Lq] for one
/// query), absent or both given: the k-th best token, -1 where there are fewer than k. Grouped: counted over all pairs.
ROWMAX_API void score_xtr(const ScoreRequest& request, std::int64_t k, Imputation imputation, const TensorView& scores,
                          const TensorView& index, const TensorView& last_document, const TensorView& last_token);

}  // namespace rowmax
