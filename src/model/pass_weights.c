/* The attention weights of a pass, computed when they are asked for.
 *
 * A forward saves the call of every attention with its q, k and log-sum-exp, from which weights can be computed. So
 * this memory grows with T and not with T², and the fused kernel serves such passes as any other. */
#include "model/pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum qkv_status name_attentions(struct qkv_pass *p, const struct qkv_stack *s, size_t at) {
    for (size_t i = 0; s->spec && i < (size_t)s->spec->layers; i++) {
        for (int cross = 0; cross <= (int)s->has_cross; cross++, at++) {
            char name[64];
            if (!qkv_layer_has(s, i, cross ? QKV_SUBLAYER_CROSS : QKV_SUBLAYER_SELF)) continue;
            snprintf(name, sizeof name, "%s.layers.%zu.%s", s->name, i, cross ? "cross" : "attn");
            struct qkv_array *w = &p->attentions[p->attention_count];
            *w = (struct qkv_array){.dtype = QKV_F32, .rank = 4, .name = qkv_copy_string(p->model->ctx, name)};
            const struct qkv_layer_spec *layer = qkv_stack_layer(s->spec, i);
            w->shape[1] = (size_t)(cross ? layer->cross.heads : layer->attention.heads);
            if (!w->name) return QKV_MEMORY;
            p->kept_at[p->attention_count++] = at;
        }
    }
    return QKV_OK;
}

enum qkv_status qkv_pass_prepare_attentions(struct qkv_pass *p) {
    struct qkv_model *m = p->model;
    size_t count = (size_t)m->spec.encoder.layers + 2 * (size_t)m->spec.decoder.layers;
    p->attentions = qkv_allocate(m->ctx, count, sizeof *p->attentions);
    p->kept = qkv_allocate(m->ctx, count, sizeof *p->kept);
    p->kept_at = qkv_allocate(m->ctx, count, sizeof *p->kept_at);
    if (!p->attentions || !p->kept || !p->kept_at) return QKV_MEMORY;
    enum qkv_status status = name_attentions(p, &m->encoder, 0);
    return !status ? name_attentions(p, &m->decoder, (size_t)m->spec.encoder.layers) : status;
}

void qkv_pass_free_attentions(struct qkv_pass *p) {
    for (size_t i = 0; i < p->attention_count; i++) {
        free((void *)(uintptr_t)p->attentions[i].name);
    }
    free(p->attentions);
    free(p->kept_at);
    free(p->kept);
}

void qkv_pass_shape_attentions(struct qkv_pass *p, size_t B, size_t T, size_t source_T) {
    bool both = p->model->decoder.spec && p->model->encoder.spec;
    for (size_t i = 0; i < p->attention_count; i++) {
        struct qkv_array *w = &p->attentions[i];
        bool encoder = strncmp(w->name, "encoder", 7) == 0, cross = strstr(w->name, ".cross") != NULL;
        w->shape[0] = B;
        w->shape[2] = encoder && both ? source_T : T;
        w->shape[3] = cross ? source_T : w->shape[2];
        size_t rows; /* bytes stay SIZE_MAX where no memory could hold all weights at once */
        bool fits = qkv_multiply(B * w->shape[1], w->shape[2], &rows) && qkv_multiply(rows, w->shape[3], &rows) &&
                    qkv_multiply(rows, sizeof(float), &w->bytes);
        if (!fits) {
            w->bytes = SIZE_MAX;
        }
    }
}

enum qkv_status qkv_pass_plan_weights(struct qkv_pass *p) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < p->attention_count && !status; i++) {
        const struct qkv_attend *a = p->kept[p->kept_at[i]];
        status = qkv_attend_weights(p->model->ctx, &p->arena, a, QKV_ATTENTION_WEIGHTS, 0, 0, 0, a->Tq, a->lse);
    }
    return status;
}

static enum qkv_status check_weights(const struct qkv_pass *p, size_t i, size_t b, size_t h, size_t first,
                                     size_t rows) {
    struct qkv_context *ctx = p->model->ctx;
    if (!p->options.weights || !p->looks)
        return qkv_fail(ctx, QKV_ARGUMENT, "attention weights need a forward before them, of a pass made with weights");
    if (i >= p->attention_count)
        return qkv_fail(ctx, QKV_ARGUMENT, "attention %zu does not exist: this model has %zu, counted from 0", i,
                        p->attention_count);
    const struct qkv_array *w = &p->attentions[i];
    if (b >= w->shape[0] || h >= w->shape[1])
        return qkv_fail(ctx, QKV_ARGUMENT, "%s has no head %zu of batch row %zu: there are %zu heads and %zu rows",
                        w->name, h, b, w->shape[1], w->shape[0]);
    if (first > w->shape[2] || rows > w->shape[2] - first)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s has %zu queries; %zu from query %zu on are too many", w->name,
                        w->shape[2], rows, first);
    return QKV_OK;
}

bool qkv_pass_attention(const struct qkv_pass *p, size_t i, struct qkv_array *attention) {
    if (!p || !attention) return false;
    if (i >= p->attention_count) return false;
    *attention = p->attentions[i];
    return true;
}

/* Spreads `there` rows of `keys` numbers to `rows` rows of Tk. */
static void spread_rows(float *out, size_t rows, size_t there, size_t Tk, size_t keys, enum qkv_attention_stage stage) {
    const float nothing = stage == QKV_ATTENTION_SCORES ? -INFINITY : 0;
    for (size_t r = rows; r-- > 0;) {
        if (r < there) memmove(out + r * Tk, out + r * keys, keys * sizeof *out);
        for (size_t k = r < there ? keys : 0; k < Tk; k++) out[r * Tk + k] = nothing;
    }
}

enum qkv_status qkv_pass_weights(struct qkv_pass *p, size_t i, enum qkv_attention_stage stage, size_t b, size_t h,
                                 size_t first, size_t rows, float *out) {
    QKV_CALL(p ? p->model->ctx : NULL);
    QKV_NEED(qkv_call, p);
    QKV_NEED(qkv_call, out);
    enum qkv_status status = check_weights(p, i, b, h, first, rows);
    if (status) return status;
    const struct qkv_attend *a = p->kept[p->kept_at[i]];
    const size_t queries = qkv_attend_queries(a, b), most = queries > first ? queries - first : 0;
    const size_t there = rows < most ? rows : most;
    /* this call checks the stage, even where no row is wanted */
    status = qkv_attend_weights(p->model->ctx, &p->arena, a, stage, b, h, there ? first : 0, there, out);
    if (!status) spread_rows(out, rows, there, p->attentions[i].shape[3], qkv_attend_keys(a, b), stage);
    return status;
}
