#include "io/token_store.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/half.hpp"
#include "core/views.hpp"
#include "io/file_error.hpp"

namespace rowmax::io {

namespace {

/// A list of int64 that stays in the file where it can.
struct Numbers {
    std::span<const std::int64_t> values;
    std::shared_ptr<const void> owner;
};

Numbers owned(std::vector<std::int64_t> values) {
    const auto kept = std::make_shared<const std::vector<std::int64_t>>(std::move(values));
    return {*kept, kept};
}

Numbers numbers(const Array& array, std::string_view name, const std::string& where) {
    const TensorView& view = array.view;
    if (view.ndim != 1 || (view.dtype != DType::i32 && view.dtype != DType::i64)) {
        bad_data(where, "{}: {} {}, a list of int32 or int64 is expected", name, name_of(view.dtype),
                 view.shape_text());
    }
    const auto count = static_cast<std::size_t>(view.shape[0]);
    const bool in_place = view.dtype == DType::i64 && view.contiguous() && is_aligned(view);
    if (in_place) return {{static_cast<const std::int64_t*>(view.data), count}, array.owner};
    std::vector<std::int64_t> values(count);
    const auto* from = static_cast<const std::byte*>(view.data);
    for (std::int64_t& value : values) {
        value = view.dtype == DType::i64 ? core::load<std::int64_t>(from) : core::load<std::int32_t>(from);
        from += view.stride[0] * static_cast<std::int64_t>(size_of(view.dtype));
    }
    return owned(std::move(values));
}

/// Rows first .. last - 1 of the outermost dimension.
Array slice(const Array& array, std::int64_t first, std::int64_t last) {
    return {core::rows_of(array.view, first, last), array.owner};
}

TensorView list_view(std::span<const std::int64_t> values) {
    return {values.data(), DType::i64, {static_cast<std::int64_t>(values.size())}};
}

/// Keeps several things alive as one.
std::shared_ptr<const void> together(std::vector<std::shared_ptr<const void>> owners) {
    return std::make_shared<const std::vector<std::shared_ptr<const void>>>(std::move(owners));
}

/// A block whose tokens are `part`, copied if they are not aligned: a kernel reads whole elements.
TokenBlock start_block(const Array& part) {
    TokenBlock block;
    const bool copy = part.view.contiguous() && !is_aligned(part.view);
    const Array tokens = copy ? aligned(part) : part;
    block.set.tokens = tokens.view;
    block.owner = tokens.owner;
    if (copy) block.copied_bytes = tokens.view.numel() * static_cast<std::int64_t>(size_of(tokens.view.dtype));
    return block;
}

void check_packed(const Array& tokens, const std::string& where) {
    if (tokens.view.ndim == 2) return;
    bad_data(where, "tokens: {}, packed tokens are [T, d]", tokens.view.shape_text());
}

class StoreBase : public TokenStore {
  public:
    StoreBase(Array tokens, int dim_axis) : tokens_(std::move(tokens)), dim_(tokens_.view.shape[dim_axis]) {}
    [[nodiscard]] std::int64_t dim() const override { return dim_; }
    [[nodiscard]] DType dtype() const override { return tokens_.view.dtype; }

  protected:
    Array tokens_;
    std::int64_t dim_;
};

class DenseStore final : public StoreBase {
  public:
    DenseStore(Array tokens, Array mask) : StoreBase(std::move(tokens), 2), mask_(std::move(mask)) {}

    [[nodiscard]] std::int64_t count() const override { return tokens_.view.shape[0]; }
    [[nodiscard]] std::int64_t length(std::int64_t) const override { return tokens_.view.shape[1]; }
    [[nodiscard]] std::int64_t max_length() const override { return tokens_.view.shape[1]; }
    [[nodiscard]] std::int64_t token_count() const override { return tokens_.view.shape[0] * tokens_.view.shape[1]; }

    [[nodiscard]] TokenBlock block(std::int64_t first, std::int64_t last) const override {
        TokenBlock block = start_block(slice(tokens_, first, last));
        if (!mask_.view.given()) return block;
        const bool each = mask_.view.shape[0] != 1;  // else one row serves every item
        block.set.mask = each ? slice(mask_, first, last).view : mask_.view;
        block.owner = together({block.owner, mask_.owner});
        return block;
    }

