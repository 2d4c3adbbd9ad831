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
    const int C = qkv_stack_width(p->spec, p->stack);
    if (w->embed_scale_given) return w->embed_scale;
    return qkv_scale_beside(w->version == 1 ? w->position.kind : p->embed->position.kind, C);
}

static bool is_sinusoidal(const struct qkv_place *p) {
    return p->embed->position.kind == QKV_POSITION_SINUSOIDAL;
}

static bool adds_a_position(const struct qkv_place *p) {
    return p->embed->position.kind != QKV_POSITION_NONE;
}

static bool is_projected(const struct qkv_place *p) {
    return p->embed->width != 0;
}

CHOICES(sinusoids, QKV_SINUSOID_LIST);
CHOICES(projects, QKV_PROJECT_LIST);

static const struct qkv_key embed_position_keys[] = {
    CHOICE(qkv_position_spec, kind, embed_positions, .rule = rule_embed_position),
    CHOICE(qkv_position_spec, layout, sinusoids, .flags = QKV_KEY_LATER, .neutral = QKV_SINUSOID_INTERLEAVED,
           .applies = is_sinusoidal, .owner = "a position of kind sinusoidal"),
    WHOLE(qkv_position_spec, offset, 0, DIMENSION, .flags = QKV_KEY_LATER, .applies = adds_a_position,
          .owner = "a position of kind sinusoidal or learned"),
    END,
};

const struct qkv_key qkv_embed_keys[] = {
    OBJECT(qkv_embed_spec, position, embed_position_keys, .flags = 0),
    REAL(qkv_embed_spec, scale, -FLT_MAX, FLT_MAX, "a number other than 0", .flags = QKV_KEY_NOT_ZERO,
         .rule = rule_embed_scale),
    WHOLE(qkv_embed_spec, types, 0, DIMENSION, .flags = QKV_KEY_LATER),
    WHOLE(qkv_embed_spec, width, 0, DIMENSION, .flags = QKV_KEY_LATER),
    FLAG(qkv_embed_spec, bias, .flags = QKV_KEY_LATER, .neutral = true, .value = true, .applies = is_projected,
         .owner = "an embedding with a width of its own"),
    CHOICE(qkv_embed_spec, project, projects, .flags = QKV_KEY_LATER, .neutral = QKV_PROJECT_END,
           .applies = is_projected, .owner = "an embedding with a width of its own"),
    OBJECT(qkv_embed_spec, norm, qkv_norm_only_keys, .flags = QKV_KEY_OPTIONAL),
    END,
};
