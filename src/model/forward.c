/* forward: a model from ids to scores, top to bottom.
 *
 *     x = embed(ids)                                       (N, C)
 *     for each layer:
 *         x = x + attention(norm(x))                       in the form of the layer's blocks
 *         x = x + feed_forward(norm(x))
 *     scores = norm(x)·Wᵀ                                  (N, V)
 *
 * Training, evaluation, decoding with a cache, and modules run these functions. forward_args.c makes their context,
 * qkv_attention_sublayer (sublayer.c) is the attention, and a pass with targets computes scores inside its loss
 * (pass_output.c). A form says how sublayers, their norms and the residual stream are combined: pre-norm
 * x + f(norm(x)) (GPT-2), post-norm norm(x + f(x)), …; each is a file block_NAME.c and a line in QKV_PLACEMENT_LIST.
 * Each layer is of a kind (struct qkv_layer_spec), which says what its sublayers are. */
#include "model/model.h"
#include "model/spec.h"
#include "op/recompute_segment.h"

/* Layers that run as one: a single layer, or a layer and those up to the last one that reads its keys and values. */
struct block {
    struct qkv_forward_args args;
    size_t layer, end;
};
struct block_form {
    qkv_block_form *run;
    bool whole; /* the form is of a whole layer; else of a sublayer */
};
static struct qkv_tensor *layers_run(struct block *b, struct qkv_tensor *x);
static struct qkv_tensor *run_block(struct qkv_tape *tape, const void *argument, struct qkv_tensor *x);
static struct qkv_tensor *block_layer(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x);
static struct qkv_tensor *block_residual(struct qkv_forward_args *f, const struct block_form *form, size_t layer,
                                         enum qkv_sublayer sublayer, struct qkv_tensor *x);
static struct qkv_tensor *self_attention(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x,
                                         struct qkv_tensor *residual);
static struct qkv_tensor *cross_attention(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x,
                                          struct qkv_tensor *residual);
static struct qkv_tensor *feed_forward(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x,
                                       struct qkv_tensor *residual);

struct qkv_tensor *qkv_stack_scores(struct qkv_forward_args *f, struct qkv_model *model, const int32_t *ids,
                                    const int32_t *chosen, size_t count, float *out) {
    struct qkv_tensor *x = qkv_stack_forward(f, ids);
    if (x && (count < x->rows || f->tape->runs.count)) x = qkv_op_gather(f->tape, x, chosen, count);
    return qkv_head_scores(f->tape, model, x, out);
}

struct qkv_tensor *qkv_stack_forward(struct qkv_forward_args *f, const int32_t *ids) {
    const size_t layers = (size_t)f->stack->spec->layers;
    struct qkv_tensor *x = qkv_stack_embed(f, ids);
    x = qkv_stack_layers(f, x, 0, layers);
    if (!qkv_stack_final_norm(f->stack->spec)->final) return x;
    x = qkv_stack_norm(f, x);
    qkv_hook_call(f, QKV_HOOK_FINAL, layers, x);
    return x;
}

/* ---- embedding --------------------------------------------------------------------------------------------------- */

static struct qkv_tensor *embed_norm(struct qkv_forward_args *f, struct qkv_tensor *x) {
    const struct qkv_norm_spec *norm = &f->stack->spec->embed.norm;
    return norm->given ? qkv_norm_apply(f->tape, norm, &f->stack->embed_norm, x, QKV_RESULT_FP32) : x;
}

static struct qkv_tensor *embed_project(struct qkv_forward_args *f, struct qkv_tensor *x) {
    struct qkv_linear *project = &f->stack->project;
    return qkv_op_linear(f->tape, x, &project->weight, qkv_tensor_or_null(&project->bias), QKV_RESULT_FP32);
}

static struct qkv_tensor *embed_masked(struct qkv_forward_args *f, const int32_t *ids, struct qkv_tensor *x) {
    const struct qkv_masked_rows rows = {
        .ids = ids, .batch = f->rows, .documents = f->documents, .starts = f->starts, .lengths = f->lengths, .T = f->T};
    return f->inputs ? x : qkv_op_mask_scale(f->tape, x, &f->stack->spec->embed.masked, &rows);
}

/* The embedding: tokens of width E are projected to C, at the end, or before position and type are added. Its norm is
 * of the sum, or of the tokens alone. */
