/* The spec of an attention layer: what is left out filled in, then every number in its range, by name. The ranges are
 * those of the attention of models. */
#include "model/layer.h"

#include <float.h>
#include <limits.h>
#include <math.h>

enum { DIMENSION = 1 << 20, WIDTH = 1 << 20, CONTEXT = 1 << 24 };

/* An int field; first its default, then its range. */
struct whole {
    const char *name;
    int value, low, high;
};

static enum qkv_status check_whole(struct qkv_context *ctx, const struct whole *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct whole *f = &fields[i];
        if (f->value < f->low || f->value > f->high)
            return qkv_fail(ctx, QKV_SPEC, "attention layer: %s is %d; it must be a whole number from %d to %d",
                            f->name, f->value, f->low, f->high);
    }
    return QKV_OK;
}

/* Numbers are used as floats: one that becomes infinite, or 0 where it is not, is out of range too. */
static bool is_float(double x) {
    return fabs(x) <= (double)FLT_MAX && ((float)x != 0 || x == 0);
}

static enum qkv_status check_reals(struct qkv_context *ctx, const struct qkv_attention_layer_spec *s) {
    const struct qkv_position_spec *p = &s->attention.position;
    const struct {
        const char *name;
        double value;
        bool fine;
        const char *range;
    } fields[] = {
        {"attention.softcap", s->attention.softcap, qkv_softcap_valid(s->attention.softcap),
         "a number from 2.94e-39 to 3.4e38, or 0 for none"},
        {"attention.clip", s->attention.clip, s->attention.clip >= 0, "a number greater than 0, or 0 for none"},
        {"attention.scale", s->attention.scale, s->attention.scale >= 0,
         "a number from 0 to 3.4e38 (0: 1/sqrt(head_dim))"},
        {"attention.dropout", s->attention.dropout, (float)s->attention.dropout < 1,
         "a number less than 1 (0: the dropout of the layer, negative: none)"},
        {"dropout", s->dropout, s->dropout >= 0 && (float)s->dropout < 1, "a number from 0 to less than 1"},
        {"attention.position.theta", p->theta, p->theta > 0, "a number from 0 to 3.4e38 (0: 10000)"},
        {"attention.position.max", p->max, p->max > 0, "a number from 0 to 3.4e38 (0: 8)"},
        {"attention.position.fraction", p->fraction, p->fraction > 0 && p->fraction <= 1,
         "a number greater than 0 and at most 1, or 0 for 1"},
    };
    char shown[QKV_REAL_TEXT];
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!fields[i].fine || !is_float(fields[i].value))
            return qkv_fail(ctx, QKV_SPEC, "attention layer: %s is %s; it must be %s", fields[i].name,
                            qkv_real_text(shown, fields[i].value), fields[i].range);
    return QKV_OK;
}

static enum qkv_status complete_widths(struct qkv_context *ctx, struct qkv_attention_layer_spec *s) {
    if (!s->cross && s->kv_in && s->kv_in != s->in)
        return qkv_fail(ctx, QKV_SPEC,
                        "attention layer: kv_in is %d, but without cross keys and values come from x, %d wide",
                        s->kv_in, s->in);
    s->kv_in = s->kv_in ? s->kv_in : s->in;
    s->out = s->out ? s->out : s->in;
    const struct whole fields[] = {
        {"in", s->in, 1, DIMENSION}, {"kv_in", s->kv_in, 1, DIMENSION}, {"out", s->out, 1, DIMENSION}};
    return check_whole(ctx, fields, 3);
}

static enum qkv_status check_qk_norm(struct qkv_context *ctx, const struct qkv_qk_norm_spec *s) {
    const struct qkv_norm_spec *n = &s->norm;
    if (!n->given) return QKV_OK;
    const struct whole fields[] = {{"attention.qk_norm.kind", (int)n->kind, 0, QKV_NORM_COUNT - 1},
                                   {"attention.qk_norm.over", (int)s->over, 0, QKV_NORM_OVER_COUNT - 1}};
    enum qkv_status status = check_whole(ctx, fields, 2);
    if (status) return status;
    if (!(n->eps > 0) || !is_float(n->eps))
        return qkv_fail(
            ctx, QKV_SPEC,
            "attention layer: attention.qk_norm.eps is %g; it must be a number greater than 0, or 0 for 1e-5", n->eps);
    if (!n->bias || (n->weight && qkv_norm_centered(n->kind))) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC,
                    "attention layer: attention.qk_norm.bias is true, which only a layernorm with a weight has");
}

