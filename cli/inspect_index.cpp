#include "cli/inspect_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/shared.hpp"
#include "io/file_error.hpp"
#include "io/plaid_index.hpp"

namespace rowmax::cli {

namespace {

std::vector<std::int64_t> lengths_of(const io::PlaidIndex& index) {
    std::vector<std::int64_t> lengths;
    for (const io::PlaidChunk& chunk : index.chunks()) {
        for (std::size_t i = 1; i < chunk.cu_seqlens.size(); ++i) {
            lengths.push_back(chunk.cu_seqlens[i] - chunk.cu_seqlens[i - 1]);
        }
    }
    std::sort(lengths.begin(), lengths.end());
    if (lengths.empty()) lengths.push_back(0);
    return lengths;
}

void check_codes(const io::PlaidIndex& index, const std::string& folder) {
    Progress progress("checking", "tokens");
    std::int64_t done = 0;
    for (std::size_t c = 0; c < index.chunks().size(); ++c) {
        const TensorView& codes = index.chunks()[c].codes.view;
        for (std::int64_t t = 0; t < codes.shape[0]; ++t) {
            const std::int64_t code = codes.dtype == DType::i64 ? static_cast<const std::int64_t*>(codes.data)[t]
                                                                : static_cast<const std::int32_t*>(codes.data)[t];
            if (code >= 0 && code < index.centroid_count()) continue;
            io::bad_data(fmt::format("{}/{}.codes", folder, c), "code {} is {}, but there are {} centroids", t, code,
                         index.centroid_count());
        }
        done += codes.shape[0];
        progress.update(done, index.token_count());
    }
    progress.finish();
}

}  // namespace

std::string index_report(const std::string& folder, bool deep, bool json) {
    const io::PlaidIndex index = io::PlaidIndex::open(folder);
    if (deep) check_codes(index, folder);
    const std::vector<std::int64_t> lengths = lengths_of(index);
    const std::int64_t median = lengths[lengths.size() / 2];
    if (json) {
        const nlohmann::ordered_json root = {
            {"path", folder},
            {"format", "plaid index"},
            {"chunks", index.chunks().size()},
            {"items", index.count()},
            {"tokens", index.token_count()},
            {"dim", index.dim()},
            {"nbits", index.nbits()},
            {"centroids", index.centroid_count()},
            {"centroid_dtype", name_of(index.centroid_dtype())},
            {"length", {{"min", lengths.front()}, {"median", median}, {"max", lengths.back()}}}};
        return root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    }
    return fmt::format(
        "file        {}\nformat      plaid index, {} chunks, nbits = {}\ncentroids   {} of {}\n"
        "items       {}, {} tokens, d = {}\nlengths     {} to {}, median {}\n{}",
        folder, index.chunks().size(), index.nbits(), index.centroid_count(), name_of(index.centroid_dtype()),
        index.count(), index.token_count(), index.dim(), lengths.front(), lengths.back(), median,
        deep ? "checked     every code\n" : "");
}

}  // namespace rowmax::cli
