#include "io/token_source.hpp"

#include <utility>

#include "core/sides.hpp"
#include "io/archive.hpp"
#include "io/file_error.hpp"
#include "io/npy.hpp"
#include "io/token_store.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::io {

namespace {

namespace fs = std::filesystem;

void check_token_type(DType dtype, const std::string& where) {
    switch (dtype) {
        case DType::f16:
        case DType::bf16:
        case DType::f32:
        case DType::f64:
        case DType::i8: return;
        default: break;
    }
    bad_data(where, "dtype: {}, tokens are float16, bfloat16, float32, float64 or int8{}", name_of(dtype),
             size_of(dtype) == 2 ? "; if these are bfloat16 numbers, say so with the dtype option" : "");
}

std::optional<DType> wanted_type(const LoadOptions& options) {
    if (options.dtype.empty()) return std::nullopt;
    return dtype_from_name(options.dtype);
}

/// An archive's tokens and what belongs to them.
class ArchiveLoader {
  public:
    ArchiveLoader(const Archive& archive, const LoadOptions& options, std::string where)
        : archive_(archive), options_(options), where_(std::move(where)), tensor_(token_array()) {}

    [[nodiscard]] std::shared_ptr<const TokenStore> store() const {
        Array tokens = archive_.array(tensor_, wanted_type(options_));
        check_token_type(tokens.view.dtype, where_);
        const Array mask = companion({"mask", "attention_mask"});
        const Array lengths = companion({"lengths", "doclens"});
        const Array offsets = companion({"cu_seqlens", "offsets"});
        const bool packed = lengths.view.given() || offsets.view.given();
        if (packed && mask.view.given()) bad_data(where_, "mask: it excludes lengths, offsets and cu_seqlens");
        if (!packed) return dense_store(std::move(tokens), mask, where_);
        if (!lengths.view.given()) return packed_store(std::move(tokens), offsets, where_);
        if (!offsets.view.given()) return lengths_store(std::move(tokens), lengths, where_);
        return ranges_store(std::move(tokens), offsets, lengths, where_);
    }

    [[nodiscard]] std::optional<std::vector<std::string>> ids() const {
        const ArrayInfo* info = find({"ids"});
        if (info == nullptr) return std::nullopt;
        return archive_.strings(info->name);
    }

  private:
    // The array of one of these names; one that carries the tensor's name in front belongs to it alone and goes first.
    [[nodiscard]] const ArrayInfo* find(std::initializer_list<std::string_view> names) const {
        for (const std::string& prefix : {tensor_ + "_", std::string()}) {
            for (const std::string_view name : names) {
                const ArrayInfo* info = archive_.find(prefix + std::string(name));
                if (info != nullptr) return info;
            }
        }
        return nullptr;
    }

    [[nodiscard]] Array companion(std::initializer_list<std::string_view> names) const {
        const ArrayInfo* info = find(names);
        return info == nullptr ? Array() : archive_.array(info->name);
    }

    [[nodiscard]] std::string token_array() const {
        if (!options_.tensor.empty()) return options_.tensor;
        if (archive_.find("tokens") != nullptr) return "tokens";
        std::string found, all;
        int candidates = 0;
        for (const ArrayInfo& info : archive_.arrays()) {
            all += fmt::format("{}{} {} [{}]", all.empty() ? "" : ", ", printable(info.name),
                               printable(info.type.spelled), fmt::join(info.shape, ", "));
            if (!could_be_tokens(info)) continue;
            found = info.name;
            ++candidates;
        }
        if (candidates == 1) return found;
        bad_data(where_, "{} arrays could be the tokens; name one of: {}", candidates, all.empty() ? "(none)" : all);
    }

    [[nodiscard]] bool could_be_tokens(const ArrayInfo& info) const {
        if (info.shape.size() != 2 && info.shape.size() != 3) return false;
        if (info.name.ends_with("mask")) return false;
        if (!options_.dtype.empty() && info.type.raw16) return true;
        return info.type.dtype == DType::f16 || info.type.dtype == DType::bf16 || info.type.dtype == DType::f32 ||
               info.type.dtype == DType::f64;
    }

