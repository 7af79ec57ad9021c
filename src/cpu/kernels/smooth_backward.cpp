// Gradients of smooth maxima. Every pair of tokens has a share in them,
//
//     w[s, t] = grad_scores[pair] / sum[s] * exp((similarity[s, t] - largest[s]) / temperature)   (a softmax over t)
//     queries     grad[s] += w[s, t] * document row t           documents     grad[t] += w[s, t] * query row s
//
// so similarities are computed again, 48 document rows at a time, turned into weights where they lie, and used up by a
// second product: the recomputation of FlashAttention's backward pass (Dao et al., 2022,
// https://arxiv.org/abs/2205.14135). Each side has a pass of its own, in which every row of the gradient has one owner:
//
//     queries     a task is a slice of a query's rows; the query's documents go by
//     documents   a task is a block of a document's rows; the document's queries go by
//
// Pairs of an item are cut into runs of 32; each run is added up in order, from zero, and then the runs in order, on
// whatever threads. So the bits depend on neither threads nor the other items.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/kernels/counting_sort.hpp"
#include "cpu/kernels/gradient_rows.hpp"
#include "cpu/kernels/select.hpp"
#include "cpu/kernels/select_scan.hpp"

namespace rowmax::cpu {

namespace {

constexpr std::int64_t pairs_per_run = 32;
/// Query rows of a task, and those that are multiplied at once where documents are the owners.
constexpr std::int64_t query_slice = 32;

/// Pairs by item of one side, ascending.
class PairsOf {
  public:
    template <class ItemOf>
    PairsOf(std::int64_t pairs, std::int64_t items, ItemOf item)
        : first_(static_cast<std::size_t>(items + 1)), pairs_(static_cast<std::size_t>(pairs)) {
        counting_sort(pairs, items, item, first_.data(), pairs_.data());
    }
    [[nodiscard]] std::int64_t count(std::int64_t item) const {
        return first_[static_cast<std::size_t>(item + 1)] - first_[static_cast<std::size_t>(item)];
    }
    [[nodiscard]] std::int64_t at(std::int64_t item, std::int64_t i) const {
        return pairs_[static_cast<std::size_t>(first_[static_cast<std::size_t>(item)] + i)];
    }

  private:
    std::vector<std::int64_t> first_;
    std::vector<std::int64_t> pairs_;
};

/// Rows of the gradient that one task owns: positions begin .. end of an item.
struct Owned {
    std::int64_t item = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

std::vector<Owned> cut_items(const core::Segments& side, std::int64_t rows) {
    std::vector<Owned> tasks;
    for (std::int64_t item = 0; item < side.count; ++item) {
        const std::int64_t length = side.at(item).length;
        for (std::int64_t begin = 0; begin < length; begin += rows) {
            tasks.push_back({item, begin, std::min(begin + rows, length)});
        }
    }
    return tasks;
}

template <class Value>
class Pass {
  public:
    Pass(const SelectMachine<Value>& machine, const core::Params& params, const core::SmoothGradients& gradients)
        : machine_(machine),
          params_(params),
          gradients_(gradients),
          size_(static_cast<std::int64_t>(size_of(params.dtype))) {}

  protected:
    /// Similarities become weights.
    void weigh(const QueryBlock<Value>& queries, const SimilarityBlock<Value>& block, std::int64_t pair) {
        const std::int64_t lanes = queries.lanes();
        const auto* tokens = static_cast<const Value*>(gradients_.tokens) + pair * params_.q.max_length;
        const Value* sums = tokens + params_.pairs.count * params_.q.max_length;
        const Value gradient = static_cast<const Value*>(gradients_.grad_scores)[pair];
        Value* largest = largest_.reserve(lanes);
        Value* share = share_.reserve(lanes);
        std::fill_n(largest, lanes, Value{0});
        std::fill_n(share, lanes, Value{0});
        for (std::int64_t lane = 0; lane < queries.rows(); ++lane) {
            largest[lane] = tokens[queries.position(lane)];
            share[lane] = gradient / sums[queries.position(lane)];
        }
        const auto factor = exponential_factor<Value>(gradients_.temperature);
        for (std::int64_t r = 0; r < block.rows->count; ++r) {
            Value* row = block.at(0, r);
            if (queries.scales() != nullptr) {
                for (std::int64_t lane = 0; lane < queries.rows(); ++lane) row[lane] *= queries.scales()[lane];
            }
            machine_.select.exponentials(row, largest, factor, lanes);
            for (std::int64_t lane = 0; lane < lanes; ++lane) row[lane] *= share[lane];
        }
    }

