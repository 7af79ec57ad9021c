// The scales of quantised tokens, checked.
#pragma once

#include "core/params.hpp"
#include "core/sides.hpp"
#include "core/views.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::core {

/// Tokens that are codes, and mean something only with a scale.
bool is_quantised(DType dtype);

/// That a scale is there where the tokens need one, is float32 and of a shape that fits them; and nowhere else.
void check_scale(const TokenSet& side, const SideNames& names);
Scales make_scales(Copies& copies, const TokenSet& side);

}  // namespace rowmax::core
