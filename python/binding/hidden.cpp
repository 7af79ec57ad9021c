// Documents that are hidden states.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include <cstdint>
#include <string_view>

#include "core/device_hidden.hpp"
#include "core/projection.hpp"
#include "request.hpp"
#include "rowmax/error.hpp"

namespace rowmax::python {

void Request::write_tokens(nb::handle tokens) const {
    Array out;
    const TensorView view = result_view(out, tokens, "tokens");
    check_device(out, "tokens");
    const nb::gil_scoped_release unlocked;
    core::write_tokens(request_, view);
}

namespace {

using Address = std::uintptr_t;

template <class T>
T* at(Address address) {
    return reinterpret_cast<T*>(address);
}

const core::DeviceHidden& device() {
    const core::DeviceHidden* found = core::device_hidden();
    if (found == nullptr) throw Error(ErrorCode::not_implemented, "this build of rowmax has no CUDA kernels");
    return *found;
}

core::Place place_of(int ordinal, Address stream) {
    return {true, ordinal, at<void>(stream), nullptr};
}

void winners(Address index, std::int64_t queries, std::int64_t query_stride, std::int64_t documents,
             std::int64_t query_length, std::int64_t first_row, std::int64_t length, Address starts, bool wide_starts,
             std::int64_t places, Address place, Address rows, int ordinal, Address stream) {
    core::HiddenWinners call;
    call.index = at<const std::int32_t>(index);
    call.queries = queries;
    call.query_stride = query_stride;
    call.documents = documents;
    call.query_length = query_length;
    call.first_row = first_row;
    call.length = length;
    call.starts = at<const void>(starts);
    call.wide_starts = wide_starts;
    call.places = places;
    call.place = at<std::int32_t>(place);
    call.rows = at<std::int64_t>(rows);
    device().winners(place_of(ordinal, stream), call);
}

void rows(bool back, Address chosen, std::int64_t count, std::int64_t bytes, Address all, std::int64_t length,
          std::int64_t item_stride, std::int64_t token_stride, Address copy, int ordinal, Address stream) {
    core::ChosenRows call;
    call.rows = at<const std::int64_t>(chosen);
    call.count = count;
    call.bytes = bytes;
    call.all = at<std::byte>(all);
    call.length = length;
    call.item_stride = item_stride;
    call.token_stride = token_stride;
    call.copy = at<std::byte>(copy);
    (back ? device().scatter : device().gather)(place_of(ordinal, stream), call);
}

void tokens(Address sums, Address bias, std::string_view dtype, std::int64_t count, std::int64_t dim, bool normalize,
            bool rounded, Address to, Address inverse, int ordinal, Address stream) {
    core::ProjectedSums call;
    call.sums = at<const void>(sums);
    call.bias = at<const void>(bias);
    call.dtype = dtype_from_name(dtype);
    call.count = count;
    call.dim = dim;
    call.normalize = normalize;
    call.rounded = rounded;
    call.tokens = at<void>(to);
    call.inverse = at<float>(inverse);
    device().tokens(place_of(ordinal, stream), call);
}

void gradients(Address of_tokens, Address tokens, Address inverse, std::string_view dtype, Address rounded,
               std::int64_t count, std::int64_t dim, int ordinal, Address stream) {
    core::ProjectedGradients call;
    call.gradients = at<float>(of_tokens);
    call.tokens = at<const float>(tokens);
    call.inverse = at<const float>(inverse);
    call.dtype = dtype_from_name(dtype);
    call.rounded = at<void>(rounded);
    call.count = count;
    call.dim = dim;
    device().through_norm(place_of(ordinal, stream), call);
}

}  // namespace

// Their memory is the caller's to keep: tensors that live until the work is queued, and are given back to torch's
// allocator in the order of its stream.
void define_hidden(nb::module_& m) {
    m.def("hidden_winners", &winners);
    m.def("hidden_rows", &rows);
    m.def("hidden_tokens", &tokens);
    m.def("hidden_gradients", &gradients);
}

}  // namespace rowmax::python
