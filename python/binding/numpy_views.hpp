// What the bindings of files share: numpy views of mapped memory, paths, and Ctrl-C during long work.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "rowmax/tensor.hpp"

namespace rowmax::python {

namespace nb = nanobind;
using NumpyView = nb::ndarray<nb::numpy, nb::ro>;

/// A view that keeps `owner`, and with it the memory, alive; bfloat16 and float8 go out as unsigned integers.
NumpyView view_of(const TensorView& view, nb::handle owner);

/// Paths are bytes: not every file name is UTF-8.
std::string text_of(const nb::bytes& bytes);

/// For work that takes as long as its data is large, done without the interpreter's lock.
void hear_signals();

}  // namespace rowmax::python
