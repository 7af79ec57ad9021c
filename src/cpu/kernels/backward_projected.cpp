// Gradients where documents are hidden states h: their tokens are u = W h + b, scored as v = u or u / |u|.
//
//     grad v_t = sum over the query tokens s that chose t of g[p] q_s          (the inverse grid)
//     grad u_t = grad v_t, or (grad v_t - (grad v_t . v_t) v_t) / |u_t|
//     grad h_t = W^T grad u_t
//     grad W   = sum over t of grad u_t h_t^T,  grad b = sum over t of grad u_t
//     grad q_s = sum over the documents of g[p] v_t
//
// Only tokens that were chosen are projected again, a group of documents at a time, each once. All matrix products are
// the kernel that projected them; what is held are the u and grad u of a group, and hidden states of 256 tokens.
// Every sum has one owner, or runs of 256 that are added in order: the bits depend on neither threads nor schedule.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/kernels/backward.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/gradient_rows.hpp"
#include "cpu/kernels/layer_gradient.hpp"
#include "cpu/kernels/panel_matrix.hpp"
#include "cpu/kernels/projected_rows.hpp"
#include "cpu/kernels/query_gradient.hpp"
#include "cpu/kernels/regions.hpp"
#include "cpu/kernels/winners.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

namespace {

/// Winners of a group, at most: those of several documents, or all of a single longer one. Runs of 256, and so the bits
/// of sums over a group's winners, begin anew with every group: nothing but the problem decides where.
std::int64_t winners_of_group(std::int64_t token_bytes) {
    constexpr std::int64_t bytes = std::int64_t{8} << 20;
    return std::clamp<std::int64_t>(bytes / token_bytes / sources_per_run, 1, 16) * sources_per_run;
}
/// Sources of a group of several documents.
constexpr std::int64_t sources_of_group = 1 << 20;
/// Winners that a thread projects together.
constexpr std::int64_t winners_of_task = widened_rows;

template <class Value>
struct ProjectedScratch {
    Buffer<Value> states;   ///< hidden states, widened
    Buffer<Value> tokens;   ///< of a task's winners
    Buffer<Value> results;  ///< gradients of their hidden states
    Buffer<Value> run;
    Buffer<Value> row;
};

template <class Value>
ProjectedScratch<Value>& projected_scratch() {
    static thread_local ProjectedScratch<Value> mine;
    return mine;
}

template <class Value>
class ProjectedGradient {
  public:
    ProjectedGradient(const TileOps& ops, const core::Params& params, const core::Gradients& gradients, int threads)
        : ops_(ops),
          params_(params),
          gradients_(gradients),
          projection_(*core::projection_of(params)),
          threads_(threads),
          rows_(ops, params),
          groups_(params, gradients, sources_of_group, winners_of_group(params.dim * std::int64_t{sizeof(Value)}),
                  threads),
          layer_(ops, params, gradients, threads),
          queries_(ops, params, gradients, threads) {
        normalized_ = params.normalize || projection_.normalize;
        for_documents_ = gradients.d != nullptr || layer_.wanted();
        state_bytes_ = projection_.hidden * static_cast<std::int64_t>(size_of(params.dtype));
        if (gradients.d != nullptr) pack_transposed();
    }

    void run() {
        if (gradients_.d != nullptr) {
            std::memset(gradients_.d, 0, static_cast<std::size_t>(params_.d.total_rows * state_bytes_));
        }
        while (groups_.next()) {
            const auto count = static_cast<std::int64_t>(groups_.winners().size());
            u_.reserve(count * rows_.width());
            gradient_.reserve(count * rows_.width());
            factor_.reserve(count);
            const std::int64_t tasks = (count + winners_of_task - 1) / winners_of_task;
            core::parallel_for(threads_, tasks, [&](std::int64_t task) {
                const std::int64_t first = task * winners_of_task;
                run_winners(first, std::min(first + winners_of_task, count));
            });
            if (gradients_.q != nullptr) queries_.add(groups_, {u_.data(), factor_.data(), rows_.width()});
            if (layer_.wanted()) layer_.add(groups_.winners(), gradient_.data(), rows_.width());
        }
        if (gradients_.q != nullptr) queries_.finish();
        if (layer_.wanted()) layer_.finish();
    }

  private:
    using Scratch = ProjectedScratch<Value>;

    /// W as the matrix that leads from a token's gradient to its hidden state's.
    void pack_transposed() {
        Buffer<Value> scratch;
        scratch.reserve(projection_.hidden);
        transposed_.reshape(ops_, params_.dim, projection_.hidden);
        for (std::int64_t k = 0; k < params_.dim; ++k) {
            const std::byte* row = projection_.weight + k * projection_.weight_stride;
            transposed_.set_step(k, widened(ops_, params_.dtype, row, scratch.data(), projection_.hidden));
        }
    }

