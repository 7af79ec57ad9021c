// Where things lie in scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rowmax::cuda {

/// Hands out parts of a block that is not there yet, each at a multiple of 256 bytes.
class ScratchLayout {
  public:
    std::size_t take(std::size_t size) {
        constexpr std::size_t alignment = 256;
        const std::size_t at = bytes_;
        bytes_ += (size + alignment - 1) / alignment * alignment;
        return at;
    }
    template <class T>
    std::size_t take_array(std::int64_t count) {
        return take(static_cast<std::size_t>(count) * sizeof(T));
    }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

  private:
    std::size_t bytes_ = 0;
};

/// Where a part lies, once the block is there.
template <class T>
T* part_at(std::byte* memory, std::size_t at) {
    return reinterpret_cast<T*>(memory + at);
}

}  // namespace rowmax::cuda
