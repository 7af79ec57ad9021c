// rowmax.h: each function converts, calls the C++ interface, and reports.
#include "rowmax/rowmax.h"

#include <fmt/format.h>

#include <span>
#include <vector>

#include "capi/convert.hpp"
#include "capi/status.hpp"
#include "capi/workspace.hpp"
#include "rowmax/maxsim.hpp"

using rowmax::Error;
using rowmax::ErrorCode;
using rowmax::TensorView;
using rowmax::capi::c_view;
using rowmax::capi::check_workspace;
using rowmax::capi::guarded;
using rowmax::capi::request_of;
using rowmax::capi::require;
using rowmax::capi::view_of;

namespace {

void check_cross(const rowmax::ScoreRequest& request) {
    if (request.pairing == rowmax::Pairing::cross && !request.pair_q.given() && !request.pair_d.given()) return;
    throw Error(ErrorCode::invalid_value, fmt::format("pairing: top-k needs ROWMAX_CROSS without pair lists, got {}",
                                                      static_cast<int>(request.pairing)));
}

// Owns the strings that rowmax_kernel_info hands out.
thread_local std::vector<rowmax::KernelInfo> kernel_rows;

rowmax_kernel c_kernel(const rowmax::KernelInfo& row) {
    return {row.name.c_str(),    row.backend.c_str(), row.description.c_str(),
            row.refusal.c_str(), row.available,       row.chosen};
}

}  // namespace

rowmax_view rowmax_input(const void* data, int32_t dtype, int32_t ndim, const int64_t* shape) {
    return rowmax_output(const_cast<void*>(data), dtype, ndim, shape);
}

rowmax_view rowmax_output(void* data, int32_t dtype, int32_t ndim, const int64_t* shape) {
    const bool valid = ndim >= 0 && ndim <= ROWMAX_MAX_NDIM && (shape != nullptr || ndim == 0);
    rowmax_view view = c_view(data, dtype, std::span(shape, valid ? static_cast<std::size_t>(ndim) : 0));
    if (!valid) view.ndim = -1;
    return view;
}

size_t rowmax_view_bytes(const rowmax_view* view) {
    std::size_t bytes = 0;
    guarded([&] {
        const TensorView checked = view_of(view, "view");
        const auto count = static_cast<std::size_t>(checked.numel());
        if (__builtin_mul_overflow(count, size_of(checked.dtype), &bytes)) bytes = 0;
    });
    return bytes;
}

rowmax_status rowmax_result_shape(const rowmax_request* request, rowmax_outputs* outputs) {
    return guarded([&] {
        require(outputs, "outputs");
        const rowmax::ResultShape shape = rowmax::result_shape(request_of(request));
        const std::int32_t dtype = shape.dtype == rowmax::DType::f64 ? ROWMAX_FLOAT64 : ROWMAX_FLOAT32;
        outputs->scores = c_view(nullptr, dtype, shape.scores);
        outputs->index = c_view(nullptr, ROWMAX_INT32, shape.tokens);
        outputs->similarity = c_view(nullptr, dtype, shape.tokens);
    });
}

rowmax_status rowmax_workspace_size(const rowmax_request* request, size_t* bytes) {
    return guarded([&] {
        require(bytes, "bytes");
        static_cast<void>(rowmax::result_shape(request_of(request)));
        *bytes = 0;
    });
}

rowmax_status rowmax_score(const rowmax_request* request, const rowmax_outputs* outputs, void* workspace,
                           size_t workspace_bytes) {
    return guarded([&] {
        check_workspace(workspace, workspace_bytes);
        rowmax::score(request_of(request), rowmax::capi::outputs_of(outputs));
    });
}

rowmax_status rowmax_score_backward(const rowmax_request* request, const rowmax_view* index,
                                    const rowmax_view* grad_scores, const rowmax_view* grad_q,
                                    const rowmax_view* grad_d, void* workspace, size_t workspace_bytes) {
    return guarded([&] {
        check_workspace(workspace, workspace_bytes);
        rowmax::score_backward(request_of(request), view_of(index, "index"), view_of(grad_scores, "grad_scores"),
                               view_of(grad_q, "grad_q"), view_of(grad_d, "grad_d"));
    });
}

rowmax_status rowmax_topk(const rowmax_request* request, int64_t k, int64_t chunk, const rowmax_view* scores,
                          const rowmax_view* index, void* workspace, size_t workspace_bytes) {
    return guarded([&] {
        check_workspace(workspace, workspace_bytes);
        const rowmax::ScoreRequest cpp = request_of(request);
        check_cross(cpp);
        rowmax::topk(cpp.q, cpp.d, k, chunk, cpp.options, view_of(scores, "scores"), view_of(index, "index"));
    });
}

rowmax_status rowmax_inverse_grid(const rowmax_view* index, int64_t num_destinations, const rowmax_view* row_ptr,
                                  const rowmax_view* source, int32_t validate) {
    return guarded([&] {
        rowmax::inverse_grid(view_of(index, "index"), num_destinations, view_of(row_ptr, "row_ptr"),
                             view_of(source, "source"), validate != 0);
    });
}

size_t rowmax_kernel_count(void) {
    std::size_t count = 0;
    guarded([&] { count = rowmax::kernels().size(); });
    return count;
}

rowmax_status rowmax_kernel_info(size_t i, const rowmax_request* request, rowmax_kernel* kernel) {
    return guarded([&] {
        require(kernel, "kernel");
        kernel_rows = request == nullptr ? rowmax::kernels() : rowmax::explain_dispatch(request_of(request));
        if (i >= kernel_rows.size()) {
            throw Error(ErrorCode::invalid_value,
                        fmt::format("i: there are {} kernels, got {}", kernel_rows.size(), i));
        }
        *kernel = c_kernel(kernel_rows[i]);
    });
}

const char* rowmax_version(void) {
    return rowmax::version().data();
}
