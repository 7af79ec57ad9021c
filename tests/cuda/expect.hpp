// What every row of the GPU's table is held to, on samples.
#pragma once

#include "cpu/sample.hpp"

namespace rowmax::test {

/// Small whole numbers: scores and tokens must equal the CPU's, whose rows tests/cpu compares with the oracle.
void expect_exact(const Shape& shape, int threads = 8);

/// The same bits, but for the signs of zeros, or a failure that says where they differ first.
void expect_same(const Array& got, const Array& want, std::string_view what);

/// Every row gives the first one's bits, with and without the winning tokens.
void expect_same_bits_on_every_row(const Sample& sample);

}  // namespace rowmax::test
