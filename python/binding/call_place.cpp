#include "call_place.hpp"

#include <fmt/format.h>

#include <string>

#include "rowmax/error.hpp"
#include "tensors.hpp"

namespace rowmax::python {

namespace {

std::string place_name(int cuda) {
    return cuda < 0 ? std::string("the CPU") : fmt::format("CUDA device {}", cuda);
}

/// Whether kernels read the view in place: numbers side by side; of integers all, of points those of a row.
bool readable_in_place(const TensorView& view, Role role) {
    if (role == Role::integers) return view.contiguous();
    if (role != Role::tokens || view.ndim < 1) return true;
    const auto last = static_cast<std::size_t>(view.ndim) - 1;
    return view.stride.at(last) == 1 || view.shape.at(last) <= 1;
}

}  // namespace

void CallPlace::read(Array& array, const Argument& argument) {
    if (argument.object.is_none()) return;
    Argument here = argument;
    const bool tensor = is_tensor(argument.object);
    here.may_be_on_device = tensor || stream_.has_value();
    here.stream = stream_.value_or(0);
    array.read(here);
    if (array.cuda >= 0 && !readable_in_place(array.view, here.role)) {
        const nb::object copy = argument.object.attr(tensor ? "contiguous" : "copy")();
        here.object = copy;
        array.read(here);
    }
    if (first_name_ == nullptr) {
        first_name_ = argument.name;
        cuda_ = array.cuda;
    }
    if (array.cuda == cuda_) return;
    throw Error(ErrorCode::invalid_type, fmt::format("{} is on {} but {} is on {}: move one of them", first_name_,
                                                     place_name(cuda_), argument.name, place_name(array.cuda)));
}

Device CallPlace::device() {
    Device device;
    if (cuda_ < 0) return device;
    device.kind = Device::Kind::cuda;
    device.ordinal = cuda_;
    if (stream_.has_value()) {
        device.stream = reinterpret_cast<void*>(*stream_);
        return device;
    }
    device.stream = current_stream(cuda_);
    device.allocate = &CallPlace::allocate;
    device.context = this;
    return device;
}

// Called while the interpreter's lock is free.
void* CallPlace::allocate(void* self, std::size_t bytes) {
    const nb::gil_scoped_acquire locked;
    auto& place = *static_cast<CallPlace*>(self);
    const auto size = static_cast<std::int64_t>(bytes);
    const nb::object scratch = empty_tensor({&size, 1}, DType::u8, place.cuda_);
    place.scratch_.read({scratch, "scratch", Role::mask, false, true});
    return place.scratch_.view.data;
}

}  // namespace rowmax::python