    /// sum += the runs of the item's pairs in order; add(run's sum, pair) adds one pair.
    template <class Add>
    void add_runs(const PairsOf& pairs, std::int64_t item, std::int64_t values, Value* sum, Add add) {
        Value* run = run_.reserve(values);
        std::fill_n(sum, values, Value{0});
        for (std::int64_t first = 0; first < pairs.count(item); first += pairs_per_run) {
            Value* to = first == 0 ? sum : run;
            if (first > 0) std::fill_n(run, values, Value{0});
            const std::int64_t end = std::min(first + pairs_per_run, pairs.count(item));
            for (std::int64_t i = first; i < end; ++i) add(to, pairs.at(item, i));
            for (std::int64_t k = 0; first > 0 && k < values; ++k) sum[k] += run[k];
        }
    }

    void finish(const std::byte* token, Value* sum, std::byte* to) {
        if (params_.normalize) {
            through_norm(machine_.tiles, params_, token, sum, row_.reserve(params_.dim));
        }
        write_row(params_.dtype, sum, to, params_.dim);
    }

    SelectMachine<Value> machine_;
    const core::Params& params_;
    const core::SmoothGradients& gradients_;
    std::int64_t size_;
    Buffer<Value> largest_;
    Buffer<Value> share_;
    Buffer<Value> run_;
    Buffer<Value> row_;
    Buffer<Value> sum_;
};

template <class Value>
class QueryPass : Pass<Value> {
  public:
    QueryPass(const SelectMachine<Value>& machine, const core::Params& params, const core::SmoothGradients& gradients)
        : Pass<Value>(machine, params, gradients), similarities_(machine, params) {}

    void run(const Owned& owned, const PairsOf& pairs) {
        const core::Params& params = this->params_;
        queries_.gather_slice(params, owned.item, owned.begin, owned.end);
        queries_.pack(this->machine_.tiles, params, false);
        Value* sum = this->sum_.reserve(std::max<std::int64_t>(queries_.rows(), 1) * params.dim);
        this->add_runs(pairs, owned.item, queries_.rows() * params.dim, sum,
                       [&](Value* to, std::int64_t pair) { add_pair(to, pair); });
        const core::Segment query = params.q.at(owned.item);
        for (std::int64_t lane = 0; lane < queries_.rows(); ++lane) {
            const std::int64_t position = queries_.position(lane);
            std::byte* to =
                static_cast<std::byte*>(this->gradients_.q) + (query.first_row + position) * params.dim * this->size_;
            this->finish(query.data + position * params.q.row_stride, sum + lane * params.dim, to);
        }
    }

  private:
    void add_pair(Value* to, std::int64_t pair) {
        const auto document = [&](std::int64_t) { return this->params_.pairs.document(pair); };
        RowBlocks blocks(this->params_.d, document, 1, select_shape, 0, 1);
        RowBlock block;
        while (blocks.next(block)) {
            if (block.count == 0 || queries_.rows() == 0) continue;
            const SimilarityBlock<Value> weights = similarities_.compute(queries_, block);
            this->weigh(queries_, weights, pair);
            if (const Value* scales = similarities_.scales()) {  // of a normalised document row
                for (std::int64_t r = 0; r < block.count; ++r) {
                    for (std::int64_t lane = 0; lane < weights.lanes; ++lane) weights.at(0, r)[lane] *= scales[r];
                }
            }
            this->machine_.select.accumulate({weights.data, weights.lanes, 1, similarities_.rows(), block.count, to,
                                              queries_.rows(), this->params_.dim});
        }
    }

    Similarities<Value> similarities_;
    QueryBlock<Value> queries_;
};

template <class Value>
class DocumentPass : Pass<Value> {
  public:
    DocumentPass(const SelectMachine<Value>& machine, const core::Params& params,
                 const core::SmoothGradients& gradients)
        : Pass<Value>(machine, params, gradients), similarities_(machine, params) {}

    void run(const Owned& owned, const PairsOf& pairs) {
        const core::Params& params = this->params_;
        const core::Segment document = params.d.at(owned.item);
        gather(owned, document);
        if (block_.count == 0) return;
        Value* sum = this->sum_.reserve(block_.count * params.dim);
        this->add_runs(pairs, owned.item, block_.count * params.dim, sum,
                       [&](Value* to, std::int64_t pair) { add_pair(to, pair); });
        for (std::int64_t r = 0; r < block_.count; ++r) {
            std::byte* to = static_cast<std::byte*>(this->gradients_.d) +
                            (document.first_row + block_.tokens[r]) * params.dim * this->size_;
            this->finish(block_.rows[r], sum + r * params.dim, to);
        }
    }

  private:
    void gather(const Owned& owned, const core::Segment& document) {
        block_.count = 0;
        block_.document = owned.item;
        for (std::int64_t t = owned.begin; t < owned.end; ++t) {
            if (!this->params_.d.keeps(document, t)) continue;
            block_.tokens[block_.count] = static_cast<std::int32_t>(t);
            block_.rows[block_.count++] = document.data + t * this->params_.d.row_stride;
        }
        if (block_.count > 0) block_.pad();
    }

