// Formats are told by their first bytes, never by the name of the file.
#include <string_view>

#include "io/checked.hpp"
#include "io/corpus_format.hpp"
#include "io/file_error.hpp"
#include "io/mapped_file.hpp"
#include "io/token_source.hpp"

namespace rowmax::io {

namespace {

// A safetensors file starts with the length of its header, 8 bytes, of which the upper four are zero, and then the
// JSON's brace. No text file has zeros there.
bool looks_like_safetensors(std::span<const std::byte> bytes) {
    return bytes.size() > 8 && load_at<std::uint32_t>(bytes, 4) == 0 && bytes[8] == std::byte{'{'};
}

}  // namespace

std::string detect_format(const std::filesystem::path& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) return "folder";
    const auto file = MappedFile::open(path);
    const auto bytes = file->bytes();
    const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 16));
    if (head.starts_with(corpus_magic)) return "corpus";
    if (head.starts_with("\x93NUMPY")) return "npy";
    if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06")) return "npz";
    if (looks_like_safetensors(bytes)) return "safetensors";
    if (bytes.empty()) bad_data(path.string(), "the file is empty");
    bad_data(path.string(), "format: it starts with '{}', which is no .npy, .npz, safetensors or corpus file",
             printable(head));
}

}  // namespace rowmax::io
