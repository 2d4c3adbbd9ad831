/* Whether a spec can be built: every field is in its range, then fields are checked against each other. */
#include "attention/attention.h"
#include "kernel/kernel.h"
#include "model/spec_tables.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1 << 20 }; /* the maximum number of channels of all heads together */

struct checker {
    struct qkv_context *ctx;
    struct qkv_written_spec *written;
    const char *name;
    bool vocab_known;
};

/* ---- single fields ----------------------------------------------------------------------------------------------- */

static enum qkv_status check_field(const struct checker *c, const struct qkv_key *key, const struct qkv_place *place) {
    double x = qkv_key_get(key, place);
    char range[256], shown[QKV_REAL_TEXT];
    size_t choices = 0;
    switch (key->type) {
    case QKV_KEY_FLAG:
    case QKV_KEY_LIST: /* qkv_scaling_check knows how long the list must be */
        return QKV_OK;
    case QKV_KEY_CHOICE:
        while (key->choices[choices].text) choices++;
        if (x >= 0 && x < (double)choices && *key->choices[(size_t)x].text) return QKV_OK;
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

/* Notes that the message of a failure is about the key at `path`, unless another key is noted already. */
static enum qkv_status check_about(const struct checker *c, enum qkv_status status, const char *path) {
    if (status == QKV_SPEC && !qkv_message_key(c->ctx)) qkv_spec_fail_key(c->ctx, path);
    return status;
}

/* The divisors of n that are nearest to k, "6 or 8". */
static void near_divisors(int n, int k, char *text, size_t size) {
    int below = k < n ? k : n, above = k + 1;
    while (below > 1 && n % below) below--;
    while (above < n && n % above) above++;
    if (above < n || (above == n && below != n))
        snprintf(text, size, "%d or %d", below, above);
    else
        snprintf(text, size, "%d", below);
}

/* Checks heads where head_dim has no value: its default needs heads to divide d_model. */
static enum qkv_status check_heads(const struct checker *c, const struct qkv_place *place) {
    const struct qkv_attention_spec *a = place->object;
    char divisors[32];
    const int C = qkv_stack_width(&c->written->spec, place->stack);
    if (a->head_dim != 0 || a->heads < 1 || C < 1 || C % a->heads == 0) return QKV_OK;
    near_divisors(C, a->heads, divisors, sizeof divisors);
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: %sheads is %d, which does not divide d_model %d (give head_dim, or choose %s)", c->name,
                    place->path, a->heads, C, divisors);
}

static enum qkv_status check_attention(const struct checker *c, const struct qkv_place *place);
static enum qkv_status check_norm(const struct checker *c, const struct qkv_place *place);
static enum qkv_status check_share(const struct checker *c, const struct qkv_place *place);
static enum qkv_status check_experts(const struct checker *c, const struct qkv_place *place);
static enum qkv_status check_keys(const struct checker *c, const struct qkv_key *keys, const struct qkv_place *place);

static enum qkv_status check_object(const struct checker *c, const struct qkv_key *keys, const struct qkv_place *in) {
    bool attention = keys == qkv_attention_keys, norm = keys->choices == qkv_norm_choices;
    enum qkv_status status = attention ? check_heads(c, in) : QKV_OK;
    if (!status) status = check_keys(c, keys, in);
    if (attention && !status) status = check_attention(c, in);
    if (keys == qkv_ffn_keys && !status) status = check_experts(c, in);
    if (in->object == (void *)in->stack && !status) status = check_share(c, in);
    if (in->object == (void *)in->stack && !status) status = qkv_spec_check_share(c->ctx, c->name, in);
    if (norm && !status) status = check_norm(c, in);
    return check_about(c, status, in->path);
}

/* ---- kinds of layers --------------------------------------------------------------------------------------------- */

static enum qkv_status check_kind_name(const struct checker *c, const struct qkv_place *place, int i) {
    const struct qkv_stack_spec *s = place->stack;
    const char *name = s->kinds[i].name;
    bool ends = memchr(name, 0, QKV_KIND_NAME) != NULL;
    if (!ends || !(qkv_kind_name_valid(name) || (!*name && s->kind_count == 1)))
        return qkv_fail(
            c->ctx, QKV_SPEC,
            "%s: the name of %skinds[%d] is \"%.*s\"; it must be 1 to %d letters, digits, _ or - (none where "
            "there is one kind)",
            c->name, place->path, i, QKV_KIND_NAME, name, QKV_KIND_NAME - 1);
    for (int other = 0; other < i; other++)
        if (!strcmp(s->kinds[other].name, name))
            return qkv_fail(c->ctx, QKV_SPEC, "%s: two of %skinds are called \"%s\"; each needs its own name", c->name,
                            place->path, name);
    return QKV_OK;
}

/* Every layer must have a kind, and every kind a layer. */
static enum qkv_status check_pattern(const struct checker *c, const struct qkv_place *place) {
    const struct qkv_stack_spec *s = place->stack;
    bool used[QKV_KINDS_MAX] = {false};
    if (s->kind_count < 1 || s->kind_count > QKV_KINDS_MAX)
        return qkv_fail(c->ctx, QKV_SPEC, "%s: %skind_count is %d; a stack has 1 to %d kinds of layers", c->name,
                        place->path, s->kind_count, QKV_KINDS_MAX);
    for (int layer = 0; layer < s->layers; layer++) {
        if (s->kind_of[layer] >= s->kind_count)
            return qkv_fail(c->ctx, QKV_SPEC, "%s: %skind_of[%d] is %d, but there are %d kinds, counted from 0",
                            c->name, place->path, layer, s->kind_of[layer], s->kind_count);
        used[s->kind_of[layer]] = true;
    }
    enum qkv_status status = QKV_OK;
    for (int i = 0; i < s->kind_count && !status; i++) {
        status = check_kind_name(c, place, i);
        if (!status && !used[i])
            status = qkv_fail(c->ctx, QKV_SPEC, "%s: no layer is of %skinds[%d], \"%s\"; leave it out", c->name,
                              place->path, i, s->kinds[i].name);
    }
    return status;
}

/* Layers of a stack with the same kind of learned distance_bias share one table, so their settings must agree, unless
 * each layer has its own. */
static enum qkv_status check_shared(const struct checker *c, const struct qkv_place *place, size_t kind) {
    const struct qkv_stack_spec *s = place->stack;
    const struct qkv_attention_spec *a = &s->kinds[kind].attention;
    struct qkv_distance_weights none;
    for (size_t i = 0; i < kind && !a->position.per_layer && qkv_distance_weight(&none, &a->position); i++) {
        const struct qkv_attention_spec *b = &s->kinds[i].attention;
        if (b->position.per_layer || qkv_position_shares(a, b) ||
            qkv_distance_weight(&none, &b->position) != qkv_distance_weight(&none, &a->position))
            continue;
        return qkv_fail(
            c->ctx, QKV_SPEC,
            "%s: %skinds %s and %s both learn biases by distance, but not the same: layers of a stack share "
            "them, so heads, causal, all of attention.position and, for slopes of form falcon, head_dim must be alike "
            "(or set attention.position.per_layer of one of them to true, or choose another position.kind)",
            c->name, place->path, s->kinds[i].name, s->kinds[kind].name);
    }
    return QKV_OK;
}

static enum qkv_status check_kinds(const struct checker *c, const struct qkv_key *kinds,
                                   const struct qkv_place *place) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < (size_t)place->stack->kind_count && !status; i++) {
        struct qkv_place in = qkv_kind_enter(place, kinds, i);
        status = check_keys(c, kinds->keys, &in);
        if (!status) status = check_shared(c, place, i);
    }
    return status;
}

