/* model_slope.h: gradients of models against differences of their losses. Header-only. */
#ifndef QKV_MODEL_SLOPE_H
#define QKV_MODEL_SLOPE_H

#include "model_grid.h"
#include "slope_fixture.h"
#include "weights.h"

/* The weights of a model, and a direction to move them along. */
struct walk {
    struct sample *s;
    struct qkv_pass *pass; /* gives the losses */
    float **at, **direction;
};

/* The loss with the weights so far along the direction. */
static inline double walk_loss(void *user, double distance) {
    const struct walk *walk = user;
    for (size_t i = 0; i < qkv_model_parameters(walk->s->model); i++) {
        float *w = test_weights_mutable(walk->s->model, i);
        for (size_t k = 0; k < qkv_array_elements(qkv_model_parameter(walk->s->model, i)); k++)
            w[k] = (float)((double)walk->at[i][k] + distance * (double)walk->direction[i][k]);
    }
    return forward(walk->s, walk->pass);
}

/* How far a parameter moves, a standard deviation; 0: not at all. */
typedef double walk_deviation(const char *name, const void *user);

static inline double walk_all(const char *name, const void *user) {
    (void)name, (void)user;
    return 1;
}

/* The model's gradient says the slope of its loss, which `pass` computes, along a random direction, within 1% of the
 * norm of the gradient and 0.001. Directions are drawn until differences say the slope to half of that: a loss may bend
 * or be rounded more. */
static inline void expect_slope(struct sample *s, struct qkv_pass *pass, walk_deviation *deviation, const void *user,
                                const char *what) {
    const size_t count = qkv_model_parameters(s->model);
    struct walk walk = {s, pass, calloc(count, sizeof(float *)), calloc(count, sizeof(float *))};
    double norm = 0, expected = 0, tolerance = 0;
    struct slope slope = {0, INFINITY};
    for (size_t i = 0; i < count; i++) {
        const size_t n = qkv_array_elements(qkv_model_parameter(s->model, i));
        const double scale = deviation(qkv_model_parameter(s->model, i)->name, user);
        walk.at[i] = malloc(n * sizeof(float)), walk.direction[i] = malloc(n * sizeof(float));
        memcpy(walk.at[i], test_weights(s->model, i), n * sizeof(float));
        for (size_t k = 0; k < n; k++) norm += pow(scale * (double)test_gradient(s->model, i)[k], 2);
    }
    tolerance = 0.01 * sqrt(norm) + 1e-3;
    for (int draw = 0; draw < 20 && !(slope.error <= tolerance / 2); draw++) {
        expected = 0;
        for (size_t i = 0; i < count; i++) {
            const struct qkv_array *p = qkv_model_parameter(s->model, i);
            test_fill(&s->random, walk.direction[i], qkv_array_elements(p), deviation(p->name, user));
            for (size_t k = 0; k < qkv_array_elements(p); k++)
                expected += (double)test_gradient(s->model, i)[k] * (double)walk.direction[i][k];
        }
        slope = slope_by_differences(walk_loss, &walk, 1.5e-3, tolerance / 4);
    }
    walk_loss(&walk, 0); /* the weights are what they were */
    for (size_t i = 0; i < count; i++) free(walk.at[i]), free(walk.direction[i]);
    free(walk.at), free(walk.direction);
    if (slope.error <= tolerance / 2 && fabs(slope.value - expected) <= tolerance) return;
    char *json;
    assert_ok(s->ctx, qkv_spec_print(s->ctx, qkv_model_spec(s->model), &json));
    fail_msg("%s: the slope is %.6f by the gradient, %.6f by differences that are %.6f apart, norm %.4f\n%s", what,
             expected, slope.value, slope.error, sqrt(norm), json);
}

#endif
