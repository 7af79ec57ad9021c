#include "cli/checks/run.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rowmax::checks {

namespace {

constexpr std::size_t guard_bytes = 256;
constexpr std::byte poison{0xa5};

/// Memory for one output between two guard bands.
class Guarded {
  public:
    Guarded(DType dtype, const std::vector<std::int64_t>& shape) : dtype_(dtype), shape_(shape) {
        for (const std::int64_t n : shape) count_ *= n;
        bytes_.assign(static_cast<std::size_t>(count_) * size_of(dtype) + 2 * guard_bytes, poison);
    }
    [[nodiscard]] TensorView view() { return {data(), dtype_, shape_}; }
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
    std::byte* data() { return bytes_.data() + guard_bytes; }
    DType dtype_;
    std::vector<std::int64_t> shape_;
    std::int64_t count_ = 1;
    std::vector<std::byte> bytes_;
};

}  // namespace

Result run(ScoreRequest request, std::string_view kernel, Wants wants) {
    request.options.kernel = kernel;
    const ResultShape shape = result_shape(request);
    Guarded scores(shape.dtype, shape.scores);
    Guarded index(DType::i32, shape.tokens);
    Guarded similarity(shape.dtype, shape.tokens);
    ScoreOutputs outputs;
    outputs.scores = scores.view();
    if (wants == Wants::everything) {
        outputs.index = index.view();
        outputs.similarity = similarity.view();
    }
    score(request, outputs);
    Result result;
    result.scores = scores.doubles();
    result.index = index.values<std::int32_t, std::int32_t>();
    result.similarity = similarity.doubles();
    result.intact = scores.intact() && index.intact() && similarity.intact();
    return result;
}

bool same(double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace rowmax::checks
