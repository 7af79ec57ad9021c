// What a command writes must not be what it reads, nor what it writes elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rowmax::cli {

/// A file that a command will write, and the option that names it. Empty and "-" are standard output.
struct OutputPath {
    std::string_view option;
    std::string path;
};

/// Throws UsageError when an output would replace an input, a document of an input folder, or another output; empty
/// inputs are none. Devices and pipes may be written twice.
void check_outputs(const std::vector<OutputPath>& outputs, const std::vector<std::string>& inputs);

}  // namespace rowmax::cli
