// Items that are called by number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rowmax::cli {

/// N of a name "#N", when it is one of `count` items.
std::optional<std::int64_t> item_number(const std::string& name, std::int64_t count);

}  // namespace rowmax::cli
