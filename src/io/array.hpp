// Array: a tensor read from a file, together with whatever keeps its memory alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rowmax/tensor.hpp"

namespace rowmax::io {

/// The view's data is aligned to its elements only if is_aligned() says so: members of a .npz lie anywhere.
struct Array {
    TensorView view;
    std::shared_ptr<const void> owner;
};

/// An element type as a file spells it.
struct StoredType {
    std::string spelled;         ///< "<f4", "BF16"
    std::optional<DType> dtype;  ///< nothing: rowmax cannot use it as it is
    bool raw16 = false;          ///< 2 bytes of integer or void: may be declared a 16-bit float
};
/// What a file says about one of its arrays, before anything is read. Types and shapes rowmax cannot use are listed
/// too.
struct ArrayInfo {
    std::string name;
    StoredType type;
    std::vector<std::int64_t> shape;
    std::uint64_t offset = 0;  ///< of the data, from the start of the file (of the compressed member, if compressed)
    std::uint64_t bytes = 0;   ///< of the data in the file
    bool compressed = false;
};

/// The type to read with: the stored one, or `wanted` for raw 16-bit elements.
DType choose_dtype(const StoredType& stored, std::optional<DType> wanted, const std::string& where);

bool is_aligned(const TensorView& view) noexcept;
/// The same contiguous array, copied to aligned memory if it is not aligned.
Array aligned(Array array);

/// Uninitialised memory; throws Error(out_of_memory).
std::shared_ptr<std::byte[]> allocate_bytes(std::size_t bytes);

}  // namespace rowmax::io
