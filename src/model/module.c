/* module: a part of a model: finds it by the name of its parameters, or makes a new one, which is a model of one stack
 * with the weights of that part only. module_check.c and module_run.c have its calls. */
#include "base/sized_options.h"
#include "model/module.h"
#include "model/spec.h"

#include <stdlib.h>
#include <string.h>

#define MODULE_ROLE(name) (UINT64_C(1) << QKV_ROLE_##name)
#define MODULE_DISTANCES  (MODULE_ROLE(BUCKETS) | MODULE_ROLE(RELATIVE) | MODULE_ROLE(SLOPES))
#define MODULE_LATENT                                                                                                  \
    (MODULE_ROLE(ATTN_Q_A) | MODULE_ROLE(ATTN_Q_A_NORM) | MODULE_ROLE(ATTN_Q_B) | MODULE_ROLE(ATTN_KV_A) |             \
     MODULE_ROLE(ATTN_K_ROPE) | MODULE_ROLE(ATTN_KV_A_NORM) | MODULE_ROLE(ATTN_K_B) | MODULE_ROLE(ATTN_V_B))
#define MODULE_SELF                                                                                                    \
    (MODULE_LATENT | MODULE_ROLE(ATTN_Q) | MODULE_ROLE(ATTN_K) | MODULE_ROLE(ATTN_V) | MODULE_ROLE(ATTN_O) |           \
     MODULE_ROLE(ATTN_SINKS) | MODULE_DISTANCES)
#define MODULE_CROSS                                                                                                   \
    (MODULE_ROLE(CROSS_Q) | MODULE_ROLE(CROSS_K) | MODULE_ROLE(CROSS_V) | MODULE_ROLE(CROSS_O) |                       \
     MODULE_ROLE(CROSS_SINKS))
#define MODULE_EXPERTS                                                                                                 \
    (MODULE_ROLE(ROUTER) | MODULE_ROLE(CORRECTION) | MODULE_ROLE(EXPERT_GATE) | MODULE_ROLE(EXPERT_UP) |               \
     MODULE_ROLE(EXPERT_DOWN) | MODULE_ROLE(SHARED_GATE) | MODULE_ROLE(SHARED_UP) | MODULE_ROLE(SHARED_DOWN) |         \
     MODULE_ROLE(SHARED_MIX))
#define MODULE_FFN       (MODULE_ROLE(FFN_GATE) | MODULE_ROLE(FFN_UP) | MODULE_ROLE(FFN_DOWN) | MODULE_EXPERTS)
#define MODULE_NORMS(of) (MODULE_ROLE(of##_NORM) | MODULE_ROLE(of##_OUT_NORM))
#define MODULE_BLOCK     (MODULE_NORMS(ATTN) | MODULE_SELF | MODULE_NORMS(FFN) | MODULE_FFN)
#define MODULE_MEMORY    (MODULE_NORMS(CROSS) | MODULE_CROSS)
_Static_assert(QKV_ROLE_COUNT <= 64, "a set of roles is 64 bits");

/* What a new module of each kind consists of. */
static const struct module_parts {
    uint64_t roles;
    bool memory;      /* it has cross attention, of a decoder */
    bool stack;       /* it has all layers; else one */
    const char *name; /* its name in the stack */
} module_parts[] = {
    [QKV_MODULE_ATTENTION] = {MODULE_SELF, false, false, ".layers.0.attn"},
    [QKV_MODULE_CROSS_ATTENTION] = {MODULE_CROSS, true, false, ".layers.0.cross"},
    [QKV_MODULE_FFN] = {MODULE_FFN, false, false, ".layers.0.ffn"},
    [QKV_MODULE_NORM] = {MODULE_ROLE(NORM), false, false, ".norm"},
    [QKV_MODULE_ENCODER_BLOCK] = {MODULE_BLOCK, false, false, ".layers.0"},
    [QKV_MODULE_DECODER_BLOCK] = {MODULE_BLOCK | MODULE_MEMORY, true, false, ".layers.0"},
    [QKV_MODULE_ENCODER_STACK] = {MODULE_BLOCK | MODULE_ROLE(NORM), false, true, ""},
    [QKV_MODULE_DECODER_STACK] = {MODULE_BLOCK | MODULE_MEMORY | MODULE_ROLE(NORM), true, true, ""},
    [QKV_MODULE_MODEL] = {UINT64_MAX, false, true, ""},
    [QKV_MODULE_CROSS_BLOCK] = {MODULE_NORMS(FFN) | MODULE_FFN | MODULE_MEMORY, true, false, ".layers.0"},
};

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

