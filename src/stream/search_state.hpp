// What a search is, whatever computes it: its inputs, how far it has come, and the best so far.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/topk.hpp"
#include "io/token_source.hpp"
#include "rowmax/corpus.hpp"
#include "rowmax/maxsim.hpp"
#include "stream/device_backend.hpp"

namespace rowmax::stream {

struct SearchOptions {
    std::int64_t k = 10;
    /// What the search may allocate on the host, in bytes; 0: as it likes.
    std::int64_t memory = 0;
    std::int64_t held = 0;  ///< bytes of it that the process has taken already
    /// The CUDA devices that share the documents among them; none: the CPU. One may be named several times.
    std::vector<int> devices;
    /// Documents are in this form, and queries are brought into the one it is compared with. On devices only.
    std::optional<Coarse> form = {};
    std::int64_t block_documents = 0;        ///< most documents a block on a device; 0: chosen
    const DeviceBackend* backend = nullptr;  ///< of the devices; null: this build's
    /// The kernel name's characters must outlive the search; where the memory lies is not read from here.
    Options score;
};

/// How far a search has come: documents [0, first) are done, and documents [first, last) for queries [0, queries).
struct SearchPosition {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t queries = 0;
};

struct SearchState {
    /// Where a document lies.
    struct Place {
        std::size_t corpus = 0;
        std::int64_t item = 0;
    };

    /// Throws Error when types or dimensions disagree.
    SearchState(io::TokenSource queries_, std::vector<io::TokenSource> corpora_, SearchOptions options_);

    [[nodiscard]] std::int64_t query_count() const { return queries.count(); }
    [[nodiscard]] std::int64_t document_count() const { return starts.back(); }
    [[nodiscard]] Place place(std::int64_t document) const;
    /// Of queries as they are scored.
    [[nodiscard]] DType query_dtype() const;

    io::TokenSource queries;
    std::vector<io::TokenSource> corpora;
    SearchOptions options;
    std::vector<std::int64_t> starts;  ///< number of each corpus' first document; last: of all documents
    core::TopK best;
    SearchPosition position;
};

}  // namespace rowmax::stream
