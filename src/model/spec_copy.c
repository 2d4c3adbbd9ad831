/* The memory of a spec: kinds of layers are allocated, as most specs have one and a stack may have many layers. */
#include "model/spec.h"

#include <stdlib.h>
#include <string.h>

/* A count of a spec that was filled in by hand, in its range. */
static size_t stack_count(int count, int most) {
    return count < 0 ? 0 : (size_t)(count < most ? count : most);
}

/* Takes a block for the lists of `to`, and copies those of `from`, which may be shorter. */
static enum qkv_status stack_take(struct qkv_context *ctx, const struct qkv_stack_spec *from, size_t layers,
                                  size_t kinds, struct qkv_stack_spec *to) {
    const size_t old_layers = stack_count(from->layers, QKV_LAYERS_MAX),
                 old_kinds = stack_count(from->kind_count, QKV_KINDS_MAX);
    struct qkv_layer_spec *block = NULL;
    uint8_t *kind_of = NULL;
    if (kinds + layers) {
        block = qkv_allocate(ctx, 1, kinds * sizeof *block + layers + 1);
        if (!block) return QKV_MEMORY;
        kind_of = (uint8_t *)(block + kinds);
    }
    if (from->kinds && block) memcpy(block, from->kinds, (old_kinds < kinds ? old_kinds : kinds) * sizeof *block);
    if (from->kind_of && block) memcpy(kind_of, from->kind_of, old_layers < layers ? old_layers : layers);
    to->kinds = block;
    to->kind_of = kind_of;
    return QKV_OK;
}

void qkv_spec_free(struct qkv_spec *spec) {
    if (!spec) return;
    free(spec->encoder.kinds);
    free(spec->decoder.kinds);
    *spec = (struct qkv_spec){0};
}

enum qkv_status qkv_stack_resize(struct qkv_context *ctx, struct qkv_stack_spec *stack, int layers, int kind_count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, stack);
    if (layers < 0 || layers > QKV_LAYERS_MAX || kind_count < 0 || kind_count > QKV_KINDS_MAX)
        return qkv_fail(ctx, QKV_ARGUMENT, "a stack has 0 to %d layers and 0 to %d kinds of them, not %d and %d",
                        QKV_LAYERS_MAX, QKV_KINDS_MAX, layers, kind_count);
    struct qkv_layer_spec *old = stack->kinds;
    enum qkv_status status = stack_take(ctx, stack, (size_t)layers, (size_t)kind_count, stack);
    if (status) return status;
    free(old);
    stack->layers = layers;
    stack->kind_count = kind_count;
    return QKV_OK;
}

enum qkv_status qkv_spec_copy(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_spec *out) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    QKV_NEED(ctx, out);
    if (spec == out) return qkv_fail(ctx, QKV_ARGUMENT, "a spec is to be copied over itself; give another struct");
    struct qkv_spec copy = *spec;
    struct qkv_stack_spec *to[] = {&copy.encoder, &copy.decoder};
    for (size_t i = 0; i < 2; i++) to[i]->kinds = NULL;
    *out = (struct qkv_spec){0};
    const struct qkv_stack_spec *from[] = {&spec->encoder, &spec->decoder};
    for (size_t i = 0; i < 2; i++) {
        const size_t layers = stack_count(from[i]->layers, QKV_LAYERS_MAX),
                     kinds = stack_count(from[i]->kind_count, QKV_KINDS_MAX);
        enum qkv_status status = stack_take(ctx, from[i], layers, kinds, to[i]);
        if (!status) continue;
        qkv_spec_free(&copy);
        return status;
    }
    *out = copy;
    return QKV_OK;
}

struct qkv_written_spec *qkv_written_allocate(struct qkv_context *ctx) {
    struct qkv_written_spec *written = qkv_allocate(ctx, 1, sizeof *written);
    if (!written) return NULL;
    const struct qkv_stack_spec none = {0};
    struct qkv_stack_spec *stacks[] = {&written->spec.encoder, &written->spec.decoder};
    for (size_t i = 0; i < 2; i++)
        if (stack_take(ctx, &none, QKV_LAYERS_MAX, QKV_KINDS_MAX, stacks[i])) {
            qkv_written_free(written);
            return NULL;
        }
    return written;
}

void qkv_written_free(struct qkv_written_spec *written) {
    if (written) qkv_spec_free(&written->spec);
    free(written);
}
