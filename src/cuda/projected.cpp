#include "cuda/projected.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cuda/document_tensor.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/projected_arguments.hpp"
#include "cuda/kernels/projected_kernels.hpp"
#include "cuda/tuning.hpp"

namespace rowmax::cuda {

namespace {

constexpr int joining_threads = 128;

constexpr std::int64_t up_to(std::int64_t size, std::int64_t unit) {
    return (size + unit - 1) / unit * unit;
}

const ProjectedKernels& kernels_of(TokenType type) {
    static const ProjectedKernels f16 = projected_kernels<TokenType::f16>();
    static const ProjectedKernels bf16 = projected_kernels<TokenType::bf16>();
    return type == TokenType::f16 ? f16 : bf16;
}

/// The documents' rows as the copy engine reads them: hidden states.
core::Params hidden_of(const core::Params& params) {
    core::Params hidden = params;
    hidden.dim = core::projection_of(params)->hidden;
    return hidden;
}

bool weight_by_16(const core::Projection& projection) {
    return reinterpret_cast<std::uintptr_t>(projection.weight) % 16 == 0 && projection.weight_stride % 16 == 0 &&
           projection.weight_stride >= 0;
}

int tiles_of_document(const core::Params& params) {
    return static_cast<int>((params.d.length + projected_tile_tokens - 1) / projected_tile_tokens);
}

TensorShape weight_tensor(const core::Params& params) {
    const core::Projection& projection = *core::projection_of(params);
    TensorShape shape;
    shape.data = projection.weight;
    shape.dtype = params.dtype;
    shape.size[0] = projection.hidden;
    shape.size[1] = params.dim;
    const std::int64_t row = up_to(projection.hidden * static_cast<std::int64_t>(size_of(params.dtype)), 16);
    const std::int64_t step = params.dim == 1 ? row : projection.weight_stride;
    for (std::int64_t& stride : shape.stride) stride = step;
    return shape;
}

std::int64_t query_rows(const core::Params& params) {
    return up_to(padded_rows(params), projected_columns);
}

std::size_t part_values(const core::Params& params) {
    return static_cast<std::size_t>(params.pairs.count * tiles_of_document(params) * params.q.max_length);
}

/// As many slots as fit beside the query rows.
int stages_for(const ProjectedKernels& kernels, const core::Params& params, std::int64_t rows) {
    const std::int64_t left = device_info(params.place.ordinal).shared_bytes - 1024 - kernels.control_bytes -
                              rows * std::int64_t{projected_row_bytes};
    return static_cast<int>(std::min<std::int64_t>(left / projected_slot_bytes, projected_stages_most));
}

ProjectedArguments arguments_of(const core::Params& params, const core::Outputs& outputs, std::int64_t rows) {
    const core::Projection& projection = *core::projection_of(params);
    ProjectedArguments arguments;
    const TensorShape hidden = document_tensor(hidden_of(params));
    arguments.whole = tensor_map(hidden, projected_whole_rows);
    arguments.half = tensor_map(hidden, projected_box_rows);
    arguments.weight = tensor_map(weight_tensor(params), projected_whole_rows);
    arguments.call.params = params;
    arguments.call.outputs = outputs;
    arguments.call.q_by_16 = by_16(params.q);
    arguments.call.plan = make_plan(params, static_cast<int>(std::max<std::int64_t>(rows, projected_columns)),
                                    device_info(params.place.ordinal).processors);
    arguments.call.plan.parts = tiles_of_document(params);
    arguments.bias = projection.bias;
    arguments.normalize = projection.normalize;
    arguments.tiles = params.d.count * tiles_of_document(params);
    arguments.steps = (arguments.tiles + projected_groups - 1) / projected_groups;
    arguments.chunks = static_cast<int>((projection.hidden + chunk_elements - 1) / chunk_elements);
    arguments.query_rows = static_cast<int>(rows);
    return arguments;
}

void run(const ProjectedKernels& kernels, const void* kernel, ProjectedArguments& arguments) {
    const core::Params& params = arguments.call.params;
    arguments.call.stages = stages_for(kernels, params, arguments.query_rows);
    LaunchShape shape;
    shape.grid = std::min<std::int64_t>(device_info(params.place.ordinal).processors, arguments.steps);
    shape.threads = kernels.threads;
    shape.shared_bytes = 1024 + arguments.call.stages * projected_slot_bytes +
                         arguments.query_rows * projected_row_bytes + kernels.control_bytes;
    launch(kernel, shape, params.place, &arguments);
}

void join(const Arguments& call) {
    const std::int64_t threads = call.params.pairs.count * 32;
    const LaunchShape shape{(threads + joining_threads - 1) / joining_threads, joining_threads, 0};
    launch(second_pass_kernels.join_parts, shape, call.params.place, &call);
}

}  // namespace

std::string refuse_projected(TokenType type, const core::Params& params) {
    const DType dtype = type == TokenType::f16 ? DType::f16 : DType::bf16;
    if (params.dtype != dtype) return std::string(name_of(params.dtype));
    const core::Projection* projection = core::projection_of(params);
    if (projection == nullptr) return "documents that are no hidden states";
    if (params.pairs.kind != core::PairKind::cross || params.d.kind != core::SegmentKind::strided) {
        return "documents that are not dense, the same for every query";
    }
    if (params.dim > projected_dim_most) return fmt::format("d = {}, at most {}", params.dim, projected_dim_most);
    if (query_rows(params) > projected_rows_most)
        return fmt::format("{} query rows, at most {}", query_rows(params), projected_rows_most);
    if (params.d.length > 0 && (!copy_engine_reads(hidden_of(params)) || !weight_by_16(*projection))) {
        return "rows of H or W that do not start at multiples of 16 bytes";
    }
    const DeviceInfo& device = device_info(params.place.ordinal);
    if (device.capability == 90) return {};
    return fmt::format("compute capability 9.0 (device {} has {}.{})", params.place.ordinal, device.capability / 10,
                       device.capability % 10);
}

std::size_t projected_workspace(const core::Params& params, const core::Outputs&) {
    return part_values(params) * (sizeof(float) + sizeof(std::int32_t));
}

void score_projected(TokenType type, const core::Params& params, const core::Outputs& outputs) {
    const CurrentDevice current(params.place.ordinal);
    wake_device(params.place.ordinal);
    const Scratch scratch(params.place.workspace, projected_workspace(params, outputs), params.place.stream);
    if (params.d.length == 0) {
        Arguments call;  // documents without parts
        call.params = params;
        call.outputs = outputs;
        call.plan.parts = 0;
        return join(call);
    }
    ProjectedArguments arguments = arguments_of(params, outputs, query_rows(params));
    arguments.call.plan.part_maxima = reinterpret_cast<float*>(scratch.data());
    arguments.call.plan.part_index = reinterpret_cast<std::int32_t*>(scratch.data()) + part_values(params);
    const ProjectedKernels& kernels = kernels_of(type);
    run(kernels, kernels.score, arguments);
    join(arguments.call);
}

void write_projected_tokens(TokenType type, const core::Params& params, void* tokens) {
    if (params.d.count == 0 || params.d.length == 0) return;
    const CurrentDevice current(params.place.ordinal);
    wake_device(params.place.ordinal);
    ProjectedArguments arguments = arguments_of(params, {}, 0);
    arguments.tokens = tokens;
    arguments.token_elements = static_cast<int>(up_to(params.dim, 8));
    const ProjectedKernels& kernels = kernels_of(type);
    run(kernels, kernels.tokens, arguments);
}

void load_projected_kernels(const DeviceInfo& info) {
    for (const TokenType type : {TokenType::f16, TokenType::bf16}) {
        const ProjectedKernels& kernels = kernels_of(type);
        for (const void* kernel : {kernels.score, kernels.tokens}) {
            check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, info.shared_bytes),
                  "loading kernels");
        }
    }
}

}  // namespace rowmax::cuda
