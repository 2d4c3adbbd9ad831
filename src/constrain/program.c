/* Programs: operations of the nodes that some text can meet. */
#include "constrain/grammar.h"

#include <stdlib.h>
#include <string.h>

/* Repetitions of so few operations are written out; others count turns. */
enum { WRITTEN_TURNS = 4, WRITTEN_OPS = 32 };
#define NO_OP UINT32_MAX

struct maker {
    struct qkv_grammar *g;
    struct qkv_program *p;
    bool *meets;      /* (nodes): some text meets it */
    uint32_t *starts; /* (rules): its first operation; NO_OP: not needed so far */
    struct qkv_node_list todo;
};

/* ---- what no text can meet --------------------------------------------------------------------------------------- */

static bool node_meets(const struct maker *m, const struct qkv_grammar_node *n) {
    switch ((enum qkv_node_kind)n->kind) {
    case QKV_NODE_NONE:
        return false;
    case QKV_NODE_NOTHING:
    case QKV_NODE_BYTES:
    case QKV_NODE_SET:
        return true;
    case QKV_NODE_CAT:
        return m->meets[n->a] && m->meets[n->b];
    case QKV_NODE_ALT:
        return m->meets[n->a] || m->meets[n->b];
    case QKV_NODE_REPEAT:
        return !n->min || m->meets[n->a];
    case QKV_NODE_RULE:
        return m->meets[m->g->rules[n->a].node];
    }
    return false;
}

/* A rule may come after what calls it: repeats until nothing changes. */
static void find_met(struct maker *m) {
    for (bool more = true; more;) {
        more = false;
        for (size_t k = 0; k < 2 * m->g->count; k++) { /* forwards, then backwards */
            const size_t i = k < m->g->count ? k : 2 * m->g->count - 1 - k;
            if (m->meets[i] || !node_meets(m, &m->g->nodes[i])) continue;
            m->meets[i] = more = true;
        }
    }
}

/* Says why no text meets the grammar: follows nodes without a text from the root, until there is none or a rule comes
 * again. */
