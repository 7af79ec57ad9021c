// Operators that select: by an index (its inverse, sums of what chose the same), or of a row of similarities.
#include "rowmax/selection.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>

#include "call_place.hpp"
#include "request.hpp"
#include "rowmax/scatter.hpp"

namespace rowmax::python {

namespace {

void fill_inverse_grid(nb::handle index, std::int64_t destinations, nb::handle row_ptr, nb::handle source,
                       bool validate, std::optional<std::uintptr_t> stream) {
    Array in;
    Array out[2];
    CallPlace place(stream);
    place.read(in, {index, "index", Role::integers});
    place.read(out[0], {row_ptr, "row_ptr", Role::result});
    place.read(out[1], {source, "source", Role::result});
    const Device device = place.device();
    const nb::gil_scoped_release unlocked;
    inverse_grid(in.view, destinations, out[0].view, out[1].view, validate, device);
}

void fill_scatter_sum(nb::handle index, nb::handle values, std::int64_t destinations, nb::handle row_ptr,
                      nb::handle source, bool validate, int threads, bool bits_are_bfloat16, bool deterministic,
                      nb::handle sums, std::optional<std::uintptr_t> stream) {
    Array in[4];
    Array out;
    CallPlace place(stream);
    place.read(in[0], {index, "index", Role::integers});
    place.read(in[1], {values, "values", Role::tokens, bits_are_bfloat16});
    place.read(in[2], {row_ptr, "grid row_ptr", Role::integers});
    place.read(in[3], {source, "grid source", Role::integers});
    place.read(out, {sums, "out", Role::result, bits_are_bfloat16});
    const Device device = place.device();
    const nb::gil_scoped_release unlocked;
    scatter_sum(in[0].view, in[1].view, destinations, out.view, {in[2].view, in[3].view}, validate, threads, device,
                deterministic);
}

TokenReduction reduction_of(bool mean) {
    return mean ? TokenReduction::mean : TokenReduction::sum;
}

}  // namespace

void Request::topk_tokens(std::int64_t k, bool mean, nb::handle scores, nb::handle index) const {
    Array out[2];
    const TensorView first = result_view(out[0], scores, "out");
    const TensorView second = result_view(out[1], index, "index");
    const nb::gil_scoped_release unlocked;
    score_topk_tokens(request_, k, reduction_of(mean), first, second);
}

void Request::topk_tokens_backward(std::int64_t k, bool mean, nb::handle index, nb::handle grad_scores,
                                   nb::handle grad_q, nb::handle grad_d) const {
    Array in[2];
    Array out[2];
    in[0].read({index, "index", Role::integers});
    in[1].read({grad_scores, "grad_scores", Role::tokens});
    const TensorView q = result_view(out[0], grad_q, "grad_q");
    const TensorView d = result_view(out[1], grad_d, "grad_d");
    const nb::gil_scoped_release unlocked;
    score_topk_tokens_backward(request_, k, reduction_of(mean), in[0].view, in[1].view, q, d);
}

void Request::smooth(double temperature, nb::handle scores, nb::handle tokens) const {
    Array out[2];
    const TensorView first = result_view(out[0], scores, "out");
    const TensorView second = result_view(out[1], tokens, "tokens");
    const nb::gil_scoped_release unlocked;
    score_smooth(request_, temperature, first, second);
}

void Request::smooth_backward(double temperature, nb::handle tokens, nb::handle grad_scores, nb::handle grad_q,
                              nb::handle grad_d) const {
    Array in[2];
    Array out[2];
    in[0].read({tokens, "tokens", Role::tokens});
    in[1].read({grad_scores, "grad_scores", Role::tokens});
    const TensorView q = result_view(out[0], grad_q, "grad_q");
    const TensorView d = result_view(out[1], grad_d, "grad_d");
    const nb::gil_scoped_release unlocked;
    score_smooth_backward(request_, temperature, in[0].view, in[1].view, q, d);
}

void Request::prefixes(const std::vector<std::int64_t>& dims, nb::handle scores, nb::handle index) const {
    Array out[2];
    const TensorView first = result_view(out[0], scores, "out");
    const TensorView second = result_view(out[1], index, "index");
    const nb::gil_scoped_release unlocked;
    score_prefixes(request_, dims, first, second);
}

void Request::xtr(std::int64_t k, bool impute, nb::handle scores, nb::handle index, nb::handle last_document,
                  nb::handle last_token) const {
    Array out[4];
    const TensorView first = result_view(out[0], scores, "out");
    const TensorView second = result_view(out[1], index, "index");
    const TensorView document = result_view(out[2], last_document, "last_document");
    const TensorView token = result_view(out[3], last_token, "last_token");
    const nb::gil_scoped_release unlocked;
    score_xtr(request_, k, impute ? Imputation::last : Imputation::none, first, second, document, token);
}

void define_selection_methods(nb::class_<Request>& request) {
    const auto none = [](const char* name) { return nb::arg(name).none() = nb::none(); };
    request.def("topk_tokens", &Request::topk_tokens, nb::arg("k"), nb::arg("mean"), nb::arg("scores"), none("index"))
        .def("topk_tokens_backward", &Request::topk_tokens_backward, nb::arg("k"), nb::arg("mean"), nb::arg("index"),
             nb::arg("grad_scores"), nb::arg("grad_q").none(), nb::arg("grad_d").none())
        .def("smooth", &Request::smooth, nb::arg("temperature"), nb::arg("scores"), none("tokens"))
        .def("smooth_backward", &Request::smooth_backward, nb::arg("temperature"), nb::arg("tokens"),
             nb::arg("grad_scores"), nb::arg("grad_q").none(), nb::arg("grad_d").none())
        .def("prefixes", &Request::prefixes, nb::arg("dims"), nb::arg("scores"), none("index"))
        .def("xtr", &Request::xtr, nb::arg("k"), nb::arg("impute"), nb::arg("scores"), none("index"),
             none("last_document"), none("last_token"));
}

void define_selection(nb::module_& m) {
    m.def("inverse_grid", &fill_inverse_grid, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
    m.def("scatter_sum", &fill_scatter_sum, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(),
          nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace rowmax::python
