// Ranking the documents of a PLAID index: all of them exactly, or those that its centroids lead to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "cli/ranking.hpp"
#include "io/plaid_index.hpp"
#include "io/token_source.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/plaid.hpp"

namespace rowmax::cli {

/// The k best documents of each query, numbered through all chunks; every token is decoded on the way to the kernels.
/// `queries` must outlive the result.
/// `memory`: most the process may allocate, in bytes; 0: as it likes. Throws Error(out_of_memory) when it is too
/// little.
Ranking search_index(const io::PlaidIndex& index, const io::TokenSource& queries, std::int64_t k,
                     const Options& options, std::int64_t memory);

/// The same of the documents that PLAID finds, whose lists may have fewer than k.
Ranking probe_index(const io::PlaidIndex& index, const io::TokenSource& queries, std::int64_t k,
                    const PlaidSearchOptions& how, const Options& options);

}  // namespace rowmax::cli
