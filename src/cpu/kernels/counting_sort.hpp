// The inverse of a map from sources to destinations, by counting.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rowmax::cpu {

/// Sources 0 .. count - 1 grouped by destination(source): those of d are source[first[d]] .. source[first[d + 1]],
/// ascending. Destinations outside [0, n) drop their source. `first` has n + 1 elements.
template <class Number, class DestinationOf>
void counting_sort(Number count, std::int64_t n, DestinationOf destination, Number* first, Number* source) {
    std::fill_n(first, n + 1, Number{0});
    const auto each = [&](Number s, auto&& f) {
        const std::int64_t d = destination(s);
        if (d >= 0 && d < n) f(first[d]);
    };
    for (Number s = 0; s < count; ++s) each(s, [](Number& number) { ++number; });
    for (std::int64_t d = 0; d < n; ++d) first[d + 1] = static_cast<Number>(first[d] + first[d + 1]);
    // first[d] is now where d ends; filling backwards leaves it where d starts.
    for (Number s = count; s-- > 0;) each(s, [&](Number& end) { source[--end] = s; });
}

}  // namespace rowmax::cpu
