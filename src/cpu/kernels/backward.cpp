// Both gradients are the same sum: over sources (pair p, query position s, one of its tokens that won), of
//
//     queries     grad[row of s in the query]            += g[p] * document row index[p, s]
//     documents   grad[row index[p, s] of the document]  += g[p] * query row s
//
// Sources are grouped by destination row (a counting sort: the inverse grid), region by region, so that every row has
// one owner. More than 256 sources of a row are summed in runs of 256, which different threads may take; the runs are
// then added in order. So the bits depend on neither threads nor schedule.
#include "cpu/kernels/backward.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/counting_sort.hpp"
#include "cpu/kernels/gradient_rows.hpp"
#include "cpu/kernels/regions.hpp"
#include "cpu/kernels/residual_rows.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

namespace {

enum class Side { queries, documents };

/// Up to 256 sources of one destination row.
struct Run {
    std::int64_t row = 0;    ///< destination, counted from the region's first
    std::int64_t begin = 0;  ///< into the region's sources
    std::int64_t end = 0;
    std::int64_t part = -1;  ///< where its sum is kept until its sisters are done; -1: it is the only run of the row
};

template <class Value>
struct RowScratch {
    Buffer<Value> sum;
    Buffer<Value> row;
};

template <class Value>
RowScratch<Value>& row_scratch(std::int64_t dim) {
    static thread_local RowScratch<Value> mine;
    mine.sum.reserve(dim);
    mine.row.reserve(dim);
    return mine;
}

template <class Value>
class SideGradient {
  public:
    SideGradient(const TileOps& ops, const core::Params& params, const core::Gradients& gradients, Side side)
        : ops_(ops),
          params_(params),
          gradients_(gradients),
          side_(side),
          own_(side == Side::queries ? params.q : params.d),
          out_(static_cast<std::byte*>(side == Side::queries ? gradients.q : gradients.d)),
          dtype_(core::query_dtype(params)),
          residuals_(params),
          regions_(own_),
          sources_(params.q.max_length * gradients.fan),
          row_bytes_(params.dim * static_cast<std::int64_t>(size_of(dtype_))) {}

    void run(int threads) {
        std::memset(out_, 0, static_cast<std::size_t>(own_.total_rows * row_bytes_));
        sort_pairs();
        // Regions that would keep one thread busy while the others wait are shared out row by row.
        const std::int64_t share = params_.pairs.count / (2 * std::int64_t{threads}) + 1;
        std::vector<std::int64_t> small;
        for (std::int64_t r = 0; r < regions_.count(); ++r) {
            const std::int64_t pairs =
                first_pair_[static_cast<std::size_t>(r + 1)] - first_pair_[static_cast<std::size_t>(r)];
            if (pairs == 0) continue;
            if (threads > 1 && pairs >= share) {
                run_region(r, threads);
            } else {
                small.push_back(r);
            }
        }
        const auto count = static_cast<std::int64_t>(small.size());
        core::parallel_for(threads, count, [&](std::int64_t i) { run_region(small[static_cast<std::size_t>(i)], 1); });
    }

  private:
    /// A source of this region, looked up.
    struct Source {
        core::Segment query;
        core::Segment document;
        std::int64_t pair = 0;
        std::int64_t position = 0;
        std::int32_t token = -1;
    };

    void sort_pairs() {
        const std::int64_t count = params_.pairs.count;
        first_pair_.resize(static_cast<std::size_t>(regions_.count() + 1));
        pairs_.resize(static_cast<std::size_t>(count));
        const auto region = [&](std::int64_t p) {
            return regions_.of_item(side_ == Side::queries ? params_.pairs.query(p) : params_.pairs.document(p));
        };
        counting_sort(count, regions_.count(), region, first_pair_.data(), pairs_.data());
    }

    [[nodiscard]] Source source(std::int64_t first_pair, std::int64_t number) const {
        Source s;
        s.pair = pairs_[static_cast<std::size_t>(first_pair + number / sources_)];
        s.position = number % sources_ / gradients_.fan;
        s.token = gradients_.index[s.pair * sources_ + number % sources_];
        s.query = params_.q.at(params_.pairs.query(s.pair));
        s.document = params_.d.at(params_.pairs.document(s.pair));
        return s;
    }

    /// The region's row that a source adds to, or -1: nothing won, or the index lies.
    [[nodiscard]] std::int64_t destination(const Source& s, const RowRange& rows) const {
        if (s.token < 0 || s.token >= s.document.length || s.position >= s.query.length) return -1;
        return (side_ == Side::queries ? s.query.first_row + s.position : s.document.first_row + s.token) - rows.begin;
    }

    void run_region(std::int64_t region, int threads) const {
        const RowRange rows = regions_.rows(region);
        const std::int64_t first = first_pair_[static_cast<std::size_t>(region)];
        const std::int64_t pairs = first_pair_[static_cast<std::size_t>(region + 1)] - first;
        const std::int64_t count = pairs * sources_;
        std::vector<std::int64_t> starts(static_cast<std::size_t>(rows.end - rows.begin + 1));
        std::vector<std::int64_t> sources(static_cast<std::size_t>(count));
        counting_sort(
            count, rows.end - rows.begin, [&](std::int64_t n) { return destination(source(first, n), rows); },
            starts.data(), sources.data());
        std::int64_t parts = 0;
        const std::vector<Run> runs = cut(starts, parts);
        Buffer<Value> sums;
        sums.reserve(std::max<std::int64_t>(parts, 1) * params_.dim);
        parallel_chunks(threads, runs, [&](const Run& run) { sum_run(run, rows, first, sources.data(), sums.data()); });
        if (parts == 0) return;
        parallel_chunks(threads, runs, [&](const Run& run) {
            const bool leads = run.part >= 0 && run.begin == starts[static_cast<std::size_t>(run.row)];
            if (leads) add_parts(run, starts[static_cast<std::size_t>(run.row + 1)], rows, sums.data());
        });
    }

