#include "cuda/backward.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/backward_plan.hpp"
#include "cuda/scratch_layout.hpp"
#include "cuda/sort_sources.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

constexpr int norm_rows_of_block = 8;

const core::Segments& own(const core::Params& params, Side side) {
    return side == Side::queries ? params.q : params.d;
}
const core::Segments& other(const core::Params& params, Side side) {
    return side == Side::queries ? params.d : params.q;
}

bool wanted(const core::Params& params, const core::Gradients& gradients, Side side) {
    const void* to = side == Side::queries ? gradients.q : gradients.d;
    return to != nullptr && own(params, side).total_rows > 0;
}

bool nothing_to_add(const core::Params& params) {
    return params.pairs.count == 0 || params.q.max_length == 0;
}

/// Whether several items may add to one row of this side.
bool shares_rows(const core::Params& params, Side side) {
    return params.pairs.kind == core::PairKind::list || own(params, side).kind == core::SegmentKind::ranges;
}

int processors_of(const core::Params& params) {
    return device_info(params.place.ordinal).processors;
}

InverseGrid grid_of(const core::Params& params) {
    const bool cross = params.pairs.kind == core::PairKind::cross;
    InverseGrid grid;
    grid.sources = (cross ? params.q.count : 1) * params.q.max_length;
    grid.plane = params.d.total_rows + params.d.count;
    grid.shift = block_shift(params.d.count, grid.sources, processors_of(params));
    grid.blocks = static_cast<int>(ceil_div(grid.sources, std::int64_t{1} << grid.shift));
    return grid;
}

/// Where things lie in scratch memory.
struct Layout {
    std::size_t starts = 0;
    std::size_t sorted = 0;
    std::size_t list = 0;
    std::size_t inverse = 0;
    std::size_t bytes = 0;
};

// Sources of a row are counted in 31 bits, rows of a list in 32.
void check_sizes(const core::Params& params, Side side) {
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    const bool listed = shares_rows(params, side);
    const std::int64_t sources = listed ? params.pairs.count * params.q.max_length : grid_of(params).sources;
    if (sources <= most && (!listed || own(params, side).total_rows <= most)) return;
    throw Error(ErrorCode::not_implemented, fmt::format("gradients from {} query tokens{}: at most 2^31", sources,
                                                        listed ? " of pairs that may share their rows" : ""));
}

// The sides take turns with what only one of them needs at a time.
Layout layout_of(const core::Params& params, const core::Gradients& gradients) {
    Layout layout;
    ScratchLayout scratch;
    std::size_t list = 0;
    std::size_t inverse = 0;
    for (const Side side : {Side::queries, Side::documents}) {
        if (!wanted(params, gradients, side)) continue;
        check_sizes(params, side);
        if (params.normalize) {
            inverse = std::max(inverse, static_cast<std::size_t>(other(params, side).total_rows) * sizeof(float));
        }
        if (shares_rows(params, side)) {
            list = std::max(list, sort_sources_bytes(params, side));
        } else if (side == Side::documents) {
            const InverseGrid grid = grid_of(params);
            layout.starts = scratch.take(static_cast<std::size_t>(grid.plane * grid.blocks) * sizeof(std::uint16_t));
            layout.sorted =
                scratch.take(static_cast<std::size_t>(params.d.count * grid.sources) * sizeof(std::uint16_t));
        }
    }
    layout.list = scratch.take(list);
    layout.inverse = scratch.take(inverse);
    layout.bytes = scratch.bytes();
    return layout;
}

bool by_four(const core::Params& params, const core::Gradients& gradients) {
    const auto unit = static_cast<std::int64_t>(lane_elements * size_of(params.dtype));
    const auto fits = [&](const void* data) {
        return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data)) % unit == 0;
    };
    const auto side_fits = [&](const core::Segments& side) {
        return fits(side.data) && side.row_stride % unit == 0 && side.stride_outer % unit == 0 &&
               side.stride_inner % unit == 0;
    };
    return params.dim % lane_elements == 0 && side_fits(params.q) && side_fits(params.d) && fits(gradients.q) &&
           fits(gradients.d);
}

void check_grid(std::int64_t blocks) {
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    if (blocks <= most) return;
    throw Error(ErrorCode::not_implemented, fmt::format("a backward pass of {} thread blocks, more than 2^31", blocks));
}

void invert(const core::Params& params, const core::Gradients& gradients, const InverseGrid& grid) {
    const InvertPlan plan = invert_plan(params.d.count, params.d.max_length, grid, processors_of(params));
    const InvertArguments arguments{params, gradients, grid, plan.slices, plan.window};
    const std::int64_t blocks = params.d.count * grid.blocks * plan.slices;
    check_grid(blocks);
    launch(invert_index_kernel, {blocks, 32 * plan.warps, plan.shared_bytes()}, params.place, &arguments);
}

