/* answer_form.c: --answer, the form that a text must have. */
#include <stdlib.h>
#include <string.h>

#include "cli_text.h"

/* The rows of --answer: the kinds of the library, and what follows their word. */
static const struct {
    const char *word;
    enum qkv_constraint_kind kind;
    const char *needs; /* "": nothing follows */
} forms[] = {
    {"json", QKV_CONSTRAINT_JSON, ""},
    {"schema", QKV_CONSTRAINT_SCHEMA, "schema:FILE, or schema:{…}"},
    {"regex", QKV_CONSTRAINT_REGEX, "regex:EXPRESSION"},
    {"choices", QKV_CONSTRAINT_CHOICES, "choices:A,B, or choices:[\"A\", \"B\"]"},
};
_Static_assert(CLI_COUNT_OF(forms) == QKV_CONSTRAINT_COUNT, "a row for each kind of constraint");

enum { SCHEMA_MAX = 1 << 20 };

/* A list of texts with commas between them, as JSON. */
static int form_choices(const char *text, char **out) {
    struct qkv_json json = {0};
    qkv_json_begin(&json, '[');
    for (const char *at = text;; at++) {
        const size_t size = strcspn(at, ",");
        qkv_json_string(&json, at, size);
        at += size;
        if (!*at) break;
    }
    qkv_json_end(&json, ']');
    *out = json.status ? NULL : strdup(json.text.data);
    qkv_json_free(&json);
    return *out ? CLI_DONE : cli_failed("out of memory");
}

/* The text of a constraint from what follows the colon. */
static int form_text(size_t row, const char *rest, char **out, size_t *size) {
    int code = CLI_DONE;
    *out = NULL;
    if (forms[row].kind == QKV_CONSTRAINT_SCHEMA && *rest != '{') return cli_read_all(rest, SCHEMA_MAX, out, size);
    if (forms[row].kind == QKV_CONSTRAINT_CHOICES && *rest != '[')
        code = form_choices(rest, out);
    else if (!(*out = strdup(rest)))
        code = cli_failed("out of memory");
    *size = *out ? strlen(*out) : 0;
    return code;
}

static const char *form_word(const void *list, size_t i) {
    (void)list;
    return forms[i].word;
}

int cli_form_read(struct qkv_context *ctx, const char *form, struct qkv_constraint **out) {
    char word[16], *text = NULL;
    size_t row = 0;
    *out = NULL;
    if (!form) return CLI_DONE;
    const size_t length = strcspn(form, ":");
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), form);
    while (row < CLI_COUNT_OF(forms) && strcmp(forms[row].word, word) != 0) row++;
    if (row == CLI_COUNT_OF(forms)) {
        const char *closest = qkv_closest_name(word, form_word, NULL, CLI_COUNT_OF(forms));
        return cli_usage("--answer %.60s: there is json, schema:FILE, regex:EXPRESSION and choices:A,B%s%s%s", form,
                         closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "");
    }
    const char *rest = form[length] ? form + length + 1 : "";
    if (!*forms[row].needs && *rest) return cli_usage("--answer %s: nothing follows %s", form, word);
    if (*forms[row].needs && !*rest) return cli_usage("--answer %s: write %s", form, forms[row].needs);
    struct qkv_constraint_options o = qkv_constraint_defaults();
    int code = form_text(row, rest, &text, &o.text_size);
    o.kind = forms[row].kind;
    o.text = text;
    if (code == CLI_DONE && qkv_constraint_create(ctx, &o, out))
        code = cli_failed("--answer %s: %s", word, cli_message(ctx));
    free(text);
    return code;
}
