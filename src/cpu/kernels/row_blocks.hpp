// The kept rows of a list of documents, block by block, in the form that the tile kernel takes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/params.hpp"
#include "cpu/kernels/tile_ops.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

/// Rows of one document; hidden tokens are not among them.
struct RowBlock {
    static constexpr std::int64_t most_rows = most_block_rows + row_padding;
    const std::byte* rows[most_rows];  ///< in the storage
    std::int32_t tokens[most_rows];
    std::int64_t count = 0;
    std::int64_t item = 0;      ///< which document of the list
    std::int64_t document = 0;  ///< and of the side
    bool first = false;         ///< the document starts here
    bool last = false;          ///< the document ends here

    /// Repeats the last row up to whole tiles: repetition changes no maximum.
    void pad() {
        for (std::int64_t i = count; i < count + row_padding; ++i) {
            rows[i] = rows[count - 1];
            tokens[i] = tokens[count - 1];
        }
    }
};

/// Blocks are whole tiles of `tile_rows`, at most `most_rows`.
struct BlockShape {
    std::int64_t most_rows = 0;
    std::int64_t tile_rows = 0;
};

/// Documents document(0) .. document(items - 1); of each, the tokens of part `part` of `parts`.
template <class DocumentOf>
class RowBlocks {
  public:
    RowBlocks(const core::Segments& documents, DocumentOf document, std::int64_t items, BlockShape shape,
              std::int64_t part, std::int64_t parts)
        : documents_(documents), document_(document), items_(items), shape_(shape), part_(part), parts_(parts) {
        open();
    }

    /// Fills `block` with the rows that follow; false when there are no more. An empty document gives one
    /// empty block.
    bool next(RowBlock& block) {
        if (item_ >= items_) return false;
        block.item = item_;
        block.document = document_(item_);
        block.first = token_ == begin_;
        block.count = 0;
        const std::int64_t size = block_size();
        if (documents_.mask.data == nullptr) {
            take_all(block, size);
        } else {
            take_kept(block, size);
        }
        block.last = token_ == end_;
        if (block.count > 0) block.pad();
        if (block.last) {
            ++item_;
            open();
        }
        return true;
    }

  private:
    void open() {
        if (item_ >= items_) return;
        segment_ = documents_.at(document_(item_));
        begin_ = token_ = segment_.length * part_ / parts_;
        end_ = segment_.length * (part_ + 1) / parts_;
    }

    // Whole tiles, and about as many in the document's last block as in the others: while a short block is computed,
    // there is little time to fetch a long one.
    [[nodiscard]] std::int64_t block_size() const {
        const std::int64_t left = end_ - token_;
        const std::int64_t blocks = (left + shape_.most_rows - 1) / shape_.most_rows;
        if (blocks == 0) return 0;
        const std::int64_t tiles = (left + blocks * shape_.tile_rows - 1) / (blocks * shape_.tile_rows);
        return tiles * shape_.tile_rows;
    }

    void take_all(RowBlock& block, std::int64_t size) {
        const std::byte* row = segment_.data + token_ * documents_.row_stride;
        const auto token = static_cast<std::int32_t>(token_);
        const std::int64_t count = std::min(size, end_ - token_);
        for (std::int64_t i = 0; i < count; ++i) block.rows[i] = row + i * documents_.row_stride;
        for (std::int64_t i = 0; i < count; ++i) block.tokens[i] = token + static_cast<std::int32_t>(i);
        block.count = count;
        token_ += count;
    }

    void take_kept(RowBlock& block, std::int64_t size) {
        for (; block.count < size && token_ < end_; ++token_) {
            if (!documents_.keeps(segment_, token_)) continue;
            block.tokens[block.count] = static_cast<std::int32_t>(token_);
            block.rows[block.count++] = segment_.data + token_ * documents_.row_stride;
        }
    }

    const core::Segments& documents_;
    DocumentOf document_;
    std::int64_t items_;
    BlockShape shape_;
    std::int64_t part_;
    std::int64_t parts_;
    core::Segment segment_;
    std::int64_t item_ = 0;
    std::int64_t begin_ = 0;
    std::int64_t token_ = 0;
    std::int64_t end_ = 0;
};

}  // namespace rowmax::cpu
