#include "cli/pack_index.hpp"

#include <algorithm>

#include "cli/shared.hpp"

namespace rowmax::cli {

io::PlaidWriteReport pack_index(const io::TokenSource& source, const std::filesystem::path& folder,
                                const PackIndexOptions& options) {
    Progress progress("packing", "documents");
    io::PlaidWriteOptions write;
    write.nbits = static_cast<int>(options.nbits.value_or(write.nbits));
    write.centroids = options.centroids.value_or(write.centroids);
    write.iterations = static_cast<int>(options.iterations.value_or(write.iterations));
    write.threads = options.threads;
    write.progress = progress.callback();
    if (options.memory > 0) {
        // The sample with its codes, and a block that is read and converted.
        write.sample_bytes = std::min(write.sample_bytes, std::max<std::int64_t>(options.memory / 4, 1));
        write.block_bytes = std::min(write.block_bytes, std::max<std::int64_t>(options.memory / 8, 1));
    }
    const io::PlaidWriteReport report = io::write_plaid_index(source, folder, write);
    progress.finish();
    return report;
}

}  // namespace rowmax::cli
