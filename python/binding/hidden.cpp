// Documents that are hidden states.
#include "core/projection.hpp"
#include "request.hpp"

namespace rowmax::python {

void Request::write_tokens(nb::handle tokens) const {
    Array out;
    const TensorView view = result_view(out, tokens, "tokens");
    check_device(out, "tokens");
    const nb::gil_scoped_release unlocked;
    core::write_tokens(request_, view);
}

}  // namespace rowmax::python
