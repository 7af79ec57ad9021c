/* What a test program in C needs: checks that say where and what, and the groups of tests. */
#ifndef ROWMAX_TESTS_CAPI_CHECK_H
#define ROWMAX_TESTS_CAPI_CHECK_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rowmax/rowmax.h"

extern int failures;

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            ++failures;                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                   \
    } while (0)

/* The call succeeds. */
#define CHECK_OK(call)                                                                          \
    do {                                                                                        \
        if ((call) != ROWMAX_OK) {                                                              \
            ++failures;                                                                         \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, rowmax_last_error()); \
        }                                                                                       \
    } while (0)

/* The call fails with this status, and its message holds both texts. */
#define CHECK_FAILS(call, status, text1, text2)                                                         \
    do {                                                                                                \
        const int got = (int)(call);                                                                    \
        const char* message = rowmax_last_error();                                                      \
        if (got != (int)(status) || strstr(message, text1) == NULL || strstr(message, text2) == NULL) { \
            ++failures;                                                                                 \
            fprintf(stderr, "%s:%d: %s: status %d, '%s'\n", __FILE__, __LINE__, #call, got, message);   \
        }                                                                                               \
    } while (0)

/* The groups; each has its file. */
void test_scores(void);
void test_layouts(void);
void test_topk(void);
void test_backward(void);
void test_errors(void);
void test_kernels(void);
void test_threads(void);
void test_select(void);

/* Row-major views whose shape is written in place: in(data, ROWMAX_FLOAT32, 3, 1, 2, 4). */
rowmax_view in(const void* data, int dtype, int ndim, ...);
rowmax_view out(void* data, int dtype, int ndim, ...);

#endif
