// What the rows for CUDA devices take, as far as the host can tell: kernels are compiled for one type of tokens, and
// read others as if they were theirs.
#include <gtest/gtest.h>

#include <optional>
#include <string_view>

#include "core/registry.hpp"
#include "rowmax/error.hpp"

namespace rowmax::test {
namespace {

// The last part of the name; none where it is a coding, whose tokens are compressed.
std::optional<DType> tokens_of(std::string_view row) {
    const std::string_view type = row.substr(row.rfind('.') + 1);
    if (type == "f16") return DType::f16;
    if (type == "residual" || type == "bits") return std::nullopt;
    if (type == "i8") return DType::i8;
    if (type == "f8e4m3") return DType::f8e4m3;
    return type == "bf16" ? DType::bf16 : DType::f32;
}

std::string refusal(const core::Kernel& row, DType dtype) {
    core::Params params;
    params.dtype = dtype;
    params.dim = 1024;
    params.place.cuda = true;
    params.high_precision_only = false;
    try {
        return row.refuse(params);
    } catch (const Error&) {
        return "no device";  // asked for after what the host knows by itself
    }
}

TEST(Table, EachRowTakesTheTypeOfItsName) {
    ASSERT_FALSE(core::cuda_kernels().empty());
    for (const core::Kernel& row : core::cuda_kernels()) {
        for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8, DType::f8e4m3}) {
            if (dtype == tokens_of(row.name)) {
                EXPECT_NE(refusal(row, dtype), name_of(dtype)) << row.name;
            } else {
                EXPECT_EQ(refusal(row, dtype), name_of(dtype)) << row.name;
            }
        }
    }
}

}  // namespace
}  // namespace rowmax::test
