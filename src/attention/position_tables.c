/* position_tables: the tables of the kinds of positions that are a part of attention (each kind is a file
 * position_NAME.c); and their trainable weights, which the layers of a stack share, with the table that every pass
 * computes from them. */
#include "attention/attention.h"

enum qkv_status qkv_position_fill_attention(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
#define FILLER(name, text, help, file) [QKV_POSITION_##name] = qkv_position_##file,
    static qkv_position_filler *const fillers[] = {QKV_ATTENTION_POSITION_LIST(FILLER)};
    const size_t kind = (size_t)fill->position->kind;
    *tables = (struct qkv_position_tables){0};
    return kind < sizeof fillers / sizeof *fillers && fillers[kind] ? fillers[kind](fill, tables) : QKV_OK;
}

bool qkv_position_has_distances(const struct qkv_position_tables *tables) {
    return tables->distance_bias.table || tables->map.rows;
}

struct qkv_tensor *qkv_distance_weight(struct qkv_distance_weights *weights, const struct qkv_position_spec *position) {
    if (position->kind == QKV_POSITION_BUCKETS) return &weights->buckets;
    if (position->kind == QKV_POSITION_RELATIVE) return &weights->relative;
    return position->kind == QKV_POSITION_ALIBI && position->learn ? &weights->slopes : NULL;
}

static void distance_slope(const void *of, size_t h, void *slope) {
    const struct qkv_attention_spec *spec = of;
    *(float *)slope = qkv_alibi_slope(&spec->position, h, (size_t)spec->heads);
}

/* The initial slopes. */
static const float *distance_slopes(struct qkv_weights *weights, const void *of) {
    const struct qkv_attention_spec *spec = of;
    const float *slopes =
        qkv_table_make(weights->ctx, weights->arena, (size_t)spec->heads, sizeof *slopes, distance_slope, spec);
    if (!slopes) weights->status = QKV_MEMORY;
    return slopes;
}

void qkv_distance_build_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                const struct qkv_attention_spec *spec, struct qkv_distance_weights *out) {
    static const enum qkv_role roles[] = {[QKV_POSITION_BUCKETS] = QKV_ROLE_BUCKETS,
                                          [QKV_POSITION_RELATIVE] = QKV_ROLE_RELATIVE,
                                          [QKV_POSITION_ALIBI] = QKV_ROLE_SLOPES};
    struct qkv_tensor *weight = qkv_distance_weight(out, &spec->position);
    if (!weight || weight->rows || weights->status) return;
    struct qkv_dimensions sizes = *place->sizes;
    struct qkv_weight_place at = *place;
    sizes.H = (size_t)spec->heads;
    sizes.R = spec->position.kind == QKV_POSITION_BUCKETS ? (size_t)spec->position.buckets
                                                          : 2 * (size_t)spec->position.max_distance + 1;
    at.sizes = &sizes;
    if (spec->position.kind == QKV_POSITION_ALIBI) at.start = (struct qkv_weight_start){distance_slopes, spec};
    qkv_weights_matrix(weights, &at, weight, &roles[spec->position.kind], 1);
}

struct qkv_tensor *qkv_distance_table(struct qkv_tape *tape, const struct qkv_position_tables *tables,
                                      struct qkv_tensor *weight, struct qkv_attend *call) {
    if (!tables->map.rows || !weight || !call->Tk || tape->status) return NULL;
    if (call->Tk > tables->context) {
        qkv_tape_failed(tape, qkv_fail(tape->ctx, QKV_SHAPE,
                                       "attention: %zu keys are more than the %zu positions that have distances",
                                       call->Tk, tables->context));
        return NULL;
    }
    const size_t count = 2 * call->Tk - 1, skipped = tables->context - call->Tk;
    const struct qkv_distance_map map = {tables->map.rows + skipped,
                                         tables->map.factors ? tables->map.factors + skipped : NULL};
    struct qkv_tensor *table = qkv_op_distance_bias(tape, weight, map, count, call->B);
    if (table)
        call->distance_bias = (struct qkv_distance_bias){.table = table->data, .row = count, .zero = call->Tk - 1};
    return table;
}
