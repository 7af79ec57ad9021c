// The rival that needs no new kernel: OpenBLAS multiplies a tile of document tokens with the query, a loop takes the
// maxima of the tile while it is in cache. Threads share the documents, each calling a single-threaded sgemm.
#include <cblas.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "prim/together.hpp"

namespace {

struct Problem {
    const float* query;
    const float* tokens;
    const std::int64_t* cu_seqlens;
    std::int64_t query_length;
    std::int64_t dim;
};

// Clones for each instruction set, so that the maximum is not what holds the rival back.
__attribute__((target_clones("default", "avx2", "avx512f"))) void fold_maxima(const float* tile, std::int64_t rows,
                                                                              std::int64_t columns, float* best) {
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t s = 0; s < columns; ++s) best[s] = std::max(best[s], tile[r * columns + s]);
}

float score_document(const Problem& p, std::int64_t document, std::int64_t tile_rows, float* tile, float* best) {
    std::fill_n(best, p.query_length, -std::numeric_limits<float>::infinity());
    for (std::int64_t t = p.cu_seqlens[document]; t < p.cu_seqlens[document + 1]; t += tile_rows) {
        const std::int64_t rows = std::min(tile_rows, p.cu_seqlens[document + 1] - t);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<blasint>(rows),
                    static_cast<blasint>(p.query_length), static_cast<blasint>(p.dim), 1.0F, p.tokens + t * p.dim,
                    static_cast<blasint>(p.dim), p.query, static_cast<blasint>(p.dim), 0.0F, tile,
                    static_cast<blasint>(p.query_length));
        fold_maxima(tile, rows, p.query_length, best);
    }
    float sum = 0;
    for (std::int64_t s = 0; s < p.query_length; ++s) sum += best[s];
    return sum;
}

}  // namespace

extern "C" {

/// Which kernel OpenBLAS chose for this machine ("Zen", "SkylakeX").
const char* bench_openblas_core() {
    return openblas_get_corename();
}

void bench_openblas_maxsim(const float* query, const float* tokens, const std::int64_t* cu_seqlens,
                           std::int64_t documents, std::int64_t query_length, std::int64_t dim, std::int64_t tile_rows,
                           int threads, float* scores) {
    openblas_set_num_threads(1);
    const Problem problem{query, tokens, cu_seqlens, query_length, dim};
    rowmax::bench::together(threads, [&](int i) {
        std::vector<float> tile(static_cast<std::size_t>(tile_rows * query_length));
        std::vector<float> best(static_cast<std::size_t>(query_length));
        for (std::int64_t j = documents * i / threads; j < documents * (i + 1) / threads; ++j)
            scores[j] = score_document(problem, j, tile_rows, tile.data(), best.data());
        return 0.0;
    });
}

}  // extern "C"
