/* Merges of a vocabulary whose tokens have scores, as byte-pair encoding of SentencePiece uses them: two neighbours are
 * joined if their texts together are a token, first those of the token with the highest score. */
#include <stdlib.h>
#include <string.h>

#include "text/spm.h"

struct scored_merge {
    float score;
    uint32_t id, left, right; /* tokens */
    uint32_t cut;             /* bytes of the left one */
};
struct scored_merges {
    struct qkv_context *ctx;
    const struct qkv_scored *tokens;
    struct qkv_strings table; /* value: the token */
    struct scored_merge *list;
    size_t count, capacity;
};

static int scored_compare(const void *a, const void *b) {
    const struct scored_merge *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->cut == y->cut ? 0 : x->cut > y->cut ? -1 : 1;
}

/* Adds the merges that make a token. */
static enum qkv_status scored_token(struct scored_merges *m, size_t id) {
    const struct qkv_scored *t = &m->tokens[id];
    for (size_t cut = 1; cut < t->size; cut++) {
        const struct qkv_string *left = qkv_strings_find(&m->table, t->text, cut);
        const struct qkv_string *right = left ? qkv_strings_find(&m->table, t->text + cut, t->size - cut) : NULL;
        if (!right) continue;
        struct scored_merge *list = qkv_list_room(m->ctx, m->list, &m->capacity, m->count, 1, sizeof *list);
        if (!list) return QKV_MEMORY;
        m->list = list;
        list[m->count++] = (struct scored_merge){.score = t->score,
                                                 .id = (uint32_t)id,
                                                 .left = (uint32_t)left->value,
                                                 .right = (uint32_t)right->value,
                                                 .cut = (uint32_t)cut};
    }
    return QKV_OK;
}

static enum qkv_status scored_find(struct scored_merges *m, size_t count) {
    enum qkv_status status = QKV_OK;
    for (size_t id = 0; id < count; id++) {
        if (!m->tokens[id].joins) continue;
        struct qkv_string *entry = qkv_strings_add(m->ctx, &m->table, m->tokens[id].text, m->tokens[id].size);
        if (!entry) return QKV_MEMORY;
        entry->value = (int64_t)id;
    }
    for (size_t id = 0; id < count && !status; id++)
        if (m->tokens[id].joins) status = scored_token(m, id);
    if (m->count) qsort(m->list, m->count, sizeof *m->list, scored_compare);
    return status;
}

static json_t *scored_json(const struct scored_merges *m) {
    json_t *list = json_array();
    bool made = list != NULL;
    for (size_t i = 0; i < m->count && made; i++) {
        const struct qkv_scored *left = &m->tokens[m->list[i].left], *right = &m->tokens[m->list[i].right];
        made = !json_array_append_new(
            list, json_pack("[o, o]", json_stringn(left->text, left->size), json_stringn(right->text, right->size)));
    }
    if (made) return list;
    json_decref(list);
    return NULL;
}

static json_t *scored_groups(const struct scored_merges *m) {
    json_t *list = json_array();
    bool made = list != NULL;
    for (size_t i = 0, end; i < m->count && made; i = end) {
        for (end = i + 1; end < m->count && m->list[end].score >= m->list[i].score;) end++;
        made = !json_array_append_new(list, json_integer((json_int_t)(end - i)));
    }
    if (made) return list;
    json_decref(list);
    return NULL;
}

enum qkv_status qkv_scored_merges(struct qkv_context *ctx, const struct qkv_scored *tokens, size_t count,
                                  json_t **merges, json_t **groups) {
    struct scored_merges m = {.ctx = ctx, .tokens = tokens};
    *merges = NULL;
    if (groups) *groups = NULL;
    enum qkv_status status = scored_find(&m, count);
    if (!status) *merges = scored_json(&m);
    if (!status && groups) *groups = scored_groups(&m);
    if (!status && (!*merges || (groups && !*groups))) status = qkv_fail_memory(ctx, 0, "a vocabulary");
    if (status) {
        json_decref(*merges);
        *merges = NULL;
        if (groups) json_decref(*groups);
        if (groups) *groups = NULL;
    }
    qkv_strings_free(&m.table);
    free(m.list);
    return status;
}
