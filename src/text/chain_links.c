/* Reads the links of a tokenizer.json, and what follows from those that are there. */
#include "text/spm.h"

#include <string.h>

#define DEPTH_MAX 32 /* of nested Sequences */
#define LINKS_MAX 256

static const char *read_type(const json_t *value) {
    const char *type = json_string_value(json_object_get(value, "type"));
    return type ? type : "";
}

static enum qkv_status read_unknown_kind(struct chain_reader *r, const json_t *value, const struct chain_kind *kinds) {
    char knows[400] = "null, Sequence";
    size_t n = strlen(knows);
    for (size_t i = 0; kinds[i].name && n < sizeof knows; i++)
        n += (size_t)snprintf(knows + n, sizeof knows - n, "%s%s", kinds[i + 1].name ? ", " : " and ", kinds[i].name);
    return qkv_json_refuse(r->ctx, r->name, r->key, value, knows);
}

static enum qkv_status read_link(struct chain_reader *r, const json_t *value, const struct chain_kind *kind,
                                 struct chain_links *links) {
    if (links->count == LINKS_MAX)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s has more than %d links", r->name, r->key, LINKS_MAX);
    struct chain_link *at = qkv_list_room(r->ctx, links->at, &links->capacity, links->count, 1, sizeof *at);
    if (!at) return QKV_MEMORY;
    links->at = at;
    struct chain_link *link = &links->at[links->count++];
    *link = (struct chain_link){.kind = kind};
    return kind->read ? kind->read(r, value, link) : QKV_OK;
}

/* A Sequence for SentencePiece is one link, of which its parts say less; splitters are none. */
static enum qkv_status read_spm(struct chain_reader *r, const json_t *value, const struct chain_kind *kinds,
                                struct chain_links *links) {
    if (kinds == qkv_chain_splitters) return QKV_OK;
    r->chain->reads_bytes = r->chain->reads_bytes || kinds == qkv_chain_normalizers;
    return read_link(r, value, kinds == qkv_chain_normalizers ? &qkv_spm_normalizer : &qkv_spm_decoder, links);
}

static enum qkv_status read_links(struct chain_reader *r, const json_t *value, const char *list,
                                  const struct chain_kind *kinds, struct chain_links *links, int depth) {
    if ((!value || json_is_null(value))) return QKV_OK;
    enum qkv_status status = QKV_OK;
    if (strcmp(read_type(value), "Sequence") == 0) {
        const json_t *parts = json_object_get(value, list);
        if (!json_is_array(parts)) return qkv_chain_refuse(r, list, parts, "a list");
        if (json_object_get(value, QKV_SPM_KEY)) return read_spm(r, value, kinds, links);
        if (depth == DEPTH_MAX)
            return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s has more than %d nested Sequences", r->name, r->key, DEPTH_MAX);
        for (size_t i = 0; i < json_array_size(parts) && !status; i++) {
            const json_t *part = json_array_get(parts, i);
            status = json_is_object(part) ? read_links(r, part, list, kinds, links, depth + 1)
                                          : read_unknown_kind(r, part, kinds);
        }
        return status;
    }
    const struct chain_kind *kind = kinds;
    while (kind->name && strcmp(kind->name, read_type(value)) != 0) kind++;
    return kind->name ? read_link(r, value, kind, links) : read_unknown_kind(r, value, kinds);
}

enum qkv_status qkv_chain_links(struct chain_reader *r, const json_t *value, const char *list,
                                const struct chain_kind *kinds, struct chain_links *links) {
    return read_links(r, value, list, kinds, links, 0);
}

bool qkv_chain_byte_level(const struct qkv_chain *c) {
    const size_t last = c->splitters.count - 1;
    if (!c->splitters.count || strcmp(c->splitters.at[last].kind->name, "ByteLevel") != 0) return false;
    if (c->splitters.at[last].flags[BYTES_PREFIX] || c->decoders.count != 1) return false;
    for (size_t i = 0; i < last; i++)
        if (!c->splitters.at[i].kind->cuts) return false;
    return strcmp(c->decoders.at[0].kind->name, "ByteLevel") == 0;
}

void qkv_chain_settle(struct qkv_chain *c) {
    if (c->bytes) c->splitters.at[c->splitters.count - 1].kind = &qkv_chain_bytes_cut;
    c->cuts = true;
    for (size_t i = 0; i < c->splitters.count; i++) c->cuts = c->cuts && c->splitters.at[i].kind->cuts;
}
