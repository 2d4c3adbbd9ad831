/* Merging the symbols of one piece (Sennrich et al. 2016, "Neural machine translation of rare words with subword
 * units"): again and again the merge of lowest rank, of equals the leftmost. Where merges have levels, these are their
 * order, and several merges may have one. Short pieces by scanning a small array; long ones with a linked list and a
 * heap, so that a piece of n symbols costs O(n log n). */
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

#define SHORT_PIECE 48

struct qkv_merge_node {
    int32_t symbol; /* -1: merged into the one before */
    size_t before, after;
};
struct qkv_merge_step {
    int32_t rank, level;
    size_t at;
};

enum qkv_status qkv_merges_add(struct qkv_context *ctx, struct qkv_merges *merges, int32_t left, int32_t right,
                               int32_t result) {
    struct qkv_merge *list = qkv_list_room(ctx, merges->list, &merges->capacity, merges->count, 1, sizeof *list);
    if (!list) return QKV_MEMORY;
    merges->list = list;
    if (merges->count >= INT32_MAX) return qkv_fail(ctx, QKV_FORMAT, "more than %d merges", INT32_MAX);
    merges->list[merges->count++] = (struct qkv_merge){left, right, result};
    return QKV_OK;
}

static struct qkv_merge_slot *find_slot(const struct qkv_merges *merges, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key = (key ^ key >> 29) * UINT64_C(0x9E3779B97F4A7C15);
    size_t mask = merges->slot_count - 1;
    for (size_t i = (size_t)(key >> 32) & mask;; i = (i + 1) & mask) {
        struct qkv_merge_slot *slot = &merges->slots[i];
        if (slot->rank < 0 || (slot->left == left && slot->right == right)) return slot;
    }
}

enum qkv_status qkv_merges_index(struct qkv_context *ctx, struct qkv_merges *merges, int32_t *twice) {
    if (twice) *twice = -1;
    size_t count = 16;
    while (count < merges->count * 2) count *= 2;
    free(merges->slots);
    merges->slots = qkv_allocate(ctx, count, sizeof *merges->slots);
    if (!merges->slots) return QKV_MEMORY;
    merges->slot_count = count;
    for (size_t i = 0; i < count; i++) merges->slots[i].rank = -1;
    for (size_t i = 0; i < merges->count; i++) {
        const struct qkv_merge *merge = &merges->list[i];
        struct qkv_merge_slot *slot = find_slot(merges, merge->left, merge->right);
        if (slot->rank >= 0 && twice) {
            *twice = (int32_t)i;
            return QKV_OK;
        }
        *slot = (struct qkv_merge_slot){merge->left, merge->right, (int32_t)i, merge->result};
    }
    return QKV_OK;
}

void qkv_merges_free(struct qkv_merges *merges) {
    free(merges->list);
    free(merges->slots);
    free(merges->levels);
    *merges = (struct qkv_merges){0};
}

static int32_t rank_of(const struct qkv_merger *m, const struct qkv_merges *merges, int32_t left, int32_t right) {
    const struct qkv_merge_slot *slot = find_slot(merges, left, right);
    if (slot->rank < 0) return INT32_MAX;
    if (m->seen) m->seen[slot->result] = slot->rank;
    return slot->rank;
}

/* The symbols of a short piece. Merge i joins symbols i and i + 1; its order is INT32_MAX if there is none. */
struct merge_row {
    const struct qkv_merger *merger;
    const struct qkv_merges *merges;
    int32_t orders[SHORT_PIECE], results[SHORT_PIECE];
};

static inline void merge_look(struct merge_row *row, const int32_t *levels, const int32_t *symbols, size_t i) {
    const struct qkv_merge_slot *slot = find_slot(row->merges, symbols[i], symbols[i + 1]);
    row->orders[i] = INT32_MAX;
    if (slot->rank < 0) return;
    row->orders[i] = levels ? levels[slot->rank] : slot->rank;
    row->results[i] = slot->result;
    if (row->merger->seen) row->merger->seen[slot->result] = slot->rank;
}

static inline size_t merge_short(struct merge_row *row, const int32_t *levels, int32_t *symbols, uint32_t *sizes,
                                 size_t n) {
    int32_t *orders = row->orders, *results = row->results;
    for (size_t i = 0; i + 1 < n; i++) merge_look(row, levels, symbols, i);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (orders[i] < orders[best]) best = i;
        }
        if (orders[best] == INT32_MAX) break;
        symbols[best] = results[best];
        memmove(symbols + best + 1, symbols + best + 2, (n - best - 2) * sizeof *symbols);
        if (sizes) {
            sizes[best] += sizes[best + 1];
            memmove(sizes + best + 1, sizes + best + 2, (n - best - 2) * sizeof *sizes);
        }
        if (n - best > 2) {
            memmove(orders + best, orders + best + 1, (n - best - 2) * sizeof *orders);
            memmove(results + best, results + best + 1, (n - best - 2) * sizeof *results);
        }
        n--;
        if (best > 0) merge_look(row, levels, symbols, best - 1);
        if (best + 1 < n) merge_look(row, levels, symbols, best);
    }
    return n;
}

