// Any input -> an index as fast-plaid writes it, which fast-plaid, next-plaid and PlaidIndex read. docs/formats.md.
#pragma once

#include <cstdint>
#include <filesystem>

#include "io/progress.hpp"
#include "io/token_source.hpp"

namespace rowmax::io {

struct PlaidWriteOptions {
    int nbits = 4;                          ///< 1, 2, 4 or 8
    std::int64_t centroids = 0;             ///< 0: the power of two at or below 16 sqrt(tokens), as ColBERTv2
    int iterations = 4;                     ///< rounds of k-means
    std::int64_t chunk_documents = 25'000;  ///< in one pair of files, as ColBERTv2
    /// Tokens are read in blocks of about this many bytes.
    std::int64_t block_bytes = std::int64_t{64} << 20;
    /// Most bytes of tokens that centroids are made from, 64 a centroid otherwise.
    std::int64_t sample_bytes = std::int64_t{256} << 20;
    int threads = 0;
    ProgressFn progress = {};  ///< in documents, each of which is read twice
};

struct PlaidWriteReport {
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::int64_t centroids = 0;
    std::int64_t chunks = 0;
};

/// Masked tokens are left out, the others scaled to length 1; ids are not kept, since the format has none. The folder
/// must not exist, or be empty; it appears whole or not at all. The same bytes for any number of threads. Beside a
/// sample and blocks, memory holds 8 bytes a token at the end.
PlaidWriteReport write_plaid_index(const TokenSource& source, const std::filesystem::path& folder,
                                   const PlaidWriteOptions& options = {});

}  // namespace rowmax::io
