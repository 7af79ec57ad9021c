/* rowmax in C: late-interaction scores (MaxSim) over memory that the caller owns.
 *
 *     score[i, j] = sum over query tokens s of  max over document tokens t of  <Q[i, s], D[j, t]>
 *
 * Every function that can fail returns a rowmax_status; rowmax_last_error() then holds a message that names the
 * argument and the values. No exception leaves the library, nothing is printed, and no pointer is kept after the
 * call. Any number of threads may call at once. rowmax/maxsim.hpp is the same interface for C++.
 */
#ifndef ROWMAX_ROWMAX_H
#define ROWMAX_ROWMAX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "rowmax/export.hpp" /* preprocessor lines only: valid C */

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended. The values are fixed. */
typedef enum rowmax_status {
    ROWMAX_OK = 0,
    ROWMAX_INVALID_VALUE = 1,   /* shape, mask, offsets, range */
    ROWMAX_INVALID_TYPE = 2,    /* dtype, mixed dtypes */
    ROWMAX_NOT_IMPLEMENTED = 3, /* valid, but no kernel here does it */
    ROWMAX_OUT_OF_MEMORY = 4,
    ROWMAX_DEVICE = 5,
    ROWMAX_DATA = 6,
    ROWMAX_IO = 7,
    ROWMAX_INTERNAL = 8 /* a fault of rowmax itself */
} rowmax_status;

/* Element types. Tokens are float; masks and offsets use the others. 0 is none, so that a type forgotten is an error.
 */
typedef enum rowmax_dtype {
    ROWMAX_FLOAT16 = 1,
    ROWMAX_BFLOAT16 = 2,
    ROWMAX_FLOAT32 = 3,
    ROWMAX_FLOAT64 = 4,
    ROWMAX_INT8 = 5,
    ROWMAX_UINT8 = 6,
    ROWMAX_INT16 = 7,
    ROWMAX_INT32 = 8,
    ROWMAX_INT64 = 9,
    ROWMAX_BOOL = 10
} rowmax_dtype;

typedef enum rowmax_pairing {
    ROWMAX_CROSS = 0,   /* every query with every document           -> [Nq, Nd] */
    ROWMAX_GROUPED = 1, /* query i with its own K documents D[i, :]  -> [Nq, K] */
    ROWMAX_ZIPPED = 2,  /* query i with document i                   -> [B] */
    ROWMAX_LIST = 3     /* the pairs named by pair_q and pair_d      -> [P] */
} rowmax_pairing;

typedef enum rowmax_precision {
    ROWMAX_PRECISION_HIGHEST = 0, /* float32 inputs are scored to float32 accuracy */
    ROWMAX_PRECISION_HIGH = 1     /* TF32 allowed where a device has it */
} rowmax_precision;

enum { ROWMAX_MAX_NDIM = 4 };

/* A strided view of memory. Shapes and strides count elements, not bytes; a stride of 0 is a broadcast.
 * A view of all zeros means "not given". */
typedef struct rowmax_view {
    void* data;    /* inputs are only read */
    int32_t dtype; /* rowmax_dtype */
    int32_t ndim;
    int64_t shape[ROWMAX_MAX_NDIM];
    int64_t stride[ROWMAX_MAX_NDIM];
} rowmax_view;

/* Row-major views, of memory that is read and of memory that is written. More than ROWMAX_MAX_NDIM dimensions, or a
 * null shape, give a view that every call refuses. */
ROWMAX_API rowmax_view rowmax_input(const void* data, int32_t dtype, int32_t ndim, const int64_t* shape);
ROWMAX_API rowmax_view rowmax_output(void* data, int32_t dtype, int32_t ndim, const int64_t* shape);

/* Bytes that a row-major array of the view's type and shape takes; 0 when it has no elements or is no valid view. */
ROWMAX_API size_t rowmax_view_bytes(const rowmax_view* view);

/* One side of a request: tokens, and how they group into items.
 *
 * dense:   tokens [N, L, d], or [L, d] for one item, or [Nq, K, L, d] for grouped documents;
 * packed:  tokens [T, d] and cu_seqlens [N + 1] (int32 or int64): item i is rows cu[i] .. cu[i+1];
 * ranges:  tokens [T, d] and offsets [N], lengths [N]: anywhere in the storage, overlaps allowed. */
typedef struct rowmax_token_set {
    rowmax_view tokens;
    rowmax_view mask; /* dense only: [N, L], or a leading 1 to serve every item; non-zero keeps a token */
    rowmax_view cu_seqlens;
    rowmax_view offsets;
    rowmax_view lengths;
    int64_t max_seqlen; /* packed only: an upper bound of the item lengths; 0: none */
} rowmax_token_set;

/* Start from rowmax_options_init(), then change what differs. It may grow at its end: `size` says which form it has,
 * and a library that is older than the header takes it while what it does not know is zero. */
