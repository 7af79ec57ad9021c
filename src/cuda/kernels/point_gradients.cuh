// Gradients of points. That of a point is a sum over the choices that it has part in: as a source its own k targets, in
// order; as a target the sources that chose it, ascending, in runs of 256.
#pragma once

#include "cuda/kernels/ordered_sums.cuh"
#include "cuda/kernels/point_rows.cuh"

namespace rowmax::cuda {

/// One thread block an item: its weight, divided by its kept points where a mean was taken.
template <class Value>
__global__ void __launch_bounds__(point_threads, 1) weigh_items(const __grid_constant__ Both<WeighArguments> both) {
    __shared__ unsigned long long kept;
    std::int64_t item = blockIdx.x;
    const WeighArguments& call = both.at(item);
    const core::Segment segment = call.side.at(item);
    if (threadIdx.x == 0) kept = 0;
    __syncthreads();
    if (call.side.mask.data != nullptr && call.mean) {
        unsigned long long mine = 0;
        for (std::int64_t t = threadIdx.x; t < segment.length; t += point_threads) {
            mine += call.side.keeps(segment, t) ? 1 : 0;
        }
        atomicAdd(&kept, mine);
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    const Value weight = static_cast<const Value*>(call.of_item)[item];
    const std::int64_t points = call.side.mask.data == nullptr ? segment.length : static_cast<std::int64_t>(kept);
    const Value mean = static_cast<Value>(double{weight} / static_cast<double>(points > 1 ? points : 1));
    static_cast<Value*>(call.to)[item] = call.mean ? mean : weight;
}

template <class Value, int V>
class PointTerms {
  public:
    using Sum = Value;
    using Arguments = PointGradientArguments;
    static constexpr int width = V;

    struct Term {
        Pack<Value, V> other;
        Value weight;
    };
    struct Place {
        const PointGradientSide* side;
        std::int64_t row;
        std::int64_t item;
        std::int64_t channel;
        Pack<Value, V> own;
    };

    __device__ explicit PointTerms(const PointGradientArguments& call) : call_(call) {}

    [[nodiscard]] __device__ TermRange range(std::int64_t row) const {
        if (call_.starts == nullptr) return {0, 0};
        return {call_.starts[row], call_.starts[row + 1]};
    }

    [[nodiscard]] __device__ Place at(std::int64_t row, std::int64_t channel) const {
        const PointGradientSide& side = call_.sides.at(row);
        return {&side, row, side.own.item_of(row), channel, numbers(side.own_rows, row, channel)};
    }

    [[nodiscard]] __device__ Term load(const Place& place, std::int64_t i) const {
        const std::int64_t choice = call_.choices[i];
        const PointChoices& received = place.side->received;
        const std::int64_t source = received.k == 1 ? choice : core::detail::quotient(choice, received.k);
        return {numbers(place.side->other_rows, source, place.channel), weight(received, choice, place.item)};
    }

    __device__ void add(const Place& place, const Term& term, Value (&sum)[V]) const {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const Value d = place.own.at[v] - term.other.at[v];
            sum[v] = add_rounded(sum[v], slope(term.weight, d));
        }
    }

    __device__ void start(const Place& place, Value (&sum)[V]) const {
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] = 0;
        const PointGradientSide& side = *place.side;
        const PointChoices& made = side.made;
        if (made.index == nullptr || place.item < 0) return;
        for (std::int64_t choice = place.row * made.k; choice < (place.row + 1) * made.k; ++choice) {
            const std::int64_t target = made.index[choice];
            if (target < 0 || target >= side.other.size(place.item)) continue;
            const std::int64_t row = side.other.first(place.item) + target;
            add(place, {numbers(side.other_rows, row, place.channel), weight(made, choice, place.item)}, sum);
        }
    }

    __device__ void finish(const Place& place, const Value (&sum)[V]) const {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            write_number(place.side->to, call_.dtype, place.row * call_.dim + place.channel + v, sum[v]);
        }
    }

  private:
    [[nodiscard]] __device__ Pack<Value, V> numbers(const void* rows, std::int64_t row, std::int64_t channel) const {
        return *reinterpret_cast<const Pack<Value, V>*>(static_cast<const Value*>(rows) + row * call_.dim + channel);
    }

    /// Of a choice between points of an item.
    [[nodiscard]] __device__ static Value weight(const PointChoices& choices, std::int64_t choice, std::int64_t item) {
        Value weight = 0;
        if (choices.weight != nullptr) weight = static_cast<const Value*>(choices.weight)[choice];
        if (choices.of_item == nullptr) return weight;
        const Value shared = static_cast<const Value*>(choices.of_item)[item];
        return choices.weight == nullptr ? shared : weight + shared;
    }

    /// weight * derivative of the distance by a coordinate. That of l1 is 0 where coordinates are equal.
    [[nodiscard]] __device__ Value slope(Value weight, Value d) const {
        if (call_.squared) return product_rounded(2 * weight, d);
        return d > 0 ? weight : (d < 0 ? -weight : product_rounded(d, weight));
    }

    const PointGradientArguments& call_;
};

}  // namespace rowmax::cuda
