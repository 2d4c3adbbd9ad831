/* check_attend_ragged.h: sequences of different lengths in one call of attention, against a call of each. */
#ifndef QKV_CHECK_ATTEND_RAGGED_H
#define QKV_CHECK_ATTEND_RAGGED_H

#include "check_attend.h"

/* A case cut to `queries` and `keys` of each sequence, which lie one after the other without gaps. */
struct ragged_case {
    struct attend_case packed; /* its views are plain: (rows,heads,channels) */
    int32_t *q_start, *k_start;
};

static inline bool ragged_of_queries(size_t which) {
    return which == ATTEND_Q || which == ATTEND_Y || which == ATTEND_DY || which == ATTEND_DQ;
}

/* Cumulative lengths of B sequences of 0 to `most`, all of them `most` where `equal`. */
static inline int32_t *ragged_start(struct qkv_random *random, size_t B, size_t most, bool equal) {
    int32_t *start = attend_memory(B + 1, sizeof *start);
    for (size_t b = 0; b < B; b++) {
        size_t n = equal || attend_chance(random, 0.2) ? most : attend_uniform(random, 0, most);
        if (!equal && attend_chance(random, 0.1)) n = 0;
        start[b + 1] = start[b] + (int32_t)n;
    }
    return start;
}

/* The rows of a tensor that the sequences have, side by side. */
static inline void ragged_pack(struct ragged_case *r, struct attend_case *c, size_t which) {
    const struct qkv_heads *from = attend_tensor(c, which);
    const struct attend_shape s = attend_shape_of(&c->a, which);
    const int32_t *start = ragged_of_queries(which) ? r->q_start : r->k_start;
    const size_t row = s.heads * s.channels;
    struct qkv_heads x = {NULL, SIZE_MAX / 64, row, s.channels, from->dtype};
    x.data = r->packed.buffer[which] = attend_memory((size_t)start[c->a.B] * row, qkv_type_size(x.dtype));
    for (size_t b = 0; b < c->a.B; b++)
        for (size_t i = 0; i < (size_t)(start[b + 1] - start[b]); i++)
            for (size_t e = 0; e < row; e++)
                attend_set(&x, 0, (size_t)start[b] + i, e / s.channels, e % s.channels,
                           attend_get(from, b, i, e / s.channels, e % s.channels));
    *attend_tensor(&r->packed, which) = x;
}

/* The gradient of lse of the rows that the sequences have: H blocks of each. */
static inline void ragged_pack_dlse(struct ragged_case *r, const struct attend_case *c) {
    if (!c->dlse) return;
    const size_t H = c->a.H, Tq = c->a.Tq;
    float *to = attend_memory((size_t)r->q_start[c->a.B] * H, sizeof *to);
    r->packed.g.dlse = r->packed.dlse = to;
    for (size_t b = 0; b < c->a.B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < (size_t)(r->q_start[b + 1] - r->q_start[b]); i++)
                *to++ = c->dlse[(b * H + h) * Tq + i];
}

static inline bool ragged_is_past(size_t which) {
    return which == ATTEND_PAST_K || which == ATTEND_PAST_V || which == ATTEND_DPAST_K || which == ATTEND_DPAST_V;
}

/* Packs the sequences of `c`, which has no past. The arrays of pairs stay those of `c`, except for the gradient of
 * the bias. */
