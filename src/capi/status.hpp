// The border that no exception crosses: exceptions become a status and a message.
#pragma once

#include <utility>

#include "rowmax/rowmax.h"

namespace rowmax::capi {

/// Turns the exception being handled into a status, and keeps its message for rowmax_last_error().
rowmax_status report_exception() noexcept;

template <class Body>
rowmax_status guarded(Body&& body) noexcept {
    try {
        std::forward<Body>(body)();
        return ROWMAX_OK;
    } catch (...) {
        return report_exception();
    }
}

}  // namespace rowmax::capi
