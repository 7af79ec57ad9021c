// Where the arrays of one call lie, which must be together, and how the call gets scratch memory there.
#pragma once

#include <cstdint>
#include <optional>

#include "arrays.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::python {

/// For operators without a Request. Of a CUDA device's memory, tensors say themselves what their current stream is
/// (tensors.hpp), and hand out scratch memory; for arrays of other libraries `stream` says it, on which they are then
/// used, and scratch memory is of the library's pool. Lives until the call has returned.
class CallPlace {
  public:
    explicit CallPlace(std::optional<std::uintptr_t> stream = std::nullopt) : stream_(stream) {}
    /// Reads an array. The first decides where all are.
    void read(Array& array, const Argument& argument);
    /// What the call is told, once all its arrays are read.
    [[nodiscard]] Device device();

  private:
    static void* allocate(void* self, std::size_t bytes);

    std::optional<std::uintptr_t> stream_;
    const char* first_name_ = nullptr;
    int cuda_ = -1;
    Array scratch_;
};

}  // namespace rowmax::python
