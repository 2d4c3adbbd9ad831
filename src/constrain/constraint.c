/* Constraints: made of options, owned by all that hold them, freed by the last. */
#include "constrain/grammar.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "base/sized_options.h"

enum { MEMORY = 64 << 20, MEMORY_MIN = 1 << 20 };

void qkv_constraint_options_init(struct qkv_constraint_options *options, size_t size) {
    static const struct qkv_constraint_options usual = {.size = sizeof usual};
    qkv_options_init(options, size, &usual, sizeof usual);
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static void read_JSON(struct qkv_grammar *g, const struct qkv_constraint_options *o) {
    (void)o;
    g->root = qkv_json_any_object(g);
}

static void read_SCHEMA(struct qkv_grammar *g, const struct qkv_constraint_options *o) {
    qkv_schema_read(g, o->text, o->text_size, o->open);
}

static void read_REGEX(struct qkv_grammar *g, const struct qkv_constraint_options *o) {
    struct qkv_regex regex = {.name = "the regular expression", .text = o->text, .size = o->text_size};
    g->root = qkv_regex_read(g, &regex);
}

static void read_CHOICES(struct qkv_grammar *g, const struct qkv_constraint_options *o) {
    const struct qkv_json_text text = {
        .name = "the list of choices", .data = o->text, .size = o->text_size, .max_size = QKV_CONSTRAIN_TEXT};
    struct qkv_grammar_text *texts = NULL;
    json_t *root;
    g->status = qkv_json_load(g->ctx, &text, &root);
    if (g->status) return;
    const size_t count = json_array_size(root);
    if (!count || count > QKV_CONSTRAIN_CHOICES)
        qkv_grammar_fail(g, QKV_FORMAT, "choices must be a list of 1 to %d texts", QKV_CONSTRAIN_CHOICES);
    else if (!(texts = qkv_allocate(g->ctx, count, sizeof *texts)))
        g->status = QKV_MEMORY;
    for (size_t i = 0; i < count && !g->status; i++) {
        const json_t *choice = json_array_get(root, i);
        if (json_is_string(choice))
            texts[i] = (struct qkv_grammar_text){json_string_value(choice), json_string_length(choice)};
        else
            qkv_grammar_fail(g, QKV_FORMAT, "choices[%zu] is no text; write \"…\"", i);
    }
    if (!g->status) g->root = qkv_node_texts(g, texts, count);
    free(texts);
    json_decref(root);
}

#define ROW(name, word, help) [QKV_CONSTRAINT_##name] = {word, read_##name},
static const struct {
    const char *word;
    void (*read)(struct qkv_grammar *g, const struct qkv_constraint_options *o);
} kinds[] = {QKV_CONSTRAINT_LIST(ROW)};
#undef ROW

/* ---- making ------------------------------------------------------------------------------------------------------ */

static enum qkv_status constraint_options_check(struct qkv_context *ctx, struct qkv_constraint_options *o) {
    if ((unsigned)o->kind >= QKV_CONSTRAINT_COUNT)
        return qkv_fail(ctx, QKV_ARGUMENT, "%d is not a kind of constraint", (int)o->kind);
    if (o->kind != QKV_CONSTRAINT_JSON && !o->text)
        return qkv_fail(ctx, QKV_ARGUMENT, "a constraint of kind %s needs a text, but text is NULL",
                        kinds[o->kind].word);
    if (o->memory && o->memory < MEMORY_MIN)
        return qkv_fail(ctx, QKV_ARGUMENT, "memory is %zu; a constraint needs at least %d bytes", o->memory,
                        MEMORY_MIN);
    if (!o->text_size && o->text) o->text_size = strlen(o->text);
    if (o->text_size > QKV_CONSTRAIN_TEXT)
        return qkv_fail(ctx, QKV_ARGUMENT, "the text of a constraint has %zu bytes; at most %d are read", o->text_size,
                        QKV_CONSTRAIN_TEXT);
    return QKV_OK;
}

static enum qkv_status constraint_make(struct qkv_context *ctx, struct qkv_constraint *c,
                                       const struct qkv_constraint_options *o) {
    struct qkv_grammar g;
    qkv_grammar_begin(ctx, &g);
    if (!g.status) kinds[o->kind].read(&g, o);
    enum qkv_status status = qkv_program_make(&g, &c->program);
    qkv_grammar_free(&g);
    if (!status) status = qkv_machine_begin(ctx, &c->machine, &c->program, c->memory / 2);
    return status;
}

enum qkv_status qkv_constraint_create(struct qkv_context *ctx, const struct qkv_constraint_options *options,
                                      struct qkv_constraint **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    struct qkv_constraint_options own = qkv_constraint_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_constraint_options, &own, options);
    if (!status) status = constraint_options_check(ctx, &own);
    if (status) return status;
    struct qkv_constraint *c = qkv_allocate(ctx, 1, sizeof *c);
    if (!c) return QKV_MEMORY;
    atomic_init(&c->owners, 1);
    c->memory = own.memory ? own.memory : MEMORY;
    status = constraint_make(ctx, c, &own);
    if (status)
        qkv_constraint_free(c);
    else
        *out = c;
    return status;
}

struct qkv_constraint *qkv_constraint_hold(struct qkv_constraint *c) {
    if (c) atomic_fetch_add(&c->owners, 1);
    return c;
}

void qkv_constraint_free(struct qkv_constraint *c) {
    if (!c || atomic_fetch_sub(&c->owners, 1) > 1) return;
    qkv_machine_free(&c->machine);
    qkv_program_free(&c->program);
    free(c->masks.bits), free(c->masks.entries), free(c->first_bits);
    free(c);
}
