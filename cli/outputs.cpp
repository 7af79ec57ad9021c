#include "cli/outputs.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "cli/exit_code.hpp"

namespace rowmax::cli {

namespace {

namespace fs = std::filesystem;

bool is_standard_output(const std::string& path) {
    return path.empty() || path == "-";
}

// Also of files that are not there yet: they are the same where their folders and names are.
bool same_file(const fs::path& a, const fs::path& b) {
    std::error_code absent;
    if (fs::exists(a, absent) && fs::exists(b, absent)) return fs::equivalent(a, b, absent);
    const fs::path real_a = fs::weakly_canonical(fs::absolute(a, absent), absent);
    return !real_a.empty() && real_a == fs::weakly_canonical(fs::absolute(b, absent), absent);
}

bool replaces(const fs::path& output, const fs::path& input) {
    std::error_code absent;
    if (!fs::is_directory(input, absent)) return same_file(output, input);
    const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
    return output.extension() == ".npy" && same_file(folder, input);
}

bool collide(const std::string& a, const std::string& b) {
    if (is_standard_output(a) || is_standard_output(b)) return is_standard_output(a) && is_standard_output(b);
    std::error_code absent;
    const bool device = fs::exists(a, absent) && !fs::is_regular_file(a, absent);
    return !device && same_file(a, b);
}

}  // namespace

void check_outputs(const std::vector<OutputPath>& outputs, const std::vector<std::string>& inputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const OutputPath& output = outputs[i];
        for (const std::string& input : inputs) {
            if (input.empty() || is_standard_output(output.path) || !replaces(output.path, input)) continue;
            throw UsageError(fmt::format("{} {} is also an input", output.option, output.path));
        }
        for (std::size_t other = 0; other < i; ++other) {
            if (!collide(output.path, outputs[other].path)) continue;
            throw UsageError(fmt::format("{} and {} would both write {}", outputs[other].option, output.option,
                                         is_standard_output(output.path) ? "standard output" : output.path));
        }
    }
}

}  // namespace rowmax::cli
