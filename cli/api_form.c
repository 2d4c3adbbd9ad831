/* api_form.c: the fields of a request that say which form its answers have: response_format, as OpenAI has it,
 * guided_json, guided_regex, guided_choice and structured_outputs, as vLLM has them. */
#include <stdlib.h>
#include <string.h>

#include "cli_api.h"

enum { CALLS_MAX = 8 }; /* of tools, in an answer that must call one */

/* What a request asks for. */
struct form {
    const char *field; /* NULL: nothing so far */
    enum qkv_constraint_kind kind;
    char *text;
    bool open;
};

static bool form_take(struct form *form, const char *field, enum qkv_constraint_kind kind, const json_t *value,
                      struct cli_api_error *error) {
    if (form->field)
        return cli_api_refuse(error, field, "%s and %s both say the form of the answer; name one", form->field, field);
    form->field = field;
    form->kind = kind;
    if (kind == QKV_CONSTRAINT_JSON) return true;
    form->text = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_COMPACT);
    return form->text || cli_api_refuse(error, "", "out of memory");
}

/* ---- the fields -------------------------------------------------------------------------------------------------- */

static bool form_schema(const json_t *value, const char *field, struct form *form, struct cli_api_error *error) {
    if (!json_is_object(value) && !json_is_string(value))
        return cli_api_refuse(error, field, "%s must be a schema: an object, or its text", field);
    return form_take(form, field, QKV_CONSTRAINT_SCHEMA, value, error);
}

static bool form_regex(const json_t *value, const char *field, struct form *form, struct cli_api_error *error) {
    if (!json_is_string(value)) return cli_api_refuse(error, field, "%s must be a regular expression, a text", field);
    return form_take(form, field, QKV_CONSTRAINT_REGEX, value, error);
}

static bool form_choice(const json_t *value, const char *field, struct form *form, struct cli_api_error *error) {
    if (!json_is_array(value)) return cli_api_refuse(error, field, "%s must be a list of texts", field);
    return form_take(form, field, QKV_CONSTRAINT_CHOICES, value, error);
}

static bool form_json(const json_t *value, const char *field, struct form *form, struct cli_api_error *error) {
    if (!json_is_boolean(value)) return cli_api_refuse(error, field, "json_object of %s must be true or false", field);
    return json_is_false(value) || form_take(form, field, QKV_CONSTRAINT_JSON, NULL, error);
}

static bool form_none(const json_t *value, const char *field, struct form *form, struct cli_api_error *error) {
    (void)value, (void)form;
    return cli_api_refuse(
        error, field,
        "%s: grammars are not supported; write a JSON schema or a regular expression (response_format, "
        "guided_json, guided_regex)",
        field);
}

/* {"type": "text" | "json_object" | "json_schema", "json_schema": {"schema", "strict", …}} */
static bool form_response(const json_t *value, const char *field, struct form *form, struct cli_api_error *error) {
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *wrapped = json_object_get(value, "json_schema"), *schema = json_object_get(wrapped, "schema");
    if (!type) return cli_api_refuse(error, field, "response_format must be an object with a text \"type\"");
    if (!strcmp(type, "text")) return true;
    if (!strcmp(type, "json_object")) return form_take(form, field, QKV_CONSTRAINT_JSON, NULL, error);
    if (strcmp(type, "json_schema") != 0)
        return cli_api_refuse(error, field,
                              "the type of response_format is \"%.40s\"; there is text, json_object and "
                              "json_schema",
                              type);
    if (!schema) return cli_api_refuse(error, field, "response_format has no json_schema with a \"schema\"");
    form->open = json_is_false(json_object_get(wrapped, "strict"));
    return form_schema(schema, field, form, error);
}

static bool form_structured(const json_t *value, const char *field, struct form *form, struct cli_api_error *error);

static const struct {
    const char *name;
    bool inner; /* a key of structured_outputs; else a field of a request */
    bool (*read)(const json_t *value, const char *field, struct form *form, struct cli_api_error *error);
} fields[] = {
    {"response_format", false, form_response},
    {"guided_json", false, form_schema},
    {"guided_regex", false, form_regex},
    {"guided_choice", false, form_choice},
    {"guided_grammar", false, form_none},
    {"grammar", false, form_none},
    {"structured_outputs", false, form_structured},
    {"json", true, form_schema},
    {"regex", true, form_regex},
    {"choice", true, form_choice},
    {"json_object", true, form_json},
    {"grammar", true, form_none},
};

static bool form_structured(const json_t *value, const char *field, struct form *form, struct cli_api_error *error) {
    const char *name;
    json_t *inner;
    if (!json_is_object(value)) return cli_api_refuse(error, field, "structured_outputs must be an object");
    json_object_foreach((json_t *)(uintptr_t)value, name, inner) {
        size_t i = 0;
        while (i < CLI_COUNT_OF(fields) && (!fields[i].inner || strcmp(fields[i].name, name) != 0)) i++;
        if (i == CLI_COUNT_OF(fields))
            return cli_api_refuse(error, field,
                                  "structured_outputs has no \"%.40s\"; there is json, regex, choice and "
                                  "json_object",
                                  name);
        if (!json_is_null(inner) && !fields[i].read(inner, field, form, error)) return false;
    }
    return true;
}

/* ---- constraints that were made ---------------------------------------------------------------------------------- */

