/* constrain: texts of which every continuation is one that a grammar allows.
 *
 * A grammar (grammar.h) is a graph of nodes over bytes, with rules that may call each other. regex.c, schema*.c and
 * json_values.c write grammars; code_points.c writes sets of characters as bytes of UTF-8, or as characters of a JSON
 * string. program.c makes operations of a grammar: a nondeterministic automaton with a stack. machine.c runs it: a
 * state is the set of all pairs (operation, stack) that a text can have reached, and has a number of its own; its steps
 * are computed once (Thompson 1968; stacks share their frames as in Tomita 1985). token_mask.c walks the tree of a
 * vocabulary with a state, to find the tokens that may come next, and stores what it has found. constraint.c is the
 * public object. */
#ifndef QKV_CONSTRAIN_H
#define QKV_CONSTRAIN_H

#include "base/base.h"
#include "qkv/constrain.h"
#include "text/text.h"

enum {
    QKV_CONSTRAIN_TEXT = 1 << 20,  /* bytes of a schema, a regular expression, or a list of choices */
    QKV_CONSTRAIN_OPS = 1 << 19,   /* operations of a program */
    QKV_CONSTRAIN_NODES = 1 << 20, /* nodes of a grammar */
    QKV_CONSTRAIN_CHOICES = 1 << 13,
    QKV_CONSTRAIN_DEPTH = 128,      /* groups of a regular expression, or schemas, in each other */
    QKV_CONSTRAIN_LEVELS = 32,      /* objects and lists in each other, where a schema allows any value */
    QKV_CONSTRAIN_FRAMES = 1024,    /* of a stack */
    QKV_CONSTRAIN_CONFIGS = 1 << 12 /* of a state */
};
#define QKV_CONSTRAIN_MANY UINT32_MAX /* no largest number of repetitions */

struct qkv_byte_set {
    uint64_t bits[4];
};

/* ---- programs (program.c) --------------------------------------------------------------------------------------- */
enum qkv_op_kind { QKV_OP_END, QKV_OP_SET, QKV_OP_SPLIT, QKV_OP_CALL, QKV_OP_LOOP };
/* end: the rule, or the turn of a loop, is over. set: a byte of set a, then b. split: a and b. call: a, and then b.
 * loop: a, min to max times, and then b. */
struct qkv_op {
    uint8_t kind;
    bool nests;
    uint32_t a, b, min, max;
};
struct qkv_program {
    struct qkv_op *ops; /* 0 is the only end */
    size_t count, capacity;
    uint32_t start;
    struct qkv_byte_set *sets;
    uint8_t class_of[256], byte_of[256]; /* bytes that no set tells apart; a byte of each class */
    unsigned classes;
};
void qkv_program_free(struct qkv_program *program);

/* ---- machines (machine.c) --------------------------------------------------------------------------------------- */
enum { QKV_STATE_UNKNOWN, QKV_STATE_DEAD, QKV_STATE_FAILED, QKV_STATE_FIRST }; /* numbers of states */
struct qkv_frame { /* what follows when a rule or a turn ends; 0: the text ends */
    uint32_t op, min, max, parent;
    uint16_t depth;
    uint8_t levels; /* rules on the stack that nest */
    bool turn;      /* of a loop, which then has `min` to `max` turns left; else a rule, and `op` follows it */
};
struct qkv_state {
    size_t first;
    uint32_t count;     /* configurations, from `first` on */
    uint32_t canonical; /* the state with the same short tokens; 0: not known */
    uint32_t mask;      /* its mask plus 1; 0: none */
    bool accepts;       /* the text may end here */
};
struct qkv_machine {
    const struct qkv_program *program;
    size_t limit; /* bytes */
    struct qkv_frame *frames;
    size_t frame_count, frame_capacity;
    struct qkv_state *states;
    size_t state_count, state_capacity;
    uint64_t *configs; /* operation << 32 | frame */
    size_t config_count, config_capacity;
    uint32_t *steps; /* (states, classes) */
    size_t step_capacity;
    uint32_t *frame_slots, *state_slots; /* hash tables: number, 0: free */
    size_t frame_slot_count, state_slot_count;
    struct qkv_machine_work { /* of one closure */
        uint64_t *items;
        size_t count, capacity;
        uint64_t *seen;                   /* hash table: configuration + 1 */
        size_t seen_count, seen_capacity; /* of the closure that is made; of the memory */
    } work;
    enum qkv_status status; /* of the step that failed */
    bool full;              /* it failed for the limit of memory: the same step may do after qkv_machine_clear */
    uint64_t age;           /* counts qkv_machine_clear: numbers of states of another age mean nothing */
    uint32_t start;
};
enum qkv_status qkv_machine_begin(struct qkv_context *ctx, struct qkv_machine *m, const struct qkv_program *program,
                                  size_t limit);
