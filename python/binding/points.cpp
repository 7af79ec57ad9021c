// Nearest points and Chamfer distances: arrays in, arrays filled in place.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "arrays.hpp"
#include "rowmax/nearest.hpp"

namespace rowmax::python {

namespace {

/// The arrays of one call, and the request over them. Not movable, like its arrays.
class Points {
  public:
    /// `extras`: what was given beyond P and R, by the names of the Python functions.
    Points(nb::handle P, nb::handle R, const nb::dict& extras) {
        const bool bits = extras.contains("dtype");
        p_.read({P, "P", Role::tokens, bits});
        r_.read({R, "R", Role::tokens, bits});
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
    [[nodiscard]] const PointRequest& request() const { return request_; }

  private:
    static TensorView optional(const nb::dict& extras, Array& array, const char* name, Role role) {
        if (extras.contains(name)) array.read({extras[name], name, role});
        return array.view;
    }

    Array p_, r_, p_mask_, r_mask_, cu_seqlens_p_, cu_seqlens_r_;
    std::string kernel_;
    PointRequest request_;
};

/// Two arrays with these names, None where absent.
struct Pair {
    Array first;
    Array second;

    Pair(nb::handle a, const char* a_name, nb::handle b, const char* b_name, Role role) {
        first.read({a, a_name, role});
        second.read({b, b_name, role});
    }
};

void fill_nearest(nb::handle P, nb::handle R, const nb::dict& extras, std::int64_t k, nb::handle distance,
                  nb::handle index) {
    const Points points(P, R, extras);
    const Pair out(distance, "distance", index, "index", Role::result);
    const nb::gil_scoped_release unlocked;
    nearest(points.request(), k, out.first.view, out.second.view);
}

void fill_nearest_gradients(nb::handle P, nb::handle R, const nb::dict& extras, std::int64_t k, nb::handle index,
                            nb::handle grad_distance, nb::handle grad_p, nb::handle grad_r) {
    const Points points(P, R, extras);
    Array chosen;
    Array grad;
    chosen.read({index, "index", Role::integers});
    grad.read({grad_distance, "grad_distance", Role::tokens});
    const Pair out(grad_p, "grad_p", grad_r, "grad_r", Role::result);
    const nb::gil_scoped_release unlocked;
    nearest_backward(points.request(), k, chosen.view, grad.view, out.first.view, out.second.view);
}

Reduction reduction_of(bool mean) {
    return mean ? Reduction::mean : Reduction::sum;
}

void fill_chamfer(nb::handle P, nb::handle R, const nb::dict& extras, bool mean, bool one_sided, nb::handle value,
                  nb::handle distance_p, nb::handle distance_r, nb::handle index_p, nb::handle index_r) {
    const Points points(P, R, extras);
    Array sum;
    sum.read({value, "value", Role::result});
    const Pair distance(distance_p, "distance_p", distance_r, "distance_r", Role::result);
    const Pair index(index_p, "index_p", index_r, "index_r", Role::result);
    const nb::gil_scoped_release unlocked;
    chamfer(points.request(), reduction_of(mean), one_sided, {sum.view, distance.first.view, distance.second.view},
            {index.first.view, index.second.view});
}

void fill_chamfer_gradients(nb::handle P, nb::handle R, const nb::dict& extras, bool mean, nb::handle index_p,
                            nb::handle index_r, nb::handle grad_value, nb::handle grad_distance_p,
                            nb::handle grad_distance_r, nb::handle grad_p, nb::handle grad_r) {
    const Points points(P, R, extras);
    const Pair index(index_p, "index_p", index_r, "index_r", Role::integers);
    Array value;
    value.read({grad_value, "grad_value", Role::tokens});
    const Pair distance(grad_distance_p, "grad_distance_p", grad_distance_r, "grad_distance_r", Role::tokens);
    const Pair out(grad_p, "grad_p", grad_r, "grad_r", Role::result);
    const nb::gil_scoped_release unlocked;
    chamfer_backward(points.request(), reduction_of(mean), {index.first.view, index.second.view},
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
