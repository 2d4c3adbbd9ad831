/* Masks: the tokens that may come after a text. A walk of the tree of the vocabulary asks for each node whether its
 * bytes lead anywhere, and leaves out the subtree if not. */
#include "constrain/constrain.h"

#include <stdlib.h>
#include <string.h>

#include "text/token_trie.h"

/* ---- walks ------------------------------------------------------------------------------------------------------- */

struct walk {
    struct qkv_context *ctx;
    struct qkv_machine *machine;
    const struct qkv_trie_part *part;
    uint64_t *bits;
    bool unspaced; /* a space at the beginning of a token of two bytes or more is not written */
};

static void walk_allow(const struct walk *w, size_t node) {
    const struct qkv_trie_node *n = &w->part->nodes[node];
    for (uint32_t i = n[0].tokens; i < n[1].tokens; i++) {
        const uint32_t id = (uint32_t)w->part->ids[i];
        w->bits[id / 64] |= UINT64_C(1) << id % 64;
    }
}

/* Sets the bits of the tokens of a part that may come after a state. False: failed. */
static bool walk_part(const struct walk *w, uint32_t state) {
    uint32_t at[QKV_TRIE_LONGEST + 1];
    at[0] = state;
    for (size_t i = 0; i < w->part->count;) {
        const struct qkv_trie_node *n = &w->part->nodes[i];
        const bool skipped = w->unspaced && n->depth == 1 && n->byte == ' ';
        const uint32_t next = qkv_machine_step(w->ctx, w->machine, at[n->depth - 1], n->byte);
        if (next == QKV_STATE_FAILED) return false;
        if (next != QKV_STATE_DEAD) walk_allow(w, i);
        at[n->depth] = skipped ? state : next;
        i = at[n->depth] == QKV_STATE_DEAD ? n->skip : i + 1;
    }
    return true;
}

/* ---- masks that were made ---------------------------------------------------------------------------------------- */

static void masks_leave(struct qkv_masks *k, uint32_t entry) {
    struct qkv_mask_entry *e = &k->entries[entry - 1];
    *(e->newer ? &k->entries[e->newer - 1].older : &k->newest) = e->older;
    *(e->older ? &k->entries[e->older - 1].newer : &k->oldest) = e->newer;
}

static void masks_use(struct qkv_masks *k, uint32_t entry) {
    struct qkv_mask_entry *e = &k->entries[entry - 1];
    e->newer = 0;
    e->older = k->newest;
    *(k->newest ? &k->entries[k->newest - 1].newer : &k->oldest) = entry;
    k->newest = entry;
}

/* Room for one more mask, if the memory allows: then the least recently used one is given up. */
static enum qkv_status masks_grow(struct qkv_context *ctx, struct qkv_constraint *c) {
    struct qkv_masks *k = &c->masks;
    const size_t bytes = k->words * sizeof *k->bits + sizeof *k->entries;
    const size_t most = qkv_max(2, c->memory / 2 / bytes); /* one is copied to another */
    const size_t capacity = qkv_min(most, qkv_max(8, 2 * k->capacity));
    if (k->count < k->capacity || k->capacity == most) return QKV_OK;
    uint64_t *bits = qkv_reallocate(ctx, k->bits, capacity * k->words, sizeof *bits);
    if (!bits) return QKV_MEMORY;
    k->bits = bits;
    struct qkv_mask_entry *entries = qkv_reallocate(ctx, k->entries, capacity, sizeof *entries);
    if (!entries) return QKV_MEMORY;
    k->entries = entries;
    k->capacity = capacity;
    return QKV_OK;
}

/* A new mask for a state, the newest; its bits are not set. */
static enum qkv_status masks_take(struct qkv_context *ctx, struct qkv_constraint *c, uint32_t state, uint32_t *entry) {
    struct qkv_masks *k = &c->masks;
    const enum qkv_status status = masks_grow(ctx, c);
    if (status) return status;
    if (k->count < k->capacity) {
        *entry = (uint32_t)++k->count;
    } else {
        *entry = k->oldest;
        c->machine.states[k->entries[*entry - 1].state].mask = 0;
        masks_leave(k, *entry);
    }
    k->entries[*entry - 1] = (struct qkv_mask_entry){.state = state};
    masks_use(k, *entry);
    c->machine.states[state].mask = *entry;
    return QKV_OK;
}

static void masks_forget(struct qkv_masks *k) {
    k->count = k->newest = k->oldest = 0;
}

static uint64_t *mask_bits(const struct qkv_constraint *c, uint32_t entry) {
    return c->masks.bits + (entry - 1) * c->masks.words;
}

