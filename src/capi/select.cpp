// select.h: each function converts, calls the C++ interface, and reports.
#include "rowmax/select.h"

#include <fmt/format.h>

#include <string_view>

#include "capi/convert.hpp"
#include "capi/status.hpp"
#include "capi/workspace.hpp"
#include "rowmax/nearest.hpp"
#include "rowmax/scatter.hpp"

using rowmax::Device;
using rowmax::TensorView;
using rowmax::capi::guarded;
using rowmax::capi::known_form;
using rowmax::capi::optional_output;
using rowmax::capi::require;
using rowmax::capi::view_of;
using rowmax::capi::WantedBytes;
using rowmax::capi::Workspace;

namespace {

/// One of an enumeration's values, which count from 0.
int one_of(std::int32_t value, int count, std::string_view name, std::string_view type) {
    if (value >= 0 && value < count) return value;
    throw rowmax::Error(rowmax::ErrorCode::invalid_value,
                        fmt::format("{}: must be one of {}, got {}", name, type, value));
}

Device device_of(const rowmax_device& device) {
    Device out;
    if (one_of(device.kind, 2, "device.kind", "rowmax_device_kind") == ROWMAX_CPU) return out;
    out.kind = Device::Kind::cuda;
    out.ordinal = device.ordinal;
    out.stream = device.stream;
    return out;
}

bool validates(std::int32_t validate, const rowmax_device& device) {
    return validate == ROWMAX_VALIDATE_BY_DEVICE ? device.kind == ROWMAX_CPU : validate != 0;
}

/// The call `run`, a function of a Device, with the caller's memory.
template <class Run>
void with_workspace(const Device& device, void* memory, std::size_t bytes, Run run) {
    Workspace workspace(memory, bytes);
    run(workspace.on(device));
}

template <class Run>
void ask_for_bytes(const Device& device, std::size_t* bytes, Run run) {
    require(bytes, "bytes");
    *bytes = WantedBytes::of(device, run);
}

rowmax::PointRequest points_of(const rowmax_point_request* request) {
    require(request, "request");
    constexpr std::size_t first_size = offsetof(rowmax_point_request, threads) + sizeof(int32_t);
    const rowmax_point_request known = known_form(*request, first_size, "point_request");
    rowmax::PointRequest out;
    out.p = {view_of(known.p.points, "P"), view_of(known.p.mask, "p_mask"),
             view_of(known.p.cu_seqlens, "cu_seqlens_p")};
    out.r = {view_of(known.r.points, "R"), view_of(known.r.mask, "r_mask"),
             view_of(known.r.cu_seqlens, "cu_seqlens_r")};
    out.options.metric = static_cast<rowmax::Metric>(one_of(known.metric, 2, "metric", "rowmax_metric"));
    out.options.search = static_cast<rowmax::PointSearch>(one_of(known.search, 3, "search", "rowmax_point_search"));
    out.options.device = device_of(known.device);
    out.options.validate = validates(known.validate, known.device);
    out.options.threads = known.threads;
    return out;
}

rowmax::Reduction reduction_of(std::int32_t reduction) {
    return static_cast<rowmax::Reduction>(one_of(reduction, 2, "reduction", "rowmax_reduction"));
}

struct ChamferViews {
    rowmax::ChamferViews values;
    rowmax::ChamferIndex index;
};

ChamferViews chamfer_views(const rowmax_chamfer_views* views, std::string_view name) {
    require(views, name);
    return {{optional_output(views->value, "value"), optional_output(views->distance_p, "distance_p"),
             optional_output(views->distance_r, "distance_r")},
            {optional_output(views->index_p, "index_p"), optional_output(views->index_r, "index_r")}};
}

struct IndexCall {
    TensorView index;
    std::int64_t destinations = 0;
    rowmax::InverseGrid grid;
    bool validate = true;
    int threads = 0;
    bool deterministic = true;
    Device device;
};

IndexCall index_call_of(const rowmax_index_request* request) {
    require(request, "request");
    constexpr std::size_t first_size = offsetof(rowmax_index_request, any_order) + sizeof(int32_t);
    const rowmax_index_request known = known_form(*request, first_size, "index_request");
    IndexCall call;
    call.index = view_of(known.index, "index");
    call.destinations = known.num_destinations;
    call.grid = {view_of(known.row_ptr, "grid row_ptr"), view_of(known.source, "grid source")};
    call.device = device_of(known.device);
    call.validate = validates(known.validate, known.device);
    call.threads = known.threads;
    call.deterministic = known.any_order == 0;
    return call;
}

// The calls, but for their scratch memory: functions of a Device.

auto nearest_call(const rowmax_point_request* request, std::int64_t k, const rowmax_view* distance,
                  const rowmax_view* index) {
    return [points = points_of(request), k, to = view_of(distance, "distance"),
            where = view_of(index, "index")](const Device& device) mutable {
        points.options.device = device;
        rowmax::nearest(points, k, to, where);
    };
}

auto nearest_backward_call(const rowmax_point_request* request, std::int64_t k, const rowmax_view* index,
                           const rowmax_view* grad_distance, const rowmax_view* grad_p, const rowmax_view* grad_r) {
    return [points = points_of(request), k, where = view_of(index, "index"),
            grad = view_of(grad_distance, "grad_distance"), for_p = view_of(grad_p, "grad_p"),
            for_r = view_of(grad_r, "grad_r")](const Device& device) mutable {
        points.options.device = device;
        rowmax::nearest_backward(points, k, where, grad, for_p, for_r);
    };
}

auto chamfer_call(const rowmax_point_request* request, std::int32_t reduction, std::int32_t one_sided,
                  const rowmax_chamfer_views* results) {
    return [points = points_of(request), how = reduction_of(reduction), one_sided = one_sided != 0,
            to = chamfer_views(results, "results")](const Device& device) mutable {
        points.options.device = device;
        rowmax::chamfer(points, how, one_sided, to.values, to.index);
    };
}

auto chamfer_backward_call(const rowmax_point_request* request, std::int32_t reduction,
                           const rowmax_chamfer_views* given, const rowmax_view* grad_p, const rowmax_view* grad_r) {
    return [points = points_of(request), how = reduction_of(reduction), from = chamfer_views(given, "given"),
            for_p = view_of(grad_p, "grad_p"), for_r = view_of(grad_r, "grad_r")](const Device& device) mutable {
        points.options.device = device;
        rowmax::chamfer_backward(points, how, from.index, from.values, for_p, for_r);
    };
}

auto invert_call(const rowmax_index_request* request, const rowmax_view* row_ptr, const rowmax_view* source) {
    return [call = index_call_of(request), starts = view_of(row_ptr, "row_ptr"),
            sources = view_of(source, "source")](const Device& device) {
        rowmax::inverse_grid(call.index, call.destinations, starts, sources, call.validate, device);
    };
}

auto scatter_call(const rowmax_index_request* request, const rowmax_view* values, const rowmax_view* out) {
    return [call = index_call_of(request), rows = view_of(values, "values"),
            to = view_of(out, "out")](const Device& device) {
        rowmax::scatter_sum(call.index, rows, call.destinations, to, call.grid, call.validate, call.threads, device,
                            call.deterministic);
    };
}

Device device_of(const rowmax_point_request* request) {
    require(request, "request");
    return device_of(request->device);
}
Device device_of(const rowmax_index_request* request) {
    require(request, "request");
    return device_of(request->device);
}

}  // namespace

