/* schema: JSON schemas to grammars. schema.c writes the rules, schema_reader.c follows references, schema_keywords.c
 * lists the keywords, schema_merge.c makes one schema of several, schema_values.c writes strings, numbers, lists and
 * constants, schema_object.c objects. */
#ifndef QKV_CONSTRAIN_SCHEMA_H
#define QKV_CONSTRAIN_SCHEMA_H

#include <jansson.h>

#include "constrain/grammar.h"

enum { QKV_SCHEMA_PLACE = 256, QKV_SCHEMA_RULES = 1 << 14, QKV_SCHEMA_ROUNDS = 64, QKV_SCHEMA_MERGES = 4096 };
enum {
    QKV_SCHEMA_MEMBERS = 4096, /* of an object; also items of enum, required, anyOf, … */
    QKV_SCHEMA_PREFIX = 1024,
    QKV_SCHEMA_WORK = 1 << 24 /* comparisons and bytes of merging */
};

/* Types of values, as bits; a number may be an integer. */
enum {
    QKV_TYPE_NULL = 1,
    QKV_TYPE_BOOLEAN = 2,
    QKV_TYPE_OBJECT = 4,
    QKV_TYPE_ARRAY = 8,
    QKV_TYPE_NUMBER = 16,
    QKV_TYPE_INTEGER = 32,
    QKV_TYPE_STRING = 64,
    QKV_TYPE_ALL = 127
};

struct qkv_schema_todo {
    const json_t *schema;
    uint32_t rule;
};
struct qkv_schema_reader {
    struct qkv_grammar *g;
    const json_t *root;
    bool open;
    struct qkv_strings known; /* addresses of schemas, or texts of those of qkv_schema_both; value: rule + 1 */
    struct qkv_strings both;  /* addresses of the latter */
    struct qkv_schema_todo *todo;
    size_t todo_count, todo_capacity;
    json_t *made;    /* a list that owns the schemas that were made of others */
    uint32_t rule;   /* that is written */
    unsigned rounds; /* schemas that were merged for it */
    unsigned merges; /* of all */
    size_t work;     /* of all merging */
};

/* ---- schema_reader.c ---- */
/* Refuses a schema: "PLACE: …". */
uint32_t qkv_schema_refuse(struct qkv_schema_reader *r, const char *place, const char *format, ...) QKV_PRINTF(3, 4);
/* No text meets the schema that is written, for this reason. */
uint32_t qkv_schema_never(struct qkv_schema_reader *r, const char *format, ...) QKV_PRINTF(2, 3);
/* Counts work of merging schemas, which may take time by the square of their sizes. False: it was too much. */
bool qkv_schema_spend(struct qkv_schema_reader *r, const char *place, size_t a, size_t b);
/* The node of a schema at a place, which is a rule of its own; its body is written later. */
uint32_t qkv_schema_node(struct qkv_schema_reader *r, const json_t *schema, const char *place);
/* The schema that a reference names; NULL: refused. */
const json_t *qkv_schema_follow(struct qkv_schema_reader *r, const json_t *reference, const char *place,
                                char target[QKV_SCHEMA_PLACE]);
/* "PLACE.name" or, for index ≥ 0, "PLACE.name[index]", cut to fit. */
void qkv_schema_place(char out[QKV_SCHEMA_PLACE], const char *place, const char *name, int index);

/* ---- schema_keywords.c ---- */
/* Refuses a schema with a keyword that cannot be kept to, or a value of the wrong kind; returns false then. */
bool qkv_schema_check(struct qkv_schema_reader *r, const json_t *schema, const char *place);
/* Whether a keyword says something about values. */
bool qkv_schema_asserts(const char *keyword);
/* The types that a schema allows, or implies by its keywords. */
unsigned qkv_schema_types(const json_t *schema);
unsigned qkv_schema_type_of(const json_t *value);

/* ---- schema_merge.c ---- */
/* A schema whose values meet both; the reader owns it. NULL: refused. */
const json_t *qkv_schema_merge(struct qkv_schema_reader *r, const json_t *a, const json_t *b, const char *place);
/* {"allOf": [a, b]}, the same schema wherever a and b are the same; the reader owns it. NULL: no memory. */
json_t *qkv_schema_both(struct qkv_schema_reader *r, const json_t *a, const json_t *b);
/* A copy without one keyword; the reader owns it. NULL: no memory. */
json_t *qkv_schema_without(struct qkv_schema_reader *r, const json_t *schema, const char *keyword);
/* Whether no value can meet both of two schemas: they have other types, constants, or constants of a member that both
 * require. */
bool qkv_schema_are_apart(struct qkv_schema_reader *r, const json_t *a, const json_t *b, const char *place);

/* ---- schema_values.c, schema_object.c ---- */
uint32_t qkv_schema_constants(struct qkv_schema_reader *r, const json_t *schema, const char *place);
uint32_t qkv_schema_string(struct qkv_schema_reader *r, const json_t *schema, const char *place);
uint32_t qkv_schema_integer(struct qkv_schema_reader *r, const json_t *schema, const char *place);
uint32_t qkv_schema_number(struct qkv_schema_reader *r, const json_t *schema, const char *place);
uint32_t qkv_schema_array(struct qkv_schema_reader *r, const json_t *schema, const char *place);
uint32_t qkv_schema_object(struct qkv_schema_reader *r, const json_t *schema, const char *place);
/* A count as a keyword has it, `usual` where there is none. */
uint32_t qkv_schema_count(const json_t *schema, const char *keyword, uint32_t usual);

#endif
