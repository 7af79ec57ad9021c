// PLAID: the steps of a search over arrays, and indexes in folders.
#include "rowmax/plaid.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "call_place.hpp"
#include "io/plaid_index.hpp"
#include "io/plaid_writer.hpp"
#include "io/token_source.hpp"
#include "numpy_views.hpp"
#include "rowmax/error.hpp"

namespace rowmax::python {

namespace {

using Numbers = std::vector<std::int64_t>;

/// A numpy array that owns the numbers.
nb::object array_of(Numbers numbers) {
    auto held = std::make_unique<Numbers>(std::move(numbers));
    const std::size_t shape[] = {held->size()};
    std::int64_t* data = held->data();
    const nb::capsule owner(held.release(), [](void* p) noexcept { delete static_cast<Numbers*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, std::int64_t>(data, 1, shape, owner));
}

Options options_of(CallPlace& place, std::optional<bool> validate, int threads) {
    Options options;
    options.validate = validate;
    options.threads = threads;
    options.device = place.device();
    return options;
}

void fill_cells(nb::handle centroid_scores, std::int64_t nprobe, int threads, bool bits_are_bfloat16,
                nb::handle cells) {
    CallPlace place;
    Array in;
    Array out;
    place.read(in, {centroid_scores, "centroid_scores", Role::tokens, bits_are_bfloat16});
    place.read(out, {cells, "out", Role::result});
    const Options options = options_of(place, std::nullopt, threads);
    const nb::gil_scoped_release unlocked;
    plaid_probe(in.view, nprobe, out.view, options);
}

nb::object candidates_of(nb::handle cells, nb::handle ivf, nb::handle ivf_lengths, std::int64_t documents,
                         bool validate) {
    Array in[3];
    in[0].read({cells, "cells", Role::integers});
    in[1].read({ivf, "ivf", Role::integers});
    in[2].read({ivf_lengths, "ivf_lengths", Role::integers});
    Numbers found;
    {
        const nb::gil_scoped_release unlocked;
        found = plaid_candidates(in[0].view, {in[1].view, in[2].view}, documents, validate);
    }
    return array_of(std::move(found));
}

/// The same on a GPU: to the beginning of `found`, and how many.
void fill_candidates(nb::handle cells, nb::handle ivf, nb::handle ivf_lengths, std::optional<bool> validate,
                     nb::handle found, nb::handle count) {
    CallPlace place;
    Array in[3];
    Array out[2];
    place.read(in[0], {cells, "cells", Role::integers});
    place.read(in[1], {ivf, "ivf", Role::integers});
    place.read(in[2], {ivf_lengths, "ivf_lengths", Role::integers});
    place.read(out[0], {found, "found", Role::result});
    place.read(out[1], {count, "count", Role::result});
    const Options options = options_of(place, validate, 0);
    const nb::gil_scoped_release unlocked;
    plaid_candidates(in[0].view, {in[1].view, in[2].view}, out[0].view, out[1].view, options);
}

void fill_padded(nb::handle centroid_scores, nb::handle codes, nb::handle doc_lengths, nb::handle scores,
                 std::optional<bool> validate, int threads, bool bits_are_bfloat16) {
    CallPlace place;
    Array in[3];
    Array out;
    place.read(in[0], {centroid_scores, "centroid_scores", Role::tokens, bits_are_bfloat16});
    place.read(in[1], {codes, "codes", Role::integers});
    place.read(in[2], {doc_lengths, "doc_lengths", Role::integers});
    place.read(out, {scores, "out", Role::result});
    const Options options = options_of(place, validate, threads);
    const nb::gil_scoped_release unlocked;
    plaid_approx_score(in[0].view, in[1].view, in[2].view, out.view, options);
}

void fill_packed(nb::handle centroid_scores, nb::handle codes, nb::handle cu_seqlens, nb::handle documents,
                 double threshold, std::optional<bool> validate, int threads, bool bits_are_bfloat16,
                 nb::handle scores) {
    CallPlace place;
    Array in[4];
    Array out;
    place.read(in[0], {centroid_scores, "centroid_scores", Role::tokens, bits_are_bfloat16});
    place.read(in[1], {codes, "codes", Role::integers});
    place.read(in[2], {cu_seqlens, "cu_seqlens_d", Role::integers});
    place.read(in[3], {documents, "documents", Role::integers});
    place.read(out, {scores, "out", Role::result});
    const Options options = options_of(place, validate, threads);
    const nb::gil_scoped_release unlocked;
    plaid_approx_score_packed(in[0].view, in[1].view, in[2].view, in[3].view, out.view, static_cast<float>(threshold),
                              options);
}

/// An index, and its lists once they are asked for.
class Index {
  public:
    explicit Index(io::PlaidIndex index) : index_(std::move(index)) {}
    static Index open(const nb::bytes& bytes) {
        const std::string path = text_of(bytes);
        const nb::gil_scoped_release unlocked;
        return Index(io::PlaidIndex::open(path));
    }
    [[nodiscard]] const io::PlaidIndex& index() const { return index_; }
    [[nodiscard]] const io::PlaidLists& lists() {
        if (!lists_) lists_.emplace(index_.lists());
        return *lists_;
    }

  private:
    io::PlaidIndex index_;
    std::optional<io::PlaidLists> lists_;
};

nb::list chunks_of(nb::handle self) {
    nb::list chunks;
    const auto& index = nb::cast<Index&>(self).index();
    for (const io::PlaidChunk& chunk : index.chunks()) {
        const TensorView starts(chunk.cu_seqlens.data(), DType::i64, {chunk.count() + 1});
        chunks.append(nb::make_tuple(view_of(chunk.codes.view, self), view_of(chunk.residuals.view, self),
                                     view_of(starts, self)));
    }
    return chunks;
}

nb::tuple lists_of(nb::handle self) {
    const InvertedFile lists = nb::cast<Index&>(self).lists().view();
    return nb::make_tuple(view_of(lists.documents, self), view_of(lists.lengths, self));
}

/// What a search is given beyond queries and numbers.
struct Sides {
    Array q;
    Array mask;
    Array cu_seqlens;
    TokenSet set;

    Sides(nb::handle tokens, nb::handle q_mask, nb::handle cu_seqlens_q, bool bits_are_bfloat16) {
        q.read({tokens, "Q", Role::tokens, bits_are_bfloat16});
        mask.read({q_mask, "q_mask", Role::mask});
        cu_seqlens.read({cu_seqlens_q, "cu_seqlens_q", Role::integers});
        set.tokens = q.view;
        set.mask = mask.view;
        set.cu_seqlens = cu_seqlens.view;
    }
};

void search(Index& self, nb::handle q, nb::handle q_mask, nb::handle cu_seqlens_q, std::int64_t k, std::int64_t nprobe,
            std::int64_t candidates, double threshold, bool validate, int threads, const std::string& kernel,
            bool bits_are_bfloat16, nb::handle scores, nb::handle documents) {
    const Sides sides(q, q_mask, cu_seqlens_q, bits_are_bfloat16);
    Array out[2];
    out[0].read({scores, "out scores", Role::result});
    out[1].read({documents, "out index", Role::result});
    const PlaidIndexView view = self.index().view(self.lists());
    Options options;
    options.validate = validate;
    options.threads = threads;
    options.kernel = kernel;
    const nb::gil_scoped_release unlocked;
    plaid_search(sides.set, view, k, {nprobe, candidates, static_cast<float>(threshold)}, options, out[0].view,
                 out[1].view);
}

/// Documents dense or packed, written as an index.
void pack(const nb::bytes& path, nb::handle tokens, nb::handle cu_seqlens, nb::handle mask, bool bits_are_bfloat16,
          int nbits, std::int64_t centroids, int iterations, std::int64_t chunk_documents, int threads) {
    const std::string folder = text_of(path);
    Array arrays[3];
    arrays[0].read({tokens, "documents", Role::tokens, bits_are_bfloat16});
    arrays[1].read({cu_seqlens, "cu_seqlens", Role::integers});
    arrays[2].read({mask, "d_mask", Role::mask});
    TokenSet set;
    set.tokens = arrays[0].view;
    set.cu_seqlens = arrays[1].view;
    set.mask = arrays[2].view;
    if (arrays[0].view.dtype > DType::f64) {  // behind the floating point types
        throw Error(ErrorCode::invalid_type,
                    fmt::format("documents must be float16, bfloat16, float32 or float64, got {}",
                                name_of(arrays[0].view.dtype)));
    }
    if (set.tokens.ndim != (set.cu_seqlens.given() ? 2 : 3)) {
        throw Error(ErrorCode::invalid_value, fmt::format("documents must be [N, L, d], or [T, d] with offsets; got {}",
                                                          set.tokens.shape_text()));
    }
    const std::int64_t count =
        set.cu_seqlens.given() ? std::max<std::int64_t>(set.cu_seqlens.numel() - 1, 0) : set.tokens.shape[0];
    io::PlaidWriteOptions options;
    options.nbits = nbits;
    options.centroids = centroids;
    options.iterations = iterations;
    options.chunk_documents = chunk_documents;
    options.threads = threads;
    options.progress = [](std::int64_t, std::int64_t) { hear_signals(); };
    const nb::gil_scoped_release unlocked;
    io::write_plaid_index(io::tokens_in_memory(set, io::Ids(count)), folder, options);
}

}  // namespace

void define_plaid(nb::module_& m) {
    m.def("pack_plaid", &pack, nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg(),
          nb::arg(), nb::arg(), nb::arg(), nb::arg());
    m.def("plaid_probe", &fill_cells);
    m.def("plaid_candidates", &candidates_of);
    m.def("plaid_candidates_into", &fill_candidates, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
          nb::arg());
    m.def("plaid_approx_score", &fill_padded, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
          nb::arg());
    m.def("plaid_approx_score_packed", &fill_packed, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
          nb::arg().none(), nb::arg(), nb::arg(), nb::arg());
    nb::class_<Index>(m, "PlaidIndex")
        .def_static("open", &Index::open)
        .def("count", [](const Index& self) { return self.index().count(); })
        .def("token_count", [](const Index& self) { return self.index().token_count(); })
        .def("dim", [](const Index& self) { return self.index().dim(); })
        .def("nbits", [](const Index& self) { return self.index().nbits(); })
        .def("centroids",
             [](nb::handle self) { return view_of(nb::cast<Index&>(self).index().tables().centroids, self); })
        .def("bucket_weights",
             [](nb::handle self) { return view_of(nb::cast<Index&>(self).index().tables().bucket_weights, self); })
        .def("chunks", &chunks_of)
        .def("lists", &lists_of)
        .def("search", &search, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
}

}  // namespace rowmax::python
