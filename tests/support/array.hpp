// Array: values of any element type that a test owns, written and read as doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "core/half.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::test {

template <class T>
void put(std::byte* at, double value) {
    const T narrow = static_cast<T>(value);
    std::memcpy(at, &narrow, sizeof(T));
}

inline void put_bits(std::byte* at, std::uint16_t bits) {
    std::memcpy(at, &bits, sizeof(bits));
}

inline void store(std::byte* at, DType dtype, double value) {
    switch (dtype) {
        case DType::f16: return put_bits(at, core::float_to_half(static_cast<float>(value)));
        case DType::bf16: return put_bits(at, core::float_to_bfloat(static_cast<float>(value)));
        case DType::f32: return put<float>(at, value);
        case DType::f64: return put<double>(at, value);
        case DType::i8: return put<std::int8_t>(at, value);
        case DType::u8: return put<std::uint8_t>(at, value);
        case DType::i16: return put<std::int16_t>(at, value);
        case DType::i32: return put<std::int32_t>(at, value);
        case DType::i64: return put<std::int64_t>(at, value);
        case DType::boolean: return put<std::uint8_t>(at, value != 0 ? 1 : 0);
    }
}

inline double fetch(const std::byte* at, DType dtype) {
    switch (dtype) {
        case DType::f16: return core::half_to_float(core::load<std::uint16_t>(at));
        case DType::bf16: return core::bfloat_to_float(core::load<std::uint16_t>(at));
        case DType::f32: return core::load<float>(at);
        case DType::f64: return core::load<double>(at);
        case DType::i8: return core::load<std::int8_t>(at);
        case DType::i16: return core::load<std::int16_t>(at);
        case DType::i32: return core::load<std::int32_t>(at);
        case DType::i64: return static_cast<double>(core::load<std::int64_t>(at));
        case DType::u8:
        case DType::boolean: break;
    }
    return core::load<std::uint8_t>(at);
}

class Array {
  public:
    /// Row-major; `values` repeats to fill the shape, so that {0} makes zeros.
    Array(DType dtype, std::vector<std::int64_t> shape, const std::vector<double>& values = {0})
        : dtype_(dtype), shape_(std::move(shape)) {
        const auto count =
            static_cast<std::size_t>(TensorView(nullptr, dtype_, std::span(std::as_const(shape_))).numel());
        bytes_.resize(count * size_of(dtype_));
        for (std::size_t i = 0; i < count; ++i) store(&bytes_[i * size_of(dtype_)], dtype_, values[i % values.size()]);
    }

    [[nodiscard]] TensorView view() const { return {bytes_.data(), dtype_, std::span(shape_)}; }
    [[nodiscard]] std::size_t size() const { return bytes_.size() / size_of(dtype_); }
    [[nodiscard]] double operator[](std::size_t i) const { return fetch(&bytes_[i * size_of(dtype_)], dtype_); }
    [[nodiscard]] std::vector<double> values() const {
        std::vector<double> all;
        for (std::size_t i = 0; i < size(); ++i) all.push_back((*this)[i]);
        return all;
    }

  private:
    DType dtype_;
    std::vector<std::int64_t> shape_;
    std::vector<std::byte> bytes_;
};

}  // namespace rowmax::test
