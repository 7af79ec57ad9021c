// Operators on an index in a device's memory: a stable radix sort by destination, and sums over what it brings
// together.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/device_runtime.hpp"
#include "core/index_backend.hpp"
#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/index_arguments.hpp"
#include "cuda/kernels/scatter_kernels.hpp"
#include "cuda/load_selection.hpp"
#include "cuda/ordered_sums.hpp"
#include "cuda/radix_sort.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

using core::IndexCall;

std::int64_t index_blocks(std::int64_t threads) {
    return (threads + index_threads - 1) / index_threads;
}

IndexKeys keys_of(const IndexCall& call) {
    const core::IndexBatches index(call.index);
    IndexKeys keys;
    keys.batches = index.count();
    keys.sources = index.sources();
    keys.destinations = call.destinations;
    return keys;
}

void check_index_sizes(const IndexKeys& keys) {
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    std::int64_t starts = 0;
    const bool fits = !__builtin_mul_overflow(keys.batches, keys.destinations + 1, &starts) && starts <= most;
    if (fits && keys.count() <= most) return;
    throw Error(ErrorCode::not_implemented,
                fmt::format("{} batches of {} sources and {} destinations on a CUDA device: more than 2^31",
                            keys.batches, keys.sources, keys.destinations));
}

bool adds_up(const IndexCall& call) {
    return call.values.given();
}

std::size_t bytes_of_sum(const IndexCall& call) {
    return call.values.dtype == DType::f64 ? sizeof(double) : sizeof(float);
}

/// Whether a sum is made by atomic additions: where the caller allows it and they are faster ("Sums by index" of
/// bench/gpu/selection.py). A long row costs as much to add as to gather, so that only destinations with few sources,
/// of which each is written about as often as once, gain from it; of short rows the sort takes most of the time, until
/// so many sources wait for each other. These are averages: what the index holds nobody looks at, and a few popular
/// destinations among many others are slow.
bool adds_atomically(const IndexCall& call, const IndexKeys& keys) {
    constexpr double few_sources = 8;
    constexpr double most_sources = 256;
    constexpr std::int64_t short_row_bytes = 64;
    if (call.deterministic || !adds_up(call)) return false;
    const bool is_short = call.channels * static_cast<std::int64_t>(bytes_of_sum(call)) <= short_row_bytes;
    const bool sorts = call.row_ptr == nullptr;
    const double rows = static_cast<double>(keys.batches) * static_cast<double>(keys.destinations);
    return static_cast<double>(keys.count()) <= (is_short && sorts ? most_sources : few_sources) * rows;
}

struct IndexLayout {
    std::size_t bad = 0;
    std::size_t sort = 0;
    std::size_t starts = 0;
    std::size_t sums = 0;  ///< of atomic additions, where values are of another type
    SharedRowsLayout shared;
    std::size_t bytes = 0;

    explicit IndexLayout(const IndexCall& call) {
        const IndexKeys keys = keys_of(call);
        check_index_sizes(keys);
        ScratchLayout scratch;
        bad = scratch.take_array<unsigned long long>(1);
        const bool atomic = adds_atomically(call, keys);
        if (atomic && size_of(call.values.dtype) != bytes_of_sum(call)) {
            sums = scratch.take(static_cast<std::size_t>(keys.batches * keys.destinations * call.channels) *
                                bytes_of_sum(call));
        }
        const bool sorts = !atomic || call.row_ptr != nullptr;  // the latter, to check the grid
        if (keys.count() > 0 && sorts) sort = scratch.take(sort_bytes(keys.count(), keys.starts()));
        if (adds_up(call) && sorts) {
            starts = scratch.take_array<std::int64_t>(keys.starts());
            shared = layout_of_shared_rows(scratch, keys.count(), call.channels, bytes_of_sum(call));
        }
        bytes = scratch.bytes();
    }
};

/// One call at work: its memory, and the steps that operators are made of.
class IndexWork {
  public:
    explicit IndexWork(const IndexCall& call)
        : call_(call),
          current_(call.place.ordinal),
          layout_(call),
          scratch_(call.place.workspace, layout_.bytes, call.place.stream),
          keys_(keys_of(call)) {
        wake_device(call.place.ordinal);
    }

