/* params: the weights of a spec: which there are, in the order of files, and which are rows of one operand (q, k and v;
 * gate and up). QKV_ROLE_LIST has their names, shapes and starts. */
#include "model/model.h"
#include "model/spec.h"

#include <stdlib.h>

struct params {
    uint64_t roles; /* the roles that the model has (struct qkv_model_parts) */
    size_t key_width, value_width;
    struct qkv_weights *weights;
    struct qkv_weight_place place;
    struct qkv_dimensions sizes;
};

static struct qkv_dimensions params_sizes(const struct qkv_spec *spec, const struct qkv_stack_spec *stack,
                                          size_t vocab) {
    const size_t C = (size_t)qkv_stack_width(spec, stack);
    return (struct qkv_dimensions){
        .V = vocab,
        .C = C,
        .T = (size_t)qkv_stack_context(spec, stack) + (size_t)stack->embed.position.offset,
        .E = (size_t)qkv_token_width(spec, stack),
        .P = (size_t)qkv_position_width(spec, stack),
        .Y = (size_t)stack->embed.types,
        .M = C,
        .U = C,
        .O = C,
        .N = (size_t)(spec->head.kind == QKV_HEAD_LM ? spec->vocab : spec->head.classes),
        .W = (size_t)(spec->head.transform.given ? spec->head.transform.width : qkv_spec_width(spec))};
}

static bool params_has(uint64_t roles, enum qkv_role role) {
    return roles >> role & 1;
}

static void params_norm(struct params *p, struct qkv_norm *to, enum qkv_role role, const struct qkv_norm_spec *spec) {
    if (params_has(p->roles, role)) qkv_weights_norm(p->weights, &p->place, to, role, spec);
}

/* A sublayer's norm before it, or, of two, after it. */
static void params_norm_of(struct params *p, struct qkv_norm *to, const struct qkv_norm_spec *norm,
                           enum qkv_sublayer sublayer, bool out) {
    static const enum qkv_role roles[QKV_SUBLAYER_COUNT][2] = {
        [QKV_SUBLAYER_SELF] = {QKV_ROLE_ATTN_NORM, QKV_ROLE_ATTN_OUT_NORM},
        [QKV_SUBLAYER_CROSS] = {QKV_ROLE_CROSS_NORM, QKV_ROLE_CROSS_OUT_NORM},
        [QKV_SUBLAYER_FFN] = {QKV_ROLE_FFN_NORM, QKV_ROLE_FFN_OUT_NORM}};
    if (qkv_block_has_norm(norm, sublayer, out)) params_norm(p, to, roles[sublayer][out], norm);
}

static void params_attention(struct params *p, struct qkv_attention *to, const struct qkv_attention_spec *spec,
                             const struct qkv_norm_spec *norm, bool cross) {
    p->sizes.H = (size_t)spec->heads;
    p->sizes.Hkv = (size_t)spec->kv_heads;
    p->sizes.D = (size_t)spec->head_dim;
    p->sizes.Dv = (size_t)spec->value_dim;
    const enum qkv_sublayer sublayer = cross ? QKV_SUBLAYER_CROSS : QKV_SUBLAYER_SELF;
    params_norm_of(p, &to->norm, norm, sublayer, false);
    if (params_has(p->roles, cross ? QKV_ROLE_CROSS_Q : QKV_ROLE_ATTN_Q)) {
        struct qkv_dimensions sizes = p->sizes;
        if (cross) sizes.M = p->key_width, sizes.U = p->value_width;
        struct qkv_weight_place place = p->place;
        place.sizes = &sizes;
        qkv_attention_build_weights(p->weights, &place, spec, cross, &to->parameters);
    }
    params_norm_of(p, &to->out_norm, norm, sublayer, true);
}

static void params_ffn(struct params *p, struct qkv_ffn *to, const struct qkv_ffn_spec *spec,
                       const struct qkv_norm_spec *norm) {
    static const enum qkv_role roles[] = {QKV_ROLE_FFN_GATE, QKV_ROLE_FFN_UP}, down = QKV_ROLE_FFN_DOWN;
    const bool gated = qkv_ffn_gated(spec->kind);
    p->sizes.F = (size_t)spec->d_ff;
    params_norm_of(p, &to->norm, norm, QKV_SUBLAYER_FFN, false);
    p->sizes.Ex = (size_t)spec->experts.count;
    p->sizes.Fs = (size_t)spec->experts.shared;
    if (spec->experts.given && params_has(p->roles, QKV_ROLE_ROUTER)) {
        to->experts = qkv_experts_build_weights(p->weights, &p->place, spec, to);
    } else if (params_has(p->roles, QKV_ROLE_FFN_UP)) {
        qkv_weights_linear(p->weights, &p->place, &to->up, gated ? roles : roles + 1, gated ? 2 : 1, spec->bias);
        qkv_weights_linear(p->weights, &p->place, &to->down, &down, 1, spec->bias);
    }
    params_norm_of(p, &to->out_norm, norm, QKV_SUBLAYER_FFN, true);
}