const char *qkv_module_kind_text(enum qkv_module_kind kind) {
#define MODULE_KIND_NAME(name, text, help) [QKV_MODULE_##name] = text,
    static const char *const names[] = {QKV_MODULE_LIST(MODULE_KIND_NAME)};
#undef MODULE_KIND_NAME
    return names[kind];
}

bool qkv_module_is_pair(const struct qkv_module *m) {
    return m->kind == QKV_MODULE_MODEL && m->model->encoder.spec && m->model->decoder.spec;
}

bool qkv_module_reads_memory(const struct qkv_module *m) {
    return module_parts[m->kind].memory || qkv_module_is_pair(m);
}

bool qkv_module_has_self(const struct qkv_module *m) {
    return m->kind == QKV_MODULE_MODEL || (module_parts[m->kind].roles & MODULE_SELF);
}

bool qkv_module_is_whole(const struct qkv_module *m) {
    return module_parts[m->kind].stack;
}

struct qkv_stack *qkv_module_stack(const struct qkv_module *m) {
    if (m->stack) return m->stack;
    return m->model->decoder.spec ? &m->model->decoder : &m->model->encoder;
}

static size_t module_memory_width(const struct qkv_module *m) {
    const struct qkv_spec *spec = &m->model->spec;
    return (size_t)qkv_stack_width(spec, spec->encoder.layers ? &spec->encoder : &spec->decoder);
}

size_t qkv_module_key_width(const struct qkv_module *m) {
    return m->model->parts.key_width ? m->model->parts.key_width : module_memory_width(m);
}

size_t qkv_module_value_width(const struct qkv_module *m) {
    return m->model->parts.value_width ? m->model->parts.value_width : module_memory_width(m);
}

/* ---- finding ------------------------------------------------------------ */

/* Finds the part by its name after ".layers.N". */
static bool module_find_in_layer(struct qkv_module *m, const char *rest) {
    static const struct {
        const char *name;
        enum qkv_module_kind kind;
        enum qkv_sublayer sublayer;
        bool out;
    } parts[] = {
        {".attn", QKV_MODULE_ATTENTION, QKV_SUBLAYER_SELF, false},
        {".cross", QKV_MODULE_CROSS_ATTENTION, QKV_SUBLAYER_CROSS, false},
        {".ffn", QKV_MODULE_FFN, QKV_SUBLAYER_FFN, false},
        {".attn_norm", QKV_MODULE_NORM, QKV_SUBLAYER_SELF, false},
        {".cross_norm", QKV_MODULE_NORM, QKV_SUBLAYER_CROSS, false},
        {".ffn_norm", QKV_MODULE_NORM, QKV_SUBLAYER_FFN, false},
        {".attn_out_norm", QKV_MODULE_NORM, QKV_SUBLAYER_SELF, true},
        {".cross_out_norm", QKV_MODULE_NORM, QKV_SUBLAYER_CROSS, true},
        {".ffn_out_norm", QKV_MODULE_NORM, QKV_SUBLAYER_FFN, true},
    };
    const struct qkv_norm_spec *norm = &qkv_stack_layer(m->stack->spec, m->layer)->norm;
    if (!*rest) {
        m->kind = !m->stack->has_cross                                   ? QKV_MODULE_ENCODER_BLOCK
                  : qkv_layer_has(m->stack, m->layer, QKV_SUBLAYER_SELF) ? QKV_MODULE_DECODER_BLOCK
                                                                         : QKV_MODULE_CROSS_BLOCK;
        return true;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(rest, parts[i].name) != 0) continue;
        m->kind = parts[i].kind;
        m->sublayer = parts[i].sublayer;
        m->out = parts[i].out;
        if (m->kind == QKV_MODULE_NORM && !qkv_block_has_norm(norm, m->sublayer, m->out)) return false;
        return qkv_layer_has(m->stack, m->layer, m->sublayer);
    }
    return false;
}

