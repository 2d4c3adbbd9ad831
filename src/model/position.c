/* position: which tables each kind of position encoding fills.
 *
 * Position enters a stack in three places: a vector added to the embedding, a rotation of queries and keys, a bias on the
 * scores by distance. The first is the embedding's, the others belong to the attention of a kind of layer. A kind is a function that fills the tables of the places it uses; those that only attention sees (rope,
 * alibi) are in the attention room. */
#include "model/model.h"

/* A kind of position encoding is a line here, one in qkv.h, and a file. */
static qkv_position_filler *const fillers[] = {
    [QKV_POSITION_NONE] = qkv_position_none,       [QKV_POSITION_SINUSOIDAL] = qkv_position_sinusoidal,
    [QKV_POSITION_LEARNED] = qkv_position_learned, [QKV_POSITION_ROPE] = qkv_position_rope,
    [QKV_POSITION_ALIBI] = qkv_position_alibi,
};

static enum qkv_status position_fill(struct qkv_model *m, const struct qkv_position_spec *position,
                                     const struct qkv_attention_spec *attention, struct qkv_position_tables *tables) {
    struct qkv_position_fill fill = {.ctx = m->ctx,
                                     .arena = &m->arena,
                                     .position = position,
                                     .attention = attention,
                                     .context = (size_t)m->spec.context,
                                     .C = (size_t)m->spec.d_model};
    *tables = (struct qkv_position_tables){0};
    return fillers[position->kind](&fill, tables);
}

/* Whether two attentions use the same numbers: tables depend on nothing else of a kind. */
static bool position_same(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b) {
    const struct qkv_position_spec *p = &a->position, *q = &b->position;
    return p->kind == q->kind && p->theta == q->theta && p->pairing == q->pairing && p->fraction == q->fraction &&
           a->head_dim == b->head_dim && a->heads == b->heads;
}

enum qkv_status qkv_position_tables_make(struct qkv_model *m, struct qkv_stack *stack) {
    const struct qkv_layer_spec *kinds = stack->spec->kinds;
    enum qkv_status status = position_fill(m, &m->spec.embed.position, NULL, &stack->embed);
    for (int i = 0; i < stack->spec->kind_count && !status; i++) {
        int same = 0;
        while (same < i && !position_same(&kinds[same].attention, &kinds[i].attention)) same++;
        if (same < i)
            stack->tables[i] = stack->tables[same];
        else
            status = position_fill(m, &kinds[i].attention.position, &kinds[i].attention, &stack->tables[i]);
    }
    return status;
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
