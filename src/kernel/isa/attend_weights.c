/* attend_weights.c: rows of products, scores or softmax weights exp(score − lse), for a caller that looks at them; and
 * the factors with which the weights of rows with a large log-sum-exp sum to 1.
 *
 * If the forward call multiplies numbers rounded to bf16 (rounds_dy of the plan), so do these scores. Its exponentials
 * have a lower precision (exp_coarse) and its sums of products another order, so here every row is divided by its own
 * sum. */
#include "kernel/isa/attend_score.h"

enum { KEYS = 64 };
_Static_assert(QKV_ATTEND_BLOCK % KEYS == 0, "no block of keys crosses a page");

size_t QKV_K(attend_weights_scratch)(const struct qkv_attend_plan *plan) {
    size_t line = QKV_CACHE_LINE / sizeof(float);
    return padded(plan->block * plan->a->D, line) + 2 * KEYS * plan->a->D + KEYS;
}

/* Turns the products of one row in a block of keys into the requested stage; writes them to `to`, which has `keys`
 * elements. */
static void row_out(const struct qkv_attend *a, enum qkv_attention_stage stage, const struct row *row, size_t key,
                    struct span span, const float *x, float *to, size_t keys) {
    const vf never = vf_set(-INFINITY), outside = stage == QKV_ATTENTION_SCORES ? never : vf_zero();
    const vf lse = vf_set(stage == QKV_ATTENTION_WEIGHTS ? a->lse[row->at] : 0.0f);
    for (size_t j = 0; j < keys; j += W) {
        vf out = outside;
        if (j < span.end && j + W > span.begin) {
            vf s = vf_load(x + j);
            if (stage == QKV_ATTENTION_PRODUCTS)
                s = vf_mul(s, vf_set(a->scale));
            else if (stage == QKV_ATTENTION_CAPPED)
                s = capped(a, s, NULL);
            else
                s = score(a, row, key, j, span, s, NULL);
            if (stage == QKV_ATTENTION_WEIGHTS) s = vf_select(vf_eq(s, never), vf_zero(), weight(s, lse));
            out = vf_select(lanes_inside(span, j), s, outside);
        }
        store_row(to + j, out, keys - j);
    }
}

static void round_floats(float *x, size_t n) {
    for (size_t c = 0; c < n; c += W) store_row(x + c, rounded(load_row(x + c, n - c)), n - c);
}

/* The keys of a row that have a number in this stage. */
static struct row row_seen(const struct qkv_attend_plan *plan, size_t i) {
    const struct qkv_attend *a = plan->a;
    struct row row = row_of(a, plan->batch, plan->head, i);
    if (plan->stage == QKV_ATTENTION_PRODUCTS || plan->stage == QKV_ATTENTION_CAPPED) row.lo = 0, row.hi = a->Tk;
    if (plan->stage == QKV_ATTENTION_WEIGHTS && a->lse[row.at] == -INFINITY) row.lo = row.hi = 0;
    return row;
}

/* Rows [first, first + count) of one head with all keys: out (count,Tk), or NULL to compute their sums only. */
static void walk(const struct qkv_attend_plan *plan, size_t first, size_t count, float *out, float *sums,
                 float *scratch) {
    const struct qkv_attend *a = plan->a;
    float *q = scratch, *k = q + padded(plan->block * a->D, QKV_CACHE_LINE / sizeof(float));
    float *s = k + KEYS * a->D, *staging = s + KEYS, here[KEYS];
    const struct stream stream = keys_of(plan, plan->batch, plan->head / plan->group);
    struct row rows[QKV_ATTEND_ROWS];
    struct span spans[QKV_ATTEND_ROWS];
    for (size_t r = 0; r < count; r++) {
        rows[r] = row_seen(plan, first + r);
        sums[r] = plan->stage == QKV_ATTENTION_WEIGHTS ? sink_weight(a, plan->head, a->lse[rows[r].at]) : 0;
        read_cells(q + r * a->D, cells_at(&a->q, rows[r].b, rows[r].i, rows[r].h), a->D);
        if (plan->rounds_dy) round_floats(q + r * a->D, a->D);
    }
    for (size_t key = 0; key < a->Tk; key += KEYS) {
        size_t keys = a->Tk - key < KEYS ? a->Tk - key : KEYS;
        struct span all = spans_of(rows, count, key, keys, spans);
        if (all.end)
            pack_panels(k, block_of(&stream, key + all.begin, all.end - all.begin, staging), all.begin, all.end, a->D,
                        (struct soon){0});
        const size_t panel = all.begin / PANEL * PANEL;
        if (all.end && plan->rounds_dy) round_floats(k + panel * a->D, (padded(all.end, PANEL) - panel) * a->D);
        for (size_t r = 0; r < count; r++) {
            for (size_t j = spans[r].begin / PANEL * PANEL; j < spans[r].end; j += PANEL)
                QKV_K(attend_tiles)(1, PANEL, FRESH, s + j, KEYS, NULL, q + r * a->D, 0, 1, k + j * a->D, PANEL, a->D);
            float *to = out ? out + r * a->Tk + key : here, sum = 0;
            row_out(a, plan->stage, &rows[r], key, spans[r], s, to, keys);
            for (size_t j = spans[r].begin; j < spans[r].end; j++) sum += to[j];
            sums[r] += sum;
        }
    }
}

void QKV_K(attend_weights)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct qkv_attend *a = plan->a;
    size_t r0 = item * plan->block, count = plan->count - r0 < plan->block ? plan->count - r0 : plan->block;
    float sums[QKV_ATTEND_ROWS], *out = plan->weights + r0 * a->Tk;
    walk(plan, plan->first + r0, count, out, sums, scratch);
    for (size_t r = 0; plan->stage == QKV_ATTENTION_WEIGHTS && r < count; r++) {
        const float lse = a->lse[(plan->batch * a->H + plan->head) * a->Tq + plan->first + r0 + r];
        if (!(plan->rounds_dy ? sums[r] > 0 : coarse(lse))) continue;
        for (size_t j = 0; j < a->Tk; j++) out[r * a->Tk + j] /= sums[r];
    }
}

void QKV_K(attend_norm)(const struct qkv_attend_plan *whole, size_t item, float *scratch) {
    const struct qkv_attend *a = whole->a;
    struct qkv_attend_plan plan = *whole;
    float sums[QKV_ATTEND_ROWS];
    size_t pair = item / plan.blocks, r0 = item % plan.blocks * plan.block;
    size_t count = a->Tq - r0 < plan.block ? a->Tq - r0 : plan.block, at = pair * a->Tq + r0;
    bool any = false;
    plan.batch = pair / a->H, plan.head = pair % a->H;
    for (size_t r = 0; r < count; r++) any = any || coarse(a->lse[at + r]);
    if (any) walk(&plan, r0, count, NULL, sums, scratch);
    for (size_t r = 0; r < count; r++) plan.norm[at + r] = any && coarse(a->lse[at + r]) ? 1 / sums[r] : 1.0f;
}
