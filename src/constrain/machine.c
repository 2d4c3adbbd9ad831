/* Machines: sets of configurations, each an operation that reads a byte and a stack of frames; both are stored once. */
#include "constrain/constrain.h"

#include <stdlib.h>
#include <string.h>

#include "text/token_trie.h"

enum { SMALL_TABLE = 256 };

static uint64_t mix(uint64_t x) { /* the end of MurmurHash3, which spreads all bits (Appleby) */
    x ^= x >> 33, x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33, x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

size_t qkv_machine_bytes(const struct qkv_machine *m) {
    return m->frame_capacity * sizeof *m->frames + m->state_capacity * sizeof *m->states +
           m->config_capacity * sizeof *m->configs + m->step_capacity * m->program->classes * sizeof *m->steps +
           (m->frame_slot_count + m->state_slot_count) * sizeof(uint32_t);
}

static uint32_t machine_fail(struct qkv_machine *m, enum qkv_status status) {
    if (!m->status) m->status = status;
    return QKV_STATE_FAILED;
}

/* Refuses to grow past the limit. */
static bool machine_room(struct qkv_context *ctx, struct qkv_machine *m, size_t more) {
    if (m->status) return false;
    if (qkv_machine_bytes(m) + more <= m->limit) return true;
    m->full = true;
    m->status = qkv_fail(ctx, QKV_ARGUMENT,
                         "the constraint needs more than its %zu KiB for the states of one text; make it simpler, or "
                         "give it more memory",
                         m->limit >> 10);
    return false;
}

/* A list of the machine with room for `more` items. */
static void *machine_grow(struct qkv_context *ctx, struct qkv_machine *m, void *items, size_t *capacity, size_t count,
                          size_t more, size_t size) {
    if (count + more > *capacity && !machine_room(ctx, m, qkv_max(more, *capacity) * size)) return NULL;
    void *grown = qkv_list_room(ctx, items, capacity, count, more, size);
    if (!grown) machine_fail(m, QKV_MEMORY);
    return grown;
}

/* Makes a table twice as large; `hash_of` gives the hash of an entry. */
static bool machine_table(struct qkv_context *ctx, struct qkv_machine *m, uint32_t **slots, size_t *count, size_t used,
                          uint64_t (*hash_of)(const struct qkv_machine *m, uint32_t entry)) {
    if (2 * used < *count) return true;
    const size_t size = *count ? 2 * *count : SMALL_TABLE;
    if (!machine_room(ctx, m, size * sizeof **slots)) return false;
    uint32_t *table = qkv_allocate(ctx, size, sizeof *table);
    if (!table) {
        machine_fail(m, QKV_MEMORY);
        return false;
    }
    for (size_t i = 0; i < *count; i++) {
        if (!(*slots)[i]) continue;
        size_t at = hash_of(m, (*slots)[i]) & (size - 1);
        while (table[at]) at = (at + 1) & (size - 1);
        table[at] = (*slots)[i];
    }
    free(*slots);
    *slots = table;
    *count = size;
    return true;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static uint64_t frame_hash(const struct qkv_frame *f) {
    return mix(mix((uint64_t)f->op << 32 | f->parent) ^ ((uint64_t)f->min << 32 | f->max) ^
               ((uint64_t)f->levels << 1 | f->turn));
}

static uint64_t frame_hash_of(const struct qkv_machine *m, uint32_t frame) {
    return frame_hash(&m->frames[frame]);
}

/* The number of a frame; 0: failed. */
static uint32_t machine_frame(struct qkv_context *ctx, struct qkv_machine *m, struct qkv_frame f, bool nests) {
    f.depth = (uint16_t)(m->frames[f.parent].depth + 1);
    f.levels = (uint8_t)(m->frames[f.parent].levels + nests);
    if (f.depth > QKV_CONSTRAIN_FRAMES) {
        if (!m->status) m->status = qkv_fail(ctx, QKV_ARGUMENT, "the text is nested too deeply for its constraint");
        return 0;
    }
    if (!machine_table(ctx, m, &m->frame_slots, &m->frame_slot_count, m->frame_count, frame_hash_of)) return 0;
    size_t at = frame_hash(&f) & (m->frame_slot_count - 1);
    for (; m->frame_slots[at]; at = (at + 1) & (m->frame_slot_count - 1)) {
        const struct qkv_frame *had = &m->frames[m->frame_slots[at]];
        if (had->op == f.op && had->parent == f.parent && had->min == f.min && had->max == f.max &&
            had->turn == f.turn && had->levels == f.levels)
            return m->frame_slots[at];
    }
    struct qkv_frame *frames = machine_grow(ctx, m, m->frames, &m->frame_capacity, m->frame_count, 1, sizeof *frames);
    if (!frames) return 0;
    m->frames = frames;
    frames[m->frame_count] = f;
    return m->frame_slots[at] = (uint32_t)m->frame_count++;
}

/* ---- closures ---------------------------------------------------------------------------------------------------- */

/* Begins with a table that has room; its memory stays for the next one. */
static bool work_begin(struct qkv_context *ctx, struct qkv_machine *m) {
    struct qkv_machine_work *w = &m->work;
    w->count = 0;
    if (!w->seen) w->seen = qkv_allocate(ctx, w->seen_capacity = SMALL_TABLE, sizeof *w->seen);
    if (!w->seen) machine_fail(m, QKV_MEMORY);
    w->seen_count = SMALL_TABLE;
    if (w->seen) memset(w->seen, 0, SMALL_TABLE * sizeof *w->seen);
    return w->seen != NULL;
}

static void seen_put(struct qkv_machine_work *w, uint64_t config) {
    size_t at = mix(config) & (w->seen_count - 1);
    while (w->seen[at]) at = (at + 1) & (w->seen_count - 1);
    w->seen[at] = config + 1;
}

/* Makes the table of seen configurations twice as large. */
static void seen_grow(struct qkv_context *ctx, struct qkv_machine *m) {
    struct qkv_machine_work *w = &m->work;
    if (2 * w->seen_count > w->seen_capacity) {
        uint64_t *seen = qkv_reallocate(ctx, w->seen, 2 * w->seen_count, sizeof *seen);
        if (!seen) {
            machine_fail(m, QKV_MEMORY);
            return;
        }
        w->seen = seen;
        w->seen_capacity = 2 * w->seen_count;
    }
    w->seen_count *= 2;
    memset(w->seen, 0, w->seen_count * sizeof *w->seen);
    for (size_t i = 0; i < w->count; i++) seen_put(w, w->items[i]);
}

/* Adds a configuration, unless it was added before. */
static void work_add(struct qkv_context *ctx, struct qkv_machine *m, uint32_t op, uint32_t frame) {
    struct qkv_machine_work *w = &m->work;
    const uint64_t config = (uint64_t)op << 32 | frame;
    if (m->status) return;
    for (size_t at = mix(config) & (w->seen_count - 1); w->seen[at]; at = (at + 1) & (w->seen_count - 1))
        if (w->seen[at] == config + 1) return;
    if (w->count == QKV_CONSTRAIN_CONFIGS) {
        m->status = qkv_fail(ctx, QKV_ARGUMENT,
                             "the constraint has too many ways to read a text, more than %d at once; make it simpler",
                             QKV_CONSTRAIN_CONFIGS);
        return;
    }
    uint64_t *items = qkv_list_room(ctx, w->items, &w->capacity, w->count, 1, sizeof *items);
    if (!items) {
        machine_fail(m, QKV_MEMORY);
        return;
    }
    w->items = items;
    items[w->count++] = config;
    seen_put(w, config);
    if (2 * w->count >= w->seen_count) seen_grow(ctx, m);
}

/* A loop with min to max turns left: leaves it, or begins a turn. */
static void work_loop(struct qkv_context *ctx, struct qkv_machine *m, uint32_t op, uint32_t min, uint32_t max,
                      uint32_t parent) {
    const struct qkv_op *loop = &m->program->ops[op];
    if (!min) work_add(ctx, m, loop->b, parent);
    if (!max) return;
    const struct qkv_frame turn = {.op = op,
                                   .min = min ? min - 1 : 0,
                                   .max = max == QKV_CONSTRAIN_MANY ? max : max - 1,
                                   .parent = parent,
                                   .turn = true};
    const uint32_t frame = machine_frame(ctx, m, turn, false);
    if (frame) work_add(ctx, m, loop->a, frame);
}

/* Follows a configuration that reads no byte. */
static void work_follow(struct qkv_context *ctx, struct qkv_machine *m, uint32_t at, uint32_t frame) {
    const struct qkv_op *op = &m->program->ops[at];
    switch ((enum qkv_op_kind)op->kind) {
    case QKV_OP_SET:
        return;
    case QKV_OP_SPLIT:
        work_add(ctx, m, op->a, frame);
        work_add(ctx, m, op->b, frame);
        return;
    case QKV_OP_LOOP:
        work_loop(ctx, m, at, op->min, op->max, frame);
        return;
    case QKV_OP_CALL:
        if (op->nests && m->frames[frame].levels >= QKV_CONSTRAIN_LEVELS) return;
        frame = machine_frame(ctx, m, (struct qkv_frame){.op = op->b, .parent = frame}, op->nests);
        if (frame) work_add(ctx, m, op->a, frame);
        return;
    case QKV_OP_END:
        if (!frame) return;
        const struct qkv_frame f = m->frames[frame];
        if (f.turn)
            work_loop(ctx, m, f.op, f.min, f.max, f.parent);
        else
            work_add(ctx, m, f.op, f.parent);
    }
}

static int config_order(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Leaves the configurations that read a byte, sorted; *accepts: the text may end. */
static void work_close(struct qkv_context *ctx, struct qkv_machine *m, bool *accepts) {
    struct qkv_machine_work *w = &m->work;
    size_t n = 0;
    *accepts = false;
    for (size_t i = 0; i < w->count && !m->status; i++) {
        const uint32_t op = (uint32_t)(w->items[i] >> 32), frame = (uint32_t)w->items[i];
        *accepts |= op == 0 && frame == 0;
        work_follow(ctx, m, op, frame);
    }
    for (size_t i = 0; i < w->count; i++)
        if (m->program->ops[w->items[i] >> 32].kind == QKV_OP_SET) w->items[n++] = w->items[i];
    w->count = n;
    if (n) qsort(w->items, n, sizeof *w->items, config_order);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static uint64_t configs_hash(const uint64_t *configs, size_t count, bool accepts) {
    uint64_t hash = accepts;
    for (size_t i = 0; i < count; i++) hash = mix(hash ^ configs[i]);
    return mix(hash);
}

static uint64_t state_hash_of(const struct qkv_machine *m, uint32_t state) {
    const struct qkv_state *s = &m->states[state];
    return configs_hash(m->configs + s->first, s->count, s->accepts);
}

static bool state_room(struct qkv_context *ctx, struct qkv_machine *m, size_t configs) {
    const size_t row = m->program->classes * sizeof *m->steps;
    if (!machine_table(ctx, m, &m->state_slots, &m->state_slot_count, m->state_count, state_hash_of)) return false;
    void *grown = machine_grow(ctx, m, m->states, &m->state_capacity, m->state_count, 1, sizeof *m->states);
    if (grown) m->states = grown;
    if (grown) grown = machine_grow(ctx, m, m->steps, &m->step_capacity, m->state_count, 1, row);
    if (grown) m->steps = grown;
    if (grown)
        grown = machine_grow(ctx, m, m->configs, &m->config_capacity, m->config_count, configs + 1, sizeof *m->configs);
    if (grown) m->configs = grown;
    return grown != NULL;
}

/* The number of the state that the work has found. */
static uint32_t machine_state(struct qkv_context *ctx, struct qkv_machine *m, bool accepts) {
    const struct qkv_machine_work *w = &m->work;
    if (m->status) return QKV_STATE_FAILED;
    if (!w->count && !accepts) return QKV_STATE_DEAD;
    if (!state_room(ctx, m, w->count)) return QKV_STATE_FAILED;
    size_t at = configs_hash(w->items, w->count, accepts) & (m->state_slot_count - 1);
    for (; m->state_slots[at]; at = (at + 1) & (m->state_slot_count - 1)) {
        const struct qkv_state *s = &m->states[m->state_slots[at]];
        if (s->count == w->count && s->accepts == accepts &&
            (!w->count || !memcmp(m->configs + s->first, w->items, w->count * sizeof *w->items)))
            return m->state_slots[at];
    }
    const uint32_t state = (uint32_t)m->state_count++;
    m->states[state] = (struct qkv_state){.first = m->config_count, .count = (uint32_t)w->count, .accepts = accepts};
    if (w->count) memcpy(m->configs + m->config_count, w->items, w->count * sizeof *w->items);
    m->config_count += w->count;
    memset(m->steps + (size_t)state * m->program->classes, 0, m->program->classes * sizeof *m->steps);
    return m->state_slots[at] = state;
}

static bool set_has(const struct qkv_byte_set *s, unsigned byte) {
    return s->bits[byte / 64] >> byte % 64 & 1;
}

uint32_t qkv_machine_compute(struct qkv_context *ctx, struct qkv_machine *m, uint32_t state, unsigned class) {
    const struct qkv_program *p = m->program;
    const unsigned byte = p->byte_of[class];
    bool accepts;
    if (state < QKV_STATE_FIRST) return QKV_STATE_DEAD;
    m->status = QKV_OK;
    m->full = false;
    if (!work_begin(ctx, m)) return QKV_STATE_FAILED;
    for (size_t i = 0; i < m->states[state].count; i++) {
        const uint64_t config = m->configs[m->states[state].first + i];
        const struct qkv_op *op = &p->ops[config >> 32];
        if (set_has(&p->sets[op->a], byte)) work_add(ctx, m, op->b, (uint32_t)config);
    }
    work_close(ctx, m, &accepts);
    const uint32_t next = machine_state(ctx, m, accepts);
    if (next != QKV_STATE_FAILED) m->steps[(size_t)state * p->classes + class] = next;
    return next;
}

/* A frame with the numbers of turns that short tokens cannot use up made equal; 0: failed, or the frame was 0. */
static uint32_t canonical_frame(struct qkv_context *ctx, struct qkv_machine *m, uint32_t frame) {
    if (!frame || m->status) return 0;
    struct qkv_frame f = m->frames[frame];
    const bool nests = f.levels > m->frames[f.parent].levels;
    f.parent = canonical_frame(ctx, m, f.parent);
    if (f.turn && f.min > QKV_TRIE_SHORT) f.min = QKV_TRIE_SHORT + 1;
    if (f.turn && f.max > QKV_TRIE_SHORT) f.max = QKV_CONSTRAIN_MANY;
    return m->status ? 0 : machine_frame(ctx, m, f, nests);
}

uint32_t qkv_machine_canonical(struct qkv_context *ctx, struct qkv_machine *m, uint32_t state) {
    if (m->states[state].canonical) return m->states[state].canonical;
    m->status = QKV_OK;
    m->full = false;
    if (!work_begin(ctx, m)) return QKV_STATE_FAILED;
    for (size_t i = 0; i < m->states[state].count; i++) {
        const uint64_t config = m->configs[m->states[state].first + i];
        work_add(ctx, m, (uint32_t)(config >> 32), canonical_frame(ctx, m, (uint32_t)config));
    }
    if (m->work.count) qsort(m->work.items, m->work.count, sizeof *m->work.items, config_order);
    const uint32_t found = machine_state(ctx, m, m->states[state].accepts);
    if (found >= QKV_STATE_FIRST) m->states[state].canonical = m->states[found].canonical = found;
    return found;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void machine_drop(struct qkv_machine *m) {
    free(m->frames), free(m->states), free(m->configs), free(m->steps), free(m->frame_slots), free(m->state_slots);
    m->frames = NULL, m->states = NULL, m->configs = NULL, m->steps = NULL;
    m->frame_slots = m->state_slots = NULL;
    m->frame_capacity = m->state_capacity = m->config_capacity = m->step_capacity = 0;
    m->frame_slot_count = m->state_slot_count = 0;
}

void qkv_machine_free(struct qkv_machine *m) {
    machine_drop(m);
    free(m->work.items), free(m->work.seen);
    *m = (struct qkv_machine){0};
}

/* The states of a text without bytes. Numbers below QKV_STATE_FIRST have a place, and no steps. */
static enum qkv_status machine_first(struct qkv_context *ctx, struct qkv_machine *m) {
    bool accepts;
    if (!work_begin(ctx, m)) return m->status;
    work_add(ctx, m, m->program->start, 0);
    work_close(ctx, m, &accepts);
    m->start = machine_state(ctx, m, accepts);
    return m->status;
}

enum qkv_status qkv_machine_clear(struct qkv_context *ctx, struct qkv_machine *m) {
    const size_t row = m->program->classes * sizeof *m->steps;
    machine_drop(m);
    m->frames = qkv_list_room(ctx, NULL, &m->frame_capacity, 0, 64, sizeof *m->frames);
    m->states = qkv_list_room(ctx, NULL, &m->state_capacity, 0, 64, sizeof *m->states);
    m->steps = qkv_list_room(ctx, NULL, &m->step_capacity, 0, 64, row);
    m->age++;
    m->status = QKV_OK;
    m->full = false;
    m->start = QKV_STATE_DEAD;
    if (!m->frames || !m->states || !m->steps) return QKV_MEMORY;
    m->frames[0] = (struct qkv_frame){0}; /* the bottom of all stacks */
    memset(m->states, 0, QKV_STATE_FIRST * sizeof *m->states);
    memset(m->steps, 0, QKV_STATE_FIRST * row);
    m->frame_count = 1;
    m->state_count = QKV_STATE_FIRST;
    m->config_count = 0;
    return machine_first(ctx, m);
}

enum qkv_status qkv_machine_begin(struct qkv_context *ctx, struct qkv_machine *m, const struct qkv_program *program,
                                  size_t limit) {
    *m = (struct qkv_machine){.program = program, .limit = limit};
    return qkv_machine_clear(ctx, m);
}
