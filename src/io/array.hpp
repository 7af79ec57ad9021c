// Array: a tensor read from a file, together with whatever keeps its memory alive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rowmax/tensor.hpp"

namespace rowmax::io {

/// The view's data is aligned to its elements only if is_aligned() says so: members of a .npz lie anywhere.
struct Array {
    TensorView view;
    std::shared_ptr<const void> owner;
};

/// What a file says about one of its arrays, before anything is read. Types and shapes rowmax cannot use are listed
/// too.
struct ArrayInfo {
    std::string name;
    std::string dtype;  ///< as the file spells it: "<f4", "BF16"
    std::vector<std::int64_t> shape;
    std::uint64_t offset = 0;  ///< of the data, from the start of the file (of the compressed member, if compressed)
    std::uint64_t bytes = 0;   ///< of the data in the file
    bool compressed = false;
};

bool is_aligned(const TensorView& view) noexcept;
/// The same array, copied to aligned memory if it is not aligned.
Array aligned(Array array);

}  // namespace rowmax::io
