/* The best documents: order, ties, k larger than the corpus, chunks. */
#include "check.h"

static const float q[1][1][2] = {{{1, 0}}};
static const float d[5][1][2] = {{{2, 0}}, {{5, 0}}, {{2, 0}}, {{NAN, 0}}, {{-1, 0}}};

static rowmax_request corpus(void) {
    rowmax_request request = rowmax_request_init();
    request.q.tokens = in(q, ROWMAX_FLOAT32, 3, 1, 1, 2);
    request.d.tokens = in(d, ROWMAX_FLOAT32, 3, 5, 1, 2);
    return request;
}

static void whole_order(void) {
    const rowmax_request request = corpus();
    for (int64_t chunk = 0; chunk < 6; ++chunk) {
        float scores[5];
        int64_t index[5];
        const rowmax_view scores_view = out(scores, ROWMAX_FLOAT32, 2, 1, 5);
        const rowmax_view index_view = out(index, ROWMAX_INT64, 2, 1, 5);
        CHECK_OK(rowmax_topk(&request, 9, chunk, &scores_view, &index_view, NULL, 0));
        CHECK(isnan(scores[0]) && scores[1] == 5 && scores[2] == 2 && scores[3] == 2 && scores[4] == -1);
        const int64_t want[5] = {3, 1, 0, 2, 4};
        CHECK(memcmp(index, want, sizeof(want)) == 0);
    }
}

static void errors(void) {
    rowmax_request request = corpus();
    float scores[5];
    int64_t index[5];
    const rowmax_view scores_view = out(scores, ROWMAX_FLOAT32, 2, 1, 2);
    const rowmax_view index_view = out(index, ROWMAX_INT64, 2, 1, 2);
    const rowmax_view narrow_index = out(index, ROWMAX_INT32, 2, 1, 2);
    const rowmax_view nowhere = in(NULL, ROWMAX_FLOAT32, 2, 1, 2);
    CHECK_OK(rowmax_topk(&request, 2, 0, &scores_view, &index_view, NULL, 0));
    CHECK_FAILS(rowmax_topk(&request, 0, 0, &scores_view, &index_view, NULL, 0), ROWMAX_INVALID_VALUE, "k ", "0");
    CHECK_FAILS(rowmax_topk(&request, 2, -3, &scores_view, &index_view, NULL, 0), ROWMAX_INVALID_VALUE, "chunk", "-3");
    CHECK_FAILS(rowmax_topk(&request, 3, 0, &scores_view, &index_view, NULL, 0), ROWMAX_INVALID_VALUE, "[1, 3]",
                "[1, 2]");
    CHECK_FAILS(rowmax_topk(&request, 2, 0, &scores_view, &narrow_index, NULL, 0), ROWMAX_INVALID_TYPE, "int64",
                "int32");
    CHECK_FAILS(rowmax_topk(&request, 2, 0, &nowhere, &index_view, NULL, 0), ROWMAX_INVALID_VALUE, "scores", "null");
    CHECK_FAILS(rowmax_topk(&request, 2, 0, &scores_view, NULL, NULL, 0), ROWMAX_INVALID_VALUE, "index", "missing");
    request.pairing = ROWMAX_ZIPPED;
    CHECK_FAILS(rowmax_topk(&request, 2, 0, &scores_view, &index_view, NULL, 0), ROWMAX_INVALID_VALUE, "pairing", "2");
}

void test_topk(void) {
    whole_order();
    errors();
}
