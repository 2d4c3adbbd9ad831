/* A trie as one array (a double array without its compression, Aoe 1989): the child of unit u for a byte is the unit
 * base + byte, if that names u as its parent. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

#define PACK_FIRST 256 /* units before it are the root and padding, so that a base is never negative */
#define PACK_TRIES 32  /* places that are tried before those with holes are left to nodes of one child */

struct packing {
    struct qkv_context *ctx;
    const struct chain_trie *trie;
    struct chain_unit *units;
    size_t count, capacity; /* units that may be in use, and memory */
    size_t single, many;    /* where the search for a place begins, for one child and for several */
    int32_t *unit_of;       /* of each node */
    int32_t *first, *next;  /* the children of each node, a list of edges; −1: its end */
};

static enum qkv_status pack_room(struct packing *p, size_t end) {
    if (end <= p->count) return QKV_OK;
    struct chain_unit *units = qkv_list_room(p->ctx, p->units, &p->capacity, p->count, end - p->count, sizeof *units);
    if (!units) return QKV_MEMORY;
    p->units = units;
    for (; p->count < end; p->count++) units[p->count] = (struct chain_unit){.check = -1, .value = -1};
    return p->count > INT32_MAX / 2 ? qkv_fail(p->ctx, QKV_MEMORY, "a vocabulary has too many bytes") : QKV_OK;
}

static bool pack_fits(const struct packing *p, int32_t node, size_t base) {
    bool free_places = true;
    for (int32_t e = p->first[node]; e >= 0 && free_places; e = p->next[e])
        free_places = p->units[base + qkv_trie_edge(p->trie, (size_t)e).byte].check < 0;
    return free_places;
}

/* A base at which the places of all children are free. */
static enum qkv_status pack_base(struct packing *p, int32_t node, size_t *base) {
    const int32_t edge = p->first[node];
    const unsigned byte = qkv_trie_edge(p->trie, (size_t)edge).byte;
    const bool several = p->next[edge] >= 0;
    size_t *from = several ? &p->many : &p->single;
    size_t tries = 0;
    for (size_t at = *from;; at++) {
        enum qkv_status status = pack_room(p, at + 2 * PACK_FIRST);
        if (status) return status;
        if (p->units[at].check >= 0 || at < byte + PACK_FIRST) continue;
        *base = at - byte;
        if (pack_fits(p, node, *base)) {
            if (!several || tries > PACK_TRIES) *from = at;
            return QKV_OK;
        }
        tries++;
    }
}

static enum qkv_status pack_node(struct packing *p, int32_t node) {
    size_t base;
    const int32_t unit = p->unit_of[node];
    p->units[unit].value = p->trie->values[node];
    if (p->first[node] < 0) return QKV_OK;
    enum qkv_status status = pack_base(p, node, &base);
    if (status) return status;
    p->units[unit].base = (int32_t)base;
    for (int32_t e = p->first[node]; e >= 0; e = p->next[e]) {
        const struct chain_edge edge = qkv_trie_edge(p->trie, (size_t)e);
        const size_t place = base + edge.byte;
        p->units[place].check = unit;
        p->unit_of[edge.child] = (int32_t)place;
    }
    return QKV_OK;
}

enum qkv_status qkv_trie_pack(struct qkv_context *ctx, const struct chain_trie *trie, struct chain_pack *out) {
    struct packing p = {.ctx = ctx, .trie = trie, .single = PACK_FIRST, .many = PACK_FIRST};
    p.unit_of = qkv_allocate(ctx, trie->count + 1, sizeof *p.unit_of);
    p.first = qkv_allocate(ctx, trie->count + 1, sizeof *p.first);
    p.next = qkv_allocate(ctx, trie->slot_count + 1, sizeof *p.next);
    enum qkv_status status = p.unit_of && p.first && p.next ? pack_room(&p, 2 * PACK_FIRST) : QKV_MEMORY;
    for (size_t i = 0; i < trie->count && !status; i++) p.first[i] = -1;
    for (size_t i = 0; i < trie->slot_count && !status; i++) {
        const struct chain_edge edge = qkv_trie_edge(trie, i);
        if (!edge.child) continue;
        p.next[i] = p.first[edge.node];
        p.first[edge.node] = (int32_t)i;
    }
    /* A node has a smaller number than its children, so its unit is known when its turn comes. */
    for (size_t node = 0; node < trie->count && !status; node++) status = pack_node(&p, (int32_t)node);
    free(p.unit_of);
    free(p.first);
    free(p.next);
    if (status) {
        free(p.units);
        return status;
    }
    *out = (struct chain_pack){.units = p.units, .count = p.count};
    return QKV_OK;
}
