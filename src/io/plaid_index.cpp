#include "io/plaid_index.hpp"

#include <nlohmann/json.hpp>
#include <span>

#include "core/views.hpp"
#include "io/file_error.hpp"
#include "io/mapped_file.hpp"
#include "io/npy.hpp"
#include "io/torch_file.hpp"

namespace rowmax::io {

namespace {

namespace fs = std::filesystem;
using IndexJson = nlohmann::json;

IndexJson read_json(const fs::path& path) {
    const auto file = MappedFile::open(path);
    const auto bytes = file->bytes();
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    IndexJson parsed = IndexJson::parse(text, text + bytes.size(), nullptr, false);
    if (parsed.is_discarded()) bad_data(path.string(), "this is no JSON");
    return parsed;
}

std::int64_t number_in(const IndexJson& json, const char* key, const fs::path& path) {
    if (!json.is_object() || !json.contains(key)) bad_data(path.string(), "{} is missing", key);
    const IndexJson& value = json[key];
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
        bad_data(path.string(), "{} must be a whole number, got {}", key, printable(value.dump()));
    }
    return value.get<std::int64_t>();
}

/// An array, of one of some types and so many dimensions.
Array checked_array(Array array, const fs::path& path, std::initializer_list<DType> types, int ndim) {
    std::string names;
    for (const DType type : types) {
        if (array.view.dtype == type && array.view.ndim == ndim) return array;
        names += fmt::format("{}{}", names.empty() ? "" : " or ", name_of(type));
    }
    bad_data(path.string(), "it holds {} {}, not {} of {} dimensions", name_of(array.view.dtype),
             array.view.shape_text(), names, ndim);
}

/// name.npy, or the last tensor in name.pt.
Array read_array(const fs::path& folder, const std::string& name, bool torch, std::initializer_list<DType> types,
                 int ndim) {
    const fs::path path = folder / (name + (torch ? ".pt" : ".npy"));
    if (!torch) return checked_array(aligned(read_npy(path)), path, types, ndim);
    std::vector<Array> tensors = read_torch(path);
    if (tensors.empty()) bad_data(path.string(), "it holds no tensor");
    return checked_array(std::move(tensors.back()), path, types, ndim);
}

/// Rows of a merged file, which go on behind the last document: the rest is padding.
Array merged_rows(const Array& merged, const fs::path& path, std::int64_t first, std::int64_t count) {
    if (merged.view.shape[0] - first < count) {
        bad_data(path.string(), "it holds {} rows, but the documents count {} tokens", merged.view.shape[0],
                 first + count);
    }
    Array rows = merged;
    const std::int64_t bytes = merged.view.stride[0] * static_cast<std::int64_t>(size_of(merged.view.dtype));
    rows.view.data = static_cast<std::byte*>(merged.view.data) + first * bytes;
    rows.view.shape[0] = count;
    return rows;
}

std::vector<std::int64_t> read_offsets(const fs::path& path) {
    const IndexJson lengths = read_json(path);
    if (!lengths.is_array()) bad_data(path.string(), "it must be a list of lengths");
    std::vector<std::int64_t> offsets{0};
    for (const IndexJson& length : lengths) {
        const bool fits = length.is_number_integer() && length.get<std::int64_t>() >= 0 &&
                          length.get<std::int64_t>() < std::int64_t{1} << 31;
        if (!fits) {
            bad_data(path.string(), "length {} is {}, which is no number of tokens", offsets.size() - 1,
                     printable(length.dump()));
        }
        offsets.push_back(offsets.back() + length.get<std::int64_t>());
    }
    return offsets;
}

}  // namespace

bool is_plaid_index(const fs::path& folder) {
    std::error_code ignored;
    const auto holds = [&](const char* name) { return fs::exists(folder / name, ignored); };
    const bool any_other = holds("metadata.json") || holds("bucket_weights.npy") || holds("buckets.pt");
    return any_other && (holds("centroids.npy") || holds("centroids.pt"));
}

