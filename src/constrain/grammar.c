/* Grammars: nodes, simplified where they are made, and rules. */
#include "constrain/grammar.h"

#include <stdlib.h>
#include <string.h>

void qkv_grammar_begin(struct qkv_context *ctx, struct qkv_grammar *g) {
    *g = (struct qkv_grammar){.ctx = ctx, .root = QKV_NODE_NEVER};
    g->nodes = qkv_list_room(ctx, NULL, &g->capacity, 0, 64, sizeof *g->nodes);
    if (!g->nodes) {
        g->status = QKV_MEMORY;
        return;
    }
    g->nodes[QKV_NODE_NEVER] = (struct qkv_grammar_node){.kind = QKV_NODE_NONE};
    g->nodes[QKV_NODE_EMPTY] = (struct qkv_grammar_node){.kind = QKV_NODE_NOTHING};
    g->count = 2;
}

void qkv_grammar_free(struct qkv_grammar *g) {
    for (size_t i = 0; i < g->rule_count; i++) free(g->rules[i].place), free(g->rules[i].why);
    free(g->nodes), free(g->sets), free(g->rules);
    qkv_strings_free(&g->set_index);
    qkv_buffer_free(&g->literals);
    *g = (struct qkv_grammar){0};
}

uint32_t qkv_grammar_fail(struct qkv_grammar *g, enum qkv_status status, const char *format, ...) {
    char text[512];
    va_list arguments;
    if (g->status) return QKV_NODE_NEVER;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    g->status = qkv_fail(g->ctx, status, "%s", text);
    return QKV_NODE_NEVER;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static uint32_t grammar_add(struct qkv_grammar *g, struct qkv_grammar_node node) {
    if (g->status) return QKV_NODE_NEVER;
    if (g->count == QKV_CONSTRAIN_NODES || node.size > QKV_CONSTRAIN_OPS)
        return qkv_grammar_fail(g, QKV_ARGUMENT,
                                "the constraint is too large: it needs more than %d operations; shorten it, or leave "
                                "out large numbers of repetitions",
                                QKV_CONSTRAIN_OPS);
    struct qkv_grammar_node *nodes = qkv_list_room(g->ctx, g->nodes, &g->capacity, g->count, 1, sizeof *nodes);
    if (!nodes) {
        g->status = QKV_MEMORY;
        return QKV_NODE_NEVER;
    }
    g->nodes = nodes;
    g->nodes[g->count] = node;
    return (uint32_t)g->count++;
}

static uint32_t grammar_size(uint64_t size) {
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

uint32_t qkv_node_bytes(struct qkv_grammar *g, const char *data, size_t size) {
    const size_t at = g->literals.size;
    if (!size) return QKV_NODE_EMPTY;
    if (g->status) return QKV_NODE_NEVER;
    if (at + size > UINT32_MAX / 2) return qkv_grammar_fail(g, QKV_ARGUMENT, "the constraint has too much text");
    g->status = qkv_buffer_append(g->ctx, &g->literals, data, size);
    return grammar_add(g,
                       (struct qkv_grammar_node){
                           .kind = QKV_NODE_BYTES, .a = (uint32_t)at, .b = (uint32_t)size, .size = grammar_size(size)});
}

static bool set_is_empty(const struct qkv_byte_set *s) {
    return !(s->bits[0] | s->bits[1] | s->bits[2] | s->bits[3]);
}

uint32_t qkv_node_set(struct qkv_grammar *g, const struct qkv_byte_set *set) {
    if (g->status || set_is_empty(set)) return QKV_NODE_NEVER;
    struct qkv_string *entry = qkv_strings_add(g->ctx, &g->set_index, (const char *)set, sizeof *set);
    if (entry && !entry->value) {
        struct qkv_byte_set *sets = qkv_list_room(g->ctx, g->sets, &g->set_capacity, g->set_count, 1, sizeof *sets);
        if (sets) {
            g->sets = sets;
            sets[g->set_count++] = *set;
            entry->value = (int64_t)g->set_count;
        }
    }
    if (!entry || !entry->value) {
        g->status = QKV_MEMORY;
        return QKV_NODE_NEVER;
    }
    return grammar_add(g, (struct qkv_grammar_node){.kind = QKV_NODE_SET, .a = (uint32_t)entry->value - 1, .size = 1});
}

uint32_t qkv_node_range(struct qkv_grammar *g, unsigned low, unsigned high) {
    struct qkv_byte_set set = {{0}};
    for (unsigned i = low; i <= high && i < 256; i++) set.bits[i / 64] |= UINT64_C(1) << i % 64;
    return qkv_node_set(g, &set);
}

uint32_t qkv_node_cat(struct qkv_grammar *g, uint32_t a, uint32_t b) {
    if (a == QKV_NODE_NEVER || b == QKV_NODE_NEVER) return QKV_NODE_NEVER;
    if (a == QKV_NODE_EMPTY) return b;
    if (b == QKV_NODE_EMPTY) return a;
    return grammar_add(
        g,
        (struct qkv_grammar_node){
            .kind = QKV_NODE_CAT, .a = a, .b = b, .size = grammar_size((uint64_t)g->nodes[a].size + g->nodes[b].size)});
}

uint32_t qkv_node_alt(struct qkv_grammar *g, uint32_t a, uint32_t b) {
    if (a == QKV_NODE_NEVER || a == b) return b;
    if (b == QKV_NODE_NEVER) return a;
    return grammar_add(
        g, (struct qkv_grammar_node){.kind = QKV_NODE_ALT,
                                     .a = a,
                                     .b = b,
                                     .size = grammar_size(1 + (uint64_t)g->nodes[a].size + g->nodes[b].size)});
}

uint32_t qkv_node_repeat(struct qkv_grammar *g, uint32_t node, uint32_t min, uint32_t max) {
    if (min > max) return QKV_NODE_NEVER;
    if (max == 0 || node == QKV_NODE_EMPTY) return QKV_NODE_EMPTY;
    if (node == QKV_NODE_NEVER) return min ? QKV_NODE_NEVER : QKV_NODE_EMPTY;
    if (min == 1 && max == 1) return node;
    return grammar_add(g, (struct qkv_grammar_node){.kind = QKV_NODE_REPEAT,
                                                    .a = node,
                                                    .min = min,
                                                    .max = max,
                                                    .size = grammar_size(1 + (uint64_t)g->nodes[node].size)});
}

uint32_t qkv_node_join(struct qkv_grammar *g, enum qkv_node_kind kind, const uint32_t *nodes, size_t count) {
    if (!count) return kind == QKV_NODE_CAT ? QKV_NODE_EMPTY : QKV_NODE_NEVER;
    if (count == 1) return nodes[0];
    const uint32_t a = qkv_node_join(g, kind, nodes, count / 2);
    const uint32_t b = qkv_node_join(g, kind, nodes + count / 2, count - count / 2);
    return kind == QKV_NODE_CAT ? qkv_node_cat(g, a, b) : qkv_node_alt(g, a, b);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static int texts_order(const void *a, const void *b) {
    const struct qkv_grammar_text *x = a, *y = b;
    const int order = x->size && y->size ? memcmp(x->data, y->data, qkv_min(x->size, y->size)) : 0;
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* Sorted texts from byte `from` on: what all begin with, then a tree for each next byte. */
static uint32_t texts_tree(struct qkv_grammar *g, const struct qkv_grammar_text *texts, size_t count, size_t from) {
    const struct qkv_grammar_text first = texts[0], last = texts[count - 1];
    struct qkv_node_list list = {0};
    size_t to = from, i = 0;
    while (to < first.size && to < last.size && first.data[to] == last.data[to]) to++;
    if (g->status) return QKV_NODE_NEVER;
    while (i < count && texts[i].size == to) i++; /* they end here */
    const bool ends = i > 0;
    while (i < count) {
        size_t next = i;
        while (next < count && texts[next].data[to] == texts[i].data[to]) next++;
        qkv_node_list_add(g, &list, texts_tree(g, texts + i, next - i, to));
        i = next;
    }
    uint32_t node = qkv_node_join(g, QKV_NODE_ALT, list.items, list.count);
    if (ends) node = qkv_node_option(g, node);
    free(list.items);
    return qkv_node_cat(g, qkv_node_bytes(g, first.data + from, to - from), node);
}

uint32_t qkv_node_texts(struct qkv_grammar *g, struct qkv_grammar_text *texts, size_t count) {
    if (!count) return QKV_NODE_NEVER;
    qsort(texts, count, sizeof *texts, texts_order);
    return texts_tree(g, texts, count, 0);
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

uint32_t qkv_grammar_rule(struct qkv_grammar *g, const char *place) {
    struct qkv_rule *rules =
        g->status ? NULL : qkv_list_room(g->ctx, g->rules, &g->rule_capacity, g->rule_count, 1, sizeof *rules);
    if (rules) {
        g->rules = rules;
        rules[g->rule_count] = (struct qkv_rule){.place = qkv_copy_string(g->ctx, place)};
        if (rules[g->rule_count].place) return (uint32_t)g->rule_count++;
    }
    if (!g->status) g->status = QKV_MEMORY;
    return 0;
}

uint32_t qkv_node_rule(struct qkv_grammar *g, uint32_t rule) {
    return grammar_add(g, (struct qkv_grammar_node){.kind = QKV_NODE_RULE, .a = rule, .size = 1});
}

void qkv_node_list_add(struct qkv_grammar *g, struct qkv_node_list *list, uint32_t node) {
    if (g->status) return;
    uint32_t *items = qkv_list_room(g->ctx, list->items, &list->capacity, list->count, 1, sizeof *items);
    if (!items) {
        g->status = QKV_MEMORY;
        return;
    }
    list->items = items;
    items[list->count++] = node;
}
