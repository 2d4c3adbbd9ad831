/* status: the sentence of the latest failure, and the getters of a context. The kernel room creates the context,
 * because that chooses its kernel table. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/utf8.h"

#define TEXT_OF(number)                   #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *qkv_version(void) {
    return VERSION_TEXT(QKV_VERSION_MAJOR, QKV_VERSION_MINOR, QKV_VERSION_PATCH);
}

int qkv_version_number(void) {
    return QKV_VERSION_NUMBER;
}

const char *qkv_status_text(enum qkv_status status) {
    switch (status) {
#define STATUS_CASE(name, text)                                                                                        \
    case QKV_##name:                                                                                                   \
        return text;
        QKV_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

/* The address of `this_thread` is different in each thread. `refused` is the context of the latest call that the thread
 * began while another thread was inside one with the same context. */
static _Thread_local char this_thread;
static _Thread_local const struct qkv_context *refused;
static atomic_int running; /* contexts inside a call */

const char *qkv_message(const struct qkv_context *ctx) {
    if (ctx && refused == ctx)
        return "another thread is inside a call with this context; a context serves one thread at a time: make one "
               "for each thread (several may use one model: qkv_model_share)";
    /* A caller has no context only if there was no memory for one. */
    return ctx ? ctx->message : qkv_status_text(QKV_MEMORY);
}

const char *qkv_message_key(const struct qkv_context *ctx) {
    return ctx && ctx->key_failed ? ctx->failed_key : NULL;
}

int qkv_context_threads(const struct qkv_context *ctx) {
    return ctx ? ctx->threads : 0;
}

const char *qkv_context_threads_note(const struct qkv_context *ctx) {
    return ctx && ctx->threads_note[0] ? ctx->threads_note : NULL;
}

const char *qkv_context_isa(const struct qkv_context *ctx) {
    return ctx ? ctx->isa : "";
}

void qkv_free(void *block) {
    free(block);
}

/* Sentences quote names from hostile files: control characters (C0, DEL and the UTF-8 forms of C1) could control the
 * terminal that shows them. */
static void make_printable(char *s) {
    for (; *s; s++) {
        unsigned char c = (unsigned char)s[0], next = (unsigned char)s[1];
        if (c == '\n' || c == '\t') {
            *s = ' ';
        } else if (c < 0x20 || c == 0x7f) {
            *s = '?';
        } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
            s[0] = s[1] = '?';
        }
    }
}

/* A truncated sentence ends with three dots, and not inside a UTF-8 character. */
static void mark_as_cut(char *s, size_t capacity) {
    memcpy(s + qkv_utf8_cut(s, capacity - 4), "...", 4);
}

/* Formats the sentence from `start` on into another buffer first: the arguments may point into the old sentence. */
static void write_sentence(struct qkv_context *ctx, size_t start, const char *format, va_list arguments) {
    char text[sizeof ctx->message];
    size_t room = sizeof ctx->message - start;
    int n = vsnprintf(text, room, format, arguments);
    if (n < 0) {
        text[0] = 0;
    } else if ((size_t)n >= room && room > 4) {
        mark_as_cut(text, room);
    }
    make_printable(text);
    if (start == 0) ctx->key_failed = false;
    memcpy(ctx->message + start, text, strlen(text) + 1);
}

void qkv_forgive(struct qkv_context *ctx) {
    if (!ctx) return;
    ctx->message[0] = 0;
    ctx->key_failed = false;
}

void qkv_fail_key(struct qkv_context *ctx, const char *path) {
    if (!ctx) return;
    ctx->key_failed = true;
    snprintf(ctx->failed_key, sizeof ctx->failed_key, "%.*s", (int)sizeof ctx->failed_key - 1, path);
}

struct qkv_context *qkv_call_begin(struct qkv_context *ctx) {
    const void *nobody = NULL;
    if (!ctx) return NULL;
    if (atomic_load_explicit(&ctx->caller, memory_order_relaxed) != &this_thread) {
        const bool free = atomic_compare_exchange_strong(&ctx->caller, &nobody, &this_thread);
        refused = free ? NULL : ctx;
        if (!free) return NULL;
        atomic_fetch_add_explicit(&running, 1, memory_order_relaxed);
        qkv_forgive(ctx);
    }
    ctx->calls++;
    return ctx;
}

