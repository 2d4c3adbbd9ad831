/* What a run counts, and the texts that it makes. */
#include "chat/chat_nodes.h"

#include <string.h>

#include "base/utf8.h"

enum qkv_status qkv_chat_fail(struct chat_run *run, const char *format, ...) {
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text[qkv_utf8_valid(text, strlen(text))] = 0; /* a long text may be cut inside a character */
    return qkv_fail(run->ctx, QKV_FORMAT, "%s, line %d: %s", run->program->name, run->line, text);
}

enum qkv_status qkv_chat_work(struct chat_run *run, size_t bytes) {
    enum { BYTES_OF_STEP = 64, CHECK = 1 << 16 };
    const size_t before = run->steps, steps = 1 + bytes / BYTES_OF_STEP;
    if (steps > run->limits.steps - before)
        return qkv_chat_fail(run, "the template does not end: it has made %zu steps, which is the limit",
                             run->limits.steps);
    run->steps = before + steps;
    return before / CHECK != run->steps / CHECK ? qkv_check_cancelled(run->ctx, "rendering a chat template") : QKV_OK;
}

enum qkv_status qkv_chat_enter(struct chat_run *run) {
    if (run->depth >= CHAT_DEPTH)
        return qkv_chat_fail(run, "macros, blocks or values are nested more than %d deep", CHAT_DEPTH);
    run->depth++;
    return qkv_chat_work(run, 0);
}

enum qkv_status qkv_chat_put(struct chat_run *run, const char *text, size_t n) {
    if (n > run->limits.output - qkv_min(run->text.size, run->limits.output)) {
        char limit[QKV_BYTES_TEXT];
        return qkv_chat_fail(run, "the text has more than %s, which is the limit",
                             qkv_bytes_text(limit, run->limits.output));
    }
    enum qkv_status status = qkv_chat_work(run, n);
    return status || !n ? status : qkv_buffer_append(run->ctx, &run->text, text, n);
}

enum qkv_status qkv_chat_puts(struct chat_run *run, const char *text) {
    return qkv_chat_put(run, text, strlen(text));
}

enum qkv_status qkv_chat_put_code(struct chat_run *run, uint32_t code) {
    char bytes[4];
    return qkv_chat_put(run, bytes, qkv_utf8_write(code, bytes));
}

enum qkv_status qkv_chat_repeat(struct chat_run *run, const char *text, size_t n, size_t times) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; n && i < times && !status; i++) status = qkv_chat_put(run, text, n);
    return status;
}

enum qkv_status qkv_chat_end(struct chat_run *run, size_t mark, struct chat_value *out) {
    const size_t n = run->text.size - mark;
    *out = qkv_chat_text("", 0);
    if (!n) return QKV_OK;
    char *copy = qkv_chat_copy(&run->pool, run->text.data + mark, n);
    run->text.size = mark;
    *out = qkv_chat_text(copy, n);
    return copy ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_chat_fail_undefined(struct chat_run *run, struct chat_value v) {
    const struct chat_undefined *u = v.undefined;
    char name[200], owner[64];
    if (u->hint) return qkv_chat_fail(run, "%s", u->hint);
    if (u->name.kind == CHAT_TEXT)
        snprintf(name, sizeof name, "'%.*s'", (int)qkv_min(u->name.size, 160), u->name.text);
    else if (qkv_chat_is_integral(u->name))
        snprintf(name, sizeof name, "%lld", (long long)qkv_chat_integer(u->name));
    else
        snprintf(name, sizeof name, "of type %s", qkv_chat_type(u->name));
    if (u->owner.kind == CHAT_MISSING) return qkv_chat_fail(run, "%s is undefined", name);
    if (u->owner.kind == CHAT_NONE)
        snprintf(owner, sizeof owner, "None");
    else
        snprintf(owner, sizeof owner, "%s object", qkv_chat_type(u->owner));
    if (u->name.kind == CHAT_TEXT) return qkv_chat_fail(run, "'%s' has no attribute %s", owner, name);
    return qkv_chat_fail(run, "%s has no element %s", owner, name);
}
