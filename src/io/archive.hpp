// Files that hold several named arrays: .npz and safetensors behind one face.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/array.hpp"

namespace rowmax::io {

class Archive {
  public:
    virtual ~Archive() = default;
    [[nodiscard]] virtual const std::vector<ArrayInfo>& arrays() const = 0;
    /// Throws Error(data) naming the file when there is no such array; stored arrays are views of the mapping.
    [[nodiscard]] virtual Array array(std::string_view name, std::optional<DType> dtype = {}) const = 0;
    /// A 1-D array of text or integers as strings.
    [[nodiscard]] virtual std::vector<std::string> strings(std::string_view name) const = 0;

    [[nodiscard]] const ArrayInfo* find(std::string_view name) const;
};

/// Numpy's .npz. Members are named without ".npy". Stored ones are mapped in place, deflated ones inflated; these may
/// not be larger than `max_inflated_bytes` each. Asking for an array reads it once, to check its CRC.
std::unique_ptr<Archive> open_npz(const std::filesystem::path& path, std::uint64_t max_inflated_bytes);

/// Format: https://github.com/huggingface/safetensors#format
std::unique_ptr<Archive> open_safetensors(const std::filesystem::path& path);

}  // namespace rowmax::io
