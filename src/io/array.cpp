#include "io/array.hpp"

#include <cstring>
#include <new>

#include "io/file_error.hpp"

namespace rowmax::io {

DType choose_dtype(const StoredType& stored, std::optional<DType> wanted, const std::string& where) {
    if (wanted && wanted != stored.dtype) {
        if (stored.raw16 && (*wanted == DType::bf16 || *wanted == DType::f16)) return *wanted;
        throw Error(ErrorCode::invalid_type, fmt::format("{}: dtype: elements are '{}', which cannot be read as {}",
                                                         where, printable(stored.spelled), name_of(*wanted)));
    }
    if (stored.dtype) return *stored.dtype;
    bad_data(where, "dtype: '{}' is not a type rowmax reads{}", printable(stored.spelled),
             stored.raw16 ? "; if these are bfloat16 (or float16) numbers, say so with the dtype option" : "");
}

bool is_aligned(const TensorView& view) noexcept {
    return reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) == 0;
}

Array aligned(Array array) {
    if (is_aligned(array.view)) return array;
    const auto bytes = static_cast<std::size_t>(array.view.numel()) * size_of(array.view.dtype);
    const std::shared_ptr<std::byte[]> copy = allocate_bytes(bytes);
    if (bytes > 0) std::memcpy(copy.get(), array.view.data, bytes);
    array.view.data = copy.get();
    array.owner = copy;
    return array;
}

std::shared_ptr<std::byte[]> allocate_bytes(std::size_t bytes) {
    try {
        return std::shared_ptr<std::byte[]>(new std::byte[bytes]);  // aligned for every element type
    } catch (const std::bad_alloc&) {
        throw Error(ErrorCode::out_of_memory, "cannot allocate " + std::to_string(bytes) + " bytes");
    }
}

}  // namespace rowmax::io