    /// Tokens [first, end) of the group's winners, their factors, and what depends on nothing but them.
    void run_winners(std::int64_t first, std::int64_t end) {
        Scratch& scratch = projected_scratch<Value>();
        const std::byte* states[winners_of_task + row_padding];
        const std::int64_t count = end - first;
        for (std::int64_t i = 0; i < count; ++i) states[i] = stored_row(params_.d, winner(first + i).row);
        std::fill_n(states + count, row_padding, states[count - 1]);
        Value* tokens = scratch.tokens.reserve((winners_of_task + row_padding) * rows_.width());
        if (normalized_ || gradients_.q != nullptr) rows_.project(scratch.states, states, count, tokens);
        for (std::int64_t i = 0; i < count; ++i) run_winner(scratch, first + i, tokens + i * rows_.width());
        if (gradients_.d != nullptr) write_states(scratch, first, count);
    }

    void run_winner(Scratch& scratch, std::int64_t number, Value* token) {
        if (for_documents_) {
            Value* gradient = gradient_.data() + number * rows_.width();
            add_sources(scratch, number, gradient);
            if (normalized_) through_norm(reinterpret_cast<const std::byte*>(token), gradient, params_.dim);
        }
        if (gradients_.q == nullptr) return;
        const auto* row = reinterpret_cast<const std::byte*>(token);
        factor_[number] = normalized_ ? inverse_norm(ops_, row, token, params_.dim) : Value{1};
        std::copy_n(token, params_.dim, u_.data() + number * rows_.width());
    }

    /// The gradient of a winner as it was scored: runs of sources, and then the runs in order.
    void add_sources(Scratch& scratch, std::int64_t number, Value* sum) {
        const RegionWinners& region = groups_.regions()[static_cast<std::size_t>(winner(number).region)];
        const auto row = static_cast<std::size_t>(winner(number).row - region.rows.begin);
        Value* run = scratch.run.reserve(params_.dim);
        Value* query = scratch.row.reserve(params_.dim);
        for (std::int64_t begin = region.starts[row]; begin < region.starts[row + 1]; begin += sources_per_run) {
            const std::int64_t end = std::min(begin + sources_per_run, region.starts[row + 1]);
            Value* to = begin == region.starts[row] ? sum : run;
            std::fill_n(to, params_.dim, Value{0});
            for (std::int64_t i = begin; i < end; ++i) {
                const Source s = groups_.source(region, region.sources[static_cast<std::size_t>(i)]);
                const core::Segment segment = params_.q.at(params_.pairs.query(s.pair));
                add_source(ops_, params_, segment.data + s.position * params_.q.row_stride,
                           static_cast<const Value*>(gradients_.scores)[s.pair], to, query);
            }
            for (std::int64_t k = 0; to == run && k < params_.dim; ++k) sum[k] += run[k];
        }
    }

    void write_states(Scratch& scratch, std::int64_t first, std::int64_t count) {
        const std::byte* rows[winners_of_task + row_padding];
        for (std::int64_t i = 0; i < count; ++i) {
            rows[i] = reinterpret_cast<const std::byte*>(gradient_.data() + (first + i) * rows_.width());
        }
        std::fill_n(rows + count, row_padding, rows[count - 1]);
        const std::int64_t width = transposed_.width();
        Value* to = scratch.results.reserve((winners_of_task + row_padding) * width);
        transposed_.multiply(ops_, {0, transposed_.panels()}, rows, count, run_length(sizeof(Value)), nullptr, to,
                             width);
        for (std::int64_t i = 0; i < count; ++i) {
            std::byte* result = static_cast<std::byte*>(gradients_.d) + winner(first + i).row * state_bytes_;
            write_row(params_.dtype, to + i * width, result, projection_.hidden);
        }
    }

    [[nodiscard]] const Winner& winner(std::int64_t number) const {
        return groups_.winners()[static_cast<std::size_t>(number)];
    }

    const TileOps& ops_;
    const core::Params& params_;
    const core::Gradients& gradients_;
    const core::Projection& projection_;
    int threads_;
    ProjectedRows<Value> rows_;
    WinnerGroups groups_;
    LayerGradient<Value> layer_;
    QueryGradient<Value> queries_;
    PanelMatrix<Value> transposed_;
    bool normalized_ = false;
    bool for_documents_ = false;
    std::int64_t state_bytes_ = 0;
    Buffer<Value> u_;  ///< of the group's winners, before they are normalised
    Buffer<Value> gradient_;
    Buffer<Value> factor_;
};

int threads_worth(const core::Params& params) {
    const auto sources = static_cast<double>(params.pairs.count) * static_cast<double>(params.q.max_length);
    const double winners = std::min(sources, static_cast<double>(params.d.total_rows));
    const double products = 3 * winners * static_cast<double>(core::projection_of(params)->hidden) + 2 * sources;
    const double worth = products * static_cast<double>(params.dim) / multiplications_per_thread;
    const int allowed = core::thread_count(params.threads);
    return worth < 2 ? 1 : static_cast<int>(std::min<double>(allowed, worth));
}

}  // namespace

void backward_projected(const TileOps& ops, const core::Params& params, const core::Gradients& gradients) {
    const int threads = threads_worth(params);
    if (params.dtype == DType::f64) {
        ProjectedGradient<double>(ops, params, gradients, threads).run();
    } else {
        ProjectedGradient<float>(ops, params, gradients, threads).run();
    }
}

}  // namespace rowmax::cpu
