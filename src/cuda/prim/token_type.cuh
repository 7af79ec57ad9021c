// How tokens are stored and multiplied: what kernels are compiled for.
#pragma once

#include <cstdint>

namespace rowmax::cuda {

/// Both of the last two are stored as float32. f32: multiplied to float32 accuracy, as parts (kernels/split_sum.cuh).
/// tf32: multiplied once; tensor cores read the highest 11 of the 24 bits.
enum class TokenType : std::uint8_t { f16, bf16, f32, tf32 };

constexpr int bytes_of(TokenType type) {
    return type == TokenType::f32 || type == TokenType::tf32 ? 4 : 2;
}

/// As instructions are called after it.
template <TokenType Type>
inline constexpr char type_name[] = "f16";
template <>
inline constexpr char type_name<TokenType::bf16>[] = "bf16";
template <>
inline constexpr char type_name<TokenType::tf32>[] = "tf32";

}  // namespace rowmax::cuda
