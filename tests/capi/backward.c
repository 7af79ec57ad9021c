/* Gradients, and the inverse grid they are built on. */
#include "check.h"

static const float q[2][2] = {{1, 0}, {0, 1}};
static const float d[3][2] = {{1, 2}, {3, 0}, {0, 0}};

static void gradients(void) {
    rowmax_request request = rowmax_request_init();
    request.q.tokens = in(q, ROWMAX_FLOAT32, 2, 2, 2);
    request.d.tokens = in(d, ROWMAX_FLOAT32, 2, 3, 2);
    const int32_t index[2] = {1, 0};
    const float grad_score = 2;
    const rowmax_view index_view = in(index, ROWMAX_INT32, 1, 2);
    const rowmax_view score_view = in(&grad_score, ROWMAX_FLOAT32, 0);
    float grad_q[4], grad_d[6];
    const rowmax_view q_view = out(grad_q, ROWMAX_FLOAT32, 2, 2, 2);
    const rowmax_view d_view = out(grad_d, ROWMAX_FLOAT32, 2, 3, 2);
    CHECK_OK(rowmax_score_backward(&request, &index_view, &score_view, &q_view, &d_view, NULL, 0));
    const float want_q[4] = {6, 0, 2, 4};
    const float want_d[6] = {0, 2, 2, 0, 0, 0};
    CHECK(memcmp(grad_q, want_q, sizeof(want_q)) == 0);
    CHECK(memcmp(grad_d, want_d, sizeof(want_d)) == 0);

    memset(grad_d, 0x7f, sizeof(grad_d));
    CHECK_OK(rowmax_score_backward(&request, &index_view, &score_view, NULL, &d_view, NULL, 0));
    CHECK(memcmp(grad_d, want_d, sizeof(want_d)) == 0);
    CHECK_FAILS(rowmax_score_backward(&request, &index_view, &score_view, &d_view, NULL, NULL, 0), ROWMAX_INVALID_VALUE,
                "grad_q", "[3, 2]");
    CHECK_FAILS(rowmax_score_backward(&request, NULL, &score_view, &q_view, NULL, NULL, 0), ROWMAX_INVALID_VALUE,
                "index", "missing");
}

/* An index that points outside its document must not be followed. */
static void lying_index(void) {
    rowmax_request request = rowmax_request_init();
    request.q.tokens = in(q, ROWMAX_FLOAT32, 2, 2, 2);
    request.d.tokens = in(d, ROWMAX_FLOAT32, 2, 3, 2);
    const int32_t lies[3][2] = {{3, 0}, {0, -2}, {INT32_MAX, INT32_MIN}};
    const float grad_score = 1;
    const rowmax_view score_view = in(&grad_score, ROWMAX_FLOAT32, 0);
    float grad_d[6];
    const rowmax_view d_view = out(grad_d, ROWMAX_FLOAT32, 2, 3, 2);
    for (int i = 0; i < 3; ++i) {
        const rowmax_view index_view = in(lies[i], ROWMAX_INT32, 1, 2);
        CHECK_FAILS(rowmax_score_backward(&request, &index_view, &score_view, NULL, &d_view, NULL, 0),
                    ROWMAX_INVALID_VALUE, "index", "3 tokens");
    }
}

static void inverse_grid(void) {
    const int32_t index[2][4] = {{2, 0, -1, 2}, {1, 1, 1, 1}};
    int64_t row_ptr[2][4], source[2][4];
    const rowmax_view index_view = in(index, ROWMAX_INT32, 2, 2, 4);
    const rowmax_view row_ptr_view = out(row_ptr, ROWMAX_INT64, 2, 2, 4);
    const rowmax_view source_view = out(source, ROWMAX_INT64, 2, 2, 4);
    CHECK_OK(rowmax_inverse_grid(&index_view, 3, &row_ptr_view, &source_view, 1));
    const int64_t want_row_ptr[2][4] = {{0, 1, 1, 3}, {0, 0, 4, 4}};
    const int64_t want_source[2][4] = {{1, 0, 3, -1}, {0, 1, 2, 3}};
    CHECK(memcmp(row_ptr, want_row_ptr, sizeof(row_ptr)) == 0);
    CHECK(memcmp(source, want_source, sizeof(source)) == 0);
    const rowmax_view short_row_ptr = out(row_ptr, ROWMAX_INT64, 2, 2, 3);
    CHECK_FAILS(rowmax_inverse_grid(&index_view, 2, &short_row_ptr, &source_view, 1), ROWMAX_INVALID_VALUE, "index",
                "2");
    CHECK_FAILS(rowmax_inverse_grid(&index_view, 3, NULL, &source_view, 1), ROWMAX_INVALID_VALUE, "row_ptr", "missing");
    CHECK_FAILS(rowmax_inverse_grid(&index_view, INT64_MAX, &row_ptr_view, &source_view, 1), ROWMAX_INVALID_VALUE,
                "num_destinations", "9223372036854775807");
}

void test_backward(void) {
    gradients();
    lying_index();
    inverse_grid();
}
