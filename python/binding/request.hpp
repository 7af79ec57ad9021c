// One call from Python: the arrays it reads, and the operators that run on them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arrays.hpp"
#include "rowmax/compressed.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/projection.hpp"

namespace rowmax::python {

/// A ScoreRequest over Python arrays. `extras` holds what a call gave beyond Q and D, by the names of the C++
/// members or of the Python arguments: q_mask, cu_seqlens_d, normalize, threads, ... For arrays on a CUDA device,
/// `stream` is the one that work goes to, and `scratch` makes arrays of so many bytes there; tensors (tensors.hpp)
/// bring both themselves.
class Request {
  public:
    Request(nb::handle q, nb::handle d, std::string_view pairing, const nb::dict& extras, std::uintptr_t stream,
            nb::handle scratch);

    /// Tensors only: new scores, with `return_index` (scores, index). `saved`: the index is only for backward(), and
    /// has 16 bits where they suffice.
    [[nodiscard]] nb::object evaluate(bool return_index, bool saved) const;
    /// (shape of the scores, shape of index and similarity, name of the scores' type)
    [[nodiscard]] nb::tuple result() const;
    void score(nb::handle scores, nb::handle index, nb::handle similarity) const;
    void backward(nb::handle index, nb::handle grad_scores, nb::handle grad_q, nb::handle grad_d, nb::handle grad_w,
                  nb::handle grad_b) const;
    /// Tensors only: new gradients of Q and D, None where not wanted.
    [[nodiscard]] nb::tuple gradients(nb::handle index, nb::handle grad_scores, bool for_q, bool for_d) const;

    /// The tokens of documents that are hidden states: see core::write_tokens.
    void write_tokens(nb::handle tokens) const;

    // rowmax/selection.hpp; what may be absent is None.
    void topk_tokens(std::int64_t k, bool mean, nb::handle scores, nb::handle index) const;
    void topk_tokens_backward(std::int64_t k, bool mean, nb::handle index, nb::handle grad_scores, nb::handle grad_q,
                              nb::handle grad_d) const;
    void smooth(double temperature, nb::handle scores, nb::handle tokens) const;
    void smooth_backward(double temperature, nb::handle tokens, nb::handle grad_scores, nb::handle grad_q,
                         nb::handle grad_d) const;
    void prefixes(const std::vector<std::int64_t>& dims, nb::handle scores, nb::handle index) const;
    void xtr(std::int64_t k, bool impute, nb::handle scores, nb::handle index, nb::handle last_document,
             nb::handle last_token) const;

    /// [Nq, k cut to Nd]
    [[nodiscard]] nb::tuple topk_shape(std::int64_t k) const;
    void topk(std::int64_t k, std::int64_t chunk, nb::handle scores, nb::handle index) const;

    /// topk() of arrays on the CPU, in blocks of at most `chunk` documents (0: chosen) that are streamed through a
    /// CUDA device (-1: the CPU).
    void search(std::int64_t k, std::int64_t chunk, int device, nb::handle scores, nb::handle index) const;

    [[nodiscard]] std::vector<KernelInfo> explain_dispatch() const;

  private:
    void read_tokens(Array& array, const Argument& argument, TensorView& view, std::string_view dtype);
    void read_extra(std::string_view name, nb::handle value);
    bool read_array(std::string_view name, nb::handle value);
    void choose_place();
    void check_device(const Array& array, const char* name) const;
    TensorView result_view(Array& array, nb::handle object, const char* name) const;
    static void* allocate(void* request, std::size_t bytes);

    ScoreRequest request_;
    ResidualTables tables_;
    Projection projection_;
    std::string kernel_;
    std::uintptr_t stream_ = 0;
    nb::object scratch_;
    mutable Array scratch_array_;
    bool tensors_ = false;
    bool bits_are_bfloat16_ = false;  ///< uint16 numbers, by dtype=
    Array q_;
    Array d_;
    std::vector<std::unique_ptr<Array>> others_;
    std::vector<const char*> names_;  ///< of others_
};

}  // namespace rowmax::python
