/* GGUF files as a published model: one file, or several, "NAME-00001-of-00003.gguf", of which the first has the
 * keys. */
#include <stdlib.h>
#include <string.h>

#include "family/family_gguf.h"
#include "io/gguf_own.h"
#include "io/io.h"
#include "io/pooling.h"
#include "io/published_files.h"
#include "io/safetensors.h"
#include "text/text.h"

enum { PART_DIGITS = 5, PARTS_MAX = 99999 };

/* ---- several files ----------------------------------------------------------------------------------------------- */

/* A number of the keys; `fallback` where there is none. */
static size_t keys_number(const struct qkv_gguf *g, const char *key, size_t fallback) {
    const struct qkv_gguf_value *value = qkv_gguf_find(g, key);
    const double x = value && !value->array && value->type != QKV_GGUF_STRING ? qkv_gguf_number(g, value, 0) : -1;
    return !value ? fallback : x >= 0 && x <= 1e15 ? (size_t)x : SIZE_MAX;
}

/* The place of the digits of the part in a name that ends in "-00001-of-00003.gguf"; NULL: it does not. */
static char *part_digits(char *path, size_t count) {
    char end[40];
    snprintf(end, sizeof end, "-of-%05zu" QKV_GGUF_END, count);
    const size_t n = strlen(path), m = strlen(end);
    if (n < m + PART_DIGITS + 1 || strcmp(path + n - m, end) != 0) return NULL;
    char *digits = path + n - m - PART_DIGITS;
    return digits[-1] == '-' && strspn(digits, "0123456789") == PART_DIGITS ? digits : NULL;
}

/* Opens part i of `count`; *keys: its keys, for the caller to free. */
static enum qkv_status open_part(struct qkv_published *p, const char *path, size_t i, size_t count,
                                 struct qkv_gguf **keys) {
    struct qkv_published_part *part = qkv_published_part(p, path, true);
    if (!part) return QKV_MEMORY;
    enum qkv_status status = qkv_gguf_open(p->ctx, path, keys, &part->tensors);
    if (!status && count && (keys_number(*keys, "split.no", 0) != i || keys_number(*keys, "split.count", 1) != count))
        status = qkv_fail(p->ctx, QKV_FORMAT, "%s: its keys split.no and split.count are not those of file %zu of %zu",
                          path, i + 1, count);
    return status;
}

static enum qkv_status check_parts(const struct qkv_published *p, const struct qkv_gguf *keys) {
    size_t tensors = 0;
    for (size_t i = 0; i < p->count; i++) tensors += qkv_tensors_count(p->files[i].tensors);
    const size_t want = keys_number(keys, "split.tensors.count", tensors);
    if (tensors == want) return QKV_OK;
    return qkv_fail(p->ctx, QKV_FORMAT, "%s: split.tensors.count is %zu, but its files have %zu tensors", p->folder,
                    want, tensors);
}

/* Opens all files; *keys: those of the first one. */
static enum qkv_status open_parts(struct qkv_published *p, struct qkv_gguf **keys) {
    struct qkv_gguf *other = NULL;
    enum qkv_status status = open_part(p, p->folder, 0, 0, keys);
    const size_t count = status ? 1 : keys_number(*keys, "split.count", 1);
    if (status || count <= 1) return status;
    char *path = qkv_copy_string(p->ctx, p->folder), *digits = path ? part_digits(path, count) : NULL;
    if (path && (count > PARTS_MAX || !digits || strncmp(digits, "00001", PART_DIGITS) != 0))
        status = qkv_fail(p->ctx, QKV_FORMAT,
                          "%s is one of %zu files; name the first of them, NAME-00001-of-%05zu" QKV_GGUF_END, p->folder,
                          count, count);
    else if (!path)
        status = QKV_MEMORY;
    else if (keys_number(*keys, "split.no", 0) != 0)
        status = qkv_fail(p->ctx, QKV_FORMAT, "%s: its key split.no is not that of the first file", path);
    for (size_t i = 1; i < count && !status; i++) {
        char text[32];
        snprintf(text, sizeof text, "%05zu", i + 1);
        memcpy(digits, text, PART_DIGITS);
        status = open_part(p, path, i, count, &other);
        qkv_gguf_free(other);
    }
    free(path);
    return status ? status : check_parts(p, *keys);
}

/* ---- the spec ---------------------------------------------------------------------------------------------------- */

/* A tensor whose numbers may be read: the file is as long as it was. */
static const struct qkv_array *find_tensor(const void *published, const char *name) {
    const struct qkv_published *p = published;
    size_t file;
    const struct qkv_array *array = qkv_published_find(p, name, &file);
    if (array && !qkv_tensors_check(p->ctx, p->files[file].tensors)) return array;
    return NULL;
}

