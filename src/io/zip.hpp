// The part of ZIP that .npz needs: the central directory, stored and deflated members, zip64.
// Format: PKWARE's APPNOTE.TXT; deflate by zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rowmax::io {

struct ZipMember {
    std::string name;
    bool deflated = false;
    std::uint32_t crc32 = 0;
    std::uint64_t size = 0;         ///< uncompressed
    std::uint64_t stored_size = 0;  ///< in the file
    std::uint64_t data_offset = 0;  ///< checked: data_offset + stored_size <= file size
};

std::vector<ZipMember> read_zip_directory(std::span<const std::byte> file, const std::string& where);

/// Inflates the first bytes of a deflated member, as many as `out` holds or there are; returns how many.
std::size_t inflate_prefix(std::span<const std::byte> file, const ZipMember& member, std::span<std::byte> out,
                           const std::string& where);
/// Throws when `bytes`, the whole of a member, have another CRC than the directory says.
void check_crc(const ZipMember& member, std::span<const std::byte> bytes, const std::string& where);
/// Inflates a deflated member into `out`, whose size is member.size, and checks its length and CRC.
void inflate_member(std::span<const std::byte> file, const ZipMember& member, std::span<std::byte> out,
                    const std::string& where);

}  // namespace rowmax::io
