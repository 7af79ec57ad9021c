// Nearest points and Chamfer distances: arrays in, arrays filled in place.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "call_place.hpp"
#include "rowmax/nearest.hpp"

namespace rowmax::python {

namespace {

/// The arrays of one call, and the request over them. Not movable, like its arrays.
class Points {
  public:
    /// `extras`: what was given beyond P and R, by the names of the Python functions.
    Points(nb::handle P, nb::handle R, const nb::dict& extras) : place_(stream_of(extras)) {
        const bool bits = extras.contains("dtype");
        place_.read(p_, {P, "P", Role::tokens, bits});
        place_.read(r_, {R, "R", Role::tokens, bits});
        request_.p = {p_.view, optional(extras, p_mask_, "p_mask", Role::mask),
                      optional(extras, cu_seqlens_p_, "cu_seqlens_p", Role::integers)};
        request_.r = {r_.view, optional(extras, r_mask_, "r_mask", Role::mask),
                      optional(extras, cu_seqlens_r_, "cu_seqlens_r", Role::integers)};
        PointOptions& options = request_.options;
        if (extras.contains("l1")) options.metric = Metric::l1;
        if (extras.contains("search")) {
            const bool tree = nb::cast<std::string>(extras["search"]) == "tree";
            options.search = tree ? PointSearch::tree : PointSearch::brute;
        }
        if (extras.contains("validate")) options.validate = nb::cast<bool>(extras["validate"]);
        if (extras.contains("threads")) options.threads = nb::cast<int>(extras["threads"]);
        if (!extras.contains("kernel")) return;
        kernel_ = nb::cast<std::string>(extras["kernel"]);
        options.kernel = kernel_;
    }
    /// Another array of the call.
    void read(Array& array, const Argument& argument) { place_.read(array, argument); }
    /// Once all arrays are read.
    [[nodiscard]] const PointRequest& request() {
        request_.options.device = place_.device();
        return request_;
    }

  private:
    static std::optional<std::uintptr_t> stream_of(const nb::dict& extras) {
        if (!extras.contains("stream")) return std::nullopt;
        return nb::cast<std::uintptr_t>(extras["stream"]);
    }
    TensorView optional(const nb::dict& extras, Array& array, const char* name, Role role) {
        if (extras.contains(name)) place_.read(array, {extras[name], name, role});
        return array.view;
    }

    CallPlace place_;
    Array p_, r_, p_mask_, r_mask_, cu_seqlens_p_, cu_seqlens_r_;
    std::string kernel_;
    PointRequest request_;
};

/// Two arrays with these names, None where absent.
struct Pair {
    Array first;
    Array second;

    Pair(Points& points, nb::handle a, const char* a_name, nb::handle b, const char* b_name, Role role) {
        points.read(first, {a, a_name, role});
        points.read(second, {b, b_name, role});
    }
};

void fill_nearest(nb::handle P, nb::handle R, const nb::dict& extras, std::int64_t k, nb::handle distance,
                  nb::handle index) {
    Points points(P, R, extras);
    const Pair out(points, distance, "distance", index, "index", Role::result);
    const PointRequest& request = points.request();
    const nb::gil_scoped_release unlocked;
    nearest(request, k, out.first.view, out.second.view);
}

void fill_nearest_gradients(nb::handle P, nb::handle R, const nb::dict& extras, std::int64_t k, nb::handle index,
                            nb::handle grad_distance, nb::handle grad_p, nb::handle grad_r) {
    Points points(P, R, extras);
    Array chosen;
    Array grad;
    points.read(chosen, {index, "index", Role::integers});
    points.read(grad, {grad_distance, "grad_distance", Role::tokens});
    const Pair out(points, grad_p, "grad_p", grad_r, "grad_r", Role::result);
    const PointRequest& request = points.request();
    const nb::gil_scoped_release unlocked;
    nearest_backward(request, k, chosen.view, grad.view, out.first.view, out.second.view);
}

Reduction reduction_of(bool mean) {
    return mean ? Reduction::mean : Reduction::sum;
}

void fill_chamfer(nb::handle P, nb::handle R, const nb::dict& extras, bool mean, bool one_sided, nb::handle value,
                  nb::handle distance_p, nb::handle distance_r, nb::handle index_p, nb::handle index_r) {
    Points points(P, R, extras);
    Array sum;
    points.read(sum, {value, "value", Role::result});
    const Pair distance(points, distance_p, "distance_p", distance_r, "distance_r", Role::result);
    const Pair index(points, index_p, "index_p", index_r, "index_r", Role::result);
    const PointRequest& request = points.request();
    const nb::gil_scoped_release unlocked;
    chamfer(request, reduction_of(mean), one_sided, {sum.view, distance.first.view, distance.second.view},
            {index.first.view, index.second.view});
}

void fill_chamfer_gradients(nb::handle P, nb::handle R, const nb::dict& extras, bool mean, nb::handle index_p,
                            nb::handle index_r, nb::handle grad_value, nb::handle grad_distance_p,
                            nb::handle grad_distance_r, nb::handle grad_p, nb::handle grad_r) {
    Points points(P, R, extras);
    const Pair index(points, index_p, "index_p", index_r, "index_r", Role::integers);
    Array value;
    points.read(value, {grad_value, "grad_value", Role::tokens});
    const Pair distance(points, grad_distance_p, "grad_distance_p", grad_distance_r, "grad_distance_r", Role::tokens);
    const Pair out(points, grad_p, "grad_p", grad_r, "grad_r", Role::result);
    const PointRequest& request = points.request();
    const nb::gil_scoped_release unlocked;
    chamfer_backward(request, reduction_of(mean), {index.first.view, index.second.view},
                     {value.view, distance.first.view, distance.second.view}, out.first.view, out.second.view);
}

}  // namespace

void define_points(nb::module_& m) {
    m.def("nearest", &fill_nearest);
    m.def("nearest_backward", &fill_nearest_gradients, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
          nb::arg().none(), nb::arg().none());
    m.def("chamfer", &fill_chamfer, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
          nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none());
    m.def("chamfer_backward", &fill_chamfer_gradients, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
          nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none());
}

}  // namespace rowmax::python
