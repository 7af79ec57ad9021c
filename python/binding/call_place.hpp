// Where the arrays of one call lie, which must be together, and how the call gets scratch memory there.
#pragma once

#include "arrays.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::python {

/// For operators without a Request. Memory of a CUDA device is understood where tensors say what their current stream
/// is (tensors.hpp). Lives until the call has returned.
class CallPlace {
  public:
    /// Reads an array. The first decides where all are.
    void read(Array& array, const Argument& argument);
    /// What the call is told, once all its arrays are read.
    [[nodiscard]] Device device();

  private:
    static void* allocate(void* self, std::size_t bytes);

    const char* first_name_ = nullptr;
    int cuda_ = -1;
    Array scratch_;
};

}  // namespace rowmax::python
