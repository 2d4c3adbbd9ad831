/* chat_nodes.h: a parsed template. It never changes, so several runs may read it. */
#ifndef QKV_CHAT_NODES_H
#define QKV_CHAT_NODES_H

#include "chat/chat.h"

/* ---- tokens (chat_lexer.c) --------------------------------------------------------------------------------------- */

enum chat_token_kind {
    CHAT_TOKEN_END,
    CHAT_TOKEN_DATA,
    CHAT_TOKEN_PRINT, /* {{ */
    CHAT_TOKEN_PRINT_END,
    CHAT_TOKEN_BLOCK, /* {% */
    CHAT_TOKEN_BLOCK_END,
    CHAT_TOKEN_NAME,
    CHAT_TOKEN_VALUE, /* a string, integer or float */
    CHAT_TOKEN_SIGN   /* an operator */
};
struct chat_token {
    uint8_t kind; /* enum chat_token_kind */
    int line;
    struct chat_value value; /* a text for NAME, DATA and SIGN */
};
struct chat_tokens {
    struct chat_token *items;
    size_t count, capacity;
};
/* Reads the tokens of a template; their texts are in the pool. *tokens is the caller's, to free `items`. */
enum qkv_status qkv_chat_lex(struct chat_pool *pool, const char *name, const char *text, size_t size,
                             struct chat_tokens *tokens);
/* The value of a string between quotation marks, with Python's escapes. */
enum qkv_status qkv_chat_unescape(struct chat_pool *pool, const char *name, int line, const char *text, size_t size,
                                  struct chat_value *out);

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

enum chat_node_kind {
    CHAT_NODE_NONE,
    /* expressions */
    CHAT_CONSTANT, /* value */
    CHAT_NAME,     /* name */
    CHAT_MEMBER,   /* a.value, namespaces as targets too */
    CHAT_INDEX,    /* a[b] */
    CHAT_SLICE,    /* a : b : c */
    CHAT_MAKE_LIST,
    CHAT_MAKE_TUPLE, /* list */
    CHAT_MAKE_DICT,  /* list: keys and values in turn */
    CHAT_UNARY,      /* op: '-', '+', '!' */
    CHAT_BINARY,     /* op: enum chat_operator; a, b */
    CHAT_AND,
    CHAT_OR,
    CHAT_CONCAT,  /* list */
    CHAT_CHAIN,   /* comparisons: a, list of COMPARE */
    CHAT_COMPARE, /* op: enum chat_comparison; a */
    CHAT_CHOICE,  /* b if a else c; c NULL: undefined */
    CHAT_CALL,    /* a(list) */
    CHAT_FILTER,  /* a|row(list); a NULL: the text of a block */
    CHAT_TEST,    /* a is row(list) */
    CHAT_KEYWORD, /* in lists of arguments: value=a */
    CHAT_STAR,    /* op 1: *a, 2: **a */
    /* statements */
    CHAT_DATA,         /* value */
    CHAT_PRINT,        /* a */
    CHAT_IF,           /* list of BRANCH */
    CHAT_BRANCH,       /* a: test, NULL: else; list */
    CHAT_FOR,          /* a in b if c: list, other; flag: recursive, uses_loop */
    CHAT_SET,          /* a = b */
    CHAT_SET_BLOCK,    /* a; b: filters or NULL; list */
    CHAT_WITH,         /* other: SETs; list */
    CHAT_MACRO_NODE,   /* name; other: PARAMETERs; list; uses */
    CHAT_PARAMETER,    /* name; a: default or NULL */
    CHAT_CALL_BLOCK,   /* a: the call; as a macro */
    CHAT_FILTER_BLOCK, /* b: filters; list */
    CHAT_SCOPE,        /* list in a scope of its own; flag: a generation block */
    CHAT_BREAK_NODE,
    CHAT_CONTINUE_NODE
};
enum { CHAT_USES_CALLER = 1, CHAT_USES_KEYWORDS = 2, CHAT_USES_REST = 4, CHAT_USES_LOOP = 8 };

struct chat_node {
    uint8_t kind, op;
    uint8_t uses; /* special names that the body of a macro or loop has: a sum of CHAT_USES_ */
    bool flag;
    int line, name;
    struct chat_value value;
    const struct chat_row *row; /* NULL: unknown; then its use fails */
    struct chat_node *a, *b, *c, *list, *other, *next;
};

