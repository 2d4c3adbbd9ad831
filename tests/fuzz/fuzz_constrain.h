/* fuzz_constrain.h: walks through the texts of a constraint, for fuzz_schema.c and fuzz_regex.c. */
#ifndef FUZZ_CONSTRAIN_H
#define FUZZ_CONSTRAIN_H

#include "fuzz.h"

#include "constrain/constrain.h"

enum { FUZZ_STEPS = 400 };

/* The constraint of a text; NULL: refused. */
static inline struct qkv_constraint *fuzz_constraint(enum qkv_constraint_kind kind, struct fuzz_part part, bool open) {
    struct qkv_constraint_options o = qkv_constraint_defaults();
    struct qkv_constraint *c;
    char *text = qkv_copy_bytes(NULL, part.data ? part.data : "", part.size);
    if (!text) abort();
    o.kind = kind;
    o.text = text;
    o.text_size = part.size;
    o.open = open;
    o.memory = 1 << 20;
    const bool made = fuzz_ok(qkv_constraint_create(fuzz_context(), &o, &c));
    FUZZ_CHECK(made == (c != NULL));
    free(text);
    return c;
}

/* Writes a text byte by byte, chosen among the allowed ones by `choices`; every text that is begun can be completed.
 * Returns its size, and whether it is whole: at the last byte where it was. */
static inline size_t fuzz_walk(struct qkv_constraint *c, struct fuzz_part choices, char text[FUZZ_STEPS], bool *whole) {
    struct qkv_machine *m = &c->machine;
    uint32_t state = m->start;
    size_t size = 0, last = 0;
    *whole = false;
    while (size < FUZZ_STEPS) {
        unsigned char allowed[256];
        unsigned count = 0;
        uint32_t next[256];
        for (unsigned b = 0; b < 256; b++) {
            next[b] = qkv_machine_step(fuzz_context(), m, state, (unsigned char)b);
            if (next[b] == QKV_STATE_FAILED) {
                qkv_forgive(fuzz_context());
                return last;
            }
            if (next[b] != QKV_STATE_DEAD) allowed[count++] = (unsigned char)b;
        }
        if (m->states[state].accepts) *whole = true, last = size;
        FUZZ_CHECK(count || m->states[state].accepts);
        if (!count) break;
        const unsigned pick = choices.size ? (unsigned char)choices.data[size % choices.size] + (unsigned)size : 0;
        text[size] = (char)allowed[pick % count];
        state = next[(unsigned char)text[size++]];
    }
    bool same, begins;
    if (*whole && fuzz_ok(qkv_constraint_check(fuzz_context(), c, text, last, &same, &begins)))
        FUZZ_CHECK(same && begins);
    return last;
}

#endif
