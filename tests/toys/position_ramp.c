/* A toy: positions as a ramp, embed[t][c] = t / context in every channel. */
#include "model/model.h"

static void ramp_row(const void *of, size_t t, void *row) {
    const struct qkv_position_fill *fill = of;
    for (size_t c = 0; c < fill->C; c++) ((float *)row)[c] = (float)t / (float)fill->context;
}

enum qkv_status qkv_position_ramp(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    tables->embed =
        qkv_table_make(fill->ctx, fill->arena, fill->context, fill->C * sizeof *tables->embed, ramp_row, fill);
    return tables->embed ? QKV_OK : QKV_MEMORY;
}
