/* compare_case.c: compares the tensors that "qkv forward" wrote with those of a golden case, which another program
 * computed in float64: every out.* and grad.* of the case must exist with its shape and be close.
 *     compare_case EXPECTED GOT
 * Near is |got - expected| <= tolerance * |expected| in 2-norms: 1e-5 for outputs, 1e-4 for gradients and for what
 * follows optimizer steps. Gradients that are zero (the bias of keys, which softmax does not see) are rounding errors
 * in both: they must be small beside the largest gradient. Prints the largest error, divided by that norm, of outputs
 * and of gradients. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qkv.h"

struct comparison {
    const struct qkv_tensors *expected, *got;
    double largest_gradient, output_error, gradient_error; /* errors are relative */
    int compared, failed;
};

static double norm(const float *a, const float *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (b ? (double)b[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

static float *floats(const struct qkv_array *array) {
    float *x = malloc((qkv_array_elements(array) + 1) * sizeof *x);
    if (!x) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    qkv_array_floats(array, x);
    return x;
}

static bool begins(const char *name, const char *prefix) {
    return !strncmp(name, prefix, strlen(prefix));
}

static void fail(struct comparison *c, const char *name, const char *why) {
    printf("%s: %s\n", name, why);
    c->failed++;
}

static void compare(struct comparison *c, const struct qkv_array *expected) {
    const struct qkv_array *got = qkv_tensors_find(c->got, expected->name);
    char why[160];
    bool gradient = begins(expected->name, "grad."), adamw = begins(expected->name, "out.adamw_");
    if (!got) {
        fail(c, expected->name, "missing");
        return;
    }
    if (got->rank != expected->rank ||
        memcmp(got->shape, expected->shape, (size_t)got->rank * sizeof *got->shape) != 0) {
        fail(c, expected->name, "of another shape");
        return;
    }
    size_t n = qkv_array_elements(expected);
    float *a = floats(got), *b = floats(expected);
    double size = norm(b, NULL, n), error = norm(a, b, n), tolerance = gradient || adamw ? 1e-4 : 1e-5;
    double allowed = gradient && size < 1e-10 ? 1e-6 * c->largest_gradient : tolerance * size;
    if (!(error <= allowed)) {
        snprintf(why, sizeof why, "differs by %.3g, of a norm of %.3g; allowed is %.3g", error, size, allowed);
        fail(c, expected->name, why);
    }
    double *largest = gradient || adamw ? &c->gradient_error : &c->output_error;
    if (size > 1e-10 && error / size > *largest) *largest = error / size;
    c->compared++;
    free(a);
    free(b);
}

static void compare_all(struct comparison *c) {
    for (size_t i = 0; i < qkv_tensors_count(c->expected); i++) {
        const struct qkv_array *array = qkv_tensors_at(c->expected, i);
        if (!begins(array->name, "grad.")) continue;
        float *x = floats(array);
        double size = norm(x, NULL, qkv_array_elements(array));
        if (size > c->largest_gradient) c->largest_gradient = size;
        free(x);
    }
    for (size_t i = 0; i < qkv_tensors_count(c->expected); i++) {
        const struct qkv_array *array = qkv_tensors_at(c->expected, i);
        if (begins(array->name, "out.") || begins(array->name, "grad.")) compare(c, array);
    }
}

int main(int argc, char **argv) {
    struct qkv_context *ctx = NULL;
    struct qkv_tensors *expected = NULL, *got = NULL;
    int code = 2;
    if (argc != 3) {
        fprintf(stderr, "usage: compare_case EXPECTED GOT\n");
        return 2;
    }
    if (qkv_context_create(&ctx, NULL) || qkv_tensors_open(ctx, argv[1], &expected) ||
        qkv_tensors_open(ctx, argv[2], &got)) {
        fprintf(stderr, "%s\n", qkv_message(ctx));
    } else {
        struct comparison c = {.expected = expected, .got = got};
        compare_all(&c);
        printf("%d tensors compared, %d differ; largest errors %.1e of outputs, %.1e of gradients\n", c.compared,
               c.failed, c.output_error, c.gradient_error);
        code = c.failed || !c.compared;
    }
    qkv_tensors_close(expected);
    qkv_tensors_close(got);
    qkv_context_free(ctx);
    return code;
}
