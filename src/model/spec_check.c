/* Whether a spec can be built: every field in its range, then what fields say about each other. */
#include "model/spec.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1 << 20 }; /* the most channels of all heads together */

struct checker {
    struct qkv_context *ctx;
    struct qkv_spec *spec;
    const char *name;
    bool vocab_known;
};

/* ---- every field by itself --------------------------------------------------------------------------------------- */

static enum qkv_status check_field(const struct checker *c, const struct qkv_key *key, const struct qkv_place *place) {
    double x = qkv_key_get(key, place);
    char range[256], shown[QKV_REAL_TEXT];
    size_t choices = 0;
    switch (key->type) {
    case QKV_KEY_FLAG:
        return QKV_OK;
    case QKV_KEY_CHOICE:
        while (key->choices[choices]) choices++;
        if (x >= 0 && x < (double)choices) return QKV_OK;
        break;
    default:
        if (qkv_key_in_range(key, x) || (x == 0 && key->flags & QKV_KEY_NULL)) return QKV_OK;
        if (x == 0 && key->flags & QKV_KEY_LATE && !c->vocab_known) return QKV_OK;
    }
    qkv_key_range_text(key, range, sizeof range);
    if (x == 0 && key->flags & QKV_KEY_LATE)
        return qkv_fail(c->ctx, QKV_SPEC, "%s: %s%s is not set; give it the %s", c->name, place->path, key->name,
                        key->offset == offsetof(struct qkv_spec, head.classes) ? "number of classes"
                                                                               : "size of the tokenizer's vocabulary");
    return qkv_fail(c->ctx, QKV_SPEC, "%s: %s%s is %s; it must be %s", c->name, place->path, key->name,
                    qkv_real_text(shown, x), range);
}

/* The divisors of n next to k, "6 or 8". */
static void near_divisors(int n, int k, char *text, size_t size) {
    int below = k < n ? k : n, above = k + 1;
    while (below > 1 && n % below) below--;
    while (above < n && n % above) above++;
    if (above < n || (above == n && below != n))
        snprintf(text, size, "%d or %d", below, above);
    else
        snprintf(text, size, "%d", below);
}

/* head_dim without a value: it is the default where heads does not divide d_model. */
static enum qkv_status check_heads(const struct checker *c, const struct qkv_place *place) {
    const struct qkv_attention_spec *a = place->object;
    char divisors[32];
    if (a->head_dim != 0 || a->heads < 1 || c->spec->d_model < 1 || c->spec->d_model % a->heads == 0) return QKV_OK;
    near_divisors(c->spec->d_model, a->heads, divisors, sizeof divisors);
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: %sheads is %d, which does not divide d_model %d (give head_dim, or choose %s)", c->name,
                    place->path, a->heads, c->spec->d_model, divisors);
}

static enum qkv_status check_attention(const struct checker *c, const struct qkv_place *place);

static enum qkv_status check_keys(const struct checker *c, const struct qkv_key *keys, const struct qkv_place *place) {
    enum qkv_status status = QKV_OK;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        if (key->type == QKV_KEY_CONSTANT || !qkv_key_applies(key, place)) continue;
        if (key->type != QKV_KEY_OBJECT) {
            status = check_field(c, key, place);
            continue;
        }
        struct qkv_place in = qkv_key_enter(place, key);
        bool attention = in.like || (in.stack && in.object == (void *)&in.stack->attention);
        if (attention) status = check_heads(c, &in);
        if (!status) status = check_keys(c, key->keys, &in);
        if (attention && !status) status = check_attention(c, &in);
    }
    return status;
}

/* ---- fields that depend on each other ---------------------------------------------------------------------------- */

static enum qkv_status check_width(const struct checker *c, const struct qkv_place *place, const char *key, int dim) {
    const struct qkv_attention_spec *a = place->object;
    size_t width;
    if (qkv_multiply((size_t)a->heads, (size_t)dim, &width) && width <= WIDTH) return QKV_OK;
    return qkv_fail(c->ctx, QKV_SPEC, "%s: %sheads × %s is %d × %d; together they may be at most %d", c->name,
                    place->path, key, a->heads, dim, WIDTH);
}

