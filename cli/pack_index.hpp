// rowmax pack --index: any input -> an index that PLAID searches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "io/plaid_writer.hpp"
#include "io/token_source.hpp"

namespace rowmax::cli {

struct PackIndexOptions {
    std::optional<std::int64_t> nbits;
    std::optional<std::int64_t> centroids;
    std::optional<std::int64_t> iterations;
    int threads = 0;
    std::int64_t memory = 0;  ///< what may be allocated beside what is; 0: as needed

    [[nodiscard]] bool any() const { return nbits || centroids || iterations || threads > 0; }
};

io::PlaidWriteReport pack_index(const io::TokenSource& source, const std::filesystem::path& folder,
                                const PackIndexOptions& options);

}  // namespace rowmax::cli
