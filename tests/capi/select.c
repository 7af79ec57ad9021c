/* Operators that select: nearest points, Chamfer distances, the inverse of an index and sums by it. */
#include "check.h"

/* Squared distances of p to r: (0,0): 1 4 25; (3,4): 18 13 0; (0,1): 2 1 18. */
static const float p[3][2] = {{0, 0}, {3, 4}, {0, 1}};
static const float r[3][2] = {{1, 0}, {0, 2}, {3, 4}};

static rowmax_point_request points(void) {
    rowmax_point_request request = rowmax_point_request_init();
    request.p.points = in(p, ROWMAX_FLOAT32, 2, 3, 2);
    request.r.points = in(r, ROWMAX_FLOAT32, 2, 3, 2);
    return request;
}

static void nearest(void) {
    rowmax_point_request request = points();
    float distance[3][2];
    int64_t index[3][2];
    const rowmax_view distance_view = out(distance, ROWMAX_FLOAT32, 2, 3, 2);
    const rowmax_view index_view = out(index, ROWMAX_INT64, 2, 3, 2);
    size_t bytes = 7;
    CHECK_OK(rowmax_nearest_workspace(&request, 2, &distance_view, &index_view, &bytes));
    CHECK(bytes == 0);
    CHECK_OK(rowmax_nearest(&request, 2, &distance_view, &index_view, NULL, 0));
    const float want[3][2] = {{1, 4}, {0, 13}, {1, 2}};
    const int64_t want_index[3][2] = {{0, 1}, {2, 1}, {1, 0}};
    CHECK(memcmp(distance, want, sizeof(want)) == 0);
    CHECK(memcmp(index, want_index, sizeof(want_index)) == 0);

    request.metric = ROWMAX_L1;
    CHECK_OK(rowmax_nearest(&request, 2, &distance_view, &index_view, NULL, 0));
    CHECK(distance[1][0] == 0 && distance[1][1] == 5 && index[1][1] == 1);

    request = points(); /* d(p0, r0) = 1, d(p0, r1) = 4, ...: gradients 2 (p - r) for the weights given */
    const float weight[3][2] = {{1, 0}, {0, 0}, {0, 0.5F}};
    const rowmax_view weight_view = in(weight, ROWMAX_FLOAT32, 2, 3, 2);
    float grad_p[6], grad_r[6];
    const rowmax_view p_view = out(grad_p, ROWMAX_FLOAT32, 2, 3, 2), r_view = out(grad_r, ROWMAX_FLOAT32, 2, 3, 2);
    CHECK_OK(rowmax_nearest(&request, 2, &distance_view, &index_view, NULL, 0));
    CHECK_OK(rowmax_nearest_backward_workspace(&request, 2, &index_view, &weight_view, &p_view, &r_view, &bytes));
    CHECK(bytes == 0);
    CHECK_OK(rowmax_nearest_backward(&request, 2, &index_view, &weight_view, &p_view, &r_view, NULL, 0));
    const float want_p[6] = {-2, 0, 0, 0, -1, 1}, want_r[6] = {3, -1, 0, 0, 0, 0};
    for (int i = 0; i < 6; ++i) CHECK(grad_p[i] == want_p[i] && grad_r[i] == want_r[i]);
}

