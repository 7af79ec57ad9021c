// Corpus files: numpy views of the mapping, and packing.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::python {

namespace {

using NumpyView = nb::ndarray<nb::numpy, nb::ro>;

// numpy has no bfloat16: its bits go out as uint16.
nb::dlpack::dtype numpy_dtype(DType dtype) {
    const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
    switch (dtype) {
        case DType::f16:
        case DType::f32:
        case DType::f64: return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), bits, 1};
        case DType::bf16:
        case DType::f8e4m3:
        case DType::u8: return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt), bits, 1};
        case DType::boolean: return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bool), bits, 1};
        case DType::i8:
        case DType::i16:
        case DType::i32:
        case DType::i64: break;
    }
    return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int), bits, 1};
}

// A view that keeps `owner`, and with it the mapping, alive.
NumpyView view_of(const TensorView& view, nb::handle owner) {
    std::size_t shape[TensorView::max_ndim];
    for (int i = 0; i < view.ndim; ++i) shape[i] = static_cast<std::size_t>(view.shape[i]);
    return NumpyView(view.data, static_cast<std::size_t>(view.ndim), shape, owner, view.stride.data(),
                     numpy_dtype(view.dtype));
}

std::vector<std::string> ids_of(const Corpus& corpus) {
    std::vector<std::string> ids(static_cast<std::size_t>(corpus.count()));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = corpus.id(static_cast<std::int64_t>(i));
    return ids;
}

// Paths are bytes: not every file name is UTF-8.
std::string text_of(const nb::bytes& bytes) {
    return {bytes.c_str(), bytes.size()};
}

// For work that takes as long as its data is large, so that Ctrl-C is heard meanwhile.
void hear_signals() {
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// A CorpusWriter that takes type and dimension from the first document.
class Packer {
  public:
    Packer(const nb::bytes& path, bool bits_are_bfloat16) : path_(text_of(path)), bfloat16_(bits_are_bfloat16) {}

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
        if (!writer_) writer_.emplace(path_, tokens.dtype, tokens.shape[tokens.ndim - 1]);
        return *writer_;
    }

    std::string path_;
    bool bfloat16_;
    std::optional<CorpusWriter> writer_;
};

Corpus open_corpus(const nb::bytes& bytes) {
    const std::string path = text_of(bytes);
    nb::gil_scoped_release unlocked;
    return Corpus::open(path);
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
        .def("verify", &verify_corpus);
    nb::class_<Packer>(m, "Packer")
        .def(nb::init<const nb::bytes&, bool>())
        .def("append", &Packer::append, nb::arg("document"), nb::arg("id"))
        .def("append_many", &Packer::append_many, nb::arg("tokens"), nb::arg("cu_seqlens").none(),
             nb::arg("mask").none(), nb::arg("ids"))
        .def("commit", &Packer::commit);
}

}  // namespace rowmax::python