/* Finds kind and place of the part of that name. */
static bool module_find(struct qkv_module *m, const char *name) {
    static const char layers[] = ".layers.";
    m->kind = QKV_MODULE_MODEL;
    if (!*name) return true;
    struct qkv_stack *stacks[] = {&m->model->encoder, &m->model->decoder};
    for (size_t i = 0; i < 2; i++)
        if (stacks[i]->spec && strncmp(name, stacks[i]->name, strlen(stacks[i]->name)) == 0) m->stack = stacks[i];
    if (!m->stack) return false;
    const char *rest = name + strlen(m->stack->name);
    if (!*rest) {
        m->kind = m->stack->has_cross ? QKV_MODULE_DECODER_STACK : QKV_MODULE_ENCODER_STACK;
        return true;
    }
    if (strcmp(rest, ".norm") == 0) {
        m->kind = QKV_MODULE_NORM;
        m->final = true;
        return qkv_stack_final_norm(m->stack->spec)->final;
    }
    if (strncmp(rest, layers, sizeof layers - 1) != 0) return false;
    rest += sizeof layers - 1;
    const size_t digits = strspn(rest, "0123456789");
    if (!digits || digits > 6 || (digits > 1 && *rest == '0')) return false;
    m->layer = (size_t)strtoul(rest, NULL, 10);
    m->part = rest + digits;
    return m->layer < (size_t)m->stack->spec->layers && module_find_in_layer(m, rest + digits);
}

/* The first part of its parameters' names; a layer that shares weights has the names of the first such layer. */
static void module_prefix(const struct qkv_module *m, const char *name, char *prefix, size_t size) {
    if (m->part)
        snprintf(prefix, size, "%s.layers.%zu%s", m->stack->name, qkv_stack_weights_of(m->stack->spec, m->layer),
                 m->part);
    else
        snprintf(prefix, size, "%s", name);
}

/* The length of `prefix` and the dot after it, if the name begins with the two; else 0. */
static size_t module_skip(const char *name, const char *prefix) {
    const size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 && name[length] == '.' ? length + 1 : 0;
}

/* Lists the parameters whose names begin with the module's name and a dot, without these. Embeddings belong to models
 * only. A new part of a layer also has the positions of its stack, which no other module trains. */
static enum qkv_status module_list_parameters(struct qkv_module *m, const char *called) {
    char name[64];
    module_prefix(m, called, name, sizeof name);
    const size_t all = qkv_model_parameters(m->model);
    m->arrays = qkv_allocate(m->ctx, all + 1, sizeof *m->arrays);
    m->indices = qkv_allocate(m->ctx, all + 1, sizeof *m->indices);
    if (!m->arrays || !m->indices) return QKV_MEMORY;
    for (size_t i = 0; i < all; i++) {
        const struct qkv_array *a = qkv_model_parameter(m->model, i);
        size_t skip = *name ? module_skip(a->name, name) : 0;
        if (!skip && m->part && m->owns) skip = module_skip(a->name, m->stack->name);
        if (*name && (!skip || strncmp(a->name + skip, "embed.", strlen("embed.")) == 0)) continue;
        m->arrays[m->count] = *a;
        m->arrays[m->count].name += skip;
        m->indices[m->count++] = i;
    }
    return QKV_OK;
}

/* ---- making ------------------------------------------------------------ */

/* Refuses attention, or a layer, that reads keys and values of a layer outside. */
static enum qkv_status module_check_keys(const struct qkv_module *m, const char *name) {
    const bool block = m->kind == QKV_MODULE_ENCODER_BLOCK || m->kind == QKV_MODULE_DECODER_BLOCK;
    if (!block && m->kind != QKV_MODULE_ATTENTION) return QKV_OK;
    const size_t owner = qkv_stack_keys_of(m->stack->spec, m->layer);
    if (owner == m->layer) return QKV_OK;
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "module: \"%.100s\" reads the keys and values of layer %zu (attention.share is %d) and does not "
                    "run alone; make a module of the stack, \"%s\"",
                    name, owner, qkv_stack_layer(m->stack->spec, m->layer)->attention.share, m->stack->name);
}

