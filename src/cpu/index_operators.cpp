// Operators on an index: one counting sort for every batch; sums by the instructions of this machine, in the way that
// fits the shape.

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/index_backend.hpp"
#include "core/index_checks.hpp"
#include "core/parallel.hpp"
#include "cpu/kernels/counting_sort.hpp"
#include "cpu/kernels/row_sum_table.hpp"
#include "cpu/kernels/scatter.hpp"

namespace rowmax::cpu {

namespace {

using core::IndexBatches;
using core::IndexCall;

// A grid is that of the index when its lists are in order and hold every source that is not dropped, where it belongs.
void check_grid(const IndexCall& call, const IndexBatches& index) {
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
        if (!fits) throw Error(ErrorCode::invalid_value, fmt::format("grid is not that of index: batch {} differs", b));
    }
}

template <class Sum>
class ScatterCall {
  public:
    ScatterCall(const cpu::RowSums<Sum>& ops, const IndexCall& call)
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
    const IndexCall& call_;
    IndexBatches index_;
    core::BatchSteps values_;
    std::int64_t size_;
};

void run_call(const IndexCall& call, int threads) {
    const cpu::RowSumOps& ops = cpu::row_sum_ops();
    switch (call.values.dtype) {
        case DType::f16: return ScatterCall<float>(ops.f16, call).run(threads);
        case DType::bf16: return ScatterCall<float>(ops.bf16, call).run(threads);
        case DType::f64: return ScatterCall<double>(ops.f64, call).run(threads);
        default: return ScatterCall<float>(ops.f32, call).run(threads);
    }
}

void check_contents(const IndexCall& call) {
    const IndexBatches index(call.index);
    core::check_destinations(index, call.destinations);
    if (call.values.given() && call.row_ptr != nullptr) check_grid(call, index);
}

void invert_index(const IndexCall& call) {
    const IndexBatches index(call.index);
    for (std::int64_t b = 0; b < index.count(); ++b) {
        std::int64_t* starts = call.row_ptr + b * (call.destinations + 1);
        std::int64_t* sources = call.source + b * index.sources();
        const std::int64_t first = index.first(b);
        cpu::counting_sort(
            index.sources(), call.destinations, [&](std::int64_t s) { return index.at(first, s); }, starts, sources);
        std::fill(sources + starts[call.destinations], sources + index.sources(), std::int64_t{-1});
    }
}

void sum_by_index(const IndexCall& call) {
    if (IndexBatches(call.index).count() * call.destinations * call.channels == 0) return;
    run_call(call, core::thread_count(call.threads));
}

constexpr core::IndexBackend index_backend{&check_contents, &invert_index, &sum_by_index};

}  // namespace
}  // namespace rowmax::cpu

namespace rowmax::core {

const IndexBackend& cpu_index() {
    return cpu::index_backend;
}

}  // namespace rowmax::core
