#include "numpy_views.hpp"

#include <cstddef>
#include <cstdint>

namespace rowmax::python {

namespace {

// numpy has no bfloat16: its bits go out as uint16.
nb::dlpack::dtype numpy_dtype(DType dtype) {
    const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
    switch (dtype) {
        case DType::f16:
        case DType::f32:
        case DType::f64: return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), bits, 1};
        case DType::bf16:
        case DType::f8e4m3:
        case DType::u8: return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt), bits, 1};
        case DType::boolean: return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bool), bits, 1};
        case DType::i8:
        case DType::i16:
        case DType::i32:
        case DType::i64: break;
    }
    return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int), bits, 1};
}

}  // namespace

NumpyView view_of(const TensorView& view, nb::handle owner) {
    std::size_t shape[TensorView::max_ndim];
    for (int i = 0; i < view.ndim; ++i) shape[i] = static_cast<std::size_t>(view.shape[i]);
    return NumpyView(view.data, static_cast<std::size_t>(view.ndim), shape, owner, view.stride.data(),
                     numpy_dtype(view.dtype));
}

std::string text_of(const nb::bytes& bytes) {
    return {bytes.c_str(), bytes.size()};
}

void hear_signals() {
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace rowmax::python
