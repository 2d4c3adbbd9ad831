/* A learned bias for each distance j − i from −max_distance to max_distance; larger distances use the last one (after
 * Shaw et al. 2018, as a number added to the scores). */
#include "attention/attention.h"

struct relative {
    int32_t *rows;
    int64_t zero, limit;
};

static void fill_distance(void *argument, size_t d, int thread) {
    (void)thread;
    const struct relative *r = argument;
    const int64_t distance = (int64_t)d - r->zero;
    r->rows[d] = (int32_t)(r->limit + (distance < -r->limit ? -r->limit : distance > r->limit ? r->limit : distance));
}

enum qkv_status qkv_position_relative(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    struct relative r = {.zero = (int64_t)fill->context - 1, .limit = fill->position->max_distance};
    r.rows = qkv_arena_take(fill->arena, 2 * fill->context - 1, sizeof *r.rows);
    if (!r.rows) return QKV_MEMORY;
    qkv_parallel(fill->ctx, 2 * fill->context - 1, fill_distance, &r);
    tables->map.rows = r.rows;
    tables->context = fill->context;
    return QKV_OK;
}
