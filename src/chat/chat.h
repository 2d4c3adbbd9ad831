/* chat: templates of chats: Jinja as Hugging Face's transformers run it, which is jinja2's
 * ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, loop controls and generation blocks.
 *
 * A template is parsed once (chat_lexer.c, chat_parse_*.c) into nodes (chat_nodes.h), which never change, and rendered
 * any number of times, also in several threads. A rendering is a struct chat_run: its values are in a pool of its own,
 * which is freed as a whole. Values are Python's: kinds, truth, equality, order, text. Templates and talks come from
 * strangers, so a run counts steps, depth, memory and output, and ends with a sentence at its limits. */
#ifndef QKV_CHAT_INTERNAL_H
#define QKV_CHAT_INTERNAL_H

#include <jansson.h>

#include "base/base.h"

/* ---- memory (chat_memory.c) --------------------------------------------------------------------------------------
 * A pool takes zeroed memory and frees all of it at once. {.ctx, .limit, .what} is an empty one. */
struct chat_pool {
    struct qkv_context *ctx;
    struct chat_chunk *chunks;
    size_t used, limit; /* bytes */
    const char *what;   /* for messages */
};
/* count × size zeroed bytes, aligned for every type; NULL with the sentence recorded. */
void *qkv_chat_take(struct chat_pool *pool, size_t count, size_t size);
/* A copy of n bytes; NULL as above. */
char *qkv_chat_copy(struct chat_pool *pool, const char *text, size_t n);
void qkv_chat_pool_free(struct chat_pool *pool);

/* ---- values (chat_value.c) --------------------------------------------------------------------------------------- */

/* X(NAME, "name of the type in Python"). MISSING: no value at all; it never reaches a template. */
#define CHAT_KIND_LIST(X)                                                                                              \
    X(MISSING, "missing")                                                                                              \
    X(UNDEFINED, "Undefined")                                                                                          \
    X(NONE, "NoneType")                                                                                                \
    X(BOOL, "bool")                                                                                                    \
    X(INT, "int")                                                                                                      \
    X(REAL, "float")                                                                                                   \
    X(TEXT, "str")                                                                                                     \
    X(LIST, "list")                                                                                                    \
    X(TUPLE, "tuple")                                                                                                  \
    X(RANGE, "range")                                                                                                  \
    X(ITEMS, "dict_items")                                                                                             \
    X(KEYS, "dict_keys")                                                                                               \
    X(VALUES, "dict_values")                                                                                           \
    X(ITERATOR, "generator")                                                                                           \
    X(DICT, "dict")                                                                                                    \
    X(NAMESPACE, "Namespace")                                                                                          \
    X(LOOP, "LoopContext")                                                                                             \
    X(MACRO, "Macro")                                                                                                  \
    X(FUNCTION, "function")                                                                                            \
    X(METHOD, "builtin_function_or_method")                                                                            \
    X(CYCLER, "Cycler")                                                                                                \
    X(JOINER, "Joiner")
enum chat_kind {
#define CHAT_KIND_ENUM(name, type) CHAT_##name,
    CHAT_KIND_LIST(CHAT_KIND_ENUM)
#undef CHAT_KIND_ENUM
        CHAT_KINDS
};

struct chat_value {
    uint8_t kind;  /* enum chat_kind */
    bool safe;     /* TEXT: Markup, from the filter safe */
    uint32_t size; /* TEXT: bytes */
    union {
        bool truth;
        int64_t integer;
        double real;
        const char *text;       /* UTF-8, not zero-terminated */
        struct chat_list *list; /* LIST to ITERATOR */
        struct chat_dict *dict; /* DICT, NAMESPACE */
        struct chat_undefined *undefined;
        struct chat_loop *loop;
        struct chat_macro *macro;
        struct chat_method *method;
        struct chat_cycle *cycle;   /* CYCLER, JOINER */
        const struct chat_row *row; /* FUNCTION */
    };
};
struct chat_list {
    struct chat_value *items;
    size_t count;
    size_t at;                 /* ITERATOR: items before it are consumed; CYCLER */
    int64_t start, stop, step; /* RANGE; step 1 of a TUPLE: a group of the filter groupby */
};
struct chat_entry {
    struct chat_value key, value;
};
struct chat_dict {
    struct chat_entry *entries; /* in the order of insertion */
    size_t count, capacity;
};
struct chat_undefined {
    const char *hint;        /* a whole sentence; NULL: made of the others */
    struct chat_value name;  /* the name or key that was not found */
    struct chat_value owner; /* MISSING: a variable */
};
struct chat_loop {
    struct chat_value *items;
    size_t count, index0;
    int64_t depth0;
    struct chat_value changed;    /* the latest values of loop.changed; MISSING before */
    const struct chat_node *node; /* the loop, to call it again; NULL: it is not recursive */
    struct chat_scope *scope;     /* around the loop */
};
struct chat_macro {
    const struct chat_node *node; /* MACRO or CALL_BLOCK */
    struct chat_scope *scope;     /* where it was defined */
};
struct chat_method {
    struct chat_value self;
    const struct chat_row *row;
};
struct chat_cycle {
    struct chat_list values;
    struct chat_value separator; /* JOINER */
    bool used;
};