static inline void ragged_make(struct ragged_case *r, struct attend_case *c, struct qkv_random *random, bool equal) {
    struct qkv_attend *a = &r->packed.a;
    *r = (struct ragged_case){.packed = *c};
    memset(r->packed.buffer, 0, sizeof r->packed.buffer);
    r->q_start = ragged_start(random, c->a.B, c->a.Tq, equal);
    r->k_start = ragged_start(random, c->a.B, c->a.Tk, equal);
    for (size_t which = 0; which < ATTEND_TENSORS; which++)
        if (!ragged_is_past(which)) ragged_pack(r, c, which);
    const size_t rows = (size_t)r->q_start[c->a.B];
    int32_t *lo = attend_memory(rows, sizeof *lo), *hi = attend_memory(rows, sizeof *hi),
            *position = attend_memory(rows, sizeof *position);
    for (size_t b = 0, at = 0; b < c->a.B; b++)
        for (size_t i = 0; i < (size_t)(r->q_start[b + 1] - r->q_start[b]); i++, at++) {
            const size_t from = b * c->a.Tq + i;
            lo[at] = c->a.lo[from], hi[at] = c->a.hi[from], position[at] = c->position[from];
        }
    a->lo = r->packed.lo = lo, a->hi = r->packed.hi = hi, r->packed.position = position;
    if (a->position) a->position = position;
    a->lse = r->packed.lse = attend_memory(rows * a->H, sizeof(float));
    ragged_pack_dlse(r, c);
    if (c->g.dattention_bias) {
        r->packed.g.dattention_bias = attend_memory(c->addend_floats, sizeof(float));
        memcpy(r->packed.g.dattention_bias, c->g.dattention_bias, c->addend_floats * sizeof(float));
    }
    a->q_start = r->q_start, a->k_start = r->k_start;
    if (c->g.ddistance_bias)
        r->packed.g.ddistance_bias = attend_memory(c->a.B * c->a.H * a->distance_bias.row, sizeof(float));
    if (c->g.dsinks) r->packed.g.dsinks = attend_memory(c->a.B * c->a.H, sizeof(float));
}

static inline void ragged_free(struct ragged_case *r) {
    for (size_t which = 0; which < ATTEND_TENSORS; which++) guard_page_free(r->packed.buffer[which]);
    guard_page_free(r->packed.lo), guard_page_free(r->packed.hi), guard_page_free(r->packed.position);
    if (r->packed.dlse) guard_page_free(r->packed.dlse);
    guard_page_free(r->packed.lse), guard_page_free(r->packed.g.dattention_bias);
    guard_page_free(r->packed.g.ddistance_bias), guard_page_free(r->packed.g.dsinks);
    guard_page_free(r->q_start), guard_page_free(r->k_start);
}

/* Sequence b of a ragged case as a rectangular call of its own on the same inputs; outputs and lse are new. */
static inline void ragged_alone(const struct ragged_case *r, size_t b, struct attend_case *alone) {
    struct qkv_attend *a = &alone->a;
    *alone = r->packed;
    memset(alone->buffer, 0, sizeof alone->buffer);
    a->B = 1, a->q_start = a->k_start = NULL;
    a->Tq = (size_t)(r->q_start[b + 1] - r->q_start[b]), a->Tk = (size_t)(r->k_start[b + 1] - r->k_start[b]);
    for (size_t which = 0; which < ATTEND_TENSORS; which++) {
        struct qkv_heads *x = attend_tensor(alone, which);
        const struct attend_shape s = attend_shape_of(a, which);
        const int32_t *start = ragged_of_queries(which) ? r->q_start : r->k_start;
        if (ragged_is_past(which)) continue;
        if (which < ATTEND_Y) {
            x->data = attend_place(x, 0, (size_t)start[b], 0, 0);
            continue;
        }
        x->data = alone->buffer[which] = attend_memory(s.T * s.heads * s.channels, qkv_type_size(x->dtype));
        for (size_t e = 0; e < s.T * s.heads * s.channels; e++)
            attend_set(x, 0, e / s.channels / s.heads, e / s.channels % s.heads, e % s.channels, 7);
    }
    a->lo += r->q_start[b], a->hi += r->q_start[b];
    if (a->position) a->position += r->q_start[b];
    if (a->mask) a->mask += b * a->mask_strides.batch_stride;
    if (a->attention_bias) a->attention_bias += b * a->attention_bias_strides.batch_stride;
    struct qkv_pairs *pairs[] = {&a->mask_strides, &a->attention_bias_strides};
    for (size_t n = 0; n < 2; n++) {
        const size_t there = r->packed.a.Tk - pairs[n]->missing;
        pairs[n]->missing = a->Tk > there ? a->Tk - there : 0;
    }
    alone->g.dattention_bias = NULL;
    if (alone->g.ddistance_bias) alone->g.ddistance_bias = attend_memory(a->H * a->distance_bias.row, sizeof(float));
    if (alone->g.dsinks) alone->g.dsinks = attend_memory(a->H, sizeof(float));
    if (alone->g.dlse) alone->g.dlse += (size_t)r->q_start[b] * a->H;
    a->lse = alone->lse = attend_memory(a->H * a->Tq, sizeof(float));
}