/* The weights of distance_bias of one attention. */
static void params_distance(struct params *p, const struct qkv_attention_spec *spec, struct qkv_distance_weights *to) {
    if (params_has(p->roles, QKV_ROLE_BUCKETS)) qkv_distance_build_weights(p->weights, &p->place, spec, to);
}

/* Those that the layers of a stack share. */
static void params_distances(struct params *p, struct qkv_stack *s) {
    for (int i = 0; i < s->spec->kind_count; i++) {
        const struct qkv_attention_spec *attention = &s->spec->kinds[i].attention;
        if (!attention->position.per_layer) params_distance(p, attention, &s->distances);
    }
}

/* Notes which layers read keys and values of others. */
static void params_keys(struct qkv_stack *s) {
    for (size_t i = 0; i < (size_t)s->spec->layers; i++) {
        const size_t owner = qkv_stack_keys_of(s->spec, i);
        s->layers[i].keys_of = owner;
        s->layers[owner].keys_end = s->layers[i].keys_end = i + 1;
    }
}

static void params_layers(struct params *p, const struct qkv_stack *s) {
    const struct qkv_stack_spec *spec = s->spec;
    for (size_t i = 0, end; i < (size_t)spec->layers; i = end) {
        for (end = i + 1; end < (size_t)spec->layers && qkv_stack_weights_of(spec, end) == i;) end++;
        struct qkv_layer *layer = &s->layers[i];
        const struct qkv_layer_spec *kind = qkv_stack_layer(spec, i);
        p->place.layer = (int)i;
        p->place.times = (unsigned)(end - i);
        const struct qkv_attention_spec *self = &kind->attention;
        if (qkv_layer_has(s, i, QKV_SUBLAYER_SELF)) {
            if (self->position.per_layer) params_distance(p, self, &layer->distances);
            params_attention(p, &layer->self, self, &kind->norm, false);
        }
        if (s->has_cross) params_attention(p, &layer->cross, &kind->cross, &kind->norm, true);
        params_ffn(p, &layer->ffn, &kind->ffn, &kind->norm);
    }
    p->place.layer = -1;
    p->place.times = 0;
}

/* The first products of a stack that reads no tokens. */
static void params_input(struct params *p, struct qkv_stack *s, const struct qkv_input_spec *input) {
    static const enum qkv_role patch = QKV_ROLE_PATCH, class_token = QKV_ROLE_CLASS, vector = QKV_ROLE_VECTOR,
                               convolutions[] = {QKV_ROLE_CONV1, QKV_ROLE_CONV2};
    const size_t channels = (size_t)input->channels, side = (size_t)input->patch;
    p->sizes.kernel = (size_t)input->kernel;
    switch (input->kind) {
    case QKV_INPUT_TOKENS:
        return;
    case QKV_INPUT_PATCHES:
        if (!qkv_multiply(channels, side * side, &p->sizes.K)) p->sizes.K = SIZE_MAX;
        qkv_weights_linear(p->weights, &p->place, &s->input.first, &patch, 1, true);
        if (input->class_token) qkv_weights_matrix(p->weights, &p->place, &s->input.class_token, &class_token, 1);
        return;
    case QKV_INPUT_FRAMES:
        if (!qkv_multiply(channels, p->sizes.kernel, &p->sizes.K)) p->sizes.K = SIZE_MAX;
        if (!qkv_multiply(p->sizes.P, p->sizes.kernel, &p->sizes.K2)) p->sizes.K2 = SIZE_MAX;
        qkv_weights_linear(p->weights, &p->place, &s->input.first, convolutions, 1, true);
        qkv_weights_linear(p->weights, &p->place, &s->input.second, convolutions + 1, 1, true);
        return;
    case QKV_INPUT_VECTORS:
        p->sizes.K = channels;
        qkv_weights_linear(p->weights, &p->place, &s->input.first, &vector, 1, input->bias);
    }
}

/* shared: the token embedding of the other stack, or NULL. */
static void params_embed(struct params *p, struct qkv_stack *s, struct qkv_tensor *shared) {
    static const enum qkv_role token = QKV_ROLE_TOKEN, position = QKV_ROLE_POSITION, type = QKV_ROLE_TYPE,
                               project = QKV_ROLE_PROJECT;
    const struct qkv_embed_spec *embed = &s->spec->embed;
    s->token = shared ? shared : &s->token_storage;
    if (!params_has(p->roles, QKV_ROLE_TOKEN)) return;
    if (!shared && embed->input.kind == QKV_INPUT_TOKENS)
        qkv_weights_matrix(p->weights, &p->place, &s->token_storage, &token, 1);
    params_input(p, s, &embed->input);
    if (embed->position.kind == QKV_POSITION_LEARNED)
        qkv_weights_matrix(p->weights, &p->place, &s->position, &position, 1);
    if (embed->types) qkv_weights_matrix(p->weights, &p->place, &s->type, &type, 1);
    if (embed->norm.given) params_norm(p, &s->embed_norm, QKV_ROLE_EMBED_NORM, &embed->norm);
    if (embed->width) qkv_weights_linear(p->weights, &p->place, &s->project, &project, 1, embed->bias);
}