static enum qkv_status fail_unmet(const struct maker *m) {
    const struct qkv_grammar *g = m->g;
    const struct qkv_rule *rule = NULL;
    uint32_t node = g->root;
    for (size_t steps = 0; steps < g->count + g->rule_count && g->nodes[node].kind != QKV_NODE_NONE; steps++) {
        const struct qkv_grammar_node *n = &g->nodes[node];
        node = n->a;
        if (n->kind == QKV_NODE_RULE) rule = &g->rules[n->a], node = rule->node;
        if (n->kind == QKV_NODE_CAT && m->meets[n->a]) node = n->b;
    }
    const char *place = rule ? rule->place : "the constraint";
    if (g->nodes[node].kind != QKV_NODE_NONE)
        return qkv_fail(g->ctx, QKV_FORMAT, "%s: it leads back to itself and never ends; make a part of it optional",
                        place);
    return qkv_fail(g->ctx, QKV_FORMAT, "%s: no text can meet it%s%s", place, rule && rule->why ? ": " : "",
                    rule && rule->why ? rule->why : "");
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static uint32_t program_add(struct maker *m, struct qkv_op op) {
    struct qkv_grammar *g = m->g;
    struct qkv_program *p = m->p;
    if (g->status) return 0;
    if (p->count == QKV_CONSTRAIN_OPS) {
        qkv_grammar_fail(g, QKV_ARGUMENT,
                         "the constraint is too large: it needs more than %d operations; shorten it, or leave out "
                         "large numbers of repetitions",
                         QKV_CONSTRAIN_OPS);
        return 0;
    }
    struct qkv_op *ops = qkv_list_room(g->ctx, p->ops, &p->capacity, p->count, 1, sizeof *ops);
    if (!ops) {
        g->status = QKV_MEMORY;
        return 0;
    }
    p->ops = ops;
    ops[p->count] = op;
    return (uint32_t)p->count++;
}

static uint32_t program_split(struct maker *m, uint32_t a, uint32_t b) {
    return a == b ? a : program_add(m, (struct qkv_op){.kind = QKV_OP_SPLIT, .a = a, .b = b});
}

static uint32_t write_node(struct maker *m, uint32_t node, uint32_t next);

static uint32_t write_bytes(struct maker *m, const struct qkv_grammar_node *n, uint32_t next) {
    struct qkv_grammar *g = m->g;
    for (size_t i = n->b; i-- > 0 && !g->status;) {
        const unsigned char byte = (unsigned char)g->literals.data[n->a + i];
        const uint32_t node = qkv_node_range(g, byte, byte);
        next = program_add(m, (struct qkv_op){.kind = QKV_OP_SET, .a = g->nodes[node].a, .b = next});
    }
    return next;
}

static uint32_t write_repeat(struct maker *m, struct qkv_grammar_node n, uint32_t next) {
    const uint32_t turns = n.max == QKV_CONSTRAIN_MANY ? n.min : n.max;
    if (!m->meets[n.a]) return next;
    if (turns > 1 && (turns > WRITTEN_TURNS || m->g->nodes[n.a].size * (uint64_t)turns > WRITTEN_OPS)) {
        const uint32_t body = write_node(m, n.a, 0);
        return program_add(m, (struct qkv_op){.kind = QKV_OP_LOOP, .a = body, .b = next, .min = n.min, .max = n.max});
    }
    if (n.max == QKV_CONSTRAIN_MANY) {
        const uint32_t loop = program_add(m, (struct qkv_op){.kind = QKV_OP_SPLIT, .b = next});
        const uint32_t body = write_node(m, n.a, loop);
        if (!m->g->status) m->p->ops[loop].a = body;
        next = loop;
    }
    const uint32_t end = next;
    for (uint32_t i = n.max == QKV_CONSTRAIN_MANY ? n.min : n.max; i-- > 0;) {
        next = write_node(m, n.a, next);
        if (i >= n.min) next = program_split(m, next, end);
    }
    return next;
}

static uint32_t write_rule(struct maker *m, uint32_t rule, uint32_t next) {
    if (m->starts[rule] == NO_OP) {
        m->starts[rule] = program_add(m, (struct qkv_op){.kind = QKV_OP_SPLIT});
        qkv_node_list_add(m->g, &m->todo, rule);
    }
    if (!next && !m->g->rules[rule].nests) return m->starts[rule];
    return program_add(
        m, (struct qkv_op){.kind = QKV_OP_CALL, .nests = m->g->rules[rule].nests, .a = m->starts[rule], .b = next});
}

/* Writes the operations of a node that some text meets, before those that begin at `next`; returns the first one. */
static uint32_t write_node(struct maker *m, uint32_t node, uint32_t next) {
    const struct qkv_grammar_node n = m->g->nodes[node];
    if (m->g->status) return 0;
    switch ((enum qkv_node_kind)n.kind) {
    case QKV_NODE_NONE:
    case QKV_NODE_NOTHING:
        return next;
    case QKV_NODE_BYTES:
        return write_bytes(m, &n, next);
    case QKV_NODE_SET:
        return program_add(m, (struct qkv_op){.kind = QKV_OP_SET, .a = n.a, .b = next});
    case QKV_NODE_CAT:
        return write_node(m, n.a, write_node(m, n.b, next));
    case QKV_NODE_ALT:
        if (!m->meets[n.a]) return write_node(m, n.b, next);
        if (!m->meets[n.b]) return write_node(m, n.a, next);
        return program_split(m, write_node(m, n.a, next), write_node(m, n.b, next));
    case QKV_NODE_REPEAT:
        return write_repeat(m, n, next);
    case QKV_NODE_RULE:
        return write_rule(m, n.a, next);
    }
    return next;
}

static void write_all(struct maker *m) {
    struct qkv_program *p = m->p;
    program_add(m, (struct qkv_op){.kind = QKV_OP_END});
    for (size_t i = 0; i < m->g->rule_count; i++) m->starts[i] = NO_OP;
    p->start = write_node(m, m->g->root, 0);
    while (m->todo.count && !m->g->status) {
        const uint32_t rule = m->todo.items[--m->todo.count];
        const uint32_t body = write_node(m, m->g->rules[rule].node, 0);
        if (!m->g->status) p->ops[m->starts[rule]].a = p->ops[m->starts[rule]].b = body;
    }
}

/* ---- classes of bytes -------------------------------------------------------------------------------------------- */

static bool set_has(const struct qkv_byte_set *s, unsigned byte) {
    return s->bits[byte / 64] >> byte % 64 & 1;
}

/* Splits the classes by each set. There are never more classes than bytes. */
static void find_classes(struct qkv_program *p, size_t set_count) {
    p->classes = 1;
    for (size_t s = 0; s < set_count; s++) {
        int inside[256];
        unsigned outside[256] = {0};
        for (unsigned c = 0; c < 256; c++) inside[c] = -1;
        for (unsigned b = 0; b < 256; b++) outside[p->class_of[b]] |= !set_has(&p->sets[s], b);
        for (unsigned b = 0; b < 256; b++) {
            const unsigned c = p->class_of[b];
            if (!set_has(&p->sets[s], b) || !outside[c]) continue;
            if (inside[c] < 0) inside[c] = (int)p->classes++;
            p->class_of[b] = (uint8_t)inside[c];
        }
    }
    for (unsigned b = 256; b-- > 0;) p->byte_of[p->class_of[b]] = (uint8_t)b;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

void qkv_program_free(struct qkv_program *p) {
    free(p->ops);
    free(p->sets);
    *p = (struct qkv_program){0};
}

static enum qkv_status program_run(struct maker *m) {
    struct qkv_grammar *g = m->g;
    m->meets = qkv_allocate(g->ctx, g->count, sizeof *m->meets);
    m->starts = qkv_allocate(g->ctx, g->rule_count + 1, sizeof *m->starts);
    if (!m->meets || !m->starts) return QKV_MEMORY;
    find_met(m);
    if (!m->meets[g->root]) return fail_unmet(m);
    write_all(m);
    if (g->status) return g->status;
    m->p->sets = g->sets;
    g->sets = NULL;
    find_classes(m->p, g->set_count);
    return QKV_OK;
}

enum qkv_status qkv_program_make(struct qkv_grammar *g, struct qkv_program *p) {
    struct maker m = {.g = g, .p = p};
    *p = (struct qkv_program){0};
    const enum qkv_status status = g->status ? g->status : program_run(&m);
    free(m.meets), free(m.starts), free(m.todo.items);
    if (status) qkv_program_free(p);
    return status;
}
