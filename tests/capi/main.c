/* Runs the groups of tests named on the command line. */
#include <stdarg.h>

#include "check.h"

int failures = 0;

enum { most = ROWMAX_MAX_NDIM };

static const int64_t* sizes_of(int64_t shape[most], int ndim, va_list sizes) {
    for (int i = 0; i < ndim && i < most; ++i) shape[i] = va_arg(sizes, int);
    return shape;
}

rowmax_view in(const void* data, int dtype, int ndim, ...) {
    int64_t shape[most];
    va_list sizes;
    va_start(sizes, ndim);
    const rowmax_view view = rowmax_input(data, dtype, ndim, sizes_of(shape, ndim, sizes));
    va_end(sizes);
    return view;
}

rowmax_view out(void* data, int dtype, int ndim, ...) {
    int64_t shape[most];
    va_list sizes;
    va_start(sizes, ndim);
    const rowmax_view view = rowmax_output(data, dtype, ndim, sizes_of(shape, ndim, sizes));
    va_end(sizes);
    return view;
}

static const struct {
    const char* name;
    void (*run)(void);
} groups[] = {
    {"scores", test_scores}, {"layouts", test_layouts}, {"topk", test_topk},       {"backward", test_backward},
    {"errors", test_errors}, {"kernels", test_kernels}, {"threads", test_threads}, {"select", test_select},
};

static int run(const char* name) {
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); ++i) {
        if (strcmp(groups[i].name, name) == 0) {
            groups[i].run();
            return 1;
        }
    }
    fprintf(stderr, "no group is named %s\n", name);
    return 0;
}

int main(int argc, char** argv) {
    int known = argc > 1;
    for (int i = 1; i < argc; ++i) known = run(argv[i]) && known;
    return known && failures == 0 ? 0 : 1;
}
