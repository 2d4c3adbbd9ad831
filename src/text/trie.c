/* A trie of byte strings whose edges are in one hash table, found by node and byte. */
#include "text/chain.h"

#include <stdlib.h>

static size_t trie_slot(const struct chain_trie *trie, int32_t node, unsigned char byte) {
    const uint64_t key = ((uint64_t)(uint32_t)node << 8 | byte) * UINT64_C(0x9E3779B97F4A7C15);
    const size_t mask = trie->slot_count - 1;
    for (size_t i = (size_t)(key >> 24) & mask;; i = (i + 1) & mask) {
        const struct chain_edge *e = &trie->edges[i];
        if (e->child == 0 || (e->node == node && e->byte == byte)) return i;
    }
}

int32_t qkv_trie_step(const struct chain_trie *trie, int32_t node, unsigned char byte) {
    if (trie->edge_count == 0) return -1;
    const int32_t child = trie->edges[trie_slot(trie, node, byte)].child;
    return child ? child : -1;
}

static enum qkv_status trie_grow(struct qkv_context *ctx, struct chain_trie *trie) {
    const struct chain_trie old = *trie;
    trie->slot_count = old.slot_count ? old.slot_count * 2 : 1024;
    trie->edges = qkv_allocate(ctx, trie->slot_count, sizeof *trie->edges);
    if (!trie->edges) {
        *trie = old;
        return QKV_MEMORY;
    }
    for (size_t i = 0; i < old.slot_count; i++)
        if (old.edges[i].child)
            trie->edges[trie_slot(trie, old.edges[i].node, (unsigned char)old.edges[i].byte)] = old.edges[i];
    free(old.edges);
    return QKV_OK;
}

static enum qkv_status trie_node(struct qkv_context *ctx, struct chain_trie *trie) {
    int32_t *values = qkv_list_room(ctx, trie->values, &trie->capacity, trie->count, 1, sizeof *values);
    if (!values) return QKV_MEMORY;
    trie->values = values;
    if (trie->count >= INT32_MAX) return qkv_fail(ctx, QKV_MEMORY, "a vocabulary has too many bytes");
    trie->values[trie->count++] = -1;
    return QKV_OK;
}

enum qkv_status qkv_trie_add(struct qkv_context *ctx, struct chain_trie *trie, const char *key, size_t size,
                             int32_t value) {
    enum qkv_status status = trie->count ? QKV_OK : trie_node(ctx, trie);
    int32_t node = 0;
    for (size_t i = 0; i < size && !status; i++) {
        if (2 * (trie->edge_count + 1) > trie->slot_count) status = trie_grow(ctx, trie);
        if (status) break;
        const unsigned char byte = (unsigned char)key[i];
        struct chain_edge *e = &trie->edges[trie_slot(trie, node, byte)];
        if (e->child == 0) {
            status = trie_node(ctx, trie);
            if (status) break;
            *e = (struct chain_edge){node, (int32_t)trie->count - 1, byte};
            trie->edge_count++;
        }
        node = e->child;
    }
    if (!status) trie->values[node] = value;
    return status;
}

struct chain_edge qkv_trie_edge(const struct chain_trie *trie, size_t i) {
    return trie->edges[i];
}

void qkv_trie_free(struct chain_trie *trie) {
    free(trie->edges);
    free(trie->values);
    *trie = (struct chain_trie){0};
}
