// Single views: checked, and made readable for kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/params.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::core {

/// Copies that views need because a kernel cannot read them in place. Memory of a device is not copied for that: there
/// such views are refused.
struct Copies {
    bool on_device = false;
    Place place = {};
    std::vector<std::unique_ptr<std::byte[]>> held;
};

/// An input that must be given: no negative size, memory where there are elements, offsets that fit 64 bits.
void check_input(const TensorView& view, std::string_view name);

/// The memory of an output that must be given: this type, this shape, contiguous and aligned.
void* checked_output(const TensorView& view, DType dtype, std::span<const std::int64_t> shape, std::string_view name);

/// `view` itself when its base is aligned, else a row-major copy. Strides that nobody steps along become 0.
TensorView aligned_view(Copies& copies, const TensorView& view);
/// The same, and the last dimension is contiguous.
TensorView readable(Copies& copies, const TensorView& view);

/// A row-major copy, as one dimension.
TensorView contiguous_copy(Copies& copies, const TensorView& view);

/// Rows [first, last) of the outermost dimension; one that is not given stays so.
TensorView rows_of(TensorView view, std::int64_t first, std::int64_t last);

/// A contiguous list of int32 or int64.
struct IntList {
    const void* data = nullptr;
    std::int64_t count = 0;
    bool wide = false;
};
IntList int_list(Copies& copies, const TensorView& view, std::string_view name);
/// The same list where the host can read it: for a device's, a copy that is waited for.
IntList on_host(Copies& copies, const IntList& list);

/// Of values that belong to the tokens of a side with `items` dimensions before them, or to the items themselves.
TokenSteps token_steps(const TensorView& view, int items);

/// a * b, or an error that says what they count.
std::int64_t checked_product(std::int64_t a, std::int64_t b, std::string_view what);

}  // namespace rowmax::core
