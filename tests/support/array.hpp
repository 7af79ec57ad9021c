// Array: values of any element type that a test owns, written and read as doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/element.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::test {

class Array {
  public:
    /// Row-major; `values` repeats to fill the shape, so that {0} makes zeros.
    Array(DType dtype, std::vector<std::int64_t> shape, const std::vector<double>& values = {0})
        : dtype_(dtype), shape_(std::move(shape)) {
        const auto count =
            static_cast<std::size_t>(TensorView(nullptr, dtype_, std::span(std::as_const(shape_))).numel());
        bytes_.resize(count * size_of(dtype_));
        for (std::size_t i = 0; i < count; ++i) set(i, values[i % values.size()]);
    }
    /// `next` gives one element after another.
    static Array generated(DType dtype, std::vector<std::int64_t> shape, const std::function<double()>& next) {
        Array array(dtype, std::move(shape));
        for (std::size_t i = 0; i < array.size(); ++i) array.set(i, next());
        return array;
    }

    [[nodiscard]] TensorView view() const { return {bytes_.data(), dtype_, std::span(shape_)}; }
    [[nodiscard]] std::size_t size() const { return bytes_.size() / size_of(dtype_); }
    [[nodiscard]] double operator[](std::size_t i) const {
        return core::read_element(&bytes_[i * size_of(dtype_)], dtype_);
    }
    void set(std::size_t i, double value) { core::write_element(&bytes_[i * size_of(dtype_)], dtype_, value); }
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
