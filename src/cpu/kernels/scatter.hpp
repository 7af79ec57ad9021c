// One batch of scatter_sum(): rows added to the destinations that an index names.
//
// Two ways, the same bits. Sources of a destination are summed in runs of 256, the runs in order:
//
//   direct   sources in order, each row added where it belongs; a count a destination says when a run is full, and the
//            full run joins the destination's total. No sort, but sums are read and written for every source: the way
//            where they stay in cache. Threads take channels, or destinations.
//   csr      the inverse grid first; then every destination has its sources side by side, and its sums stay in
//   registers.
//            Threads take destinations; those with very many sources are cut by runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/gradient_rows.hpp"
#include "cpu/kernels/row_sum_ops.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

/// A batch: where its rows are, and where its sums go.
struct ScatterBatch {
    SourceRows rows;
    std::int64_t sources = 0;
    std::int64_t destinations = 0;
    std::byte* out = nullptr;  ///< [destinations, channels] of `dtype`
    DType dtype = DType::f32;
};

/// Writes finished sums, rounded once to the result's type; any NaN is the same one.
template <class Sum>
void write_sums(DType dtype, Sum* sum, std::byte* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
        sum[i] = sum[i] == sum[i] ? sum[i] : std::numeric_limits<Sum>::quiet_NaN();
    }
    if (reinterpret_cast<std::byte*>(sum) != to) write_row(dtype, sum, to, count);
}

/// The sources of one batch by destination. `trusted` false: it comes from a caller and may lie.
struct Csr {
    const std::int64_t* starts = nullptr;  ///< [destinations + 1]
    const std::int64_t* sources = nullptr;
    bool trusted = true;
};

template <class Sum>
class ScatterCsr {
  public:
    ScatterCsr(const RowSums<Sum>& ops, const ScatterBatch& batch, const Csr& csr)
        : ops_(ops), batch_(batch), csr_(csr), bytes_(static_cast<std::int64_t>(size_of(batch.dtype))) {}

    void run(int threads) const {
        const std::int64_t tasks = threads == 1 ? 1 : std::int64_t{threads} * tasks_per_thread;
        // What would keep one thread busy while the others wait is shared out run by run.
        const std::int64_t heavy = threads == 1 ? std::numeric_limits<std::int64_t>::max()
                                                : std::max(16 * sources_per_run, batch_.sources / (4 * tasks));
        core::parallel_for(threads, tasks, [&](std::int64_t task) {
            const std::int64_t end = boundary(task + 1, tasks);
            for (std::int64_t d = boundary(task, tasks); d < end; ++d) {
                if (count(d) <= heavy) sum_destination(d);
            }
        });
        if (threads == 1) return;
        for (std::int64_t d = 0; d < batch_.destinations; ++d) {
            if (count(d) > heavy) sum_heavy(d, threads);
        }
    }

  private:
    [[nodiscard]] std::int64_t start(std::int64_t d) const {
        return std::clamp<std::int64_t>(csr_.starts[d], 0, batch_.sources);
    }
    [[nodiscard]] std::int64_t count(std::int64_t d) const {
        return std::max<std::int64_t>(start(d + 1) - start(d), 0);
    }

