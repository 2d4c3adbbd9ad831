/* spec_share: layers that read the keys and values of other layers (attention.share): which layers these are, and
 * shares that reach no layer. */
#include "attention/attention.h"
#include "model/spec.h"

size_t qkv_stack_keys_before(const struct qkv_stack_spec *stack, size_t layer, size_t n) {
    const struct qkv_attention_spec *own = &qkv_stack_layer(stack, layer)->attention;
    for (size_t found = 0; layer-- > 0;) {
        const struct qkv_layer_spec *other = qkv_stack_layer(stack, layer);
        if (other->cross_only || qkv_attention_differs(own, &other->attention, NULL)) continue;
        if (++found == n) return layer;
    }
    return SIZE_MAX;
}

size_t qkv_stack_keys_of(const struct qkv_stack_spec *stack, size_t layer) {
    if (!stack) return 0;
    for (size_t share, other; (share = (size_t)qkv_stack_layer(stack, layer)->attention.share) > 0; layer = other) {
        other = qkv_stack_keys_before(stack, layer, share);
        if (other == SIZE_MAX) return layer;
    }
    return layer;
}

bool qkv_stack_shares_keys(const struct qkv_stack_spec *stack) {
    bool shares = false;
    for (int i = 0; i < stack->kind_count; i++) shares = shares || stack->kinds[i].attention.share > 0;
    return shares;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

struct share_check {
    struct qkv_context *ctx;
    const char *name;
    const struct qkv_stack_spec *stack;
    char key[QKV_KIND_TEXT + 32]; /* "decoder.kinds.low.attention.share" */
};

/* The layers of self attention before this one. */
static size_t share_count_before(const struct qkv_stack_spec *s, size_t layer) {
    size_t count = 0;
    for (size_t i = 0; i < layer; i++) count += !qkv_stack_layer(s, i)->cross_only;
    return count;
}

/* The layer before this one that is most like it: of those with the same position, else of all with self attention, one
 * with the same mask, else the last one. */
static size_t share_nearest(const struct qkv_stack_spec *s, size_t layer) {
    const struct qkv_attention_spec *a = &qkv_stack_layer(s, layer)->attention;
    size_t near = 0;
    int best = -1;
    for (size_t i = 0; i < layer; i++) {
        const struct qkv_attention_spec *b = &qkv_stack_layer(s, i)->attention;
        const bool mask = a->causal == b->causal && a->window == b->window && a->window_right == b->window_right &&
                          a->chunk == b->chunk;
        const int alike = 2 * qkv_position_same(&a->position, &b->position) + mask;
        if (qkv_stack_layer(s, i)->cross_only || alike < best) continue;
        best = alike;
        near = i;
    }
    return near;
}

/* A layer that shares keys and values, of which fewer than attention.share layers before it are alike. */
static enum qkv_status share_missing(const struct share_check *c, size_t layer) {
    const struct qkv_stack_spec *s = c->stack;
    const struct qkv_attention_spec *a = &qkv_stack_layer(s, layer)->attention;
    char differs[QKV_DIFFER_TEXT] = "";
    size_t found = 0;
    while (qkv_stack_keys_before(s, layer, found + 1) != SIZE_MAX) found++;
    if (found)
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %s is %d, but of the layers before layer %zu only %zu %s keys and values like its own "
                        "(choose at most %zu)",
                        c->name, c->key, a->share, layer, found, found == 1 ? "has" : "have", found);
    if (!share_count_before(s, layer))
        return qkv_fail(c->ctx, QKV_SPEC,
                        "%s: %s is %d, but layer %zu is the first one with self attention, and has no keys and values "
                        "before it to read (choose 0, or give that layer a kind of its own)",
                        c->name, c->key, a->share, layer);
    const size_t near = share_nearest(s, layer);
    qkv_attention_differs(a, &qkv_stack_layer(s, near)->attention, differs);
    return qkv_fail(c->ctx, QKV_SPEC,
                    "%s: %s is %d, but no layer before layer %zu has keys and values like its own: compared with layer "
                    "%zu, of kind \"%s\", %s (make them alike, or choose 0)",
                    c->name, c->key, a->share, layer, near, qkv_stack_layer(s, near)->name, differs);
}

enum qkv_status qkv_spec_check_share(struct qkv_context *ctx, const char *name, const struct qkv_place *place) {
    struct share_check c = {.ctx = ctx, .name = name, .stack = place->stack};
    char kind[QKV_KIND_TEXT];
    for (size_t layer = 0; layer < (size_t)c.stack->layers; layer++) {
        const struct qkv_layer_spec *spec = qkv_stack_layer(c.stack, layer);
        const int share = spec->attention.share;
        if (!share) continue;
        qkv_kind_text(c.stack == &place->spec->encoder ? "encoder" : "decoder", spec, kind);
        snprintf(c.key, sizeof c.key, "%s.attention.share", kind);
        enum qkv_status status = QKV_OK;
        if (spec->cross_only)
            status = qkv_fail(ctx, QKV_SPEC,
                              "%s: %s is %d, but cross_only is true: the layer has no self attention; leave it out",
                              name, c.key, share);
        else if (qkv_stack_keys_before(c.stack, layer, (size_t)share) == SIZE_MAX)
            status = share_missing(&c, layer);
        if (status) qkv_spec_fail_key(ctx, c.key);
        if (status) return status;
    }
    return QKV_OK;
}
