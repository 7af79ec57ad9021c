#include "cli/exit_code.hpp"

namespace rowmax::cli {

ExitCode exit_code(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_value:
        case ErrorCode::invalid_type:
        case ErrorCode::data:
        case ErrorCode::io: return exit_data;
        case ErrorCode::not_implemented:
        case ErrorCode::out_of_memory:
        case ErrorCode::device: return exit_device;
        case ErrorCode::internal: break;
    }
    return exit_internal;
}

}  // namespace rowmax::cli