/* Checks the keys of a spec or of an object in it, in the table's order: `layers`, then the pattern, then the kinds. */
static enum qkv_status check_keys(const struct checker *c, const struct qkv_key *keys, const struct qkv_place *place) {
    enum qkv_status status = QKV_OK;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        if (key->type == QKV_KEY_PATTERN) status = check_pattern(c, place);
        if (status || key->type == QKV_KEY_CONSTANT || key->type == QKV_KEY_VERSION || key->type == QKV_KEY_PATTERN ||
            !qkv_key_applies(key, place) || !qkv_key_given(key, place))
            continue;
        struct qkv_place in = qkv_key_enter(place, key);
        if (key->type == QKV_KEY_KINDS)
            status = check_kinds(c, key, place);
        else if (key->type == QKV_KEY_OBJECT)
            status = check_object(c, key->keys, &in);
        else
            status = check_about(c, check_field(c, key, place), in.path);
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
    const struct qkv_position_spec *position = &a->position;
    char divisors[32];
    if (a->heads % a->kv_heads) {
        near_divisors(a->heads, a->kv_heads, divisors, sizeof divisors);
        return qkv_fail(c->ctx, QKV_SPEC, "%s: %skv_heads is %d, which does not divide heads %d (choose %s)", c->name,
                        place->path, a->kv_heads, a->heads, divisors);
    }
    if (a->window_right > 0 && a->causal && !c->written->spec.prefix)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %swindow_right is %d, but causal is true: no query sees a key to its right (leave it out, "
                        "or set causal to false)",
                        c->name, place->path, a->window_right);
    if (a->share && place->like)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sshare is %d, but cross attention reads the encoder's output; only self attention shares "
                        "keys and values (leave it out)",
                        c->name, place->path, a->share);
    if (place->layer->cross_only && !place->like && position->kind != QKV_POSITION_NONE)
        return qkv_fail(
            c->ctx, QKV_SPEC,
            "%s: %sposition is given, but cross_only is true: the layer has no self attention; leave it out", c->name,
            place->path);
    enum qkv_status status = check_width(c, place, "head_dim", a->head_dim);
    if (!status) status = check_width(c, place, "value_dim", a->value_dim);
    if (!status && !place->like) status = qkv_distance_check(c->ctx, c->name, place->path, a);
    bool rotated = position->kind == QKV_POSITION_ROPE && !place->like;
    if (!status)
        status = qkv_attention_form_check(c->ctx, c->name, place->path, a, place->like != NULL,
                                          qkv_stack_width(&c->written->spec, place->stack));
    if (status || !rotated) return status;
    char head[QKV_KEY_PATH + 32];
    snprintf(head, sizeof head, "%s%s", place->path, qkv_attention_rotated_key(a));
    return qkv_rotation_check(c->ctx, c->name, place->path, position, head, qkv_attention_rotated(a));
}

