#include "request.hpp"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/problem.hpp"
#include "io/token_source.hpp"
#include "rowmax/error.hpp"
#include "stream/search.hpp"
#include "tensors.hpp"

namespace rowmax::python {

namespace {

Pairing pairing_named(std::string_view name) {
    if (name == "cross") return Pairing::cross;
    if (name == "grouped") return Pairing::grouped;
    if (name == "zipped") return Pairing::zipped;
    if (name == "list") return Pairing::list;
    throw Error(ErrorCode::internal, fmt::format("pairing: '{}'", name));
}

bool last_contiguous(const TensorView& view) {
    if (view.ndim < 1) return true;
    const auto last = static_cast<std::size_t>(view.ndim) - 1;
    return view.stride[last] == 1 || view.shape[last] <= 1;
}

nb::tuple tuple_of(const std::vector<std::int64_t>& shape) {
    nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
    if (!tuple.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < shape.size(); ++i) {
        PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
    }
    return nb::borrow<nb::tuple>(tuple);
}

std::int64_t items(const TokenSet& side) {
    if (side.cu_seqlens.given()) return std::max<std::int64_t>(side.cu_seqlens.shape[0] - 1, 0);
    return side.tokens.ndim == 2 ? 1 : side.tokens.shape[0];
}

[[noreturn]] void refuse(std::string_view name, const char* wanted, nb::handle value) {
    throw Error(ErrorCode::invalid_type,
                fmt::format("{} must be {}, got {} {}", name, wanted, nb::cast<std::string>(nb::inst_name(value)),
                            nb::cast<std::string>(nb::repr(value))));
}

// Also of numpy's integers.
std::int64_t integer(std::string_view name, nb::handle value) {
    const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
    if (!index.is_valid()) {
        PyErr_Clear();
        refuse(name, "an integer", value);
    }
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow == 0) return number;
    throw Error(ErrorCode::invalid_value,
                fmt::format("{}: {} does not fit 64 bits", name, nb::cast<std::string>(nb::str(index))));
}

/// What the function that made the call names its tokens.
struct TokenNames {
    const char* q = "Q";
    const char* d = "D";
};

TokenNames names_of(const nb::dict& extras) {
    if (extras.size() == 0) return {};
    if (extras.contains("W")) return {"Q", "H"};
    if (extras.contains("nbits")) return {"Q", "residuals"};
    if (extras.contains("signs")) return {"Q", "Db"};
    if (extras.contains("sign_bits")) return {"Qb", "Db"};
    if (extras.contains("fp8")) return {"Q8", "D8"};
    return extras.contains("q_scale") || extras.contains("d_scale") ? TokenNames{"Qi", "Di"} : TokenNames{};
}

std::string text(std::string_view name, nb::handle value) {
    std::string result;
    if (!nb::try_cast(value, result)) refuse(name, "a string", value);
    return result;
}

}  // namespace

Request::Request(nb::handle q, nb::handle d, std::string_view pairing, const nb::dict& extras, std::uintptr_t stream,
                 nb::handle scratch)
    : stream_(stream), scratch_(nb::borrow(scratch)), tensors_(is_tensor(q)) {
    std::string dtype;
    if (extras.size() != 0 && extras.contains("dtype")) dtype = text("dtype", extras["dtype"]);
    bits_are_bfloat16_ = dtype == "bfloat16";
    const TokenNames names = names_of(extras);
    request_.q.name = names.q;
    request_.d.name = names.d;
    read_tokens(q_, {q, names.q, Role::tokens, dtype == "bfloat16", true, stream}, request_.q.tokens, dtype);
    if (tensors_ && q_.cuda >= 0) stream_ = reinterpret_cast<std::uintptr_t>(current_stream(q_.cuda));
    if (extras.contains("nbits") || extras.contains("signs")) {
        d_.read({d, names.d, Role::bytes, false, true, stream_});
        request_.d.tokens = d_.view;
        request_.d.residual = &tables_;
        tables_.normalize = false;
    } else {
        if (extras.contains("W")) {
            request_.d.projection = &projection_;
            projection_.normalize = false;
        }
        read_tokens(d_, {d, names.d, Role::tokens, dtype == "bfloat16", true, stream_}, request_.d.tokens, dtype);
    }
    for (const auto [name, value] : extras) read_extra(nb::cast<std::string_view>(name), value);
    request_.pairing = pairing_named(pairing);
    request_.options.kernel = kernel_;
    choose_place();
}

