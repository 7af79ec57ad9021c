// The token types that kernels are compiled for.
#pragma once

#include <cstdint>

namespace rowmax::cuda {

enum class TokenType : std::uint8_t { f16, bf16, f32 };

constexpr int bytes_of(TokenType type) {
    return type == TokenType::f32 ? 4 : 2;
}

/// As instructions are called after it.
template <TokenType Type>
inline constexpr char type_name[] = "f16";
template <>
inline constexpr char type_name<TokenType::bf16>[] = "bf16";

}  // namespace rowmax::cuda