PlaidIndex PlaidIndex::open(const fs::path& folder) {
    PlaidIndex index;
    index.folder_ = folder;
    std::error_code ignored;
    index.torch_ = !fs::exists(folder / "centroids.npy", ignored) && fs::exists(folder / "centroids.pt", ignored);
    const fs::path metadata = folder / "metadata.json";
    const IndexJson json = read_json(metadata);
    const bool nested = index.torch_ && json.is_object() && json.contains("config");
    const std::int64_t nbits = number_in(nested ? json["config"] : json, "nbits", metadata);
    if (nbits != 1 && nbits != 2 && nbits != 4 && nbits != 8) {
        bad_data(metadata.string(), "nbits must be 1, 2, 4 or 8, got {}", nbits);
    }
    index.nbits_ = static_cast<int>(nbits);
    index.centroids_ = read_array(folder, "centroids", index.torch_, {DType::f16, DType::f32}, 2);
    // buckets.pt holds cutoffs and weights.
    const std::string weights = index.torch_ ? "buckets" : "bucket_weights";
    index.weights_ = read_array(folder, weights, index.torch_, {DType::f16, DType::f32}, 1);
    if (index.weights_.view.shape[0] != std::int64_t{1} << nbits) {
        bad_data((folder / weights).string(), "it holds {} weights, but nbits is {}", index.weights_.view.shape[0],
                 nbits);
    }
    const std::int64_t chunks = number_in(json, "num_chunks", metadata);
    for (std::int64_t number = 0; number < chunks; ++number) index.read_chunk(folder, number);
    return index;
}

void PlaidIndex::read_chunk(const fs::path& folder, std::int64_t number) {
    const std::string codes = fmt::format("{}.codes", number);
    const std::string residuals = fmt::format("{}.residuals", number);
    const fs::path lengths = folder / fmt::format("doclens.{}.json", number);
    PlaidChunk chunk;
    chunk.cu_seqlens = read_offsets(lengths);
    const std::int64_t tokens = chunk.cu_seqlens.back();
    std::error_code ignored;
    const fs::path merged = folder / "merged_codes.npy";
    // fast-plaid joins the chunks' files when it opens an index, and may remove them.
    if (!torch_ && !fs::exists(folder / (codes + ".npy"), ignored) && fs::exists(merged, ignored)) {
        const Array all = read_array(folder, "merged_codes", false, {DType::i64, DType::i32}, 1);
        chunk.codes = merged_rows(all, merged, token_count_, tokens);
        const Array rest = read_array(folder, "merged_residuals", false, {DType::u8}, 2);
        chunk.residuals = merged_rows(rest, folder / "merged_residuals.npy", token_count_, tokens);
    } else {
        chunk.codes = read_array(folder, codes, torch_, {DType::i64, DType::i32}, 1);
        chunk.residuals = read_array(folder, residuals, torch_, {DType::u8}, 2);
    }
    if (chunk.codes.view.shape[0] != tokens) {
        bad_data((folder / codes).string(), "it holds {} codes, but {} counts {} tokens", chunk.codes.view.shape[0],
                 lengths.filename().string(), tokens);
    }
    const std::array<std::int64_t, 2> shape{tokens, dim() * nbits_ / 8};
    if (chunk.residuals.view.shape[0] != shape[0] || chunk.residuals.view.shape[1] != shape[1]) {
        bad_data((folder / residuals).string(), "its shape is {}, but {} tokens of {} x {} bits need [{}, {}]",
                 chunk.residuals.view.shape_text(), tokens, dim(), nbits_, shape[0], shape[1]);
    }
    count_ += chunk.count();
    token_count_ += tokens;
    chunks_.push_back(std::move(chunk));
}

ResidualTables PlaidIndex::tables() const {
    return {centroids_.view, weights_.view, nbits_, BitOrder::colbert, true};
}

TokenSet PlaidIndex::documents(const PlaidChunk& chunk, std::int64_t first, std::int64_t last,
                               const ResidualTables& tables, std::vector<std::int64_t>& cu_seqlens) {
    const auto begin = chunk.cu_seqlens.begin() + first;
    const std::int64_t start = *begin;
    cu_seqlens.clear();
    for (auto at = begin; at <= begin + (last - first); ++at) cu_seqlens.push_back(*at - start);
    const std::int64_t end = start + cu_seqlens.back();
    TokenSet set;
    set.tokens = core::rows_of(chunk.residuals.view, start, end);
    set.codes = core::rows_of(chunk.codes.view, start, end);
    set.cu_seqlens = TensorView(cu_seqlens.data(), DType::i64, {last - first + 1});
    set.residual = &tables;
    return set;
}

}  // namespace rowmax::io
