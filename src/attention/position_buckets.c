/* Buckets of distances (Raffel et al. 2020): the bias of a head depends on the bucket of a key's distance j − i. Half
 * of the buckets hold one distance each, the others parts of a logarithmic scale that ends at max_distance. If
 * attention is not causal, half of all buckets are for keys after the query. The logarithm is fp32 and truncated, as in
 * published models. */
#include "attention/attention.h"
#include "base/math.h"

struct buckets {
    size_t zero;
    int count, max_distance;
    bool causal;
};

/* The number of buckets with one distance, on each side. */
static int buckets_exact(int count, bool causal) {
    return (causal ? count : count / 2) / 2;
}

static int32_t bucket_of(const struct buckets *b, int64_t distance) {
    const int side = b->causal ? b->count : b->count / 2, exact = buckets_exact(b->count, b->causal);
    const int first = !b->causal && distance > 0 ? side : 0;
    const int64_t far = b->causal ? (distance < 0 ? -distance : 0) : distance < 0 ? -distance : distance;
    if (far < exact) return first + (int32_t)far;
    const float whole = (float)qkv_log((double)b->max_distance / exact);
    const float part = (float)qkv_log((double)((float)far / (float)exact));
    const float at = part / whole * (float)(side - exact);
    return first + (at < (float)(side - exact) ? exact + (int32_t)at : side - 1);
}

static void bucket_row(const void *of, size_t d, void *out) {
    const struct buckets *b = of;
    *(int32_t *)out = bucket_of(b, (int64_t)d - (int64_t)b->zero);
}

enum qkv_status qkv_position_buckets(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    const struct qkv_position_spec *spec = fill->position;
    const struct buckets b = {.zero = fill->context - 1,
                              .count = spec->buckets,
                              .max_distance = spec->max_distance,
                              .causal = fill->attention->causal};
    tables->map.rows =
        qkv_table_make(fill->ctx, fill->arena, 2 * fill->context - 1, sizeof *tables->map.rows, bucket_row, &b);
    tables->context = fill->context;
    return tables->map.rows ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_distance_check(struct qkv_context *ctx, const char *name, const char *where,
                                   const struct qkv_attention_spec *a) {
    const struct qkv_position_spec *p = &a->position;
    if (p->kind != QKV_POSITION_BUCKETS) return QKV_OK;
    if (!a->causal && (p->buckets < 4 || p->buckets % 2))
        return qkv_fail(
            ctx, QKV_SPEC,
            "%s: %sposition.buckets is %d; where attention is not causal half of them are of later keys, so it "
            "must be an even number from 4 on",
            name, where, p->buckets);
    const int exact = buckets_exact(p->buckets, a->causal);
    if (p->max_distance > exact) return QKV_OK;
    return qkv_fail(
        ctx, QKV_SPEC,
        "%s: %sposition.max_distance is %d, but of %d buckets the first %d hold a distance each; it must be at "
        "least %d, or there must be fewer buckets",
        name, where, p->max_distance, p->buckets, exact, exact + 1);
}
