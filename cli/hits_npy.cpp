#include "cli/hits_npy.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "io/npy.hpp"

namespace rowmax::cli {

namespace {

void put(std::string& row, const core::Hit& hit, bool wide) {
    const auto narrow = static_cast<float>(hit.score);
    row.append(reinterpret_cast<const char*>(&hit.document), sizeof(hit.document));
    row.append(wide ? reinterpret_cast<const char*>(&hit.score) : reinterpret_cast<const char*>(&narrow), wide ? 8 : 4);
}

}  // namespace

void write_hits_npy(io::OutputFile& out, const Ranking& ranking) {
    const bool wide = ranking.score_dtype == DType::f64;
    const std::string fields = fmt::format("[('index', '<i8'), ('score', '<f{}')]", size_of(ranking.score_dtype));
    io::write_npy_header(out, fields, std::array{ranking.query_count, ranking.k});
    const core::Hit nothing{-std::numeric_limits<double>::infinity(), -1};
    for (std::int64_t i = 0; i < ranking.query_count; ++i) {
        std::string row;
        const std::vector<core::Hit> hits = ranking.ranked(i);
        for (const core::Hit& hit : hits) put(row, hit, wide);
        for (auto n = static_cast<std::int64_t>(hits.size()); n < ranking.k; ++n) put(row, nothing, wide);
        out.write(row);
    }
}

}  // namespace rowmax::cli
