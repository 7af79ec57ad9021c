#include "cpu/point_rows.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "core/registry.hpp"
#include "cpu/prim/features.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cpu {

extern const PointOps points_scalar4_ops;
extern const PointOps points_scalar16_ops;
#if defined(__x86_64__)
extern const PointOps points_avx2_ops;
extern const PointOps points_avx512_ops;
#endif

namespace {

std::string nothing_lacks() {
    return {};
}

constexpr PointRow table[] = {
#if defined(__x86_64__)
    {"cpu.avx512", &missing_avx512, &points_avx512_ops},
    {"cpu.avx2", &missing_avx2, &points_avx2_ops},
#endif
    {"cpu.scalar4", &nothing_lacks, &points_scalar4_ops},
    {"cpu.scalar16", &nothing_lacks, &points_scalar16_ops},
};

std::string_view suffix(DType dtype) {
    switch (dtype) {
        case DType::f16: return "f16";
        case DType::bf16: return "bf16";
        case DType::f64: return "f64";
        default: return "f32";
    }
}

}  // namespace

std::span<const PointRow> point_rows() {
    return table;
}

const PointOps& choose_point_ops(DType dtype, std::string_view forced) {
    const bool by_option = !forced.empty();
    const char* variable = std::getenv("ROWMAX_KERNEL");
    if (!by_option && variable != nullptr) forced = variable;
    std::string missing;
    for (const PointRow& row : table) {
        const std::string name = fmt::format("{}.{}", row.name, suffix(dtype));
        if (!forced.empty() && !core::names(forced, name)) continue;
        const std::string lacks = row.missing();
        if (lacks.empty()) return *row.ops;
        missing += fmt::format("{}{}: {}", missing.empty() ? "" : "; ", name, lacks);
    }
    if (!missing.empty())
        throw Error(ErrorCode::not_implemented, fmt::format("no kernel accepts this call; missing: {}", missing));
    throw Error(ErrorCode::invalid_value, fmt::format("{}: no kernel for {} points is named '{}'",
                                                      by_option ? "kernel" : "ROWMAX_KERNEL", name_of(dtype), forced));
}

}  // namespace rowmax::cpu
