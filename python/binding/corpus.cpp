// Corpus files: numpy views of the mapping, and packing.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "numpy_views.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::python {

namespace {

std::vector<std::string> ids_of(const Corpus& corpus) {
    std::vector<std::string> ids(static_cast<std::size_t>(corpus.count()));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = corpus.id(static_cast<std::int64_t>(i));
    return ids;
}

/// A CorpusWriter that takes type and dimension from the first document.
class Packer {
  public:
    Packer(const nb::bytes& path, bool bits_are_bfloat16, const std::vector<std::string>& coarse)
        : path_(text_of(path)), bfloat16_(bits_are_bfloat16) {
        for (const std::string& form : coarse) coarse_.push_back(coarse_from_name(form));
    }

    void append(nb::handle document, std::string_view id) {
        Array tokens;
        tokens.read({document, "documents", Role::tokens, bfloat16_});
        CorpusWriter& writer = writer_for(tokens.view);
        nb::gil_scoped_release unlocked;
        writer.append(tokens.view, id);
    }

    void append_many(nb::handle tokens, nb::handle cu_seqlens, nb::handle mask, const std::vector<std::string>& ids) {
        Array arrays[3];
        arrays[0].read({tokens, "documents", Role::tokens, bfloat16_});
        arrays[1].read({cu_seqlens, "cu_seqlens", Role::integers});
        arrays[2].read({mask, "d_mask", Role::mask});
        TokenSet documents;
        documents.tokens = arrays[0].view;
        documents.cu_seqlens = arrays[1].view;
        documents.mask = arrays[2].view;
        CorpusWriter& writer = writer_for(documents.tokens);
        nb::gil_scoped_release unlocked;
        writer.append(documents, ids, [](std::int64_t, std::int64_t) { hear_signals(); });
    }

    void commit() {
        if (!writer_) {
            throw Error(ErrorCode::invalid_value,
                        "documents is empty: a corpus needs one to know its type and dimension");
        }
        nb::gil_scoped_release unlocked;
        writer_->commit();
    }

  private:
    CorpusWriter& writer_for(const TensorView& tokens) {
        if (tokens.ndim < 2) {
            throw Error(ErrorCode::invalid_value,
                        fmt::format("documents: token arrays have two dimensions, got {}", tokens.shape_text()));
        }
        if (!writer_) writer_.emplace(path_, tokens.dtype, tokens.shape[tokens.ndim - 1], coarse_);
        return *writer_;
    }

    std::string path_;
    bool bfloat16_;
    std::vector<Coarse> coarse_;
    std::optional<CorpusWriter> writer_;
};

Corpus open_corpus(const nb::bytes& bytes) {
    const std::string path = text_of(bytes);
    nb::gil_scoped_release unlocked;
    return Corpus::open(path);
}

std::vector<std::string> coarse_names(const Corpus& corpus) {
    std::vector<std::string> names;
    for (const Coarse form : corpus.coarse_forms()) names.emplace_back(name_of(form));
    return names;
}

/// Codes, and their scale or None.
nb::tuple coarse_of(nb::handle self, const std::string& form) {
    const TokenSet set = nb::cast<Corpus&>(self).coarse(coarse_from_name(form));
    const nb::object codes = nb::cast(view_of(set.tokens, self));
    return nb::make_tuple(codes, set.scale.given() ? nb::cast(view_of(set.scale, self)) : nb::object(nb::none()));
}

void verify_corpus(const Corpus& corpus) {
    nb::gil_scoped_release unlocked;
    corpus.verify([](std::uint64_t, std::uint64_t) { hear_signals(); });
}

}  // namespace

void define_corpus(nb::module_& m) {
    nb::class_<Corpus>(m, "Corpus")
        .def_static("open", &open_corpus)
        .def("count", &Corpus::count)
        .def("dtype", [](const Corpus& corpus) { return name_of(corpus.dtype()); })
        .def("tokens", [](nb::handle self) { return view_of(nb::cast<Corpus&>(self).tokens(), self); })
        .def("cu_seqlens", [](nb::handle self) { return view_of(nb::cast<Corpus&>(self).cu_seqlens(), self); })
        .def("ids", &ids_of)
        .def("coarse_forms", &coarse_names)
        .def("coarse", &coarse_of)
        .def("verify", &verify_corpus);
    nb::class_<Packer>(m, "Packer")
        .def(nb::init<const nb::bytes&, bool, const std::vector<std::string>&>())
        .def("append", &Packer::append, nb::arg("document"), nb::arg("id"))
        .def("append_many", &Packer::append_many, nb::arg("tokens"), nb::arg("cu_seqlens").none(),
             nb::arg("mask").none(), nb::arg("ids"))
        .def("commit", &Packer::commit);
}

}  // namespace rowmax::python