void qkv_machine_free(struct qkv_machine *m);
/* Forgets all states. */
enum qkv_status qkv_machine_clear(struct qkv_context *ctx, struct qkv_machine *m);
/* Bytes that it uses. */
size_t qkv_machine_bytes(const struct qkv_machine *m);
/* Computes the state after a byte of a class; QKV_STATE_FAILED: m->status says why. */
uint32_t qkv_machine_compute(struct qkv_context *ctx, struct qkv_machine *m, uint32_t state, unsigned class);
static inline uint32_t qkv_machine_step(struct qkv_context *ctx, struct qkv_machine *m, uint32_t state,
                                        unsigned char byte) {
    const unsigned class = m->program->class_of[byte];
    const uint32_t next = m->steps[(size_t)state * m->program->classes + class];
    return next ? next : qkv_machine_compute(ctx, m, state, class);
}
/* The state whose texts of at most QKV_TRIE_SHORT bytes are the same: all numbers of turns that so few bytes cannot use
 * up are one number. */
uint32_t qkv_machine_canonical(struct qkv_context *ctx, struct qkv_machine *m, uint32_t state);
/* Whether nothing can follow. */
static inline bool qkv_machine_is_last(const struct qkv_machine *m, uint32_t state) {
    return m->states[state].accepts && !m->states[state].count;
}

/* ---- masks (token_mask.c) --------------------------------------------------------------------------------------- */
struct qkv_token_trie;
/* Masks that were made, each one bit a token; those used last stay. */
struct qkv_masks {
    uint64_t *bits; /* (capacity, words) */
    struct qkv_mask_entry {
        uint32_t state, newer, older; /* numbers of entries plus 1 */
    } * entries;
    size_t words, count, capacity;
    uint32_t newest, oldest;
};
struct qkv_constraint {
    atomic_size_t owners; /* it is freed by the last of them */
    struct qkv_program program;
    struct qkv_machine machine;
    struct qkv_masks masks;
    uint64_t *first_bits; /* (words): the mask of a first token without its space */
    size_t memory;
    uint64_t serial; /* of the trie that the masks are for */
    uint64_t walks;  /* masks that were made */
};
/* Where a text is in a constraint; {0}: nowhere, and it is found by the ids. */
struct qkv_constraint_place {
    uint64_t age;
    uint32_t state;
    size_t count; /* ids that it has read */
};
/* A text, whose tokens are ids. */
struct qkv_constrained_text {
    const struct qkv_tokenizer *tokenizer;
    const int32_t *ids;
    size_t count;
    bool unspaced; /* the first token is written without the space before it */
};
struct qkv_allowed {
    const uint64_t *bits; /* a bit for each token that may come next; valid until the next call */
    size_t count;         /* bits */
    bool ends;            /* the text may end here */
};
/* Finds the tokens that may come next. Fails with QKV_MEMORY; with QKV_ARGUMENT for a text that the constraint does not
 * allow, and where a limit of the constraint is reached. */
enum qkv_status qkv_constraint_allowed(struct qkv_context *ctx, struct qkv_constraint *c,
                                       const struct qkv_constrained_text *text, struct qkv_constraint_place *place,
                                       struct qkv_allowed *allowed);
/* Sets *last to whether nothing can follow the text. */
enum qkv_status qkv_constraint_is_last(struct qkv_context *ctx, struct qkv_constraint *c,
                                       const struct qkv_constrained_text *text, struct qkv_constraint_place *place,
                                       bool *last);

#endif