/* Sets the spec of an attention, and makes room for its call. */
static enum qkv_status module_make_attention(struct qkv_module *m) {
    const bool cross = m->kind == QKV_MODULE_CROSS_ATTENTION;
    if (!cross && m->kind != QKV_MODULE_ATTENTION) return QKV_OK;
    const struct qkv_spec *spec = &m->model->spec;
    const struct qkv_layer_spec *layer = qkv_stack_layer(m->stack->spec, m->layer);
    const int in = qkv_stack_width(spec, m->stack->spec);
    m->attention =
        (struct qkv_attention_module_spec){.in = in,
                                           .kv_in = cross ? (int)qkv_module_key_width(m) : in,
                                           .value_in = cross ? (int)qkv_module_value_width(m) : in,
                                           .out = m->model->parts.out_width ? (int)m->model->parts.out_width : in,
                                           .cross = cross,
                                           .attention = cross ? layer->cross : layer->attention,
                                           .context = qkv_stack_context(spec, m->stack->spec),
                                           .dropout = spec->dropout};
    m->calls = qkv_allocate(m->ctx, 2 * (size_t)m->stack->spec->layers, sizeof *m->calls);
    return m->calls ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status module_make(struct qkv_model *model, const char *name, bool owns, struct qkv_module **out) {
    struct qkv_module *m = qkv_allocate(model->ctx, 1, sizeof *m);
    if (!m) return QKV_MEMORY;
    m->ctx = model->ctx;
    m->owners = 1;
    m->model = model;
    enum qkv_status status = qkv_model_begin_use(model, false);
    if (!status && !module_find(m, name))
        status = qkv_fail(m->ctx, QKV_ARGUMENT,
                          "module: this model has no part \"%.100s\"; parts are called as parameters are, for example "
                          "\"%s.layers.0.attn\"",
                          name, model->decoder.spec ? "decoder" : "encoder");
    if (!status) status = module_check_keys(m, name);
    m->owns = owns;
    if (!status) status = module_make_attention(m);
    if (!status) status = module_list_parameters(m, name);
    m->part = NULL; /* it pointed into the caller's text */
    if (!status)
        status = qkv_arena_create(m->ctx, &m->graph_arena, qkv_graph_bytes(&model->spec), "records of a module");
    if (status) {
        m->owns = false; /* the caller frees the model */
        qkv_module_free(m);
        return status;
    }
    *out = m;
    return QKV_OK;
}

enum qkv_status qkv_module_of_model(struct qkv_model *model, const char *name, struct qkv_module **out) {
    QKV_CALL_OUT(model ? model->ctx : NULL, out);
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, name);
    enum qkv_status status = qkv_model_check_weights(model);
    return status ? status : module_make(model, name, false, out);
}

/* Sets the cross attention of a decoder without an encoder: as its self attention, without what only that can have. */
static void module_complete_cross(struct qkv_stack_spec *decoder) {
    for (int i = 0; i < decoder->kind_count; i++) {
        struct qkv_layer_spec *kind = &decoder->kinds[i];
        if (kind->cross.heads) continue;
        kind->cross = kind->attention;
        kind->cross.causal = false;
        kind->cross.window = kind->cross.window_right = kind->cross.chunk = kind->cross.share = 0;
        kind->cross.temperature.given = false;
        kind->cross.position.kind = QKV_POSITION_NONE;
    }
}

/* Reduces a stack to one layer, of the kind of that layer. */
static void module_keep_layer(struct qkv_stack_spec *stack, size_t layer) {
    stack->kinds[0] = *qkv_stack_layer(stack, layer);
    stack->kinds[0].attention.share = 0;
    stack->kinds[0].attention.position.per_layer = false; /* of one layer it says nothing */
    stack->kinds[0].name[0] = 0;
    stack->kind_count = stack->layers = 1;
    stack->share = 0;
    stack->kind_of[0] = 0;
}

