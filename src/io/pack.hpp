// Any input -> a corpus file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "io/progress.hpp"
#include "io/token_source.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::io {

struct PackOptions {
    /// Converts the tokens, rounding to nearest even; a finite value that becomes infinite is an error. Not set: as
    /// they are.
    std::optional<DType> dtype = {};
    std::vector<Coarse> coarse = {};  ///< forms to store beside the tokens
    /// Tokens are read and written in blocks of about this many bytes.
    std::int64_t block_bytes = std::int64_t{64} << 20;
    ProgressFn progress = {};
};

struct PackReport {
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::uint64_t file_bytes = 0;
};

/// Masked tokens are left out; stored ids are kept. Whole or not at all.
PackReport pack(const TokenSource& source, const std::filesystem::path& path, const PackOptions& options = {});

}  // namespace rowmax::io
