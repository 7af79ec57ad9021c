// Deflated members, through zlib.
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "io/file_error.hpp"
#include "io/zip.hpp"

namespace rowmax::io {

namespace {

class Inflater {
  public:
    Inflater(std::span<const std::byte> input, const std::string& where) : where_(where), input_(input) {
        constexpr int raw_deflate = -MAX_WBITS;  // zip has its own header and checksum
        if (inflateInit2(&stream_, raw_deflate) != Z_OK) {
            throw Error(ErrorCode::out_of_memory, where + ": zlib cannot start");
        }
    }
    ~Inflater() { inflateEnd(&stream_); }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    /// Fills `out` as far as the data goes; returns how much that is.
    std::size_t read(std::span<std::byte> out) {
        if (out.empty()) return 0;
        std::size_t done = 0;
        while (!ended_) {
            const std::size_t wanted = refill(out.subspan(done));
            const int status = ::inflate(&stream_, Z_NO_FLUSH);
            done += wanted - stream_.avail_out;
            ended_ = status == Z_STREAM_END;
            if (ended_ || (done == out.size() && status == Z_OK)) break;
            if (status == Z_OK && (stream_.avail_out == 0 || !input_.empty())) continue;
            if (status == Z_BUF_ERROR && done == out.size()) break;
            bad_data(where_, "deflated data: {}", stream_.msg != nullptr ? stream_.msg : "it is cut short");
        }
        return done;
    }

    /// True when the stream has ended, and with it its input.
    [[nodiscard]] bool complete() const { return ended_ && stream_.avail_in == 0 && input_.empty(); }

  private:
    // zlib counts in 32 bits. Returns the room given for output.
    std::size_t refill(std::span<std::byte> out) {
        constexpr std::size_t most = std::numeric_limits<uInt>::max();
        if (stream_.avail_in == 0) {
            const std::size_t n = std::min(input_.size(), most);
            stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input_.data()));
            stream_.avail_in = static_cast<uInt>(n);
            input_ = input_.subspan(n);
        }
        stream_.next_out = reinterpret_cast<Bytef*>(out.data());
        stream_.avail_out = static_cast<uInt>(std::min(out.size(), most));
        return stream_.avail_out;
    }

    const std::string& where_;
    std::span<const std::byte> input_;
    z_stream stream_{};
    bool ended_ = false;
};

std::span<const std::byte> stored_bytes(std::span<const std::byte> file, const ZipMember& member) {
    return file.subspan(member.data_offset, member.stored_size);
}

}  // namespace

std::size_t inflate_prefix(std::span<const std::byte> file, const ZipMember& member, std::span<std::byte> out,
                           const std::string& where) {
    return Inflater(stored_bytes(file, member), where).read(out);
}

void check_crc(const ZipMember& member, std::span<const std::byte> bytes, const std::string& where) {
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    if (crc != member.crc32) bad_data(where, "zip CRC-32: {:08x} announced, {:08x} found", member.crc32, crc);
}

void inflate_member(std::span<const std::byte> file, const ZipMember& member, std::span<std::byte> out,
                    const std::string& where) {
    Inflater inflater(stored_bytes(file, member), where);
    const std::size_t done = inflater.read(out);
    std::byte beyond{};
    const bool longer = done == out.size() && inflater.read({&beyond, 1}) > 0;
    if (done != out.size() || longer || !inflater.complete()) {
        bad_data(where, "zip size: {} bytes announced, but the deflated data holds {}", out.size(),
                 longer ? "more" : fmt::format("{} in {} bytes", done, member.stored_size));
    }
    check_crc(member, out, where);
}

}  // namespace rowmax::io
