/* module_spec: the spec of an attention module: fields that are left out get their defaults, and every number is
 * checked by name, with the keys of the attention of models. */
#include "attention/attention.h"
#include "model/module.h"
#include "model/spec_tables.h"

#include <stdlib.h>

static const char module_spec_name[] = "attention module";
enum { MODULE_CONTEXT = 1 << 24 };

struct qkv_attention_module_spec qkv_attention_module_spec_defaults(void) {
    return (struct qkv_attention_module_spec){0};
}

/* Widths are those of the only input where the two are left out. */
static enum qkv_status module_spec_widths(struct qkv_context *ctx, struct qkv_attention_module_spec *s) {
    const bool keys = s->kv_in && s->kv_in != s->in, values = s->value_in && s->value_in != s->in;
    if (!s->cross && (keys || values))
        return qkv_fail(ctx, QKV_SPEC, "%s: %s is %d, but without cross keys and values come from x, %d wide",
                        module_spec_name, keys ? "kv_in" : "value_in", keys ? s->kv_in : s->value_in, s->in);
    s->kv_in = s->kv_in ? s->kv_in : s->in;
    s->value_in = s->value_in ? s->value_in : s->kv_in;
    s->out = s->out ? s->out : s->in;
    const struct {
        const char *name;
        int value;
    } widths[] = {{"in", s->in}, {"kv_in", s->kv_in}, {"value_in", s->value_in}, {"out", s->out}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (widths[i].value < 1 || widths[i].value > DIMENSION)
            return qkv_fail(ctx, QKV_SPEC, "%s: %s is %d; it must be a whole number from 1 to %d", module_spec_name,
                            widths[i].name, widths[i].value, DIMENSION);
    return QKV_OK;
}

/* What the keys of attention allow in a model, but one attention alone cannot have. */
static enum qkv_status module_spec_single(struct qkv_context *ctx, const struct qkv_attention_module_spec *s) {
    const struct qkv_attention_spec *a = &s->attention;
    if (a->heads > 0 && !a->head_dim && s->in % a->heads)
        return qkv_fail(ctx, QKV_SPEC,
                        "%s: attention.heads is %d, which does not divide in, %d; give attention.head_dim",
                        module_spec_name, a->heads, s->in);
    if (a->share)
        return qkv_fail(ctx, QKV_SPEC, "%s: attention.share is %d, but there are no layers before it; leave it 0",
                        module_spec_name, a->share);
    if (!s->cross || a->position.kind == QKV_POSITION_NONE) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC,
                    "%s: positions need queries and keys of one sequence; choose attention.position.kind none for "
                    "cross attention",
                    module_spec_name);
}

/* Numbers that are 0, where 0 is impossible, get their defaults. */
static void module_spec_defaults(const struct qkv_key *keys, const struct qkv_place *place) {
    for (const struct qkv_key *key = keys; key->name; key++) {
        if (!qkv_key_applies(key, place) || !qkv_key_given(key, place)) continue;
        if (key->type == QKV_KEY_OBJECT) {
            const struct qkv_place in = qkv_key_enter(place, key);
            module_spec_defaults(key->keys, &in);
        } else if ((key->type == QKV_KEY_WHOLE || key->type == QKV_KEY_REAL) && !(key->flags & QKV_KEY_NULL) &&
                   qkv_key_get(key, place) == 0 && !qkv_key_in_range(key, 0)) {
            qkv_key_set(key, place, qkv_key_default(key, place));
        }
    }
}

void qkv_attention_module_model(const struct qkv_attention_module_spec *s, struct qkv_spec *model) {
    struct qkv_stack_spec *stack = s->cross ? &model->decoder : &model->encoder;
    model->vocab = 1;
    model->d_model = s->in;
    model->context = s->context;
    model->dropout = s->dropout;
    model->head.kind = QKV_HEAD_NONE;
    stack->layers = stack->kind_count = 1;
    stack->embed.scale = 1;
    stack->kinds[0].attention = stack->kinds[0].cross = s->attention;
}

/* Completes and checks the attention, in the place of a self attention, and then what a cross attention cannot have. */
static enum qkv_status module_spec_attention(struct qkv_context *ctx, struct qkv_attention_module_spec *s) {
    struct qkv_written_spec *written = qkv_written_allocate(ctx);
    if (!written) return QKV_MEMORY;
    qkv_attention_module_model(s, &written->spec);
    written->spec.prefix = true; /* a call may have prefixes: then causal queries see keys to their right */
    struct qkv_place place = qkv_spec_place(written);
    place.stack = s->cross ? &written->spec.decoder : &written->spec.encoder;
    place.layer = &place.stack->kinds[0];
    place.object = &place.layer->attention;
    snprintf(place.path, sizeof place.path, "attention.");
    module_spec_defaults(qkv_attention_keys, &place);
    enum qkv_status status = qkv_spec_check_object(ctx, written, module_spec_name, qkv_attention_keys, &place);
    s->attention = place.layer->attention;
    qkv_written_free(written);
    if (status || !s->cross) return status;
    return qkv_attention_form_check(ctx, module_spec_name, "attention.", &s->attention, true, s->in);
}

static enum qkv_status module_spec_rest(struct qkv_context *ctx, struct qkv_attention_module_spec *s) {
    const bool positions = s->attention.position.kind != QKV_POSITION_NONE;
    char shown[QKV_REAL_TEXT];
    if (s->context < positions || s->context > MODULE_CONTEXT)
        return qkv_fail(ctx, QKV_SPEC, "%s: context is %d; it must be a whole number from 1 to %d%s", module_spec_name,
                        s->context, MODULE_CONTEXT, positions ? "" : ", or 0 for that");
    s->context = s->context ? s->context : MODULE_CONTEXT;
    if (s->dropout >= 0 && (float)s->dropout < 1) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC, "%s: dropout is %s; it must be a number from 0 to less than 1", module_spec_name,
                    qkv_real_text(shown, s->dropout));
}

enum qkv_status qkv_attention_module_complete(struct qkv_context *ctx, struct qkv_attention_module_spec *s) {
    enum qkv_status status = module_spec_widths(ctx, s);
    if (!status) status = module_spec_single(ctx, s);
    if (!status) status = module_spec_attention(ctx, s);
    return status ? status : module_spec_rest(ctx, s);
}
