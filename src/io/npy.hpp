// NumPy's .npy, versions 1 to 3: reading in place, and writing.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/array.hpp"
#include "io/output_file.hpp"

namespace rowmax::io {

/// A checked header: the data that it announces is what the file holds.
struct NpyHeader {
    std::string descr;
    bool fortran_order = false;
    std::vector<std::int64_t> shape;
    std::uint64_t item_size = 0;  ///< 0: a type without a fixed size, such as pickled objects
    std::uint64_t data_offset = 0;
    std::uint64_t data_bytes = 0;
};

/// `where` names the file (and member) in errors. `head` is the start of a file of `file_size` bytes: all of it, or at
/// least npy_head_bytes.
NpyHeader parse_npy_header(std::span<const std::byte> head, std::uint64_t file_size, const std::string& where);
inline constexpr std::size_t npy_head_bytes = (std::size_t{1} << 16) + 12;
NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& where);

/// The array in place. `dtype` overrides the type of 2-byte elements that are stored as integers or as void (bfloat16,
/// float16); without it "<V2", which is how ml_dtypes' bfloat16 is saved, reads as bfloat16.
Array npy_array(std::span<const std::byte> file, std::shared_ptr<const void> owner, const std::string& where,
                std::optional<DType> dtype = {});
Array read_npy(const std::filesystem::path& path, std::optional<DType> dtype = {});

/// A 1-D array of text ("U", "S") or integers as strings.
std::vector<std::string> npy_strings(std::span<const std::byte> file, const std::string& where);

/// The header alone, for data written piece by piece after it.
void write_npy_header(OutputFile& out, DType dtype, std::span<const std::int64_t> shape);
/// `descr` as Python spells it: "'<f4'", or a list of fields.
void write_npy_header(OutputFile& out, std::string_view descr, std::span<const std::int64_t> shape);
/// A whole view, of any strides. bfloat16 is written as numpy writes ml_dtypes' ("<V2").
void write_npy(OutputFile& out, const TensorView& view);

}  // namespace rowmax::io
