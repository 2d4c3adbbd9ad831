/* Model folders: config.json, model.safetensors, tokenizer.json (the names and formats are in the spec section of qkv.h);
 * and where there are any, source_tokenizer.json and labels.txt (the names of the classes, a line each).
 *
 * Every file is replaced atomically. The weights come last: a folder whose writing was cut off still has the old weights,
 * and reading checks them against the spec. */
#include "io/io.h"
#include "io/safetensors.h"
#include "model/model.h"
#include "model/spec.h"

#include <stdlib.h>
#include <string.h>

static enum qkv_status wrong_shape(struct qkv_model *m, const char *path, const struct qkv_array *want,
                                   const struct qkv_array *have) {
    char asked[QKV_SHAPE_TEXT], found[QKV_SHAPE_TEXT];
    return qkv_fail(m->ctx, QKV_SHAPE, "%s: %s is %s but config.json makes it %s", path, want->name,
                    qkv_shape_text(have->shape, have->rank, found), qkv_shape_text(want->shape, want->rank, asked));
}

static bool is_float(enum qkv_dtype dtype) {
    return dtype == QKV_F32 || dtype == QKV_F16 || dtype == QKV_BF16 || dtype == QKV_F64;
}

static enum qkv_status read_parameter(struct qkv_model *m, struct qkv_tensors *file, const char *path, size_t i) {
    const struct qkv_array *want = &m->weights.list[i].array, *have = qkv_tensors_find(file, want->name);
    if (!have) {
        return qkv_fail(m->ctx, QKV_FORMAT, "%s has no tensor %s, which config.json asks for", path, want->name);
    }
    bool same = have->rank == want->rank;
    for (int d = 0; d < want->rank && same; d++) {
        same = have->shape[d] == want->shape[d];
    }
    if (!same) {
        return wrong_shape(m, path, want, have);
    }
    if (!is_float(have->dtype)) {
        return qkv_fail(m->ctx, QKV_FORMAT, "%s: %s holds integers; weights are floats", path, want->name);
    }
    qkv_tensors_floats(file, have, m->weights.list[i].data);
    return QKV_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A tensor that no parameter is called after, or NULL. */
static enum qkv_status find_stranger(struct qkv_model *m, struct qkv_tensors *file, const char *path) {
    size_t count = m->weights.count;
    const char **names = qkv_allocate(m->ctx, count, sizeof *names);
    if (!names) {
        return QKV_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        names[i] = m->weights.list[i].array.name;
    }
    qsort(names, count, sizeof *names, compare_names);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < qkv_tensors_count(file) && status == QKV_OK; i++) {
        const char *name = qkv_tensors_at(file, i)->name;
        if (!bsearch(&name, names, count, sizeof *names, compare_names)) {
            status = qkv_fail(m->ctx, QKV_FORMAT, "%s has a tensor %s that config.json does not ask for", path, name);
        }
    }
    free(names);
    return status;
}

/* Files of other programs, and old ones, have no digest: what they were made with is not known. */
static enum qkv_status check_digest(struct qkv_model *m, const struct qkv_tensors *file, const char *path) {
    const char *saved = qkv_tensors_metadata(file, QKV_DIGEST_KEY);
    char digest[QKV_DIGEST_TEXT];
    if (!saved || m->ctx->ignore_digest) return QKV_OK;
    enum qkv_status status = qkv_spec_digest(m->ctx, &m->spec, digest);
    if (status || strcmp(saved, digest) == 0) return status;
    return qkv_fail(m->ctx, QKV_SPEC,
                    "%s: these weights belong to another spec than config.json has now (digest %.*s, not %s), so they "
                    "would compute something else; restore config.json, or use them all the same with --ignore-digest",
                    path, QKV_DIGEST_TEXT, saved, digest);
}

static enum qkv_status read_weights(struct qkv_model *m, const char *path) {
    struct qkv_tensors *file;
    enum qkv_status status = qkv_tensors_open(m->ctx, path, &file);
    if (status != QKV_OK) {
        return status;
    }
    for (size_t i = 0; i < m->weights.count && status == QKV_OK; i++) {
        status = read_parameter(m, file, path, i);
    }
    qkv_weights_changed(&m->weights);
    if (status == QKV_OK) {
        status = find_stranger(m, file, path);
    }
    if (status == QKV_OK) { /* last: where shapes differ, the tensor that does says more */
        status = check_digest(m, file, path);
    }
    qkv_tensors_close(file);
    return status;
}