/* Reduces a spec to the module's stack; *encoder: which one. */
static enum qkv_status module_reduce(struct qkv_context *ctx, enum qkv_module_kind kind, struct qkv_spec *s,
                                     bool *encoder) {
    const struct module_parts *parts = &module_parts[kind];
    enum qkv_status status = qkv_spec_check_as(ctx, s, "spec", false);
    if (status) return status;
    *encoder = !parts->memory && s->encoder.layers > 0;
    if (!*encoder && !s->decoder.layers)
        return qkv_fail(ctx, QKV_ARGUMENT, "module: the spec has no %s to make the module from",
                        parts->memory ? "decoder" : "encoder and no decoder");
    struct qkv_stack_spec *stack = *encoder ? &s->encoder : &s->decoder;
    if (!parts->stack) module_keep_layer(stack, kind == QKV_MODULE_NORM ? (size_t)stack->layers - 1 : 0);
    if (kind == QKV_MODULE_NORM) stack->kinds[0].norm.final = true;
    s->vocab = s->source_vocab = 1;
    stack->embed = (struct qkv_embed_spec){.scale = 1};
    s->tie = QKV_TIE_NONE;
    memset(&s->head, 0, sizeof s->head);
    s->head.kind = QKV_HEAD_NONE;
    if (kind == QKV_MODULE_CROSS_BLOCK) stack->kinds[0].cross_only = true;
    for (int i = 0; i < stack->kind_count && !(parts->roles & MODULE_SELF); i++)
        stack->kinds[i].attention.position.kind = QKV_POSITION_NONE; /* the module needs no tables */
    if (parts->memory) { /* checked like a decoder with an encoder, although none is made */
        module_complete_cross(stack);
        struct qkv_spec both = *s;
        both.encoder = both.decoder;
        status = qkv_spec_check(ctx, &both);
        if (status) return status;
    }
    struct qkv_stack_spec *other = *encoder ? &s->decoder : &s->encoder;
    status = qkv_stack_resize(ctx, other, 0, 0);
    *other = (struct qkv_stack_spec){0};
    return status ? status : qkv_spec_check(ctx, s);
}

/* Checks the widths of memory and values where they are not that of x. */
static enum qkv_status module_check_widths(struct qkv_context *ctx, const struct qkv_module_options *o) {
    enum { WIDTH_MOST = 1 << 20 };
    if (o->kind != QKV_MODULE_CROSS_ATTENTION && (o->key_width || o->value_width))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "module: %s is given, but only cross attention has keys and values of other widths",
                        o->key_width ? "key_width" : "value_width");
    if (o->key_width <= WIDTH_MOST && o->value_width <= WIDTH_MOST) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT, "module: %s is %zu; it must be from 1 to %d, or 0 for the width of x",
                    o->key_width > WIDTH_MOST ? "key_width" : "value_width",
                    o->key_width > WIDTH_MOST ? o->key_width : o->value_width, (int)WIDTH_MOST);
}

void qkv_module_options_init(struct qkv_module_options *options, size_t size) {
    static const struct qkv_module_options usual = {.size = sizeof usual, .kind = QKV_MODULE_MODEL};
    qkv_options_init(options, size, &usual, sizeof usual);
}

/* Makes a module of the part that the model of `spec` has, with new weights. */
static enum qkv_status module_start(struct qkv_context *ctx, const struct qkv_spec *spec,
                                    const struct qkv_model_parts *parts, const char *name, uint64_t seed,
                                    struct qkv_module **out) {
    struct qkv_model *model;
    enum qkv_status status = qkv_model_allocate_parts(ctx, spec, parts, &model);
    if (status) return status;
    status = qkv_weights_start(&model->weights, seed);
    if (!status) status = module_make(model, name, true, out);
    if (status) qkv_model_free(model);
    return status;
}