// Everything lies where Q does.
void Request::choose_place() {
    check_device(d_, request_.d.name.data());
    for (std::size_t i = 0; i < others_.size(); ++i) check_device(*others_[i], names_[i]);
    if (q_.cuda < 0) return;
    Device& device = request_.options.device;
    device.kind = Device::Kind::cuda;
    device.ordinal = q_.cuda;
    device.stream = reinterpret_cast<void*>(stream_);
    if (!tensors_ && scratch_.is_none()) return;
    device.allocate = &Request::allocate;
    device.context = this;
}

void Request::check_device(const Array& array, const char* name) const {
    if (!array.view.given() || array.cuda == q_.cuda) return;
    const auto place = [](int cuda) { return cuda < 0 ? std::string("the CPU") : fmt::format("CUDA device {}", cuda); };
    throw Error(ErrorCode::invalid_type, fmt::format("{} is on {} but {} is on {}: move one of them", request_.q.name,
                                                     place(q_.cuda), name, place(array.cuda)));
}

// Called while the interpreter's lock is free.
void* Request::allocate(void* request, std::size_t bytes) {
    const nb::gil_scoped_acquire locked;
    auto& self = *static_cast<Request*>(request);
    const auto size = static_cast<std::int64_t>(bytes);
    const nb::object scratch = self.tensors_ ? empty_tensor({&size, 1}, DType::u8, self.q_.cuda) : self.scratch_(bytes);
    self.scratch_array_.read({scratch, "scratch", Role::mask, false, true, self.stream_});
    return self.scratch_array_.view.data;
}

void Request::read_tokens(Array& array, const Argument& argument, TensorView& view, std::string_view dtype) {
    array.read(argument);
    if (array.cuda >= 0 && !last_contiguous(array.view) && is_tensor(argument.object)) {
        // Kernels read views in place whose last dimension is contiguous.
        Argument copy = argument;
        const nb::object tensor = argument.object.attr("contiguous")();
        copy.object = tensor;
        array.read(copy);
    }
    view = array.view;
    if (dtype.empty() || dtype_from_name(dtype) == view.dtype) return;
    throw Error(ErrorCode::invalid_type, fmt::format("{} is {} but dtype is '{}': tokens are not converted",
                                                     argument.name, name_of(view.dtype), dtype));
}

