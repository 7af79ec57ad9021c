// Queries and documents in memory, for tests of the streaming search.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "io/token_source.hpp"
#include "support/array.hpp"

namespace rowmax::test {

/// `count` items of `length` tokens whose scores are exact and often equal.
inline io::TokenSource collection(std::int64_t count, std::int64_t length, std::int64_t dim, unsigned seed,
                                  DType dtype = DType::f32) {
    std::mt19937 random(seed);
    std::vector<double> values;
    for (std::int64_t i = 0; i < std::max<std::int64_t>(count * length * dim, 1); ++i)
        values.push_back(static_cast<double>(random() % 5) - 2);
    const auto array = std::make_shared<Array>(dtype, std::vector<std::int64_t>{count, length, dim}, values);
    TokenSet set;
    set.tokens = array->view();
    return io::tokens_in_memory(set, io::Ids(count), array);
}

}  // namespace rowmax::test