/* ---- the mask of a state ----------------------------------------------------------------------------------------- */

static enum qkv_status mask_walk(struct qkv_context *ctx, struct qkv_constraint *c, const struct qkv_token_trie *trie,
                                 uint32_t state, uint32_t entry, bool all) {
    for (size_t i = all ? 0 : 1; i < 2; i++) {
        const struct walk w = {
            .ctx = ctx, .machine = &c->machine, .part = &trie->parts[i], .bits = mask_bits(c, entry)};
        if (!walk_part(&w, state)) return c->machine.status;
    }
    c->walks += all;
    return QKV_OK;
}

static enum qkv_status mask_make(struct qkv_context *ctx, struct qkv_constraint *c, const struct qkv_token_trie *trie,
                                 uint32_t state) {
    uint32_t entry;
    const enum qkv_status status = masks_take(ctx, c, state, &entry);
    if (status) return status;
    memset(mask_bits(c, entry), 0, c->masks.words * sizeof(uint64_t));
    return mask_walk(ctx, c, trie, state, entry, true);
}

/* The mask of a state whose short tokens are those of another: only the long ones are looked at. */
static enum qkv_status mask_copy(struct qkv_context *ctx, struct qkv_constraint *c, const struct qkv_token_trie *trie,
                                 uint32_t state, uint32_t canonical) {
    uint32_t entry;
    const struct qkv_trie_part *part = &trie->parts[1];
    const enum qkv_status status = masks_take(ctx, c, state, &entry);
    if (status) return status;
    uint64_t *bits = mask_bits(c, entry);
    memcpy(bits, mask_bits(c, c->machine.states[canonical].mask), c->masks.words * sizeof *bits);
    for (size_t i = 0; i < part->id_count; i++) bits[part->ids[i] / 64] &= ~(UINT64_C(1) << part->ids[i] % 64);
    return mask_walk(ctx, c, trie, state, entry, false);
}

