// The inverted file of an index: ivf.npy and ivf_lengths.npy, or both in ivf.pid.pt.
#include <limits>
#include <optional>

#include "io/file_error.hpp"
#include "io/npy.hpp"
#include "io/plaid_index.hpp"
#include "io/torch_file.hpp"

namespace rowmax::io {

namespace {

namespace fs = std::filesystem;

struct StoredLists {
    Array documents;
    Array lengths;
    std::string where;
};

bool is_list(const Array& array) {
    return array.view.ndim == 1 && (array.view.dtype == DType::i32 || array.view.dtype == DType::i64);
}

std::optional<StoredLists> read_stored(const fs::path& folder, bool torch) {
    std::error_code ignored;
    StoredLists lists;
    const fs::path file = folder / (torch ? "ivf.pid.pt" : "ivf.npy");
    if (!fs::exists(file, ignored)) return std::nullopt;
    lists.where = file.string();
    if (torch) {
        std::vector<Array> both = read_torch(file);
        if (both.size() != 2) bad_data(lists.where, "it holds {} tensors, not documents and lengths", both.size());
        lists.documents = std::move(both[0]);
        lists.lengths = std::move(both[1]);
    } else {
        lists.documents = aligned(read_npy(file));
        lists.lengths = aligned(read_npy(folder / "ivf_lengths.npy"));
    }
    for (const Array* array : {&lists.documents, &lists.lengths}) {
        if (is_list(*array)) continue;
        bad_data(lists.where, "{} {} must be a list of int32 or int64",
                 array == &lists.documents ? "documents" : "lengths", array->view.shape_text());
    }
    return lists;
}

std::int64_t number_at(const TensorView& list, std::int64_t i) {
    return list.dtype == DType::i64 ? static_cast<const std::int64_t*>(list.data)[i]
                                    : std::int64_t{static_cast<const std::int32_t*>(list.data)[i]};
}

/// The lengths of the lists of `centroids`, of which a file may name fewer (the last are empty) or more (empty ones).
std::vector<std::int32_t> lengths_of(const StoredLists& lists, std::int64_t centroids) {
    std::vector<std::int32_t> lengths(static_cast<std::size_t>(centroids));
    std::int64_t left = lists.documents.view.shape[0];
    for (std::int64_t c = 0; c < lists.lengths.view.shape[0]; ++c) {
        const std::int64_t length = number_at(lists.lengths.view, c);
        if (length < 0 || length > left || length > std::numeric_limits<std::int32_t>::max()) {
            bad_data(lists.where, "the list of centroid {} has {} entries, of which {} are left", c, length, left);
        }
        if (c >= centroids && length > 0) {
            bad_data(lists.where, "it has a list of centroid {}, but there are {}", c, centroids);
        }
        if (c < centroids) lengths[static_cast<std::size_t>(c)] = static_cast<std::int32_t>(length);
        left -= length;
    }
    if (left > 0) bad_data(lists.where, "{} entries belong to no list", left);
    return lengths;
}

}  // namespace

InvertedFile PlaidLists::view() const {
    InvertedFile file = made_.view();
    if (stored()) file.documents = documents_.view;
    return file;
}

PlaidLists PlaidIndex::lists() const {
    PlaidLists lists;
    if (std::optional<StoredLists> stored = read_stored(folder_, torch_)) {
        lists.made_.lengths = lengths_of(*stored, centroid_count());
        lists.documents_ = std::move(stored->documents);
    } else {
        lists.made_ = plaid_invert(parts(), centroid_count());
    }
    return lists;
}

std::vector<PlaidPart> PlaidIndex::parts() const {
    std::vector<PlaidPart> parts;
    for (const PlaidChunk& chunk : chunks_) {
        parts.push_back({chunk.codes.view, chunk.residuals.view,
                         TensorView(chunk.cu_seqlens.data(), DType::i64, {chunk.count() + 1})});
    }
    return parts;
}

PlaidIndexView PlaidIndex::view(const PlaidLists& lists) const {
    return {tables(), parts(), lists.view()};
}

}  // namespace rowmax::io
