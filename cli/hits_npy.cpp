#include "cli/hits_npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace rowmax::cli {

namespace {

// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, version 1.0.
std::string header(std::int64_t queries, std::int64_t k, DType score) {
    constexpr std::size_t fixed = 10;  // magic, version, length
    std::string dict =
        fmt::format("{{'descr': [('index', '<i8'), ('score', '<f{}')], 'fortran_order': False, 'shape': ({}, {}), }}",
                    size_of(score), queries, k);
    dict.append(63 - (fixed + dict.size()) % 64, ' ');
    dict += '\n';
    std::string text("\x93NUMPY\x01\x00", 8);
    text += static_cast<char>(dict.size() & 0xff);
    text += static_cast<char>(dict.size() >> 8);
    return text + dict;
}

void put(std::string& row, const core::Hit& hit, bool wide) {
    const auto narrow = static_cast<float>(hit.score);
    row.append(reinterpret_cast<const char*>(&hit.document), sizeof(hit.document));
    row.append(wide ? reinterpret_cast<const char*>(&hit.score) : reinterpret_cast<const char*>(&narrow), wide ? 8 : 4);
}

}  // namespace

void write_hits_npy(io::OutputFile& out, const stream::Search& search) {
    const std::int64_t k = std::min(search.options().k, search.document_count());
    const bool wide = search.score_dtype() == DType::f64;
    out.write(header(search.query_count(), k, search.score_dtype()));
    for (std::int64_t i = 0; i < search.query_count(); ++i) {
        std::string row;
        for (const core::Hit& hit : search.ranked(i)) put(row, hit, wide);
        out.write(row);
    }
}

}  // namespace rowmax::cli
