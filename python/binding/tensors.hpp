// torch tensors without a way through Python code: read through DLPack's C exchange API, made by torch.empty itself.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>

#include "rowmax/tensor.hpp"

namespace rowmax::python {

namespace nb = nanobind;

/// From now on tensors of `type` are read through the exchange API in `capsule`, and made by `empty` (torch.empty) on
/// what `device` (torch.device) makes of a kind and a number, with the types in `dtypes` by their names. False when the
/// capsule's version is not understood; then __dlpack__ serves them.
bool use_torch(nb::handle type, nb::handle capsule, nb::handle empty, nb::handle device, const nb::dict& dtypes);

/// Whether it is a tensor and the exchange API is there.
bool is_tensor(nb::handle object);
/// What a tensor holds, for as long as it lives. False where it has no memory: sparse, quantised, meta, transformed.
bool borrow_tensor(nb::handle tensor, nb::dlpack::dltensor& view);
/// torch's current stream on a CUDA device.
void* current_stream(int ordinal);
/// On a CUDA device, or with -1 on the CPU.
nb::object empty_tensor(std::span<const std::int64_t> shape, DType dtype, int cuda);

}  // namespace rowmax::python
