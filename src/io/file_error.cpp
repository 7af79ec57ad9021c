#include "io/file_error.hpp"

#include <system_error>

namespace rowmax::io {

void system_failure(const std::filesystem::path& path, std::string_view action, int error) {
    throw Error(ErrorCode::io,
                fmt::format("{}: cannot {}: {}", path.string(), action, std::generic_category().message(error)));
}

std::string printable(std::string_view text) {
    constexpr std::size_t most = 80;
    std::string out;
    for (const char c : text.substr(0, most)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte >= 0x7f) {
            out += fmt::format("\\x{:02x}", byte);
        } else {
            out += c;
        }
    }
    return text.size() > most ? out + "..." : out;
}

}  // namespace rowmax::io