static enum qkv_status check_norm(const struct checker *c, const struct qkv_place *place) {
    const struct qkv_norm_spec *norm = place->object;
    if (!norm->attention && qkv_placement_norms(norm->placement) == QKV_BLOCK_NORMS_SHARED)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sattention is false, but with placement parallel all sublayers read that norm (choose "
                        "parallel_two, or leave it out)",
                        c->name, place->path);
    const struct qkv_layer_spec *layer = place->layer;
    if (layer && norm == &layer->norm && layer->cross_only &&
        qkv_placement_norms(norm->placement) == QKV_BLOCK_NORMS_SHARED)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %splacement is parallel, whose norm is that of self attention, but cross_only is true: "
                        "the layer has none (choose parallel_two)",
                        c->name, place->path);
    if (norm->bias && !qkv_norm_centered(norm->kind))
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sbias is true, but an rmsnorm has no bias (leave it out, or choose "
                        "layernorm)",
                        c->name, place->path);
    if (!norm->bias || norm->weight) return QKV_OK;
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: %sbias is true, but %sweight is false: a bare norm has neither (leave one of them out)",
                    c->name, place->path, place->path);
}

static enum qkv_status check_experts(const struct checker *c, const struct qkv_place *place) {
    const struct qkv_ffn_spec *ffn = place->object;
    const struct qkv_experts_spec *e = &ffn->experts;
    const char *path = place->path;
    char divisors[32];
    if (!e->given) return QKV_OK;
    if (e->top_k > e->count)
        return qkv_fail(c->ctx, QKV_SPEC, "%s: %sexperts.top_k is %d, but there are %d experts; it may be at most %d",
                        c->name, path, e->top_k, e->count, e->count);
    if (e->count % e->groups) {
        near_divisors(e->count, e->groups, divisors, sizeof divisors);
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sexperts.groups is %d, which does not divide the count of %d (choose %s)", c->name, path,
                        e->groups, e->count, divisors);
    }
    const int each = e->count / e->groups, least = (e->top_k + each - 1) / each;
    if (e->groups > 1 && e->top_groups > e->groups)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sexperts.top_groups is %d, but there are %d groups; it may be at most %d", c->name, path,
                        e->top_groups, e->groups, e->groups);
    if (e->groups > 1 && e->top_groups < least)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sexperts.top_groups is %d, whose %d experts are fewer than top_k %d (choose at least %d)",
                        c->name, path, e->top_groups, e->top_groups * each, e->top_k, least);
    if (e->groups > 1 && e->group_score == QKV_GROUP_SCORE_TOP2 && each < 2)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sexperts.groups is %d, so a group has one expert, and no score of its two best (choose "
                        "fewer groups, or group_score max)",
                        c->name, path, e->groups);
    if (ffn->dropout == 0) return QKV_OK;
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: %sdropout is %g, which a feed-forward with experts has no place for (set it to 0; the "
                    "dropout of the whole spec is that of what it gives)",
                    c->name, path, ffn->dropout);
}

