// Documents stored as a centroid's number and a packed residual a token: checked, and as numbers by their definition.
#pragma once

#include <vector>

#include "core/params.hpp"
#include "core/problem.hpp"
#include "core/sides.hpp"
#include "core/views.hpp"
#include "rowmax/compressed.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::core {

inline constexpr SideNames residual_names{"residuals", "d_mask",  "cu_seqlens_d", "max_seqlen_d",
                                          "documents", "d_scale", "doc_lengths"};

/// Types and shapes of queries and of documents that have residual tables.
void check_residual(const ScoreRequest& request);
/// `documents`: the side's segments; with `validate` the codes of tokens that are kept are looked at.
Residual make_residual(Copies& copies, const ScoreRequest& request, const Segments& documents, bool validate);

/// The centroid's number of a document's token, clamped to the table.
std::int64_t code_of(const Params& params, std::int64_t item, std::int64_t token);

}  // namespace rowmax::core
