/* grammar: what texts may be, as nodes over bytes, and everything that writes nodes. program.c makes a program of them
 * (constrain.h). */
#ifndef QKV_CONSTRAIN_GRAMMAR_H
#define QKV_CONSTRAIN_GRAMMAR_H

#include "constrain/constrain.h"

struct json_t;

/* ---- grammars (grammar.c) ---------------------------------------------------------------------------------------
 * Nodes are numbers. A builder that fails sets grammar->status, returns QKV_NODE_NEVER, and later calls do nothing:
 * check the status once at the end. */
enum { QKV_NODE_NEVER, QKV_NODE_EMPTY }; /* matches no text; matches the empty text */
enum qkv_node_kind {
    QKV_NODE_NONE,
    QKV_NODE_NOTHING,
    QKV_NODE_BYTES,
    QKV_NODE_SET,
    QKV_NODE_CAT,
    QKV_NODE_ALT,
    QKV_NODE_REPEAT,
    QKV_NODE_RULE
};
struct qkv_grammar_node {
    uint8_t kind;
    uint32_t a, b; /* children; of bytes: offset and size; of a set or a rule: its number */
    uint32_t min, max;
    uint32_t size; /* operations of it, about */
};
struct qkv_rule {
    uint32_t node;
    bool nests;  /* an object or a list of any value: not begun below QKV_CONSTRAIN_LEVELS of them */
    char *place; /* "$.properties.a", for sentences */
    char *why;   /* why no text can meet it; NULL: that follows from its parts */
};
struct qkv_grammar {
    struct qkv_context *ctx;
    enum qkv_status status;
    struct qkv_grammar_node *nodes;
    size_t count, capacity;
    struct qkv_byte_set *sets;
    size_t set_count, set_capacity;
    struct qkv_strings set_index; /* the bits of a set; its entry has the number of the set */
    struct qkv_buffer literals;
    struct qkv_rule *rules;
    size_t rule_count, rule_capacity;
    uint32_t root;
    uint32_t shared[16]; /* nodes and rules that are made once (json_values.c), plus 1 */
};
void qkv_grammar_begin(struct qkv_context *ctx, struct qkv_grammar *g);
void qkv_grammar_free(struct qkv_grammar *g);
/* Records a failure, if it is the first, and returns QKV_NODE_NEVER. */
uint32_t qkv_grammar_fail(struct qkv_grammar *g, enum qkv_status status, const char *format, ...) QKV_PRINTF(3, 4);
uint32_t qkv_node_bytes(struct qkv_grammar *g, const char *data, size_t size);
static inline uint32_t qkv_node_byte(struct qkv_grammar *g, char byte) {
    return qkv_node_bytes(g, &byte, 1);
}
uint32_t qkv_node_set(struct qkv_grammar *g, const struct qkv_byte_set *set);
/* One byte from low to high. */
uint32_t qkv_node_range(struct qkv_grammar *g, unsigned low, unsigned high);
uint32_t qkv_node_cat(struct qkv_grammar *g, uint32_t a, uint32_t b);
uint32_t qkv_node_alt(struct qkv_grammar *g, uint32_t a, uint32_t b);
uint32_t qkv_node_repeat(struct qkv_grammar *g, uint32_t node, uint32_t min, uint32_t max);
static inline uint32_t qkv_node_option(struct qkv_grammar *g, uint32_t node) {
    return qkv_node_alt(g, node, QKV_NODE_EMPTY);
}
/* All nodes of a list, one after the other or one of them, as a balanced tree. */
uint32_t qkv_node_join(struct qkv_grammar *g, enum qkv_node_kind kind, const uint32_t *nodes, size_t count);
/* One of several texts, as a tree of what they begin with; they are sorted. */
struct qkv_grammar_text {
    const char *data;
    size_t size;
};
uint32_t qkv_node_texts(struct qkv_grammar *g, struct qkv_grammar_text *texts, size_t count);
/* A rule without a body, which is set later; the place is copied. Returns its number. */
uint32_t qkv_grammar_rule(struct qkv_grammar *g, const char *place);
uint32_t qkv_node_rule(struct qkv_grammar *g, uint32_t rule);
/* A list of nodes that grows, {0} at first. */
struct qkv_node_list {
    uint32_t *items;
    size_t count, capacity;
};
void qkv_node_list_add(struct qkv_grammar *g, struct qkv_node_list *list, uint32_t node);