static inline struct chat_value qkv_chat_none(void) {
    return (struct chat_value){.kind = CHAT_NONE};
}
static inline struct chat_value qkv_chat_bool(bool truth) {
    return (struct chat_value){.kind = CHAT_BOOL, .truth = truth};
}
static inline struct chat_value qkv_chat_int(int64_t integer) {
    return (struct chat_value){.kind = CHAT_INT, .integer = integer};
}
static inline struct chat_value qkv_chat_real(double real) {
    return (struct chat_value){.kind = CHAT_REAL, .real = real};
}
/* Text that outlives the run or is in its pool; at most UINT32_MAX bytes. */
static inline struct chat_value qkv_chat_text(const char *text, size_t size) {
    return (struct chat_value){.kind = CHAT_TEXT, .size = (uint32_t)size, .text = text};
}
static inline bool qkv_chat_is_list(struct chat_value v) {
    return v.kind >= CHAT_LIST && v.kind <= CHAT_ITERATOR;
}
static inline bool qkv_chat_is_sequence(struct chat_value v) {
    return v.kind >= CHAT_LIST && v.kind <= CHAT_RANGE;
}
static inline bool qkv_chat_is_number(struct chat_value v) {
    return v.kind >= CHAT_BOOL && v.kind <= CHAT_REAL;
}
/* BOOL or INT: what Python accepts as an integer. */
static inline bool qkv_chat_is_integral(struct chat_value v) {
    return v.kind == CHAT_BOOL || v.kind == CHAT_INT;
}
static inline int64_t qkv_chat_integer(struct chat_value v) {
    return v.kind == CHAT_BOOL ? v.truth : v.integer;
}
static inline double qkv_chat_number(struct chat_value v) {
    return v.kind == CHAT_REAL ? v.real : (double)qkv_chat_integer(v);
}
/* Whether a text is a zero-terminated one. */
bool qkv_chat_text_is(struct chat_value v, const char *text);
const char *qkv_chat_type(struct chat_value v); /* "str" */
bool qkv_chat_truth(struct chat_value v);

/* ---- a run (chat_machine.c) -------------------------------------------------------------------------------------- */

struct chat_limits {
    size_t steps, memory, output; /* operations; bytes of values; bytes of text */
};
enum { CHAT_DEPTH = 300 };        /* of expressions, blocks and macros inside each other, and of values */
enum { CHAT_RANGE_MAX = 100000 }; /* items of a range, as jinja2's sandbox has it */

struct chat_keyword {
    const char *name;
    size_t size;
    struct chat_value value;
};
enum { CHAT_PARAMETERS = 6 };
struct chat_args {
    struct chat_value *items; /* positional */
    size_t count;
    struct chat_keyword *keywords;
    size_t keyword_count;
    struct chat_value p[CHAT_PARAMETERS]; /* by the row's parameters; MISSING: not passed */
};
struct chat_run;
typedef enum qkv_status chat_function(struct chat_run *run, struct chat_value self, struct chat_args *args,
                                      struct chat_value *out);
/* A filter, test, method or function. `parameters`: names with spaces between them, the first `required` of which must
 * be passed; NULL: any arguments, which the function reads itself. */
struct chat_row {
    const char *name;
    const char *parameters;
    int required;
    chat_function *function;
};

struct chat_scope {
    struct chat_scope *parent; /* NULL: the variables of the run */
    struct chat_binding {
        int name;
        struct chat_value value;
    } * items;
    size_t count, capacity;
};