typedef struct rowmax_options {
    size_t size;
    int32_t normalize;  /* 1: score cosines */
    int32_t precision;  /* rowmax_precision */
    int32_t validate;   /* 1: check the contents of offsets and pair lists; 0: clamp lies to the storage */
    int32_t threads;    /* 0: ROWMAX_THREADS, or else all cores */
    const char* kernel; /* forces one by name or prefix ("cpu.avx2"); NULL: ROWMAX_KERNEL, or the first that accepts */
} rowmax_options;

/* The defaults. Inline, so that the size is the one of the caller's header. */
static inline rowmax_options rowmax_options_init(void) {
    rowmax_options options;
    memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    options.validate = 1;
    return options;
}

/* What to score. Start from rowmax_request_init(), then fill in. */
typedef struct rowmax_request {
    size_t size;
    rowmax_token_set q;
    rowmax_token_set d;
    rowmax_view pair_q; /* list pairing: [P] int32 or int64 */
    rowmax_view pair_d;
    const rowmax_options* options; /* NULL: the defaults */
    int32_t pairing;               /* rowmax_pairing */
} rowmax_request;

/* Nothing given, cross pairing, default options. */
static inline rowmax_request rowmax_request_init(void) {
    rowmax_request request;
    memset(&request, 0, sizeof(request));
    request.size = sizeof(request);
    return request;
}

/* Where the results of a request go: contiguous views that share no memory with inputs or each other. */
typedef struct rowmax_outputs {
    rowmax_view scores;     /* float32; float64 for float64 tokens */
    rowmax_view index;      /* int32 [scores..., Lq]: winning token counted from its document's first; -1: none */
    rowmax_view similarity; /* scores' type, index's shape: what each query token added to the score */
} rowmax_outputs;

/* Checks the request and fills in type, shape and strides of every output; data pointers are set to NULL. The
 * caller sets those it wants: index and similarity with a NULL pointer are left out. */
ROWMAX_API rowmax_status rowmax_result_shape(const rowmax_request* request, rowmax_outputs* outputs);

/* Checks the request and says how many bytes of scratch memory rowmax_score, rowmax_score_backward and rowmax_topk
 * need for it. CPU kernels need none. */
ROWMAX_API rowmax_status rowmax_workspace_size(const rowmax_request* request, size_t* bytes);

/* Scores. `workspace` holds `workspace_bytes`, at least what rowmax_workspace_size says; NULL when that is 0. */
ROWMAX_API rowmax_status rowmax_score(const rowmax_request* request, const rowmax_outputs* outputs, void* workspace,
                                      size_t workspace_bytes);

/* Gradients of sum(grad_scores * scores), from the index that rowmax_score saved; the same bits on every run.
 * grad_q and grad_d have the type and shape of the tokens and are contiguous; either may be NULL. */
ROWMAX_API rowmax_status rowmax_score_backward(const rowmax_request* request, const rowmax_view* index,
                                               const rowmax_view* grad_scores, const rowmax_view* grad_q,
                                               const rowmax_view* grad_d, void* workspace, size_t workspace_bytes);

/* The exact k best documents of every query: scores [Nq, min(k, Nd)] and index, int64, of the same shape. Equal
 * scores: lowest document first; NaN before all. Documents are scored `chunk` at a time (0: chosen). Cross pairing. */
ROWMAX_API rowmax_status rowmax_topk(const rowmax_request* request, int64_t k, int64_t chunk, const rowmax_view* scores,
                                     const rowmax_view* index, void* workspace, size_t workspace_bytes);

/* The inverse of an index: index [..., S] int32 or int64 with values in [-1, n) -> row_ptr [..., n + 1] and source
 * [..., S], both int64: the sources of each destination, ascending. -1 is dropped; the tail of source is -1. */
ROWMAX_API rowmax_status rowmax_inverse_grid(const rowmax_view* index, int64_t num_destinations,
                                             const rowmax_view* row_ptr, const rowmax_view* source, int32_t validate);

/* One row of the dispatch table. The strings live until this thread's next call of rowmax_kernel_info. */
typedef struct rowmax_kernel {
    const char* name; /* "cpu.avx2.f32" */
    const char* backend;
    const char* description;
    const char* refusal; /* what this machine, or the request, lacks; "" when it accepts */
    int32_t available;   /* 1: this machine can run it */
    int32_t chosen;      /* 1: this one runs the request */
} rowmax_kernel;

ROWMAX_API size_t rowmax_kernel_count(void);
/* Row i, in order of preference; with a request (or NULL), judged for it. */
ROWMAX_API rowmax_status rowmax_kernel_info(size_t i, const rowmax_request* request, rowmax_kernel* kernel);

/* "0.1.0" */
ROWMAX_API const char* rowmax_version(void);

/* The message of this thread's last call that failed; "" before the first. Valid until the next failure. */
ROWMAX_API const char* rowmax_last_error(void);

#ifdef __cplusplus
}
#endif

#include "rowmax/select.h" /* operators that select */

#endif