    /// The first destination of a task: tasks have about as many sources and destinations together. A list that lies
    /// about its order gives other shares, but shares none the less.
    [[nodiscard]] std::int64_t boundary(std::int64_t task, std::int64_t tasks) const {
        if (task == 0 || task == tasks) return task == 0 ? 0 : batch_.destinations;
        if (!csr_.trusted) return batch_.destinations * task / tasks;
        const std::int64_t wanted = (csr_.starts[batch_.destinations] + batch_.destinations) * task / tasks;
        std::int64_t low = 0;
        std::int64_t high = batch_.destinations;
        while (low < high) {
            const std::int64_t middle = low + (high - low) / 2;
            if (csr_.starts[middle] + middle < wanted) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    /// The sum of one run into `sum`.
    void sum_run(std::int64_t begin, std::int64_t end, Sum* sum) const {
        const std::int64_t* sources = csr_.sources + begin;
        if (csr_.trusted) return ops_.sum_run(batch_.rows, sources, end - begin, sum);
        std::int64_t kept[sources_per_run];
        std::int64_t size = 0;
        for (std::int64_t i = 0; i < end - begin; ++i) {
            if (sources[i] >= 0 && sources[i] < batch_.sources) kept[size++] = sources[i];
        }
        ops_.sum_run(batch_.rows, kept, size, sum);
    }

    void sum_destination(std::int64_t d) const {
        static thread_local Buffer<Sum> mine;
        const std::int64_t channels = batch_.rows.channels;
        Sum* total = mine.reserve(2 * channels);
        Sum* run = total + channels;
        const std::int64_t end = start(d) + count(d);
        sum_run(start(d), std::min(start(d) + sources_per_run, end), total);
        for (std::int64_t begin = start(d) + sources_per_run; begin < end; begin += sources_per_run) {
            sum_run(begin, std::min(begin + sources_per_run, end), run);
            for (std::int64_t c = 0; c < channels; ++c) total[c] += run[c];
        }
        write_sums(batch_.dtype, total, batch_.out + d * channels * bytes_, channels);
    }

    void sum_heavy(std::int64_t d, int threads) const {
        const std::int64_t channels = batch_.rows.channels;
        const std::int64_t end = start(d) + count(d);
        const std::int64_t runs = (count(d) + sources_per_run - 1) / sources_per_run;
        const std::int64_t tasks = std::min(runs, std::int64_t{threads} * tasks_per_thread);
        std::vector<Sum> sums(static_cast<std::size_t>(runs * channels));
        core::parallel_for(threads, tasks, [&](std::int64_t task) {
            for (std::int64_t r = runs * task / tasks; r < runs * (task + 1) / tasks; ++r) {
                const std::int64_t begin = start(d) + r * sources_per_run;
                sum_run(begin, std::min(begin + sources_per_run, end), sums.data() + r * channels);
            }
        });
        for (std::int64_t r = 1; r < runs; ++r) {
            for (std::int64_t c = 0; c < channels; ++c) {
                sums[static_cast<std::size_t>(c)] += sums[static_cast<std::size_t>(r * channels + c)];
            }
        }
        write_sums(batch_.dtype, sums.data(), batch_.out + d * channels * bytes_, channels);
    }

    const RowSums<Sum>& ops_;
    const ScatterBatch& batch_;
    const Csr& csr_;
    std::int64_t bytes_;
};

/// The part of a batch that one thread takes: destinations and channels from .. to.
struct ScatterShare {
    std::int64_t first_destination = 0;
    std::int64_t last_destination = 0;
    std::int64_t first_channel = 0;
    std::int64_t last_channel = 0;
};

/// How a batch is shared out among `parts` threads: by channels while each has enough of them that rows are not read in
/// crumbs, else by destinations, and then every thread looks at the whole index.
inline ScatterShare scatter_share(std::int64_t destinations, std::int64_t channels, std::int64_t part,
                                  std::int64_t parts) {
    constexpr std::int64_t least_channels = 32;
    const auto cut = [&](std::int64_t size, std::int64_t i) { return size * i / parts; };
    if (channels / parts >= least_channels) {
        return {0, destinations, cut(channels, part), cut(channels, part + 1)};
    }
    return {cut(destinations, part), cut(destinations, part + 1), 0, channels};
}

template <class Sum>
class ScatterDirect {
  public:
    ScatterDirect(const RowSums<Sum>& ops, const ScatterBatch& batch, const ScatterShare& share)
        : ops_(ops),
          batch_(batch),
          share_(share),
          channels_(share.last_channel - share.first_channel),
          size_(share.last_destination - share.first_destination),
          bytes_(static_cast<std::int64_t>(size_of(batch.dtype))),
          in_run_(static_cast<std::size_t>(size_)) {
        // Sums of the result's own type that lie side by side there need no other place.
        if (whole_rows() && !is_half(batch.dtype)) {
            sums_ = reinterpret_cast<Sum*>(out(0));
        } else {
            sums_ = memory_.reserve(std::max<std::int64_t>(size_ * channels_, 1));
        }
        std::fill_n(sums_, size_ * channels_, Sum{0});
    }

    /// destination(s): of source s, anything outside the batch's for none.
    template <class DestinationOf>
    void run(DestinationOf destination) {
        if (channels_ == 1 && !is_half(batch_.dtype)) {
            scan_numbers(destination);
        } else {
            scan(destination, [&](std::int64_t s, Sum* sum) { ops_.add_row(row(s), channels_, sum); });
        }
        for (auto& [d, total] : totals_) join(total, d);
        for (const auto& [d, total] : totals_) std::copy_n(total.data(), channels_, sums(d));
        if (whole_rows()) return write_sums(batch_.dtype, sums_, out(0), size_ * channels_);
        for (std::int64_t d = 0; d < size_; ++d) write_sums(batch_.dtype, sums(d), out(d), channels_);
    }

  private:
    [[nodiscard]] bool whole_rows() const { return channels_ == batch_.rows.channels; }
    [[nodiscard]] std::byte* out(std::int64_t d) const {
        return batch_.out + ((share_.first_destination + d) * batch_.rows.channels + share_.first_channel) * bytes_;
    }
    template <class DestinationOf, class Add>
    void scan(DestinationOf destination, Add add) {
        for (std::int64_t s = 0; s < batch_.sources; ++s) {
            const std::int64_t d = destination(s) - share_.first_destination;
            if (d < 0 || d >= size_) continue;
            // A full run waits for a source that begins the next: the last run has no empty one behind it.
            std::uint16_t& count = in_run_[static_cast<std::size_t>(d)];
            if (count == sources_per_run) {
                close_run(d);
                count = 0;
            }
            ++count;
            add(s, sums(d));
        }
    }

    /// The same of single numbers, whose sum and count lie side by side: they are read and written together.
    template <class DestinationOf>
    void scan_numbers(DestinationOf destination) {
        struct Open {
            Sum sum;
            std::uint32_t count;
        };
        const std::unique_ptr<Open[]> open(new Open[static_cast<std::size_t>(size_)]());
        for (std::int64_t s = 0; s < batch_.sources; ++s) {
            const std::int64_t d = destination(s) - share_.first_destination;
            if (d < 0 || d >= size_) continue;
            Open now = open[static_cast<std::size_t>(d)];
            if (now.count == sources_per_run) {
                *sums(d) = now.sum;
                close_run(d);
                now = {};
            }
            now.sum += core::load<Sum>(row(s));
            ++now.count;
            open[static_cast<std::size_t>(d)] = now;
        }
        for (std::int64_t d = 0; d < size_; ++d) *sums(d) = open[static_cast<std::size_t>(d)].sum;
    }

    [[nodiscard]] const std::byte* row(std::int64_t s) const {
        return batch_.rows.data + s * batch_.rows.stride + share_.first_channel * bytes_;
    }
    [[nodiscard]] Sum* sums(std::int64_t d) const { return sums_ + d * channels_; }

    void close_run(std::int64_t d) {
        const auto [at, is_new] = totals_.try_emplace(d);
        if (is_new) {
            at->second.assign(sums(d), sums(d) + channels_);
        } else {
            join(at->second, d);
        }
        std::fill_n(sums(d), channels_, Sum{0});
    }

    void join(std::vector<Sum>& total, std::int64_t d) {
        for (std::int64_t c = 0; c < channels_; ++c) total[static_cast<std::size_t>(c)] += sums(d)[c];
    }

    const RowSums<Sum>& ops_;
    const ScatterBatch& batch_;
    ScatterShare share_;
    std::int64_t channels_;
    std::int64_t size_;
    std::int64_t bytes_;
    Buffer<Sum> memory_;
    Sum* sums_ = nullptr;                                        ///< of the runs that are open
    std::vector<std::uint16_t> in_run_;                          ///< sources in it
    std::unordered_map<std::int64_t, std::vector<Sum>> totals_;  ///< of the runs before it, where there are any
};

}  // namespace rowmax::cpu