/* What rows call that is defined to their right: object files have no circles. */
struct chat_calls {
    const struct chat_row *(*filter)(const char *name, size_t size);
    const struct chat_row *(*test)(const char *name, size_t size);
    enum qkv_status (*macro)(struct chat_run *run, const struct chat_macro *macro, struct chat_args *args,
                             struct chat_value *out);
    enum qkv_status (*again)(struct chat_run *run, const struct chat_loop *loop, struct chat_value items,
                             struct chat_value *out);
    enum qkv_status (*item)(struct chat_run *run, struct chat_value object, struct chat_value key,
                            struct chat_value *out);
};

struct chat_span {
    size_t begin, end;
};
struct chat_run {
    struct qkv_context *ctx;
    const struct chat_program *program;
    const struct chat_calls *calls;
    struct chat_pool pool;
    struct chat_limits limits;
    size_t steps;
    int depth;
    int line;                 /* of the node that runs */
    struct chat_value *names; /* by number: the variables of the run */
    struct chat_scope *scope; /* NULL: the variables of the run */
    /* The text that is printed, and behind it the texts that are being made: a text begins with qkv_chat_begin and ends
     * with qkv_chat_end, which cuts it off. */
    struct qkv_buffer text;
    int captures;            /* texts of macros and blocks that are being made */
    struct chat_span *spans; /* of generation blocks, a growing list */
    size_t span_count, span_capacity;
    enum { CHAT_NEXT, CHAT_BREAK, CHAT_CONTINUE } flow;
    struct chat_value block; /* the text of a block, for the first of its filters */
    int64_t now;             /* seconds since 1970, for strftime_now */
};

/* Fails with QKV_FORMAT: "NAME, line 12: …". */
enum qkv_status qkv_chat_fail(struct chat_run *run, const char *format, ...) QKV_PRINTF(2, 3);
/* Counts `bytes` of work; fails at the limit of steps, and if the work is cancelled. */
enum qkv_status qkv_chat_work(struct chat_run *run, size_t bytes);
enum qkv_status qkv_chat_enter(struct chat_run *run);
static inline void qkv_chat_leave(struct chat_run *run) {
    run->depth--;
}

/* Texts: begin, put, end. */
static inline size_t qkv_chat_begin(const struct chat_run *run) {
    return run->text.size;
}
enum qkv_status qkv_chat_put(struct chat_run *run, const char *text, size_t n);
enum qkv_status qkv_chat_puts(struct chat_run *run, const char *text);
enum qkv_status qkv_chat_put_code(struct chat_run *run, uint32_t code); /* a character */
enum qkv_status qkv_chat_repeat(struct chat_run *run, const char *text, size_t n, size_t times);
enum qkv_status qkv_chat_end(struct chat_run *run, size_t mark, struct chat_value *out);

/* Lists of `count` items, to be filled. */
struct chat_list *qkv_chat_list(struct chat_run *run, size_t count);
/* A list that grows while it is made. */
struct chat_items {
    struct chat_value *items;
    size_t count, capacity;
};
enum qkv_status qkv_chat_add(struct chat_run *run, struct chat_items *list, struct chat_value v);
enum qkv_status qkv_chat_items_end(struct chat_run *run, const struct chat_items *list, enum chat_kind kind,
                                   struct chat_value *out);
/* A tuple of two. */
enum qkv_status qkv_chat_pair(struct chat_run *run, struct chat_value a, struct chat_value b, struct chat_value *out);

/* Dicts. find: NULL where the key is missing. */
enum qkv_status qkv_chat_dict(struct chat_run *run, enum chat_kind kind, size_t capacity, struct chat_value *out);
enum qkv_status qkv_chat_find(struct chat_run *run, const struct chat_dict *dict, struct chat_value key,
                              struct chat_value **out);
enum qkv_status qkv_chat_set(struct chat_run *run, struct chat_dict *dict, struct chat_value key,
                             struct chat_value value);

/* Undefined values. fail: with the sentence of the value. */
enum qkv_status qkv_chat_undefined(struct chat_run *run, struct chat_value owner, struct chat_value name,
                                   struct chat_value *out);
enum qkv_status qkv_chat_undefined_hint(struct chat_run *run, const char *hint, struct chat_value *out);
enum qkv_status qkv_chat_fail_undefined(struct chat_run *run, struct chat_value v);