static bool step_before(struct qkv_merge_step a, struct qkv_merge_step b) {
    return a.level != b.level ? a.level < b.level : a.at < b.at;
}

static void merge_push(struct qkv_merger *m, struct qkv_merge_step step) {
    size_t i = m->heap_count++;
    for (; i > 0 && step_before(step, m->heap[(i - 1) / 2]); i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = step;
}

static struct qkv_merge_step merge_pop(struct qkv_merger *m) {
    struct qkv_merge_step first = m->heap[0], last = m->heap[--m->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < m->heap_count; i = child) {
        if (child + 1 < m->heap_count && step_before(m->heap[child + 1], m->heap[child])) child++;
        if (!step_before(m->heap[child], last)) break;
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return first;
}

static enum qkv_status merge_reserve(struct qkv_context *ctx, struct qkv_merger *m, size_t n) {
    if (n > m->node_capacity) {
        struct qkv_merge_node *nodes = qkv_reallocate(ctx, m->nodes, n, sizeof *nodes);
        if (!nodes) return QKV_MEMORY;
        m->nodes = nodes;
        m->node_capacity = n;
    }
    /* n - 1 pairs at first; a merge takes one step out and brings at most two, and there are at most n - 1 merges. */
    size_t steps;
    if (!qkv_multiply(n, 2, &steps)) return qkv_fail_memory(ctx, SIZE_MAX, "merging a piece");
    if (steps > m->heap_capacity) {
        struct qkv_merge_step *heap = qkv_reallocate(ctx, m->heap, steps, sizeof *heap);
        if (!heap) return QKV_MEMORY;
        m->heap = heap;
        m->heap_capacity = steps;
    }
    return QKV_OK;
}

static void merge_consider(struct qkv_merger *m, const struct qkv_merges *merges, size_t at, size_t n) {
    size_t after = m->nodes[at].after;
    if (after >= n) return;
    const int32_t rank = rank_of(m, merges, m->nodes[at].symbol, m->nodes[after].symbol);
    if (rank == INT32_MAX) return;
    merge_push(m, (struct qkv_merge_step){rank, merges->levels ? merges->levels[rank] : rank, at});
}

static void merge_long(struct qkv_merger *m, const struct qkv_merges *merges, size_t n) {
    while (m->heap_count > 0) {
        struct qkv_merge_step step = merge_pop(m);
        const struct qkv_merge *merge = &merges->list[step.rank];
        struct qkv_merge_node *node = &m->nodes[step.at];
        if (node->symbol != merge->left || node->after >= n || m->nodes[node->after].symbol != merge->right) continue;
        node->symbol = merge->result;
        m->nodes[node->after].symbol = -1;
        node->after = m->nodes[node->after].after;
        if (node->after < n) m->nodes[node->after].before = step.at;
        if (node->before < n) merge_consider(m, merges, node->before, n);
        merge_consider(m, merges, step.at, n);
    }
}

enum qkv_status qkv_merge(struct qkv_context *ctx, struct qkv_merger *merger, const struct qkv_merges *merges,
                          int32_t *symbols, uint32_t *sizes, size_t *n) {
    if (merges->count == 0 || *n < 2) return QKV_OK;
    if (*n <= SHORT_PIECE) {
        struct merge_row row;
        row.merger = merger;
        row.merges = merges;
        *n = merges->levels ? merge_short(&row, merges->levels, symbols, sizes, *n)
                            : merge_short(&row, NULL, symbols, sizes, *n);
        return QKV_OK;
    }
    enum qkv_status status = merge_reserve(ctx, merger, *n);
    if (status) return status;
    for (size_t i = 0; i < *n; i++) {
        merger->nodes[i] = (struct qkv_merge_node){symbols[i], i > 0 ? i - 1 : SIZE_MAX, i + 1};
    }
    merger->heap_count = 0;
    for (size_t i = 0; i + 1 < *n; i++) merge_consider(merger, merges, i, *n);
    merge_long(merger, merges, *n);
    size_t left = 0;
    for (size_t i = 0; i < *n; i = merger->nodes[i].after) {
        symbols[left] = merger->nodes[i].symbol;
        uint32_t size = 0;
        for (size_t k = i; sizes && k < merger->nodes[i].after; k++) size += sizes[k];
        if (sizes) sizes[left] = size;
        left++;
    }
    *n = left;
    return QKV_OK;
}

void qkv_merger_free(struct qkv_merger *merger) {
    free(merger->nodes);
    free(merger->heap);
    free(merger->seen);
    *merger = (struct qkv_merger){0};
}
