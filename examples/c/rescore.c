/* How a search engine embeds rowmax: its documents' tokens lie anywhere in one buffer of its own, a first stage has
 * named candidates, and rowmax rescores them in place. Nothing is copied, nothing is allocated here. */
#include <rowmax/rowmax.h>
#include <stdio.h>

enum { DIM = 4, QUERY_TOKENS = 2, STORED_TOKENS = 6, CANDIDATES = 3 };

/* The store: documents share it, may overlap in it and lie in any order. */
static const float store[STORED_TOKENS][DIM] = {
    {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {1, 1, 0, 0}, {0, 0, 1, 1},
};
static const float query[QUERY_TOKENS][DIM] = {{1, 1, 0, 0}, {0, 0, 1, 0}};

int main(void) {
    /* Candidate c is rows offsets[c] .. offsets[c] + lengths[c] of the store. */
    const int64_t offsets[CANDIDATES] = {0, 4, 2};
    const int64_t lengths[CANDIDATES] = {2, 2, 4};
    const int64_t query_shape[] = {QUERY_TOKENS, DIM}, store_shape[] = {STORED_TOKENS, DIM},
                  candidates[] = {CANDIDATES};

    rowmax_request request = rowmax_request_init();
    request.q.tokens = rowmax_input(query, ROWMAX_FLOAT32, 2, query_shape);
    request.d.tokens = rowmax_input(store, ROWMAX_FLOAT32, 2, store_shape);
    request.d.offsets = rowmax_input(offsets, ROWMAX_INT64, 1, candidates);
    request.d.lengths = rowmax_input(lengths, ROWMAX_INT64, 1, candidates);

    rowmax_outputs outputs;
    float scores[CANDIDATES];
    int32_t winners[CANDIDATES][QUERY_TOKENS];
    if (rowmax_result_shape(&request, &outputs) != ROWMAX_OK) goto failed;
    outputs.scores.data = scores;
    outputs.index.data = winners;
    if (rowmax_score(&request, &outputs, NULL, 0) != ROWMAX_OK) goto failed;
    for (int c = 0; c < CANDIDATES; ++c) {
        printf("candidate %d: %g, answered by tokens %d and %d\n", c, scores[c], winners[c][0], winners[c][1]);
    }
    return 0;

failed:
    fprintf(stderr, "%s\n", rowmax_last_error());
    return 1;
}
