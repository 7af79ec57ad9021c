/* rowmax in C: operators that select, on the CPU and on CUDA devices; rowmax.h includes this.
 *
 * Nearest points, Chamfer distances, the inverse of an index and sums by it, forward and backward. rowmax/nearest.hpp
 * and rowmax/scatter.hpp say what each gives to the bit; here is how C says it. Results are the same on every run, for
 * any number of threads and on both kinds of device, except for sums in any_order.
 *
 * Scratch memory: rowmax_X_workspace takes the arguments of rowmax_X, checks them as it does, but for what an index
 * holds, and says how many bytes of the device's memory the call needs, 0 on the CPU; rowmax_X then takes so many, at a
 * multiple of 256 bytes. With NULL and 0, a CUDA call takes what it needs from a memory pool of the library, which
 * keeps up to 64 MiB.
 */
#ifndef ROWMAX_SELECT_H
#define ROWMAX_SELECT_H

#include "rowmax/rowmax.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rowmax_device_kind { ROWMAX_CPU = 0, ROWMAX_CUDA = 1 } rowmax_device_kind;

/* Where all memory of a call lies, results and scratch included, and where its work goes. */
typedef struct rowmax_device {
    int32_t kind;    /* rowmax_device_kind */
    int32_t ordinal; /* of the CUDA device */
    void* stream;    /* cudaStream_t: work is queued there and not waited for */
} rowmax_device;

/* Of `validate`: contents are checked on the CPU, and not on a CUDA device, where that waits for the stream. */
enum { ROWMAX_VALIDATE_BY_DEVICE = -1 };

/* ---- points ---- */

typedef enum rowmax_metric { ROWMAX_L2_SQ = 0, ROWMAX_L1 = 1 } rowmax_metric;
typedef enum rowmax_reduction { ROWMAX_MEAN = 0, ROWMAX_SUM = 1 } rowmax_reduction;
typedef enum rowmax_point_search {
    ROWMAX_SEARCH_AUTO = 0,
    ROWMAX_SEARCH_BRUTE = 1, /* every pair */
    ROWMAX_SEARCH_TREE = 2
} rowmax_point_search;

/* dense [..., N, c] with any mask [..., N], or packed [T, c] with cu_seqlens [B + 1]; float16 to float64. */
typedef struct rowmax_point_set {
    rowmax_view points;
    rowmax_view mask;
    rowmax_view cu_seqlens;
} rowmax_point_set;

/* Item i of p and item i of r belong together. Start from rowmax_point_request_init(), then fill in. It may grow at its
 * end, as rowmax_options may. */
typedef struct rowmax_point_request {
    size_t size;
    rowmax_point_set p;
    rowmax_point_set r;
    rowmax_device device;
    int32_t metric;   /* rowmax_metric */
    int32_t search;   /* rowmax_point_search */
    int32_t validate; /* 1: check the contents of offsets; 0: clamp lies to the storage */
    int32_t threads;  /* 0: ROWMAX_THREADS, or else all cores */
} rowmax_point_request;

static inline rowmax_point_request rowmax_point_request_init(void) {
    rowmax_point_request request;
    memset(&request, 0, sizeof(request));
    request.size = sizeof(request);
    request.validate = ROWMAX_VALIDATE_BY_DEVICE;
    return request;
}

/* The k nearest points of r for every point of p, ascending, the lowest index among equals: distance [..., N, k]
 * float32 (float64 for such points) and index int64; infinity and -1 where there are no more. Contiguous. */
ROWMAX_API rowmax_status rowmax_nearest(const rowmax_point_request* request, int64_t k, const rowmax_view* distance,
                                        const rowmax_view* index, void* workspace, size_t workspace_bytes);
ROWMAX_API rowmax_status rowmax_nearest_workspace(const rowmax_point_request* request, int64_t k,
                                                  const rowmax_view* distance, const rowmax_view* index, size_t* bytes);

/* Gradients of sum(grad_distance * distance), from the index that rowmax_nearest gave: of the points' shape and type;
 * either may be NULL. */
ROWMAX_API rowmax_status rowmax_nearest_backward(const rowmax_point_request* request, int64_t k,
                                                 const rowmax_view* index, const rowmax_view* grad_distance,
                                                 const rowmax_view* grad_p, const rowmax_view* grad_r, void* workspace,
                                                 size_t workspace_bytes);
