/* The dispatch table through C, and the version. */
#include "check.h"

static const float tokens[4] = {1, 2, 3, 4};

static rowmax_request small(void) {
    rowmax_request request = rowmax_request_init();
    request.q.tokens = in(tokens, ROWMAX_FLOAT32, 2, 2, 2);
    request.d.tokens = in(tokens, ROWMAX_FLOAT32, 2, 2, 2);
    return request;
}

static void listed(void) {
    const size_t count = rowmax_kernel_count();
    int available = 0;
    rowmax_kernel kernel;
    for (size_t i = 0; i < count; ++i) {
        CHECK_OK(rowmax_kernel_info(i, NULL, &kernel));
        CHECK(strncmp(kernel.name, kernel.backend, strlen(kernel.backend)) == 0);
        CHECK(kernel.available == (kernel.refusal[0] == '\0'));
        CHECK(kernel.chosen == 0);
        available += kernel.available;
    }
    CHECK(available > 0);
    CHECK_FAILS(rowmax_kernel_info(count, NULL, &kernel), ROWMAX_INVALID_VALUE, "kernels", "i:");
}

/* Exactly one row is chosen, and forcing it by name runs it. */
static void chosen(void) {
    rowmax_request request = small();
    rowmax_kernel kernel;
    char name[64] = "";
    int count = 0;
    for (size_t i = 0; i < rowmax_kernel_count(); ++i) {
        CHECK_OK(rowmax_kernel_info(i, &request, &kernel));
        if (!kernel.chosen) continue;
        ++count;
        snprintf(name, sizeof(name), "%s", kernel.name);
    }
    CHECK(count == 1);
    rowmax_options options = rowmax_options_init();
    options.kernel = name;
    request.options = &options;
    float score = 0;
    rowmax_outputs outputs;
    memset(&outputs, 0, sizeof(outputs));
    outputs.scores = out(&score, ROWMAX_FLOAT32, 0);
    CHECK_OK(rowmax_score(&request, &outputs, NULL, 0));
    CHECK(score == 36); /* 11 + 25: both query tokens prefer (3, 4) */
}

void test_kernels(void) {
    listed();
    chosen();
    int major, minor, patch;
    CHECK(sscanf(rowmax_version(), "%d.%d.%d", &major, &minor, &patch) == 3);
}
