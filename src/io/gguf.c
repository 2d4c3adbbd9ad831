/* gguf: the keys of a GGUF file (https://github.com/ggml-org/ggml, docs/gguf.md), which gguf_read.c has read. */
#include "io/gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "io/io.h"

bool qkv_gguf_is(const char *path) {
    struct stat info;
    const size_t n = strlen(path), end = strlen(QKV_GGUF_END);
    return n > end && !strcmp(path + n - end, QKV_GGUF_END) && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode));
}

void qkv_gguf_free(struct qkv_gguf *g) {
    if (!g) return;
    free(g->path);
    free(g->header);
    free(g->keys);
    free(g->values);
    free(g);
}

static int gguf_compare(const void *key, const void *value) {
    return strcmp(key, ((const struct qkv_gguf_value *)value)->key);
}

const struct qkv_gguf_value *qkv_gguf_find(const struct qkv_gguf *g, const char *key) {
    return g->count ? bsearch(key, g->values, g->count, sizeof *g->values, gguf_compare) : NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* An element of a C type at unaligned memory. */
#define GGUF_ELEMENT(type, at)                                                                                         \
    {                                                                                                                  \
        type x;                                                                                                        \
        memcpy(&x, at, sizeof x);                                                                                      \
        return (double)x;                                                                                              \
    }

static const unsigned char *gguf_element(const struct qkv_gguf *g, const struct qkv_gguf_value *value, size_t i) {
    return g->header + value->at + value->size / value->count * i;
}

double qkv_gguf_number(const struct qkv_gguf *g, const struct qkv_gguf_value *value, size_t i) {
    const unsigned char *at = gguf_element(g, value, i);
    switch (value->type) {
    case QKV_GGUF_U8:
    case QKV_GGUF_BOOL:
        return *at;
    case QKV_GGUF_I8:
        GGUF_ELEMENT(int8_t, at)
    case QKV_GGUF_U16:
        GGUF_ELEMENT(uint16_t, at)
    case QKV_GGUF_I16:
        GGUF_ELEMENT(int16_t, at)
    case QKV_GGUF_U32:
        GGUF_ELEMENT(uint32_t, at)
    case QKV_GGUF_I32:
        GGUF_ELEMENT(int32_t, at)
    case QKV_GGUF_F32:
        GGUF_ELEMENT(float, at)
    case QKV_GGUF_U64:
        GGUF_ELEMENT(uint64_t, at)
    case QKV_GGUF_I64:
        GGUF_ELEMENT(int64_t, at)
    case QKV_GGUF_F64:
        GGUF_ELEMENT(double, at)
    case QKV_GGUF_STRING:
    case QKV_GGUF_ARRAY:
    case QKV_GGUF_TYPES:
        break;
    }
    return NAN;
}

bool qkv_gguf_text(const struct qkv_gguf *g, const struct qkv_gguf_value *value, size_t *at, const char **text,
                   size_t *size) {
    uint64_t n;
    if (value->type != QKV_GGUF_STRING || *at >= value->size) return false;
    memcpy(&n, g->header + value->at + *at, sizeof n);
    *text = (const char *)g->header + value->at + *at + sizeof n;
    *size = (size_t)n;
    *at += sizeof n + (size_t)n;
    return true;
}

const char *qkv_gguf_one_text(const struct qkv_gguf *g, const char *key, size_t *size) {
    const struct qkv_gguf_value *value = qkv_gguf_find(g, key);
    const char *text = NULL;
    size_t at = 0;
    return value && !value->array && qkv_gguf_text(g, value, &at, &text, size) ? text : NULL;
}

bool qkv_gguf_is_own(const struct qkv_gguf *g) {
    size_t size;
    const char *text = qkv_gguf_one_text(g, "general.architecture", &size);
    return text && size == strlen(QKV_GGUF_OWN) && !memcmp(text, QKV_GGUF_OWN, size);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* A whole number of 64 bits that JSON cannot have becomes a real. */
static json_t *gguf_whole(const struct qkv_gguf *g, const struct qkv_gguf_value *value, size_t i) {
    const double x = qkv_gguf_number(g, value, i);
    int64_t whole = (int64_t)(fabs(x) < 9e18 ? x : 0);
    if (value->type == QKV_GGUF_I64 || (value->type == QKV_GGUF_U64 && x < 9e18))
        memcpy(&whole, gguf_element(g, value, i), sizeof whole);
    else if (fabs(x) >= 9e18)
        return json_real(x);
    return json_integer(whole);
}

static json_t *gguf_one(const struct qkv_gguf *g, const struct qkv_gguf_value *value, size_t i) {
    const double x = qkv_gguf_number(g, value, i);
    switch (value->type) {
    case QKV_GGUF_BOOL:
        return json_boolean(x != 0);
    case QKV_GGUF_F32:
        return json_real(isfinite(x) ? qkv_real_meant((float)x) : x);
    case QKV_GGUF_F64:
        return json_real(x);
    default:
        return gguf_whole(g, value, i);
    }
}

json_t *qkv_gguf_value_json(const struct qkv_gguf *g, const struct qkv_gguf_value *value) {
    const char *text;
    size_t at = 0, size;
    json_t *list = json_array();
    bool made = list != NULL;
    while (made && qkv_gguf_text(g, value, &at, &text, &size))
        made = !json_array_append_new(list, json_stringn(text, size));
    for (size_t i = 0; i < value->count && made && value->type != QKV_GGUF_STRING; i++)
        made = !json_array_append_new(list, gguf_one(g, value, i));
    json_t *out = !made ? NULL : json_incref(value->array ? list : json_array_get(list, 0));
    json_decref(list);
    return out;
}

enum qkv_status qkv_gguf_json(const struct qkv_gguf *g, json_t **out) {
    *out = json_object();
    for (size_t i = 0; i < g->count && *out; i++) {
        const struct qkv_gguf_value *value = &g->values[i];
        if (value->count > QKV_GGUF_SHORT) continue;
        json_t *made = qkv_gguf_value_json(g, value);
        if (made && !json_object_set_new(*out, value->key, made)) continue;
        bool finite = true;
        for (size_t k = 0; k < value->count && value->type != QKV_GGUF_STRING; k++)
            finite = finite && isfinite(qkv_gguf_number(g, value, k));
        json_decref(*out);
        *out = NULL;
        if (!finite)
            return qkv_fail(g->ctx, QKV_FORMAT, "%s: key \"%.*s\" has a number that is not finite", g->path,
                            qkv_shown_length(value->key), value->key);
    }
    return *out ? QKV_OK : qkv_fail_memory(g->ctx, 0, "the keys of a file");
}