void qkv_call_end(struct qkv_context **ctx) {
    if (!*ctx || --(*ctx)->calls > 0) return;
    atomic_fetch_sub_explicit(&running, 1, memory_order_relaxed);
    atomic_store_explicit(&(*ctx)->caller, NULL, memory_order_release);
}

int qkv_calls_running(void) {
    return atomic_load_explicit(&running, memory_order_relaxed);
}

void qkv_context_cancel(struct qkv_context *ctx, bool cancel) {
    if (ctx) atomic_store(&ctx->cancelled, cancel);
}

enum qkv_status qkv_check_cancelled(struct qkv_context *ctx, const char *what) {
    if (!atomic_load_explicit(&ctx->cancelled, memory_order_relaxed)) return QKV_OK;
    return qkv_fail(ctx, QKV_STOPPED, "%s was cancelled (qkv_context_cancel)", what);
}

enum qkv_status qkv_fail(struct qkv_context *ctx, enum qkv_status status, const char *format, ...) {
    if (ctx) {
        va_list arguments;
        va_start(arguments, format);
        write_sentence(ctx, 0, format, arguments);
        va_end(arguments);
    }
    return status;
}

enum qkv_status qkv_fail_null(struct qkv_context *ctx, const char *function, const char *pointer, const char *count) {
    if (!count) return qkv_fail(ctx, QKV_ARGUMENT, "%s: %s is NULL; it must be given", function, pointer);
    return qkv_fail(ctx, QKV_ARGUMENT, "%s: %s is NULL, but %s is not 0; give them all", function, pointer, count);
}

const char *qkv_bytes_text(char text[QKV_BYTES_TEXT], size_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double amount = (double)bytes;
    size_t unit = 0;
    for (; amount >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++) amount /= 1024;
    snprintf(text, QKV_BYTES_TEXT, "%.*f %s", unit == 0 ? 0 : 1, amount, units[unit]);
    return text;
}

enum qkv_status qkv_fail_memory(struct qkv_context *ctx, size_t bytes, const char *what) {
    char amount[QKV_BYTES_TEXT];
    const char *link = what ? " for " : "";
    if (!what) what = "";
    if (bytes == SIZE_MAX) {
        return qkv_fail(ctx, QKV_MEMORY, "out of memory: more than this machine can address%s%s; choose smaller sizes",
                        link, what);
    }
    return qkv_fail(ctx, QKV_MEMORY, "out of memory: %s%s%s; choose smaller sizes or free some memory",
                    qkv_bytes_text(amount, bytes), link, what);
}

/* Whether the sentence contains the place already, as a word of its own. */
static bool names_place(const char *sentence, const char *place) {
    size_t n = strlen(place);
    for (const char *at = sentence; n && (at = strstr(at, place)); at++)
        if ((at == sentence || at[-1] == ' ') && (at[n] == 0 || strchr(" :;,", at[n]))) return true;
    return false;
}

void qkv_fail_elsewhere(struct qkv_context *ctx, const char *from, const char *to) {
    char *at = ctx ? strstr(ctx->message, from) : NULL;
    if (!at) return;
    const size_t n = strlen(from), m = strlen(to), rest = strlen(at + n) + 1;
    if ((size_t)(at - ctx->message) + m + rest > sizeof ctx->message) return;
    memmove(at + m, at + n, rest);
    memcpy(at, to, m);
}

void qkv_fail_at(struct qkv_context *ctx, const char *format, ...) {
    if (!ctx) return;
    static const char link[] = ", at ";
    size_t size = strlen(ctx->message);
    if (size + sizeof link >= sizeof ctx->message) return;
    va_list arguments;
    va_start(arguments, format);
    write_sentence(ctx, size + sizeof link - 1, format, arguments);
    va_end(arguments);
    /* Ends the sentence at its old end: the link ", at" is written only with the place. */
    ctx->message[size] = 0;
    if (!names_place(ctx->message, ctx->message + size + sizeof link - 1))
        memcpy(ctx->message + size, link, sizeof link - 1);
}
