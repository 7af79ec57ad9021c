// The registry: the one place where a kernel is chosen. Each backend contributes a table of rows in order of
// preference; the first whose refusal is empty runs, unless a name forces another.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/params.hpp"
#include "core/selection.hpp"

namespace rowmax::core {

struct Kernel {
    std::string_view name;  ///< "<backend>.<instruction set>.<type>", for instance "cpu.avx2.f32"
    std::string_view backend;
    std::string_view description;  ///< one line for people
    /// Empty when this machine can run the row, else what it lacks ("avx512f").
    std::string (*missing_features)();
    /// Empty when the row does this problem, else the features it lacks ("float64, d = 5000").
    std::string (*refuse)(const Params&);
    void (*score)(const Params&, const Outputs&);
    void (*backward)(const Params&, const Gradients&);  ///< null: the row has none
    /// Bytes of scratch memory that `score` finds at Place::workspace; null: none.
    std::size_t (*workspace)(const Params&, const Outputs&) = nullptr;
    /// The same of `backward`.
    std::size_t (*backward_workspace)(const Params&, const Gradients&) = nullptr;
    const SelectionKernels* selection = nullptr;  ///< null: the row has none
    /// Of documents that are hidden states: writes their tokens, [documents][length][d, padded with zeros to a multiple
    /// of 8]; null: the row does not.
    void (*write_tokens)(const Params&, void* tokens) = nullptr;
};

std::span<const Kernel> cpu_kernels();
std::span<const Kernel> cuda_kernels();  ///< empty in a build without CUDA (src/no_cuda)

/// Whether `forced` is the row's name or a part of it that ends before a dot: "cpu.avx2" names cpu.avx2.f32 and its
/// sisters, "cpu.avx" names nothing.
bool names(std::string_view forced, std::string_view row);

/// The row that runs `params`. `forced`: what names() takes; when empty, ROWMAX_KERNEL.
/// Throws not_implemented naming what is missing, or invalid_value for a name that no row has.
const Kernel& choose(const Params& params, std::string_view forced);

}  // namespace rowmax::core
