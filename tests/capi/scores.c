/* Dense tokens: numbers computed by hand, every output, masks, normalisation, all token types. */
#include <stdlib.h>

#include "check.h"

/* Two queries of two tokens, two documents of three. */
static const float q[2][2][2] = {{{1, 0}, {0, 1}}, {{2, 2}, {-1, 0}}};
static const float d[2][3][2] = {{{1, 2}, {3, 0}, {0, 0}}, {{-1, -1}, {-2, 4}, {-3, 1}}};
/*   similarities of query 0: document 0: 1 3 0 | 2 0 0 -> 3 + 2;  document 1: -1 -2 -3 | -1 4 1 -> -1 + 4
     of query 1:              document 0: 6 6 0 | -1 -3 0 -> 6 + 0; document 1: -4 4 -4 | 1 2 3 -> 4 + 3 */
static const float want_scores[4] = {5, 3, 6, 7};
static const int32_t want_index[8] = {1, 0, 0, 1, 0, 2, 1, 2};
static const float want_similarity[8] = {3, 2, -1, 4, 6, 0, 4, 3};

static rowmax_request dense(void) {
    rowmax_request request = rowmax_request_init();
    request.q.tokens = in(q, ROWMAX_FLOAT32, 3, 2, 2, 2);
    request.d.tokens = in(d, ROWMAX_FLOAT32, 3, 2, 3, 2);
    return request;
}

static void every_output(void) {
    const rowmax_request request = dense();
    rowmax_outputs outputs;
    CHECK_OK(rowmax_result_shape(&request, &outputs));
    CHECK(outputs.scores.ndim == 2 && outputs.scores.shape[0] == 2 && outputs.scores.shape[1] == 2);
    CHECK(outputs.index.ndim == 3 && outputs.index.shape[2] == 2 && outputs.index.dtype == ROWMAX_INT32);
    CHECK(rowmax_view_bytes(&outputs.scores) == 16 && rowmax_view_bytes(&outputs.similarity) == 32);

    size_t bytes = 1;
    CHECK_OK(rowmax_workspace_size(&request, &bytes));
    void* workspace = bytes > 0 ? malloc(bytes) : NULL;
    float scores[4], similarity[8];
    int32_t index[8];
    outputs.scores.data = scores;
    outputs.index.data = index;
    outputs.similarity.data = similarity;
    CHECK_OK(rowmax_score(&request, &outputs, workspace, bytes));
    CHECK(memcmp(scores, want_scores, sizeof(scores)) == 0);
    CHECK(memcmp(index, want_index, sizeof(index)) == 0);
    CHECK(memcmp(similarity, want_similarity, sizeof(similarity)) == 0);
    free(workspace);
}

static void scores_alone(void) {
    const rowmax_request request = dense();
    float scores[4] = {0};
    rowmax_outputs outputs;
    CHECK_OK(rowmax_result_shape(&request, &outputs));
    outputs.scores.data = scores;
    CHECK_OK(rowmax_score(&request, &outputs, NULL, 0));
    CHECK(memcmp(scores, want_scores, sizeof(scores)) == 0);
}

/* Document masks of several types, with a hole and with everything hidden; a query mask. */
static void masks(void) {
    const uint8_t holes[2][3] = {{1, 0, 1}, {0, 0, 0}};
    const float holes_f32[2][3] = {{0.5F, 0, -1}, {-0.0F, 0, 0}};
    const int64_t first_query_token[2] = {7, 0};
    const rowmax_view d_masks[2] = {in(holes, ROWMAX_BOOL, 2, 2, 3), in(holes_f32, ROWMAX_FLOAT32, 2, 2, 3)};
    for (int i = 0; i < 2; ++i) {
        rowmax_request request = dense();
        request.d.mask = d_masks[i];
        request.q.mask = in(first_query_token, ROWMAX_INT64, 2, 1, 2);
        float scores[4];
        int32_t index[8];
        rowmax_outputs outputs;
        CHECK_OK(rowmax_result_shape(&request, &outputs));
        outputs.scores.data = scores;
        outputs.index.data = index;
        CHECK_OK(rowmax_score(&request, &outputs, NULL, 0));
        CHECK(scores[0] == 1 && scores[1] == 0 && scores[2] == 6 && scores[3] == 0);
        const int32_t want[8] = {0, -1, -1, -1, 0, -1, -1, -1};
        CHECK(memcmp(index, want, sizeof(want)) == 0);
    }
}

static void normalised(void) {
    rowmax_request request = dense();
    rowmax_options options = rowmax_options_init();
    options.normalize = 1;
    request.options = &options;
    float scores[4];
    rowmax_outputs outputs;
    CHECK_OK(rowmax_result_shape(&request, &outputs));
    outputs.scores.data = scores;
    CHECK_OK(rowmax_score(&request, &outputs, NULL, 0));
    CHECK(fabs(scores[0] - (1 + 2 / sqrt(5))) < 1e-6);
}

/* 1.5 and -2 in each token type. */
static void token_types(void) {
    const uint16_t half_q[2] = {0x3e00, 0xc000}, bfloat_q[2] = {0x3fc0, 0xc000};
    const float float_q[2] = {1.5F, -2};
    const double double_q[2] = {1.5, -2};
    const struct {
        const void* data;
        int dtype;
    } types[] = {
        {half_q, ROWMAX_FLOAT16}, {bfloat_q, ROWMAX_BFLOAT16}, {float_q, ROWMAX_FLOAT32}, {double_q, ROWMAX_FLOAT64}};
    for (int i = 0; i < 4; ++i) {
        rowmax_request request = rowmax_request_init();
        request.q.tokens = in(types[i].data, types[i].dtype, 2, 1, 2);
        request.d.tokens = request.q.tokens;
        rowmax_outputs outputs;
        CHECK_OK(rowmax_result_shape(&request, &outputs));
        CHECK(outputs.scores.ndim == 0);
        float score32 = 0;
        double score64 = 0;
        const int wide = outputs.scores.dtype == ROWMAX_FLOAT64;
        CHECK(wide == (types[i].dtype == ROWMAX_FLOAT64));
        outputs.scores.data = wide ? (void*)&score64 : (void*)&score32;
        CHECK_OK(rowmax_score(&request, &outputs, NULL, 0));
        CHECK((wide ? score64 : score32) == 6.25);
    }
}

void test_scores(void) {
    every_output();
    scores_alone();
    masks();
    normalised();
    token_types();
}
