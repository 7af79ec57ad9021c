// What the sizes of tiles are worth: kernels told to take other numbers of query rows at once, or fewer slots of
// document tiles in their rings, than they would. Prints one JSON line a variant; the kernels' own choice is one of
// them.
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/problem.hpp"
#include "cuda/device.hpp"
#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/launch.hpp"
#include "cuda/tuning.hpp"
#include "gpu/native/random_request.hpp"

namespace {

using namespace rowmax;
using bench::Shape;
using cuda::KernelEntry;
using cuda::KernelSet;

/// A call's kernels, all of the same kind, and how many query rows of a block can be asked of them.
struct Kind {
    std::string name;
    KernelSet kernels;
    std::vector<int> rows;
};

/// The kernel that takes so many rows, told to take no others.
KernelEntry with_rows(const KernelSet& kernels, int rows) {
    for (int i = 0; i < kernels.count; ++i) {
        KernelEntry entry = kernels.entries[i];
        if (entry.indexed || entry.normalize == cuda::NormalizeUse::only || entry.rows < rows) continue;
        entry.rows = entry.least_rows = rows;
        entry.row_step = 0;
        return entry;
    }
    throw std::logic_error("no kernel takes so many rows");
}

int slots_of(const KernelEntry& entry, const core::Params& params) {
    const cuda::DeviceInfo& device = cuda::device_info(0);
    const bool own = cuda::make_plan(params, entry.rows, device.processors).blocks > 1;
    return cuda::ring_slots(entry.type, params.dim, own ? entry.rings * entry.rows : entry.rows, entry.control_bytes,
                            entry.rings, device.shared_bytes);
}

void measure(const Shape& shape, const Kind& kind, cudaStream_t stream) {
    ScoreRequest request = bench::random_request(shape, stream);
    const std::int64_t pairs = shape.queries * shape.documents;
    const TensorView scores(bench::device_memory(pairs * 4), DType::f32, {shape.queries, shape.documents});
    const core::Problem problem = core::make_problem(request);
    const core::Outputs outputs = core::check_outputs(problem, {scores, {}, {}});
    const double tokens = static_cast<double>(problem.params.d.total_rows);
    const double flop = 2.0 * static_cast<double>(shape.queries * shape.lq * shape.dim) * tokens;
    const double bytes =
        2.0 * static_cast<double>(shape.dim) * (static_cast<double>(shape.queries * shape.lq) + tokens);
    // Sizes of 0: the kernels' own choice.
    const auto show = [&](const KernelSet& kernels, int rows, int slots) {
        core::Params params = problem.params;
        const std::size_t scratch = cuda::workspace(kernels, params, outputs);
        if (scratch > 0) params.place.workspace = bench::device_memory(static_cast<std::int64_t>(scratch));
        const bench::Times times = bench::replayed(stream, 5, [&] { cuda::score_tiled(kernels, params, outputs); });
        std::cout << nlohmann::json{{"case", "tiles " + shape.name},
                                    {"impl", "rowmax"},
                                    {"kernel", kind.name},
                                    {"dtype", "float16"},
                                    {"rows", rows},
                                    {"slots", slots},
                                    {"flop", flop},
                                    {"bytes", bytes},
                                    {"median_ms", times.median_ms},
                                    {"p10_ms", times.p10_ms},
                                    {"p90_ms", times.p90_ms}}
                  << std::endl;
    };
    show(kind.kernels, 0, 0);
    for (const int rows : kind.rows) {
        KernelEntry entry = with_rows(kind.kernels, rows);
        const int most = slots_of(entry, problem.params);
        int left = most;
        // A tile of 128 dimensions takes two, and the next one is waited for before they are given back.
        for (const int slots : {most, 8, 6, 4}) {
            if (slots > left) continue;
            entry.control_bytes += (left - slots) * entry.rings * cuda::slot_bytes_of(entry.type);
            left = slots;
            show({&entry, 1}, rows, slots_of(entry, problem.params));
        }
    }
}

}  // namespace

int main() {
    cudaStream_t stream = nullptr;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
        std::cerr << "there is no CUDA device\n";
        return 4;
    }
    const Kind few{"few", cuda::set_of(cuda::few_rows_f16), {32, 64, 128}};
    const Kind many{"many", cuda::set_of(cuda::many_rows_f16), {128, 192, 256}};
    measure({"text-10k", 1, 10000, 32, 300}, few, stream);
    measure({"medium-1k", 1, 1000, 128, 1024}, few, stream);
    measure({"medium-1k", 1, 1000, 128, 1024}, {many.name, many.kernels, {128}}, stream);
    measure({"colpali-1k", 1, 1000, 1024, 1024}, many, stream);
    measure({"batch-128x1k", 128, 1000, 32, 180}, many, stream);
    measure({"ragged-1k-lq1024", 1, 1000, 1024, 512, 128, true}, many, stream);
}
