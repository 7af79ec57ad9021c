#include "arrays.hpp"

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "core/registry.hpp"
#include "rowmax/error.hpp"
#include "tensors.hpp"

namespace rowmax::python {

namespace {

// An element type as both DLPack and the buffer protocol can express it.
struct Element {
    enum class Kind { integer, unsigned_integer, real, bfloat, boolean, other } kind = Kind::other;
    std::int64_t size = 0;
};

std::string element_name(nb::handle object) {
    const nb::object name = nb::hasattr(object, "dtype") ? nb::object(object.attr("dtype")) : nb::inst_name(object);
    return nb::cast<std::string>(nb::str(nb::handle(name)));
}

const char* wanted_by(Role role) {
    switch (role) {
        case Role::tokens: return "float16, bfloat16, float32 or float64";
        case Role::mask: return "boolean, integer or floating point";
        case Role::integers: return "int32 or int64";
        case Role::bytes: return "uint8";
        case Role::scale: return "float32";
        case Role::result: break;
    }
    return "float32, float64, int32 or int64";
}

[[noreturn]] void refuse_type(const Argument& argument) {
    throw Error(ErrorCode::invalid_type, fmt::format("{} must be {}, got {}", argument.name, wanted_by(argument.role),
                                                     element_name(argument.object)));
}

constexpr DType integer_of_size(std::int64_t size) {
    return size == 1 ? DType::i8 : size == 2 ? DType::i16 : size == 4 ? DType::i32 : DType::i64;
}

DType unsigned_dtype(std::int64_t size, const Argument& argument) {
    if (size == 1) return DType::u8;
    if (size == 2 && argument.bits_are_bfloat16) return DType::bf16;
    if (argument.role == Role::mask) return integer_of_size(size);  // only zero or not is asked
    if (argument.role != Role::tokens || size != 2) refuse_type(argument);
    throw Error(ErrorCode::invalid_type,
                fmt::format("{} is uint16: pass dtype=\"bfloat16\" if it holds bfloat16 bits", argument.name));
}

DType dtype_of(Element element, const Argument& argument) {
    switch (element.kind) {
        case Element::Kind::boolean: return DType::boolean;
        case Element::Kind::integer: return integer_of_size(element.size);
        case Element::Kind::unsigned_integer: return unsigned_dtype(element.size, argument);
        case Element::Kind::bfloat: return DType::bf16;
        case Element::Kind::real:
            if (element.size == 2) return DType::f16;
            if (element.size == 4) return DType::f32;
            if (element.size == 8) return DType::f64;
            break;
        case Element::Kind::other: break;
    }
    refuse_type(argument);
}

// A struct-module format: one native element, or something we do not read.
Element element_of(const Py_buffer& buffer) {
    const char* format = buffer.format == nullptr ? "B" : buffer.format;
    if (*format == '@' || *format == '=' || *format == '<') ++format;
    if (*format == '\0' || format[1] != '\0') return {};
    const auto is = [&](const char* letters) { return std::strchr(letters, *format) != nullptr; };
    if (is("?")) return {Element::Kind::boolean, buffer.itemsize};
    if (is("bhilqn")) return {Element::Kind::integer, buffer.itemsize};
    if (is("BHILQN")) return {Element::Kind::unsigned_integer, buffer.itemsize};
    if (is("efd")) return {Element::Kind::real, buffer.itemsize};
    return {};
}

Element element_of(nb::dlpack::dtype dtype) {
    if (dtype.lanes != 1 || dtype.bits % 8 != 0) return {};
    switch (static_cast<nb::dlpack::dtype_code>(dtype.code)) {
        case nb::dlpack::dtype_code::Int: return {Element::Kind::integer, dtype.bits / 8};
        case nb::dlpack::dtype_code::UInt: return {Element::Kind::unsigned_integer, dtype.bits / 8};
        case nb::dlpack::dtype_code::Float: return {Element::Kind::real, dtype.bits / 8};
        case nb::dlpack::dtype_code::Bfloat: return {Element::Kind::bfloat, dtype.bits / 8};
        case nb::dlpack::dtype_code::Bool: return {Element::Kind::boolean, dtype.bits / 8};
        default: return {};
    }
}

void check_ndim(std::int64_t ndim, const char* name) {
    if (ndim <= TensorView::max_ndim) return;
    throw Error(ErrorCode::invalid_value, fmt::format("{} has {} dimensions; at most {} are understood", name, ndim,
                                                      static_cast<int>(TensorView::max_ndim)));
}

bool is_cuda(std::int32_t type) {
    return type == nb::device::cuda::value || type == nb::device::cuda_managed::value;
}

/// The CUDA device of an array, -1 for the CPU.
int device_of(nb::dlpack::device device, const char* name, bool allowed) {
    const auto type = device.device_type;
    if (type == nb::device::cpu::value || type == nb::device::cuda_host::value) return -1;
    if (is_cuda(type)) {
        if (!core::cuda_kernels().empty()) {
            if (allowed) return device.device_id;
            throw Error(ErrorCode::not_implemented,
                        fmt::format("{} is on CUDA device {}: this function reads only the CPU's memory", name,
                                    device.device_id));
        }
        throw Error(ErrorCode::not_implemented,
                    fmt::format("{} is on CUDA device {}, but this build of rowmax has no CUDA kernels: move it to "
                                "the CPU",
                                name, device.device_id));
    }
    throw Error(ErrorCode::invalid_type,
                fmt::format("{} is on a device that rowmax does not know (DLPack type {})", name, type));
}

// What to import: the array, or if a CUDA device holds it, a capsule whose producer knows the stream that will use it.
// https://data-apis.org/array-api/latest/API_specification/generated/array_api.array.__dlpack__.html
nb::object exported(const Argument& argument) {
    constexpr std::uintptr_t default_stream = 1;  // there, 0 could mean several
    const nb::handle array = argument.object;
    if (!argument.may_be_on_device || !nb::hasattr(array, "__dlpack_device__")) return nb::borrow(array);
    const auto [type, ordinal] = nb::cast<std::pair<int, int>>(array.attr("__dlpack_device__")());
    if (!is_cuda(type)) return nb::borrow(array);
    const std::uintptr_t stream = argument.stream == 0 ? default_stream : argument.stream;
    return array.attr("__dlpack__")(nb::arg("stream") = stream);
}

}  // namespace

Array::~Array() {
    if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
}

void Array::read(const Argument& argument) {
    if (argument.object.is_none()) return;
    if (read_tensor(argument) || read_buffer(argument) || read_dlpack(argument)) return;
    if (read_ml_dtypes(argument) || read_list(argument)) return;
    refuse_type(argument);
}

bool Array::read_tensor(const Argument& argument) {
    if (!is_tensor(argument.object)) return false;
    nb::dlpack::dltensor tensor;
    if (!borrow_tensor(argument.object, tensor)) {
        throw Error(ErrorCode::invalid_type, fmt::format("{} has no memory to read: a sparse, quantised, meta or "
                                                         "transformed tensor",
                                                         argument.name));
    }
    owner_ = nb::borrow(argument.object);
    view_dlpack(tensor, argument);
    return true;
}

bool Array::read_buffer(const Argument& argument) {
    if (PyObject_CheckBuffer(argument.object.ptr()) == 0) return false;
    if (PyObject_GetBuffer(argument.object.ptr(), &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
        PyErr_Clear();
        return false;
    }
    if (argument.role == Role::result && buffer_.readonly != 0) {
        throw Error(ErrorCode::invalid_value, fmt::format("{} is read-only", argument.name));
    }
    check_ndim(buffer_.ndim, argument.name);
    view_buffer(argument);
    return true;
}

void Array::view_buffer(const Argument& argument) {
    view.dtype = dtype_of(element_of(buffer_), argument);
    view.data = buffer_.buf;
    view.ndim = buffer_.ndim;
    bool readable = reinterpret_cast<std::uintptr_t>(buffer_.buf) % static_cast<std::size_t>(buffer_.itemsize) == 0;
    for (int i = 0; i < buffer_.ndim; ++i) {
        view.shape[i] = buffer_.shape[i];
        view.stride[i] = buffer_.strides[i] / buffer_.itemsize;
        readable = readable && buffer_.strides[i] % buffer_.itemsize == 0;
    }
    if (readable) return;
    // A field of a structured array, or bytes at an odd address: steps that are no multiple of the element.
    if (argument.role == Role::result) {
        throw Error(ErrorCode::invalid_value, fmt::format("{} must be contiguous and aligned", argument.name));
    }
    copy_ = std::make_unique<std::byte[]>(static_cast<std::size_t>(buffer_.len));
    if (PyBuffer_ToContiguous(copy_.get(), &buffer_, buffer_.len, 'C') != 0) throw nb::python_error();
    view = TensorView(copy_.get(), view.dtype, std::span(buffer_.shape, static_cast<std::size_t>(buffer_.ndim)));
}

bool Array::read_dlpack(const Argument& argument) {
    const nb::object source = exported(argument);
    if (argument.role == Role::result) {
        nb::ndarray<> writable;
        if (!nb::try_cast(source, writable, false)) return false;
        dlpack_ = nb::ndarray<nb::ro>(writable);
    } else if (!nb::try_cast(source, dlpack_, false)) {
        return false;
    }
    nb::dlpack::dltensor tensor;
    tensor.data = dlpack_.data_handle();
    tensor.byte_offset = dlpack_.byte_offset();
    tensor.device = {dlpack_.device_type(), dlpack_.device_id()};
    tensor.dtype = dlpack_.dtype();
    tensor.ndim = static_cast<std::int32_t>(dlpack_.ndim());
    tensor.shape = const_cast<std::int64_t*>(dlpack_.shape_ptr());
    tensor.strides = const_cast<std::int64_t*>(dlpack_.stride_ptr());
    view_dlpack(tensor, argument);
    return true;
}

void Array::view_dlpack(const nb::dlpack::dltensor& tensor, const Argument& argument) {
    cuda = device_of(tensor.device, argument.name, argument.may_be_on_device);
    check_ndim(tensor.ndim, argument.name);
    const auto rank = static_cast<std::size_t>(tensor.ndim);
    const std::byte* data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
    const DType dtype = dtype_of(element_of(tensor.dtype), argument);
    const std::span<const std::int64_t> shape(tensor.shape, rank);
    view = tensor.strides == nullptr
               ? TensorView(data, dtype, shape)
               : TensorView(data, dtype, shape, std::span<const std::int64_t>(tensor.strides, rank));
}

// ml_dtypes.bfloat16 has neither a buffer format nor a DLPack export in numpy: its bits are read.
bool Array::read_ml_dtypes(const Argument& argument) {
    if (argument.role == Role::result || element_name(argument.object) != "bfloat16") return false;
    const nb::object bits = argument.object.attr("view")("uint16");
    return read_buffer({bits, argument.name, argument.role, true});
}

// Offsets, pairs and masks may be written out.
bool Array::read_list(const Argument& argument) {
    if (argument.role != Role::integers && argument.role != Role::mask) return false;
    if (!nb::isinstance<nb::list>(argument.object) && !nb::isinstance<nb::tuple>(argument.object)) return false;
    const nb::module_ numpy = nb::module_::import_("numpy");
    nb::object array;
    try {
        array = numpy.attr("asarray")(argument.object);
    } catch (nb::python_error& error) {  // lists of different lengths
        throw Error(ErrorCode::invalid_value, fmt::format("{}: {}", argument.name, error.what()));
    }
    // numpy takes an empty list for floating point.
    if (nb::cast<std::int64_t>(array.attr("size")) == 0) array = array.attr("astype")("int64");
    return read_buffer({array, argument.name, argument.role});
}

}  // namespace rowmax::python
