/* block: the layers of a stack, and the stack itself.
 *
 * A form says how sublayers, their norms and the residual stream are combined: pre-norm x + f(norm(x)), post-norm
 * norm(x + f(x)), … Each form is a file block_NAME.c and a line in QKV_PLACEMENT_LIST. Each layer is of a kind (struct
 * qkv_layer_spec), which says what its sublayers are; the final norm is of the last layer's kind. Sublayers are self
 * attention, cross attention in a decoder with an encoder, and feed-forward. One function serves training, evaluation
 * and decoding with a cache. */
#include "model/model.h"
#include "model/spec.h"
#include "op/recompute_segment.h"

#define FORM(name, text, help, file, final, norms, whole) [QKV_PLACEMENT_##name] = {qkv_block_##file, whole},
static const struct block_form {
    qkv_block_form *run;
    bool whole; /* the form is of a whole layer; else of a sublayer */
} block_forms[] = {QKV_PLACEMENT_LIST(FORM)};

/* Runs one sublayer, or a whole layer, in its form. */
static struct qkv_tensor *block_residual(struct qkv_forward_args *f, const struct block_form *form, size_t layer,
                                         enum qkv_sublayer sublayer, struct qkv_tensor *x) {
    const struct qkv_block b = {.f = f, .layer = layer, .sublayer = sublayer};
    struct qkv_tape_mark mark = qkv_tape_mark(f->tape);
    struct qkv_tensor *y = form->run(&b, x);
    return f->kept || qkv_block_holds(&b) ? y : qkv_tape_keep(f->tape, mark, x, y);
}

struct block {
    struct qkv_forward_args args;
    size_t layer, end; /* one layer, or a layer and those up to the last one that reads its keys and values */
};

static struct qkv_tensor *block_layer(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x) {
    const struct block_form *form = &block_forms[qkv_stack_layer(f->stack->spec, layer)->norm.placement];
    if (form->whole) return block_residual(f, form, layer, QKV_SUBLAYER_SELF, x);
    for (enum qkv_sublayer i = QKV_SUBLAYER_SELF; i < QKV_SUBLAYER_COUNT; i++)
        if (qkv_layer_has(f->stack, layer, i)) x = block_residual(f, form, layer, i, x);
    return x;
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

static struct qkv_tensor *embed_norm(struct qkv_forward_args *f, struct qkv_tensor *x) {
    const struct qkv_norm_spec *norm = &f->stack->spec->embed.norm;
    return norm->given ? qkv_norm_apply(f->tape, norm, &f->stack->embed_norm, x, QKV_RESULT_FP32) : x;
}

static struct qkv_tensor *embed_project(struct qkv_forward_args *f, struct qkv_tensor *x) {
    struct qkv_linear *project = &f->stack->project;
    return qkv_op_linear(f->tape, x, &project->weight, qkv_tensor_or_null(&project->bias), QKV_RESULT_FP32);
}

/* The embedding: tokens of width E are projected to C, at the end, or before position and type are added. */
struct qkv_tensor *qkv_stack_embed(struct qkv_forward_args *f, const int32_t *ids) {
    struct qkv_stack *s = f->stack;
    const struct qkv_embed_spec *spec = &s->spec->embed;
    const bool narrow = spec->width, end = narrow && spec->project == QKV_PROJECT_END;
    const size_t P = (size_t)qkv_position_width(f->spec, s->spec);
    const float rate = (float)qkv_dropout_rate(spec->dropout, f->spec->dropout);
    struct qkv_embedding e = {.scale = f->inputs ? 1 : (float)spec->scale, .N = f->rows ? f->rows->N : f->B * f->T};
    e.tables[QKV_EMBED_TOKEN].rows = f->inputs ? f->inputs : s->token;
    e.tables[QKV_EMBED_TOKEN].places = ids;
    struct qkv_tensor *x = NULL;
    if (narrow && !end) {
        x = embed_project(f, qkv_op_embed(f->tape, &e));
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
    x = embed_norm(f, x);
    if (end) x = embed_project(f, qkv_op_dropout(f->tape, x, rate));
    qkv_hook_call(f, QKV_HOOK_EMBEDDING, 0, x);
    return end ? x : qkv_op_dropout(f->tape, x, rate);
}

/* The end of the layers that run as one: up to the last one that reads keys and values of one of them. */
static size_t layers_end(const struct qkv_forward_args *f, size_t layer) {
    size_t end = layer + 1;
    for (; f->keys && layer < end; layer++) end = qkv_max(end, f->stack->layers[layer].keys_end);
    return end;
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

struct qkv_tensor *qkv_stack_layers(struct qkv_forward_args *args, struct qkv_tensor *x, size_t first, size_t end) {
    struct block b = {.args = *args};
    const struct qkv_stack_spec *spec = args->stack->spec;
    if (!args->cache && qkv_stack_shares_keys(spec)) {
        b.args.keys = qkv_tape_take_graph(args->tape, (size_t)spec->layers * sizeof *b.args.keys);
        if (!b.args.keys) return NULL;
    }
    for (size_t layer = first; layer < end; layer = b.end) {
        b.layer = layer;
        b.end = qkv_min(layers_end(&b.args, layer), end);
        x = layers_run(&b, x);
    }
    return x;
}

struct qkv_tensor *qkv_stack_norm(struct qkv_forward_args *f, struct qkv_tensor *x) {
    return qkv_norm_apply(f->tape, qkv_stack_final_norm(f->stack->spec), &f->stack->norm, x, QKV_RESULT_FP32);
}

struct qkv_tensor *qkv_stack_forward(struct qkv_forward_args *f, const int32_t *ids) {
    const size_t layers = (size_t)f->stack->spec->layers;
    struct qkv_tensor *x = qkv_stack_layers(f, qkv_stack_embed(f, ids), 0, layers);
    if (!qkv_stack_final_norm(f->stack->spec)->final) return x;
    x = qkv_stack_norm(f, x);
    qkv_hook_call(f, QKV_HOOK_FINAL, layers, x);
    return x;
}
