// Small numbers packed into bytes.
#pragma once

#include <array>
#include <cstdint>

#include "rowmax/compressed.hpp"

namespace rowmax::core {

/// Numbers of 1, 2, 4 or 8 bits, `per_byte` to a byte, of every byte.
struct FieldTable {
    int per_byte = 1;
    std::array<std::uint8_t, 2048> fields{};  ///< [256][per_byte]

    [[nodiscard]] const std::uint8_t* of(std::uint8_t byte) const {
        return fields.data() + std::size_t{byte} * static_cast<std::size_t>(per_byte);
    }
};

/// The bits of a byte in the opposite order.
constexpr std::uint8_t reversed(std::uint8_t byte) {
    unsigned result = 0;
    for (int bit = 0; bit < 8; ++bit) result |= ((byte >> bit) & 1U) << (7 - bit);
    return static_cast<std::uint8_t>(result);
}

/// Little: the first number in the lowest bits. ColBERT: packed from the top of the byte, each number's lowest bit
/// first, which is the little order of the reversed byte.
constexpr FieldTable field_table(int nbits, BitOrder order) {
    FieldTable table;
    table.per_byte = 8 / nbits;
    const unsigned mask = (1U << nbits) - 1;
    for (unsigned byte = 0; byte < 256; ++byte) {
        const unsigned bits = order == BitOrder::little ? byte : reversed(static_cast<std::uint8_t>(byte));
        for (int i = 0; i < table.per_byte; ++i) {
            const auto at = static_cast<std::size_t>(byte) * static_cast<std::size_t>(table.per_byte);
            table.fields[at + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>((bits >> (i * nbits)) & mask);
        }
    }
    return table;
}

/// Throws unless nbits is 1, 2, 4 or 8.
void check_nbits(int nbits);

}  // namespace rowmax::core
