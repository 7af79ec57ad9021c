// One input for several files: their contents one after the other, each behind two bytes of length.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rowmax::fuzz {

inline std::string joined(const std::vector<std::string>& pieces) {
    std::string input;
    for (const std::string& piece : pieces) {
        input += static_cast<char>(piece.size() % 256);
        input += static_cast<char>(piece.size() / 256);
        input += piece;
    }
    return input;
}

/// Whether the input has another piece, which leaves it.
inline bool next_piece(std::string_view& input, std::string_view& piece) {
    if (input.size() < 2) return false;
    const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(input[i])); };
    piece = input.substr(2, byte(0) + 256 * byte(1));
    input.remove_prefix(2 + piece.size());
    return true;
}

}  // namespace rowmax::fuzz
