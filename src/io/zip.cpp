#include "io/zip.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "io/checked.hpp"
#include "io/file_error.hpp"

namespace rowmax::io {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50;
constexpr std::uint32_t locator64_signature = 0x07064b50;
constexpr std::uint32_t entry_signature = 0x02014b50;
constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::uint64_t end_size = 22, end64_size = 56, locator64_size = 20, entry_size = 46, local_size = 30;
constexpr std::uint32_t all32 = 0xffffffff;
constexpr std::uint16_t all16 = 0xffff;

struct Directory {
    std::uint64_t entries = 0;
    std::uint64_t size = 0;
    std::uint64_t offset = 0;
};

// The end record is last, before a comment whose length it tells.
std::uint64_t find_end_record(Bytes file, const std::string& where) {
    if (file.size() < end_size) bad_data(where, "zip: {} bytes, at least {} are needed", file.size(), end_size);
    const std::uint64_t last = file.size() - end_size;
    const std::uint64_t first = last > all16 ? last - all16 : 0;
    for (std::uint64_t at = last + 1; at-- > first;) {
        if (load_at<std::uint32_t>(file, at) != end_signature) continue;
        if (load_at<std::uint16_t>(file, at + 20) == file.size() - at - end_size) return at;
    }
    bad_data(where, "zip: no end-of-central-directory record; the file is cut short, or is no zip");
}

Directory directory64(Bytes file, std::uint64_t end, const std::string& where) {
    if (end < locator64_size || load_at<std::uint32_t>(file, end - locator64_size) != locator64_signature) {
        bad_data(where, "zip64: the end record refers to a zip64 locator, which is not there");
    }
    const auto at = load_at<std::uint64_t>(file, end - locator64_size + 8);
    if (!lies_inside(at, end64_size, file.size()) || load_at<std::uint32_t>(file, at) != end64_signature) {
        bad_data(where, "zip64: no end record at offset {}, in a file of {} bytes", at, file.size());
    }
    return {load_at<std::uint64_t>(file, at + 32), load_at<std::uint64_t>(file, at + 40),
            load_at<std::uint64_t>(file, at + 48)};
}

Directory find_directory(Bytes file, const std::string& where) {
    const std::uint64_t end = find_end_record(file, where);
    Directory directory{load_at<std::uint16_t>(file, end + 10), load_at<std::uint32_t>(file, end + 12),
                        load_at<std::uint32_t>(file, end + 16)};
    if (directory.entries == all16 || directory.size == all32 || directory.offset == all32) {
        directory = directory64(file, end, where);
    }
    if (!lies_inside(directory.offset, directory.size, file.size())) {
        bad_data(where, "zip central directory: {} bytes at offset {}, but the file has {}", directory.size,
                 directory.offset, file.size());
    }
    if (directory.entries > directory.size / entry_size) {
        bad_data(where, "zip central directory: {} entries do not fit in {} bytes", directory.entries, directory.size);
    }
    return directory;
}

std::string_view text_at(Bytes file, std::uint64_t offset, std::uint64_t length) {
    return {reinterpret_cast<const char*>(file.data() + offset), length};
}

// Finds the zip64 field among an entry's extra fields.
std::optional<Bytes> zip64_field(Bytes extra) {
    while (extra.size() >= 4) {
        const auto id = load_at<std::uint16_t>(extra, 0);
        const auto size = load_at<std::uint16_t>(extra, 2);
        if (!lies_inside(4, size, extra.size())) return std::nullopt;
        if (id == 1) return extra.subspan(4, size);
        extra = extra.subspan(4 + std::size_t{size});
    }
    return std::nullopt;
}

// Replaces the fields that are all ones by the 64-bit values of the extra field, in their fixed order.
void widen(Bytes extra, std::initializer_list<std::uint64_t*> fields, const std::string& where) {
    if (std::none_of(fields.begin(), fields.end(), [](const std::uint64_t* f) { return *f == all32; })) return;
    const Bytes wide = zip64_field(extra).value_or(Bytes());
    std::uint64_t at = 0;
    for (std::uint64_t* field : fields) {
        if (*field != all32) continue;
        if (!lies_inside(at, 8, wide.size())) bad_data(where, "zip64: the extra field lacks a size or an offset");
        *field = load_at<std::uint64_t>(wide, at);
        at += 8;
    }
}

// The local header repeats the name, and only it knows where the data starts.
void locate_data(Bytes file, std::uint64_t local, ZipMember& member, const std::string& where) {
    if (!lies_inside(local, local_size, file.size()) || load_at<std::uint32_t>(file, local) != local_signature) {
        bad_data(where, "zip local header: none at offset {}, in a file of {} bytes", local, file.size());
    }
    const std::uint64_t name_size = load_at<std::uint16_t>(file, local + 26);
    const std::uint64_t extra_size = load_at<std::uint16_t>(file, local + 28);
    member.data_offset = local + local_size + name_size + extra_size;
    if (member.data_offset > file.size() || text_at(file, local + local_size, name_size) != member.name) {
        bad_data(where, "zip local header: its name differs from the central directory's");
    }
    if (!lies_inside(member.data_offset, member.stored_size, file.size())) {
        bad_data(where, "zip compressed size: {} bytes at offset {}, but the file has {}", member.stored_size,
                 member.data_offset, file.size());
    }
    if (!member.deflated && member.size != member.stored_size) {
        bad_data(where, "zip size: a stored member of {} bytes announces {}", member.stored_size, member.size);
    }
}

// Reads the entry at the front of `rest` and steps over it.
ZipMember read_entry(Bytes file, Bytes& rest, const std::string& where) {
    if (rest.size() < entry_size || load_at<std::uint32_t>(rest, 0) != entry_signature) {
        bad_data(where, "zip central directory: an entry is missing, {} bytes before its end", rest.size());
    }
    const std::uint64_t name_size = load_at<std::uint16_t>(rest, 28);
    const std::uint64_t extra_size = load_at<std::uint16_t>(rest, 30);
    const std::uint64_t total = entry_size + name_size + extra_size + load_at<std::uint16_t>(rest, 32);
    if (total > rest.size())
        bad_data(where, "zip central directory: an entry of {} bytes, {} are left", total, rest.size());
    ZipMember member;
    member.name = text_at(rest, entry_size, name_size);
    const std::string entry = fmt::format("{}: {}", where, printable(member.name));
    const auto flags = load_at<std::uint16_t>(rest, 8);
    const auto method = load_at<std::uint16_t>(rest, 10);
    if ((flags & 1U) != 0) bad_data(entry, "zip flags: the member is encrypted");
    if (method != 0 && method != 8) bad_data(entry, "zip method: {}, rowmax reads 0 (stored) and 8 (deflated)", method);
    member.deflated = method == 8;
    member.crc32 = load_at<std::uint32_t>(rest, 16);
    member.stored_size = load_at<std::uint32_t>(rest, 20);
    member.size = load_at<std::uint32_t>(rest, 24);
    std::uint64_t local = load_at<std::uint32_t>(rest, 42);
    widen(rest.subspan(entry_size + name_size, extra_size), {&member.size, &member.stored_size, &local}, entry);
    locate_data(file, local, member, entry);
    rest = rest.subspan(total);
    return member;
}

}  // namespace

std::vector<ZipMember> read_zip_directory(Bytes file, const std::string& where) {
    const Directory directory = find_directory(file, where);
    Bytes rest = file.subspan(directory.offset, directory.size);
    std::vector<ZipMember> members;
    for (std::uint64_t i = 0; i < directory.entries; ++i) members.push_back(read_entry(file, rest, where));
    if (!rest.empty())
        bad_data(where, "zip central directory: {} bytes after its {} entries", rest.size(), members.size());
    return members;
}

}  // namespace rowmax::io
