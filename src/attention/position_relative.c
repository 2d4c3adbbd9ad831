/* A learned bias for each distance j − i from −max_distance to max_distance; larger distances use the last one (after
 * Shaw et al. 2018, as a number added to the scores). */
#include "attention/attention.h"

struct relative {
    int64_t zero, limit;
};

static void relative_row(const void *of, size_t d, void *out) {
    const struct relative *r = of;
    const int64_t distance = (int64_t)d - r->zero;
    *(int32_t *)out = (int32_t)(r->limit + (distance < -r->limit  ? -r->limit
                                            : distance > r->limit ? r->limit
                                                                  : distance));
}

enum qkv_status qkv_position_relative(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    const struct relative r = {.zero = (int64_t)fill->context - 1, .limit = fill->position->max_distance};
    tables->map.rows =
        qkv_table_make(fill->ctx, fill->arena, 2 * fill->context - 1, sizeof *tables->map.rows, relative_row, &r);
    tables->context = fill->context;
    return tables->map.rows ? QKV_OK : QKV_MEMORY;
}
