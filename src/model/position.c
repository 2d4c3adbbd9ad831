/* position: which tables each kind of position encoding fills.
 *
 * Position enters a stack in three places: a vector added to the embedding, a rotation of queries and keys, a bias on the
 * scores by distance. A kind is a function that fills the tables of the places it uses; those that only attention sees (rope,
 * alibi) are in the attention room. */
#include "model/model.h"

/* A kind of position encoding is a line here, one in qkv.h, and a file. */
static qkv_position_filler *const fillers[] = {
    [QKV_POSITION_NONE] = qkv_position_none,       [QKV_POSITION_SINUSOIDAL] = qkv_position_sinusoidal,
    [QKV_POSITION_LEARNED] = qkv_position_learned, [QKV_POSITION_ROPE] = qkv_position_rope,
    [QKV_POSITION_ALIBI] = qkv_position_alibi,
};

enum qkv_status qkv_position_tables_make(struct qkv_model *model, const struct qkv_stack_spec *stack,
                                         struct qkv_position_tables *tables) {
    struct qkv_position_fill fill = {.ctx = model->ctx,
                                     .arena = &model->arena,
                                     .position = &model->spec.position,
                                     .attention = &stack->attention,
                                     .context = (size_t)model->spec.context,
                                     .C = (size_t)model->spec.d_model};
    *tables = (struct qkv_position_tables){0};
    return fillers[model->spec.position.kind](&fill, tables);
}

enum qkv_status qkv_position_none(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    (void)fill, (void)tables;
    return QKV_OK;
}

/* The table is a parameter, {stack}.embed.position.weight. */
enum qkv_status qkv_position_learned(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    (void)fill;
    tables->learned = true;
    return QKV_OK;
}