/* To r: 1 0 1; to p: 1 1 0. */
static void chamfer(void) {
    rowmax_point_request request = points();
    float value = 0, to_r[3], to_p[3];
    int64_t index_p[3], index_r[3];
    rowmax_chamfer_views views;
    memset(&views, 0, sizeof(views));
    views.value = out(&value, ROWMAX_FLOAT32, 0);
    views.index_p = out(index_p, ROWMAX_INT64, 1, 3);
    views.index_r = out(index_r, ROWMAX_INT64, 1, 3);
    CHECK_OK(rowmax_chamfer(&request, ROWMAX_SUM, 0, &views, NULL, 0));
    CHECK(value == 4);
    const int64_t want_p[3] = {0, 2, 1}, want_r[3] = {0, 2, 1};
    CHECK(memcmp(index_p, want_p, sizeof(want_p)) == 0 && memcmp(index_r, want_r, sizeof(want_r)) == 0);

    float grad_value = 1, grad_p[6], grad_r[6];
    rowmax_chamfer_views given = views;
    given.value = in(&grad_value, ROWMAX_FLOAT32, 0);
    const rowmax_view p_view = out(grad_p, ROWMAX_FLOAT32, 2, 3, 2), r_view = out(grad_r, ROWMAX_FLOAT32, 2, 3, 2);
    CHECK_OK(rowmax_chamfer_backward(&request, ROWMAX_SUM, &given, &p_view, &r_view, NULL, 0));
    const float want_grad_p[6] = {-4, 0, 0, 0, 0, -4}, want_grad_r[6] = {4, 0, 0, 4, 0, 0};
    for (int i = 0; i < 6; ++i) CHECK(grad_p[i] == want_grad_p[i] && grad_r[i] == want_grad_r[i]);

    memset(&views, 0, sizeof(views)); /* the distances themselves, one way and the other */
    views.distance_p = out(to_r, ROWMAX_FLOAT32, 1, 3);
    CHECK_OK(rowmax_chamfer(&request, ROWMAX_SUM, 1, &views, NULL, 0));
    views.distance_r = out(to_p, ROWMAX_FLOAT32, 1, 3);
    CHECK_FAILS(rowmax_chamfer(&request, ROWMAX_SUM, 1, &views, NULL, 0), ROWMAX_INVALID_VALUE, "one_sided", "of R");
    CHECK_OK(rowmax_chamfer(&request, ROWMAX_SUM, 0, &views, NULL, 0));
    CHECK(to_r[0] == 1 && to_r[1] == 0 && to_r[2] == 1 && to_p[0] == 1 && to_p[1] == 1 && to_p[2] == 0);
}

/* Packed points against masked ones: items of 2 and 1 points. */
static void ragged_points(void) {
    const int32_t cu[3] = {0, 2, 3};
    const float dense[2][2][2] = {{{1, 0}, {0, 2}}, {{3, 4}, {9, 9}}};
    const uint8_t kept[2][2] = {{1, 1}, {1, 0}};
    rowmax_point_request request = points();
    request.p.cu_seqlens = in(cu, ROWMAX_INT32, 1, 3);
    request.r.points = in(dense, ROWMAX_FLOAT32, 3, 2, 2, 2);
    request.r.mask = in(kept, ROWMAX_BOOL, 2, 2, 2);
    float value[2];
    rowmax_chamfer_views views;
    memset(&views, 0, sizeof(views));
    views.value = out(value, ROWMAX_FLOAT32, 1, 2);
    CHECK_OK(rowmax_chamfer(&request, ROWMAX_MEAN, 0, &views, NULL, 0));
    CHECK(value[0] == 0.5F * (1 + 13) + 0.5F * (1 + 4) && value[1] == 18 + 18);
    const int32_t lies[3] = {0, 5, 3};
    request.p.cu_seqlens = in(lies, ROWMAX_INT32, 1, 3);
    CHECK_FAILS(rowmax_chamfer(&request, ROWMAX_MEAN, 0, &views, NULL, 0), ROWMAX_INVALID_VALUE, "cu_seqlens_p", "5");
    request.validate = 0;
    CHECK_OK(rowmax_chamfer(&request, ROWMAX_MEAN, 0, &views, NULL, 0));
}

static void sums(void) {
    const int32_t index[4] = {2, 0, -1, 2};
    const double values[4][2] = {{1, 10}, {2, 20}, {3, 30}, {4, 40}};
    int64_t row_ptr[4], source[4];
    double total[3][2];
    rowmax_index_request request = rowmax_index_request_init();
    request.index = in(index, ROWMAX_INT32, 1, 4);
    request.num_destinations = 3;
    const rowmax_view values_view = in(values, ROWMAX_FLOAT64, 2, 4, 2);
    const rowmax_view total_view = out(total, ROWMAX_FLOAT64, 2, 3, 2);
    const rowmax_view row_ptr_view = out(row_ptr, ROWMAX_INT64, 1, 4), source_view = out(source, ROWMAX_INT64, 1, 4);
    size_t bytes = 7;
    CHECK_OK(rowmax_invert_workspace(&request, &row_ptr_view, &source_view, &bytes));
    CHECK(bytes == 0);
    CHECK_OK(rowmax_invert(&request, &row_ptr_view, &source_view, NULL, 0));
    const int64_t want_row_ptr[4] = {0, 1, 1, 3}, want_source[4] = {1, 0, 3, -1};
    CHECK(memcmp(row_ptr, want_row_ptr, sizeof(row_ptr)) == 0 && memcmp(source, want_source, sizeof(source)) == 0);
    const double want[3][2] = {{2, 20}, {0, 0}, {5, 50}};
    for (int with_grid = 0; with_grid < 2; ++with_grid) {
        memset(total, 0x7f, sizeof(total));
        if (with_grid) request.row_ptr = row_ptr_view;
        if (with_grid) request.source = source_view;
        request.any_order = with_grid;
        CHECK_OK(rowmax_scatter_sum_workspace(&request, &values_view, &total_view, &bytes));
        CHECK(bytes == 0);
        CHECK_OK(rowmax_scatter_sum(&request, &values_view, &total_view, NULL, 0));
        CHECK(memcmp(total, want, sizeof(want)) == 0);
    }
    request.num_destinations = 2;
    const rowmax_view short_view = out(total, ROWMAX_FLOAT64, 2, 2, 2);
    request.row_ptr.data = request.source.data = NULL;
    request.row_ptr.ndim = request.source.ndim = 0;
    CHECK_FAILS(rowmax_scatter_sum(&request, &values_view, &short_view, NULL, 0), ROWMAX_INVALID_VALUE, "index", "2");
    request.validate = 0;
    CHECK_OK(rowmax_scatter_sum(&request, &values_view, &short_view, NULL, 0));
    CHECK(total[0][0] == 2 && total[1][0] == 0);
}