class Backward {
  public:
    Backward(const BackwardKernels& kernels, const core::Params& params, const core::Gradients& gradients,
             const Layout& layout, std::byte* memory)
        : kernels_(by_four(params, gradients) ? kernels.vector : kernels.scalar),
          params_(params),
          gradients_(gradients),
          layout_(layout),
          memory_(memory) {}

    void run(Side side) const {
        RowSumArguments arguments;
        arguments.params = params_;
        arguments.gradients = gradients_;
        arguments.side = side;
        if (params_.normalize) arguments.inverse = norms_of(other(params_, side));
        const void* kernel = nullptr;
        if (shares_rows(params_, side)) {
            kernel = kernels_.by_list;
            arguments.sorted = sort_sources(params_, gradients_, side, memory_ + layout_.list);
        } else if (side == Side::queries) {
            kernel = kernels_.by_pairs;
        } else {
            kernel = kernels_.by_grid;
            arguments.grid = grid_of(params_);
            arguments.grid.starts = reinterpret_cast<std::uint16_t*>(memory_ + layout_.starts);
            arguments.grid.sorted = reinterpret_cast<std::uint16_t*>(memory_ + layout_.sorted);
            invert(params_, gradients_, arguments.grid);
        }
        add_rows(kernel, arguments);
    }

  private:
    [[nodiscard]] const float* norms_of(const core::Segments& side) const {
        NormArguments arguments;
        arguments.side = side;
        arguments.dim = params_.dim;
        arguments.inverse = reinterpret_cast<float*>(memory_ + layout_.inverse);
        const std::int64_t blocks = ceil_div(side.total_rows, norm_rows_of_block);
        check_grid(blocks);
        if (blocks > 0) launch(kernels_.norms, {blocks, 32 * norm_rows_of_block}, params_.place, &arguments);
        return arguments.inverse;
    }

    void add_rows(const void* kernel, RowSumArguments& arguments) const {
        const std::int64_t rows = own(params_, arguments.side).total_rows;
        const int warps = warps_of_row_sums(params_.dim, params_.normalize);
        const std::int64_t sources = params_.pairs.count * params_.q.max_length;
        const RowPlan plan = row_plan(rows, sources, params_.normalize, warps, processors_of(params_));
        arguments.rows_per_block = plan.rows_per_block;
        arguments.alone = plan.alone;
        const std::int64_t blocks = ceil_div(rows, plan.rows_per_block);
        check_grid(blocks);
        launch(kernel, {blocks, 32 * warps, row_sum_shared_bytes(params_.dim, params_.normalize)}, params_.place,
               &arguments);
    }

    const RowKernels& kernels_;
    const core::Params& params_;
    const core::Gradients& gradients_;
    const Layout& layout_;
    std::byte* memory_;
};

void clear(const core::Params& params, const core::Gradients& gradients, Side side) {
    void* to = side == Side::queries ? gradients.q : gradients.d;
    const std::size_t bytes =
        static_cast<std::size_t>(own(params, side).total_rows * params.dim) * size_of(params.dtype);
    check(cudaMemsetAsync(to, 0, bytes, static_cast<cudaStream_t>(params.place.stream)), "cudaMemsetAsync");
}

}  // namespace

std::size_t backward_workspace(const core::Params& params, const core::Gradients& gradients) {
    return nothing_to_add(params) ? 0 : layout_of(params, gradients).bytes;
}

void backward(const BackwardKernels& kernels, const core::Params& params, const core::Gradients& gradients) {
    const CurrentDevice current(params.place.ordinal);
    wake_device(params.place.ordinal);
    const bool nothing = nothing_to_add(params);
    const Layout layout = nothing ? Layout() : layout_of(params, gradients);
    const Scratch scratch(params.place.workspace, layout.bytes, params.place.stream);
    const Backward pass(kernels, params, gradients, layout, scratch.data());
    for (const Side side : {Side::documents, Side::queries}) {
        if (!wanted(params, gradients, side)) continue;
        if (nothing) {
            clear(params, gradients, side);
        } else {
            pass.run(side);
        }
    }
}

void load_backward_kernels() {
    for (const BackwardKernels* set : {&backward_f16, &backward_bf16, &backward_f32}) {
        for (const RowKernels* kernels : {&set->vector, &set->scalar}) {
            for (const void* sums : {kernels->by_pairs, kernels->by_grid, kernels->by_list})
                load_kernel(sums, row_sum_shared_most);
            load_kernel(kernels->norms);
        }
    }
    load_kernel(invert_index_kernel, invert_shared_most);
}

}  // namespace rowmax::cuda
