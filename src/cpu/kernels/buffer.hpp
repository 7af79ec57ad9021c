// Memory that a thread keeps between calls: grows, is never initialised, starts at a cache line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace rowmax::cpu {

template <class T>
class Buffer {
  public:
    /// Room for `count` elements; what was in the buffer is lost when it has to grow.
    T* reserve(std::int64_t count) {
        if (count > capacity_) {
            data_.reset();
            capacity_ = 0;
            const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
            data_.reset(static_cast<T*>(::operator new(bytes, std::align_val_t(alignment))));
            capacity_ = count;
        }
        return data_.get();
    }
    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    T& operator[](std::int64_t i) { return data_.get()[i]; }
    const T& operator[](std::int64_t i) const { return data_.get()[i]; }

  private:
    static constexpr std::size_t alignment = 64;
    struct Free {
        void operator()(T* p) const { ::operator delete(p, std::align_val_t(alignment)); }
    };
    std::unique_ptr<T, Free> data_;
    std::int64_t capacity_ = 0;
};

}  // namespace rowmax::cpu
