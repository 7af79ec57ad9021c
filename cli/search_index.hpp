// Ranking the documents of a PLAID index, exactly: every token is decoded on the way to the kernels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "cli/ranking.hpp"
#include "io/plaid_index.hpp"
#include "io/token_source.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::cli {

/// The k best documents of each query, numbered through all chunks. `queries` must outlive the result.
Ranking search_index(const io::PlaidIndex& index, const io::TokenSource& queries, std::int64_t k,
                     const Options& options);

}  // namespace rowmax::cli
