// scatter_sum: the terms are rows of values.
#pragma once

#include "cuda/kernels/index_arguments.hpp"
#include "cuda/kernels/ordered_sums.cuh"
#include "cuda/kernels/stored_numbers.cuh"

namespace rowmax::cuda {

template <class Stored, int V>
class ScatterTerms {
  public:
    using Sum = SumOf<Stored>;
    using Arguments = ScatterArguments;
    using Term = Pack<Stored, V>;
    static constexpr int width = V;

    struct Place {
        const Stored* values;
        const std::int64_t* source;
        const std::uint32_t* numbers;
        std::int64_t first_number;
        Stored* to;
    };

    __device__ explicit ScatterTerms(const ScatterArguments& call) : call_(call) {}

    /// A caller's grid may lie: it is never followed out of the sources.
    [[nodiscard]] __device__ TermRange range(std::int64_t row) const {
        const std::int64_t batch = core::detail::quotient(row, call_.destinations);
        const std::int64_t* starts = call_.row_ptr + row + batch;
        const std::int64_t begin = core::detail::clamp(starts[0], 0, call_.sources);
        const std::int64_t end = core::detail::clamp(starts[1], 0, call_.sources);
        return {begin, end > begin ? end : begin};
    }

    [[nodiscard]] __device__ Place at(std::int64_t row, std::int64_t channel) const {
        const std::int64_t batch = core::detail::quotient(row, call_.destinations);
        const std::int64_t first = batch * call_.sources;
        return {static_cast<const Stored*>(call_.values) + call_.steps.first(batch) + channel,
                call_.source == nullptr ? nullptr : call_.source + first, call_.numbers + first, first,
                static_cast<Stored*>(call_.out) + row * call_.sums.channels + channel};
    }

    /// Zeros for a source that is none: sums begin with zero and so are never its negative, which that would change.
    [[nodiscard]] __device__ Term load(const Place& place, std::int64_t i) const {
        const std::int64_t source =
            place.source == nullptr ? std::int64_t{place.numbers[i]} - place.first_number : place.source[i];
        Term term{};
        if (source >= 0 && source < call_.sources) {
            term = *reinterpret_cast<const Term*>(place.values + source * call_.stride);
        }
        return term;
    }

    __device__ void add(const Place& /*place*/, const Term& term, Sum (&sum)[V]) const {
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] = add_rounded(sum[v], widened(term.at[v]));
    }

    __device__ void start(const Place& /*place*/, Sum (&sum)[V]) const {
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] = 0;
    }

    __device__ void finish(const Place& place, const Sum (&sum)[V]) const {
        Term term;
#pragma unroll
        for (int v = 0; v < V; ++v) term.at[v] = rounded<Stored>(sum[v]);
        *reinterpret_cast<Term*>(place.to) = term;
    }

  private:
    const ScatterArguments& call_;
};

}  // namespace rowmax::cuda