/* Whether a equals b, and whether a comes before b (Python's == and <; fails where it has no order). */
enum qkv_status qkv_chat_equal(struct chat_run *run, struct chat_value a, struct chat_value b, bool *equal);
enum qkv_status qkv_chat_less(struct chat_run *run, struct chat_value a, struct chat_value b, bool *less);

/* The items that a loop over v has; fails where v has none. An iterator is consumed. */
enum qkv_status qkv_chat_iterate(struct chat_run *run, struct chat_value v, struct chat_value **items, size_t *count);
enum qkv_status qkv_chat_length(struct chat_run *run, struct chat_value v, size_t *length);

/* ---- characters (chat_text.c) ------------------------------------------------------------------------------------ */

size_t qkv_chat_characters(const char *text, size_t size);               /* their number */
size_t qkv_chat_offset(const char *text, size_t size, size_t character); /* the byte where it begins; at most size */
uint32_t qkv_chat_character(const char *text, size_t size, size_t *at);  /* at *at, which moves behind it */
bool qkv_chat_is_space(uint32_t code);
bool qkv_chat_is_word(uint32_t code); /* \w of regular expressions */
bool qkv_chat_is_printable(uint32_t code);
/* How many bytes of white space (of these characters, where there are any) are at the beginning, and at the end. */
size_t qkv_chat_space_before(const char *text, size_t size);
size_t qkv_chat_space_after(const char *text, size_t size);
/* The first place of a part at or behind `at`; size + 1: there is none. */
size_t qkv_chat_search(const char *text, size_t size, const char *part, size_t part_size, size_t at);
/* The line that begins at *at without its end; *at moves behind the end. False: there is none. As str.splitlines. */
bool qkv_chat_next_line(const char *text, size_t size, size_t *at, size_t *begin, size_t *end);
enum chat_case { CHAT_UPPER, CHAT_LOWER, CHAT_TITLE, CHAT_CAPITALIZE, CHAT_SWAP, CHAT_FOLD };
enum qkv_status qkv_chat_put_case(struct chat_run *run, enum chat_case form, const char *text, size_t size);

/* ---- text of values (chat_print.c) ------------------------------------------------------------------------------- */

enum { CHAT_REAL_TEXT = 340 };
void qkv_chat_real_text(double x, char text[CHAT_REAL_TEXT]); /* as Python's repr */
/* Put str(v), and repr(v). */
enum qkv_status qkv_chat_put_str(struct chat_run *run, struct chat_value v);
enum qkv_status qkv_chat_put_repr(struct chat_run *run, struct chat_value v);
/* str(v) as a value: v itself where it is a text. */
enum qkv_status qkv_chat_str(struct chat_run *run, struct chat_value v, struct chat_value *out);
/* Put a text with <, >, &, ' and " as HTML has them. */
enum qkv_status qkv_chat_put_escaped(struct chat_run *run, struct chat_value v);

/* ---- JSON (chat_json.c) ------------------------------------------------------------------------------------------ */

/* The value of a JSON value, whose texts stay there. */
enum qkv_status qkv_chat_from_json(struct chat_run *run, const json_t *json, struct chat_value *out);
struct chat_json_style {
    bool ascii, sorted;
    const char *indent; /* of a level; NULL: all on one line */
    size_t indent_size;
    struct chat_value between, after_key; /* "," and ":" with their spaces */
};
/* Put json.dumps(v). */
enum qkv_status qkv_chat_put_json(struct chat_run *run, struct chat_value v, const struct chat_json_style *style);

/* ---- formats (chat_format.c, chat_format_fields.c) --------------------------------------------------------------- */

/* A number with a sign, digits, groups and an exponent, as both kinds of formats need it. */
struct chat_format {
    uint32_t fill;
    char align; /* '<', '>', '^', '='; 0: the usual one */
    char sign;  /* '-', '+', ' ' */
    bool alternate, zero;
    char grouping;            /* ',', '_' or 0 */
    int64_t width, precision; /* −1: none */
    char type;                /* 0: none */
};
enum qkv_status qkv_chat_put_format(struct chat_run *run, const struct chat_format *format, struct chat_value v);
/* text % value, and text.format(args). */
enum qkv_status qkv_chat_percent(struct chat_run *run, struct chat_value text, struct chat_value value,
                                 struct chat_value *out);