ROWMAX_API rowmax_status rowmax_nearest_backward_workspace(const rowmax_point_request* request, int64_t k,
                                                           const rowmax_view* index, const rowmax_view* grad_distance,
                                                           const rowmax_view* grad_p, const rowmax_view* grad_r,
                                                           size_t* bytes);

/* What rowmax_chamfer writes, or rowmax_chamfer_backward reads. Views without data are left out. */
typedef struct rowmax_chamfer_views {
    rowmax_view value;      /* [] or the dimensions of the items: both directions reduced and added */
    rowmax_view distance_p; /* [..., N]: to the nearest of r, 0 where there is none */
    rowmax_view distance_r; /* [..., M] */
    rowmax_view index_p;    /* int64 [..., N]: where that is, -1 where there is none */
    rowmax_view index_r;    /* [..., M] */
} rowmax_chamfer_views;

/* The Chamfer distance of every item: each point of p to the nearest of r and, unless one_sided, each of r to the
 * nearest of p. A point that is not kept, or sees nothing, adds 0. */
ROWMAX_API rowmax_status rowmax_chamfer(const rowmax_point_request* request, int32_t reduction, int32_t one_sided,
                                        const rowmax_chamfer_views* results, void* workspace, size_t workspace_bytes);
ROWMAX_API rowmax_status rowmax_chamfer_workspace(const rowmax_point_request* request, int32_t reduction,
                                                  int32_t one_sided, const rowmax_chamfer_views* results,
                                                  size_t* bytes);

/* Its gradients. `given`: the indices that rowmax_chamfer wrote (index_r left out: one-sided), and the gradients of
 * the value, of the distances, or of both. grad_p and grad_r as in rowmax_nearest_backward. */
ROWMAX_API rowmax_status rowmax_chamfer_backward(const rowmax_point_request* request, int32_t reduction,
                                                 const rowmax_chamfer_views* given, const rowmax_view* grad_p,
                                                 const rowmax_view* grad_r, void* workspace, size_t workspace_bytes);
ROWMAX_API rowmax_status rowmax_chamfer_backward_workspace(const rowmax_point_request* request, int32_t reduction,
                                                           const rowmax_chamfer_views* given, const rowmax_view* grad_p,
                                                           const rowmax_view* grad_r, size_t* bytes);

/* ---- by an index ---- */

/* An index [..., S], int32 or int64, with values in [-1, num_destinations). Start from rowmax_index_request_init(). */
typedef struct rowmax_index_request {
    size_t size;
    rowmax_view index;
    int64_t num_destinations;
    rowmax_view row_ptr; /* of rowmax_scatter_sum: the inverse grid of the index, which spares the sort; or nothing */
    rowmax_view source;
    rowmax_device device;
    int32_t validate;  /* 1: a value out of range is an error; 0: it drops its source, as -1 does */
    int32_t threads;   /* 0: ROWMAX_THREADS, or else all cores */
    int32_t any_order; /* 1: sums on a CUDA device may be added in any order, with other bits on every run */
} rowmax_index_request;

static inline rowmax_index_request rowmax_index_request_init(void) {
    rowmax_index_request request;
    memset(&request, 0, sizeof(request));
    request.size = sizeof(request);
    request.validate = ROWMAX_VALIDATE_BY_DEVICE;
    return request;
}

/* rowmax_inverse_grid, on any device. */
ROWMAX_API rowmax_status rowmax_invert(const rowmax_index_request* request, const rowmax_view* row_ptr,
                                       const rowmax_view* source, void* workspace, size_t workspace_bytes);
ROWMAX_API rowmax_status rowmax_invert_workspace(const rowmax_index_request* request, const rowmax_view* row_ptr,
                                                 const rowmax_view* source, size_t* bytes);

/* out[..., n, :] = the sum of values[..., s, :] over the sources s with index[..., s] = n: values [..., S] or
 * [..., S, C], float16 to float64; out [..., num_destinations] or [..., num_destinations, C] of their type. */
ROWMAX_API rowmax_status rowmax_scatter_sum(const rowmax_index_request* request, const rowmax_view* values,
                                            const rowmax_view* out, void* workspace, size_t workspace_bytes);
ROWMAX_API rowmax_status rowmax_scatter_sum_workspace(const rowmax_index_request* request, const rowmax_view* values,
                                                      const rowmax_view* out, size_t* bytes);

#ifdef __cplusplus
}
#endif

#endif
