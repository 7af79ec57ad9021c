#include <string>

#include "io/file_error.hpp"
#include "io/npy.hpp"
#include "io/npy_types.hpp"

namespace rowmax::io {

namespace {

constexpr std::size_t alignment = 64;  // as numpy pads, so that the data can be used in place

std::string shape_tuple(std::span<const std::int64_t> shape) {
    return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

void write_rows(OutputFile& out, const TensorView& view, int dimension, const std::byte* from) {
    const auto item = size_of(view.dtype);
    const bool innermost = dimension + 1 >= view.ndim;
    if (view.ndim == 0) return out.write(std::span(from, item));
    const auto n = static_cast<std::size_t>(view.shape[dimension]);
    if (innermost && view.stride[dimension] == 1) return out.write(std::span(from, n * item));
    for (std::size_t i = 0; i < n; ++i) {
        if (innermost) {
            out.write(std::span(from, item));
        } else {
            write_rows(out, view, dimension + 1, from);
        }
        from += view.stride[dimension] * static_cast<std::int64_t>(item);
    }
}

}  // namespace

void write_npy_header(OutputFile& out, DType dtype, std::span<const std::int64_t> shape) {
    write_npy_header(out, fmt::format("'{}'", npy_descr(dtype)), shape);
}

void write_npy_header(OutputFile& out, std::string_view descr, std::span<const std::int64_t> shape) {
    std::string text = fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': {}, }}", descr, shape_tuple(shape));
    constexpr std::size_t preamble = 10;  // magic, version, length
    const std::size_t total = (preamble + text.size() + 1 + alignment - 1) / alignment * alignment;
    text.append(total - preamble - text.size() - 1, ' ');
    text += '\n';
    const auto length = static_cast<std::uint16_t>(text.size());
    out.write(std::string_view("\x93NUMPY\x01\x00", 8));
    out.write(std::as_bytes(std::span(&length, 1)));
    out.write(text);
}

void write_npy(OutputFile& out, const TensorView& view) {
    write_npy_header(out, view.dtype, std::span(view.shape.data(), static_cast<std::size_t>(view.ndim)));
    if (view.numel() > 0) write_rows(out, view, 0, static_cast<const std::byte*>(view.data));
}

}  // namespace rowmax::io