struct chat_program {
    struct chat_pool pool;
    const char *name; /* for messages */
    struct chat_node *body;
    struct chat_value *names; /* of variables, zero-terminated */
    size_t name_count, name_capacity;
    int caller, keywords, rest, loop; /* numbers of the special names */
    bool reads_parts;                 /* it reads "text" of something: it takes lists of parts as contents */
};
/* Parses a template. *out is the caller's, freed with qkv_chat_program_free. Fails with QKV_MEMORY, QKV_FORMAT. */
enum qkv_status qkv_chat_parse(struct qkv_context *ctx, const char *name, const char *text, size_t size,
                               struct chat_program **out);
void qkv_chat_program_free(struct chat_program *program);

/* ---- running (chat_evaluate.c, chat_execute.c, chat_render.c) ---------------------------------------------------- */

enum qkv_status qkv_chat_evaluate(struct chat_run *run, const struct chat_node *node, struct chat_value *out);
/* A call, with a keyword argument `caller` if that is not MISSING. */
enum qkv_status qkv_chat_evaluate_call(struct chat_run *run, const struct chat_node *node, struct chat_value caller,
                                       struct chat_value *out);
enum qkv_status qkv_chat_execute(struct chat_run *run, const struct chat_node *list);
enum qkv_status qkv_chat_call_macro(struct chat_run *run, const struct chat_macro *macro, struct chat_args *args,
                                    struct chat_value *out);
enum qkv_status qkv_chat_call_loop(struct chat_run *run, const struct chat_loop *loop, struct chat_value items,
                                   struct chat_value *out);

/* A rendered text and its generation blocks; the arrays are heap blocks. */
struct chat_rendered {
    char *text; /* zero-terminated */
    size_t size;
    struct chat_span *spans;
    size_t span_count;
};
/* Renders a template with the variables of `count` objects, of which later ones win. The default limits are
 * qkv_chat_limits. Fails with QKV_MEMORY, QKV_FORMAT, QKV_STOPPED. */
extern const struct chat_limits qkv_chat_limits;
enum qkv_status qkv_chat_render(struct qkv_context *ctx, const struct chat_program *program,
                                const json_t *const *variables, size_t count, const struct chat_limits *limits,
                                int64_t now, struct chat_rendered *out);

/* ---- the parser (chat_parse_expression.c, chat_parse.c) ---------------------------------------------------------- */

struct chat_parser {
    struct qkv_context *ctx;
    struct chat_program *program;
    struct chat_token *tokens;
    size_t at;
    int depth;
    int conditions; /* blocks and choices around: an unknown filter or test there fails only when it is used */
    const struct chat_node *unknown; /* the first one elsewhere */
    int loops;
    uint8_t uses;
    size_t *buckets; /* of names, 1 + number of the first; with `chain` */
    size_t *chain;
    size_t chain_capacity;
};
struct chat_node_list {
    struct chat_node *first, *last;
};
struct chat_node *qkv_chat_node(struct chat_parser *p, enum chat_node_kind kind, int line);
void qkv_chat_append(struct chat_node_list *list, struct chat_node *node);
enum qkv_status qkv_chat_parse_fail(struct chat_parser *p, int line, const char *format, ...) QKV_PRINTF(3, 4);
/* "expected X, got Y" */
enum qkv_status qkv_chat_parse_expected(struct chat_parser *p, const char *what);
static inline const struct chat_token *qkv_chat_token(const struct chat_parser *p) {
    return &p->tokens[p->at];
}
bool qkv_chat_sign_is(const struct chat_parser *p, const char *sign);
bool qkv_chat_word_is(const struct chat_parser *p, const char *word);
bool qkv_chat_skip_sign(struct chat_parser *p, const char *sign);
bool qkv_chat_skip_word(struct chat_parser *p, const char *word);
enum qkv_status qkv_chat_expect_sign(struct chat_parser *p, const char *sign);
enum qkv_status qkv_chat_expect_name(struct chat_parser *p, struct chat_value *name);
/* The number of a variable's name. */
enum qkv_status qkv_chat_intern(struct chat_parser *p, struct chat_value name, int *number);

enum qkv_status qkv_chat_parse_expression(struct chat_parser *p, struct chat_node **out);
/* An expression, or a tuple without parentheses; `choice` false: no "a if b else c" outside of parentheses. */
enum qkv_status qkv_chat_parse_tuple(struct chat_parser *p, bool choice, struct chat_node **out);
/* What a loop or a set assigns to; `names`: also namespace.name. */
enum qkv_status qkv_chat_parse_target(struct chat_parser *p, bool names, struct chat_node **out);
/* A chain of filters over `a`; `begun`: the | before the first name is behind. */
enum qkv_status qkv_chat_parse_filters(struct chat_parser *p, struct chat_node *a, bool begun, struct chat_node **out);
enum qkv_status qkv_chat_parse_unary(struct chat_parser *p, bool filters, struct chat_node **out);

#endif
