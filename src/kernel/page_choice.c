/* page_choice: which page types hold the keys and values of an attention, and which it has if nobody chooses. */
#include "kernel/kernel.h"

#include <string.h>

enum { CHOICE_TEXT = 256 };

/* Whether these heads have room in pages of a type. */
static bool choice_holds(const struct qkv_context *ctx, const struct qkv_page_type *type, size_t columns) {
    if (type->max_columns && columns > type->max_columns(ctx->kernels)) return false;
    return columns % qkv_types[type->dtype]->block == 0;
}

static bool choice_holds_both(const struct qkv_context *ctx, const struct qkv_page_type *type,
                              const struct qkv_page_heads *heads) {
    if (heads->shared) return type->shared && choice_holds(ctx, type, heads->k_columns);
    return choice_holds(ctx, type, heads->k_columns) && choice_holds(ctx, type, heads->v_columns);
}

/* The first type of the list; rows of fp32 and of bf16 hold any heads. */
static const struct qkv_page_type *choice_usual(const struct qkv_context *ctx, const struct qkv_page_heads *heads,
                                                enum qkv_precision precision) {
    const struct qkv_page_type *type;
    for (size_t i = 0; (type = qkv_page_type_at(i)); i++)
        if (type->usual >> precision & 1 && choice_holds_both(ctx, type, heads)) return type;
    return &qkv_page_type_f32;
}

struct qkv_page_types qkv_page_types_of(const struct qkv_context *ctx, const struct qkv_page_heads *heads,
                                        struct qkv_page_types chosen) {
    const struct qkv_page_type *usual = choice_usual(ctx, heads, chosen.precision);
    if (heads->shared && (chosen.k || chosen.v)) usual = chosen.k ? chosen.k : chosen.v;
    return (struct qkv_page_types){chosen.k ? chosen.k : usual, chosen.v ? chosen.v : usual, chosen.precision};
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

/* "f32, bf16 or f16" */
static const char *choice_join(const char *const *names, size_t count, char text[CHOICE_TEXT]) {
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 0; i < count && at < CHOICE_TEXT; i++)
        at += (size_t)snprintf(text + at, CHOICE_TEXT - at, "%s%s",
                               i == 0          ? ""
                               : i + 1 < count ? ", "
                                               : " or ",
                               names[i]);
    return text;
}

/* The types that hold the keys (k), the values (v), or both. */
static const char *choice_list(const struct qkv_context *ctx, const struct qkv_page_heads *heads, bool k, bool v,
                               char text[CHOICE_TEXT]) {
    const char *names[CHOICE_TEXT / 2];
    const struct qkv_page_type *type;
    size_t count = 0;
    for (size_t i = 0; (type = qkv_page_type_at(i)); i++)
        if (k && v ? choice_holds_both(ctx, type, heads)
                   : choice_holds(ctx, type, k ? heads->k_columns : heads->v_columns))
            names[count++] = type->name;
    return choice_join(names, count, text);
}

/* Keys and values that are the same numbers. */
static enum qkv_status choice_check_shared(struct qkv_context *ctx, const struct qkv_page_heads *heads,
                                           struct qkv_page_types chosen, const char *what, size_t layer) {
    const struct qkv_page_type *type = chosen.k ? chosen.k : chosen.v;
    char list[CHOICE_TEXT];
    if (chosen.k && chosen.v && chosen.k != chosen.v)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "%s: keys are to be stored as %s and values as %s, but in layer %zu, with %s, the "
                        "values are %zu of the %zu channels of the keys (choose one type for both: %s)",
                        what, chosen.k->name, chosen.v->name, layer, heads->form, heads->v_columns, heads->k_columns,
                        choice_list(ctx, heads, true, true, list));
    if (type && !type->shared)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "%s: pages of %s cannot hold %s, as in layer %zu, whose values are %zu of the %zu "
                        "channels of the keys (choose %s)",
                        what, type->name, heads->form, layer, heads->v_columns, heads->k_columns,
                        choice_list(ctx, heads, true, true, list));
    return QKV_OK;
}

static enum qkv_status choice_check(struct qkv_context *ctx, const struct qkv_page_heads *heads,
                                    const struct qkv_page_type *type, bool keys, const char *what, size_t layer) {
    const size_t columns = keys ? heads->k_columns : heads->v_columns;
    const char *side = keys ? "keys" : "values";
    char list[CHOICE_TEXT];
    if (!type || choice_holds(ctx, type, columns)) return QKV_OK;
    choice_list(ctx, heads, keys, !keys || heads->shared, list);
    if (type->max_columns && columns > type->max_columns(ctx->kernels))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "%s: pages of %s hold heads of at most %zu channels, but the %s of layer %zu have %zu a head "
                        "(choose %s)",
                        what, type->name, type->max_columns(ctx->kernels), side, layer, columns, list);
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "%s: pages of %s hold blocks of %zu channels, but the %s of layer %zu have %zu a head (choose %s)",
                    what, type->name, qkv_types[type->dtype]->block, side, layer, columns, list);
}

enum qkv_status qkv_page_types_check(struct qkv_context *ctx, const struct qkv_page_heads *heads,
                                     struct qkv_page_types chosen, const char *what, size_t layer) {
    if (heads->shared) {
        enum qkv_status status = choice_check_shared(ctx, heads, chosen, what, layer);
        return status ? status : choice_check(ctx, heads, chosen.k ? chosen.k : chosen.v, true, what, layer);
    }
    enum qkv_status status = choice_check(ctx, heads, chosen.k, true, what, layer);
    return status ? status : choice_check(ctx, heads, chosen.v, false, what, layer);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The type with a name of `size` bytes. */
static enum qkv_status choice_find(struct qkv_context *ctx, const char *name, size_t size,
                                   const struct qkv_page_type **out) {
    const char *names[CHOICE_TEXT / 2];
    char list[CHOICE_TEXT];
    size_t count = 0;
    for (; (*out = qkv_page_type_at(count)); count++) {
        names[count] = (*out)->name;
        if (strlen((*out)->name) == size && !memcmp((*out)->name, name, size)) return QKV_OK;
    }
    return qkv_fail(ctx, QKV_ARGUMENT, "caches have no type \"%.*s\" (choose %s)", (int)qkv_min(size, 80), name,
                    choice_join(names, count, list));
}

enum qkv_status qkv_page_types_read(struct qkv_context *ctx, const char *text, struct qkv_page_types *types) {
    enum qkv_status status = QKV_OK;
    types->k = types->v = NULL;
    if (!strpbrk(text, "=,;: ")) {
        status = choice_find(ctx, text, strlen(text), &types->k);
        types->v = types->k;
        return status;
    }
    for (const char *at = text; !status; at++) {
        const struct qkv_page_type **side = *at == 'k' ? &types->k : *at == 'v' ? &types->v : NULL;
        const size_t size = side && at[1] == '=' ? strcspn(at + 2, ",;: ") : 0;
        if (!side || at[1] != '=' || *side || (at[2 + size] && at[2 + size] != ','))
            return qkv_fail(
                ctx, QKV_ARGUMENT,
                "a cache is chosen by the name of a type, or as \"k=q8_0,v=bf16\" for keys and values apart, "
                "not as \"%.80s\"",
                text);
        status = choice_find(ctx, at + 2, size, side);
        at += 2 + size;
        if (!*at) break;
    }
    return status;
}
