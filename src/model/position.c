/* position: which tables each kind of position encoding fills.
 *
 * Position enters a stack in three places: a vector added to the embedding, a rotation of queries and keys, and a bias
 * on the scores (distance_bias). The first belongs to the embedding, the others to the attention of a kind of layer. A
 * kind is a function that fills the tables of the places it uses, in a file position_NAME.c; kinds of attention (rope,
 * alibi) are in the attention room. */
#include "model/model.h"

/* Fills the tables of an attention, or of the embedding if `attention` is NULL. */
static enum qkv_status position_fill(struct qkv_model *m, const struct qkv_stack_spec *spec,
                                     const struct qkv_attention_spec *attention, struct qkv_position_tables *tables) {
#define FILLER(name, text, help, file) [QKV_POSITION_##name] = qkv_position_##file,
    static qkv_position_filler *const fillers[] = {QKV_EMBED_POSITION_LIST(FILLER)};
    const size_t kind = (size_t)spec->embed.position.kind;
    struct qkv_position_fill fill = {.ctx = m->ctx,
                                     .arena = &m->arena,
                                     .embed = attention ? NULL : &spec->embed.position,
                                     .position = attention ? &attention->position : NULL,
                                     .attention = attention,
                                     .context = (size_t)qkv_stack_context(&m->spec, spec),
                                     .C = (size_t)qkv_position_width(&m->spec, spec)};
    if (attention) return qkv_position_fill_attention(&fill, tables);
    *tables = (struct qkv_position_tables){0};
    return kind < sizeof fillers / sizeof *fillers && fillers[kind] ? fillers[kind](&fill, tables) : QKV_OK;
}

/* Whether two attentions have the same tables, which depend on these fields only. */
static bool position_same(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b) {
    const struct qkv_position_spec *p = &a->position, *q = &b->position;
    if (!qkv_position_shares(a, b)) return false;
    return p->kind == q->kind && p->theta == q->theta && p->pairing == q->pairing && p->fraction == q->fraction &&
           (p->kind != QKV_POSITION_ROPE || qkv_scaling_same(&p->scaling, &q->scaling)) && a->head_dim == b->head_dim &&
           qkv_attention_rotated(a) == qkv_attention_rotated(b) && a->heads == b->heads;
}

enum qkv_status qkv_position_tables_make(struct qkv_model *m, struct qkv_stack *stack) {
    const struct qkv_layer_spec *kinds = stack->spec->kinds;
    enum qkv_status status = position_fill(m, stack->spec, NULL, &stack->embed);
    for (int i = 0; i < stack->spec->kind_count && !status; i++) {
        int same = 0;
        while (same < i && !position_same(&kinds[same].attention, &kinds[i].attention)) same++;
        if (same < i)
            stack->tables[i] = stack->tables[same];
        else
            status = position_fill(m, stack->spec, &kinds[i].attention, &stack->tables[i]);
    }
    return status;
}
