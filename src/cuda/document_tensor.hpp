// Documents as the copy engine sees them.
#pragma once

#include "core/params.hpp"
#include "cuda/device.hpp"

namespace rowmax::cuda {

/// Tokens can be read 16 bytes at a time.
bool by_16(const core::Segments& side);

/// Whether the copy engine can read the documents: addresses and strides of 16 bytes, tokens one behind the other,
/// sizes that a tensor map holds.
bool copy_engine_reads(const core::Params& params);

TensorShape document_tensor(const core::Params& params);

}  // namespace rowmax::cuda