enum qkv_status qkv_module_create(struct qkv_context *ctx, const struct qkv_spec *spec,
                                  const struct qkv_module_options *options, struct qkv_module **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    struct qkv_module_options own = qkv_module_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_module_options, &own, options);
    if (status) return status;
    options = &own;
    const enum qkv_module_kind kind = options->kind;
    if ((int)kind < 0 || kind >= QKV_MODULE_COUNT)
        return qkv_fail(ctx, QKV_ARGUMENT, "module: the kind is %d; it must be one of enum qkv_module_kind", (int)kind);
    const struct module_parts *parts = &module_parts[kind];
    bool encoder = false;
    char name[32] = "";
    status = module_check_widths(ctx, options);
    if (status) return status;
    struct qkv_spec reduced;
    status = qkv_spec_copy(ctx, spec, &reduced);
    if (!status && kind != QKV_MODULE_MODEL) {
        status = module_reduce(ctx, kind, &reduced, &encoder);
        snprintf(name, sizeof name, "%s%s", encoder ? "encoder" : "decoder", parts->name);
    } else if (!status) {
        status = qkv_spec_check(ctx, &reduced);
    }
    /* with an encoder in the spec, which is not made, memories have the width of its output */
    const size_t memory = parts->memory && spec->encoder.layers ? (size_t)qkv_stack_width(spec, &spec->encoder) : 0;
    const struct qkv_model_parts some = {.roles = parts->roles,
                                         .given_memory = parts->memory,
                                         .key_width = options->key_width ? options->key_width : memory,
                                         .value_width = options->value_width ? options->value_width : memory};
    if (!status) status = module_start(ctx, &reduced, &some, name, options->seed, out);
    qkv_spec_free(&reduced);
    return status;
}

enum qkv_status qkv_module_create_attention(struct qkv_context *ctx, const struct qkv_attention_module_spec *spec,
                                            uint64_t seed, struct qkv_module **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    struct qkv_attention_module_spec whole = *spec;
    enum qkv_status status = qkv_attention_module_complete(ctx, &whole);
    if (status) return status;
    struct qkv_spec model = {0};
    status = qkv_stack_resize(ctx, whole.cross ? &model.decoder : &model.encoder, 1, 1);
    if (status) return status;
    qkv_attention_module_model(&whole, &model);
    const struct module_parts *parts = &module_parts[whole.cross ? QKV_MODULE_CROSS_ATTENTION : QKV_MODULE_ATTENTION];
    const struct qkv_model_parts some = {.roles = parts->roles,
                                         .given_memory = parts->memory,
                                         .key_width = (size_t)whole.kv_in,
                                         .value_width = (size_t)whole.value_in,
                                         .out_width = (size_t)whole.out,
                                         .starts_by_columns = true};
    char name[32];
    snprintf(name, sizeof name, "%s%s", whole.cross ? "decoder" : "encoder", parts->name);
    status = module_start(ctx, &model, &some, name, seed, out);
    qkv_spec_free(&model);
    return status;
}

void qkv_module_free(struct qkv_module *m) {
    if (!m || --m->owners > 0) return; /* its caches hold it */
    qkv_arena_free(&m->arena);
    qkv_arena_free(&m->graph_arena);
    if (m->trains) qkv_model_end_use(m->model, true);
    qkv_model_end_use(m->model, false);
    if (m->owns) qkv_model_free(m->model);
    free(m->calls);
    free(m->arrays);
    free(m->indices);
    free(m);
}

void qkv_module_drop_call(struct qkv_module *m) {
    if (m->calls) memset(m->calls, 0, 2 * (size_t)m->stack->spec->layers * sizeof *m->calls);
}

/* ---- what a module is -------------------------------------------------------------------------------------------- */

enum qkv_module_kind qkv_module_kind(const struct qkv_module *m) {
    if (!m) return (enum qkv_module_kind)0;
    return m->kind;
}

const struct qkv_attention_module_spec *qkv_module_attention_spec(const struct qkv_module *m) {
    if (!m) return NULL;
    return m->calls ? &m->attention : NULL;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

size_t qkv_module_parameters(const struct qkv_module *m) {
    if (!m) return 0;
    return m->count;
}

const struct qkv_array *qkv_module_parameter(const struct qkv_module *m, size_t i) {
    if (!m) return NULL;
    if (i >= m->count) return NULL;
    struct qkv_array *a = &m->arrays[i]; /* numbers may have moved: training converts weights of a file to fp32 */
    const char *name = a->name;
    *a = *qkv_model_parameter(m->model, m->indices[i]);
    a->name = name;
    return a;
}

void qkv_module_clear_gradients(struct qkv_module *m) {
    if (!m) return;
    for (size_t i = 0; i < m->count; i++) {
        float *gradient = m->model->weights.list[m->indices[i]].gradient;
        if (gradient) memset(gradient, 0, qkv_array_elements(&m->arrays[i]) * sizeof *gradient);
    }
}
