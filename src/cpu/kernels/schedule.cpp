#include "cpu/kernels/schedule.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

Schedule::Schedule(const core::Params& params, std::int64_t block_rows)
    : params_(params), block_rows_(block_rows), cross_(params.pairs.kind == core::PairKind::cross) {
    units_ = params.pairs.count;
    if (cross_) group_queries();
    choose_tasks();
}

void Schedule::group_queries() {
    blocks_.push_back(0);
    std::int64_t rows = 0;
    for (std::int64_t q = 0; q < params_.q.count; ++q) {
        const std::int64_t length = params_.q.at(q).length;
        if (rows > 0 && rows + length > block_rows_) {
            blocks_.push_back(q);
            rows = 0;
        }
        rows += length;
    }
    blocks_.push_back(params_.q.count);
    units_ = (static_cast<std::int64_t>(blocks_.size()) - 1) * params_.pairs.width;
}

void Schedule::choose_tasks() {
    const double work = static_cast<double>(params_.pairs.count) * static_cast<double>(params_.q.max_length) *
                        static_cast<double>(params_.d.max_length) * static_cast<double>(params_.dim);
    const core::Projection* projection = core::projection_of(params_);
    const double projecting = projection == nullptr
                                  ? 0
                                  : static_cast<double>(units_) * static_cast<double>(projection->hidden) *
                                        static_cast<double>(params_.d.max_length) * static_cast<double>(params_.dim);
    const double worth = (work + projecting) / multiplications_per_thread;
    const int allowed = core::thread_count(params_.threads);  // refuses a wrong ROWMAX_THREADS at every size
    if (worth < 2) return;
    threads_ = allowed;
    if (worth < threads_) threads_ = static_cast<int>(worth);
    if (threads_ < 2) return;
    const std::int64_t wanted = std::int64_t{threads_} * tasks_per_thread;
    tasks_ = std::min(units_, wanted);
    if (units_ >= std::int64_t{threads_} * 2) return;
    parts_ = std::clamp<std::int64_t>(params_.d.max_length / least_part, 1, (wanted + units_ - 1) / units_);
    tasks_ = units_ * parts_;
}

Span Schedule::span(std::int64_t unit, std::int64_t limit) const {
    Span span;
    span.unit = unit;
    if (cross_) {
        const auto block = static_cast<std::size_t>(unit / params_.pairs.width);
        span.first_query = blocks_[block];
        span.last_query = blocks_[block + 1];
        span.count = std::min(limit - unit, params_.pairs.width - unit % params_.pairs.width);
        return span;
    }
    span.first_query = params_.pairs.query(unit);
    span.last_query = span.first_query + 1;
    std::int64_t end = unit + 1;
    while (end < limit && params_.pairs.query(end) == span.first_query) ++end;
    span.count = end - unit;
    return span;
}

std::int64_t Schedule::document(std::int64_t unit) const {
    return cross_ ? unit % params_.pairs.width : params_.pairs.document(unit);
}

std::int64_t Schedule::pair(std::int64_t query, std::int64_t unit) const {
    return cross_ ? query * params_.pairs.width + unit % params_.pairs.width : unit;
}

}  // namespace rowmax::cpu
