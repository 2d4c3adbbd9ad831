/* Pages of prefixes: full pages of texts, found again by their ids. A node is a page of the pool, and holds one
 * reference to it; its parent has the positions before. Ids are compared, so equal hashes of other texts do no harm. */
#include "generate/engine.h"
#include "model/spec.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

static size_t positions_of(const struct qkv_engine *e) {
    return e->decoder->pool->positions;
}

enum qkv_status qkv_engine_prefixes_create(struct qkv_engine *e) {
    struct qkv_engine_prefixes *p = &e->prefixes;
    const size_t pages = e->decoder->pool->count;
    size_t ids;
    if (e->model->encoder.spec) return QKV_OK; /* what reads sources shares nothing */
    p->count = pages;
    p->head_count = 1;
    while (p->head_count < pages) p->head_count *= 2;
    if (!qkv_multiply(pages, positions_of(e), &ids)) return qkv_fail_memory(e->ctx, SIZE_MAX, "ids of pages");
    p->nodes = qkv_allocate(e->ctx, pages, sizeof *p->nodes);
    p->ids = qkv_allocate(e->ctx, ids, sizeof *p->ids);
    p->heads = qkv_allocate(e->ctx, p->head_count, sizeof *p->heads);
    if (!p->nodes || !p->ids || !p->heads) return QKV_MEMORY;
    for (size_t i = 0; i < p->head_count; i++) p->heads[i] = NONE;
    return QKV_OK;
}

void qkv_engine_prefixes_free(struct qkv_engine *e) {
    free(e->prefixes.nodes);
    free(e->prefixes.ids);
    free(e->prefixes.heads);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* What the first page of an answer follows: rotations may depend on the length of the whole text, and keys and values
 * depend on the adapter. */
static uint64_t root_hash(const struct qkv_engine *e, const struct qkv_engine_answer *a) {
    const uint64_t decided = qkv_stack_by_length(&e->model->decoder) ? a->job->decided : 0;
    const int32_t adapter = qkv_engine_adapter(a->job);
    return qkv_hash(qkv_hash(QKV_HASH_START, &decided, sizeof decided), &adapter, sizeof adapter);
}

static int32_t *head_of(struct qkv_engine_prefixes *p, uint64_t hash) {
    return &p->heads[(hash ^ hash >> 32) & (p->head_count - 1)];
}

/* The node of a page with these ids after `parent`, computed with this adapter; NONE: there is none. */
static int32_t node_find(const struct qkv_engine *e, uint64_t hash, int32_t adapter, int32_t parent,
                         const int32_t *ids) {
    struct qkv_engine_prefixes *p = (struct qkv_engine_prefixes *)(uintptr_t)&e->prefixes;
    const size_t positions = positions_of(e);
    for (int32_t i = *head_of(p, hash); i != NONE; i = p->nodes[i].next)
        if (p->nodes[i].hash == hash && p->nodes[i].adapter == adapter && p->nodes[i].parent == parent &&
            !memcmp(p->ids + (size_t)i * positions, ids, positions * sizeof *ids))
            return i;
    return NONE;
}

static void node_add(struct qkv_engine *e, int32_t page, uint64_t hash, int32_t adapter, int32_t parent,
                     const int32_t *ids) {
    struct qkv_engine_prefixes *p = &e->prefixes;
    int32_t *head = head_of(p, hash);
    p->nodes[page] = (struct qkv_engine_node){
        .kept = true, .hash = hash, .adapter = adapter, .parent = parent, .next = *head, .used = e->state.steps};
    memcpy(p->ids + (size_t)page * positions_of(e), ids, positions_of(e) * sizeof *ids);
    *head = page;
    if (parent != NONE) p->nodes[parent].children++;
    e->decoder->pool->references[page]++;
}

static void node_remove(struct qkv_engine *e, int32_t page) {
    struct qkv_engine_prefixes *p = &e->prefixes;
    struct qkv_engine_node *node = &p->nodes[page];
    struct qkv_page_pool *pool = e->decoder->pool;
    int32_t *at = head_of(p, node->hash);
    while (*at != page) at = &p->nodes[*at].next;
    *at = node->next;
    if (node->parent != NONE) p->nodes[node->parent].children--;
    node->kept = false;
    if (--pool->references[page] == 0) pool->spare[pool->spare_count++] = page;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Models that read sources or see prompts in both directions, and requests for scores of their prompts, share
 * nothing. */
static bool shares(const struct qkv_engine *e, const struct qkv_engine_answer *a) {
    return !e->forget && !e->places && !e->model->spec.prefix && !a->job->request.prompt_probabilities;
}

void qkv_engine_find(struct qkv_engine *e, struct qkv_engine_answer *a) {
    struct qkv_decoder *d = e->decoder;
    struct qkv_page_list *list = &d->lists[a->row];
    const size_t positions = positions_of(e);
    uint64_t hash = root_hash(e, a);
    a->known = 0;
    a->node = NONE;
    a->node_hash = hash;
    for (size_t end = positions; shares(e, a) && end < a->count; end += positions) {
        const int32_t *ids = a->ids + end - positions;
        hash = qkv_hash(hash, ids, positions * sizeof *ids);
        const int32_t node = node_find(e, hash, qkv_engine_adapter(a->job), a->node, ids);
        if (node == NONE) break;
        e->prefixes.nodes[node].used = e->state.steps;
        d->pool->references[node]++;
        list->pages[list->count++] = node;
        list->length = end;
        a->known++;
        a->node = node;
        a->node_hash = hash;
    }
    d->reached[a->row] = list->length;
}

void qkv_engine_keep(struct qkv_engine *e, struct qkv_engine_answer *a) {
    const struct qkv_page_list *list = &e->decoder->lists[a->row];
    const size_t positions = positions_of(e), full = qkv_min(list->length, a->count) / positions; /* no guesses */
    struct qkv_engine_node *nodes = e->prefixes.nodes;
    const int32_t adapter = qkv_engine_adapter(a->job);
    if (!shares(e, a)) return;
    while (a->known < full) {
        const int32_t *ids = a->ids + a->known * positions, page = list->pages[a->known];
        const uint64_t hash = qkv_hash(a->node_hash, ids, positions * sizeof *ids);
        if (a->node != NONE && (!nodes[a->node].kept || nodes[a->node].hash != a->node_hash)) return; /* forgotten */
        int32_t node = node_find(e, hash, adapter, a->node, ids);
        if (node == NONE && nodes[page].kept) return; /* the page is another node's */
        if (node == NONE) node_add(e, page, hash, adapter, a->node, ids);
        if (node == NONE) node = page;
        nodes[node].used = e->state.steps;
        a->node = node;
        a->node_hash = hash;
        a->known++;
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

bool qkv_engine_forget_one(struct qkv_engine *e) {
    const struct qkv_page_pool *pool = e->decoder->pool;
    int32_t oldest = NONE;
    for (size_t i = 0; i < e->prefixes.count; i++) {
        const struct qkv_engine_node *node = &e->prefixes.nodes[i];
        if (!node->kept || node->children || pool->references[i] != 1) continue;
        if (oldest == NONE || node->used < e->prefixes.nodes[oldest].used) oldest = (int32_t)i;
    }
    if (oldest != NONE) node_remove(e, oldest);
    return oldest != NONE;
}

size_t qkv_engine_kept(const struct qkv_engine *e) {
    size_t count = 0;
    for (size_t i = 0; i < e->prefixes.count; i++)
        count += e->prefixes.nodes[i].kept && e->decoder->pool->references[i] == 1;
    return count;
}
