// Lane: one device at work on its share of the documents.
//
//   host     pack block i+1 into pinned memory | pack block i+2 | ...
//   copies              block i to the device  | block i+1      | ...
//   scoring                                      score block i, merge it into the lists | block i+1 | ...
//
// Two blocks on each side take turns. A pinned block is written again when its copy is done, a device's block
// when it is scored; the host waits for the first, the copies' stream for the second. The lists stay on the device
// until somebody asks: they number documents as they come, so that a later list continues an earlier one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rowmax/compressed.hpp"
#include "stream/device_memory.hpp"
#include "stream/device_plan.hpp"
#include "stream/packing.hpp"
#include "stream/search_state.hpp"

namespace rowmax::stream {

class Lane {
  public:
    /// Takes its memory and brings the queries over. `state`, `backend` and `plan` outlive it.
    Lane(const SearchState& state, const DeviceBackend& backend, const DevicePlan& plan, int ordinal);
    ~Lane();
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    /// Begins the documents of a block, which are `first` and the next ones; returns when their tokens were read.
    void add(const TokenSet& documents, std::int64_t first);
    /// Documents that can be added before the lists are collected.
    [[nodiscard]] std::int64_t room() const { return core::most_device_documents - seen_; }
    /// Waits for everything that was added, and offers the best of it.
    void collect(core::TopK& best);

  private:
    struct Slot {
        Handle pinned;
        Handle device;
        Handle copied;
        Handle scored;
    };
    /// Documents from `local` on, as this lane counts, are `global` and the next ones.
    struct Numbering {
        std::int64_t local = 0;
        std::int64_t global = 0;
    };

    void take_memory();
    void bring_queries();
    /// All of them, through the pinned blocks; `each` bytes a row, which `write(first, last, to)` writes.
    template <class Write>
    void bring_rows(std::int64_t rows, std::int64_t each, std::byte* to, Write write);
    void bring_query_rows(const Packing& packing, std::int64_t first);
    /// Of residual documents, once: all have the same.
    void bring_tables(const ResidualTables& host);
    TensorView bring_table(Handle& memory, const TensorView& host);
    void fill(Slot& slot, const Packing& packing, const BlockLayout& layout);
    void score_block(const Slot& slot, const Packing& packing, const TokenSet& documents, const BlockLayout& layout);
    void merge(std::int64_t documents, float* best, std::int64_t* index);
    void finish(const Handle& stream);
    [[nodiscard]] std::int64_t global_number(std::int64_t local) const;
    [[nodiscard]] core::Place place(const Handle& stream) const { return {true, ordinal_, stream.get(), nullptr}; }
    static void* scratch(void* lane, std::size_t bytes);

    const SearchState& state_;
    const DeviceBackend& backend_;
    const core::DeviceRuntime& runtime_;
    const DevicePlan& plan_;
    int ordinal_;
    int threads_;

    Handle query_tokens_;
    Handle query_starts_;
    Handle query_mask_;
    Handle query_scale_;
    TokenSet queries_;
    Handle centroids_;
    Handle weights_;
    std::optional<ResidualTables> tables_;  ///< of the device
    Handle scores_;                         ///< of a chunk
    Handle lists_;
    Handle best_;
    Handle index_;
    Handle scratch_;
    std::size_t scratch_bytes_ = 0;
    Slot slots_[2];
    int turn_ = 0;
    Handle done_;
    // Streams end first, and wait for what uses the memory above.
    Handle copies_;
    Handle scoring_;

    std::int64_t seen_ = 0;    ///< documents since the lists were collected
    std::int64_t chunks_ = 0;  ///< likewise
    std::vector<Numbering> numbering_;
};

}  // namespace rowmax::stream