    /// Throws where the index holds what is no destination, or the grid is not its own.
    void check_contents() {
        auto* bad = part_at<unsigned long long>(scratch_.data(), layout_.bad);
        clear_bad(bad);
        if (keys_.count() > 0) {
            const CheckIndexArguments arguments{core::IndexBatches(call_.index), call_.destinations, bad};
            launch(index_kernels.check, {index_blocks(keys_.count()), index_threads}, call_.place, &arguments);
        }
        if (const unsigned long long at = read_bad(bad); at != none) refuse_source(static_cast<std::int64_t>(at));
        if (!adds_up(call_) || call_.row_ptr == nullptr || keys_.starts() == 0) return;
        std::int64_t* expected = sort_into(nullptr);
        clear_bad(bad);
        const CheckGridArguments arguments{
            core::IndexBatches(call_.index), call_.destinations, call_.row_ptr, call_.source, expected, bad};
        launch(index_kernels.check_grid, {index_blocks(keys_.starts()), index_threads}, call_.place, &arguments);
        if (const unsigned long long batch = read_bad(bad); batch != none) {
            throw Error(ErrorCode::invalid_value, fmt::format("grid is not that of index: batch {} differs", batch));
        }
    }

    void invert() { sort_into(call_.row_ptr); }

    void sum() {
        const std::int64_t rows = keys_.batches * keys_.destinations;
        if (rows == 0 || call_.channels == 0) return;
        if (adds_atomically(call_, keys_)) return add_atomically(rows);
        ScatterArguments arguments;
        arguments.row_ptr = call_.row_ptr;
        arguments.source = call_.source;
        if (call_.row_ptr == nullptr) {
            arguments.row_ptr = sort_into(nullptr);
            arguments.numbers = keys_.numbers;
        }
        const bool packed = by_packs();
        const int width = packed ? static_cast<int>(16 / size_of(call_.values.dtype)) : 1;
        arguments.sums = plan_sums(layout_.shared, scratch_.data(), rows, call_.channels, width, call_.place);
        arguments.values = call_.values.data;
        arguments.steps = core::BatchSteps(call_.values, call_.index.ndim - 1);
        arguments.stride = source_stride();
        arguments.out = call_.out;
        arguments.sources = keys_.sources;
        arguments.destinations = keys_.destinations;
        const ScatterKernels& kernels = kernels_of();
        run_sums(packed ? kernels.packed : kernels.single, arguments.sums, keys_.count(), &arguments, call_.place);
    }

  private:
    static constexpr unsigned long long none = std::numeric_limits<unsigned long long>::max();

    /// The grid of the index: starts go to `row_ptr`, and sources to the call's memory; or, null, starts to scratch
    /// memory, and sources remain numbers. Returns where the starts are.
    std::int64_t* sort_into(std::int64_t* row_ptr) {
        const bool wanted = row_ptr != nullptr;
        if (!wanted) row_ptr = part_at<std::int64_t>(scratch_.data(), layout_.starts);
        std::byte* memory = scratch_.data() + layout_.sort;
        if (keys_.count() > 0) {
            const SortLists lists = lists_to_sort(memory, keys_.count());
            keys_.keys = lists.keys;
            keys_.numbers = lists.numbers;
            const NumberIndexArguments arguments{core::IndexBatches(call_.index), keys_};
            launch(index_kernels.number, {index_blocks(keys_.count()), index_threads}, call_.place, &arguments);
            const SortLists sorted = sort_by_key(memory, keys_.count(), keys_.starts(), call_.place);
            keys_.keys = sorted.keys;
            keys_.numbers = sorted.numbers;
        }
        const WriteGridArguments arguments{keys_, row_ptr, wanted ? call_.source : nullptr};
        if (keys_.starts() > 0) {
            launch(index_kernels.write_starts, {index_blocks(keys_.starts()), index_threads}, call_.place, &arguments);
        }
        if (wanted && keys_.count() > 0) {
            launch(index_kernels.write_sources, {index_blocks(keys_.count()), index_threads}, call_.place, &arguments);
        }
        return row_ptr;
    }

    void add_atomically(std::int64_t rows) {
        const ScatterKernels& kernels = kernels_of();
        const bool widened = kernels.atomic.round != nullptr;
        const bool packed = by_packs();
        const int width = packed ? static_cast<int>(16 / size_of(call_.values.dtype)) : 1;
        AtomicScatterArguments add{core::IndexBatches(call_.index)};
        add.values = call_.values.data;
        add.steps = core::BatchSteps(call_.values, call_.index.ndim - 1);
        add.stride = source_stride();
        add.destinations = call_.destinations;
        add.channels = call_.channels;
        while (add.lane_bits < 5 && (std::int64_t{width} << add.lane_bits) < call_.channels) ++add.lane_bits;
        add.sums = widened ? scratch_.data() + layout_.sums : call_.out;
        const std::int64_t numbers = rows * call_.channels;
        check(cudaMemsetAsync(add.sums, 0, static_cast<std::size_t>(numbers) * bytes_of_sum(call_),
                              static_cast<cudaStream_t>(call_.place.stream)),
              "cudaMemsetAsync");
        if (keys_.count() > 0) {
            launch(packed ? kernels.atomic.packed : kernels.atomic.single,
                   {index_blocks(keys_.count() << add.lane_bits), index_threads}, call_.place, &add);
        }
        if (!widened) return;
        const RoundSumsArguments round{add.sums, call_.out, numbers};
        launch(kernels.atomic.round, {index_blocks(numbers), index_threads}, call_.place, &round);
    }

