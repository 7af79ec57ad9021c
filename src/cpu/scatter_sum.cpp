// The public scatter_sum: checks, the instructions of this machine, and the way that fits the shape.
#include "rowmax/scatter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/parallel.hpp"
#include "core/views.hpp"
#include "cpu/kernels/counting_sort.hpp"
#include "cpu/kernels/index_batches.hpp"
#include "cpu/kernels/row_sum_table.hpp"
#include "cpu/kernels/scatter.hpp"

namespace rowmax {

namespace {

using cpu::IndexBatches;

[[noreturn]] void fail(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

bool has_channels(const TensorView& index, const TensorView& values) {
    return values.ndim > index.ndim;
}

void check_values(const TensorView& index, const TensorView& values) {
    core::check_input(values, "values");
    switch (values.dtype) {
        case DType::f16:
        case DType::bf16:
        case DType::f32:
        case DType::f64: break;
        default:
            fail(ErrorCode::invalid_type,
                 fmt::format("values must be float16, bfloat16, float32 or float64, got {}", name_of(values.dtype)));
    }
    const bool rank_fits = values.ndim == index.ndim || values.ndim == index.ndim + 1;
    const auto rank = static_cast<std::size_t>(index.ndim);
    if (rank_fits && std::equal(index.shape.begin(), index.shape.begin() + rank, values.shape.begin())) return;
    fail(ErrorCode::invalid_value, fmt::format("values {} does not fit index {}: it must begin with the same shape",
                                               values.shape_text(), index.shape_text()));
}

const std::int64_t* grid_part(core::Copies& copies, const TensorView& part, const TensorView& index, std::int64_t last,
                              std::string_view name) {
    core::check_input(part, name);
    if (part.dtype != DType::i64) {
        fail(ErrorCode::invalid_type, fmt::format("{} must be int64, got {}", name, name_of(part.dtype)));
    }
    TensorView wanted = index;
    const auto rank = static_cast<std::size_t>(index.ndim);
    wanted.shape[rank - 1] = last;
    if (part.ndim != index.ndim || !std::equal(part.shape.begin(), part.shape.begin() + rank, wanted.shape.begin())) {
        fail(ErrorCode::invalid_value, fmt::format("{} must have shape {}, got {}: a grid of the same index", name,
                                                   wanted.shape_text(), part.shape_text()));
    }
    const bool plain = part.contiguous() && reinterpret_cast<std::uintptr_t>(part.data) % sizeof(std::int64_t) == 0;
    return static_cast<const std::int64_t*>(plain ? part.data : core::contiguous_copy(copies, part).data);
}

/// The call, checked.
struct Call {
    TensorView index;
    TensorView values;
    std::int64_t destinations = 0;
    std::int64_t channels = 1;
    std::byte* out = nullptr;
    const std::int64_t* row_ptr = nullptr;  ///< null: no grid was given
    const std::int64_t* source = nullptr;
};

// A grid is that of the index when its lists are in order and hold every source that is not dropped, where it belongs.
void check_grid(const Call& call, const IndexBatches& index) {
    const std::int64_t size = index.sources();
    for (std::int64_t b = 0; b < index.count(); ++b) {
        const std::int64_t* starts = call.row_ptr + b * (call.destinations + 1);
        const std::int64_t* sources = call.source + b * size;
        const std::int64_t first = index.first(b);
        std::int64_t kept = 0;
        for (std::int64_t s = 0; s < size; ++s) kept += index.at(first, s) >= 0 ? 1 : 0;
        bool fits = starts[0] == 0 && starts[call.destinations] == kept;
        for (std::int64_t d = 0; fits && d < call.destinations; ++d) {
            fits = starts[d] <= starts[d + 1] && starts[d + 1] <= kept;
            for (std::int64_t i = starts[d]; fits && i < starts[d + 1]; ++i) {
                fits = sources[i] >= 0 && sources[i] < size && index.at(first, sources[i]) == d &&
                       (i == starts[d] || sources[i - 1] < sources[i]);
            }
        }
        if (!fits) fail(ErrorCode::invalid_value, fmt::format("grid is not that of index: batch {} differs", b));
    }
}

template <class Sum>
class ScatterCall {
  public:
    ScatterCall(const cpu::RowSums<Sum>& ops, const Call& call)
        : ops_(ops),
          call_(call),
          index_(call.index),
          values_(call.values, call.index.ndim - 1),
          size_(static_cast<std::int64_t>(size_of(call.values.dtype))) {}

    void run(int allowed) const {
        const double worth = static_cast<double>(index_.count()) * static_cast<double>(index_.sources()) *
                             static_cast<double>(call_.channels + 4) / cpu::additions_per_thread;
        const int threads = worth < 2 ? 1 : static_cast<int>(std::min<double>(allowed, worth));
        const std::int64_t batches = index_.count();
        if (batches >= threads) {
            core::parallel_for(threads, batches, [&](std::int64_t b) { run_batch(b, 1); });
        } else {
            for (std::int64_t b = 0; b < batches; ++b) run_batch(b, threads);
        }
    }

  private:
    [[nodiscard]] cpu::ScatterBatch batch(std::int64_t b) const {
        const auto rank = static_cast<std::size_t>(call_.index.ndim);
        cpu::ScatterBatch batch;
        batch.rows = {static_cast<const std::byte*>(call_.values.data) + values_.first(b) * size_,
                      call_.values.stride[rank - 1] * size_, call_.channels};
        batch.sources = index_.sources();
        batch.destinations = call_.destinations;
        batch.out = call_.out + b * call_.destinations * call_.channels * size_;
        batch.dtype = call_.values.dtype;
        return batch;
    }

    void run_batch(std::int64_t b, int threads) const {
        const cpu::ScatterBatch work = batch(b);
        const bool direct = cpu::scatter_directly(work.sources, work.destinations, call_.channels, sizeof(Sum));
        if (call_.row_ptr != nullptr &&
            !(direct && cpu::grid_is_slower(work.sources, work.destinations, call_.channels))) {
            const cpu::Csr csr{call_.row_ptr + b * (call_.destinations + 1), call_.source + b * work.sources, false};
            return cpu::ScatterCsr<Sum>(ops_, work, csr).run(threads);
        }
        if (direct) return run_direct(b, work, threads);
        std::vector<std::int64_t> starts(static_cast<std::size_t>(work.destinations + 1));
        const auto sources = std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(work.sources));
        index_.with_batch(b, [&](auto destination) {
            cpu::counting_sort(work.sources, work.destinations, destination, starts.data(), sources.get());
        });
        const cpu::Csr csr{starts.data(), sources.get(), true};
        cpu::ScatterCsr<Sum>(ops_, work, csr).run(threads);
    }

    void run_direct(std::int64_t b, const cpu::ScatterBatch& work, int threads) const {
        const std::int64_t parts = cpu::scatter_parts(call_.channels, threads);
        core::parallel_for(threads, parts, [&](std::int64_t part) {
            const cpu::ScatterShare share = cpu::scatter_share(work.destinations, work.rows.channels, part, parts);
            index_.with_batch(b,
                              [&](auto destination) { cpu::ScatterDirect<Sum>(ops_, work, share).run(destination); });
        });
    }

    const cpu::RowSums<Sum>& ops_;
    const Call& call_;
    IndexBatches index_;
    cpu::BatchSteps values_;
    std::int64_t size_;
};

void run_call(const Call& call, int threads) {
    const cpu::RowSumOps& ops = cpu::row_sum_ops();
    switch (call.values.dtype) {
        case DType::f16: return ScatterCall<float>(ops.f16, call).run(threads);
        case DType::bf16: return ScatterCall<float>(ops.bf16, call).run(threads);
        case DType::f64: return ScatterCall<double>(ops.f64, call).run(threads);
        default: return ScatterCall<float>(ops.f32, call).run(threads);
    }
}

/// values as the kernels read them: channels side by side.
TensorView rows_of(core::Copies& copies, const TensorView& index, const TensorView& values) {
    return has_channels(index, values) ? core::readable(copies, values) : core::aligned_view(copies, values);
}

std::byte* checked_out(const TensorView& out, const TensorView& values, int rank, std::int64_t n) {
    std::array<std::int64_t, TensorView::max_ndim> shape = values.shape;
    shape.at(static_cast<std::size_t>(rank - 1)) = n;
    const auto dimensions = static_cast<std::size_t>(values.ndim);
    return static_cast<std::byte*>(core::checked_output(out, values.dtype, std::span(shape).first(dimensions), "out"));
}

}  // namespace

void scatter_sum(const TensorView& index, const TensorView& values, std::int64_t num_destinations,
                 const TensorView& out, const InverseGrid& grid, bool validate, int threads) {
    const core::StandardFloatMode mode;
    if (threads < 0) {
        fail(ErrorCode::invalid_value, fmt::format("threads: must not be negative, got {}", threads));
    }
    cpu::check_index(index, num_destinations);
    check_values(index, values);
    core::Copies copies;
    Call call;
    call.index = core::aligned_view(copies, index);
    call.values = rows_of(copies, index, values);
    call.destinations = num_destinations;
    if (has_channels(index, values)) call.channels = values.shape[static_cast<std::size_t>(values.ndim - 1)];
    call.out = checked_out(out, values, index.ndim, num_destinations);
    if (grid.row_ptr.given() || grid.source.given()) {
        const std::int64_t sources = index.shape[static_cast<std::size_t>(index.ndim - 1)];
        call.row_ptr = grid_part(copies, grid.row_ptr, index, num_destinations + 1, "grid row_ptr");
        call.source = grid_part(copies, grid.source, index, sources, "grid source");
    }
    const core::NamedView written[] = {{"out", out}};
    const core::NamedView read[] = {
        {"index", index}, {"values", values}, {"grid row_ptr", grid.row_ptr}, {"grid source", grid.source}};
    core::check_disjoint(written, read);
    if (validate) {
        const IndexBatches batches(call.index);
        cpu::check_destinations(batches, num_destinations);
        if (call.row_ptr != nullptr) check_grid(call, batches);
    }
    if (out.numel() == 0) return;
    run_call(call, core::thread_count(threads));
}

}  // namespace rowmax
