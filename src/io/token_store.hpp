// The stores behind a TokenSource. Each checks what it is given and names `where` when something does not fit.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/array.hpp"
#include "io/token_source.hpp"

namespace rowmax::io {

/// tokens [N, L, d] or [L, d]; mask absent, [N, L], [1, L] or [L].
std::shared_ptr<const TokenStore> dense_store(Array tokens, Array mask, const std::string& where);
/// tokens [T, d], cu_seqlens [N + 1].
std::shared_ptr<const TokenStore> packed_store(Array tokens, const Array& cu_seqlens, const std::string& where);
/// tokens [T, d], item i = lengths[i] tokens from offsets[i].
std::shared_ptr<const TokenStore> ranges_store(Array tokens, const Array& offsets, const Array& lengths,
                                               const std::string& where);
/// Lengths beside dense tokens [N, L, d], of which they tell the prefix that counts, or beside packed ones [T, d].
std::shared_ptr<const TokenStore> lengths_store(Array tokens, const Array& lengths, const std::string& where);

struct FolderContents {
    std::shared_ptr<const TokenStore> store;
    std::vector<std::string> stems;
};
/// One .npy [L, d] per document; other files and hidden ones are passed over.
FolderContents folder_store(const std::filesystem::path& folder, std::optional<DType> dtype);

/// The .npy files of a folder in natural order: runs of digits compare as numbers.
std::vector<std::filesystem::path> npy_files(const std::filesystem::path& folder);

}  // namespace rowmax::io