rowmax_status rowmax_nearest(const rowmax_point_request* request, int64_t k, const rowmax_view* distance,
                             const rowmax_view* index, void* workspace, size_t workspace_bytes) {
    return guarded([&] {
        with_workspace(device_of(request), workspace, workspace_bytes, nearest_call(request, k, distance, index));
    });
}

rowmax_status rowmax_nearest_workspace(const rowmax_point_request* request, int64_t k, const rowmax_view* distance,
                                       const rowmax_view* index, size_t* bytes) {
    return guarded([&] { ask_for_bytes(device_of(request), bytes, nearest_call(request, k, distance, index)); });
}

rowmax_status rowmax_nearest_backward(const rowmax_point_request* request, int64_t k, const rowmax_view* index,
                                      const rowmax_view* grad_distance, const rowmax_view* grad_p,
                                      const rowmax_view* grad_r, void* workspace, size_t workspace_bytes) {
    return guarded([&] {
        with_workspace(device_of(request), workspace, workspace_bytes,
                       nearest_backward_call(request, k, index, grad_distance, grad_p, grad_r));
    });
}

rowmax_status rowmax_nearest_backward_workspace(const rowmax_point_request* request, int64_t k,
                                                const rowmax_view* index, const rowmax_view* grad_distance,
                                                const rowmax_view* grad_p, const rowmax_view* grad_r, size_t* bytes) {
    return guarded([&] {
        ask_for_bytes(device_of(request), bytes,
                      nearest_backward_call(request, k, index, grad_distance, grad_p, grad_r));
    });
}

