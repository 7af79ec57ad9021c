// Where the results of one item's sources go.
#pragma once

#include <cstdint>

#include "cpu/kernels/kept_points.hpp"
#include "cpu/kernels/nearest.hpp"

namespace rowmax::cpu {

template <class Value>
class PointResults {
  public:
    PointResults(const NearestOutputs& to, const KeptPoints<Value>& sources, const KeptPoints<Value>& targets)
        : to_(to), sources_(sources), targets_(targets) {}

    [[nodiscard]] std::int64_t k() const { return to_.k; }

    /// Target number `target` is the j-th nearest of source number `source`.
    void write(std::int64_t source, std::int64_t j, Value distance, std::int64_t target) const {
        const std::int64_t row = sources_.segment().first_row + sources_.position(source);
        const std::int64_t at = row * to_.k + j;
        static_cast<Value*>(to_.distance)[at] = distance;
        if (to_.index != nullptr) to_.index[at] = targets_.position(target);
    }

  private:
    const NearestOutputs& to_;
    const KeptPoints<Value>& sources_;
    const KeptPoints<Value>& targets_;
};

}  // namespace rowmax::cpu
