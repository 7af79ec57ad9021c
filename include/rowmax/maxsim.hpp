// Late interaction: score[i, j] = sum over query tokens s of max over document tokens t of <Q[i,s], D[j,t]>.
//
// One request describes every layout: each side is a TokenSet (how tokens group into items), and
// the pairing says which (query, document) pairs are scored. Nothing of size Lq x Ld is ever
// written. Idea: ColBERT (Khattab and Zaharia, 2020); fused forms: see docs/architecture.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rowmax/error.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax {

/// How exact float32 products must be. `high` allows TF32 on devices that have it.
enum class Precision { highest, high };

/// Which pairs are scored.
enum class Pairing {
    cross,    ///< every query with every document            -> [Nq, Nd]
    grouped,  ///< query i with its own K documents D[i, :]   -> [Nq, K]
    zipped,   ///< query i with document i                    -> [B]
    list,     ///< the pairs named by pair_q and pair_d       -> [P]
};

struct ResidualTables;  // rowmax/compressed.hpp
struct Projection;      // rowmax/projection.hpp

/// One side of a request: tokens, and how they group into items.
///
/// - dense:   tokens [N, L, d], or [L, d] for one item, or [Nq, K, L, d] for grouped documents; on the CPU perhaps with
///            lengths [N] ([Nq, K]): the tokens of each that count, instead of a mask;
/// - packed:  tokens [T, d] and cu_seqlens [N + 1] (int32 or int64), item i = rows cu[i] .. cu[i+1];
/// - ranges:  tokens [T, d] and offsets [N], lengths [N]: anywhere in the storage, overlaps allowed.
///
/// The last dimension must be contiguous; every other stride is free, 0 and negative included.
/// mask: dense only; [N, L], [1, L], [L] (and [Nq, K, L], [1, K, L]... for grouped); bool, integer or
/// float; non-zero keeps a token.
///
/// int8 and float8 tokens are codes and need a scale (rowmax/compressed.hpp): float32, the shape of the tokens without
/// d (one factor a token), without L and d (one an item; packed tokens and ranges: one for all) or none, [] (one for
/// all).
///
/// Documents with residual tables are stored as a centroid's number and packed bucket numbers a token: codes
/// int32 or int64, one a token, and tokens uint8 [.., d * nbits / 8]. Queries are then float32, float16 or bfloat16.
///
/// Documents with a projection are stored as hidden states [.., hidden] in the place of [.., d].
struct TokenSet {
    TensorView tokens;
    TensorView mask;
    TensorView cu_seqlens;
    TensorView offsets;
    TensorView lengths;
    /// Packed only: an upper bound of the item lengths, -1 for none. One that is too small is an error.
    std::int64_t max_seqlen = -1;
    TensorView scale = {};
    TensorView codes = {};
    /// uint8 tokens are sign bits of so many dimensions, on both sides; 0: they are not. Similarity: dimensions whose
    /// signs agree less those whose signs differ.
    std::int64_t sign_bits = 0;
    const ResidualTables* residual = nullptr;  ///< documents only; lives as long as the call
    const Projection* projection = nullptr;    ///< the same
    std::string_view name = {};                ///< what messages call the tokens; empty: "Q" and "D"
};

/// Where the memory of a request lies, results included, and where its work goes.
struct Device {
    enum class Kind { cpu, cuda };
    Kind kind = Kind::cpu;
    int ordinal = 0;         ///< of the CUDA device
    void* stream = nullptr;  ///< cudaStream_t: work is queued there and not waited for
    /// CUDA: hands out scratch memory of the device, at most once a call, or null when there is none left. It must live
    /// until the work of the call is done. Absent: calls that need scratch memory take it from a pool of
    /// the library, which keeps up to 64 MiB.
    void* (*allocate)(void* context, std::size_t bytes) = nullptr;
    void* context = nullptr;
    /// `allocate` is asked for 0 bytes, too, on either kind of device: by then all arguments are checked, but for what
    /// an index holds, and nothing has begun, so that one which throws learns what a call wants.
    bool always_asks = false;
};