/* The first layer that would share weights with a layer of another kind in so many groups; 0: there is none. */
static size_t check_find_other(const struct qkv_stack_spec *s, int groups) {
    for (size_t i = 0; i < (size_t)s->layers; i++)
        if (s->kind_of[i] != s->kind_of[qkv_stack_first_of_group((size_t)s->layers, (size_t)groups, i)]) return i;
    return 0;
}

/* Layers that share weights must be of one kind. */
static enum qkv_status check_share(const struct checker *c, const struct qkv_place *place) {
    const struct qkv_stack_spec *s = place->stack;
    if (s->share > s->layers)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sshare is %d, but there are %d layers; it must be a number of groups from 1 to %d, or 0",
                        c->name, place->path, s->share, s->layers, s->layers);
    const size_t layer = check_find_other(s, s->share), like = qkv_stack_weights_of(s, layer);
    if (!layer) return QKV_OK;
    int fits = s->share;
    while (check_find_other(s, fits)) fits++; /* ends: with one group per layer nothing is shared */
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: %sshare is %d, so layer %zu has the weights of layer %zu, but is of the kind \"%s\" and that "
                    "one of \"%s\" (choose %d, or 0)",
                    c->name, place->path, s->share, layer, like, qkv_stack_layer(s, layer)->name,
                    qkv_stack_layer(s, like)->name, fits);
}

static enum qkv_status check_head(const struct checker *c, bool both) {
    const struct qkv_spec *s = &c->written->spec;
    if (both && qkv_head_has_classes(s))
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: head.kind is %s, which needs an encoder or a decoder alone (set one of them to null, "
                        "or choose lm)",
                        c->name, qkv_head_text(s->head.kind));
    const char *tie = qkv_tie_text(s->tie);
    if (qkv_tie_has_head(s->tie) && s->head.kind != QKV_HEAD_LM)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: tie is %s, but only a head of kind lm can use the embedding (choose none)", c->name, tie);
    if (!qkv_tie_has_stacks(s->tie)) return QKV_OK;
    const char *apart = qkv_tie_has_head(s->tie) ? "head" : "none";
    if (!both)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: tie is %s, which needs an encoder beside a decoder (choose %s: the same for one stack)",
                        c->name, tie, apart);
    if (s->source_vocab == s->vocab) return QKV_OK;
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: tie is %s, but source_vocab is %d and vocab is %d; one embedding needs them to be equal (or "
                    "choose %s)",
                    c->name, tie, s->source_vocab, s->vocab, apart);
}

/* A tied table needs equal widths of the head and the embedding, or of both stacks. */
static enum qkv_status check_tie(const struct checker *c) {
    const struct qkv_spec *s = &c->written->spec;
    const struct qkv_stack_spec *last = s->decoder.layers ? &s->decoder : &s->encoder;
    const int E = qkv_token_width(s, last), C = qkv_spec_width(s), source = qkv_token_width(s, &s->encoder);
    const bool head = qkv_tie_has_head(s->tie);
    if (head && s->head.kind == QKV_HEAD_LM && s->head.transform.given && s->head.transform.width != E)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: tie is %s, but head.transform.width is %d and tokens are %d wide; a head that uses the "
                        "embedding needs "
                        "them to be equal (set head.transform.width=%d, or tie=none)",
                        c->name, qkv_tie_text(s->tie), s->head.transform.width, E, E);
    if (head && E != C && !s->head.transform.given)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: tie is %s, but tokens are %d wide (embed.width) and the head reads %d (d_model); set "
                        "head.transform.width=%d, or tie=none, or leave embed.width out",
                        c->name, qkv_tie_text(s->tie), E, C, E);
    if (!qkv_tie_has_stacks(s->tie) || source == E) return QKV_OK;
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: tie is %s, but tokens are %d wide in the encoder and %d in the decoder; one embedding needs "
                    "them to be equal (or choose %s)",
                    c->name, qkv_tie_text(s->tie), source, E, head ? "head" : "none");
}

