// Checkpoints of a search: a file that appears whole or not at all, from which the same search continues.
//
// The file begins with readable lines that say which search it belongs to: version, kernel, options, and for every
// input its size, time of change and a hash. Any difference makes it another search's checkpoint, so a
// resumed search cannot mix results of two. Then come the position and the best hits of each query, and a hash of
// everything.
#pragma once

#include <filesystem>
#include <string>

#include "stream/search.hpp"

namespace rowmax::stream {

/// The lines "name: value" that must agree, of a search whose inputs are files: the queries' contents, the corpora's
/// sizes, times and a sample. Ids are left out, since a checkpoint holds numbers.
std::string search_identity(const Search& search);

/// Throws Error(io) when it cannot be written; the previous checkpoint then stays.
void save_checkpoint(const std::filesystem::path& path, const std::string& identity, const Search& search);

enum class Resumed {
    absent,   ///< there is no checkpoint
    foreign,  ///< the file holds something else: it is not to be overwritten
    refused,  ///< it belongs to another search, or is damaged; `reason` says which and what
    taken,    ///< the search goes on from it
};
struct ResumeResult {
    Resumed outcome = Resumed::absent;
    std::string reason;
};

/// Takes up `search`, not yet begun, where the checkpoint stands.
ResumeResult resume_checkpoint(const std::filesystem::path& path, const std::string& identity, Search& search);

}  // namespace rowmax::stream