static enum qkv_status read_tokenizer(struct qkv_model *m, const char *path,
                                      enum qkv_status (*set)(struct qkv_model *, struct qkv_tokenizer *)) {
    bool found;
    enum qkv_status status = qkv_file_find(m->ctx, path, &found);
    if (status || !found) return status;
    struct qkv_tokenizer *tokenizer;
    status = qkv_tokenizer_load(m->ctx, path, &tokenizer);
    if (status) return status; /* names the path */
    status = set(m, tokenizer);
    if (status) qkv_fail_at(m->ctx, "%s", path);
    return status;
}

/* ---- labels.txt --------------------------------------------------------------------------------------------------- */

/* Cuts a text into its lines, in place; more than `most` of them count as most + 1. */
static size_t cut_lines(char *text, const char **lines, size_t most) {
    size_t count = 0;
    while (*text) {
        size_t n = strcspn(text, "\n"), size = n > 0 && text[n - 1] == '\r' ? n - 1 : n;
        bool last = text[n] == 0;
        text[size] = 0;
        if (count == most) {
            return most + 1;
        }
        lines[count++] = text;
        text += last ? n : n + 1;
    }
    return count;
}

static enum qkv_status parse_labels(struct qkv_model *m, const struct qkv_map *map) {
    size_t classes = m->spec.head.kind == QKV_HEAD_CLASSIFY ? (size_t)m->spec.head.classes : 0;
    if (map->size == 0 || memchr(map->data, 0, map->size)) {
        return qkv_fail(m->ctx, QKV_FORMAT, "it is no list of labels, a line each");
    }
    char *text = qkv_copy_bytes(m->ctx, map->data, map->size);
    const char **lines = qkv_allocate(m->ctx, classes + 1, sizeof *lines);
    enum qkv_status status = QKV_MEMORY;
    if (text && lines) {
        size_t count = cut_lines(text, lines, classes);
        status = count == classes
                     ? qkv_model_set_labels(m, lines, count)
                     : qkv_fail(m->ctx, QKV_FORMAT, "it has %s than the %zu labels of config.json's classes",
                                count < classes ? "fewer lines" : "more lines", classes);
    }
    free(text);
    free(lines);
    return status;
}

static enum qkv_status read_labels(struct qkv_model *m, const char *path) {
    struct qkv_map map;
    bool found;
    enum qkv_status status = qkv_file_find(m->ctx, path, &found);
    if (status || !found) return status;
    status = qkv_read_file(m->ctx, path, &map);
    if (status != QKV_OK) {
        return status;
    }
    status = qkv_byte_order_mark_refuse(m->ctx, path, map.data, map.size);
    if (!status && (status = parse_labels(m, &map)) != QKV_OK) qkv_fail_at(m->ctx, "%s", path);
    qkv_unmap_file(&map);
    return status;
}

static enum qkv_status write_labels(struct qkv_model *m, const char *path) {
    struct qkv_buffer text = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < m->label_count && status == QKV_OK; i++) {
        status = qkv_buffer_print(m->ctx, &text, "%s\n", m->labels[i]);
    }
    if (status == QKV_OK) {
        status = qkv_write_file(m->ctx, path, text.data, text.size);
    }
    qkv_buffer_free(&text);
    return status;
}

/* ---- the folder --------------------------------------------------------------------------------------------------- */

/* The paths of a folder; all or none. */
struct paths {
    char *config, *weights, *tokenizer, *source_tokenizer, *labels;
};

static enum qkv_status make_paths(struct qkv_context *ctx, const char *folder, struct paths *p) {
    p->config = qkv_join_path(ctx, folder, "config.json");
    p->weights = qkv_join_path(ctx, folder, "model.safetensors");
    p->tokenizer = qkv_join_path(ctx, folder, "tokenizer.json");
    p->source_tokenizer = qkv_join_path(ctx, folder, "source_tokenizer.json");
    p->labels = qkv_join_path(ctx, folder, "labels.txt");
    return p->config && p->weights && p->tokenizer && p->source_tokenizer && p->labels ? QKV_OK : QKV_MEMORY;
}

static void free_paths(struct paths *p) {
    free(p->config);
    free(p->weights);
    free(p->tokenizer);
    free(p->source_tokenizer);
    free(p->labels);
}

static enum qkv_status weights_bytes(struct qkv_context *ctx, const struct qkv_spec *spec, size_t *bytes) {
    struct qkv_model *plan;
    enum qkv_status status = qkv_model_plan(ctx, spec, &plan);
    if (status) return status;
    status = qkv_model_add_packed(plan, false);
    *bytes = qkv_model_bytes(plan);
    qkv_model_free(plan);
    return status;
}

