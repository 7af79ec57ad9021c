// Where results go, checked against the problem.
#include <fmt/format.h>

#include "core/problem.hpp"
#include "core/views.hpp"

namespace rowmax::core {

namespace {

// An index from elsewhere must stay inside its document, or the backward pass would write outside the gradients.
void check_index_values(const Params& params, const std::int32_t* index) {
    for (std::int64_t p = 0; p < params.pairs.count; ++p) {
        const std::int64_t document = params.pairs.document(p);
        const std::int64_t tokens = params.d.at(document).length;
        const std::int64_t length = params.q.at(params.pairs.query(p)).length;
        for (std::int64_t s = 0; s < length; ++s) {
            const std::int32_t t = index[p * params.q.max_length + s];
            if (t >= -1 && t < tokens) continue;
            throw Error(ErrorCode::invalid_value,
                        fmt::format("index of pair {}, query token {} is {}, but document {} holds {} tokens", p, s, t,
                                    document, tokens));
        }
    }
}

// 16 bits hold the index of a call on a device whose documents are short enough.
bool narrow(const Problem& problem, const TensorView& index) {
    if (index.dtype != DType::i16 || !problem.copies.on_device) return false;
    if (index_fits_16_bits(problem)) return true;
    throw Error(
        ErrorCode::invalid_type,
        fmt::format("index must be int32: int16 holds winning tokens of documents of fewer than {} tokens, got {}",
                    no_token_narrow, problem.params.d.max_length));
}

DType index_type(bool narrow) {
    return narrow ? DType::i16 : DType::i32;
}

void* gradient_of(const TensorView& gradient, const TensorView& tokens, std::string_view name) {
    if (!gradient.given()) return nullptr;
    const std::vector<std::int64_t> shape(tokens.shape.begin(), tokens.shape.begin() + tokens.ndim);
    return checked_output(gradient, tokens.dtype, shape, name);
}

}  // namespace

bool index_fits_16_bits(const Problem& problem) {
    return problem.copies.on_device && problem.params.d.max_length < no_token_narrow;
}

Outputs check_outputs(const Problem& problem, const ScoreOutputs& outputs) {
    Outputs raw;
    raw.scores = checked_output(outputs.scores, problem.shape.dtype, problem.shape.scores, "out");
    if (outputs.index.given()) {
        raw.narrow = narrow(problem, outputs.index);
        raw.index = static_cast<std::int32_t*>(
            checked_output(outputs.index, index_type(raw.narrow), problem.shape.tokens, "index"));
    }
    if (outputs.similarity.given()) {
        raw.similarity = checked_output(outputs.similarity, problem.shape.dtype, problem.shape.tokens, "similarity");
    }
    return raw;
}

Gradients check_gradients(const Problem& problem, const ScoreRequest& request, const TensorView& index,
                          const TensorView& grad_scores, const TensorView& grad_q, const TensorView& grad_d) {
    Gradients raw;
    raw.narrow = narrow(problem, index);
    raw.index =
        static_cast<const std::int32_t*>(checked_output(index, index_type(raw.narrow), problem.shape.tokens, "index"));
    if (validates(request.options) && !problem.copies.on_device) check_index_values(problem.params, raw.index);
    raw.scores = checked_output(grad_scores, problem.shape.dtype, problem.shape.scores, "grad_scores");
    raw.q = gradient_of(grad_q, request.q.tokens, "grad_q");
    raw.d = gradient_of(grad_d, request.d.tokens, "grad_d");
    return raw;
}

TopKOutputs check_topk_outputs(const Problem& problem, std::int64_t k, const TensorView& scores,
                               const TensorView& index) {
    const std::vector<std::int64_t> shape{problem.params.q.count, k};
    return {checked_output(scores, problem.shape.dtype, shape, "scores"),
            static_cast<std::int64_t*>(checked_output(index, DType::i64, shape, "index"))};
}

}  // namespace rowmax::core
