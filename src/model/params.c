/* params: the parameters of a spec: which there are, how they are called, where they lie and what they start from.
 *
 * The one place that makes names: {encoder,decoder}.layers.N.attn.q.weight and so on. Weights that are always used together
 * (q, k and v of self attention; k and v of cross attention; gate and up) lie side by side in one tensor, so one product
 * serves them all; each keeps its own name in files. */
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    struct qkv_model *model;
    enum qkv_status status;
    float residual_deviation; /* of matrices that end a residual branch */
};

static const float DEVIATION = 0.02F; /* GPT-2's */

static void params_take(struct builder *b, struct qkv_tensor *tensor, size_t rows, size_t columns) {
    struct qkv_model *m = b->model;
    size_t count;
    if (b->status != QKV_OK) {
        return;
    }
    if (!qkv_multiply(rows, columns, &count)) {
        b->status = qkv_fail(m->ctx, QKV_SPEC, "a parameter of %zu x %zu numbers is too large", rows, columns);
        return;
    }
    if (m->tensor_count == m->tensor_capacity) {
        size_t capacity = m->tensor_capacity ? 2 * m->tensor_capacity : 64;
        struct qkv_tensor **grown = qkv_reallocate(m->ctx, m->tensors, capacity, sizeof *grown);
        if (!grown) {
            b->status = QKV_MEMORY;
            return;
        }
        m->tensors = grown;
        m->tensor_capacity = capacity;
    }
    float *data = qkv_arena_take(&m->arena, count, sizeof(float));
    if (!data) {
        b->status = QKV_MEMORY;
        return;
    }
    *tensor = (struct qkv_tensor){.data = data, .rows = rows, .columns = columns};
    m->tensors[m->tensor_count++] = tensor;
}

/* Names a part of a tensor, from row `row` on: rank 2 is (rows, columns), rank 1 the first `columns` of a single row. */
static void params_name(struct builder *b, struct qkv_tensor *tensor, size_t first, int rank, size_t rows,
                        size_t columns, float deviation, float start, const char *format, ...) QKV_PRINTF(9, 10);
