// One side of a request, checked: the part of problem.cpp that queries and documents share.
#pragma once

#include <string_view>

#include "core/params.hpp"
#include "core/views.hpp"
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
    std::string_view scale = "scale";
    std::string_view lengths = "lengths";
    std::string_view token = "token";  ///< what an item consists of
    std::string_view dims = "d";       ///< and the name of its last dimension
};
inline constexpr SideNames query_names{"Q", "q_mask", "cu_seqlens_q", "max_seqlen_q", "queries", "q_scale"};
inline constexpr SideNames document_names{"D", "d_mask", "cu_seqlens_d", "max_seqlen_d", "documents", "d_scale"};

/// The names of a side whose tokens its caller may call otherwise.
inline SideNames named(const TokenSet& side, SideNames names) {
    if (!side.name.empty()) names.tokens = side.name;
    return names;
}

/// True for a dense [L, d]: one item that has no dimension of its own in the result.
bool single_item(const TokenSet& side);

void check_token_dtype(const TokenSet& side, const SideNames& names);
/// Dimensions and the combination of members (mask, cu_seqlens, offsets and lengths).
void check_layout(const TokenSet& side, const SideNames& names);
Segments make_segments(Copies& copies, const TokenSet& side, const SideNames& names, bool validate);

}  // namespace rowmax::core
