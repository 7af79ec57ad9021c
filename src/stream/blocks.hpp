// Blocks of a TokenSource that fit a step.
#pragma once

#include <cstdint>

#include "io/token_source.hpp"
#include "stream/step_plan.hpp"

namespace rowmax::stream {

/// Whether blocks of this source are copies rather than views of mapped memory.
bool copies_blocks(const io::TokenSource& source);

/// The end of a block of documents that begins at `item`: at least one document, and no more than the plan allows.
/// `copied`: what copies_blocks() says of them.
std::int64_t block_end(const io::TokenSource& documents, std::int64_t item, bool copied, const StepPlan& plan);

}  // namespace rowmax::stream