static enum qkv_status check_attention(const struct checker *c, const struct qkv_place *place) {
    const struct qkv_attention_spec *a = place->object;
    const struct qkv_position_spec *position = &c->spec->position;
    char divisors[32];
    if (a->heads % a->kv_heads) {
        near_divisors(a->heads, a->kv_heads, divisors, sizeof divisors);
        return qkv_fail(c->ctx, QKV_SPEC, "%s: %skv_heads is %d, which does not divide heads %d (choose %s)", c->name,
                        place->path, a->kv_heads, a->heads, divisors);
    }
    enum qkv_status status = check_width(c, place, "head_dim", a->head_dim);
    if (!status) status = check_width(c, place, "value_dim", a->value_dim);
    bool rotated = position->kind == QKV_POSITION_ROPE && !place->like;
    if (status || !rotated || a->head_dim * position->fraction / 2 >= 1) return status;
    return qkv_fail(
        c->ctx, QKV_SPEC,
        "%s: position.fraction is %.9g, which rotates none of the %d channels of %shead_dim (two of them need "
        "a fraction of at least %.4g)",
        c->name, position->fraction, a->head_dim, place->path, 2.0 / a->head_dim);
}

static enum qkv_status check_norm(const struct checker *c, const char *stack, const struct qkv_stack_spec *s) {
    if (s->layers == 0 || s->norm.kind != QKV_NORM_RMSNORM || !s->norm.bias) return QKV_OK;
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: %s.norm.bias is true, but an rmsnorm has no bias (leave it out, or choose "
                    "layernorm)",
                    c->name, stack);
}

static enum qkv_status check_head(const struct checker *c, bool both) {
    const struct qkv_spec *s = c->spec;
    if (both && s->head.kind == QKV_HEAD_CLASSIFY)
        return qkv_fail(
            c->ctx, QKV_SPEC,
            "%s: head.kind is classify, which needs an encoder or a decoder alone (set one of them to null, "
            "or choose lm)",
            c->name);
    if (s->tie == QKV_TIE_NONE) return QKV_OK;
    const char *tie = s->tie == QKV_TIE_ALL ? "all" : "head";
    if (s->head.kind != QKV_HEAD_LM)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: tie is %s, but only a head of kind lm can use the embedding (choose none)", c->name, tie);
    if (s->tie == QKV_TIE_HEAD) return QKV_OK;
    if (!both)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: tie is all, which needs an encoder beside a decoder (choose head: the same for one stack)",
                        c->name);
    if (s->source_vocab == s->vocab) return QKV_OK;
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: tie is all, but source_vocab is %d and vocab is %d; one embedding needs them to be equal (or "
                    "choose head)",
                    c->name, s->source_vocab, s->vocab);
}

enum qkv_status qkv_spec_check_as(struct qkv_context *ctx, const struct qkv_spec *spec, const char *name,
                                  bool vocab_known) {
    struct qkv_spec copy = *spec; /* places can be written through */
    struct checker c = {.ctx = ctx, .spec = &copy, .name = name, .vocab_known = vocab_known};
    struct qkv_place place = qkv_spec_place(&copy);
    if (copy.encoder.layers == 0 && copy.decoder.layers == 0)
        return qkv_fail(ctx, QKV_SPEC, "%s: there is neither an encoder nor a decoder; give at least one", name);
    enum qkv_status status = check_keys(&c, qkv_spec_keys, &place);
    if (!status) status = check_norm(&c, "encoder", &copy.encoder);
    if (!status) status = check_norm(&c, "decoder", &copy.decoder);
    if (!status) status = check_head(&c, copy.encoder.layers && copy.decoder.layers);
    return status;
}

enum qkv_status qkv_spec_check(struct qkv_context *ctx, const struct qkv_spec *spec) {
    QKV_CALL(ctx);
    return qkv_spec_check_as(ctx, spec, "spec", true);
}
