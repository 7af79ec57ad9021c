// The kept rows of a list of documents, block by block, in the form that the tile kernel takes.
#pragma once

#include <cstdint>

#include "core/params.hpp"
#include "cpu/kernels/tile_ops.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

/// Rows of one document; hidden tokens are not among them.
struct RowBlock {
    static constexpr std::int64_t most_rows = most_block_rows + max_tile_rows;
    const std::byte* rows[most_rows];  ///< in the storage
    std::int32_t tokens[most_rows];
    std::int64_t count = 0;
    std::int64_t item = 0;  ///< which document of the list
    bool first = false;     ///< the document starts here
    bool last = false;      ///< the document ends here

    /// Repeats the last row, so that `upto` rows can be read (or fetched) and the repetition changes no maximum.
    void pad(std::int64_t upto) {
        for (; padded < upto; ++padded) {
            rows[padded] = rows[count - 1];
            tokens[padded] = tokens[count - 1];
        }
    }
    std::int64_t padded = 0;
};

/// Documents document(0) .. document(items - 1); of each, the tokens of part `part` of `parts`.
template <class DocumentOf>
class RowBlocks {
  public:
    RowBlocks(const core::Segments& documents, DocumentOf document, std::int64_t items, std::int64_t block_rows,
              std::int64_t part, std::int64_t parts)
        : documents_(documents), document_(document), items_(items), size_(block_rows), part_(part), parts_(parts) {
        open();
    }

    /// Fills `block` with the rows that follow; false when there are no more. An empty document gives one
    /// empty block.
    bool next(RowBlock& block) {
        if (item_ >= items_) return false;
        block.item = item_;
        block.first = token_ == begin_;
        block.count = 0;
        if (documents_.mask.data == nullptr) {
            take_all(block);
        } else {
            take_kept(block);
        }
        block.last = token_ == end_;
        block.padded = block.count;
        if (block.count > 0) block.pad(block.count + max_tile_rows);
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

    void take_all(RowBlock& block) {
        const std::byte* row = segment_.data + token_ * documents_.row_stride;
        for (; block.count < size_ && token_ < end_; ++token_, row += documents_.row_stride) {
            block.tokens[block.count] = static_cast<std::int32_t>(token_);
            block.rows[block.count++] = row;
        }
    }

    void take_kept(RowBlock& block) {
        for (; block.count < size_ && token_ < end_; ++token_) {
            if (!documents_.keeps(segment_, token_)) continue;
            block.tokens[block.count] = static_cast<std::int32_t>(token_);
            block.rows[block.count++] = segment_.data + token_ * documents_.row_stride;
        }
    }

    const core::Segments& documents_;
    DocumentOf document_;
    std::int64_t items_;
    std::int64_t size_;
    std::int64_t part_;
    std::int64_t parts_;
    core::Segment segment_;
    std::int64_t item_ = 0;
    std::int64_t begin_ = 0;
    std::int64_t token_ = 0;
    std::int64_t end_ = 0;
};

}  // namespace rowmax::cpu
