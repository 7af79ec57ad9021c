#include "cpu/kernels/layer_gradient.hpp"

#include <algorithm>
#include <cstring>

#include "core/parallel.hpp"
#include "cpu/kernels/gradient_rows.hpp"
#include "cpu/kernels/regions.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

namespace {

/// Rows and panels of grad W that a thread adds to together.
constexpr std::int64_t weight_rows_of_task = 24;
constexpr std::int64_t weight_panels_of_task = 8;

template <class Value>
struct LayerScratch {
    Buffer<Value> state;
    Buffer<Value> product;
};

template <class Value>
LayerScratch<Value>& layer_scratch() {
    static thread_local LayerScratch<Value> mine;
    return mine;
}

constexpr std::int64_t weight_pieces(std::int64_t count, std::int64_t of_piece) {
    return (count + of_piece - 1) / of_piece;
}

}  // namespace

template <class Value>
LayerGradient<Value>::LayerGradient(const TileOps& ops, const core::Params& params, const core::Gradients& gradients,
                                    int threads)
    : ops_(ops), params_(params), gradients_(gradients), projection_(core::projection_of(params)), threads_(threads) {
    bias_run_.reserve(params.dim);
    std::fill_n(bias_.reserve(params.dim), params.dim, Value{0});
    if (gradients.weight == nullptr) return;
    const std::int64_t lanes = project_lanes<Value>(ops);
    const std::int64_t width = weight_pieces(projection_->hidden, lanes) * lanes;
    std::fill_n(weight_.reserve(params.dim * width), params.dim * width, Value{0});
    columns_.reserve(params.dim * sources_per_run);
}

template <class Value>
void LayerGradient<Value>::add(const std::vector<Winner>& winners, const Value* gradient, std::int64_t width) {
    const auto total = static_cast<std::int64_t>(winners.size());
    for (std::int64_t first = 0; first < total; first += sources_per_run) {
        const std::int64_t count = std::min(sources_per_run, total - first);
        add_run(winners.data() + first, gradient + first * width, width, count);
    }
}

template <class Value>
void LayerGradient<Value>::add_run(const Winner* winners, const Value* gradient, std::int64_t width,
                                   std::int64_t count) {
    Value* run = bias_run_.data();
    std::copy_n(gradient, params_.dim, run);
    for (std::int64_t t = 1; t < count; ++t) {
        for (std::int64_t k = 0; k < params_.dim; ++k) run[k] += gradient[t * width + k];
    }
    for (std::int64_t k = 0; k < params_.dim; ++k) bias_[k] += run[k];
    if (gradients_.weight != nullptr) add_to_weight(winners, gradient, width, count);
}

template <class Value>
void LayerGradient<Value>::add_to_weight(const Winner* winners, const Value* gradient, std::int64_t width,
                                         std::int64_t count) {
    tokens_ = count;
    states_.reshape(ops_, count, projection_->hidden);
    core::parallel_for(threads_, weight_pieces(count, weight_rows_of_task), [&](std::int64_t task) {
        Value* scratch = layer_scratch<Value>().state.reserve(projection_->hidden);
        const std::int64_t end = std::min(count, (task + 1) * weight_rows_of_task);
        for (std::int64_t t = task * weight_rows_of_task; t < end; ++t) {
            const std::byte* state = stored_row(params_.d, winners[t].row);
            states_.set_step(t, widened(ops_, params_.dtype, state, scratch, projection_->hidden));
            for (std::int64_t k = 0; k < params_.dim; ++k) columns_[k * count + t] = gradient[t * width + k];
        }
    });
    const std::int64_t across = weight_pieces(states_.panels(), weight_panels_of_task);
    core::parallel_for(threads_, weight_pieces(params_.dim, weight_rows_of_task) * across, [&](std::int64_t task) {
        const std::int64_t first = task % across * weight_panels_of_task;
        add_product(task / across * weight_rows_of_task,
                    {first, std::min(first + weight_panels_of_task, states_.panels())});
    });
}

template <class Value>
void LayerGradient<Value>::add_product(std::int64_t first_row, PanelRange panels) {
    const std::byte* rows[weight_rows_of_task + row_padding];
    const std::int64_t count = std::min(weight_rows_of_task, params_.dim - first_row);
    for (std::int64_t r = 0; r < count; ++r) {
        rows[r] = reinterpret_cast<const std::byte*>(columns_.data() + (first_row + r) * tokens_);
    }
    std::fill_n(rows + count, row_padding, rows[count - 1]);
    const std::int64_t width = (panels.end - panels.first) * states_.lanes();
    Value* product = layer_scratch<Value>().product.reserve((weight_rows_of_task + row_padding) * width);
    states_.multiply(ops_, panels, rows, count, run_length(sizeof(Value)), nullptr, product, width);
    for (std::int64_t r = 0; r < count; ++r) {
        Value* sum = weight_.data() + (first_row + r) * states_.width() + panels.first * states_.lanes();
        for (std::int64_t j = 0; j < width; ++j) sum[j] += product[r * width + j];
    }
}

template <class Value>
void LayerGradient<Value>::finish() const {
    const auto size = static_cast<std::int64_t>(size_of(params_.dtype));
    if (gradients_.bias != nullptr) {
        write_row(params_.dtype, bias_.data(), static_cast<std::byte*>(gradients_.bias), params_.dim);
    }
    if (gradients_.weight == nullptr) return;
    const std::int64_t lanes = project_lanes<Value>(ops_);
    const std::int64_t width = weight_pieces(projection_->hidden, lanes) * lanes;
    for (std::int64_t k = 0; k < params_.dim; ++k) {
        std::byte* row = static_cast<std::byte*>(gradients_.weight) + k * projection_->hidden * size;
        write_row(params_.dtype, weight_.data() + k * width, row, projection_->hidden);
    }
}

template class LayerGradient<float>;
template class LayerGradient<double>;

}  // namespace rowmax::cpu