/* Whether the outputs of sequence b in the ragged call are those of `alone`. */
static inline bool ragged_equal(struct ragged_case *r, size_t b, struct attend_case *alone) {
    static const size_t outputs[] = {ATTEND_Y, ATTEND_DQ, ATTEND_DK, ATTEND_DV};
    for (size_t o = 0; o < 4; o++) {
        const struct qkv_heads *got = attend_tensor(&r->packed, outputs[o]),
                               *expected = attend_tensor(alone, outputs[o]);
        const struct attend_shape s = attend_shape_of(&alone->a, outputs[o]);
        const int32_t *start = ragged_of_queries(outputs[o]) ? r->q_start : r->k_start;
        const size_t bytes = s.T * s.heads * s.channels * qkv_type_size(got->dtype);
        if (memcmp(attend_place(got, 0, (size_t)start[b], 0, 0), expected->data, bytes)) {
            printf("tensor %zu of sequence %zu, (%zu,%zu), differs from a call of its own\n", outputs[o], b,
                   alone->a.Tq, alone->a.Tk);
            return false;
        }
    }
    const size_t H = alone->a.H, distances = H * alone->a.distance_bias.row;
    const struct qkv_attend_gradients *all = &r->packed.g, *own = &alone->g;
    if ((own->ddistance_bias &&
         memcmp(all->ddistance_bias + b * distances, own->ddistance_bias, distances * sizeof(float))) ||
        (own->dsinks && memcmp(all->dsinks + b * H, own->dsinks, H * sizeof(float)))) {
        printf("distances or sinks of sequence %zu differ from a call of its own\n", b);
        return false;
    }
    return !memcmp(r->packed.lse + (size_t)r->q_start[b] * H, alone->lse, H * alone->a.Tq * sizeof(float));
}

/* Sequences of random lengths, 0 too, have the same bits as in calls of their own, forward and backward. The longest
 * sequence decides which bf16 products run, so sequences too short for them are left out. */
static inline bool ragged_check_alone(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    bool good = true;
    for (size_t n = 0; good && n < cases; n++) {
        struct qkv_random random = qkv_random_start(seed, n);
        struct attend_case c, alone;
        struct ragged_case r;
        attend_case_random(&c, &random, true);
        if (c.a.past) {
            attend_case_free(&c);
            continue;
        }
        c.a.dropout = 0; /* its mask is numbered by the whole call */
        ragged_make(&r, &c, &random, false);
        good = attend_run(ctx, &r.packed, true);
        const size_t group = c.a.H / c.a.Hkv;
        for (size_t b = 0; good && b < c.a.B; b++) {
            ragged_alone(&r, b, &alone);
            const bool few = alone.a.Tq * group < 16 || !alone.a.Tk, most_few = c.a.Tq * group < 16;
            if (ctx->precision == QKV_FP32 || few == most_few)
                good = attend_run(ctx, &alone, true) && ragged_equal(&r, b, &alone);
            for (size_t which = ATTEND_Y; which < ATTEND_TENSORS; which++) guard_page_free(alone.buffer[which]);
            guard_page_free(alone.lse), guard_page_free(alone.g.ddistance_bias), guard_page_free(alone.g.dsinks);
        }
        if (!good)
            printf("%s: %s\n  in random case %zu of seed %llu\n", ctx->kernels->isa, c.text, n,
                   (unsigned long long)seed);
        ragged_free(&r);
        attend_case_free(&c);
    }
    return good;
}

/* Sequences of one length, given by their starts, have the same bits as in the rectangular call, for all outputs
 * together and with dropout. */