/* Whether there is memory for the weights, in bf16 for both copies; what the model computes in is checked when it is made. */
static enum qkv_status check_memory(struct qkv_context *ctx, const struct qkv_spec *spec, const char *folder) {
    size_t bytes, plain = 0;
    char help[64] = "", text[QKV_BYTES_TEXT];
    if (ctx->ignore_memory) return QKV_OK;
    enum qkv_status status = weights_bytes(ctx, spec, &bytes);
    if (!status && ctx->precision != QKV_FP32) {
        const enum qkv_precision precision = ctx->precision;
        ctx->precision = QKV_FP32;
        status = weights_bytes(ctx, spec, &plain);
        ctx->precision = precision;
        snprintf(help, sizeof help, "choose --precision fp32 (%s)", qkv_bytes_text(text, plain));
    }
    return status ? status : qkv_memory_check(ctx, bytes, folder, help);
}

/* A folder that cannot be searched may well hold a model: only what is known to be missing is called so. */
static enum qkv_status check_folder(struct qkv_context *ctx, const char *folder, const struct paths *p) {
    bool found;
    enum qkv_status status = qkv_file_find(ctx, p->config, &found);
    if (!status && !found) status = qkv_fail(ctx, QKV_FILE, "%s is not a model folder: it has no config.json", folder);
    if (!status) status = qkv_file_find(ctx, p->weights, &found);
    if (!status && !found)
        status = qkv_fail(ctx, QKV_FILE,
                          "%s has no model.safetensors; a training run writes it at its first evaluation", folder);
    return status;
}

enum qkv_status qkv_model_load(struct qkv_context *ctx, const char *folder, struct qkv_model **out) {
    QKV_CALL(ctx);
    struct paths p;
    struct qkv_spec spec;
    *out = NULL;
    enum qkv_status status = make_paths(ctx, folder, &p);
    if (status == QKV_OK) status = check_folder(ctx, folder, &p);
    if (status == QKV_OK) {
        status = qkv_spec_read(ctx, &spec, p.config, NULL, 0);
    }
    if (status == QKV_OK) {
        status = check_memory(ctx, &spec, folder);
    }
    if (status == QKV_OK) {
        status = qkv_model_allocate(ctx, &spec, false, out);
    }
    if (status == QKV_OK) {
        status = read_weights(*out, p.weights);
    }
    if (status == QKV_OK) {
        status = read_tokenizer(*out, p.tokenizer, qkv_model_set_tokenizer);
    }
    if (status == QKV_OK) {
        status = read_tokenizer(*out, p.source_tokenizer, qkv_model_set_source_tokenizer);
    }
    if (status == QKV_OK) {
        status = read_labels(*out, p.labels);
    }
    free_paths(&p);
    if (status != QKV_OK) {
        qkv_model_free(*out);
        *out = NULL;
    }
    return status;
}

static enum qkv_status write_weights(struct qkv_model *m, const char *path) {
    struct qkv_array *arrays = qkv_allocate(m->ctx, m->weights.count, sizeof *arrays);
    if (!arrays) {
        return QKV_MEMORY;
    }
    for (size_t i = 0; i < m->weights.count; i++) {
        arrays[i] = m->weights.list[i].array;
    }
    char digest[QKV_DIGEST_TEXT];
    const char *const metadata[] = {"format", "qkv", QKV_DIGEST_KEY, digest};
    enum qkv_status status = qkv_spec_digest(m->ctx, &m->spec, digest);
    if (!status) status = qkv_tensors_write(m->ctx, path, arrays, m->weights.count, metadata, 2);
    free(arrays);
    return status;
}

enum qkv_status qkv_model_save(struct qkv_model *m, const char *folder) {
    QKV_CALL(m->ctx);
    struct paths p;
    char *json = NULL;
    if (m->planned) {
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a planned model has no weights to save");
    }
    enum qkv_status status = make_paths(m->ctx, folder, &p);
    if (status == QKV_OK) {
        status = qkv_make_folder(m->ctx, folder);
    }
    if (status == QKV_OK) {
        status = qkv_spec_print(m->ctx, &m->spec, &json);
    }
    if (status == QKV_OK) {
        status = qkv_write_file(m->ctx, p.config, json, strlen(json));
    }
    if (status == QKV_OK && m->tokenizer) {
        status = qkv_tokenizer_save(m->ctx, m->tokenizer, p.tokenizer);
    }
    if (status == QKV_OK && m->source_tokenizer) {
        status = qkv_tokenizer_save(m->ctx, m->source_tokenizer, p.source_tokenizer);
    }
    if (status == QKV_OK && m->label_count) {
        status = write_labels(m, p.labels);
    }
    if (status == QKV_OK) {
        status = write_weights(m, p.weights);
    }
    qkv_free(json);
    free_paths(&p);
    return status;
}