chat_function qkv_chat_format_fields;

/* ---- operators (chat_operators.c), attributes and items (chat_access.c) ------------------------------------------ */

enum chat_operator { CHAT_ADD, CHAT_SUB, CHAT_MUL, CHAT_DIV, CHAT_FLOOR_DIV, CHAT_MOD, CHAT_POW };
enum chat_comparison { CHAT_EQ, CHAT_NE, CHAT_LT, CHAT_LE, CHAT_GT, CHAT_GE, CHAT_IN, CHAT_NOT_IN };
enum qkv_status qkv_chat_operate(struct chat_run *run, enum chat_operator op, struct chat_value a, struct chat_value b,
                                 struct chat_value *out);
enum qkv_status qkv_chat_negate(struct chat_run *run, bool minus, struct chat_value a, struct chat_value *out);
enum qkv_status qkv_chat_compare(struct chat_run *run, enum chat_comparison op, struct chat_value a,
                                 struct chat_value b, bool *out);
enum qkv_status qkv_chat_contains(struct chat_run *run, struct chat_value all, struct chat_value one, bool *found);
/* object.name and object[key] of a template. */
enum qkv_status qkv_chat_attribute(struct chat_run *run, struct chat_value object, struct chat_value name,
                                   struct chat_value *out);
enum qkv_status qkv_chat_item(struct chat_run *run, struct chat_value object, struct chat_value key,
                              struct chat_value *out);
/* item.a.0.b for an attribute "a.0.b", or a number, or no attribute (MISSING, None). `usual` replaces what is
 * undefined; MISSING: nothing does. */
enum qkv_status qkv_chat_path(struct chat_run *run, struct chat_value item, struct chat_value path,
                              struct chat_value usual, struct chat_value *out);
/* object[start:stop:step]; MISSING: not written. */
enum qkv_status qkv_chat_slice(struct chat_run *run, struct chat_value object, const struct chat_value parts[3],
                               struct chat_value *out);

/* ---- rows (chat_rows.c and the files of tables) ------------------------------------------------------------------ */

const struct chat_row *qkv_chat_find_row(const struct chat_row *rows, size_t count, const char *name, size_t size);
/* Fills args->p by the row's parameters. `kind` for messages: "the filter". */
enum qkv_status qkv_chat_bind(struct chat_run *run, const struct chat_row *row, const char *kind,
                              struct chat_args *args);
enum qkv_status qkv_chat_call_row(struct chat_run *run, const struct chat_row *row, const char *kind,
                                  struct chat_value self, struct chat_args *args, struct chat_value *out);
/* Parameters of rows: the value, or the default where it was not passed; fail where it has another type. */
enum qkv_status qkv_chat_int_of(struct chat_run *run, struct chat_value v, int64_t usual, int64_t *out);
enum qkv_status qkv_chat_text_of(struct chat_run *run, struct chat_value v, struct chat_value *out);

/* Methods of str (two files), and of list, tuple, dict, cycler and the others; NULL: the type has no such method. */
const struct chat_row *qkv_chat_text_method(const char *name, size_t size);
const struct chat_row *qkv_chat_text_case_method(const char *name, size_t size);
const struct chat_row *qkv_chat_method(struct chat_value object, const char *name, size_t size);
/* Whether Python has a method of that name which changes a list, dict or set; the sandbox refuses it. */
bool qkv_chat_changes(struct chat_value object, const char *name, size_t size);
/* Filters in three files, and the list of all; tests; functions. */
const struct chat_row *qkv_chat_text_filter(const char *name, size_t size);
const struct chat_row *qkv_chat_list_filter(const char *name, size_t size);
const struct chat_row *qkv_chat_order_filter(const char *name, size_t size);
const struct chat_row *qkv_chat_number_filter(const char *name, size_t size);
const struct chat_row *qkv_chat_filter(const char *name, size_t size);
const struct chat_row *qkv_chat_test(const char *name, size_t size);
const struct chat_row *qkv_chat_global(const char *name, size_t size);
/* Sorts items by keys, in a stable order. */
enum qkv_status qkv_chat_sort(struct chat_run *run, struct chat_value *keys, struct chat_value *items, size_t count,
                              bool reverse);
/* strftime, in English, of a time of this machine's zone. */
enum qkv_status qkv_chat_put_time(struct chat_run *run, const char *format, size_t size);

#endif
