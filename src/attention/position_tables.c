/* position_tables: the tables of the kinds of positions that are a part of attention, each a file position_NAME.c. */
#include "attention/attention.h"

enum qkv_status qkv_position_fill_attention(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
#define FILLER(name, text, help, file) [QKV_POSITION_##name] = qkv_position_##file,
    static qkv_position_filler *const fillers[] = {QKV_ATTENTION_POSITION_LIST(FILLER)};
    const size_t kind = (size_t)fill->position->kind;
    *tables = (struct qkv_position_tables){0};
    return kind < sizeof fillers / sizeof *fillers && fillers[kind] ? fillers[kind](fill, tables) : QKV_OK;
}
