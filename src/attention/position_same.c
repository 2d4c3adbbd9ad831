/* position_same: whether two positions are the same, and whether two attentions can share a table. */
#include "attention/attention.h"

bool qkv_position_same_distances(const struct qkv_position_spec *p, const struct qkv_position_spec *q) {
    const bool mpt = p->form == QKV_ALIBI_MPT;
    if (p->kind != q->kind || p->per_layer != q->per_layer) return false;
    if (p->kind == QKV_POSITION_ALIBI) return p->form == q->form && p->learn == q->learn && (!mpt || p->max == q->max);
    if (p->kind == QKV_POSITION_BUCKETS && p->buckets != q->buckets) return false;
    return (p->kind != QKV_POSITION_BUCKETS && p->kind != QKV_POSITION_RELATIVE) || p->max_distance == q->max_distance;
}

bool qkv_position_same(const struct qkv_position_spec *a, const struct qkv_position_spec *b) {
    if (a->kind != b->kind || a->kind != QKV_POSITION_ROPE) return qkv_position_same_distances(a, b);
    return a->theta == b->theta && a->pairing == b->pairing && a->fraction == b->fraction &&
           qkv_scaling_same(&a->scaling, &b->scaling);
}

bool qkv_position_shares(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b) {
    const struct qkv_position_spec *p = &a->position;
    const bool falcon = p->kind == QKV_POSITION_ALIBI && p->form == QKV_ALIBI_FALCON;
    if (a->heads != b->heads || !qkv_position_same_distances(p, &b->position)) return false;
    if (p->kind == QKV_POSITION_BUCKETS && a->causal != b->causal) return false;
    return !falcon || a->head_dim == b->head_dim;
}
