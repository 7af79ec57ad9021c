/* A user's program in C: prints the score of one query and one document. */
#include <rowmax/rowmax.h>
#include <stdio.h>

int main(void) {
    const float q[2][2] = {{1, 0}, {0, 1}};
    const float d[3][2] = {{1, 2}, {3, 0}, {0, 0}};
    const int64_t q_shape[2] = {2, 2}, d_shape[2] = {3, 2};
    rowmax_request request = rowmax_request_init();
    request.q.tokens = rowmax_input(q, ROWMAX_FLOAT32, 2, q_shape);
    request.d.tokens = rowmax_input(d, ROWMAX_FLOAT32, 2, d_shape);

    float score = 0;
    rowmax_outputs outputs;
    if (rowmax_result_shape(&request, &outputs) != ROWMAX_OK) return 1;
    outputs.scores.data = &score;
    if (rowmax_score(&request, &outputs, NULL, 0) != ROWMAX_OK) {
        fprintf(stderr, "%s\n", rowmax_last_error());
        return 1;
    }
    printf("%s %g\n", rowmax_version(), score);
    return 0;
}
