/* Writes a spec as JSON: every key that means something in it, in the table's order. */
#include "model/spec.h"

#include <stdlib.h>
#include <string.h>

struct writer {
    struct qkv_context *ctx;
    struct qkv_buffer *out;
    int depth;
};

static enum qkv_status write_real(struct writer *w, double x) {
    char *text = qkv_key_real_text(x);
    if (!text) return qkv_fail_memory(w->ctx, 64, "the text of a number");
    enum qkv_status status = qkv_buffer_print(w->ctx, w->out, "%s", text);
    free(text);
    return status;
}

static enum qkv_status write_choice(struct writer *w, const char *text) {
    bool bare = !strcmp(text, "true") || !strcmp(text, "false");
    return qkv_buffer_print(w->ctx, w->out, bare ? "%s" : "\"%s\"", text);
}

static enum qkv_status write_value(struct writer *w, const struct qkv_key *key, const struct qkv_place *place) {
    if (key->type == QKV_KEY_CONSTANT) return qkv_buffer_print(w->ctx, w->out, "%s", key->text);
    double x = qkv_key_get(key, place);
    if (x == 0 && key->flags & QKV_KEY_NULL) return qkv_buffer_print(w->ctx, w->out, "null");
    switch (key->type) {
    case QKV_KEY_REAL:
        return write_real(w, x);
    case QKV_KEY_FLAG:
        return qkv_buffer_print(w->ctx, w->out, x != 0 ? "true" : "false");
    case QKV_KEY_CHOICE:
        return write_choice(w, key->choices[(size_t)x]);
    default:
        return qkv_buffer_print(w->ctx, w->out, "%.0f", x);
    }
}

static enum qkv_status write_line(struct writer *w, bool first) {
    return qkv_buffer_print(w->ctx, w->out, "%s\n%*s", first ? "" : ",", 4 * w->depth, "");
}

/* Keys that mean nothing here are left out, but an absent stack is said to be null. */
static bool spec_print_shown(const struct qkv_key *key, const struct qkv_place *place) {
    bool stack = key->type == QKV_KEY_OBJECT && !place->stack;
    if (stack) return true;
    if (!qkv_key_applies(key, place)) return false;
    return !(key->flags & QKV_KEY_LATE) || qkv_key_get(key, place) != 0;
}

static enum qkv_status write_object(struct writer *w, const struct qkv_key *keys, const struct qkv_place *place) {
    enum qkv_status status = qkv_buffer_print(w->ctx, w->out, "{");
    bool first = true;
    w->depth++;
    for (const struct qkv_key *key = keys; key->name && !status; key++) {
        if (!spec_print_shown(key, place)) continue;
        status = write_line(w, first);
        first = false;
        if (!status) status = qkv_buffer_print(w->ctx, w->out, "\"%s\": ", key->name);
        if (status) break;
        struct qkv_place in = qkv_key_enter(place, key);
        if (key->type != QKV_KEY_OBJECT)
            status = write_value(w, key, place);
        else if (!qkv_key_applies(key, place))
            status = qkv_buffer_print(w->ctx, w->out, "null");
        else
            status = write_object(w, key->keys, &in);
    }
    w->depth--;
    if (!status) status = qkv_buffer_print(w->ctx, w->out, "\n%*s}", 4 * w->depth, "");
    return status;
}

enum qkv_status qkv_spec_print(struct qkv_context *ctx, const struct qkv_spec *spec, char **json) {
    QKV_CALL(ctx);
    struct qkv_spec copy = *spec; /* places can be written through */
    struct qkv_buffer out = {0};
    struct writer w = {.ctx = ctx, .out = &out};
    struct qkv_place place = qkv_spec_place(&copy);
    *json = NULL;
    enum qkv_status status = qkv_spec_check_as(ctx, spec, "spec", false);
    if (!status) status = write_object(&w, qkv_spec_keys, &place);
    if (!status) status = qkv_buffer_print(ctx, &out, "\n");
    if (status)
        qkv_buffer_free(&out);
    else
        *json = out.data;
    return status;
}