struct Options {
    /// Score cosines: inverse L2 norms (float32) multiply the similarities. A zero token stays zero.
    bool normalize = false;
    Precision precision = Precision::highest;
    /// Check the contents of offsets and pair lists. Off, lies are clamped to the storage. Absent: on for memory of the
    /// CPU, off for CUDA, where it waits for the stream (an error while that is being captured), and where without it
    /// an absent max_seqlen counts as the length of the storage.
    std::optional<bool> validate = std::nullopt;
    /// Threads to use; 0 means ROWMAX_THREADS, or else all cores. Results do not depend on it.
    int threads = 0;
    /// Forces a kernel by its name, or by a prefix ending before a dot ("cpu.avx2"). Empty:
    /// ROWMAX_KERNEL, or else the first that accepts.
    std::string_view kernel = {};
    Device device = {};
};

struct ScoreRequest {
    TokenSet q;
    TokenSet d;
    Pairing pairing = Pairing::cross;
    TensorView pair_q;  ///< list pairing: [P] int32 or int64
    TensorView pair_d;
    Options options;
};

/// Shapes of the results of a request. Leading dimensions follow the inputs: a 2-D Q gives no query
/// dimension, a 2-D dense D no document dimension.
struct ResultShape {
    std::vector<std::int64_t> scores;
    std::vector<std::int64_t> tokens;  ///< of the index and the per-token similarities: scores + [Lq]
    DType dtype = DType::f32;          ///< of scores: f64 for f64 tokens, else f32
};
ROWMAX_API ResultShape result_shape(const ScoreRequest& request);

/// Where results go: contiguous views with the shapes of result_shape(); index and similarity may be absent. Results of
/// any operator share no memory with its inputs or with each other; that they do is an Error.
struct ScoreOutputs {
    TensorView scores;
    /// int32: winning token counted from its document's first; -1: none. On CUDA devices int16 too, for
    /// score_backward(): the lowest 16 bits, where documents have fewer than 65535 tokens.
    TensorView index;
    TensorView similarity;  ///< scores' dtype: what each query token added to the score
};

/// Validates, chooses a kernel, scores. Throws Error; writes nothing outside the outputs.
ROWMAX_API void score(const ScoreRequest& request, const ScoreOutputs& outputs);

/// Gradients of sum(grad_scores * scores) for queries and documents, from the index that score()
/// saved. Deterministic: every gradient row has one owner, found through the inverse grid; sums over
/// many sources are split into fixed runs of 256. grad_q and grad_d have the shape and dtype of the
/// tokens and are contiguous; either may be absent.
/// With documents that are projected, grad_weight [d, hidden] and grad_bias [d] may be given too: sums over the tokens
/// that won, in their order, in float32 (float64).
ROWMAX_API void score_backward(const ScoreRequest& request, const TensorView& index, const TensorView& grad_scores,
                               const TensorView& grad_q, const TensorView& grad_d, const TensorView& grad_weight = {},
                               const TensorView& grad_bias = {});

/// The exact k best documents of every query: scores [Nq, k] and index [Nq, k] int64, k cut to the
/// number of documents. Equal scores: lowest document first; NaN first. Documents are scored in chunks of
/// `chunk` (0: chosen), so the score matrix is never held. Cross pairing only.
ROWMAX_API void topk(const TokenSet& q, const TokenSet& d, std::int64_t k, std::int64_t chunk, const Options& options,
                     const TensorView& scores, const TensorView& index);

/// The inverse of an index: index [..., S] int32/int64 with values in [-1, n) -> row_ptr [..., n + 1]
/// int64 and source [..., S] int64, ascending within a destination; -1 is dropped and the tail of source is -1.
/// On a CUDA device `validate` waits for the stream.
ROWMAX_API void inverse_grid(const TensorView& index, std::int64_t num_destinations, const TensorView& row_ptr,
                             const TensorView& source, bool validate = true, const Device& device = {});

/// One row of the dispatch table and, for a request, why it runs or what it lacks.
struct KernelInfo {
    std::string name;     ///< "cpu.avx2.f32"
    std::string backend;  ///< "cpu", "cuda"
    std::string description;
    bool available = false;  ///< this machine can run it
    bool chosen = false;     ///< explain_dispatch: this one runs
    std::string refusal;     ///< why not: the missing features; empty when accepted
};

/// Every kernel of this build, in order of preference.
ROWMAX_API std::vector<KernelInfo> kernels();
/// The same rows, judged for one request.
ROWMAX_API std::vector<KernelInfo> explain_dispatch(const ScoreRequest& request);

/// "0.1.0"
ROWMAX_API std::string_view version() noexcept;

}  // namespace rowmax