    const Archive& archive_;
    const LoadOptions& options_;
    std::string where_;
    std::string tensor_;
};

void refuse_tensor_name(const LoadOptions& options, const std::string& where) {
    if (options.tensor.empty()) return;
    throw Error(ErrorCode::invalid_value,
                fmt::format("{}: tensor '{}': only .npz and safetensors files hold named arrays", where,
                            printable(options.tensor)));
}

/// What a loader finds: the tokens and, if the file has them, their ids.
struct Loaded {
    std::shared_ptr<const TokenStore> store;
    std::optional<Ids> ids;
};

Loaded load_npy(const fs::path& path, const LoadOptions& options) {
    refuse_tensor_name(options, path.string());
    Array tokens = read_npy(path, wanted_type(options));
    check_token_type(tokens.view.dtype, path.string());
    return {dense_store(std::move(tokens), {}, path.string()), {}};
}

Loaded load_archive(const Archive& archive, const fs::path& path, const LoadOptions& options) {
    const ArchiveLoader loader(archive, options, path.string());
    Loaded loaded{loader.store(), {}};
    if (!options.ids.empty()) return loaded;  // replaced anyway
    if (auto ids = loader.ids()) loaded.ids = Ids(std::move(*ids), path.string());
    return loaded;
}

Loaded load_folder(const fs::path& path, const LoadOptions& options) {
    refuse_tensor_name(options, path.string());
    FolderContents contents = folder_store(path, wanted_type(options));
    check_token_type(contents.store->dtype(), path.string());
    if (!options.ids.empty()) return {contents.store, {}};
    return {contents.store, Ids(std::move(contents.stems), path.string())};
}

Loaded load_corpus(const fs::path& path, const LoadOptions& options) {
    refuse_tensor_name(options, path.string());
    const auto corpus = std::make_shared<const Corpus>(Corpus::open(path));
    choose_dtype({std::string(name_of(corpus->dtype())), corpus->dtype(), false}, wanted_type(options), path.string());
    Loaded loaded{packed_store({corpus->tokens(), corpus}, {corpus->cu_seqlens(), corpus}, path.string()), {}};
    if (!corpus->has_ids()) return loaded;
    const TensorView text = corpus->section("ids.text");
    loaded.ids =
        Ids(corpus->count(), static_cast<const std::int64_t*>(corpus->section("ids.offsets").data),
            {static_cast<const char*>(text.data), static_cast<std::size_t>(text.numel())}, path.string(), corpus);
    return loaded;
}

Loaded load(const std::string& format, const fs::path& path, const LoadOptions& options) {
    if (format == "npy") return load_npy(path, options);
    if (format == "folder") return load_folder(path, options);
    if (format == "corpus") return load_corpus(path, options);
    const auto archive = format == "npz" ? open_npz(path, options.max_inflated_bytes) : open_safetensors(path);
    return load_archive(*archive, path, options);
}

}  // namespace

TokenSource::TokenSource(std::shared_ptr<const TokenStore> store, Ids ids, std::string format, fs::path path)
    : store_(std::move(store)), ids_(std::move(ids)), format_(std::move(format)), path_(std::move(path)) {
    if (ids_.size() == store_->count()) return;
    bad_data(path_.string(), "ids: {} for {} items", ids_.size(), store_->count());
}

TokenBlock TokenSource::block(std::int64_t first, std::int64_t last) const {
    if (first < 0 || last < first || last > count()) {
        throw Error(ErrorCode::invalid_value, fmt::format("items [{}, {}): there are {}", first, last, count()));
    }
    return store_->block(first, last);
}

std::int64_t TokenSource::block_end(std::int64_t first, std::int64_t bytes) const {
    const std::int64_t row_bytes = dim() * static_cast<std::int64_t>(size_of(dtype()));
    const std::int64_t rows = bytes / std::max<std::int64_t>(row_bytes, 1);
    std::int64_t last = first;
    for (std::int64_t taken = 0; last < count(); ++last) {
        if (length(last) > rows - taken && last > first) break;
        taken += length(last);
    }
    return last;
}

TokenSource load_tokens(const fs::path& path, const LoadOptions& options) {
    const std::string format = detect_format(path);
    Loaded loaded = load(format, path, options);
    if (!options.ids.empty()) loaded.ids = Ids(read_id_file(options.ids), options.ids.string());
    Ids ids = loaded.ids ? std::move(*loaded.ids) : Ids(loaded.store->count());
    return {std::move(loaded.store), std::move(ids), format, path};
}

TokenSource tokens_in_memory(const TokenSet& set, Ids ids, const std::shared_ptr<const void>& owner) {
    constexpr core::SideNames names{"tokens", "mask", "cu_seqlens", "max_seqlen", "items"};
    core::check_token_dtype(set, names);
    core::check_layout(set, names);
    core::Copies copies;
    core::make_segments(copies, set, names, true);
    const Array tokens{set.tokens, owner};
    std::shared_ptr<const TokenStore> store;
    if (set.cu_seqlens.given()) {
        store = packed_store(tokens, {set.cu_seqlens, owner}, "tokens");
    } else if (set.offsets.given()) {
        store = ranges_store(tokens, {set.offsets, owner}, {set.lengths, owner}, "tokens");
    } else {
        store = dense_store(tokens, {set.mask, owner}, "tokens");
    }
    return {std::move(store), std::move(ids), "memory", "tokens"};
}

}  // namespace rowmax::io
