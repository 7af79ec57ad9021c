// Files made by hand, byte by byte, so that tests and fuzzers can make every part of them lie.
#pragma once

#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rowmax::test {

template <class T>
std::string raw(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

template <class T>
std::string raw_list(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// `dict` is the header's text; the length field and the padding are right.
inline std::string npy_file(std::string dict, std::string_view data, int version = 1) {
    const std::size_t preamble = version == 1 ? 10 : 12;
    while ((preamble + dict.size() + 1) % 64 != 0) dict += ' ';
    dict += '\n';
    std::string file = "\x93NUMPY";
    file += static_cast<char>(version);
    file += '\0';
    file += version == 1 ? raw(static_cast<std::uint16_t>(dict.size())) : raw(static_cast<std::uint32_t>(dict.size()));
    return file + dict + std::string(data);
}

inline std::string npy(std::string_view descr, std::string_view shape, std::string_view data, int version = 1) {
    return npy_file(
        "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': " + std::string(shape) + ", }", data,
        version);
}

struct ZipEntry {
    std::string name;
    std::string data;
    bool deflate = false;
    bool zip64 = false;
    std::uint64_t announced_size = ~std::uint64_t{0};  ///< all ones: the true one
    std::uint16_t flags = 0;
    std::uint16_t method = 0xffff;  ///< all ones: the true one
    std::uint32_t crc_error = 0;    ///< xored to the true CRC
};

inline std::string deflated(std::string_view data) {
    z_stream stream{};
    deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    std::string out(deflateBound(&stream, data.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream.avail_in = static_cast<uInt>(data.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

inline std::string zip(const std::vector<ZipEntry>& entries, bool zip64_end = false, std::string_view comment = "") {
    std::string file, directory;
    for (const ZipEntry& entry : entries) {
        const std::string stored = entry.deflate ? deflated(entry.data) : entry.data;
        const std::uint64_t size =
            entry.announced_size != ~std::uint64_t{0} ? entry.announced_size : std::uint64_t{entry.data.size()};
        const auto crc = static_cast<std::uint32_t>(
                             crc32_z(0, reinterpret_cast<const Bytef*>(entry.data.data()), entry.data.size())) ^
                         entry.crc_error;
        const std::uint16_t method =
            entry.method != 0xffff ? entry.method : static_cast<std::uint16_t>(entry.deflate ? 8 : 0);
        const std::uint64_t local = file.size();
        const std::uint32_t size32 = entry.zip64 ? 0xffffffffU : static_cast<std::uint32_t>(size);
        const std::uint32_t stored32 = entry.zip64 ? 0xffffffffU : static_cast<std::uint32_t>(stored.size());
        const std::string common = raw(std::uint16_t{45}) + raw(entry.flags) + raw(method) + raw(std::uint32_t{0}) +
                                   raw(crc) + raw(stored32) + raw(size32) +
                                   raw(static_cast<std::uint16_t>(entry.name.size()));
        std::string extra_local, extra;
        if (entry.zip64) {
            extra_local =
                raw(std::uint16_t{1}) + raw(std::uint16_t{16}) + raw(size) + raw(std::uint64_t{stored.size()});
            extra = raw(std::uint16_t{1}) + raw(std::uint16_t{24}) + raw(size) + raw(std::uint64_t{stored.size()}) +
                    raw(local);
        }
        file += "PK\x03\x04" + common + raw(static_cast<std::uint16_t>(extra_local.size())) + entry.name + extra_local +
                stored;
        directory += "PK\x01\x02" + raw(std::uint16_t{45}) + common + raw(static_cast<std::uint16_t>(extra.size())) +
                     raw(std::uint16_t{0}) + raw(std::uint16_t{0}) + raw(std::uint16_t{0}) + raw(std::uint32_t{0}) +
                     raw(entry.zip64 ? 0xffffffffU : static_cast<std::uint32_t>(local)) + entry.name + extra;
    }
    const std::uint64_t start = file.size();
    const std::uint64_t count = entries.size();
    file += directory;
    if (zip64_end) {
        const std::uint64_t end64 = file.size();
        file += "PK\x06\x06" + raw(std::uint64_t{44}) + raw(std::uint16_t{45}) + raw(std::uint16_t{45}) +
                raw(std::uint32_t{0}) + raw(std::uint32_t{0}) + raw(count) + raw(count) +
                raw(std::uint64_t{directory.size()}) + raw(start);
        file += "PK\x06\x07" + raw(std::uint32_t{0}) + raw(end64) + raw(std::uint32_t{1});
    }
    const auto count16 = zip64_end ? std::uint16_t{0xffff} : static_cast<std::uint16_t>(count);
    return file + "PK\x05\x06" + raw(std::uint16_t{0}) + raw(std::uint16_t{0}) + raw(count16) + raw(count16) +
           raw(zip64_end ? 0xffffffffU : static_cast<std::uint32_t>(directory.size())) +
           raw(zip64_end ? 0xffffffffU : static_cast<std::uint32_t>(start)) +
           raw(static_cast<std::uint16_t>(comment.size())) + std::string(comment);
}

inline std::string safetensors(std::string_view header, std::string_view data) {
    return raw(std::uint64_t{header.size()}) + std::string(header) + std::string(data);
}

}  // namespace rowmax::test
