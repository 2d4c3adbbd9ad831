/* forms: the table of the forms of attention, and questions that the row of a spec answers. */
#include "attention/form.h"

#define FORMS_ROW(name) &qkv_attention_form_##name,
static const struct qkv_attention_form *const forms[] = {QKV_ATTENTION_FORM_LIST(FORMS_ROW)};

const struct qkv_attention_form *qkv_attention_form_of(const struct qkv_attention_spec *spec) {
    size_t i = sizeof forms / sizeof *forms - 1;
    while (!forms[i]->fits(spec)) i--;
    return forms[i];
}

const char *qkv_attention_form_text(const struct qkv_attention_spec *attention) {
    if (!attention) return "";
    return qkv_attention_form_of(attention)->name;
}

enum qkv_status qkv_attention_form_check(struct qkv_context *ctx, const char *name, const char *where,
                                         const struct qkv_attention_spec *spec, bool cross, int C) {
    const struct qkv_form_keys keys = {.ctx = ctx, .name = name, .where = where, .C = C, .cross = cross};
    const struct qkv_attention_form *form = qkv_attention_form_of(spec);
    return form->check ? form->check(&keys, spec) : QKV_OK;
}

int qkv_attention_rotated(const struct qkv_attention_spec *spec) {
    return qkv_attention_form_of(spec)->rotated(spec);
}

const char *qkv_attention_rotated_key(const struct qkv_attention_spec *spec) {
    return qkv_attention_form_of(spec)->rotated_key;
}

double qkv_attention_scale(const struct qkv_attention_spec *spec) {
    return spec->scale > 0 ? spec->scale : qkv_attention_form_of(spec)->scale(spec);
}

struct qkv_page_heads qkv_cache_heads(const struct qkv_attention_spec *spec) {
    return qkv_attention_form_of(spec)->cached(spec);
}

/* The first difference that is no number. */
static const char *forms_difference(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b) {
    if (qkv_attention_form_of(a) != qkv_attention_form_of(b)) return "the form of attention differs";
    if (!qkv_position_same(&a->position, &b->position)) return "position differs";
    return a->causal != b->causal ? "causal differs" : NULL;
}

bool qkv_attention_differs(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b,
                           char text[QKV_DIFFER_TEXT]) {
    const char *difference = forms_difference(a, b);
    if (difference && text) snprintf(text, QKV_DIFFER_TEXT, "%s", difference);
    return difference || qkv_attention_differ("window", a->window, b->window, text) ||
           qkv_attention_differ("window_right", a->window_right, b->window_right, text) ||
           qkv_attention_differ("chunk", a->chunk, b->chunk, text) || qkv_attention_form_of(a)->differ(a, b, text);
}