rowmax_status rowmax_chamfer(const rowmax_point_request* request, int32_t reduction, int32_t one_sided,
                             const rowmax_chamfer_views* results, void* workspace, size_t workspace_bytes) {
    return guarded([&] {
        with_workspace(device_of(request), workspace, workspace_bytes,
                       chamfer_call(request, reduction, one_sided, results));
    });
}

rowmax_status rowmax_chamfer_workspace(const rowmax_point_request* request, int32_t reduction, int32_t one_sided,
                                       const rowmax_chamfer_views* results, size_t* bytes) {
    return guarded(
        [&] { ask_for_bytes(device_of(request), bytes, chamfer_call(request, reduction, one_sided, results)); });
}

rowmax_status rowmax_chamfer_backward(const rowmax_point_request* request, int32_t reduction,
                                      const rowmax_chamfer_views* given, const rowmax_view* grad_p,
                                      const rowmax_view* grad_r, void* workspace, size_t workspace_bytes) {
    return guarded([&] {
        with_workspace(device_of(request), workspace, workspace_bytes,
                       chamfer_backward_call(request, reduction, given, grad_p, grad_r));
    });
}

rowmax_status rowmax_chamfer_backward_workspace(const rowmax_point_request* request, int32_t reduction,
                                                const rowmax_chamfer_views* given, const rowmax_view* grad_p,
                                                const rowmax_view* grad_r, size_t* bytes) {
    return guarded([&] {
        ask_for_bytes(device_of(request), bytes, chamfer_backward_call(request, reduction, given, grad_p, grad_r));
    });
}

rowmax_status rowmax_invert(const rowmax_index_request* request, const rowmax_view* row_ptr, const rowmax_view* source,
                            void* workspace, size_t workspace_bytes) {
    return guarded(
        [&] { with_workspace(device_of(request), workspace, workspace_bytes, invert_call(request, row_ptr, source)); });
}

rowmax_status rowmax_invert_workspace(const rowmax_index_request* request, const rowmax_view* row_ptr,
                                      const rowmax_view* source, size_t* bytes) {
    return guarded([&] { ask_for_bytes(device_of(request), bytes, invert_call(request, row_ptr, source)); });
}

rowmax_status rowmax_scatter_sum(const rowmax_index_request* request, const rowmax_view* values, const rowmax_view* out,
                                 void* workspace, size_t workspace_bytes) {
    return guarded(
        [&] { with_workspace(device_of(request), workspace, workspace_bytes, scatter_call(request, values, out)); });
}

rowmax_status rowmax_scatter_sum_workspace(const rowmax_index_request* request, const rowmax_view* values,
                                           const rowmax_view* out, size_t* bytes) {
    return guarded([&] { ask_for_bytes(device_of(request), bytes, scatter_call(request, values, out)); });
}
