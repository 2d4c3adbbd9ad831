/* What stacks have in common when a spec is written, and the canonical form of kinds of layers: specs that mean the
 * same have the same canonical form. */
#include "attention/attention.h"
#include "model/spec.h"

#include <string.h>

void qkv_spec_write(const struct qkv_spec *spec, struct qkv_written_spec *w) {
    memset(w, 0, sizeof *w);
    w->spec = *spec;
    w->embed = (spec->decoder.layers ? &spec->decoder : &spec->encoder)->embed;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static bool same_list(const struct qkv_number_list *a, const struct qkv_number_list *b) {
    bool same = a->count == b->count;
    for (int i = 0; i < a->count && same; i++) same = a->values[i] == b->values[i];
    return same;
}

/* Whether all keys that apply in both places are equal; a key that applies in one of them only follows from another
 * key. */
static bool same_keys(const struct qkv_key *keys, const struct qkv_place *a, const struct qkv_place *b) {
    bool same = true;
    for (const struct qkv_key *key = keys; key->name && same; key++) {
        if (!qkv_key_applies(key, a) || !qkv_key_applies(key, b)) continue;
        if (key->type == QKV_KEY_LIST) {
            same = same_list(qkv_key_list(key, a), qkv_key_list(key, b));
            continue;
        }
        if (key->type != QKV_KEY_OBJECT) {
            same = qkv_key_get(key, a) == qkv_key_get(key, b);
            continue;
        }
        same = qkv_key_given(key, a) == qkv_key_given(key, b);
        if (!same || !qkv_key_given(key, a)) continue;
        struct qkv_place in_a = qkv_key_enter(a, key), in_b = qkv_key_enter(b, key);
        same = same_keys(key->keys, &in_a, &in_b);
    }
    return same;
}

/* Writes a stack whose kinds that mean the same are one; `kinds` is the key of its kinds. */
static void canonical_stack(const struct qkv_place *place, const struct qkv_key *kinds, struct qkv_stack_spec *out) {
    const struct qkv_stack_spec *in = place->stack;
    uint8_t number[QKV_KINDS_MAX];
    memset(number, QKV_KINDS_MAX, sizeof number);
    if (in->share == in->layers) out->share = 0; /* every layer has its own weights */
    out->kind_count = 0;
    for (int layer = 0; layer < in->layers; layer++) {
        size_t kind = in->kind_of[layer];
        struct qkv_place a = qkv_kind_enter(place, kinds, kind);
        for (size_t other = 0; other < (size_t)in->kind_count && number[kind] == QKV_KINDS_MAX; other++) {
            struct qkv_place b = qkv_kind_enter(place, kinds, other);
            if (number[other] < QKV_KINDS_MAX && same_keys(kinds->keys, &a, &b)) number[kind] = number[other];
        }
        if (number[kind] == QKV_KINDS_MAX) {
            number[kind] = (uint8_t)out->kind_count++;
            out->kinds[number[kind]] = in->kinds[kind];
        }
        out->kind_of[layer] = number[kind];
    }
    struct qkv_layer_spec *last = &out->kinds[out->kind_of[in->layers - 1]];
    last->norm.final = qkv_stack_layer(in, (size_t)in->layers - 1)->norm.final;
    for (int i = 0; i < out->kind_count; i++) {
        out->kinds[i].name[0] = 0;
        if (out->kind_count > 1) snprintf(out->kinds[i].name, QKV_KIND_NAME, "%d", i);
    }
}

/* A rate that is the same as that of the whole spec becomes that. */
static void canonical_rate(double *own, double whole) {
    if (qkv_dropout_rate(*own, whole) == whole) *own = 0;
}

static void canonical_rates(struct qkv_spec *spec) {
    struct qkv_stack_spec *stacks[] = {&spec->encoder, &spec->decoder};
    for (size_t i = 0; i < 2; i++) {
        canonical_rate(&stacks[i]->embed.dropout, spec->dropout);
        for (int k = 0; k < stacks[i]->kind_count; k++) {
            struct qkv_layer_spec *kind = &stacks[i]->kinds[k];
            canonical_rate(&kind->attention.dropout, spec->dropout);
            canonical_rate(&kind->cross.dropout, spec->dropout);
            canonical_rate(&kind->residual_dropout, spec->dropout);
        }
    }
}

enum qkv_status qkv_spec_canonical(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_spec *canonical) {
    struct qkv_written_spec work = {0}; /* with the rates of the canonical form, but all kinds of the spec */
    enum qkv_status status = qkv_spec_copy(ctx, spec, &work.spec);
    canonical_rates(&work.spec);
    *canonical = (struct qkv_spec){0};
    if (!status) status = qkv_spec_copy(ctx, &work.spec, canonical);
    const int C = qkv_spec_width(spec), source = qkv_stack_width(spec, &spec->encoder);
    canonical->d_model = C; /* of the decoder, or of an encoder alone; an encoder with a decoder may have another */
    canonical->decoder.d_model = 0;
    canonical->encoder.d_model = source == C ? 0 : source;
    struct qkv_place place = qkv_spec_place(&work);
    for (const struct qkv_key *key = qkv_spec_keys; key->name && !status; key++) {
        if (key->type != QKV_KEY_OBJECT) continue;
        struct qkv_place in = qkv_key_enter(&place, key);
        const struct qkv_key *kinds = key->keys;
        while (kinds->name && kinds->type != QKV_KEY_KINDS) kinds++;
        if (!kinds->name || in.stack->layers == 0) continue;
        canonical_stack(&in, kinds, in.stack == &work.spec.encoder ? &canonical->encoder : &canonical->decoder);
    }
    qkv_spec_free(&work.spec);
    return status;
}
