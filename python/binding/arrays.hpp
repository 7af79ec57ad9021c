// A Python array of any framework, seen as a TensorView.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "rowmax/tensor.hpp"

namespace rowmax::python {

namespace nb = nanobind;

/// What an array is used for; it decides which element types it may have.
enum class Role {
    tokens,    ///< floating point; uint16 where the caller says that it holds bfloat16
    mask,      ///< anything with a zero
    integers,  ///< offsets, lengths, pair lists, indices
    bytes,     ///< packed bits
    scale,     ///< factors of quantised tokens
    result,    ///< written to
};

/// One argument of a call: `name` is what messages blame.
struct Argument {
    nb::handle object;
    const char* name;
    Role role;
    bool bits_are_bfloat16 = false;
    bool may_be_on_device = false;  ///< the caller looks where it is; everybody else reads it on the CPU
    std::uintptr_t stream = 0;      ///< of the device, on which it will be used: its producer makes that one wait
};

/// Holds what keeps the memory of a view alive: a buffer, a DLPack tensor or a copy. Not movable, since a buffer may
/// point into itself.
class Array {
  public:
    Array() = default;
    ~Array();
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    /// None leaves the view "not given".
    void read(const Argument& argument);

    TensorView view;
    int cuda = -1;  ///< the CUDA device it lies on; -1: the CPU

  private:
    bool read_tensor(const Argument& argument);
    bool read_buffer(const Argument& argument);
    bool read_dlpack(const Argument& argument);
    bool read_ml_dtypes(const Argument& argument);
    bool read_list(const Argument& argument);
    void view_buffer(const Argument& argument);
    void view_dlpack(const nb::dlpack::dltensor& tensor, const Argument& argument);

    Py_buffer buffer_{};
    nb::ndarray<nb::ro> dlpack_;
    nb::object owner_;
    std::unique_ptr<std::byte[]> copy_;
};

}  // namespace rowmax::python