static enum qkv_status complete_heads(struct qkv_context *ctx, struct qkv_attention_layer_spec *s) {
    struct qkv_attention_spec *a = &s->attention;
    const struct whole heads = {"attention.heads", a->heads, 1, DIMENSION};
    enum qkv_status status = check_whole(ctx, &heads, 1);
    if (status) return status;
    const char *refused = qkv_attention_not_single(a);
    if (refused) return qkv_fail(ctx, QKV_SPEC, "attention layer: %s", refused);
    if (a->share)
        return qkv_fail(
            ctx, QKV_SPEC,
            "attention layer: attention.share is %d, but a single layer has no layers before it; leave it 0", a->share);
    a->kv_heads = a->kv_heads ? a->kv_heads : a->heads;
    if (!a->head_dim && s->in % a->heads)
        return qkv_fail(ctx, QKV_SPEC,
                        "attention layer: attention.heads is %d, which does not divide in, %d; give attention.head_dim",
                        a->heads, s->in);
    a->head_dim = a->head_dim ? a->head_dim : s->in / a->heads;
    a->value_dim = a->value_dim ? a->value_dim : a->head_dim;
    const struct whole fields[] = {{"attention.kv_heads", a->kv_heads, 1, DIMENSION},
                                   {"attention.head_dim", a->head_dim, 1, DIMENSION},
                                   {"attention.value_dim", a->value_dim, 1, DIMENSION},
                                   {"attention.window", a->window, 0, INT_MAX},
                                   {"attention.window_right", a->window_right, 0, INT_MAX}};
    status = check_whole(ctx, fields, 5);
    if (status) return status;
    if (a->heads % a->kv_heads)
        return qkv_fail(ctx, QKV_SPEC, "attention layer: attention.kv_heads is %d, which does not divide heads, %d",
                        a->kv_heads, a->heads);
    int wide = a->head_dim > a->value_dim ? a->head_dim : a->value_dim;
    if ((int64_t)a->heads * wide > WIDTH)
        return qkv_fail(ctx, QKV_SPEC,
                        "attention layer: %d heads of %d channels are too many; together they may have at most %d",
                        a->heads, wide, WIDTH);
    if (a->qk_norm.norm.given && a->qk_norm.norm.eps == 0) a->qk_norm.norm.eps = 1e-5;
    status = check_qk_norm(ctx, &a->qk_norm);
    if (status) return status;
    if ((int)a->bias < 0 || a->bias >= QKV_BIAS_COUNT)
        return qkv_fail(ctx, QKV_SPEC, "attention layer: attention.bias is %d; it must be one of enum qkv_bias_kind",
                        (int)a->bias);
    return QKV_OK;
}

static enum qkv_status complete_position(struct qkv_context *ctx, struct qkv_attention_layer_spec *s) {
    struct qkv_position_spec *p = &s->attention.position;
    p->theta = p->theta == 0 ? 10000 : p->theta;
    p->fraction = p->fraction == 0 ? 1 : p->fraction;
#define KNOWN(name, text, help, file) p->kind == QKV_POSITION_##name ||
#define NAMED(name, text, help, file) ", " text
    const bool tables = QKV_ATTENTION_POSITION_LIST(KNOWN) false;
    if (p->kind != QKV_POSITION_NONE && !tables)
        return qkv_fail(
            ctx, QKV_SPEC,
            "attention layer: attention.position.kind is %d; attention itself knows none" QKV_ATTENTION_POSITION_LIST(
                NAMED) " (the others are added to an embedding)",
            (int)p->kind);
    if (tables && s->cross)
        return qkv_fail(ctx, QKV_SPEC,
                        "attention layer: positions need queries and keys of one sequence; choose "
                        "attention.position.kind none for cross "
                        "attention");
    p->max = p->max == 0 ? 8 : p->max;
    p->buckets = p->buckets ? p->buckets : 32;
    p->max_distance = p->max_distance ? p->max_distance : 128;
    if ((int)p->form < 0 || p->form > QKV_ALIBI_FALCON)
        return qkv_fail(ctx, QKV_SPEC,
                        "attention layer: attention.position.form is %d; it must be one of enum qkv_alibi_form",
                        (int)p->form);
    if ((int)p->pairing < 0 || p->pairing > QKV_PAIRING_INTERLEAVED)
        return qkv_fail(ctx, QKV_SPEC,
                        "attention layer: attention.position.pairing is %d; it must be one of enum qkv_pairing",
                        (int)p->pairing);
    const struct whole fields[] = {{"context", s->context, tables, CONTEXT},
                                   {"attention.position.buckets", p->buckets, 2, DIMENSION},
                                   {"attention.position.max_distance", p->max_distance, 1, DIMENSION}};
    enum qkv_status status = check_whole(ctx, fields, 3);
    return status ? status : qkv_distance_check(ctx, "attention layer", "attention.", &s->attention);
}

enum qkv_status qkv_attention_layer_complete(struct qkv_context *ctx, struct qkv_attention_layer_spec *s) {
    enum qkv_status status = complete_widths(ctx, s);
    if (!status) status = complete_heads(ctx, s);
    if (!status) status = complete_position(ctx, s);
    if (!status) status = check_reals(ctx, s);
    const struct qkv_position_spec *p = &s->attention.position;
    if (status || p->kind != QKV_POSITION_ROPE) return status;
    return qkv_rotation_check(ctx, "attention layer", "attention.", p, "attention.head_dim", s->attention.head_dim);
}
