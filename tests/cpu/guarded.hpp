// Memory whose end cannot be overrun unnoticed.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "rowmax/tensor.hpp"

namespace rowmax::test {

/// A buffer that ends, to the byte, where memory ends: the page behind it cannot be read.
class Guarded {
  public:
    explicit Guarded(std::size_t bytes) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        size_ = (bytes + page - 1) / page * page + page;
        map_ =
            static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(map_ + size_ - page, page, PROT_NONE);
        data_ = map_ + size_ - page - bytes;
    }
    Guarded(const Guarded&) = delete;
    Guarded& operator=(const Guarded&) = delete;
    ~Guarded() { munmap(map_, size_); }
    [[nodiscard]] std::byte* data() const { return data_; }

  private:
    std::byte* map_ = nullptr;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

inline TensorView copy_to(std::byte* to, const TensorView& from) {
    std::memcpy(to, from.data, static_cast<std::size_t>(from.numel()) * size_of(from.dtype));
    TensorView view = from;
    view.data = to;
    return view;
}

inline std::size_t bytes_of(const TensorView& view) {
    return static_cast<std::size_t>(view.numel()) * size_of(view.dtype);
}

}  // namespace rowmax::test