  private:
    Array mask_;
};

class PackedStore final : public StoreBase {
  public:
    PackedStore(Array tokens, Numbers cu_seqlens, const std::string& where)
        : StoreBase(std::move(tokens), 1), cu_(std::move(cu_seqlens)) {
        const std::int64_t rows = tokens_.view.shape[0];
        if (cu_.values.empty()) bad_data(where, "cu_seqlens: it is empty, one offset more than items is needed");
        if (cu_.values[0] != 0) bad_data(where, "cu_seqlens[0]: {}, it must be 0", cu_.values[0]);
        for (std::size_t i = 1; i < cu_.values.size(); ++i) {
            if (cu_.values[i] < cu_.values[i - 1] || cu_.values[i] > rows) {
                bad_data(where, "cu_seqlens[{}]: {} after {}, of {} tokens", i, cu_.values[i], cu_.values[i - 1], rows);
            }
            max_length_ = std::max(max_length_, cu_.values[i] - cu_.values[i - 1]);
        }
    }

    [[nodiscard]] std::int64_t count() const override { return static_cast<std::int64_t>(cu_.values.size()) - 1; }
    [[nodiscard]] std::int64_t length(std::int64_t item) const override { return start(item + 1) - start(item); }
    [[nodiscard]] std::int64_t max_length() const override { return max_length_; }
    [[nodiscard]] std::int64_t token_count() const override { return cu_.values.back(); }

    [[nodiscard]] TokenBlock block(std::int64_t first, std::int64_t last) const override {
        TokenBlock block = start_block(slice(tokens_, start(first), start(last)));
        Numbers offsets{cu_.values.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first) + 1),
                        cu_.owner};
        if (first > 0) {  // offsets count from the block's first token
            std::vector<std::int64_t> rebased(offsets.values.begin(), offsets.values.end());
            for (std::int64_t& offset : rebased) offset -= start(first);
            offsets = owned(std::move(rebased));
        }
        block.set.cu_seqlens = list_view(offsets.values);
        block.owner = together({block.owner, offsets.owner});
        return block;
    }

  private:
    [[nodiscard]] std::int64_t start(std::int64_t item) const { return cu_.values[static_cast<std::size_t>(item)]; }
    Numbers cu_;
    std::int64_t max_length_ = 0;
};

class RangesStore final : public StoreBase {
  public:
    RangesStore(Array tokens, Numbers offsets, Numbers lengths, const std::string& where)
        : StoreBase(std::move(tokens), 1), offsets_(std::move(offsets)), lengths_(std::move(lengths)) {
        const std::int64_t rows = tokens_.view.shape[0];
        if (offsets_.values.size() != lengths_.values.size()) {
            bad_data(where, "offsets and lengths: {} and {} entries", offsets_.values.size(), lengths_.values.size());
        }
        for (std::size_t i = 0; i < lengths_.values.size(); ++i) {
            const std::int64_t first = offsets_.values[i];
            const std::int64_t size = lengths_.values[i];
            if (first < 0 || size < 0 || first > rows || size > rows - first) {
                bad_data(where, "offsets[{}] and lengths[{}]: {} and {}, of {} tokens", i, i, first, size, rows);
            }
            max_length_ = std::max(max_length_, size);
            token_count_ += size;
        }
    }

    [[nodiscard]] std::int64_t count() const override { return static_cast<std::int64_t>(lengths_.values.size()); }
    [[nodiscard]] std::int64_t length(std::int64_t item) const override {
        return lengths_.values[static_cast<std::size_t>(item)];
    }
    [[nodiscard]] std::int64_t max_length() const override { return max_length_; }
    [[nodiscard]] std::int64_t token_count() const override { return token_count_; }

    [[nodiscard]] TokenBlock block(std::int64_t first, std::int64_t last) const override {
        const auto at = static_cast<std::size_t>(first);
        const auto n = static_cast<std::size_t>(last - first);
        std::vector<std::int64_t> starts(offsets_.values.begin() + first, offsets_.values.begin() + last);
        std::int64_t low = n > 0 ? starts[0] : 0;
        std::int64_t high = low;
        for (std::size_t i = 0; i < n; ++i) {
            low = std::min(low, starts[i]);
            high = std::max(high, starts[i] + lengths_.values[at + i]);
        }
        for (std::int64_t& start : starts) start -= low;
        TokenBlock block = start_block(slice(tokens_, low, high));
        const Numbers offsets = owned(std::move(starts));
        block.set.offsets = list_view(offsets.values);
        block.set.lengths = list_view(lengths_.values.subspan(at, n));
        block.owner = together({block.owner, offsets.owner, lengths_.owner});
        return block;
    }