static void params_name(struct builder *b, struct qkv_tensor *tensor, size_t first, int rank, size_t rows,
                        size_t columns, float deviation, float start, const char *format, ...) {
    struct qkv_model *m = b->model;
    if (b->status != QKV_OK) {
        return;
    }
    if (m->parameter_count == m->parameter_capacity) {
        size_t capacity = m->parameter_capacity ? 2 * m->parameter_capacity : 64;
        struct qkv_parameter *grown = qkv_reallocate(m->ctx, m->parameters, capacity, sizeof *grown);
        if (!grown) {
            b->status = QKV_MEMORY;
            return;
        }
        m->parameters = grown;
        m->parameter_capacity = capacity;
    }
    char text[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *owned = qkv_copy_string(m->ctx, text);
    if (!owned) {
        b->status = QKV_MEMORY;
        return;
    }
    struct qkv_parameter *p = &m->parameters[m->parameter_count++];
    *p = (struct qkv_parameter){.deviation = deviation, .start = start};
    float *data = (float *)tensor->data + first;
    p->offset = (size_t)((unsigned char *)data - m->arena.base) / sizeof(float);
    p->array = (struct qkv_array){.name = owned,
                                  .dtype = QKV_F32,
                                  .rank = rank,
                                  .data = m->planned ? NULL : data,
                                  .bytes = rows * columns * sizeof(float)};
    p->array.shape[0] = rank == 2 ? rows : columns;
    p->array.shape[1] = rank == 2 ? columns : 0;
    if (!tensor->name) {
        tensor->name = owned;
    }
}

static void params_norm(struct builder *b, struct qkv_norm *n, const struct qkv_norm_spec *spec, const char *where) {
    size_t C = (size_t)b->model->spec.d_model;
    params_take(b, &n->weight, 1, C);
    params_name(b, &n->weight, 0, 1, 1, C, 0, 1, "%s.weight", where);
    if (spec->bias) {
        params_take(b, &n->bias, 1, C);
        params_name(b, &n->bias, 0, 1, 1, C, 0, 0, "%s.bias", where);
    }
}

/* A linear layer whose rows are shared out to `count` names. */
static void params_linear(struct builder *b, struct qkv_linear *l, size_t in, bool bias, float deviation,
                          const char *where, const char *const *parts, const size_t *outs, size_t count) {
    size_t out = 0, first = 0;
    for (size_t i = 0; i < count; i++) {
        out += outs[i];
    }
    params_take(b, &l->weight, out, in);
    for (size_t i = 0; i < count; first += outs[i++]) {
        params_name(b, &l->weight, first * in, 2, outs[i], in, deviation, 0, "%s.%s.weight", where, parts[i]);
    }
    if (!bias) {
        return;
    }
    params_take(b, &l->bias, 1, out);
    first = 0;
    for (size_t i = 0; i < count; first += outs[i++]) {
        params_name(b, &l->bias, first, 1, 1, outs[i], 0, 0, "%s.%s.bias", where, parts[i]);
    }
}

static void params_attention(struct builder *b, struct qkv_attention *to, const struct qkv_attention_spec *spec,
                             const struct qkv_norm_spec *norm_spec, bool cross, const char *stack, int layer) {
    size_t C = (size_t)b->model->spec.d_model, H = (size_t)spec->heads, Hkv = (size_t)spec->kv_heads;
    size_t D = (size_t)spec->head_dim, Dv = (size_t)spec->value_dim;
    struct qkv_attention_parameters *a = &to->parameters;
    const char *kind = cross ? "cross" : "attn";
    char where[64];
    snprintf(where, sizeof where, "%s.layers.%d.%s_norm", stack, layer, kind);
    params_norm(b, &to->norm, norm_spec, where);
    snprintf(where, sizeof where, "%s.layers.%d.%s", stack, layer, kind);
    const char *const parts[] = {"q", "k", "v"};
    const size_t outs[] = {H * D, Hkv * D, Hkv * Dv};
    bool bias = spec->bias != QKV_BIAS_NONE;
    if (cross) {
        params_linear(b, &a->q, C, bias, DEVIATION, where, parts, outs, 1);
        params_linear(b, &a->kv, C, bias, DEVIATION, where, parts + 1, outs + 1, 2);
    } else {
        params_linear(b, &a->qkv, C, bias, DEVIATION, where, parts, outs, 3);
    }
    params_linear(b, &a->o, H * Dv, spec->bias == QKV_BIAS_ALL, b->residual_deviation, where,
                  (const char *const[]){"o"}, (const size_t[]){C}, 1);
}

static bool params_gated(enum qkv_ffn_kind kind) {
    return kind == QKV_FFN_SWIGLU || kind == QKV_FFN_GEGLU;
}

static void params_ffn(struct builder *b, struct qkv_ffn *f, const struct qkv_ffn_spec *spec,
                       const struct qkv_norm_spec *norm_spec, const char *stack, int layer) {
    size_t C = (size_t)b->model->spec.d_model, F = (size_t)spec->d_ff;
    char where[64];
    snprintf(where, sizeof where, "%s.layers.%d.ffn_norm", stack, layer);
    params_norm(b, &f->norm, norm_spec, where);
    snprintf(where, sizeof where, "%s.layers.%d.ffn", stack, layer);
    const char *const parts[] = {"gate", "up"};
    const size_t outs[] = {F, F};
    size_t skip = params_gated(spec->kind) ? 0 : 1;
    params_linear(b, &f->up, C, spec->bias, DEVIATION, where, parts + skip, outs + skip, 2 - skip);
    params_linear(b, &f->down, F, spec->bias, b->residual_deviation, where, (const char *const[]){"down"},
                  (const size_t[]){C}, 1);
}

static void params_stack(struct builder *b, struct qkv_stack *s, const struct qkv_stack_spec *spec,
                         const char *stack_name, size_t vocab, struct qkv_tensor *shared_token) {
    struct qkv_model *m = b->model;
    size_t C = (size_t)m->spec.d_model;
    s->spec = spec;
    s->name = stack_name;
    s->has_cross = spec == &m->spec.decoder && m->spec.encoder.layers > 0;
    s->layers = qkv_allocate(m->ctx, (size_t)spec->layers, sizeof *s->layers);
    if (!s->layers) {
        b->status = QKV_MEMORY;
    }
    if (b->status != QKV_OK) {
        return;
    }
    s->token = shared_token ? shared_token : &s->token_storage;
    if (!shared_token) {
        params_take(b, &s->token_storage, vocab, C);
        params_name(b, &s->token_storage, 0, 2, vocab, C, DEVIATION, 0, "%s.embed.token.weight", stack_name);
    }
    if (m->spec.position.kind == QKV_POSITION_LEARNED) {
        params_take(b, &s->position, (size_t)m->spec.context, C);
        params_name(b, &s->position, 0, 2, (size_t)m->spec.context, C, DEVIATION, 0, "%s.embed.position.weight",
                    stack_name);
    }
    b->residual_deviation = DEVIATION / sqrtf((float)(spec->layers * (s->has_cross ? 3 : 2)));
    for (int i = 0; i < spec->layers; i++) {
        params_attention(b, &s->layers[i].self, &spec->attention, &spec->norm, false, stack_name, i);
        if (s->has_cross) {
            params_attention(b, &s->layers[i].cross, &spec->cross, &spec->norm, true, stack_name, i);
        }
        params_ffn(b, &s->layers[i].ffn, &spec->ffn, &spec->norm, stack_name, i);
    }
    if (spec->norm.final) {
        char where[64];
        snprintf(where, sizeof where, "%s.norm", stack_name);
        params_norm(b, &s->norm, &spec->norm, where);
    }
}

static void params_head(struct builder *b, struct qkv_stack *last) {
    struct qkv_model *m = b->model;
    const struct qkv_spec *spec = &m->spec;
    if (spec->head.kind == QKV_HEAD_NONE) {
        return;
    }
    size_t C = (size_t)spec->d_model;
    size_t out = (size_t)(spec->head.kind == QKV_HEAD_LM ? spec->vocab : spec->head.classes);
    m->head_weight = spec->tie == QKV_TIE_NONE ? &m->head_storage : last->token;
    if (spec->tie == QKV_TIE_NONE) {
        params_take(b, &m->head_storage, out, C);
        params_name(b, &m->head_storage, 0, 2, out, C, DEVIATION, 0, "head.weight");
    }
    if (spec->head.bias) {
        params_take(b, &m->head_bias, 1, out);
        params_name(b, &m->head_bias, 0, 1, 1, out, 0, 0, "head.bias");
    }
}

enum qkv_status qkv_parameters_build(struct qkv_model *m) {
    struct builder b = {.model = m, .status = QKV_OK};
    const struct qkv_spec *spec = &m->spec;
    bool both = spec->encoder.layers > 0 && spec->decoder.layers > 0;
    if (spec->decoder.layers > 0) {
        params_stack(&b, &m->decoder, &spec->decoder, "decoder", (size_t)spec->vocab, NULL);
    }
    if (spec->encoder.layers > 0) {
        params_stack(&b, &m->encoder, &spec->encoder, "encoder", (size_t)(both ? spec->source_vocab : spec->vocab),
                     both && spec->tie == QKV_TIE_ALL ? m->decoder.token : NULL);
    }
    params_head(&b, m->decoder.spec ? &m->decoder : &m->encoder);
    m->weight_floats = m->arena.used / sizeof(float);
    return b.status;
}

/* ---- values --------------------------------------------------------------------------------------------------------- */

enum { START_PIECE = 1 << 16 };

struct start {
    struct qkv_parameter *parameter;
    float *data;
    uint64_t seed, parameter_index;
};

/* Every piece draws from a stream of its own, so the weights do not depend on who fills what. */
static void start_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct start *s = argument;
    struct qkv_random random = qkv_random_start(s->seed, s->parameter_index << 32 | begin / START_PIECE);
    for (size_t i = begin; i < end; i++) {
        s->data[i] = s->parameter->deviation > 0 ? s->parameter->deviation * (float)qkv_random_normal(&random)
                                                 : s->parameter->start;
    }
}

