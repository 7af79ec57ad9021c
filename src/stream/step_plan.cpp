#include "stream/step_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/parallel.hpp"
#include "rowmax/error.hpp"

namespace rowmax::stream {

namespace {

constexpr std::int64_t kib = std::int64_t{1} << 10;
constexpr std::int64_t mib = std::int64_t{1} << 20;

// 20 to 80 ms of one thread of a vector kernel.
constexpr std::int64_t work_per_thread = 4'000'000'000;
// Enough document tokens that packing the queries does not show.
constexpr std::int64_t tokens_worth_packing = 2048;
constexpr std::int64_t uncapped_step = 256 * mib;

// Lists grow by doubling; the spare half and the list's own bookkeeping are counted.
std::int64_t list_bytes(const StepNeeds& needs) {
    return needs.query_count * (needs.k * 32 + 64);
}

// A query as the kernels pack it (float or wider, whole groups of 16 tokens), and its copy if there is one.
std::int64_t query_bytes(const StepNeeds& needs) {
    const std::int64_t rows = (needs.query_length + 15) / 16 * 16;
    const std::int64_t packed = rows * needs.dim * std::max<std::int64_t>(needs.token_bytes, 4);
    return packed + (needs.queries_copied ? needs.query_length * needs.dim * needs.token_bytes : 0);
}

std::int64_t scratch_bytes(int threads) {
    return 2 * mib + 512 * kib * core::thread_count(threads);
}

}  // namespace

std::int64_t least_memory(const StepNeeds& needs, int threads) {
    return list_bytes(needs) + query_bytes(needs) + needs.longest_copied * needs.dim * needs.token_bytes +
           scratch_bytes(threads);
}

StepPlan plan_step(const StepNeeds& needs, std::int64_t memory, int threads) {
    const std::int64_t least = least_memory(needs, threads);
    if (memory > 0 && memory - needs.held < least) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("memory: {} bytes are too little, at least {} are needed ({} queries with their k = {} "
                                "best, one query and one document at a time)",
                                memory, needs.held + least, needs.query_count, needs.k));
    }
    const std::int64_t spare = memory > 0 ? memory - needs.held - least : uncapped_step;
    const std::int64_t work =
        work_per_thread * core::thread_count(threads) / (2 * needs.dim);  // query tokens x document tokens
    const std::int64_t length = std::max<std::int64_t>(needs.query_length, 1);
    StepPlan plan;
    const std::int64_t by_work = work / tokens_worth_packing / length;
    const std::int64_t by_memory = spare / 4 / std::max<std::int64_t>(query_bytes(needs), 1);
    plan.queries =
        std::clamp<std::int64_t>(std::min(by_work, by_memory), 1, std::max<std::int64_t>(needs.query_count, 1));
    plan.scores = std::max(spare / 8 / 8, plan.queries);
    plan.tokens = std::max<std::int64_t>(work / (plan.queries * length), 1);
    plan.copied_bytes = spare / 2;
    return plan;
}

}  // namespace rowmax::stream