    [[nodiscard]] std::int64_t source_stride() const {
        return call_.values.stride[static_cast<std::size_t>(call_.index.ndim) - 1];
    }

    /// Whether rows of values can be read and written 16 bytes at a time.
    [[nodiscard]] bool by_packs() const {
        const auto width = static_cast<std::int64_t>(16 / size_of(call_.values.dtype));
        const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
        bool fits = call_.channels % width == 0 && source_stride() % width == 0 && aligned(call_.values.data) &&
                    aligned(call_.out);
        for (int i = 0; i + 1 < call_.index.ndim; ++i) {
            fits = fits && call_.values.stride[static_cast<std::size_t>(i)] % width == 0;
        }
        return fits;
    }

    [[nodiscard]] const ScatterKernels& kernels_of() const {
        switch (call_.values.dtype) {
            case DType::f16: return scatter_f16;
            case DType::bf16: return scatter_bf16;
            case DType::f64: return scatter_f64;
            default: return scatter_f32;
        }
    }

    void clear_bad(unsigned long long* bad) const {
        check(cudaMemsetAsync(bad, 0xff, sizeof(*bad), static_cast<cudaStream_t>(call_.place.stream)),
              "cudaMemsetAsync");
    }

    /// Waits for the stream.
    template <class T>
    T read(const T* from) const {
        const core::DeviceRuntime& device = *core::device_runtime();
        if (device.captured(call_.place)) {
            throw Error(ErrorCode::device,
                        "validate: contents are looked at on the host, which cannot wait for a stream that is being "
                        "captured: pass validate=False");
        }
        T value{};
        device.copy(call_.place, &value, from, sizeof(value));
        device.drain(call_.place);
        return value;
    }
    [[nodiscard]] unsigned long long read_bad(const unsigned long long* bad) const { return read(bad); }

    [[noreturn]] void refuse_source(std::int64_t number) const {
        const core::IndexBatches index(call_.index);
        const std::int64_t batch = number / keys_.sources;
        const std::int64_t source = number % keys_.sources;
        const auto rank = static_cast<std::size_t>(call_.index.ndim);
        const std::int64_t at = index.first(batch) + source * call_.index.stride[rank - 1];
        const bool wide = call_.index.dtype == DType::i64;
        const std::int64_t value = wide ? read(static_cast<const std::int64_t*>(call_.index.data) + at)
                                        : read(static_cast<const std::int32_t*>(call_.index.data) + at);
        throw Error(ErrorCode::invalid_value,
                    fmt::format("index holds {} at source {} of batch {}, but num_destinations is {}", value, source,
                                batch, call_.destinations));
    }

    const IndexCall& call_;
    CurrentDevice current_;
    IndexLayout layout_;
    Scratch scratch_;
    IndexKeys keys_;
};

void check_index_contents(const IndexCall& call) {
    IndexWork(call).check_contents();
}

void invert_index(const IndexCall& call) {
    IndexWork(call).invert();
}

void sum_by_index(const IndexCall& call) {
    IndexWork(call).sum();
}

std::size_t index_workspace(const IndexCall& call) {
    const CurrentDevice current(call.place.ordinal);
    return IndexLayout(call).bytes;
}

constexpr core::IndexBackend index_backend{&check_index_contents, &invert_index, &sum_by_index, &index_workspace};

}  // namespace

void load_index_kernels() {
    for (const void* kernel : {index_kernels.number, index_kernels.check, index_kernels.write_starts,
                               index_kernels.write_sources, index_kernels.check_grid}) {
        load_kernel(kernel);
    }
    for (const ScatterKernels* kernels : {&scatter_f16, &scatter_bf16, &scatter_f32, &scatter_f64}) {
        for (const OrderedSumKernels* sums : {&kernels->single, &kernels->packed}) load_sums(*sums);
        for (const void* kernel : {kernels->atomic.single, kernels->atomic.packed, kernels->atomic.round}) {
            if (kernel != nullptr) load_kernel(kernel);
        }
    }
}

}  // namespace rowmax::cuda

namespace rowmax::core {

const IndexBackend* cuda_index() {
    return &cuda::index_backend;
}

}  // namespace rowmax::core
