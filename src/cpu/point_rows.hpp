// The rows of operators on points, in order of preference: one an instruction set, all with the same bits.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cpu/kernels/point_ops.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::cpu {

struct PointRow {
    std::string_view name;     ///< "cpu.avx2": the first half of a kernel's name, whose second half is the points' type
    std::string (*missing)();  ///< empty when this machine can run it
    const PointOps* ops = nullptr;
};

std::span<const PointRow> point_rows();

/// The first that this machine can run, or the first of those that `forced` names ("cpu.avx2", "cpu.avx2.f32"; empty:
/// ROWMAX_KERNEL). Throws invalid_value for a name that no row has, not_implemented for instructions that are missing.
const PointOps& choose_point_ops(DType dtype, std::string_view forced);

}  // namespace rowmax::cpu
