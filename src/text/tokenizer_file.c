/* Reads a tokenizer's file: a tokenizer.json, or a model of SentencePiece, told apart by their first bytes. */
#include <stdlib.h>
#include <string.h>

#include "text/spm.h"

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

enum qkv_status qkv_tokenizer_load(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (status) return status;
    if (qkv_spm_is(map.data, map.size))
        status = file_spm(ctx, path, &map, out);
    else
        status = qkv_tokenizer_parse(ctx, (const char *)map.data, map.size, path, out);
    qkv_unmap_file(&map);
    return status;
}
