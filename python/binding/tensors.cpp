#include "tensors.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "rowmax/error.hpp"

namespace rowmax::python {

namespace {

// The part of DLPack 1.3's C exchange API that is used. https://dmlc.github.io/dlpack/latest/c_api.html
struct ExchangeApi {
    std::uint32_t major;
    std::uint32_t minor;
    ExchangeApi* previous;
    void* allocate;
    void* from_object;
    void* to_object;
    int (*borrow)(void* object, nb::dlpack::dltensor* out);
    int (*current_stream)(std::int32_t device_type, std::int32_t ordinal, void** out);
};

/// What is kept of torch. Never freed: at exit the interpreter is gone before static objects are.
struct Torch {
    PyTypeObject* type = nullptr;
    const ExchangeApi* api = nullptr;
    nb::object empty;
    nb::object device;
    nb::object keywords;                // ("dtype", "device")
    std::array<nb::object, 11> dtypes;  // by DType
    std::vector<nb::object> devices;    // the CPU, CUDA device 0, 1...
};
Torch* torch = nullptr;

nb::handle device_object(int cuda) {
    const auto at = static_cast<std::size_t>(cuda + 1);
    while (torch->devices.size() <= at) {
        const auto number = static_cast<int>(torch->devices.size()) - 1;
        torch->devices.push_back(number < 0 ? torch->device("cpu") : torch->device("cuda", number));
    }
    return torch->devices[at];
}

}  // namespace

bool use_torch(nb::handle type, nb::handle capsule, nb::handle empty, nb::handle device, const nb::dict& dtypes) {
    const auto* api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (api == nullptr) throw nb::python_error();
    if (api->major != 1 || api->borrow == nullptr || api->current_stream == nullptr) return false;
    auto* made = new Torch;
    made->type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
    made->api = api;
    made->empty = nb::borrow(empty);
    made->device = nb::borrow(device);
    made->keywords = nb::make_tuple("dtype", "device");
    for (const auto [name, dtype] : dtypes) {
        made->dtypes.at(static_cast<std::size_t>(dtype_from_name(nb::cast<const char*>(name)))) = nb::borrow(dtype);
    }
    torch = made;
    return true;
}

bool is_tensor(nb::handle object) {
    return torch != nullptr && PyObject_TypeCheck(object.ptr(), torch->type) != 0;
}

bool borrow_tensor(nb::handle tensor, nb::dlpack::dltensor& view) {
    if (torch->api->borrow(tensor.ptr(), &view) == 0) return true;
    PyErr_Clear();
    return false;
}

void* current_stream(int ordinal) {
    void* stream = nullptr;
    if (torch->api->current_stream(nb::device::cuda::value, ordinal, &stream) == 0) return stream;
    PyErr_Clear();
    throw Error(ErrorCode::device, fmt::format("torch has no current stream on CUDA device {}", ordinal));
}

nb::object empty_tensor(std::span<const std::int64_t> shape, DType dtype, int cuda) {
    // Separate sizes are parsed in half the time of a tuple, which only a tensor without dimensions needs.
    std::array<PyObject*, TensorView::max_ndim + 2> arguments{};
    std::array<nb::object, TensorView::max_ndim> sizes;
    std::size_t count = 0;
    for (; count < shape.size(); ++count) {
        sizes.at(count) = nb::steal(PyLong_FromLongLong(shape[count]));
        arguments.at(count) = sizes.at(count).ptr();
    }
    if (count == 0) {
        sizes[0] = nb::make_tuple();
        arguments[count++] = sizes[0].ptr();
    }
    arguments.at(count) = torch->dtypes.at(static_cast<std::size_t>(dtype)).ptr();
    arguments.at(count + 1) = device_object(cuda).ptr();
    nb::object made =
        nb::steal(PyObject_Vectorcall(torch->empty.ptr(), arguments.data(), count, torch->keywords.ptr()));
    if (!made.is_valid()) throw nb::python_error();
    return made;
}

}  // namespace rowmax::python
