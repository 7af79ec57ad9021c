// torch.save's files, as far as they hold tensors: a ZIP of a pickle, which is interpreted without running anything,
// and of storages, read in place. Pickle: https://github.com/python/cpython/blob/main/Lib/pickletools.py
#pragma once

#include <filesystem>
#include <vector>

#include "io/array.hpp"

namespace rowmax::io {

/// The contiguous tensors of a file that holds one, or a tuple or list of some, in order. Throws Error(data) naming the
/// file for anything else.
std::vector<Array> read_torch(const std::filesystem::path& path);

}  // namespace rowmax::io
