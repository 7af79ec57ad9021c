/* Many callers at once: each gets its own scores and its own error message. */
#include <pthread.h>

#include "check.h"

enum { callers = 8, rounds = 200 };

struct caller {
    float value;
    int wrong;
};

static void* call(void* argument) {
    struct caller* self = argument;
    const float q[2] = {self->value, 0}, d[4] = {1, 0, 2, 0};
    rowmax_request request = rowmax_request_init();
    request.q.tokens = in(q, ROWMAX_FLOAT32, 2, 1, 2);
    request.d.tokens = in(d, ROWMAX_FLOAT32, 2, 2, 2);
    char pairing[32];
    snprintf(pairing, sizeof(pairing), "got %d", 100 + (int)self->value);
    for (int i = 0; i < rounds; ++i) {
        float score = -1;
        rowmax_outputs outputs;
        memset(&outputs, 0, sizeof(outputs));
        outputs.scores = out(&score, ROWMAX_FLOAT32, 0);
        request.pairing = ROWMAX_CROSS;
        self->wrong += rowmax_score(&request, &outputs, NULL, 0) != ROWMAX_OK || score != 2 * self->value;
        request.pairing = 100 + (int)self->value;
        self->wrong += rowmax_score(&request, &outputs, NULL, 0) != ROWMAX_INVALID_VALUE;
        self->wrong += strstr(rowmax_last_error(), pairing) == NULL;
    }
    return NULL;
}

void test_threads(void) {
    pthread_t threads[callers];
    struct caller states[callers];
    for (int i = 0; i < callers; ++i) {
        states[i].value = (float)i;
        states[i].wrong = 0;
        CHECK(pthread_create(&threads[i], NULL, call, &states[i]) == 0);
    }
    for (int i = 0; i < callers; ++i) {
        pthread_join(threads[i], NULL);
        CHECK(states[i].wrong == 0);
    }
}
