/* The keys of the embedding: what stands between ids and the first layer. */
#include "model/spec_tables.h"

static const char *const embed_positions[] = {"none", QKV_EMBED_POSITION_LIST(POSITION_TEXT) NULL};

static bool stack_has_position(const struct qkv_stack_spec *s) {
    for (int i = 0; i < s->kind_count; i++)
        if (s->kinds[i].attention.position.kind != QKV_POSITION_NONE) return true;
    return false;
}

/* Learned, as in version 1, where nothing else gives a position. */
static double rule_embed_position(const struct qkv_place *p) {
    const struct qkv_written_spec *w = p->written;
    if (w->position_given) return qkv_position_in_attention(w->position.kind) ? QKV_POSITION_NONE : w->position.kind;
    bool other = stack_has_position(&p->spec->encoder) || stack_has_position(&p->spec->decoder);
    return other ? QKV_POSITION_NONE : QKV_POSITION_LEARNED;
}

static double rule_embed_scale(const struct qkv_place *p) {
    const struct qkv_written_spec *w = p->written;
    if (w->embed_scale_given || w->version == 1) return w->embed_scale;
    return qkv_scale_beside(p->embed->position.kind, p->spec->d_model);
}

static const struct qkv_key embed_position_keys[] = {
    CHOICE(qkv_position_spec, kind, embed_positions, .rule = rule_embed_position),
    END,
};

const struct qkv_key qkv_embed_keys[] = {
    OBJECT(qkv_embed_spec, position, embed_position_keys, .flags = 0),
    REAL(qkv_embed_spec, scale, -FLT_MAX, FLT_MAX, "a number other than 0", .flags = QKV_KEY_NOT_ZERO,
         .rule = rule_embed_scale),
    END,
};