    static std::vector<Run> cut(const std::vector<std::int64_t>& starts, std::int64_t& parts) {
        std::vector<Run> runs;
        for (std::size_t row = 0; row + 1 < starts.size(); ++row) {
            const bool several = starts[row + 1] - starts[row] > sources_per_run;
            for (std::int64_t begin = starts[row]; begin < starts[row + 1]; begin += sources_per_run) {
                const std::int64_t end = std::min(begin + sources_per_run, starts[row + 1]);
                runs.push_back({static_cast<std::int64_t>(row), begin, end, several ? parts++ : -1});
            }
        }
        return runs;
    }

    template <class F>
    static void parallel_chunks(int threads, const std::vector<Run>& runs, F f) {
        const auto count = static_cast<std::int64_t>(runs.size());
        const std::int64_t chunks = threads == 1 ? 1 : std::min(count, std::int64_t{threads} * tasks_per_thread);
        core::parallel_for(threads, chunks, [&](std::int64_t c) {
            for (std::int64_t i = count * c / chunks; i < count * (c + 1) / chunks; ++i)
                f(runs[static_cast<std::size_t>(i)]);
        });
    }

    void sum_run(const Run& run, const RowRange& rows, std::int64_t first, const std::int64_t* sources,
                 Value* sums) const {
        RowScratch<Value>& scratch = row_scratch<Value>(params_.dim);
        Value* sum = run.part < 0 ? scratch.sum.data() : sums + run.part * params_.dim;
        std::fill_n(sum, params_.dim, Value{0});
        for (std::int64_t i = run.begin; i < run.end; ++i) {
            const Source s = source(first, sources[i]);
            const Value factor = static_cast<const Value*>(gradients_.scores)[s.pair];
            if constexpr (std::is_same_v<Value, float>) {
                if (residual_of(params_) != nullptr) {
                    add_decoded(s, factor, sum, scratch.row.data());
                    continue;
                }
            }
            const std::byte* row = side_ == Side::queries ? s.document.data + s.token * params_.d.row_stride
                                                          : s.query.data + s.position * params_.q.row_stride;
            add_source(ops_, params_, row, factor, sum, scratch.row.data());
        }
        if (run.part < 0) finish(run.row, rows, sum);
    }

    /// The same of a document token that is stored as a residual; only queries have a gradient there.
    void add_decoded(const Source& s, float factor, float* sum, float* scratch) const {
        const core::Residual& residual = *residual_of(params_);
        const std::int64_t first = residual.steps.first(params_.d, params_.pairs.document(s.pair));
        residuals_.decode(ops_, s.document.data + s.token * params_.d.row_stride,
                          first + s.token * residual.steps.token, scratch);
        const auto* row = reinterpret_cast<const std::byte*>(scratch);
        if (residual.normalize || params_.normalize) factor *= inverse_norm(ops_, row, scratch, params_.dim);
        typed<float>(ops_).add_scaled(sum, row, factor, params_.dim);
    }

    void add_parts(const Run& first, std::int64_t end, const RowRange& rows, Value* sums) const {
        const std::int64_t count = (end - first.begin + sources_per_run - 1) / sources_per_run;
        Value* sum = sums + first.part * params_.dim;
        for (std::int64_t part = 1; part < count; ++part) {
            for (std::int64_t k = 0; k < params_.dim; ++k) sum[k] += sum[part * params_.dim + k];
        }
        finish(first.row, rows, sum);
    }

    void finish(std::int64_t row, const RowRange& rows, Value* sum) const {
        const std::int64_t at = rows.begin + row;
        if (params_.normalize) {
            through_norm(ops_, params_, stored_row(own_, at), sum, row_scratch<Value>(params_.dim).row.data());
        }
        write_row(dtype_, sum, out_ + at * row_bytes_, params_.dim);
    }

    const TileOps& ops_;
    const core::Params& params_;
    const core::Gradients& gradients_;
    Side side_;
    const core::Segments& own_;
    std::byte* out_;
    DType dtype_;  ///< of what is differentiated
    ResidualRows residuals_;
    Regions regions_;
    std::int64_t sources_;  ///< of a pair
    std::int64_t row_bytes_;
    std::vector<std::int64_t> first_pair_;  ///< pairs of every region: pairs_[first_pair_[r]] .., ascending
    std::vector<std::int64_t> pairs_;
};

template <class Value>
void run_sides(const TileOps& ops, const core::Params& params, const core::Gradients& gradients) {
    const double work = static_cast<double>(params.pairs.count) * static_cast<double>(params.q.max_length) *
                        static_cast<double>(gradients.fan) * static_cast<double>(params.dim);
    const double worth = work / multiplications_per_thread;
    const int allowed = core::thread_count(params.threads);
    const int threads = worth < 2 ? 1 : static_cast<int>(std::min<double>(allowed, worth));
    if (gradients.q != nullptr) SideGradient<Value>(ops, params, gradients, Side::queries).run(threads);
    if (gradients.d != nullptr) SideGradient<Value>(ops, params, gradients, Side::documents).run(threads);
}

}  // namespace

void backward(const TileOps& ops, const core::Params& params, const core::Gradients& gradients) {
    if (core::projection_of(params) != nullptr) return backward_projected(ops, params, gradients);
    if (params.dtype == DType::f64) {
        run_sides<double>(ops, params, gradients);
    } else {
        run_sides<float>(ops, params, gradients);
    }
}

}  // namespace rowmax::cpu
