/* The digest of a spec: a hash of its canonical form, which docs/digests.md describes. Weights carry it, so that they
 * are not used with a config.json that was edited. */
#include "model/spec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Writes one key as "path=value\n"; a real as the bits of its double, so that no spelling changes the digest. */
static enum qkv_status digest_line(struct qkv_context *ctx, struct qkv_buffer *out, const struct qkv_key *key,
                                   const struct qkv_place *place) {
    double x = qkv_key_get(key, place) + 0.0; /* turns −0 into 0 */
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    enum qkv_status status = qkv_buffer_print(ctx, out, "%s%s=", place->path, key->name);
    if (status) return status;
    switch (key->type) {
    case QKV_KEY_REAL:
        return qkv_buffer_print(ctx, out, "%016" PRIx64 "\n", bits);
    case QKV_KEY_FLAG:
        return qkv_buffer_print(ctx, out, "%s\n", x != 0 ? "true" : "false");
    case QKV_KEY_CHOICE:
        return qkv_buffer_print(ctx, out, "%s\n", key->choices[(size_t)x].text);
    default:
        return qkv_buffer_print(ctx, out, "%.0f\n", x);
    }
}

/* Writes the numbers of a list, each as the bits of its double. */
static enum qkv_status digest_list(struct qkv_context *ctx, struct qkv_buffer *out, const struct qkv_key *key,
                                   const struct qkv_place *place) {
    const struct qkv_number_list *list = qkv_key_list(key, place);
    enum qkv_status status = qkv_buffer_print(ctx, out, "%s%s=", place->path, key->name);
    for (int i = 0; i < list->count && !status; i++) {
        uint64_t bits;
        memcpy(&bits, &list->values[i], sizeof bits);
        status = qkv_buffer_print(ctx, out, "%s%016" PRIx64, i ? "," : "", bits);
    }
    return status ? status : qkv_buffer_print(ctx, out, "\n");
}

/* Writes the number of each layer's kind. */
static enum qkv_status digest_pattern(struct qkv_context *ctx, struct qkv_buffer *out, const struct qkv_key *key,
                                      const struct qkv_place *place) {
    enum qkv_status status = qkv_buffer_print(ctx, out, "%s%s=", place->path, key->name);
    for (int i = 0; i < place->stack->layers && !status; i++)
        status = qkv_buffer_print(ctx, out, "%s%d", i ? "," : "", place->stack->kind_of[i]);
    return status ? status : qkv_buffer_print(ctx, out, "\n");
}

static enum qkv_status digest_lines(struct qkv_context *ctx, struct qkv_buffer *out, const struct qkv_key *keys,
                                    const struct qkv_place *place);

static enum qkv_status digest_kinds(struct qkv_context *ctx, struct qkv_buffer *out, const struct qkv_key *kinds,
                                    const struct qkv_place *place) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < (size_t)place->stack->kind_count && !status; i++) {
        struct qkv_place in = qkv_kind_enter(place, kinds, i);
        status = digest_lines(ctx, out, kinds->keys, &in);
    }
    return status;
}

static enum qkv_status digest_lines(struct qkv_context *ctx, struct qkv_buffer *out, const struct qkv_key *keys,
                                    const struct qkv_place *place) {
    enum qkv_status status = QKV_OK;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        if (key->type == QKV_KEY_CONSTANT || key->type == QKV_KEY_VERSION || !qkv_key_applies(key, place) ||
            (place->written->first && qkv_version1_lacks(key)))
            continue;
        const bool given = qkv_key_given(key, place);
        if (key->flags & QKV_KEY_START || !(place->common ? qkv_key_differs(key, place) : given)) continue;
        struct qkv_place in = qkv_key_enter(place, key);
        if (!given)
            status = qkv_buffer_print(ctx, out, "%s%s=null\n", place->path, key->name);
        else if (key->type == QKV_KEY_OBJECT)
            status = digest_lines(ctx, out, key->keys, &in);
        else if (key->type == QKV_KEY_PATTERN)
            status = digest_pattern(ctx, out, key, place);
        else if (key->type == QKV_KEY_KINDS)
            status = digest_kinds(ctx, out, key, place);
        else if (key->type == QKV_KEY_LIST)
            status = digest_list(ctx, out, key, place);
        else if (place->common || !(key->flags & QKV_KEY_LATER) || qkv_key_get(key, place) != key->neutral)
            status = digest_line(ctx, out, key, place);
    }
    return status;
}

enum qkv_status qkv_spec_digest_keys(struct qkv_context *ctx, const struct qkv_key *keys, const struct qkv_spec *spec,
                                     uint64_t *digest) {
    struct qkv_buffer text = {0};
    enum qkv_status status = qkv_spec_check_as(ctx, spec, "spec", false);
    if (status) return status;
    struct qkv_spec canonical;
    struct qkv_written_spec written = {0};
    status = qkv_spec_canonical(ctx, spec, &canonical);
    if (!status) {
        qkv_spec_write(&canonical, &written);
        qkv_version1_express(&written);
        struct qkv_place place = qkv_spec_place(&written);
        status = digest_lines(ctx, &text, keys, &place);
        if (!status && written.first) status = digest_lines(ctx, &text, qkv_version1_keys, &place);
    }
    if (!status) status = qkv_hash_lines(ctx, written.first ? "qkv spec 1" : "qkv spec 2", text.data, digest);
    qkv_buffer_free(&text);
    qkv_spec_free(&canonical);
    return status;
}

enum qkv_status qkv_spec_digest(struct qkv_context *ctx, const struct qkv_spec *spec, char text[QKV_DIGEST_TEXT]) {
    uint64_t digest = 0;
    enum qkv_status status = qkv_spec_digest_keys(ctx, qkv_spec_keys, spec, &digest);
    snprintf(text, QKV_DIGEST_TEXT, "%016" PRIx64, digest);
    return status;
}
