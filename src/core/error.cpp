#include "rowmax/error.hpp"

namespace rowmax {

Error::Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

Error::~Error() = default;

}  // namespace rowmax
