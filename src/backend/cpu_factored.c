/* cpu_factored: the step `factorise`, Adafactor's change of a weight (Shazeer & Stern 2018, algorithms 4 and 5). Sums
 * are those of whole rows, and of the rows in turn, so threads change no bit. */
#include <math.h>

#include "backend/cpu_work.h"
#include "base/math.h"

enum { FACTORED_COLUMNS = 64, FACTORED_VECTOR = 1 << 12 };

struct factored {
    const struct qkv_kernels *kernels;
    const struct qkv_step_factorise *call;
    size_t rows, columns; /* a vector is cut into rows; its last one may be shorter */
    double *sums;         /* (rows) */
    double mean;          /* of the row moments */
};

static float factored_moment(float moment, double square, float share) {
    return moment + share * ((float)square - moment);
}

static void factored_row(void *argument, size_t row, int thread) {
    (void)thread;
    const struct factored *w = argument;
    const double sum = w->kernels->sum_squares(w->call->x + row * w->columns, w->columns);
    float *moment = &w->call->row_moments[row];
    *moment = factored_moment(*moment, sum / (double)w->columns, w->call->share);
}

/* The moments of some columns. */
static void factored_columns(void *argument, size_t item, int thread) {
    (void)thread;
    const struct factored *w = argument;
    const size_t begin = item * FACTORED_COLUMNS, end = qkv_min(w->columns, begin + FACTORED_COLUMNS);
    double sums[FACTORED_COLUMNS] = {0};
    for (size_t r = 0; r < w->rows; r++)
        for (size_t c = begin; c < end; c++) {
            const double x = (double)w->call->x[r * w->columns + c];
            sums[c - begin] += x * x;
        }
    for (size_t c = begin; c < end; c++) {
        float *moment = &w->call->column_moments[c];
        *moment = factored_moment(*moment, sums[c - begin] / (double)w->rows, w->call->share);
    }
}

static void factored_mean(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    struct factored *w = argument;
    double sum = 0;
    for (size_t r = 0; r < w->rows; r++) sum += (double)w->call->row_moments[r];
    w->mean = qkv_fmax(sum / (double)w->rows, (double)w->call->eps * (double)w->call->eps);
}

static void factored_divide(void *argument, size_t row, int thread) {
    (void)thread;
    const struct factored *w = argument;
    const struct qkv_step_factorise *call = w->call;
    const float share = (float)((double)call->row_moments[row] / w->mean);
    float *x = call->x + row * w->columns;
    for (size_t c = 0; c < w->columns; c++) {
        const float root = sqrtf(share * call->column_moments[c]);
        x[c] /= root > call->eps ? root : call->eps;
    }
    w->sums[row] = w->kernels->sum_squares(x, w->columns);
}

/* A run of a vector, whose moments are its own. */
static void factored_vector(void *argument, size_t row, int thread) {
    (void)thread;
    const struct factored *w = argument;
    const struct qkv_step_factorise *call = w->call;
    const size_t begin = row * FACTORED_VECTOR, end = qkv_min(call->rows, begin + FACTORED_VECTOR);
    for (size_t i = begin; i < end; i++) {
        const double x = (double)call->x[i];
        call->row_moments[i] = factored_moment(call->row_moments[i], x * x, call->share);
        const float root = sqrtf(call->row_moments[i]);
        call->x[i] /= root > call->eps ? root : call->eps;
    }
    w->sums[row] = w->kernels->sum_squares(call->x + begin, end - begin);
}

static void factored_sum(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    const struct factored *w = argument;
    *w->call->square = 0;
    for (size_t r = 0; r < w->rows; r++) *w->call->square += w->sums[r];
}

enum qkv_status qkv_cpu_factorise(struct qkv_context *ctx, const void *argument) {
    const struct qkv_step_factorise *call = argument;
    const bool matrix = call->columns > 0;
    const size_t mark = qkv_arena_mark(call->scratch);
    struct factored w = {.kernels = ctx->kernels,
                         .call = call,
                         .rows = matrix ? call->rows : qkv_pieces(call->rows, FACTORED_VECTOR),
                         .columns = call->columns};
    w.sums = qkv_arena_take(call->scratch, w.rows, sizeof *w.sums);
    if (!w.sums) return QKV_MEMORY;
    if (matrix) {
        qkv_parallel(ctx, w.rows, factored_row, &w);
        qkv_parallel(ctx, qkv_pieces(w.columns, FACTORED_COLUMNS), factored_columns, &w);
        qkv_parallel(ctx, 1, factored_mean, &w);
    }
    qkv_parallel(ctx, w.rows, matrix ? factored_divide : factored_vector, &w);
    qkv_parallel(ctx, 1, factored_sum, &w);
    qkv_arena_release(call->scratch, mark);
    return QKV_OK;
}
