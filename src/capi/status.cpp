#include "capi/status.hpp"

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "rowmax/error.hpp"

namespace rowmax::capi {

namespace {

thread_local std::string last_error;

rowmax_status status_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_value: return ROWMAX_INVALID_VALUE;
        case ErrorCode::invalid_type: return ROWMAX_INVALID_TYPE;
        case ErrorCode::not_implemented: return ROWMAX_NOT_IMPLEMENTED;
        case ErrorCode::out_of_memory: return ROWMAX_OUT_OF_MEMORY;
        case ErrorCode::device: return ROWMAX_DEVICE;
        case ErrorCode::data: return ROWMAX_DATA;
        case ErrorCode::io: return ROWMAX_IO;
        case ErrorCode::internal: break;
    }
    return ROWMAX_INTERNAL;
}

rowmax_status fail(rowmax_status status, const char* message) noexcept {
    try {
        last_error = message;
    } catch (const std::bad_alloc&) {
        last_error.clear();  // the status says enough
    }
    return status;
}

}  // namespace

rowmax_status report_exception() noexcept {
    try {
        throw;
    } catch (const Error& error) {
        return fail(status_of(error.code()), error.what());
    } catch (const std::bad_alloc&) {
        return fail(ROWMAX_OUT_OF_MEMORY, "out of memory");
    } catch (const std::length_error&) {  // more than any container holds
        return fail(ROWMAX_OUT_OF_MEMORY, "out of memory: a buffer would exceed the address space");
    } catch (const std::exception& error) {
        return fail(ROWMAX_INTERNAL, error.what());
    } catch (...) {
        return fail(ROWMAX_INTERNAL, "an exception of unknown type");
    }
}

}  // namespace rowmax::capi

const char* rowmax_last_error(void) {
    return rowmax::capi::last_error.c_str();
}