/* Makes sure that a state has a mask, which is the newest. */
static enum qkv_status mask_have(struct qkv_context *ctx, struct qkv_constraint *c, const struct qkv_token_trie *trie,
                                 uint32_t state) {
    const uint32_t had = c->machine.states[state].mask;
    if (had) {
        masks_leave(&c->masks, had);
        masks_use(&c->masks, had);
        return QKV_OK;
    }
    const uint32_t canonical = qkv_machine_canonical(ctx, &c->machine, state);
    if (canonical == QKV_STATE_FAILED) return c->machine.status;
    if (canonical == state) return mask_make(ctx, c, trie, state);
    const enum qkv_status status = mask_have(ctx, c, trie, canonical);
    return status ? status : mask_copy(ctx, c, trie, state, canonical);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static enum qkv_status constraint_reset(struct qkv_context *ctx, struct qkv_constraint *c) {
    masks_forget(&c->masks);
    return qkv_machine_clear(ctx, &c->machine);
}

/* Takes up a tokenizer: masks of another one are forgotten. */
static enum qkv_status constraint_take(struct qkv_context *ctx, struct qkv_constraint *c, const struct qkv_tokenizer *t,
                                       const struct qkv_token_trie **trie) {
    enum qkv_status status = qkv_tokenizer_trie(ctx, t, trie);
    if (status || c->serial == (*trie)->serial) return status;
    const size_t words = qkv_pieces(t->count, 64);
    c->serial = 0;
    free(c->masks.bits), free(c->masks.entries), free(c->first_bits);
    c->masks = (struct qkv_masks){.words = words};
    c->first_bits = qkv_allocate(ctx, words + 1, sizeof *c->first_bits);
    if (!c->first_bits) return QKV_MEMORY;
    status = constraint_reset(ctx, c);
    if (!status) c->serial = (*trie)->serial;
    return status;
}

/* Reads the tokens of a text that the place has not read. */
static enum qkv_status constraint_read(struct qkv_context *ctx, struct qkv_constraint *c,
                                       const struct qkv_constrained_text *text, struct qkv_constraint_place *place) {
    struct qkv_machine *m = &c->machine;
    if (place->age != m->age || place->count > text->count)
        *place = (struct qkv_constraint_place){.age = m->age, .state = m->start};
    for (; place->count < text->count; place->count++) {
        size_t size;
        const char *bytes = qkv_tokenizer_token(text->tokenizer, text->ids[place->count], &size);
        uint32_t state = place->state;
        size_t i = bytes && !place->count && text->unspaced && size > 1 && *bytes == ' ';
        for (; bytes && i < size && state >= QKV_STATE_FIRST; i++)
            state = qkv_machine_step(ctx, m, state, (unsigned char)bytes[i]);
        if (state == QKV_STATE_FAILED) return m->status;
        if (state == QKV_STATE_DEAD)
            return qkv_fail(ctx, QKV_ARGUMENT, "token %zu of the text is none that the constraint allows",
                            place->count + 1);
        place->state = state;
    }
    return QKV_OK;
}

/* The mask of a first token, which is not stored: it is asked for once. */
static enum qkv_status mask_first(struct qkv_context *ctx, struct qkv_constraint *c,
                                  const struct qkv_token_trie *trie) {
    memset(c->first_bits, 0, c->masks.words * sizeof *c->first_bits);
    for (size_t i = 0; i < 2; i++) {
        const struct walk w = {
            .ctx = ctx, .machine = &c->machine, .part = &trie->parts[i], .bits = c->first_bits, .unspaced = true};
        if (!walk_part(&w, c->machine.start)) return c->machine.status;
    }
    return QKV_OK;
}

static enum qkv_status allowed_find(struct qkv_context *ctx, struct qkv_constraint *c,
                                    const struct qkv_token_trie *trie, const struct qkv_constrained_text *text,
                                    struct qkv_constraint_place *place, struct qkv_allowed *allowed) {
    enum qkv_status status = constraint_read(ctx, c, text, place);
    const bool first = !text->count && text->unspaced;
    if (!status) status = first ? mask_first(ctx, c, trie) : mask_have(ctx, c, trie, place->state);
    if (status) return status;
    allowed->bits = first ? c->first_bits : mask_bits(c, c->machine.states[place->state].mask);
    allowed->count = text->tokenizer->count;
    allowed->ends = c->machine.states[place->state].accepts;
    return QKV_OK;
}

/* States are forgotten where their memory is full, and the text is read again: once, so that a failure depends on the
 * text alone. A mask that was begun when its walk failed is forgotten too. */
enum qkv_status qkv_constraint_allowed(struct qkv_context *ctx, struct qkv_constraint *c,
                                       const struct qkv_constrained_text *text, struct qkv_constraint_place *place,
                                       struct qkv_allowed *allowed) {
    const struct qkv_token_trie *trie;
    enum qkv_status status = constraint_take(ctx, c, text->tokenizer, &trie);
    if (!status) status = allowed_find(ctx, c, trie, text, place, allowed);
    if (!status || !c->serial) return status;
    const bool again = c->machine.full;
    if (again) qkv_forgive(ctx);
    const enum qkv_status reset = constraint_reset(ctx, c);
    if (reset || !again) return reset ? reset : status;
    status = allowed_find(ctx, c, trie, text, place, allowed);
    return status && constraint_reset(ctx, c) ? QKV_MEMORY : status;
}

enum qkv_status qkv_constraint_is_last(struct qkv_context *ctx, struct qkv_constraint *c,
                                       const struct qkv_constrained_text *text, struct qkv_constraint_place *place,
                                       bool *last) {
    const struct qkv_token_trie *trie;
    *last = false;
    enum qkv_status status = constraint_take(ctx, c, text->tokenizer, &trie);
    if (!status) status = constraint_read(ctx, c, text, place);
    if (status && c->machine.full) {
        qkv_forgive(ctx);
        status = constraint_reset(ctx, c);
        if (!status) status = constraint_read(ctx, c, text, place);
    }
    if (!status) *last = qkv_machine_is_last(&c->machine, place->state);
    return status;
}

enum qkv_status qkv_constraint_check(struct qkv_context *ctx, struct qkv_constraint *constraint, const char *text,
                                     size_t size, bool *whole, bool *begins) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, constraint);
    QKV_NEED_ALL(ctx, size, text);
    struct qkv_machine *m = &constraint->machine;
    uint32_t state = m->start;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0, tries = 0; i < size && state >= QKV_STATE_FIRST; i++) {
        state = qkv_machine_step(ctx, m, state, (unsigned char)text[i]);
        if (state != QKV_STATE_FAILED) continue;
        if (!m->full || tries++) return m->status;
        qkv_forgive(ctx);
        status = constraint_reset(ctx, constraint);
        if (status) return status;
        state = m->start;
        i = SIZE_MAX; /* from the beginning */
    }
    if (whole) *whole = state >= QKV_STATE_FIRST && m->states[state].accepts;
    if (begins) *begins = state >= QKV_STATE_FIRST;
    return QKV_OK;
}
