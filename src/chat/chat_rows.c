/* Rows: filters, tests, methods and functions, with their parameters. */
#include "chat/chat.h"

#include <string.h>

const struct chat_row *qkv_chat_find_row(const struct chat_row *rows, size_t count, const char *name, size_t size) {
    for (size_t i = 0; i < count; i++)
        if (strlen(rows[i].name) == size && !memcmp(rows[i].name, name, size)) return &rows[i];
    return NULL;
}

/* The index of a parameter of a row; −1: it has none of that name. */
static int row_parameter(const struct chat_row *row, const char *name, size_t size) {
    int i = 0;
    for (const char *at = row->parameters; *at; i++) {
        const size_t n = strcspn(at, " ");
        if (n == size && !memcmp(at, name, n)) return i;
        at += n + (at[n] == ' ');
    }
    return -1;
}

static size_t row_parameters(const struct chat_row *row) {
    size_t n = *row->parameters != 0;
    for (const char *at = row->parameters; *at; at++) n += *at == ' ';
    return n;
}

enum qkv_status qkv_chat_bind(struct chat_run *run, const struct chat_row *row, const char *kind,
                              struct chat_args *args) {
    if (!row->parameters) return QKV_OK;
    const size_t parameters = row_parameters(row);
    if (args->count > parameters)
        return qkv_chat_fail(run, "%s '%s' takes at most %zu arguments (%zu given)", kind, row->name, parameters,
                             args->count);
    for (size_t i = 0; i < CHAT_PARAMETERS; i++)
        args->p[i] = i < args->count ? args->items[i] : (struct chat_value){.kind = CHAT_MISSING};
    for (size_t i = 0; i < args->keyword_count; i++) {
        const struct chat_keyword *keyword = &args->keywords[i];
        const int at = row_parameter(row, keyword->name, keyword->size);
        if (at < 0)
            return qkv_chat_fail(run, "%s '%s' got an unexpected keyword argument '%.*s'", kind, row->name,
                                 (int)qkv_min(keyword->size, 100), keyword->name);
        if (args->p[at].kind != CHAT_MISSING)
            return qkv_chat_fail(run, "%s '%s' got multiple values for argument '%.*s'", kind, row->name,
                                 (int)qkv_min(keyword->size, 100), keyword->name);
        args->p[at] = keyword->value;
    }
    for (int i = 0; i < row->required; i++)
        if (args->p[i].kind == CHAT_MISSING)
            return qkv_chat_fail(run, "%s '%s' needs %d arguments: %s", kind, row->name, row->required,
                                 row->parameters);
    return QKV_OK;
}

enum qkv_status qkv_chat_call_row(struct chat_run *run, const struct chat_row *row, const char *kind,
                                  struct chat_value self, struct chat_args *args, struct chat_value *out) {
    enum qkv_status status = qkv_chat_bind(run, row, kind, args);
    if (!status) status = qkv_chat_work(run, 0);
    return status ? status : row->function(run, self, args, out);
}

enum qkv_status qkv_chat_int_of(struct chat_run *run, struct chat_value v, int64_t usual, int64_t *out) {
    *out = usual;
    if (v.kind == CHAT_MISSING) return QKV_OK;
    if (v.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, v);
    if (!qkv_chat_is_integral(v))
        return qkv_chat_fail(run, "'%s' object cannot be interpreted as an integer", qkv_chat_type(v));
    *out = qkv_chat_integer(v);
    return QKV_OK;
}

enum qkv_status qkv_chat_text_of(struct chat_run *run, struct chat_value v, struct chat_value *out) {
    *out = v;
    if (v.kind == CHAT_TEXT) return QKV_OK;
    if (v.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, v);
    return qkv_chat_fail(run, "a str is needed, not %s", qkv_chat_type(v));
}