  private:
    Numbers offsets_;
    Numbers lengths_;
    std::int64_t max_length_ = 0;
    std::int64_t token_count_ = 0;
};

/// [L, d] -> [1, L, d]: one more dimension in front.
void add_dimension(TensorView& view) {
    for (auto i = static_cast<std::size_t>(view.ndim); i > 0; --i) {
        view.shape[i] = view.shape[i - 1];
        view.stride[i] = view.stride[i - 1];
    }
    view.stride[0] = view.shape[1] * view.stride[1];
    view.shape[0] = 1;
    ++view.ndim;
}

/// [N, L, d] -> [N * L, d].
void join_dimensions(TensorView& view) {
    view.shape = {view.shape[0] * view.shape[1], view.shape[2]};
    view.stride = {view.stride[1], view.stride[2]};
    view.ndim = 2;
}

Array fitting_mask(Array mask, const TensorView& tokens, const std::string& where) {
    if (!mask.view.given()) return mask;
    const std::string shape = mask.view.shape_text();
    if (mask.view.ndim == 1) add_dimension(mask.view);
    if (mask.view.ndim != 2 || mask.view.shape[1] != tokens.shape[1] ||
        (mask.view.shape[0] != 1 && mask.view.shape[0] != tokens.shape[0])) {
        bad_data(where, "mask: {} does not fit tokens {}", shape, tokens.shape_text());
    }
    return mask.view.contiguous() ? aligned(std::move(mask)) : mask;
}

}  // namespace

std::shared_ptr<const TokenStore> dense_store(Array tokens, Array mask, const std::string& where) {
    if (tokens.view.ndim != 2 && tokens.view.ndim != 3) {
        bad_data(where, "tokens: {}, [L, d] or [N, L, d] is expected", tokens.view.shape_text());
    }
    if (tokens.view.ndim == 2) add_dimension(tokens.view);
    Array fitted = fitting_mask(std::move(mask), tokens.view, where);
    return std::make_shared<const DenseStore>(std::move(tokens), std::move(fitted));
}

std::shared_ptr<const TokenStore> packed_store(Array tokens, const Array& cu_seqlens, const std::string& where) {
    check_packed(tokens, where);
    return std::make_shared<const PackedStore>(std::move(tokens), numbers(cu_seqlens, "cu_seqlens", where), where);
}

std::shared_ptr<const TokenStore> ranges_store(Array tokens, const Array& offsets, const Array& lengths,
                                               const std::string& where) {
    check_packed(tokens, where);
    return std::make_shared<const RangesStore>(std::move(tokens), numbers(offsets, "offsets", where),
                                               numbers(lengths, "lengths", where), where);
}

std::shared_ptr<const TokenStore> lengths_store(Array tokens, const Array& lengths, const std::string& where) {
    const Numbers sizes = numbers(lengths, "lengths", where);
    const bool dense = tokens.view.ndim == 3;
    const std::int64_t rows = tokens.view.shape[dense ? 1 : 0];
    if (!dense) check_packed(tokens, where);
    if (dense && tokens.view.shape[0] != static_cast<std::int64_t>(sizes.values.size())) {
        bad_data(where, "lengths: {} entries for tokens {}", sizes.values.size(), tokens.view.shape_text());
    }
    std::vector<std::int64_t> starts{0};
    for (std::size_t i = 0; i < sizes.values.size(); ++i) {
        const std::int64_t left = dense ? rows : rows - starts.back();
        if (sizes.values[i] < 0 || sizes.values[i] > left) {
            bad_data(where, "lengths[{}]: {}, not in 0 to {}", i, sizes.values[i], left);
        }
        starts.push_back(starts.back() + (dense ? rows : sizes.values[i]));
    }
    if (!dense && starts.back() != rows) bad_data(where, "lengths: they sum to {}, of {} tokens", starts.back(), rows);
    if (!dense) return std::make_shared<const PackedStore>(std::move(tokens), owned(std::move(starts)), where);
    join_dimensions(tokens.view);
    starts.pop_back();
    return std::make_shared<const RangesStore>(std::move(tokens), owned(std::move(starts)), sizes, where);
}

}  // namespace rowmax::io
