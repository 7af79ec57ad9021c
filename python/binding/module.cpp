// The native module: what the package calls. Arrays in, arrays filled in place; results are allocated in Python.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "core/device_runtime.hpp"
#include "request.hpp"
#include "rowmax/error.hpp"
#include "rowmax/maxsim.hpp"
#include "tensors.hpp"

namespace rowmax::python {

void define_compressed(nb::module_& m);
void define_corpus(nb::module_& m);
void define_hidden(nb::module_& m);
void define_points(nb::module_& m);
void define_selection(nb::module_& m);
void define_selection_methods(nb::class_<Request>& request);
void define_plaid(nb::module_& m);

namespace {

PyObject* exception_for(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_value:
        case ErrorCode::data: return PyExc_ValueError;
        case ErrorCode::invalid_type: return PyExc_TypeError;
        case ErrorCode::not_implemented: return PyExc_NotImplementedError;
        case ErrorCode::out_of_memory: return PyExc_MemoryError;
        case ErrorCode::io: return PyExc_OSError;
        case ErrorCode::device:
        case ErrorCode::internal: break;
    }
    return PyExc_RuntimeError;
}

void translate(const std::exception_ptr& error, void*) {
    try {
        std::rethrow_exception(error);
    } catch (const Error& e) {
        // A path in it need not be UTF-8.
        const nb::object message = nb::steal(PyUnicode_DecodeFSDefault(e.what()));
        if (message.is_valid()) PyErr_SetObject(exception_for(e.code()), message.ptr());
    }
}

// The shortest way for torch, whose calls are timed in microseconds: no request in Python, results made here.
nb::object score_tensors(nb::handle q, nb::handle d, std::string_view pairing, const nb::dict& extras,
                         bool return_index, bool saved) {
    return Request(q, d, pairing, extras, 0, nb::none()).evaluate(return_index, saved);
}

nb::tuple gradient_tensors(nb::handle q, nb::handle d, std::string_view pairing, const nb::dict& extras,
                           nb::handle index, nb::handle grad_scores, bool for_q, bool for_d) {
    return Request(q, d, pairing, extras, 0, nb::none()).gradients(index, grad_scores, for_q, for_d);
}

void score_into(nb::handle q, nb::handle d, std::string_view pairing, const nb::dict& extras, nb::handle scores,
                nb::handle index) {
    Request(q, d, pairing, extras, 0, nb::none()).score(scores, index, nb::none());
}

void wait(int ordinal, std::uintptr_t stream) {
    const core::DeviceRuntime* device = core::device_runtime();
    if (device == nullptr) throw Error(ErrorCode::not_implemented, "this build of rowmax has no CUDA kernels");
    nb::gil_scoped_release unlocked;
    device->drain({true, ordinal, reinterpret_cast<void*>(stream), nullptr});
}

// Faster than torch's fill kernel, by a quarter where it is gigabytes.
void clear(std::uintptr_t memory, std::size_t bytes, int ordinal, std::uintptr_t stream) {
    const core::DeviceRuntime* device = core::device_runtime();
    if (device == nullptr) throw Error(ErrorCode::not_implemented, "this build of rowmax has no CUDA kernels");
    nb::gil_scoped_release unlocked;
    device->clear({true, ordinal, reinterpret_cast<void*>(stream), nullptr}, reinterpret_cast<void*>(memory), bytes);
}

void define_request(nb::module_& m) {
    nb::class_<Request> request(m, "Request");
    request
        .def(nb::init<nb::handle, nb::handle, std::string_view, const nb::dict&, std::uintptr_t, nb::handle>(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg() = 0, nb::arg().none() = nb::none())
        .def("result", &Request::result)
        .def("score", &Request::score, nb::arg("scores"), nb::arg("index").none() = nb::none(),
             nb::arg("similarity").none() = nb::none())
        .def("backward", &Request::backward, nb::arg("index"), nb::arg("grad_scores"), nb::arg("grad_q").none(),
             nb::arg("grad_d").none(), nb::arg("grad_w").none() = nb::none(), nb::arg("grad_b").none() = nb::none())
        .def("write_tokens", &Request::write_tokens)
        .def("topk_shape", &Request::topk_shape)
        .def("topk", &Request::topk)
        .def("search", &Request::search)
        .def("explain_dispatch", &Request::explain_dispatch);
    define_selection_methods(request);
}

std::string text_of(const KernelInfo& kernel) {
    return fmt::format("<rowmax.KernelInfo {}: {}>", kernel.name,
                       kernel.chosen             ? "chosen"
                       : !kernel.refusal.empty() ? kernel.refusal
                                                 : "available");
}

void define_kernels(nb::module_& m) {
    nb::class_<KernelInfo>(m, "KernelInfo")
        .def_ro("name", &KernelInfo::name)
        .def_ro("backend", &KernelInfo::backend)
        .def_ro("description", &KernelInfo::description)
        .def_ro("available", &KernelInfo::available)
        .def_ro("chosen", &KernelInfo::chosen)
        .def_ro("refusal", &KernelInfo::refusal)
        .def("__repr__", &text_of);
    m.def("kernels", &kernels);
    m.def("version", &version);
}

}  // namespace

}  // namespace rowmax::python

NB_MODULE(_native, m) {
    using namespace rowmax::python;
    nb::register_exception_translator(translate);
    define_request(m);
    define_kernels(m);
    define_compressed(m);
    define_corpus(m);
    define_hidden(m);
    define_points(m);
    define_selection(m);
    define_plaid(m);
    m.def("score_tensors", &score_tensors, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg() = false);
    m.def("gradient_tensors", &gradient_tensors);
    m.def("score_into", &score_into, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
    m.def("use_torch", &use_torch);
    m.def("wait", &wait);
    m.def("clear", &clear);
}
