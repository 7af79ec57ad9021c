#include "cli/item_number.hpp"

#include <charconv>

namespace rowmax::cli {

std::optional<std::int64_t> item_number(const std::string& name, std::int64_t count) {
    std::int64_t number = -1;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + 1, end, number);
    if (error != std::errc() || stop != end || number < 0 || number >= count) return std::nullopt;
    return number;
}

}  // namespace rowmax::cli