void qkv_parameters_start(struct qkv_model *m, uint64_t seed) {
    m->changes++;
    for (size_t i = 0; i < m->parameter_count; i++) {
        struct qkv_parameter *p = &m->parameters[i];
        struct start s = {
            .parameter = p, .data = (float *)(void *)m->arena.base + p->offset, .seed = seed, .parameter_index = i};
        qkv_parallel_range(m->ctx, p->array.bytes / sizeof(float), START_PIECE, start_piece, &s);
    }
}

/* From an arena, which may be measuring; fresh memory is zero. */
static float *take_gradients(struct qkv_model *m) {
    float *base = qkv_arena_take(&m->gradients, m->weight_floats, sizeof(float));
    m->gradient_sums = qkv_arena_take(&m->gradients, m->weight_floats / QKV_GRADIENT_PIECE + 1, sizeof(double));
    return m->gradient_sums ? base : NULL;
}

enum qkv_status qkv_parameters_add_gradients(struct qkv_model *m) {
    if (m->gradients.base) {
        return QKV_OK;
    }
    qkv_arena_measure(m->ctx, &m->gradients, "gradients");
    float *base = take_gradients(m);
    if (base && !m->planned) {
        enum qkv_status status = qkv_arena_create(m->ctx, &m->gradients, m->gradients.peak, "gradients");
        if (status != QKV_OK) {
            return status;
        }
        base = take_gradients(m);
    }
    if (!base) {
        return QKV_MEMORY;
    }
    for (size_t i = 0; i < m->tensor_count; i++) {
        struct qkv_tensor *t = m->tensors[i];
        t->gradient = base + ((size_t)((unsigned char *)t->data - m->arena.base)) / sizeof(float);
        t->requires_grad = true;
    }
    return QKV_OK;
}
