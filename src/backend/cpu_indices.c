/* cpu_indices: steps that compute indices: positions, rows, intervals of keys. */
#include "attention/attention.h"
#include "backend/backends.h"

enum qkv_status qkv_cpu_positions(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_positions *p = call;
    (void)ctx;
    for (size_t n = 0; n < p->count; n++) {
        const size_t m = p->numbers ? (size_t)p->numbers[n] : n;
        p->out[n] = (int32_t)(p->first + m % p->period + m / p->period * p->jump);
    }
    return QKV_OK;
}

enum qkv_status qkv_cpu_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_rows *r = call;
    (void)ctx;
    size_t n = 0;
    for (size_t b = 0; b < r->B; b++) {
        r->start[b] = (int32_t)n;
        const int32_t *documents = r->documents ? r->documents + b * r->T : NULL;
        for (size_t t = 0, first = 0; t < (r->lengths ? (size_t)r->lengths[b] : r->T); t++, n++) {
            if (documents && t && documents[t] != documents[t - 1]) first = t;
            r->place[n] = (int32_t)(b * r->T + t), r->position[n] = (int32_t)(t - first);
        }
    }
    r->start[r->B] = (int32_t)n;
    return QKV_OK;
}

enum qkv_status qkv_cpu_pick(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_pick *p = call;
    (void)ctx;
    for (size_t n = 0; n < p->count; n++) p->out[n] = p->values[p->index[n]];
    return QKV_OK;
}

enum qkv_status qkv_cpu_repeat(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_repeat *r = call;
    (void)ctx;
    for (size_t b = 0; b < r->B; b++) {
        const size_t begin = r->start ? (size_t)r->start[b] : b * r->T;
        const size_t end = r->start ? (size_t)r->start[b + 1] : begin + r->T;
        for (size_t n = begin; n < end; n++) r->out[n] = r->values[b] < r->min ? r->min : r->values[b];
    }
    return QKV_OK;
}

enum qkv_status qkv_cpu_last_positions(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_last_positions *p = call;
    (void)ctx;
    for (size_t b = 0; b < p->B; b++)
        for (int32_t n = p->start[b]; n < p->start[b + 1]; n++) p->out[n] = p->lengths[b] - (p->start[b + 1] - n);
    return QKV_OK;
}

enum qkv_status qkv_cpu_differences(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_differences *d = call;
    (void)ctx;
    for (size_t n = 0; n < d->count; n++) d->out[n] = d->values[n + 1] - d->values[n];
    return QKV_OK;
}

enum qkv_status qkv_cpu_starts(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_starts *s = call;
    (void)ctx;
    for (size_t b = 0; b < s->count; b++) s->out[b] = s->start ? (size_t)s->start[b] : b * s->each;
    return QKV_OK;
}

enum qkv_status qkv_cpu_chosen_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_chosen_rows *c = call;
    (void)ctx;
    size_t b = 0;
    for (size_t i = 0; i < c->count; i++) {
        const size_t n = c->places[i];
        c->index[i] = (int32_t)(c->T ? (size_t)c->rows_start[n / c->T] + n % c->T : n);
        for (; b <= c->B && c->rows_start[b] <= c->index[i]; b++) c->start[b] = (int32_t)i;
    }
    for (; b <= c->B; b++) c->start[b] = (int32_t)c->count;
    return QKV_OK;
}

enum qkv_status qkv_cpu_ignore_padding(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_ignore_padding *p = call;
    (void)ctx;
    for (size_t n = 0; n < p->B * p->T; n++)
        p->out[n] = (int64_t)(n % p->T) >= p->lengths[n / p->T] ? QKV_IGNORE : p->targets[n];
    return QKV_OK;
}

enum qkv_status qkv_cpu_frame_starts(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_frame_starts *f = call;
    (void)ctx;
    for (size_t b = 0; b <= f->B; b++) f->start[b] = (int32_t)(f->stride * (size_t)f->rows_start[b]);
    for (size_t b = 0; b < f->B; b++)
        f->count[b] = (int32_t)qkv_min((size_t)(f->start[b + 1] - f->start[b]), f->frames);
    return QKV_OK;
}

enum qkv_status qkv_cpu_intervals(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_intervals *i = call;
    const struct qkv_mask *mask = i->mask;
    const enum qkv_status status = qkv_mask_check(ctx, mask);
    for (size_t n = 0; n < i->N && !status; n++) {
        const size_t place = i->place ? (size_t)i->place[n] : n;
        qkv_mask_keys(mask, i->chunk, place / mask->Tq, place % mask->Tq, &i->lo[n], &i->hi[n]);
    }
    return status;
}
