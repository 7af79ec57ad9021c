#include "cpu/kernels/select.hpp"

#include <span>

#include "cpu/kernels/select_folds.hpp"

namespace rowmax::cpu {

namespace {

/// Calls f.operator()<Value>() with the type that the problem's tokens are computed in.
template <class F>
void with_value(const core::Params& params, F f) {
    if (params.dtype == DType::f64) {
        f.template operator()<double>();
    } else {
        f.template operator()<float>();
    }
}

}  // namespace

void score_top_tokens(const TileOps& tiles, const SelectionOps& ops, const core::Params& params,
                      const core::TopTokens& out) {
    with_value(params, [&]<class Value>() {
        const SelectMachine<Value> machine = machine_of<Value>(tiles, ops);
        scan_pairs(machine, params, [&](const Schedule& schedule) {
            return TopTokensFold<Value>(params, schedule, machine.select, out);
        });
    });
}

void score_smooth(const TileOps& tiles, const SelectionOps& ops, const core::Params& params, const core::Smooth& out) {
    with_value(params, [&]<class Value>() {
        const SelectMachine<Value> machine = machine_of<Value>(tiles, ops);
        scan_pairs(machine, params,
                   [&](const Schedule& schedule) { return SmoothFold<Value>(params, schedule, machine.select, out); });
    });
}

void score_prefixes(const TileOps& tiles, const SelectionOps& ops, const core::Params& params,
                    const core::Prefixes& out) {
    with_value(params, [&]<class Value>() {
        const SelectMachine<Value> machine = machine_of<Value>(tiles, ops);
        scan_pairs(
            machine, params,
            [&](const Schedule& schedule) { return PrefixFold<Value>(params, schedule, machine.select, out); },
            std::span(out.dims, static_cast<std::size_t>(out.count)));
    });
}

}  // namespace rowmax::cpu
