// One side of a request, checked: the part of problem.cpp that queries and documents share.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "core/params.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::core {

inline constexpr std::int64_t max_dim = 4096;

/// How messages call the arguments of one side.
struct SideNames {
    std::string_view tokens;
    std::string_view mask;
    std::string_view cu_seqlens;
    std::string_view max_seqlen;
    std::string_view items;
};
inline constexpr SideNames query_names{"Q", "q_mask", "cu_seqlens_q", "max_seqlen_q", "queries"};
inline constexpr SideNames document_names{"D", "d_mask", "cu_seqlens_d", "max_seqlen_d", "documents"};

/// Copies that views need because a kernel cannot read them in place.
using Copies = std::vector<std::unique_ptr<std::byte[]>>;

/// A contiguous list of int32 or int64.
struct IntList {
    const void* data = nullptr;
    std::int64_t count = 0;
    bool wide = false;
};
IntList int_list(Copies& copies, const TensorView& view, std::string_view name);

/// a * b, or an error that says what they count.
std::int64_t checked_product(std::int64_t a, std::int64_t b, std::string_view what);

/// True for a dense [L, d]: one item that has no dimension of its own in the result.
bool single_item(const TokenSet& side);

void check_token_dtype(const TokenSet& side, const SideNames& names);
/// Dimensions and the combination of members (mask, cu_seqlens, offsets and lengths).
void check_layout(const TokenSet& side, const SideNames& names);
Segments make_segments(Copies& copies, const TokenSet& side, const SideNames& names, bool validate);

/// `view` itself when its last dimension is contiguous and its base aligned, else a row-major copy of it.
TensorView readable(Copies& copies, const TensorView& view);

}  // namespace rowmax::core
