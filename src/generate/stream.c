/* The stream between tokens and a reader: holds back an incomplete character (UTF-8, The Unicode Standard, table
 * 3-7), and text that may become a stop text. */
#include "generate/generate.h"

#include <string.h>

#include "base/utf8.h"

enum { STREAM_ROOM = 1024 }; /* bytes of a token, and of what was held back before it without stop texts */

enum qkv_status qkv_text_stream_reserve(struct qkv_text_stream *s) {
    size_t longest = 0;
    for (size_t i = 0; i < s->stop_count; i++) longest = qkv_max(longest, strlen(s->stops[i]));
    char *data = qkv_list_room(s->ctx, s->held.data, &s->held.capacity, s->held.size, longest + STREAM_ROOM, 1);
    if (!data) return QKV_MEMORY;
    s->held.data = data;
    return QKV_OK;
}

/* Whether a stop text ends at held[0, end); *start: where the longest one begins. */
static bool find_stop(const struct qkv_text_stream *s, size_t end, size_t *start) {
    bool found = false;
    for (size_t i = 0; i < s->stop_count; i++) {
        size_t n = strlen(s->stops[i]);
        if (n > end || memcmp(s->held.data + end - n, s->stops[i], n) != 0) continue;
        if (!found || end - n < *start) *start = end - n;
        found = true;
    }
    return found;
}

/* Returns where a possible stop text begins: the longest end of the held text with which some stop text begins. */
static size_t find_beginning(const struct qkv_text_stream *s) {
    size_t size = s->held.size, longest = 0;
    for (size_t i = 0; i < s->stop_count; i++) {
        size_t n = strlen(s->stops[i]) - 1;
        if (n > size) n = size;
        while (n > longest && memcmp(s->held.data + size - n, s->stops[i], n) != 0) n--;
        if (n > longest) longest = n;
    }
    return size - longest;
}

enum qkv_status qkv_generate_stopped(struct qkv_context *ctx) {
    return qkv_fail(ctx, QKV_STOPPED, "generating was stopped by the caller");
}

/* Writes held[0, n) and drops it. */
static enum qkv_status give_out(struct qkv_text_stream *s, size_t n) {
    if (n == 0) return QKV_OK;
    bool going = !s->write || s->write(s->user, s->held.data, n);
    memmove(s->held.data, s->held.data + n, s->held.size - n);
    s->held.size -= n;
    return going ? QKV_OK : qkv_generate_stopped(s->ctx);
}

enum qkv_status qkv_text_stream_put(struct qkv_text_stream *s, const char *text, size_t size) {
    if (s->stopped || size == 0) return QKV_OK;
    size_t before = s->held.size, start = 0;
    enum qkv_status status = qkv_buffer_append(s->ctx, &s->held, text, size);
    if (status) return status;
    for (size_t end = before + 1; end <= s->held.size && !s->stopped; end++) s->stopped = find_stop(s, end, &start);
    if (s->stopped) {
        s->held.size = start;
        return give_out(s, start);
    }
    size_t n = find_beginning(s);
    return give_out(s, n - qkv_utf8_tail(s->held.data, n));
}

enum qkv_status qkv_text_stream_end(struct qkv_text_stream *s) {
    return give_out(s, s->held.size);
}

void qkv_text_stream_free(struct qkv_text_stream *s) {
    qkv_buffer_free(&s->held);
}
