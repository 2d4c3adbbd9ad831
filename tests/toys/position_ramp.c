/* A toy: positions as a ramp, embed[t][c] = t / context in every channel. */
#include "model/model.h"

enum qkv_status qkv_position_ramp(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    float *embed = qkv_arena_take(fill->arena, fill->context * fill->C, sizeof(float));
    if (!embed) return QKV_MEMORY;
    for (size_t t = 0; t < fill->context && !fill->ctx->dry; t++)
        for (size_t c = 0; c < fill->C; c++) embed[t * fill->C + c] = (float)t / (float)fill->context;
    tables->embed = embed;
    return QKV_OK;
}