/* The number of sublayers that add to the residual stream. */
static size_t params_branches(const struct qkv_stack *s) {
    size_t branches = 0;
    for (size_t i = 0; i < (size_t)s->spec->layers; i++)
        for (enum qkv_sublayer j = QKV_SUBLAYER_SELF; j < QKV_SUBLAYER_COUNT; j++) branches += qkv_layer_has(s, i, j);
    return branches;
}

static void params_stack(struct qkv_model *m, struct qkv_stack *s, const struct qkv_stack_spec *spec, const char *name,
                         size_t vocab, struct qkv_tensor *shared) {
    const size_t memory = (size_t)qkv_stack_width(&m->spec, m->spec.encoder.layers ? &m->spec.encoder : spec);
    s->spec = spec;
    s->name = name;
    s->has_cross = spec == &m->spec.decoder && (m->parts.given_memory || m->spec.encoder.layers > 0);
    s->layers = qkv_allocate(m->ctx, (size_t)spec->layers, sizeof *s->layers);
    if (!s->layers) m->weights.status = QKV_MEMORY;
    if (m->weights.status) return;
    struct params p = {.roles = m->parts.roles,
                       .key_width = m->parts.key_width ? m->parts.key_width : memory,
                       .value_width = m->parts.value_width ? m->parts.value_width : memory,
                       .weights = &m->weights,
                       .sizes = params_sizes(&m->spec, spec, vocab)};
    if (m->parts.out_width) p.sizes.O = m->parts.out_width;
    p.place = (struct qkv_weight_place){.stack = name, .layer = -1, .sizes = &p.sizes, .branches = params_branches(s)};
    params_keys(s);
    params_embed(&p, s, shared);
    params_distances(&p, s);
    params_layers(&p, s);
    const struct qkv_norm_spec *norm = qkv_stack_final_norm(spec);
    if (norm->final) params_norm(&p, &s->norm, QKV_ROLE_NORM, norm);
}

static void params_head(struct qkv_model *m, struct qkv_stack *last) {
    static const enum qkv_role head = QKV_ROLE_HEAD, transform = QKV_ROLE_HEAD_TRANSFORM, norm = QKV_ROLE_HEAD_NORM;
    const struct qkv_spec *spec = &m->spec;
    const struct qkv_dimensions sizes = params_sizes(spec, last->spec, 0);
    const struct qkv_weight_place place = {.layer = -1, .sizes = &sizes};
    if (spec->head.kind == QKV_HEAD_NONE) return;
    const bool tied = qkv_tie_has_head(spec->tie);
    if (spec->head.transform.given)
        qkv_weights_linear(&m->weights, &place, &m->head_transform, &transform, 1, spec->head.transform.bias);
    if (spec->head.transform.given && spec->head.transform.norm.given)
        qkv_weights_norm(&m->weights, &place, &m->head_norm, norm, &spec->head.transform.norm);
    m->head_weight = tied ? last->token : &m->head.weight;
    if (!tied) qkv_weights_matrix(&m->weights, &place, &m->head.weight, &head, 1);
    if (spec->head.bias) qkv_weights_bias(&m->weights, &place, &m->head.bias, &head, NULL, 1);
}

/* Counts the uses of tables in a pass: an embedding of two stacks, or of a stack and the head. */
static void params_count_tables(struct qkv_model *m) {
    if (m->encoder.token) m->encoder.token->learning.times++;
    if (m->decoder.token) m->decoder.token->learning.times++;
    if (m->head_weight) m->head_weight->learning.times++;
}

enum qkv_status qkv_model_build_weights(struct qkv_model *m) {
    const struct qkv_spec *spec = &m->spec;
    const bool both = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    m->weights = (struct qkv_weights){
        .ctx = m->ctx, .arena = &m->arena, .init = m->parts.starts_by_columns ? NULL : &m->spec.init};
    if (spec->decoder.layers > 0) params_stack(m, &m->decoder, &spec->decoder, "decoder", (size_t)spec->vocab, NULL);
    if (spec->encoder.layers > 0)
        params_stack(m, &m->encoder, &spec->encoder, "encoder", (size_t)(both ? spec->source_vocab : spec->vocab),
                     both && qkv_tie_has_stacks(spec->tie) ? m->decoder.token : NULL);
    params_head(m, m->decoder.spec ? &m->decoder : &m->encoder);
    params_count_tables(m);
    return m->weights.status;
}

enum qkv_status qkv_model_add_gradients(struct qkv_model *m) {
    if (m->gradients.base) return QKV_OK;
    qkv_arena_measure(m->ctx, &m->gradients, "gradients");
    enum qkv_status status = qkv_weights_add_gradients(&m->weights, &m->gradients);
    if (status || m->planned) return status;
    status = qkv_arena_create_numbers(m->ctx, &m->gradients, m->gradients.peak, "gradients");
    return status ? status : qkv_weights_add_gradients(&m->weights, &m->gradients);
}
