/* Sinusoidal positions (Vaswani et al. 2017, section 3.5): embed[t][2j] = sin(t / 10000^(2j/C)), embed[t][2j + 1] =
 * cos(…); and other layouts, with all sines before all cosines (QKV_SINUSOID_LIST). With an odd C, interleaved and
 * halves have one more sine than cosines and spaced ends with a zero, as in the implementations that they come from. */
#include "base/math.h"
#include "model/model.h"

struct sinusoidal {
    size_t C, first; /* the position of the first row */
    enum qkv_sinusoid layout;
    double *frequencies; /* (C - C/2): the j-th angle at position t is t·frequencies[j] */
};

static enum qkv_status sinusoid_frequencies(struct qkv_context *ctx, struct sinusoidal *s) {
    const size_t count = s->C - s->C / 2;
    s->frequencies = qkv_allocate(ctx, count, sizeof *s->frequencies);
    if (!s->frequencies) return QKV_MEMORY;
    for (size_t j = 0; j < count; j++) {
        const double exponent =
            s->layout == QKV_SINUSOID_SPACED ? (double)j / (double)(s->C / 2 - 1) : (double)(2 * j) / (double)s->C;
        s->frequencies[j] = qkv_pow(10000.0, -exponent);
    }
    return QKV_OK;
}

static void sinusoid_row(const void *of, size_t t, void *out) {
    const struct sinusoidal *s = of;
    const bool spaced = s->layout == QKV_SINUSOID_SPACED, interleaved = s->layout == QKV_SINUSOID_INTERLEAVED;
    const size_t sines = spaced ? s->C / 2 : s->C - s->C / 2;
    float *row = out;
    for (size_t c = 0; c < s->C; c++) {
        const bool cosine = interleaved ? c % 2 : c >= sines;
        if (c >= 2 * sines) {
            row[c] = 0;
            continue;
        }
        const double angle = (double)(s->first + t) * s->frequencies[interleaved ? c / 2 : cosine ? c - sines : c];
        row[c] = (float)(cosine ? qkv_cos(angle) : qkv_sin(angle));
    }
}

enum qkv_status qkv_sinusoid_table(struct qkv_context *ctx, size_t count, size_t C, float *table) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    size_t entries;
    if (!qkv_multiply(count, C, &entries) || entries > (size_t)PTRDIFF_MAX / sizeof(float))
        return qkv_fail(ctx, QKV_SHAPE, "sinusoids: a table of %zu positions and %zu channels cannot be addressed",
                        count, C);
    if (entries && !table) return qkv_fail(ctx, QKV_ARGUMENT, "sinusoids: the table is NULL");
    struct sinusoidal s = {.C = C};
    if (!entries) return QKV_OK;
    enum qkv_status status = sinusoid_frequencies(ctx, &s);
    if (status) return status;
    qkv_table_fill(ctx, table, count, C * sizeof *table, sinusoid_row, &s);
    qkv_free(s.frequencies);
    return QKV_OK;
}

enum qkv_status qkv_position_sinusoidal(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    struct sinusoidal s = {.C = fill->C, .first = (size_t)fill->embed->offset, .layout = fill->embed->layout};
    enum qkv_status status = sinusoid_frequencies(fill->ctx, &s);
    if (status) return status;
    tables->embed =
        qkv_table_make(fill->ctx, fill->arena, fill->context, fill->C * sizeof *tables->embed, sinusoid_row, &s);
    qkv_free(s.frequencies);
    return tables->embed ? QKV_OK : QKV_MEMORY;
}
