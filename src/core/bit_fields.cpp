#include "core/bit_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/parallel.hpp"
#include "core/token_rows.hpp"

namespace rowmax {

namespace {

void check_apart(const TensorView& out, std::string_view out_name, const TensorView& in, std::string_view in_name) {
    const core::NamedView written[] = {{out_name, out}};
    const core::NamedView read[] = {{in_name, in}};
    core::check_disjoint(written, read);
}

}  // namespace

void core::check_nbits(int nbits) {
    if (nbits == 1 || nbits == 2 || nbits == 4 || nbits == 8) return;
    throw Error(ErrorCode::invalid_value, fmt::format("nbits must be 1, 2, 4 or 8, got {}", nbits));
}

void unpack_residual(const TensorView& bytes, int nbits, BitOrder order, const TensorView& values) {
    core::check_nbits(nbits);
    core::check_input(bytes, "bytes");
    if (bytes.dtype != DType::u8) {
        throw Error(ErrorCode::invalid_type, fmt::format("bytes must be uint8, got {}", name_of(bytes.dtype)));
    }
    if (bytes.ndim < 1) {
        throw Error(ErrorCode::invalid_value, fmt::format("bytes must be [..., n], got {}", bytes.shape_text()));
    }
    std::array<std::int64_t, TensorView::max_ndim> shape = bytes.shape;
    const auto rank = static_cast<std::size_t>(bytes.ndim);
    shape[rank - 1] = core::checked_product(shape[rank - 1], 8 / nbits, "bytes x values in a byte");
    auto* to = static_cast<std::uint8_t*>(core::checked_output(values, DType::u8, std::span(shape).first(rank), "out"));
    check_apart(values, "out", bytes, "bytes");
    core::Copies copies;
    const TensorView view = core::readable(copies, bytes);
    const core::FieldTable table = core::field_table(nbits, order);
    // As rows of one more dimension, which every shape is.
    const core::TokenRows all(copies, view.ndim > 1 ? view : TensorView(view.data, DType::u8, {1, view.shape[0]}));
    for (std::int64_t r = 0; r < all.count(); ++r) {
        const std::byte* row = all.at(r);
        for (std::int64_t i = 0; i < all.dim(); ++i, to += table.per_byte) {
            std::copy_n(table.of(static_cast<std::uint8_t>(row[i])), table.per_byte, to);
        }
    }
}

}  // namespace rowmax
