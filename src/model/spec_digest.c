/* The digest of a spec: a hash of its canonical form, which docs/digests.md describes. Weights carry it, so that a
 * config.json that was changed by hand is not taken for theirs. */
#include "model/spec.h"

#include <inttypes.h>
#include <string.h>

/* One key as "path=value\n"; a real as the bits of the double, which no spelling changes. */
static enum qkv_status digest_line(struct qkv_context *ctx, struct qkv_buffer *out, const struct qkv_key *key,
                                   const struct qkv_place *place) {
    double x = qkv_key_get(key, place) + 0.0; /* −0 is 0 */
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
        return qkv_buffer_print(ctx, out, "%s\n", key->choices[(size_t)x]);
    default:
        return qkv_buffer_print(ctx, out, "%.0f\n", x);
    }
}

static enum qkv_status digest_lines(struct qkv_context *ctx, struct qkv_buffer *out, const struct qkv_key *keys,
                                    const struct qkv_place *place) {
    enum qkv_status status = QKV_OK;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        if (key->type == QKV_KEY_CONSTANT || !qkv_key_applies(key, place)) continue;
        struct qkv_place in = qkv_key_enter(place, key);
        if (key->type == QKV_KEY_OBJECT)
            status = digest_lines(ctx, out, key->keys, &in);
        else if (!(key->flags & QKV_KEY_LATER) || qkv_key_get(key, place) != key->neutral)
            status = digest_line(ctx, out, key, place);
    }
    return status;
}

enum qkv_status qkv_spec_digest_keys(struct qkv_context *ctx, const struct qkv_key *keys, const struct qkv_spec *spec,
                                     uint64_t *digest) {
    struct qkv_spec copy = *spec; /* places can be written through */
    struct qkv_place place = qkv_spec_place(&copy);
    struct qkv_buffer text = {0};
    enum qkv_status status = qkv_spec_check_as(ctx, spec, "spec", false);
    if (!status) status = digest_lines(ctx, &text, keys, &place);
    if (!status) status = qkv_hash_lines(ctx, "qkv spec 1", text.data, digest);
    qkv_buffer_free(&text);
    return status;
}

enum qkv_status qkv_spec_digest(struct qkv_context *ctx, const struct qkv_spec *spec, char text[QKV_DIGEST_TEXT]) {
    uint64_t digest = 0;
    enum qkv_status status = qkv_spec_digest_keys(ctx, qkv_spec_keys, spec, &digest);
    snprintf(text, QKV_DIGEST_TEXT, "%016" PRIx64, digest);
    return status;
}