/* Masks are counted in whole sequences, so a token would see what follows it. */
static enum qkv_status check_masked(const struct checker *c, const struct qkv_stack_spec *stack, const char *name) {
    const struct qkv_spec *s = &c->written->spec;
    const struct qkv_masked_spec *masked = &stack->embed.masked;
    const bool source = stack == &s->encoder && s->decoder.layers;
    const int vocab = source ? s->source_vocab : s->vocab;
    if (!masked->given) return QKV_OK;
    if (stack->embed.input.kind != QKV_INPUT_TOKENS)
        return qkv_fail(
            c->ctx, QKV_SPEC,
            "%s: %sembed.masked is of embeddings of tokens, but %sembed.input.kind is %s (leave embed.masked "
            "out)",
            c->name, name, name, qkv_input_text(stack->embed.input.kind));
    if (qkv_stack_find_causal(stack, true))
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %sembed.masked counts the masks of whole sequences, but %sattention.causal is true: a "
                        "token must not see those after it (leave embed.masked out, or set causal to false)",
                        c->name, name, name);
    if (!vocab || masked->token < vocab) return QKV_OK; /* 0: not known yet, or the model has no tokens */
    return qkv_fail(c->ctx, QKV_SPEC, "%s: %sembed.masked.token is %d, but the ids of %d tokens end at %d", c->name,
                    name, masked->token, vocab, vocab - 1);
}

static enum qkv_status check_embedding(const struct checker *c, const struct qkv_stack_spec *stack, const char *name) {
    const struct qkv_spec *s = &c->written->spec;
    const struct qkv_embed_position_spec *p = &stack->embed.position;
    const int C = qkv_position_width(s, stack), context = qkv_stack_context(s, stack), most = 1 << 24;
    const char *where = qkv_spec_topology(s) == QKV_ENCODER_DECODER ? name : "";
    if (stack->layers == 0) return QKV_OK;
    if (p->kind == QKV_POSITION_SINUSOIDAL && p->layout == QKV_SINUSOID_SPACED && C < 4)
        return qkv_fail(
            c->ctx, QKV_SPEC,
            "%s: %sembed.position.layout is spaced, whose angles need at least 4 channels, but there are %d; "
            "choose halves or interleaved",
            c->name, where, C);
    if (p->kind == QKV_POSITION_NONE || p->offset <= most - context) return check_masked(c, stack, name);
    return qkv_fail(
        c->ctx, QKV_SPEC,
        "%s: %sembed.position.offset is %d, which with context %d makes a table of more than %d rows; it may "
        "be at most %d",
        c->name, where, p->offset, context, most, most - context);
}

static enum qkv_status check_patches(const struct checker *c, const char *name, const struct qkv_stack_spec *stack) {
    const int context = qkv_stack_context(&c->written->spec, stack);
    const struct qkv_input_spec *input = &stack->embed.input;
    const int sides[] = {input->height, input->width};
    char divisors[32];
    for (size_t i = 0; i < 2; i++) {
        if (sides[i] % input->patch == 0) continue;
        near_divisors(sides[i], input->patch, divisors, sizeof divisors);
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: the patch of %s.embed.input is %d, which does not divide its %s of %d (choose %s)",
                        c->name, name, input->patch, i ? "width" : "height", sides[i], divisors);
    }
    const size_t patches = qkv_stack_patches(stack);
    if (patches <= (size_t)context) return QKV_OK;
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: an image of %s.embed.input has %zu positions%s, more than the context of %d (set context=%zu)",
                    c->name, name, patches, input->class_token ? " with its class token" : "", context, patches);
}

/* Checks a stack that reads no tokens. */
static enum qkv_status check_stack_input(const struct checker *c, const char *name,
                                         const struct qkv_stack_spec *stack) {
    const struct qkv_spec *s = &c->written->spec;
    const struct qkv_input_spec *input = &stack->embed.input;
    const bool last = stack == &s->decoder || !s->decoder.layers;
    if (!stack->layers || input->kind == QKV_INPUT_TOKENS) return QKV_OK;
    const char *kind = qkv_input_text(input->kind);
    if (stack == &s->decoder && s->encoder.layers)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: decoder.embed.input.kind is %s, but a decoder beside an encoder reads tokens (give the "
                        "encoder its own: encoder.embed.input)",
                        c->name, kind);
    if (qkv_tie_has_stacks(s->tie) || (s->tie == QKV_TIE_HEAD && last))
        return qkv_fail(c->ctx, QKV_SPEC, "%s: tie is %s, but the %s reads %s and has no token embedding (set tie=%s)",
                        c->name, qkv_tie_text(s->tie), name, kind, last || !qkv_tie_has_head(s->tie) ? "none" : "head");
    if (stack->embed.width && stack->embed.project == QKV_PROJECT_TOKEN)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %s.embed.project is token, but the stack reads %s, not tokens (choose end, or leave "
                        "embed.width out)",
                        c->name, name, kind);
    if (input->kind == QKV_INPUT_FRAMES && input->kernel % 2 == 0)
        return qkv_fail(c->ctx, QKV_SPEC, "%s: the kernel of %s.embed.input is %d; it must be odd (choose %d)", c->name,
                        name, input->kernel, input->kernel + 1);
    return input->kind == QKV_INPUT_PATCHES ? check_patches(c, name, stack) : QKV_OK;
}

