// Search in two stages over corpora that carry a coarse form: a scan of it, block by block, finds candidates; their
// exact scores are computed from the tokens in place. What is allocated does not grow with the corpora.
#pragma once

#include <cstdint>
#include <vector>

#include "core/topk.hpp"
#include "io/progress.hpp"
#include "io/token_source.hpp"
#include "rowmax/corpus.hpp"
#include "rowmax/maxsim.hpp"
#include "stream/device_backend.hpp"

namespace rowmax::stream {

struct TwoStageOptions {
    std::int64_t k = 10;
    std::int64_t candidates = 100;  ///< documents that get an exact score; at least k
    Coarse form = Coarse::int8;
    /// What the search may allocate, in bytes; 0: as it likes.
    std::int64_t memory = 0;
    std::int64_t held = 0;  ///< bytes of it that the process has taken already
    /// The CUDA devices that share the scan among them, the first of which scores exactly; none: the CPU.
    std::vector<int> devices;
    const DeviceBackend* backend = nullptr;  ///< of the devices; null: this build's
    Options score;                           ///< without normalisation
    io::ProgressFn progress = {};            ///< in (query, document) pairs
};

/// The lists of all queries; documents are numbered through all corpora. The same for any memory and threads. Throws
/// Error when types or dimensions disagree, a corpus lacks the form, or `memory` is too little for one query.
core::TopK search_two_stages(const io::TokenSource& queries, const std::vector<Corpus>& corpora,
                             const TwoStageOptions& options);

}  // namespace rowmax::stream
