#include "cli/checks/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "core/float_mode.hpp"
#include "core/mirror.hpp"
#include "core/problem.hpp"
#include "stream/device_scorer.hpp"

namespace rowmax::checks {

namespace {

constexpr std::size_t guard_bytes = 256;
constexpr std::byte poison{0xa5};

/// Memory for one output between two guard bands.
class Guarded {
  public:
    Guarded(DType dtype, const std::vector<std::int64_t>& shape) : dtype_(dtype) {
        for (const std::int64_t n : shape) count_ *= n;
        bytes_.assign(static_cast<std::size_t>(count_) * size_of(dtype) + 2 * guard_bytes, poison);
    }
    std::byte* data() { return bytes_.data() + guard_bytes; }
    /// The same on a device, guard bands too, and back.
    std::byte* put(stream::DeviceArrays& arrays) {
        there_ = arrays.put(bytes_.data(), bytes_.size());
        return there_ + guard_bytes;
    }
    void fetch(stream::DeviceArrays& arrays) { arrays.get(bytes_.data(), there_, bytes_.size()); }
    [[nodiscard]] bool intact() const {
        const auto poisoned = [](std::byte b) { return b == poison; };
        return std::all_of(bytes_.begin(), bytes_.begin() + guard_bytes, poisoned) &&
               std::all_of(bytes_.end() - guard_bytes, bytes_.end(), poisoned);
    }
    template <class To, class From>
    [[nodiscard]] std::vector<To> values() {
        const auto* first = reinterpret_cast<const From*>(data());
        return std::vector<To>(first, first + count_);
    }
    [[nodiscard]] std::vector<double> doubles() {
        return dtype_ == DType::f64 ? values<double, double>() : values<double, float>();
    }

  private:
    DType dtype_;
    std::int64_t count_ = 1;
    std::byte* there_ = nullptr;
    std::vector<std::byte> bytes_;
};

struct Buffers {
    explicit Buffers(const ResultShape& shape)
        : scores(shape.dtype, shape.scores), index(DType::i32, shape.tokens), similarity(shape.dtype, shape.tokens) {}
    Guarded scores;
    Guarded index;
    Guarded similarity;
};

// Under precision "high" where the kernel takes no other.
void require_taken(const core::Kernel& row, core::Params& params) {
    params.high_precision_only = row.refuse(params).empty();
    const std::string refusal = row.refuse(params);
    if (!refusal.empty()) throw Error(ErrorCode::not_implemented, fmt::format("{}: {}", row.name, refusal));
}

void run_here(const core::Kernel& row, core::Params& params, Wants wants, Buffers& buffers) {
    require_taken(row, params);
    core::Outputs outputs;
    outputs.scores = buffers.scores.data();
    if (wants == Wants::everything) {
        outputs.index = reinterpret_cast<std::int32_t*>(buffers.index.data());
        outputs.similarity = buffers.similarity.data();
    }
    row.score(params, outputs);
}

void run_there(const Target& target, core::Params& host, Wants wants, Buffers& buffers) {
    stream::DeviceArrays arrays(*target.backend, target.ordinal);
    core::Compressed compressed;
    core::Params params = core::mirror(
        host, compressed, [&](const std::byte* first, std::size_t bytes) { return arrays.put(first, bytes); });
    params.place = arrays.place();
    require_taken(*target.row, params);
    host.high_precision_only = params.high_precision_only;
    core::Outputs outputs;
    outputs.scores = buffers.scores.put(arrays);
    if (wants == Wants::everything) {
        outputs.index = reinterpret_cast<std::int32_t*>(buffers.index.put(arrays));
        outputs.similarity = buffers.similarity.put(arrays);
    }
    stream::run_row(arrays, *target.row, params, outputs);
    buffers.scores.fetch(arrays);
    if (wants == Wants::scores) return;
    buffers.index.fetch(arrays);
    buffers.similarity.fetch(arrays);
}

}  // namespace

Result run(const ScoreRequest& request, const Target& target, Wants wants) {
    const core::StandardFloatMode mode;
    core::Problem problem = core::make_problem(request);
    problem.params.wants_index = wants == Wants::everything;
    Buffers buffers(problem.shape);
    if (problem.params.pairs.count > 0) {
        if (target.backend == nullptr) {
            run_here(*target.row, problem.params, wants, buffers);
        } else {
            run_there(target, problem.params, wants, buffers);
        }
    }
    Result result;
    result.high = !problem.params.high_precision_only;
    result.scores = buffers.scores.doubles();
    result.index = buffers.index.values<std::int32_t, std::int32_t>();
    result.similarity = buffers.similarity.doubles();
    result.intact = buffers.scores.intact() && buffers.index.intact() && buffers.similarity.intact();
    return result;
}

bool same(double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace rowmax::checks
