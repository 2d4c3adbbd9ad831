/* attention_packed_case.h: random calls of attention on packed sequences, with all options. */
#ifndef QKV_ATTENTION_PACKED_CASE_H
#define QKV_ATTENTION_PACKED_CASE_H

#include "attention_case.h"

enum { MOST = 6 }; /* sequences */

struct packed {
    struct attention_case c; /* the call, its gradients, and all memory */
    int32_t cu_q[MOST + 1], cu_k[MOST + 1];
    size_t B, H, Hkv, D, Dv, Tq, Tk; /* Tq and Tk: the maximum over the sequences */
    size_t pairs;                    /* floats of the bias */
};

/* `equal`: as many queries for each; now and then so many keys that their gradients are summed in several runs. */
static inline void packed_lengths(struct packed *p, struct qkv_random *r, bool equal) {
    size_t most_q = case_chance(r, 0.2) ? 80 : 12, most_k = case_chance(r, 0.2) ? 150 : 20;
    if (case_chance(r, 0.1)) most_q = 4, most_k = 1600;
    const size_t all = test_between(r, 1, most_q);
    for (size_t b = 0; b < p->B; b++) {
        const size_t queries = equal ? all : case_chance(r, 0.1) ? 0 : test_between(r, 1, most_q);
        const size_t keys = case_chance(r, 0.1) ? 0 : test_between(r, 1, most_k);
        p->cu_q[b + 1] = p->cu_q[b] + (int32_t)queries, p->cu_k[b + 1] = p->cu_k[b] + (int32_t)keys;
        if (queries > p->Tq) p->Tq = queries;
        if (keys > p->Tk) p->Tk = keys;
    }
}

/* From 0 to the keys of each sequence. */
static inline int32_t *packed_counts(struct packed *p, struct qkv_random *r) {
    int32_t *x = case_memory(&p->c, p->B * sizeof *x);
    for (size_t b = 0; b < p->B; b++) x[b] = (int32_t)test_between(r, 0, (size_t)(p->cu_k[b + 1] - p->cu_k[b]));
    return x;
}

static inline void packed_mask(struct packed *p, struct qkv_random *r) {
    struct qkv_mask *m = &p->c.call.mask;
    m->B = p->B, m->cu_q = p->cu_q, m->cu_k = p->cu_k;
    m->causal = case_chance(r, 0.6);
    if (case_chance(r, 0.2)) m->offset = (int64_t)test_between(r, 0, 6) - 3;
    if (case_chance(r, 0.5)) {
        int32_t *last = case_memory(&p->c, p->B * sizeof *last);
        for (size_t b = 0; b < p->B; b++)
            last[b] = p->cu_k[b + 1] - p->cu_k[b] - (p->cu_q[b + 1] - p->cu_q[b]) + (int32_t)test_between(r, 0, 1);
        m->offsets = last;
    }
    if (case_chance(r, 0.2)) m->window = (int64_t)test_between(r, 1, 12);
    if (case_chance(r, 0.2)) {
        m->sides = true;
        m->left = (int64_t)test_between(r, 0, 12) - 1, m->right = (int64_t)test_between(r, 0, 12) - 1;
    }
    if (case_chance(r, 0.2)) m->lengths = packed_counts(p, r);
    if (case_chance(r, 0.2)) m->starts = packed_counts(p, r);
    if (m->causal && case_chance(r, 0.3)) m->prefix = packed_counts(p, r);
}

/* (B or 1,H or 1,Tq or 1,Tk or fewer), its strides written out. */
static inline struct qkv_pair_shape packed_pairs(const struct packed *p, struct qkv_random *r, bool batch) {
    struct qkv_pair_shape s = {.B = batch || case_chance(r, 0.5) ? p->B : 1};
    s.H = case_chance(r, 0.5) ? p->H : 1, s.Tq = case_chance(r, 0.7) ? p->Tq : 1;
    s.Tk = case_chance(r, 0.8) ? p->Tk : test_between(r, 0, p->Tk);
    s.row = s.Tk + 1, s.head = s.row * s.Tq + 1, s.batch = s.head * s.H + 1;
    return s;
}

