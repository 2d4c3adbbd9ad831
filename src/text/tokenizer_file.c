/* Reads a tokenizer's file: a tokenizer.json, a model of SentencePiece, or ranks of tiktoken, told apart by their first
 * bytes. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "text/spm.h"
#include "text/tiktoken.h"

enum { FILE_CONFIG_BYTES = 1 << 24 };

enum qkv_status qkv_tokenizer_parse_tree(struct qkv_context *ctx, const json_t *root, const char *name,
                                         struct qkv_tokenizer **out) {
    *out = NULL;
    char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    const enum qkv_status status =
        text ? qkv_tokenizer_parse(ctx, text, strlen(text), name, out) : qkv_fail_memory(ctx, 0, "a vocabulary");
    free(text);
    return status;
}

/* Gives the roles that the trainer of a model wrote. */
static enum qkv_status file_roles(struct qkv_context *ctx, const struct qkv_spm *m, struct qkv_tokenizer *t) {
    static const enum qkv_token_role roles[] = {QKV_TOKEN_ROLE_BEGIN, QKV_TOKEN_ROLE_END, QKV_TOKEN_ROLE_PAD};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < 3 && !status; i++) {
        const bool control =
            m->ids[i] >= 0 && (uint64_t)m->ids[i] < m->count && m->pieces[m->ids[i]].type == QKV_SPM_CONTROL;
        if (control) status = qkv_tokenizer_set_role(ctx, t, roles[i], (int)m->ids[i]);
    }
    return status;
}

static enum qkv_status file_spm(struct qkv_context *ctx, const char *path, const struct qkv_map *map,
                                struct qkv_tokenizer **out) {
    struct qkv_spm spm;
    json_t *root = NULL;
    enum qkv_status status = qkv_spm_read(ctx, path, map->data, map->size, &spm);
    if (!status) status = qkv_spm_json(ctx, &spm, NULL, &root);
    if (!status) status = qkv_tokenizer_parse_tree(ctx, root, path, out);
    if (!status) status = file_roles(ctx, &spm, *out);
    if (status) {
        qkv_tokenizer_free(*out);
        *out = NULL;
    }
    json_decref(root);
    qkv_spm_free(&spm);
    return status;
}

/* Reads a JSON file from the folder of another file; *root is NULL if it is missing. */
static enum qkv_status file_beside(struct qkv_context *ctx, const char *path, const char *name, json_t **root) {
    const char *slash = strrchr(path, '/');
    struct qkv_buffer beside = {0};
    struct qkv_map map;
    struct stat info;
    *root = NULL;
    enum qkv_status status = qkv_buffer_print(ctx, &beside, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
    if (!status && stat(beside.data, &info) == 0 && S_ISREG(info.st_mode)) {
        status = qkv_read_file(ctx, beside.data, &map);
        const struct qkv_json_text text = {
            .name = beside.data, .data = map.data, .size = map.size, .max_size = FILE_CONFIG_BYTES};
        if (!status) {
            status = qkv_json_load(ctx, &text, root);
            qkv_unmap_file(&map);
        }
    }
    qkv_buffer_free(&beside);
    return status;
}

/* The files next to the ranks tell their family, and its special tokens. */
static enum qkv_status file_ranks(struct qkv_context *ctx, const char *path, const struct qkv_map *map,
                                  struct qkv_tokenizer **out) {
    const char *slash = strrchr(path, '/');
    json_t *model = NULL, *config = NULL, *root = NULL;
    enum qkv_status status = file_beside(ctx, path, "config.json", &model);
    if (!status) status = file_beside(ctx, path, "tokenizer_config.json", &config);
    const char *type = json_string_value(json_object_get(model, "model_type"));
    const struct qkv_tiktoken_family *family =
        qkv_tiktoken_find(type, slash ? slash + 1 : path, qkv_tiktoken_count(map->data, map->size));
    if (!status && !family) {
        char names[128];
        qkv_tiktoken_names(names, sizeof names);
        status = qkv_fail(ctx, QKV_FORMAT,
                          "%s has ranks of tiktoken, but neither its name nor a config.json next to it tells the "
                          "pattern that cuts texts; the families %s are known",
                          path, names);
    }
    if (!status)
        status = qkv_tiktoken_json(ctx, path, map->data, map->size, family,
                                   json_object_get(config, "added_tokens_decoder"), &root);
    if (!status) status = qkv_tokenizer_parse_tree(ctx, root, path, out);
    json_decref(root);
    json_decref(config);
    json_decref(model);
    return status;
}

enum qkv_status qkv_tokenizer_load(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (status) return status;
    if (qkv_spm_is(map.data, map.size))
        status = file_spm(ctx, path, &map, out);
    else if (qkv_tiktoken_is(map.data, map.size))
        status = file_ranks(ctx, path, &map, out);
    else
        status = qkv_tokenizer_parse(ctx, (const char *)map.data, map.size, path, out);
    qkv_unmap_file(&map);
    return status;
}