static inline bool ragged_check_equal(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    bool good = true;
    for (size_t n = 0; good && n < cases; n++) {
        struct qkv_random random = qkv_random_start(seed, n);
        struct attend_case c;
        struct ragged_case r;
        size_t floats, again;
        attend_case_random(&c, &random, true);
        if (c.a.past) {
            attend_case_free(&c);
            continue;
        }
        ragged_make(&r, &c, &random, true);
        good = attend_run(ctx, &c, true) && attend_run(ctx, &r.packed, true);
        for (size_t which = 0; which < ATTEND_TENSORS; which++) { /* to be read as a rectangle */
            const struct attend_shape s = attend_shape_of(&c.a, which);
            attend_tensor(&r.packed, which)->batch_stride = s.T * s.heads * s.channels;
        }
        float *rectangle = attend_outputs(&c, &floats), *ragged = attend_outputs(&r.packed, &again);
        good = good && floats == again && attend_same(rectangle, ragged, floats);
        if (!good)
            printf("%s: %s: other bits with starts, in random case %zu of seed %llu\n", ctx->kernels->isa, c.text, n,
                   (unsigned long long)seed);
        guard_page_free(rectangle), guard_page_free(ragged);
        ragged_free(&r);
        attend_case_free(&c);
    }
    return good;
}

/* The rectangle masked as the sequences of `r` are long; rows past them meet no key. */
static inline void ragged_pad(const struct ragged_case *r, struct attend_case *c) {
    for (size_t at = 0; at < c->a.B * c->a.Tq; at++) {
        const size_t b = at / c->a.Tq, i = at % c->a.Tq;
        const int32_t keys = r->k_start[b + 1] - r->k_start[b];
        if (c->hi[at] > keys) c->hi[at] = keys;
        if (i >= (size_t)(r->q_start[b + 1] - r->q_start[b])) c->hi[at] = c->lo[at] = 0;
    }
}

/* Rows of the sequences have the same numbers in both. */
static inline bool ragged_equal_padded(struct ragged_case *r, struct attend_case *c, size_t which) {
    const struct attend_shape s = attend_shape_of(&c->a, which);
    const int32_t *start = ragged_of_queries(which) ? r->q_start : r->k_start;
    for (size_t b = 0; b < c->a.B; b++)
        for (size_t i = 0; i < (size_t)(start[b + 1] - start[b]); i++)
            for (size_t e = 0; e < s.heads * s.channels; e++) {
                const size_t h = e / s.channels, d = e % s.channels;
                const float got = attend_get(attend_tensor(&r->packed, which), 0, (size_t)start[b] + i, h, d);
                const float expected = attend_get(attend_tensor(c, which), b, i, h, d);
                if (attend_same(&got, &expected, 1)) continue;
                printf("tensor %zu, sequence %zu, row %zu: %g, but %g with padding\n", which, b, i, (double)got,
                       (double)expected);
                return false;
            }
    return true;
}

/* Sequences of random lengths give, in fp32, what the call padded to the longest gives, with dropout, and with the
 * gradient of a shared bias. */
static inline bool ragged_check_padded(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    static const size_t outputs[] = {ATTEND_Y, ATTEND_DQ, ATTEND_DK, ATTEND_DV};
    bool good = true;
    for (size_t n = 0; good && n < cases; n++) {
        struct qkv_random random = qkv_random_start(seed, n);
        struct attend_case c;
        struct ragged_case r;
        attend_case_random(&c, &random, true);
        if (c.a.past) {
            attend_case_free(&c);
            continue;
        }
        ragged_make(&r, &c, &random, false);
        ragged_pad(&r, &c);
        good = attend_run(ctx, &c, true) && attend_run(ctx, &r.packed, true);
        for (size_t o = 0; good && o < 4; o++) good = ragged_equal_padded(&r, &c, outputs[o]);
        for (size_t e = 0; good && c.g.dattention_bias && e < c.addend_floats; e++)
            good = attend_same(&c.g.dattention_bias[e], &r.packed.g.dattention_bias[e], 1);
        if (!good)
            printf("%s: %s: not as padded, in random case %zu of seed %llu\n", ctx->kernels->isa, c.text, n,
                   (unsigned long long)seed);
        ragged_free(&r);
        attend_case_free(&c);
    }
    return good;
}

#endif