enum qkv_status qkv_published_open_gguf(struct qkv_published *p, struct qkv_spec *spec) {
    const struct qkv_family_gguf *table = NULL;
    json_t *root = NULL;
    enum qkv_status status = open_parts(p, &p->gguf);
    p->own = !status && qkv_gguf_is_own(p->gguf);
    if (p->own) return QKV_OK;
    if (!status) status = qkv_gguf_json(p->gguf, &p->keys);
    if (!status) {
        const struct qkv_family_gguf_file file = {.name = p->folder, .keys = p->keys, .find = find_tensor, .user = p};
        status = qkv_family_gguf_config(p->ctx, &file, &table, &root);
    }
    if (!status) status = qkv_family_read(p->ctx, p->folder, root, NULL, NULL, &p->config, spec);
    p->config.gguf = table;
    p->asker = "its metadata";
    json_decref(root);
    return status;
}

enum qkv_status qkv_published_tokenizer(struct qkv_published *p, struct qkv_tokenizer **out) {
    if (!p->keys) return qkv_tokenizer_open(p->ctx, p->folder, out);
    const enum qkv_status status = qkv_gguf_tokenizer(p->gguf, out);
    qkv_gguf_free(p->gguf);
    p->gguf = NULL;
    return status;
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

/* Values of ARCHITECTURE.pooling_type; 0: no pooling. */
static const enum qkv_pool gguf_pools[] = {[1] = QKV_POOL_MEAN, [2] = QKV_POOL_FIRST, [3] = QKV_POOL_LAST};

enum { GGUF_POOLS = sizeof gguf_pools / sizeof *gguf_pools };

int qkv_gguf_pooling(enum qkv_pool pool) {
    for (int i = 1; i < GGUF_POOLS; i++)
        if (gguf_pools[i] == pool) return i;
    return 0;
}

void qkv_gguf_set_pooling(struct qkv_model_pooling *pooling, double type) {
    if (!(type >= 1 && type < GGUF_POOLS)) return;
    *pooling = (struct qkv_model_pooling){.given = true, .pool = gguf_pools[(int)type], .normalize = true};
}

/* A whole number of the architecture; 0: there is none. */
static json_int_t architecture_number(const struct qkv_published *p, const char *key) {
    char whole[160];
    const char *architecture = json_string_value(json_object_get(p->keys, "general.architecture"));
    snprintf(whole, sizeof whole, "%.100s.%.50s", architecture ? architecture : "", key);
    return json_integer_value(json_object_get(p->keys, whole));
}

const char *const qkv_gguf_dense[QKV_GGUF_DENSE] = {"dense_2.weight", "dense_3.weight"};

/* Reads a dense layer behind the pooling. */
static enum qkv_status read_dense(const struct qkv_published *p, const struct qkv_array *array, size_t file,
                                  struct qkv_model_pooling *pooling) {
    const size_t n = pooling->dense_count;
    const size_t width = n ? pooling->dense[n - 1].out : (size_t)architecture_number(p, "embedding_length");
    if (!pooling->given || array->rank != 2 || array->shape[1] != width || array->shape[0] < 1)
        return qkv_fail(p->ctx, QKV_FORMAT, "%s: %s is no matrix of rows of %zu numbers behind a pooling",
                        p->files[file].path, array->name, width);
    if (!pooling->dense) pooling->dense = qkv_allocate(p->ctx, QKV_DENSE_MAX, sizeof *pooling->dense);
    if (!pooling->dense) return QKV_MEMORY;
    struct qkv_model_dense *d = &pooling->dense[pooling->dense_count++];
    *d = (struct qkv_model_dense){.in = width, .out = array->shape[0], .activation = -1};
    d->weight = qkv_allocate(p->ctx, qkv_array_elements(array), sizeof *d->weight);
    return d->weight ? qkv_tensors_floats(p->files[file].tensors, array, d->weight) : QKV_MEMORY;
}

enum qkv_status qkv_published_pooling(const struct qkv_published *p, struct qkv_model_pooling *pooling) {
    enum qkv_status status = QKV_OK;
    qkv_gguf_set_pooling(pooling, (double)architecture_number(p, "pooling_type"));
    for (size_t i = 0; i < QKV_GGUF_DENSE && !status; i++) {
        size_t file;
        const struct qkv_array *array = p->keys ? qkv_published_exactly(p, qkv_gguf_dense[i], &file) : NULL;
        if (array) status = read_dense(p, array, file, pooling);
    }
    return status;
}
