// What distances between points need beyond vec_scalar.hpp, in plain C++.
#pragma once

#include "cpu/prim/vec_scalar.hpp"

namespace rowmax::cpu {
namespace {

template <class T, int Lanes>
struct ScalarPoints : ScalarVec<T, Lanes> {
    using Base = ScalarVec<T, Lanes>;
    using Reg = typename Base::Reg;
    using Mask = typename Base::Mask;
    static Reg sub(Reg a, Reg b) {
        return Base::template each<Reg>([&](int i) { return a.v[i] - b.v[i]; });
    }
    static Reg abs(Reg a) {
        return Base::template each<Reg>([&](int i) { return std::fabs(a.v[i]); });
    }
    static Mask less_equal(Reg a, Reg b) {
        return Base::template each<Mask>([&](int i) { return a.v[i] <= b.v[i]; });
    }
    static unsigned bits(Mask m) {
        unsigned all = 0;
        for (int i = 0; i < Lanes; ++i) all |= unsigned{m.v[i]} << i;
        return all;
    }
};

}  // namespace
}  // namespace rowmax::cpu