    void add_pair(Value* to, std::int64_t pair) {
        const std::int64_t query = this->params_.pairs.query(pair);
        const std::int64_t length = this->params_.q.at(query).length;
        for (std::int64_t begin = 0; begin < length; begin += query_slice) {
            load(query, begin, std::min(begin + query_slice, length));
            if (queries_.rows() == 0) continue;
            const SimilarityBlock<Value> weights = similarities_.compute(queries_, block_);
            this->weigh(queries_, weights, pair);
            if (queries_.scales() != nullptr) scale(weights);
            this->machine_.select.accumulate(
                {weights.data, 1, weights.lanes, rows_.data(), queries_.rows(), to, block_.count, this->params_.dim});
        }
    }

    /// The gradient is that of normalised query rows.
    void scale(const SimilarityBlock<Value>& weights) const {
        for (std::int64_t r = 0; r < block_.count; ++r) {
            Value* row = weights.at(0, r);
            for (std::int64_t lane = 0; lane < queries_.rows(); ++lane) row[lane] *= queries_.scales()[lane];
        }
    }

    /// Query rows as panels, for similarities, and as they are, for the gradient.
    void load(std::int64_t query, std::int64_t begin, std::int64_t end) {
        const core::Params& params = this->params_;
        queries_.gather_slice(params, query, begin, end);
        queries_.pack(this->machine_.tiles, params, false);
        rows_.clear();
        Value* wide = wide_.reserve(query_slice * params.dim);
        const core::Segment segment = params.q.at(query);
        for (std::int64_t lane = 0; lane < queries_.rows(); ++lane) {
            Value* scratch = wide + lane * params.dim;
            const std::byte* row = segment.data + queries_.position(lane) * params.q.row_stride;
            row = widened(this->machine_.tiles, params.dtype, row, scratch, params.dim);
            if (params.normalize) inverse_norm(this->machine_.tiles, row, scratch, params.dim);
            rows_.push_back(row);
        }
    }

    Similarities<Value> similarities_;
    QueryBlock<Value> queries_;
    RowBlock block_;
    std::vector<const std::byte*> rows_;
    Buffer<Value> wide_;
};

template <class PassOf, class Value>
void run_pass(const SelectMachine<Value>& machine, const core::Params& params, const core::SmoothGradients& gradients,
              const std::vector<Owned>& tasks, const PairsOf& pairs, int threads) {
    const auto count = static_cast<std::int64_t>(tasks.size());
    const std::int64_t chunks = threads == 1 ? 1 : std::min(count, std::int64_t{threads} * 4 * tasks_per_thread);
    core::parallel_for(threads, chunks, [&](std::int64_t chunk) {
        PassOf pass(machine, params, gradients);
        for (std::int64_t i = count * chunk / chunks; i < count * (chunk + 1) / chunks; ++i) {
            pass.run(tasks[static_cast<std::size_t>(i)], pairs);
        }
    });
}

void clear(void* gradient, const core::Segments& side, const core::Params& params) {
    std::memset(gradient, 0, static_cast<std::size_t>(side.total_rows * params.dim) * size_of(params.dtype));
}

template <class Value>
void run_sides(const SelectMachine<Value>& machine, const core::Params& params,
               const core::SmoothGradients& gradients) {
    const double work = static_cast<double>(params.pairs.count) * static_cast<double>(params.q.max_length) *
                        static_cast<double>(params.d.max_length) * static_cast<double>(params.dim);
    const double worth = work / multiplications_per_thread;
    const int allowed = core::thread_count(params.threads);
    const int threads = worth < 2 ? 1 : static_cast<int>(std::min<double>(allowed, worth));
    const core::Pairs& pairs = params.pairs;
    if (gradients.q != nullptr) {
        clear(gradients.q, params.q, params);
        const PairsOf of(pairs.count, params.q.count, [&](std::int64_t p) { return pairs.query(p); });
        run_pass<QueryPass<Value>>(machine, params, gradients, cut_items(params.q, query_slice), of, threads);
    }
    if (gradients.d != nullptr) {
        clear(gradients.d, params.d, params);
        const PairsOf of(pairs.count, params.d.count, [&](std::int64_t p) { return pairs.document(p); });
        run_pass<DocumentPass<Value>>(machine, params, gradients, cut_items(params.d, select_block_rows), of, threads);
    }
}

}  // namespace

void smooth_backward(const TileOps& tiles, const SelectionOps& ops, const core::Params& params,
                     const core::SmoothGradients& gradients) {
    if (params.dtype == DType::f64) {
        run_sides(machine_of<double>(tiles, ops), params, gradients);
    } else {
        run_sides(machine_of<float>(tiles, ops), params, gradients);
    }
}

}  // namespace rowmax::cpu