void Request::read_extra(std::string_view name, nb::handle value) {
    Options& options = request_.options;
    if (name == "dtype" || read_array(name, value)) return;
    if (name == "normalize") {
        options.normalize = nb::cast<bool>(value);
    } else if (name == "precision") {
        options.precision = text(name, value) == "high" ? Precision::high : Precision::highest;
    } else if (name == "validate") {
        options.validate = nb::cast<bool>(value);
    } else if (name == "threads") {
        options.threads = static_cast<int>(std::clamp<std::int64_t>(
            integer(name, value), std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
    } else if (name == "kernel") {
        kernel_ = text(name, value);
    } else if (name == "nbits") {
        tables_.nbits = static_cast<int>(std::clamp<std::int64_t>(integer(name, value), -1, 64));
    } else if (name == "signs") {
        tables_.nbits = 1;
    } else if (name == "sign_bits") {
        request_.q.sign_bits = request_.d.sign_bits = integer(name, value);
    } else if (name == "fp8") {
        for (TensorView* tokens : {&request_.q.tokens, &request_.d.tokens}) {
            if (tokens->dtype == DType::u8) tokens->dtype = DType::f8e4m3;
        }
    } else if (name == "bit_order") {
        tables_.bit_order = text(name, value) == "little" ? BitOrder::little : BitOrder::colbert;
    } else if (name == "normalize_residuals") {
        tables_.normalize = nb::cast<bool>(value);
    } else if (name == "normalize_hidden") {
        projection_.normalize = nb::cast<bool>(value);
    } else if (name == "max_seqlen_q") {
        request_.q.max_seqlen = integer(name, value);
    } else if (name == "max_seqlen_d") {
        request_.d.max_seqlen = integer(name, value);
    } else {
        throw Error(ErrorCode::internal, fmt::format("no argument is named '{}'", name));
    }
}

bool Request::read_array(std::string_view name, nb::handle value) {
    struct Slot {
        const char* name;
        Role role;
        TensorView* view;
    };
    const Slot slots[] = {
        {"q_mask", Role::mask, &request_.q.mask},
        {"d_mask", Role::mask, &request_.d.mask},
        {"cu_seqlens_q", Role::integers, &request_.q.cu_seqlens},
        {"cu_seqlens_d", Role::integers, &request_.d.cu_seqlens},
        {"offsets", Role::integers, &request_.d.offsets},
        {"lengths", Role::integers, &request_.d.lengths},
        {"pair_q", Role::integers, &request_.pair_q},
        {"pair_d", Role::integers, &request_.pair_d},
        {"q_scale", Role::scale, &request_.q.scale},
        {"d_scale", Role::scale, &request_.d.scale},
        {"codes", Role::integers, &request_.d.codes},
        {"doc_lengths", Role::integers, &request_.d.lengths},
        {"centroids", Role::tokens, &tables_.centroids},
        {"bucket_weights", Role::tokens, &tables_.bucket_weights},
        {"W", Role::tokens, &projection_.weight},
        {"b", Role::tokens, &projection_.bias},
    };
    const Slot* slot = std::find_if(std::begin(slots), std::end(slots), [&](const Slot& s) { return name == s.name; });
    if (slot == std::end(slots)) return false;
    Array& array = *others_.emplace_back(std::make_unique<Array>());
    array.read({value, slot->name, slot->role, bits_are_bfloat16_ && slot->role == Role::tokens, true, stream_});
    names_.push_back(slot->name);
    *slot->view = array.view;
    return true;
}

TensorView Request::result_view(Array& array, nb::handle object, const char* name) const {
    array.read({object, name, Role::result, false, true, stream_});
    return array.view;
}

nb::object Request::evaluate(bool return_index, bool saved) const {
    core::Problem problem = core::make_problem(request_);
    const ResultShape& shape = problem.shape;
    nb::object scores = empty_tensor(shape.scores, shape.dtype, q_.cuda);
    const DType index_type = saved && core::index_fits_16_bits(problem) ? DType::i16 : DType::i32;
    const nb::object index = return_index ? empty_tensor(shape.tokens, index_type, q_.cuda) : nb::object(nb::none());
    Array out[2];
    const ScoreOutputs outputs{result_view(out[0], scores, "out"), result_view(out[1], index, "index"), {}};
    {
        const nb::gil_scoped_release unlocked;
        core::score(problem, request_, outputs);
    }
    return return_index ? nb::object(nb::make_tuple(scores, index)) : scores;
}

nb::tuple Request::result() const {
    const ResultShape shape = result_shape(request_);
    return nb::make_tuple(tuple_of(shape.scores), tuple_of(shape.tokens), name_of(shape.dtype));
}

void Request::score(nb::handle scores, nb::handle index, nb::handle similarity) const {
    Array out[3];
    const ScoreOutputs outputs{result_view(out[0], scores, "out"), result_view(out[1], index, "index"),
                               result_view(out[2], similarity, "similarity")};
    const char* names[] = {"out", "index", "similarity"};
    for (int i = 0; i < 3; ++i) check_device(out[i], names[i]);
    nb::gil_scoped_release unlocked;
    rowmax::score(request_, outputs);
}

void Request::backward(nb::handle index, nb::handle grad_scores, nb::handle grad_q, nb::handle grad_d,
                       nb::handle grad_w, nb::handle grad_b) const {
    Array in[2];
    Array out[4];
    in[0].read({index, "index", Role::integers, false, true, stream_});
    in[1].read({grad_scores, "grad_scores", Role::tokens, false, true, stream_});
    const TensorView q = result_view(out[0], grad_q, "grad_q");
    const TensorView d = result_view(out[1], grad_d, "grad_d");
    const TensorView w = result_view(out[2], grad_w, "grad_weight");
    const TensorView b = result_view(out[3], grad_b, "grad_bias");
    check_device(in[0], "index");
    check_device(in[1], "grad_scores");
    check_device(out[0], "grad_q");
    check_device(out[1], "grad_d");
    check_device(out[2], "grad_weight");
    check_device(out[3], "grad_bias");
    nb::gil_scoped_release unlocked;
    score_backward(request_, in[0].view, in[1].view, q, d, w, b);
}

nb::tuple Request::gradients(nb::handle index, nb::handle grad_scores, bool for_q, bool for_d) const {
    const auto like = [](const TensorView& tokens, int cuda) {
        const std::span<const std::int64_t> shape(tokens.shape.data(), static_cast<std::size_t>(tokens.ndim));
        return empty_tensor(shape, tokens.dtype, cuda);
    };
    const nb::object grad_q = for_q ? like(request_.q.tokens, q_.cuda) : nb::object(nb::none());
    const nb::object grad_d = for_d ? like(request_.d.tokens, q_.cuda) : nb::object(nb::none());
    backward(index, grad_scores, grad_q, grad_d, nb::none(), nb::none());
    return nb::make_tuple(grad_q, grad_d);
}

nb::tuple Request::topk_shape(std::int64_t k) const {
    return nb::make_tuple(items(request_.q), std::clamp<std::int64_t>(k, 0, items(request_.d)));
}

void Request::topk(std::int64_t k, std::int64_t chunk, nb::handle scores, nb::handle index) const {
    Array out[2];
    const TensorView best = result_view(out[0], scores, "out scores");
    const TensorView documents = result_view(out[1], index, "out index");
    for (const Array& array : out) check_device(array, "out");
    nb::gil_scoped_release unlocked;
    rowmax::topk(request_.q, request_.d, k, chunk, request_.options, best, documents);
}

namespace {

io::TokenSource source_of(const TokenSet& side) {
    return io::tokens_in_memory(side, io::Ids(items(side)));
}

// Ctrl-C is heard between blocks.
void run_search(stream::Search& search) {
    using Clock = std::chrono::steady_clock;
    constexpr auto often = std::chrono::milliseconds(100);
    Clock::time_point looked = Clock::now();
    while (search.step()) {
        if (Clock::now() - looked < often) continue;
        const nb::gil_scoped_acquire locked;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        looked = Clock::now();
    }
}

void write_hits(const stream::Search& search, float* scores, std::int64_t* index) {
    for (std::int64_t i = 0; i < search.query_count(); ++i) {
        for (const core::Hit& hit : search.ranked(i)) {
            *scores++ = static_cast<float>(hit.score);
            *index++ = hit.document;
        }
    }
}

}  // namespace

void Request::search(std::int64_t k, std::int64_t chunk, int device, nb::handle scores, nb::handle index) const {
    Array out[2];
    const core::Problem problem = core::make_problem(request_);
    if (problem.shape.dtype != DType::f32) {
        throw Error(ErrorCode::not_implemented, "float64 tokens are scored on the CPU alone");
    }
    const core::TopKOutputs hits =
        core::check_topk_outputs(problem, std::min(k, items(request_.d)), result_view(out[0], scores, "out scores"),
                                 result_view(out[1], index, "out index"));
    stream::SearchOptions options;
    options.k = k;
    options.block_documents = chunk;
    options.score = request_.options;
    if (device >= 0) options.devices = {device};
    nb::gil_scoped_release unlocked;
    stream::Search search(source_of(request_.q), {source_of(request_.d)}, options);
    run_search(search);
    write_hits(search, static_cast<float*>(hits.scores), hits.index);
}

std::vector<KernelInfo> Request::explain_dispatch() const {
    return rowmax::explain_dispatch(request_);
}

}  // namespace rowmax::python
