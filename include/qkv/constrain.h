/* qkv/constrain.h: texts of a given form, such as JSON of a schema; a part of qkv.h, which includes it. Experimental:
 * all of it may change.
 *
 * A constraint says which texts may be generated. Before each choice of a token, all tokens that no allowed text could
 * continue with get the score -inf; end tokens are among the others where the text may end. So a generation that ends
 * by itself has written an allowed text. One that ends by the number of tokens, or by a stop text, has written the
 * beginning of one.
 *
 *     status = qkv_constraint_create(ctx, &QKV_OPTIONS(qkv_constraint_options, .kind = QKV_CONSTRAINT_CHOICES,
 *                                                      .text = "[\"yes\", \"no\"]"), &constraint);
 *     options.constraint = constraint;   // of qkv_generate, or of a request to an engine
 *
 * The constraint works on bytes, so a token may end inside a word or a character. Which tokens may come is found by
 * walking a tree of the vocabulary, which is made once for each tokenizer, and remembered within a fixed memory. */
#ifndef QKV_PUBLIC_CONSTRAIN_H
#define QKV_PUBLIC_CONSTRAIN_H

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qkv_constraint;
#ifdef QKV_EXPERIMENTAL
/* Experimental: every kind of constraint: X(name, word, help). */
#define QKV_CONSTRAINT_LIST(X)                                                                                         \
    X(JSON, "json", "an object of JSON (RFC 8259)")                                                                    \
    X(SCHEMA, "schema", "JSON of a schema (JSON Schema 2020-12)")                                                      \
    X(REGEX, "regex", "a text that a regular expression matches from its beginning to its end")                        \
    X(CHOICES, "choices", "one of the texts of a JSON list")
#define QKV_CONSTRAINT_ENUM(name, word, help) QKV_CONSTRAINT_##name,
/* Experimental: kinds of constraints. */
enum qkv_constraint_kind { QKV_CONSTRAINT_LIST(QKV_CONSTRAINT_ENUM) QKV_CONSTRAINT_COUNT };
#undef QKV_CONSTRAINT_ENUM
/* Experimental: what a constraint is made of. */
struct qkv_constraint_options {
    size_t size; /* sizeof(struct qkv_constraint_options), set by qkv_constraint_defaults */
    enum qkv_constraint_kind kind;
    /* the schema, the expression, or the list, at most 1 MiB; NULL for QKV_CONSTRAINT_JSON. docs/do/constrain.md says
     * which keywords of schemas, and what of regular expressions, it may have */
    const char *text;
    size_t text_size; /* bytes; 0: it is zero-terminated */
    /* An object whose schema says nothing of additionalProperties may have more members than `properties` names. */
    bool open;
    size_t memory; /* bytes for states and for masks together, at most; 0: 64 MiB */
};
/* Experimental: any JSON object. */
QKV_API void qkv_constraint_options_init(struct qkv_constraint_options *options, size_t size);
static inline struct qkv_constraint_options qkv_constraint_defaults(void) {
    struct qkv_constraint_options options;
    qkv_constraint_options_init(&options, sizeof options);
    return options;
}
/* Experimental: makes a constraint. Nothing of `options` is used later. The sentence of a failure names the place in
 * the schema, as $.properties.age, or in the expression. It fails for what the library cannot keep to, for a constraint
 * that no text meets, and for a schema whose values never end. A constraint works with any model; it serves one thread
 * at a time. Fails with QKV_ARGUMENT, QKV_FORMAT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_constraint_create(struct qkv_context *ctx, const struct qkv_constraint_options *options,
                                              struct qkv_constraint **out);
/* Experimental: makes the caller one more owner, who frees it too; returns the constraint. NULL is allowed. Any
 * thread. */
QKV_API struct qkv_constraint *qkv_constraint_hold(struct qkv_constraint *constraint);
/* Experimental: frees a constraint when its last owner does. Engines own those of their requests. NULL is allowed. */
QKV_API void qkv_constraint_free(struct qkv_constraint *constraint);
/* Experimental: sets *whole to whether a text of `size` bytes is allowed, and *begins to whether an allowed text begins
 * with it. Either may be NULL. Fails with QKV_ARGUMENT where a limit of the constraint is reached, QKV_MEMORY. */
QKV_API enum qkv_status qkv_constraint_check(struct qkv_context *ctx, struct qkv_constraint *constraint,
                                             const char *text, size_t size, bool *whole, bool *begins);
#endif

#ifdef __cplusplus
}
#endif

#endif