enum { FORMS = CLI_API_FORMS };
/* The latest constraints, so that requests of one form share what was found of it. */
struct cli_api_forms {
    struct known {
        char *text;
        enum qkv_constraint_kind kind;
        bool open;
        struct qkv_constraint *constraint; /* NULL: none */
    } items[FORMS];
    size_t next;
};

struct cli_api_forms *cli_api_forms_open(void) {
    return calloc(1, sizeof(struct cli_api_forms));
}

static void known_drop(struct known *known) {
    qkv_constraint_free(known->constraint);
    free(known->text);
    *known = (struct known){0};
}

void cli_api_forms_close(struct cli_api_forms *forms) {
    for (size_t i = 0; forms && i < FORMS; i++) known_drop(&forms->items[i]);
    free(forms);
}

static struct qkv_constraint *forms_find(struct cli_api_forms *forms, const struct form *form) {
    for (size_t i = 0; forms && i < FORMS; i++) {
        const struct known *known = &forms->items[i];
        const bool same_text = form->text ? known->text && !strcmp(known->text, form->text) : !known->text;
        if (known->constraint && known->kind == form->kind && known->open == form->open && same_text)
            return qkv_constraint_hold(known->constraint);
    }
    return NULL;
}

/* Takes the form's text. */
static void forms_add(struct cli_api_forms *forms, struct form *form, struct qkv_constraint *constraint) {
    if (!forms) return;
    struct known *known = &forms->items[forms->next++ % FORMS];
    known_drop(known);
    *known = (struct known){form->text, form->kind, form->open, qkv_constraint_hold(constraint)};
    form->text = NULL;
}

enum { FORM_BYTES = 64 }; /* of a constraint, for each byte of its text */

static bool form_make(const struct cli_api *api, struct form *form, struct cli_api_request *r,
                      struct cli_api_error *error) {
    struct qkv_constraint **out = &r->constraint;
    *out = form->field ? forms_find(api->forms, form) : NULL;
    if (!form->field || *out) return true;
    struct qkv_constraint_options o = qkv_constraint_defaults();
    o.kind = form->kind;
    o.text = form->text;
    o.open = form->open;
    o.memory = api->form_memory;
    if (qkv_constraint_create(api->ctx, &o, out))
        return cli_api_refuse(error, form->field, "%s: %s", form->field, cli_message(api->ctx));
    r->form_bytes = api->form_memory + FORM_BYTES * (form->text ? strlen(form->text) : 0);
    forms_add(api->forms, form, *out);
    return true;
}

bool cli_api_read_form(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    struct form form = {0};
    bool fine = true;
    for (size_t i = 0; i < CLI_COUNT_OF(fields) && fine; i++) {
        const json_t *value = fields[i].inner ? NULL : json_object_get(r->body, fields[i].name);
        if (value && !json_is_null(value)) fine = fields[i].read(value, fields[i].name, &form, error);
    }
    if (fine && form.field && r->search.beam)
        fine = cli_api_refuse(error, form.field, "a search with beams has no %s", form.field);
    fine = fine && form_make(api, &form, r, error);
    free(form.text);
    r->options.constraint = r->constraint;
    return fine;
}

/* ---- calls of tools ---------------------------------------------------------------------------------------------- */

/* The schema of one call: {"name": NAME, "arguments": …}. */
static json_t *tool_schema(const json_t *tool, const char *wanted) {
    const json_t *function = json_object_get(tool, "function"), *name = json_object_get(function, "name");
    json_t *arguments = json_object_get(function, "parameters");
    if (!json_is_string(name) || (wanted && strcmp(wanted, json_string_value(name)) != 0)) return NULL;
    json_t *any = json_is_object(arguments) ? json_incref(arguments) : json_pack("{s:s}", "type", "object");
    return json_pack("{s:s, s:{s:{s:O}, s:o}, s:[s,s], s:b}", "type", "object", "properties", "name", "const", name,
                     "arguments", any, "required", "name", "arguments", "additionalProperties", 0);
}

bool cli_api_form_tools(const struct cli_api *api, struct cli_api_request *r, const json_t *tools, const char *wanted,
                        struct cli_api_error *error) {
    struct form form = {.field = "tool_choice", .kind = QKV_CONSTRAINT_SCHEMA};
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *one = tool_schema(json_array_get(tools, i), wanted);
        if (one) json_array_append_new(calls, one);
    }
    if (r->constraint || r->search.beam || !json_array_size(calls)) {
        const bool none = !json_array_size(calls);
        json_decref(calls);
        return cli_api_refuse(error, "tool_choice",
                              none ? "tool_choice wants a call, but tools has no such function"
                                   : "tool_choice wants a call, which leaves no other form and no beams");
    }
    json_t *schema = json_pack("{s:s, s:{s:o}, s:i, s:i}", "type", "array", "items", "anyOf", calls, "minItems", 1,
                               "maxItems", wanted ? 1 : CALLS_MAX);
    form.text = schema ? json_dumps(schema, JSON_COMPACT) : NULL;
    json_decref(schema);
    const bool fine = form.text ? form_make(api, &form, r, error) : cli_api_refuse(error, "", "out of memory");
    free(form.text);
    r->options.constraint = r->constraint;
    r->calls_only = true;
    return fine;
}
