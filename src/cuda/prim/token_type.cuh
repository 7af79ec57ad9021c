// How tokens are stored and multiplied: what kernels are compiled for.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rowmax::cuda {

/// f32 and tf32 are both stored as float32. f32: multiplied to float32 accuracy, as parts (kernels/split_sum.cuh).
/// tf32: multiplied once; tensor cores read the highest 11 of the 24 bits. i8, f8 (e4m3): codes that go with scales.
enum class TokenType : std::uint8_t { f16, bf16, f32, tf32, i8, f8 };

constexpr int bytes_of(TokenType type) {
    switch (type) {
        case TokenType::f16:
        case TokenType::bf16: return 2;
        case TokenType::i8:
        case TokenType::f8: return 1;
        case TokenType::f32:
        case TokenType::tf32: break;
    }
    return 4;
}

/// Similarities are multiplied by a document token's scale, maxima by a query token's.
constexpr bool is_scaled(TokenType type) {
    return type == TokenType::i8 || type == TokenType::f8;
}

/// What kernels without instructions for float8 multiply: its values, exactly.
constexpr TokenType widened(TokenType type) {
    return type == TokenType::f8 ? TokenType::f16 : type;
}

/// What products of tokens are added up in.
template <TokenType Type>
using SumOf = std::conditional_t<Type == TokenType::i8, int, float>;

/// As instructions are called after it.
template <TokenType Type>
inline constexpr char type_name[] = "f16";
template <>
inline constexpr char type_name<TokenType::bf16>[] = "bf16";
template <>
inline constexpr char type_name<TokenType::tf32>[] = "tf32";
template <>
inline constexpr char type_name<TokenType::f8>[] = "e4m3";

}  // namespace rowmax::cuda