/* ---- characters (code_points.c) ---------------------------------------------------------------------------------- */
struct qkv_range {
    uint32_t low, high; /* code points */
};
/* A set of characters, {0} at first; sorted and without overlaps after qkv_ranges_settle. */
struct qkv_ranges {
    struct qkv_range *items;
    size_t count, capacity;
};
enum qkv_status qkv_ranges_add(struct qkv_context *ctx, struct qkv_ranges *r, uint32_t low, uint32_t high);
void qkv_ranges_settle(struct qkv_ranges *r);
/* All characters that a settled set does not have; it is settled afterwards. */
enum qkv_status qkv_ranges_negate(struct qkv_context *ctx, struct qkv_ranges *r);
/* How a grammar writes characters. */
enum qkv_spelling {
    QKV_SPELL_TEXT, /* UTF-8 */
    QKV_SPELL_JSON  /* inside a JSON string: quotes, backslashes and control characters are escaped */
};
/* One character of a settled set. */
uint32_t qkv_node_characters(struct qkv_grammar *g, const struct qkv_ranges *r, enum qkv_spelling spelling);

/* ---- regular expressions (regex.c) ------------------------------------------------------------------------------ */
struct qkv_regex {
    const char *name; /* begins the sentences: "the regular expression", "$.properties.a.pattern" */
    const char *text;
    size_t size;
    enum qkv_spelling spelling;
    bool searches;            /* the text may have more before and after, where the expression has no ^ and $ */
    size_t shortest, longest; /* set: characters of a text that matches; SIZE_MAX: no limit */
};
/* The node of a regular expression. */
uint32_t qkv_regex_read(struct qkv_grammar *g, struct qkv_regex *regex);

/* ---- values of JSON (json_values.c) ------------------------------------------------------------------------------
 * Where these allow white space, it is nothing, one space, or a line end with at most QKV_JSON_INDENT spaces. */
enum { QKV_JSON_INDENT = 32, QKV_JSON_DIGITS = 18, QKV_JSON_FRACTION = 15 };
uint32_t qkv_json_space(struct qkv_grammar *g);
/* A value of any kind; an object of any values; a list of them; a string; a number. */
uint32_t qkv_json_any(struct qkv_grammar *g);
uint32_t qkv_json_any_object(struct qkv_grammar *g);
uint32_t qkv_json_any_list(struct qkv_grammar *g);
uint32_t qkv_json_any_string(struct qkv_grammar *g);
uint32_t qkv_json_any_number(struct qkv_grammar *g);
uint32_t qkv_json_any_integer(struct qkv_grammar *g);
/* One character of a string, with all escapes. */
uint32_t qkv_json_character(struct qkv_grammar *g);
/* This one value, as it is usually written. */
uint32_t qkv_json_constant(struct qkv_grammar *g, const struct json_t *value);
/* Its text, to be freed; NULL: no memory. */
char *qkv_json_constant_text(struct qkv_grammar *g, const struct json_t *value, size_t *size);
/* A string that is none of `count` names, without escapes. */
uint32_t qkv_json_other_string(struct qkv_grammar *g, const char *const *names, size_t count);

/* ---- numbers in a range (json_ranges.c) ------------------------------------------------------------------------- */
struct qkv_bound {
    bool given, open; /* open: the number itself is excluded */
    double value;
};
/* Integers from low to high, both included and exact; *_given false: no bound. */
uint32_t qkv_json_integers(struct qkv_grammar *g, const int64_t *low, const int64_t *high);
/* Numbers within bounds, as decimals without an exponent. */
uint32_t qkv_json_reals(struct qkv_grammar *g, struct qkv_bound low, struct qkv_bound high);

/* ---- schemas (schema.c and its parts) --------------------------------------------------------------------------- */
/* Writes the grammar of a JSON schema. open: objects may have members that `properties` does not name, unless
 * additionalProperties says otherwise. */
void qkv_schema_read(struct qkv_grammar *g, const char *text, size_t size, bool open);

/* Makes the program of a grammar. A grammar without any text fails with QKV_FORMAT and names the place. */
enum qkv_status qkv_program_make(struct qkv_grammar *g, struct qkv_program *program);

#endif