/* A call and the question how much memory it needs refuse the same, and with the same words. */
#define BOTH_FAIL(name, status, text1, text2, ...)                                \
    do {                                                                          \
        size_t asked = 7;                                                         \
        CHECK_FAILS(name(__VA_ARGS__, NULL, 0), status, text1, text2);            \
        CHECK_FAILS(name##_workspace(__VA_ARGS__, &asked), status, text1, text2); \
        CHECK(asked == 7);                                                        \
    } while (0)

static void nonsense_about_points(void) {
    rowmax_point_request request = points();
    float value, few[2];
    rowmax_chamfer_views views;
    memset(&views, 0, sizeof(views));
    views.value = out(&value, ROWMAX_FLOAT32, 0);
    const rowmax_view few_view = out(few, ROWMAX_FLOAT32, 1, 2);
    BOTH_FAIL(rowmax_chamfer, ROWMAX_INVALID_VALUE, "request", "null", NULL, 0, 0, &views);
    BOTH_FAIL(rowmax_chamfer, ROWMAX_INVALID_VALUE, "results", "null", &request, 0, 0, NULL);
    BOTH_FAIL(rowmax_chamfer, ROWMAX_INVALID_VALUE, "reduction", "9", &request, 9, 0, &views);
    BOTH_FAIL(rowmax_nearest, ROWMAX_INVALID_VALUE, "k", "0", &request, 0, NULL, NULL);
    BOTH_FAIL(rowmax_nearest, ROWMAX_INVALID_VALUE, "distance", "missing", &request, 1, NULL, NULL);
    BOTH_FAIL(rowmax_nearest, ROWMAX_INVALID_VALUE, "distance", "[2]", &request, 1, &few_view, NULL);
    BOTH_FAIL(rowmax_nearest_backward, ROWMAX_INVALID_VALUE, "index", "missing", &request, 1, NULL, NULL, NULL, NULL);
    BOTH_FAIL(rowmax_chamfer_backward, ROWMAX_INVALID_VALUE, "given", "null", &request, 0, NULL, NULL, NULL);
    BOTH_FAIL(rowmax_chamfer_backward, ROWMAX_INVALID_VALUE, "grad_p", "[2]", &request, 0, &views, &few_view, NULL);
    views.distance_p = few_view;
    BOTH_FAIL(rowmax_chamfer, ROWMAX_INVALID_VALUE, "distance_p", "[2]", &request, 0, 0, &views);
    views.distance_p.data = NULL;
    request.metric = 3;
    BOTH_FAIL(rowmax_chamfer, ROWMAX_INVALID_VALUE, "metric", "3", &request, 0, 0, &views);
    request = points();
    request.threads = -2;
    BOTH_FAIL(rowmax_chamfer, ROWMAX_INVALID_VALUE, "threads", "-2", &request, 0, 0, &views);
    request = points();
    request.device.kind = 5;
    BOTH_FAIL(rowmax_chamfer, ROWMAX_INVALID_VALUE, "device.kind", "5", &request, 0, 0, &views);
    request = points();
    request.r.points.shape[1] = 1;
    BOTH_FAIL(rowmax_chamfer, ROWMAX_INVALID_VALUE, "R", "coordinates", &request, 0, 0, &views);
    request = points();
    request.size = 3;
    BOTH_FAIL(rowmax_chamfer, ROWMAX_INVALID_VALUE, "point_request.size", "rowmax_point_request_init", &request, 0, 0,
              &views);
}

static void nonsense_about_indices(void) {
    const int32_t index[2] = {0, 1};
    float values[2] = {1, 2}, total[3];
    const rowmax_view values_view = in(values, ROWMAX_FLOAT32, 1, 2), total_view = out(total, ROWMAX_FLOAT32, 1, 3);
    rowmax_index_request request = rowmax_index_request_init();
    BOTH_FAIL(rowmax_invert, ROWMAX_INVALID_VALUE, "index", "missing", &request, NULL, NULL);
    BOTH_FAIL(rowmax_invert, ROWMAX_INVALID_VALUE, "request", "null", NULL, NULL, NULL);
    request.index = in(index, ROWMAX_INT32, 1, 2);
    request.num_destinations = -4;
    BOTH_FAIL(rowmax_scatter_sum, ROWMAX_INVALID_VALUE, "num_destinations", "-4", &request, &values_view, &total_view);
    request.num_destinations = 2;
    BOTH_FAIL(rowmax_invert, ROWMAX_INVALID_VALUE, "row_ptr", "missing", &request, NULL, NULL);
    BOTH_FAIL(rowmax_scatter_sum, ROWMAX_INVALID_VALUE, "values", "missing", &request, NULL, &total_view);
    BOTH_FAIL(rowmax_scatter_sum, ROWMAX_INVALID_VALUE, "out", "[3]", &request, &values_view, &total_view);
    request.threads = -1;
    BOTH_FAIL(rowmax_scatter_sum, ROWMAX_INVALID_VALUE, "threads", "-1", &request, &values_view, &total_view);
}

static void nonsense_about_memory(void) {
    const rowmax_point_request request = points();
    const rowmax_index_request nothing = rowmax_index_request_init();
    float value;
    rowmax_chamfer_views views;
    memset(&views, 0, sizeof(views));
    views.value = out(&value, ROWMAX_FLOAT32, 0);
    CHECK_FAILS(rowmax_chamfer_workspace(&request, 0, 0, &views, NULL), ROWMAX_INVALID_VALUE, "bytes", "null");
    CHECK_FAILS(rowmax_scatter_sum_workspace(&nothing, NULL, NULL, NULL), ROWMAX_INVALID_VALUE, "bytes", "null");
    CHECK_FAILS(rowmax_chamfer(&request, 0, 0, &views, NULL, 64), ROWMAX_INVALID_VALUE, "workspace", "64");
    CHECK_FAILS(rowmax_chamfer(&request, 0, 0, &views, (char*)NULL + 1, 64), ROWMAX_INVALID_VALUE, "workspace", "256");
}

/* Whoever asks how much memory a call needs gets no results yet. */
static void questions_write_nothing(void) {
    const rowmax_point_request request = points();
    float value = 7;
    rowmax_chamfer_views views;
    memset(&views, 0, sizeof(views));
    views.value = out(&value, ROWMAX_FLOAT32, 0);
    size_t bytes = 7;
    CHECK_OK(rowmax_chamfer_workspace(&request, ROWMAX_SUM, 0, &views, &bytes));
    CHECK(bytes == 0 && value == 7);
    const int32_t index[2] = {1, 5}; /* what an index holds is the call's to look at */
    float values[2] = {1, 2}, total[2] = {7, 7};
    const rowmax_view values_view = in(values, ROWMAX_FLOAT32, 1, 2), total_view = out(total, ROWMAX_FLOAT32, 1, 2);
    rowmax_index_request sums = rowmax_index_request_init();
    sums.index = in(index, ROWMAX_INT32, 1, 2);
    sums.num_destinations = 2;
    CHECK_OK(rowmax_scatter_sum_workspace(&sums, &values_view, &total_view, &bytes));
    CHECK(bytes == 0 && total[0] == 7 && total[1] == 7);
    CHECK_FAILS(rowmax_scatter_sum(&sums, &values_view, &total_view, NULL, 0), ROWMAX_INVALID_VALUE, "index", "5");
}

void test_select(void) {
    nearest();
    chamfer();
    ragged_points();
    sums();
    nonsense_about_points();
    nonsense_about_indices();
    nonsense_about_memory();
    questions_write_nothing();
}