static inline void packed_options(struct packed *p, struct qkv_random *r) {
    struct qkv_attention_call *call = &p->c.call;
    call->scale = case_chance(r, 0.3) ? 0.3 : 0, call->softcap = case_chance(r, 0.3) ? 1.5 : 0;
    if (case_chance(r, 0.3)) {
        const struct qkv_pair_shape s = packed_pairs(p, r, false);
        uint8_t *dense = case_memory(&p->c, s.batch * s.B);
        for (size_t e = 0; e < s.batch * s.B; e++) dense[e] = case_chance(r, 0.7);
        call->dense = dense, call->dense_shape = s;
    }
    if (case_chance(r, 0.3)) {
        const struct qkv_pair_shape s = packed_pairs(p, r, true);
        float *bias = case_memory(&p->c, (p->pairs = s.batch * s.B) * sizeof(float));
        for (size_t e = 0; e < p->pairs; e++) bias[e] = case_chance(r, 0.1) ? -INFINITY : (float)qkv_random_normal(r);
        call->bias = bias, call->bias_shape = s;
        p->c.g.dbias = case_memory(&p->c, p->pairs * sizeof(float));
    }
    if (case_chance(r, 0.3)) {
        float *slopes = case_memory(&p->c, p->H * sizeof(float));
        for (size_t h = 0; h < p->H; h++) slopes[h] = (float)qkv_random_normal(r) / 10;
        call->alibi = slopes;
    }
    if (case_chance(r, 0.3)) {
        const size_t rows = (size_t)p->cu_q[p->B] * p->H;
        float *dlse = case_memory(&p->c, rows * sizeof(float));
        for (size_t e = 0; e < rows; e++) dlse[e] = (float)qkv_random_normal(r);
        p->c.g.dlse = dlse;
    }
}

/* plain: fp32 only; equal: as many queries for each sequence. */
static inline void packed_random(struct packed *p, struct qkv_random *r, bool plain, bool equal) {
    *p = (struct packed){.B = test_between(r, 0, MOST), .Hkv = test_between(r, 1, 2)};
    struct qkv_attention_call *call = &p->c.call;
    struct qkv_attention_gradients *g = &p->c.g;
    p->H = p->Hkv * test_between(r, 1, 3);
    p->D = test_between(r, 1, 40), p->Dv = case_chance(r, 0.5) ? p->D : test_between(r, 1, 40);
    packed_lengths(p, r, equal);
    const size_t rows = (size_t)p->cu_q[p->B], keys = (size_t)p->cu_k[p->B];
    struct qkv_view *of_rows[] = {&call->q, &g->dq, &call->y, &g->dy},
                    *of_keys[] = {&call->k, &g->dk, &call->v, &g->dv};
    for (size_t i = 0; i < 4; i++) {
        *of_rows[i] = case_view(&p->c, r, 1, p->H, rows, i < 2 ? p->D : p->Dv, plain);
        *of_keys[i] = case_view(&p->c, r, 1, p->Hkv, keys, i < 2 ? p->D : p->Dv, plain);
    }
    const struct qkv_view *inputs[] = {&call->q, &call->k, &call->v, &g->dy};
    for (size_t i = 0; i < 4; i++)
        for (size_t e = 0; e < formula_elements(inputs[i]); e++) formula_set(inputs[i], e, qkv_random_normal(r));
    call->lse = case_memory(&p->c, rows * p->H * sizeof(float));
    packed_mask(p, r);
    packed_options(p, r);
    snprintf(p->c.text, sizeof p->c.text, "B %zu H %zu Hkv %zu D %zu Dv %zu rows %zu keys %zu causal %d%s%s%s%s%s%s",
             p->B, p->H, p->Hkv, p->D, p->Dv, rows, keys, call->mask.causal, call->mask.offsets ? " offsets" : "",
             call->dense ? " dense" : "", call->bias ? " bias" : "", call->alibi ? " alibi" : "",
             g->dlse ? " dlse" : "", p->c.half ? " halves" : "");
}

static inline void packed_free(struct packed *p) {
    for (size_t i = 0; i < p->c.block_count; i++) free(p->c.blocks[i]);
}

#endif