static enum qkv_status check_inputs(const struct checker *c) {
    const struct qkv_spec *s = &c->written->spec;
    enum qkv_status status = check_stack_input(c, "encoder", &s->encoder);
    return status ? status : check_stack_input(c, "decoder", &s->decoder);
}

static enum qkv_status check_prefix(const struct checker *c) {
    const struct qkv_spec *s = &c->written->spec;
    char text[QKV_KIND_TEXT];
    if (!s->prefix) return QKV_OK;
    if (qkv_spec_topology(s) != QKV_DECODER_ALONE || s->head.kind != QKV_HEAD_LM)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: prefix is true, which needs a decoder alone with a head of kind lm: a prefix is a part of "
                        "a prompt",
                        c->name);
    const struct qkv_layer_spec *kind = qkv_stack_find_causal(&s->decoder, false);
    if (!kind) return QKV_OK;
    qkv_kind_text("decoder", kind, text);
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: prefix is true, but %s.attention.causal is false: all positions see one another anyway",
                    c->name, text);
}

/* The lists of a stack that was filled in by hand are there. */
static enum qkv_status check_lists(const struct checker *c, const struct qkv_stack_spec *stack, const char *name) {
    if (stack->layers == 0 || (stack->kinds && stack->kind_of)) return QKV_OK;
    return qkv_fail(c->ctx, QKV_SPEC, "%s: %s.%s is NULL, but there are layers; qkv_stack_resize makes the list",
                    c->name, name, stack->kinds ? "kind_of" : "kinds");
}

enum qkv_status qkv_spec_check_written(struct qkv_context *ctx, struct qkv_written_spec *written, const char *name,
                                       bool vocab_known) {
    struct checker c = {.ctx = ctx, .written = written, .name = name, .vocab_known = vocab_known};
    struct qkv_place place = qkv_spec_place(written);
    const struct qkv_spec *spec = &written->spec;
    if (spec->encoder.layers == 0 && spec->decoder.layers == 0)
        return qkv_fail(ctx, QKV_SPEC, "%s: it has neither an encoder nor a decoder; give at least one", name);
    enum qkv_status status = check_lists(&c, &spec->encoder, "encoder");
    if (!status) status = check_lists(&c, &spec->decoder, "decoder");
    if (!status) status = check_keys(&c, qkv_spec_keys, &place);
    if (!status) status = check_about(&c, check_head(&c, qkv_spec_topology(spec) == QKV_ENCODER_DECODER), "head");
    if (!status) status = check_about(&c, check_tie(&c), "tie");
    if (!status) status = check_about(&c, check_embedding(&c, &spec->encoder, "encoder."), "embed");
    if (!status) status = check_about(&c, check_embedding(&c, &spec->decoder, "decoder."), "embed");
    if (!status) status = check_about(&c, check_inputs(&c), "embed.input");
    return status ? status : check_about(&c, check_prefix(&c), "prefix");
}

enum qkv_status qkv_spec_check_object(struct qkv_context *ctx, struct qkv_written_spec *written, const char *name,
                                      const struct qkv_key *keys, const struct qkv_place *place) {
    const struct checker c = {.ctx = ctx, .written = written, .name = name, .vocab_known = true};
    return check_object(&c, keys, place);
}

enum qkv_status qkv_spec_check_as(struct qkv_context *ctx, const struct qkv_spec *spec, const char *name,
                                  bool vocab_known) {
    struct qkv_written_spec written;
    qkv_spec_write(spec, &written);
    return qkv_spec_check_written(ctx, &written, name, vocab_known);
}

enum qkv_status qkv_spec_check(struct qkv_context *ctx, const struct qkv_spec *spec) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, spec);
    return qkv_spec_check_as(ctx, spec, "spec", true);
}
