// .npz: a ZIP file of .npy members.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "io/archive.hpp"
#include "io/file_error.hpp"
#include "io/mapped_file.hpp"
#include "io/npy.hpp"
#include "io/npy_types.hpp"
#include "io/zip.hpp"

namespace rowmax::io {

namespace {

// Deflate cannot shrink data more than this; who announces more lies.
constexpr std::uint64_t largest_ratio = 1032;

std::string_view array_name(std::string_view member) {
    return member.ends_with(".npy") ? member.substr(0, member.size() - 4) : member;
}

class Npz final : public Archive {
  public:
    Npz(std::shared_ptr<const MappedFile> file, std::uint64_t max_inflated_bytes)
        : file_(std::move(file)),
          max_inflated_bytes_(max_inflated_bytes),
          members_(read_zip_directory(file_->bytes(), file_->path().string())) {
        std::unordered_set<std::string_view> names;
        for (const ZipMember& member : members_) {
            if (!names.insert(array_name(member.name)).second) bad_data(where(member), "zip name: given twice");
            check_ratio(member);
            infos_.push_back(info(member));
        }
    }

    const std::vector<ArrayInfo>& arrays() const override { return infos_; }

    Array array(std::string_view name, std::optional<DType> dtype) const override {
        const ZipMember& member = find_member(name);
        const Contents contents = read(member);
        return npy_array(contents.bytes, contents.owner, where(member), dtype);
    }

    std::vector<std::string> strings(std::string_view name) const override {
        const ZipMember& member = find_member(name);
        return npy_strings(read(member).bytes, where(member));
    }

  private:
    struct Contents {
        std::span<const std::byte> bytes;
        std::shared_ptr<const void> owner;
    };

    std::string where(const ZipMember& member) const {
        return fmt::format("{}: {}", file_->path().string(), printable(member.name));
    }

    void check_ratio(const ZipMember& member) const {
        if (!member.deflated || member.size / largest_ratio <= member.stored_size) return;
        bad_data(where(member), "zip size: {} bytes cannot come out of {} deflated ones", member.size,
                 member.stored_size);
    }

    // The header alone, so that listing a large compressed file costs little.
    ArrayInfo info(const ZipMember& member) const {
        std::vector<std::byte> head(std::min<std::uint64_t>(member.size, npy_head_bytes));
        std::span<const std::byte> seen = file_->bytes().subspan(member.data_offset, member.stored_size);
        if (member.deflated) seen = std::span(head).first(inflate_prefix(file_->bytes(), member, head, where(member)));
        const NpyHeader header = parse_npy_header(seen, member.size, where(member));
        const std::uint64_t offset = member.data_offset + (member.deflated ? 0 : header.data_offset);
        const std::uint64_t bytes = member.deflated ? member.stored_size : header.data_bytes;
        return {std::string(array_name(member.name)),
                npy_stored_type(header.descr),
                header.shape,
                offset,
                bytes,
                member.deflated};
    }

    const ZipMember& find_member(std::string_view name) const {
        for (const ZipMember& member : members_) {
            if (array_name(member.name) == name) return member;
        }
        bad_data(file_->path().string(), "there is no array '{}'", printable(name));
    }

    Contents read(const ZipMember& member) const {
        if (!member.deflated) {
            const std::span<const std::byte> stored = file_->bytes().subspan(member.data_offset, member.stored_size);
            check_crc(member, stored, where(member));
            return {stored, file_};
        }
        if (member.size > max_inflated_bytes_) {
            bad_data(where(member), "zip size: {} bytes when inflated, at most {} are allowed", member.size,
                     max_inflated_bytes_);
        }
        const std::shared_ptr<std::byte[]> data = allocate_bytes(member.size);
        const std::span<std::byte> bytes(data.get(), member.size);
        inflate_member(file_->bytes(), member, bytes, where(member));
        return {bytes, data};
    }

    std::shared_ptr<const MappedFile> file_;
    std::uint64_t max_inflated_bytes_;
    std::vector<ZipMember> members_;
    std::vector<ArrayInfo> infos_;
};

}  // namespace

const ArrayInfo* Archive::find(std::string_view name) const {
    for (const ArrayInfo& info : arrays()) {
        if (info.name == name) return &info;
    }
    return nullptr;
}

std::unique_ptr<Archive> open_npz(const std::filesystem::path& path, std::uint64_t max_inflated_bytes) {
    return std::make_unique<Npz>(MappedFile::open(path), max_inflated_bytes);
}

}  // namespace rowmax::io
