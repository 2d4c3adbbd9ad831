/* Sinusoidal positions (Vaswani et al. 2017, section 3.5): embed[t][2i] = sin(t / 10000^(2i/C)), embed[t][2i+1] = cos(…). */
#include "model/model.h"

#include <math.h>

struct sinusoidal {
    float *embed;
    size_t C;
};

static void sinusoid_row(void *argument, size_t t, int thread) {
    (void)thread;
    const struct sinusoidal *s = argument;
    for (size_t c = 0; c < s->C; c++) {
        double angle = (double)t * pow(10000.0, -(double)(c & ~(size_t)1) / (double)s->C);
        s->embed[t * s->C + c] = (float)(c % 2 ? cos(angle) : sin(angle));
    }
}

enum qkv_status qkv_sinusoid_table(struct qkv_context *ctx, size_t count, size_t C, float *table) {
    QKV_CALL(ctx);
    size_t entries;
    if (!qkv_multiply(count, C, &entries) || entries > (size_t)PTRDIFF_MAX / sizeof(float))
        return qkv_fail(ctx, QKV_SHAPE, "sinusoids: a table of %zu positions and %zu channels cannot be addressed",
                        count, C);
    if (entries && !table) return qkv_fail(ctx, QKV_ARGUMENT, "sinusoids: the table is NULL");
    struct sinusoidal s = {.embed = table, .C = C};
    if (entries) qkv_parallel(ctx, count, sinusoid_row, &s);
    return QKV_OK;
}

enum qkv_status qkv_position_sinusoidal(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    size_t context = fill->context;
    struct sinusoidal s = {.C = fill->C};
    s.embed = qkv_arena_take(fill->arena, context * s.C, sizeof(float));
    if (!s.embed) {
        return QKV_MEMORY;
    }
    qkv_parallel(fill->ctx, context, sinusoid_row, &s);
    tables->embed = s.embed;
    return QKV_OK;
}