struct qkv_tensor *qkv_stack_embed(struct qkv_forward_args *f, const int32_t *ids) {
    struct qkv_stack *s = f->stack;
    const struct qkv_embed_spec *spec = &s->spec->embed;
    const bool narrow = spec->width, end = narrow && spec->project == QKV_PROJECT_END, first = narrow && !end;
    const size_t P = (size_t)qkv_position_width(f->spec, s->spec);
    const float rate = (float)qkv_dropout_rate(spec->dropout, f->spec->dropout);
    struct qkv_embedding e = {.scale = f->inputs ? 1 : (float)spec->scale, .N = f->rows ? f->rows->N : f->B * f->T};
    e.tables[QKV_EMBED_TOKEN].rows = f->inputs ? f->inputs : s->token;
    e.tables[QKV_EMBED_TOKEN].places = ids;
    struct qkv_tensor *x = NULL;
    if (first || spec->norm_tokens || spec->masked.given) {
        x = embed_masked(f, ids, qkv_op_embed(f->tape, &e));
        if (first) x = embed_project(f, x);
        if (spec->norm_tokens) x = embed_norm(f, x);
        e.tables[QKV_EMBED_TOKEN].rows = NULL;
    }
    e.tables[QKV_EMBED_POSITION].places = f->positions;
    if (s->embed.learned) {
        e.tables[QKV_EMBED_POSITION].rows = &s->position;
        e.tables[QKV_EMBED_POSITION].first = (size_t)spec->position.offset;
    } else if (s->embed.embed) {
        e.tables[QKV_EMBED_POSITION].rows =
            qkv_tape_view(f->tape, s->embed.embed, (size_t)qkv_stack_context(f->spec, s->spec), P);
    }
    if (spec->types) e.tables[QKV_EMBED_TYPE].rows = &s->type;
    e.tables[QKV_EMBED_TYPE].places = f->types;
    if (!x)
        x = qkv_op_embed(f->tape, &e);
    else if (e.tables[QKV_EMBED_POSITION].rows || spec->types)
        x = qkv_op_add(f->tape, x, qkv_op_embed(f->tape, &e), 1);
    if (!spec->norm_tokens) x = embed_norm(f, x);
    if (end) x = embed_project(f, qkv_op_dropout(f->tape, x, rate));
    qkv_hook_call(f, QKV_HOOK_EMBEDDING, 0, x);
    return end ? x : qkv_op_dropout(f->tape, x, rate);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* The end of the layers that run as one: up to the last one that reads keys and values of one of them. */
static size_t layers_end(const struct qkv_forward_args *f, size_t layer) {
    size_t end = layer + 1;
    for (; f->keys && layer < end; layer++) end = qkv_max(end, f->stack->layers[layer].keys_end);
    return end;
}

struct qkv_tensor *qkv_stack_layers(struct qkv_forward_args *args, struct qkv_tensor *x, size_t first, size_t end) {
    struct block b = {.args = *args};
    const struct qkv_stack_spec *spec = args->stack->spec;
    if (!args->cache && qkv_stack_shares_keys(spec)) {
        b.args.keys = qkv_tape_take_graph(args->tape, (size_t)spec->layers * sizeof *b.args.keys);
        if (!b.args.keys) return NULL;
    }
    for (size_t layer = first; layer < end; layer = b.end) {
        /* a recorded pass may have begun to change what its caller goes on with */
        if (!args->tape->recording && qkv_tape_failed(args->tape, qkv_check_cancelled(args->tape->ctx, "a pass")))
            return NULL;
        b.layer = layer;
        b.end = qkv_min(layers_end(&b.args, layer), end);
        x = layers_run(&b, x);
    }
    return x;
}

/* The activations from outside that backward computes layers from: the memory, and tables of distances, each once. */
static void layers_others(const struct block *b, struct qkv_tensor *others[QKV_SEGMENT_OTHERS]) {
    const struct qkv_forward_args *f = &b->args;
    size_t count = 0;
    others[count++] = f->memory;
    for (size_t layer = b->layer; layer < b->end; layer++) {
        struct qkv_tensor *table = f->distances[f->stack->spec->kind_of[layer]];
        size_t same = 0;
        while (same < count && others[same] != table) same++;
        if (table && same == count && count < QKV_SEGMENT_OTHERS) others[count++] = table;
    }
}

/* Runs layers from b->layer to b->end. Memory that holds keys and values for the later ones is released after them. */
static struct qkv_tensor *layers_run(struct block *b, struct qkv_tensor *x) {
    struct qkv_forward_args *f = &b->args;
    struct qkv_tensor *others[QKV_SEGMENT_OTHERS] = {NULL};
    if (!f->checkpoint) {
        const struct qkv_tape_mark mark = qkv_tape_mark(f->tape);
        struct qkv_tensor *y = run_block(f->tape, b, x);
        return b->end == b->layer + 1 || f->kept ? y : qkv_tape_keep(f->tape, mark, x, y);
    }
    layers_others(b, others);
    return qkv_tape_recompute_segment(f->tape, run_block, b, sizeof *b, x, others);
}

static struct qkv_tensor *run_block(struct qkv_tape *tape, const void *argument, struct qkv_tensor *x) {
    struct block b = *(const struct block *)argument;
    b.args.tape = tape;
    tape->batch = b.args.rows ? b.args.rows : tape->batch; /* backward may run the block after another stack's rows */
    for (size_t layer = b.layer; layer < b.end; layer++) {
        x = block_layer(&b.args, layer, x);
        if (!tape->repeats) qkv_hook_call(&b.args, QKV_HOOK_RESIDUAL, layer, x);
    }
    return x;
}

#define FORM(name, text, help, file, final, norms, whole) [QKV_PLACEMENT_##name] = {qkv_block_##file, whole},
static const struct block_form block_forms[] = {QKV_PLACEMENT_LIST(FORM)};

static struct qkv_tensor *block_layer(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x) {
    const struct block_form *form = &block_forms[qkv_stack_layer(f->stack->spec, layer)->norm.placement];
    if (form->whole) return block_residual(f, form, layer, QKV_SUBLAYER_SELF, x);
    for (enum qkv_sublayer i = QKV_SUBLAYER_SELF; i < QKV_SUBLAYER_COUNT; i++)
        if (qkv_layer_has(f->stack, layer, i)) x = block_residual(f, form, layer, i, x);
    return x;
}

/* Runs one sublayer, or a whole layer, in its form. */
static struct qkv_tensor *block_residual(struct qkv_forward_args *f, const struct block_form *form, size_t layer,
                                         enum qkv_sublayer sublayer, struct qkv_tensor *x) {
    const struct qkv_block b = {.f = f, .layer = layer, .sublayer = sublayer, .run = qkv_stack_sublayer};
    struct qkv_tape_mark mark = qkv_tape_mark(f->tape);
    struct qkv_tensor *y = form->run(&b, x);
    return f->kept || qkv_block_holds(&b) ? y : qkv_tape_keep(f->tape, mark, x, y);
}

/* ---- sublayers --------------------------------------------------------------------------------------------------- */

struct qkv_tensor *qkv_stack_sublayer(struct qkv_forward_args *f, size_t layer, enum qkv_sublayer kind,
                                      struct qkv_tensor *x, struct qkv_tensor *residual) {
    if (kind == QKV_SUBLAYER_SELF) return self_attention(f, layer, x, residual);
    if (kind == QKV_SUBLAYER_CROSS) return cross_attention(f, layer, x, residual);
    return feed_forward(f, layer, x, residual);
}

/* The call of self attention of a layer, and its trainable table of distance_bias: that of its kind, or its own. */
static struct qkv_tensor *self_distances(struct qkv_forward_args *f, size_t layer, struct qkv_attend *attend) {
    const size_t kind = f->stack->spec->kind_of[layer];
    const struct qkv_position_spec *position = &f->stack->spec->kinds[kind].attention.position;
    *attend = f->self[kind];
    if (!position->per_layer) return f->distances[kind];
    struct qkv_tensor *own = qkv_distance_weight(&qkv_layer_weights(f->stack, layer)->distances, position);
    return qkv_distance_table(f->tape, &f->stack->tables[kind], own, attend);
}

static struct qkv_tensor *self_attention(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x,
                                         struct qkv_tensor *residual) {
    const size_t kind = f->stack->spec->kind_of[layer], owner = f->stack->layers[layer].keys_of;
    struct qkv_attend attend;
    struct qkv_tensor *distances = self_distances(f, layer, &attend);
    struct qkv_attention_args a = {.tape = f->tape,
                                   .spec = &f->stack->spec->kinds[kind].attention,
                                   .attend = &attend,
                                   .parameters = &qkv_layer_weights(f->stack, layer)->self.parameters,
                                   .positions = f->positions,
                                   .tables = &f->stack->tables[kind],
                                   .turns = f->turns ? &f->turns[kind] : NULL,
                                   .distance_bias = distances,
                                   .cache = f->cache ? &f->cache[owner] : NULL,
                                   .keys = f->keys ? &f->keys[owner] : NULL,
                                   .residual = residual,
                                   .residual_scale = (float)qkv_stack_layer(f->stack->spec, layer)->residual_scale,
                                   .dattention_bias = f->dself_bias,
                                   .kept = f->kept ? &f->kept[layer * (f->stack->has_cross ? 2 : 1)] : NULL};
    return qkv_attention_sublayer(&a, x);
}

/* The attention of a layer to the source. */
static struct qkv_attention_args cross_args(struct qkv_forward_args *f, size_t layer) {
    const size_t kind = f->stack->spec->kind_of[layer];
    return (struct qkv_attention_args){.tape = f->tape,
                                       .spec = &f->stack->spec->kinds[kind].cross,
                                       .attend = &f->cross[kind],
                                       .parameters = &qkv_layer_weights(f->stack, layer)->cross.parameters,
                                       .cache = f->memory_cache ? &f->memory_cache[layer] : NULL,
                                       .cross = true,
                                       .memory = f->memory,
                                       .values = f->values,
                                       .residual_scale = (float)qkv_stack_layer(f->stack->spec, layer)->residual_scale,
                                       .dattention_bias = f->dcross_bias,
                                       .kept = f->kept ? &f->kept[layer * 2 + 1] : NULL};
}

static struct qkv_tensor *cross_attention(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x,
                                          struct qkv_tensor *residual) {
    struct qkv_attention_args a = cross_args(f, layer);
    a.residual = residual;
    return qkv_attention_sublayer(&a, x);
}

void qkv_stack_cache_source(struct qkv_forward_args *f, size_t layer) {
    const struct qkv_attention_args a = cross_args(f, layer);
    qkv_attention_cache_memory(&a);
}

static struct qkv_tensor *feed_forward(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x,
                                       struct qkv_tensor *residual) {
    const struct qkv_layer_spec *of = qkv_stack_layer(f->stack->spec, layer);
    const struct qkv_ffn_spec *spec = &of->ffn;
    struct qkv_ffn *ffn = &qkv_layer_weights(f->stack, layer)->ffn;
    if (ffn->experts) {
        struct qkv_tensor *y = qkv_experts_forward(f, layer, x);
        return residual ? qkv_op_add(f->tape, residual, y, (float)of->residual_scale) : y;
    }
    const enum qkv_ffn_kind kind = spec->kind;
    struct qkv_tensor *bias = qkv_tensor_or_null(&ffn->up.bias), *down_bias = qkv_tensor_or_null(&ffn->down.bias);
    struct qkv_tensor *hidden =
        qkv_op_linear_activation(f->tape, x, &ffn->up.weight, bias, kind, qkv_ffn_gated(kind), (float)spec->limit);
    hidden = qkv_op_dropout(f->tape, hidden, (float)spec->dropout);
    return residual
               ? qkv_op_linear_add(f->tape, hidden, &ffn->down.weight, down_bias, residual, (float)of->residual_scale)
               : qkv_op_linear(f->tape, hidden, &ffn->down.weight, down_bias, QKV_RESULT_FP32);
}

/* ---- final norm and head ----------------------------------------------------------------------------------------- */

struct qkv_tensor *qkv_stack_norm(struct qkv_forward_args *f, struct qkv_tensor *x) {
    return qkv_norm_apply(f->tape, qkv_stack_final_norm(f->stack->spec), &f->stack->norm, x, QKV_RESULT_FP32);
}

/* The layer between hidden states and scores. If only the product of the scores reads the result, it may be bf16. */
static struct qkv_tensor *head_layer(struct qkv_tape *tape, struct qkv_model *m, struct qkv_tensor *x,
                                     enum qkv_result out) {
    const struct qkv_head_transform_spec *spec = &m->spec.head.transform;
    struct qkv_tensor *weight = &m->head_transform.weight, *bias = qkv_tensor_or_null(&m->head_transform.bias);
    const enum qkv_result result = spec->norm.given ? QKV_RESULT_FP32 : out;
    const enum qkv_ffn_kind kind = (enum qkv_ffn_kind)(spec->activation - 1);
    const bool active = spec->activation != QKV_TRANSFORM_NONE;
    if (active && result == QKV_RESULT_FOR_PRODUCTS)
        return qkv_op_linear_activation(tape, x, weight, bias, kind, false, 0);
    x = qkv_op_linear(tape, x, weight, bias, result);
    if (active) x = qkv_op_activation(tape, x, kind);
    return spec->norm.given ? qkv_norm_apply(tape, &spec->norm, &m->head_norm, x, out) : x;
}

struct qkv_tensor *qkv_head_transform(struct qkv_tape *tape, struct qkv_model *m, struct qkv_tensor *x) {
    const struct qkv_head_transform_spec *spec = &m->spec.head.transform;
    return spec->given && !spec->each_position ? head_layer(tape, m, x, QKV_RESULT_FOR_PRODUCTS) : x;
}

struct qkv_tensor *qkv_head_positions(struct qkv_tape *tape, struct qkv_model *m, struct qkv_tensor *x) {
    const struct qkv_head_transform_spec *spec = &m->spec.head.transform;
    return spec->given && spec->each_position ? head_layer(tape, m, x, QKV_RESULT_FP32) : x;
}

struct qkv_softcap qkv_head_softcap(const struct qkv_model *m) {
    return (struct qkv_softcap){.scale = (float)m->spec.head.scale, .cap = (float)m->spec.head.softcap};
}

struct qkv_tensor *qkv_head_scores(struct qkv_tape *tape, struct qkv_model *m, struct qkv_tensor *x, float *out) {
    const struct qkv_softcap softcap = qkv_head_softcap(m);
    x = qkv_head_transform(tape, m, x);
    return qkv_op_scores(tape, x, m->head_weight, qkv_tensor_or_null(&m->head.bias), &softcap, out);
}
