/* Structs that hold nonsense give a status and a message, never a crash. */
#include "check.h"

static const float tokens[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static rowmax_request good(void) {
    rowmax_request request = rowmax_request_init();
    request.q.tokens = in(tokens, ROWMAX_FLOAT32, 3, 1, 2, 2);
    request.d.tokens = in(tokens, ROWMAX_FLOAT32, 3, 2, 2, 2);
    return request;
}

static rowmax_status score(const rowmax_request* request) {
    float scores[2];
    rowmax_outputs outputs;
    memset(&outputs, 0, sizeof(outputs));
    outputs.scores = out(scores, ROWMAX_FLOAT32, 2, 1, 2);
    return rowmax_score(request, &outputs, NULL, 0);
}

static void null_pointers(void) {
    const rowmax_request request = good();
    rowmax_outputs outputs;
    memset(&outputs, 0, sizeof(outputs));
    size_t bytes;
    CHECK_FAILS(score(NULL), ROWMAX_INVALID_VALUE, "request", "null");
    CHECK_FAILS(rowmax_score(&request, NULL, NULL, 0), ROWMAX_INVALID_VALUE, "outputs", "null");
    CHECK_FAILS(rowmax_score(&request, &outputs, NULL, 0), ROWMAX_INVALID_VALUE, "out", "missing");
    CHECK_FAILS(rowmax_score(&request, &outputs, NULL, 64), ROWMAX_INVALID_VALUE, "workspace", "64");
    CHECK_FAILS(rowmax_result_shape(&request, NULL), ROWMAX_INVALID_VALUE, "outputs", "null");
    CHECK_FAILS(rowmax_result_shape(NULL, &outputs), ROWMAX_INVALID_VALUE, "request", "null");
    CHECK_FAILS(rowmax_workspace_size(&request, NULL), ROWMAX_INVALID_VALUE, "bytes", "null");
    CHECK_FAILS(rowmax_workspace_size(NULL, &bytes), ROWMAX_INVALID_VALUE, "request", "null");
    CHECK_FAILS(rowmax_topk(NULL, 1, 0, NULL, NULL, NULL, 0), ROWMAX_INVALID_VALUE, "request", "null");
    CHECK_FAILS(rowmax_score_backward(NULL, NULL, NULL, NULL, NULL, NULL, 0), ROWMAX_INVALID_VALUE, "request", "null");
    CHECK_FAILS(rowmax_inverse_grid(NULL, 1, NULL, NULL, 1), ROWMAX_INVALID_VALUE, "index", "missing");
    CHECK_FAILS(rowmax_kernel_info(0, NULL, NULL), ROWMAX_INVALID_VALUE, "kernel", "null");
    CHECK(rowmax_view_bytes(NULL) == 0);
}

static void missing_tokens(void) {
    const rowmax_request nothing = rowmax_request_init();
    CHECK_FAILS(score(&nothing), ROWMAX_INVALID_VALUE, "Q", "missing");
    rowmax_request request = good();
    request.d.tokens.data = NULL;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "D [2, 2, 2]", "null pointer");
}

static void numbers_out_of_range(void) {
    rowmax_request request = good();
    request.pairing = 7;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "pairing", "7");
    request = good();
    request.q.tokens.dtype = 0;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_TYPE, "Q", "0");
    request.q.tokens.dtype = -1000;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_TYPE, "Q", "-1000");
    request = good();
    request.d.mask = in(tokens, 99, 2, 2, 2);
    CHECK_FAILS(score(&request), ROWMAX_INVALID_TYPE, "d_mask", "99");
    request = good();
    request.d.tokens.ndim = 9;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "D", "9");
    request.d.tokens.ndim = -3;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "D", "-3");
    request = good();
    request.d.tokens.shape[1] = -5;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "D [2, -5, 2]", "negative");
}

static void absurd_sizes(void) {
    rowmax_request request = good();
    request.d.tokens.shape[0] = INT64_MAX;
    request.d.tokens.shape[1] = INT64_MAX;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "D", "9223372036854775807");
    CHECK(rowmax_view_bytes(&request.d.tokens) == 0);
    request = good();
    request.d.tokens.stride[0] = INT64_MAX;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "D", "9223372036854775807");
    request.d.tokens.stride[0] = INT64_MIN;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "D", "-9223372036854775808");
    request = good();
    request.d.tokens.shape[0] = INT64_MAX;
    request.d.tokens.shape[1] = 0;
    request.q.tokens = in(tokens, ROWMAX_FLOAT32, 3, 4, 1, 2);
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "documents", "64 bits");
}

static void options(void) {
    rowmax_request request = good();
    rowmax_options options = rowmax_options_init();
    request.options = &options;
    options.size = 3;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "options.size", "rowmax_options_init");
    options = rowmax_options_init();
    options.precision = 5;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "precision", "5");
    options = rowmax_options_init();
    options.threads = -2;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "threads", "-2");
    options = rowmax_options_init();
    options.kernel = "cpu.abacus";
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "kernel", "cpu.abacus");
    request = good();
    request.size = 0;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "request.size", "rowmax_request_init");
}

/* Callers of a newer header send larger structs: what this library does not know must be zero. */
static void newer_structs(void) {
    struct {
        rowmax_options known;
        int64_t later;
    } options = {rowmax_options_init(), 0};
    rowmax_request request = good();
    options.known.size = sizeof(options);
    request.options = &options.known;
    CHECK_OK(score(&request));
    options.later = 1;
    CHECK_FAILS(score(&request), ROWMAX_NOT_IMPLEMENTED, "options", "byte 32");
    options.known.size = (size_t)-1;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "options.size", "rowmax_options_init");
    options.known.size = sizeof(rowmax_options) - 1;
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "options.size", "rowmax_options_init");
}

static void bad_views(void) {
    const int64_t shape[5] = {1, 1, 1, 1, 1};
    rowmax_request request = good();
    request.q.tokens = rowmax_input(tokens, ROWMAX_FLOAT32, 5, shape);
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "Q", "dimensions");
    request.q.tokens = rowmax_input(tokens, ROWMAX_FLOAT32, 2, NULL);
    CHECK_FAILS(score(&request), ROWMAX_INVALID_VALUE, "Q", "dimensions");
}

/* The message stays until the next failure; success leaves it alone. */
static void last_error(void) {
    const rowmax_request request = good();
    size_t bytes;
    CHECK_FAILS(score(NULL), ROWMAX_INVALID_VALUE, "request", "null");
    CHECK_OK(rowmax_workspace_size(&request, &bytes));
    CHECK(strstr(rowmax_last_error(), "request") != NULL);
}

void test_errors(void) {
    null_pointers();
    missing_tokens();
    numbers_out_of_range();
    absurd_sizes();
    options();
    newer_structs();
    bad_views();
    last_error();
}
