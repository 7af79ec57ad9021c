/* Packed tokens, ranges, grouped candidates, pairs, strides: the same numbers by other routes. */
#include "check.h"

/* Documents of 2, 0 and 1 tokens behind each other; queries of 1 and 2. */
static const float q[3][2] = {{1, 0}, {0, 1}, {1, 1}};
static const float d[3][2] = {{1, 2}, {3, -1}, {-4, 5}};
static const int32_t cu_q[3] = {0, 1, 3};
static const int64_t cu_d[4] = {0, 2, 2, 3};
/*   token by document 0: q0: 1 3 -> 3;  q1: 2 -1 -> 2;  q2: 3 2 -> 3;   by document 2: -4; 5; 1 */

static void run(const rowmax_request* request, float* scores, int32_t* index) {
    rowmax_outputs outputs;
    CHECK_OK(rowmax_result_shape(request, &outputs));
    outputs.scores.data = scores;
    outputs.index.data = index;
    CHECK_OK(rowmax_score(request, &outputs, NULL, 0));
}

static rowmax_request packed_request(void) {
    rowmax_request request = rowmax_request_init();
    request.q.tokens = in(q, ROWMAX_FLOAT32, 2, 3, 2);
    request.q.cu_seqlens = in(cu_q, ROWMAX_INT32, 1, 3);
    request.d.tokens = in(d, ROWMAX_FLOAT32, 2, 3, 2);
    request.d.cu_seqlens = in(cu_d, ROWMAX_INT64, 1, 4);
    return request;
}

static void packed(void) {
    rowmax_request request = packed_request();
    float scores[6];
    int32_t index[12];
    run(&request, scores, index);
    const float want[6] = {3, 0, -4, 5, 0, 6};
    const int32_t want_index[12] = {1, -1, -1, -1, 0, -1, 0, 0, -1, -1, 0, 0};
    CHECK(memcmp(scores, want, sizeof(want)) == 0);
    CHECK(memcmp(index, want_index, sizeof(want_index)) == 0);

    rowmax_outputs outputs; /* a wider index when the caller knows a longer bound */
    request.q.max_seqlen = 5;
    CHECK_OK(rowmax_result_shape(&request, &outputs));
    CHECK(outputs.index.shape[2] == 5);
}

static void pair_list(void) {
    rowmax_request request = packed_request();
    const int32_t pair_q[4] = {1, 0, 1, 1};
    const int64_t pair_d[4] = {2, 0, 0, 2};
    request.pairing = ROWMAX_LIST;
    request.pair_q = in(pair_q, ROWMAX_INT32, 1, 4);
    request.pair_d = in(pair_d, ROWMAX_INT64, 1, 4);
    float scores[4];
    int32_t index[8];
    run(&request, scores, index);
    const float want[4] = {6, 3, 5, 6};
    CHECK(memcmp(scores, want, sizeof(want)) == 0);
}

/* Overlapping documents anywhere in one storage. */
static void ranges(void) {
    const int64_t offsets[3] = {1, 0, 2};
    const int32_t lengths[3] = {2, 3, 0};
    rowmax_request request = rowmax_request_init();
    request.q.tokens = in(q, ROWMAX_FLOAT32, 2, 1, 2);
    request.d.tokens = in(d, ROWMAX_FLOAT32, 2, 3, 2);
    request.d.offsets = in(offsets, ROWMAX_INT64, 1, 3);
    request.d.lengths = in(lengths, ROWMAX_INT32, 1, 3);
    float scores[3];
    int32_t index[3];
    run(&request, scores, index);
    CHECK(scores[0] == 3 && scores[1] == 3 && scores[2] == 0);
    CHECK(index[0] == 0 && index[1] == 1 && index[2] == -1);
}

static void grouped(void) {
    rowmax_request request = rowmax_request_init();
    request.pairing = ROWMAX_GROUPED;
    request.q.tokens = in(q, ROWMAX_FLOAT32, 3, 3, 1, 2);
    request.d.tokens = in(d, ROWMAX_FLOAT32, 4, 3, 1, 1, 2);
    float scores[3];
    int32_t index[3];
    run(&request, scores, index);
    CHECK(scores[0] == 1 && scores[1] == -1 && scores[2] == 1);
}

static void zipped(void) {
    rowmax_request request = rowmax_request_init();
    request.pairing = ROWMAX_ZIPPED;
    request.q.tokens = in(q, ROWMAX_FLOAT32, 3, 3, 1, 2);
    request.d.tokens = in(d, ROWMAX_FLOAT32, 3, 3, 1, 2);
    float scores[3];
    int32_t index[3];
    run(&request, scores, index);
    CHECK(scores[0] == 1 && scores[1] == -1 && scores[2] == 1);
}

/* Documents read backwards, and columns of a transposed matrix: strides of any sign and size. */
static void strides(void) {
    rowmax_request request = rowmax_request_init();
    request.q.tokens = in(q, ROWMAX_FLOAT32, 2, 1, 2);
    request.d.tokens = in(d[2], ROWMAX_FLOAT32, 3, 3, 1, 2);
    request.d.tokens.stride[0] = -2;
    float scores[3];
    int32_t index[3];
    run(&request, scores, index);
    CHECK(scores[0] == -4 && scores[1] == 3 && scores[2] == 1);

    const float transposed[2][3] = {{1, 3, -4}, {2, -1, 5}};
    request.d.tokens = in(transposed, ROWMAX_FLOAT32, 3, 3, 1, 2);
    request.d.tokens.stride[0] = 1;
    request.d.tokens.stride[2] = 3;
    run(&request, scores, index);
    CHECK(scores[0] == 1 && scores[1] == 3 && scores[2] == -4);
}

/* Lies are clamped to the storage when nobody asks for a check. */
static void unvalidated(void) {
    const int64_t lying[4] = {-7, 2, 1, INT64_MAX};
    rowmax_options options = rowmax_options_init();
    options.validate = 0;
    rowmax_request request = packed_request();
    request.options = &options;
    request.d.cu_seqlens = in(lying, ROWMAX_INT64, 1, 4);
    float scores[6];
    int32_t index[12];
    run(&request, scores, index);
    CHECK(scores[0] == 3 && scores[1] == 0 && scores[2] == 3); /* rows 0 to 2, none, 1 to 3 */
}

void test_layouts(void) {
    packed();
    pair_list();
    ranges();
    grouped();
    zipped();
    strides();
    unvalidated();
}
