/* api_tools.c: calls of tools in the text of an answer, as families of models write them. */
#include <stdlib.h>
#include <string.h>

#include "cli_api.h"

/* A call is {"name": …, "arguments": …}, which some families name "parameters". A text has its calls
 * - each between two marks: <tool_call>{…}</tool_call>
 * - as a list after a mark: [TOOL_CALLS][{…}, {…}], or one after the other: [TOOL_CALLS]name[ARGS]{…}
 * - as the whole text, after an optional mark: <|python_tag|>{…}; {…} */
enum shape { BETWEEN, LISTED, WHOLE };
struct cli_tools {
    const char *hint; /* what the template of the family has in it */
    enum shape shape;
    const char *mark, *end;
};
static const struct cli_tools families[] = {
    {"<tool_call>", BETWEEN, "<tool_call>", "</tool_call>"}, /* Hermes, Qwen 2.5 and 3 */
    {"[TOOL_CALLS]", LISTED, "[TOOL_CALLS]", "[ARGS]"},      /* Mistral */
    {"<|python_tag|>", WHOLE, "<|python_tag|>", ";"},        /* Llama 3.1 to 3.3 */
    {"\"parameters\": dictionary", WHOLE, "<|python_tag|>", ";"},
};

const struct cli_tools *cli_tools_find(const struct qkv_chat_template *template) {
    const char *name, *source;
    size_t size;
    for (size_t i = 0; template && qkv_chat_template_at(template, i, &name, &source, &size); i++)
        for (size_t k = 0; k < CLI_COUNT_OF(families); k++)
            if (strstr(source, families[k].hint)) return &families[k];
    return NULL;
}

/* ---- where calls begin ------------------------------------------------------------------------------------------- */

static const char *find_text(const char *text, size_t size, const char *what) {
    return size ? memmem(text, size, what, strlen(what)) : NULL;
}

static size_t skip_blank(const char *text, size_t size, size_t at) {
    while (at < size && strchr(" \t\r\n", text[at]) && text[at]) at++;
    return at;
}

size_t cli_tools_plain(const struct cli_tools *tools, const char *text, size_t size) {
    const size_t length = strlen(tools->mark), first = skip_blank(text, size, 0);
    if (tools->shape == WHOLE && (first == size || text[first] == '{')) return 0;
    const char *mark = find_text(text, size, tools->mark);
    if (mark) return (size_t)(mark - text);
    for (size_t held = length - 1 < size ? length - 1 : size; held; held--) /* the end may begin a mark */
        if (!memcmp(text + size - held, tools->mark, held)) return size - held;
    return size;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Adds a call that is the object `value`, whose reference it takes. */
static bool calls_add(json_t *calls, json_t *value) {
    json_t *name = json_object_get(value, "name"), *arguments = json_object_get(value, "arguments");
    if (!arguments) arguments = json_object_get(value, "parameters");
    const bool fine =
        json_string_length(name) && (!arguments || json_is_object(arguments) || json_is_string(arguments));
    json_t *none = fine && !arguments ? json_object() : NULL;
    json_t *call = fine ? json_pack("{s:O, s:O}", "name", name, "arguments", arguments ? arguments : none) : NULL;
    json_decref(none);
    json_decref(value);
    return call && !json_array_append_new(calls, call);
}

/* Reads a value of JSON at *at, and moves *at behind it. */
static json_t *read_value(const char *text, size_t size, size_t *at) {
    json_error_t error;
    json_t *value = *at < size ? json_loadb(text + *at, size - *at, JSON_DISABLE_EOF_CHECK, &error) : NULL;
    if (value) *at += (size_t)error.position;
    return value;
}

static bool calls_between(const struct cli_tools *t, const char *text, size_t size, size_t at, json_t *calls) {
    while (at < size) {
        const char *mark = find_text(text + at, size - at, t->mark);
        if (!mark) return skip_blank(text, size, at) == size;
        at = skip_blank(text, size, (size_t)(mark - text) + strlen(t->mark));
        json_t *value = read_value(text, size, &at);
        if (!value || !calls_add(calls, value)) return false;
        at = skip_blank(text, size, at);
        const size_t end = strlen(t->end);
        if (size - at >= end && !memcmp(text + at, t->end, end))
            at += end; /* the last one may lack it */
        else if (at < size)
            return false;
    }
    return true;
}

static bool calls_listed(const struct cli_tools *t, const char *text, size_t size, size_t at, json_t *calls) {
    while (at < size) {
        at = skip_blank(text, size, at + strlen(t->mark));
        const char *arguments = find_text(text + at, size - at, t->end);
        if (at < size && text[at] != '[' && arguments) { /* name[ARGS]{…} */
            json_t *call = json_pack("{s:s%}", "name", text + at, (size_t)(arguments - text) - at);
            at = (size_t)(arguments - text) + strlen(t->end);
            json_t *value = read_value(text, size, &at);
            if (!call || !value || json_object_set_new(call, "arguments", value) || !calls_add(calls, call))
                return false;
        } else {
            json_t *list = read_value(text, size, &at);
            bool fine = json_is_array(list);
            for (size_t i = 0; fine && i < json_array_size(list); i++)
                fine = calls_add(calls, json_incref(json_array_get(list, i)));
            json_decref(list);
            if (!fine) return false;
        }
        at = skip_blank(text, size, at);
        if (at < size && (size - at < strlen(t->mark) || memcmp(text + at, t->mark, strlen(t->mark)) != 0))
            return false;
    }
    return true;
}

static bool calls_whole(const struct cli_tools *t, const char *text, size_t size, size_t at, json_t *calls) {
    const size_t mark = strlen(t->mark);
    if (size - at >= mark && !memcmp(text + at, t->mark, mark)) at += mark;
    while (true) {
        at = skip_blank(text, size, at);
        json_t *value = read_value(text, size, &at);
        if (!value || !calls_add(calls, value)) return false;
        at = skip_blank(text, size, at);
        if (at == size) return true;
        if (text[at++] != *t->end) return false;
    }
}

json_t *cli_tools_parse(const struct cli_tools *tools, const char *text, size_t size, size_t *content) {
    static bool (*const shapes[])(const struct cli_tools *, const char *, size_t, size_t, json_t *) = {
        [BETWEEN] = calls_between, [LISTED] = calls_listed, [WHOLE] = calls_whole};
    const size_t at = size ? cli_tools_plain(tools, text, size) : 0;
    json_t *calls = json_array();
    *content = size;
    if (!calls || at == size || !shapes[tools->shape](tools, text, size, at, calls) || !json_array_size(calls)) {
        json_decref(calls);
        return NULL;
    }
    size_t end = at;
    while (end && strchr(" \t\r\n", text[end - 1])) end--;
    *content = end;
    return calls;
}

json_t *cli_tools_parse_list(const char *text, size_t size) {
    json_t *list = size ? json_loadb(text, size, 0, NULL) : NULL, *calls = json_array();
    bool fine = calls && json_array_size(list);
    for (size_t i = 0; fine && i < json_array_size(list); i++)
        fine = calls_add(calls, json_incref(json_array_get(list, i)));
    json_decref(list);
    if (fine) return calls;
    json_decref(calls);
    return NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The name of a call: nine letters and digits, which is what all templates take. */
static const char *call_name(char name[10], uint64_t number, size_t choice, size_t call) {
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t x = (number + 1) * 0x9e3779b97f4a7c15u ^ ((uint64_t)choice << 20) ^ (uint64_t)call;
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
    for (int i = 0; i < 9; i++, x /= 36) name[i] = digits[x % 36];
    name[9] = 0;
    return name;
}

void cli_tools_put(const json_t *calls, uint64_t number, size_t choice, bool chunk, struct qkv_json *out) {
    char name[10];
    qkv_json_key(out, "tool_calls");
    qkv_json_begin(out, '[');
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i), *arguments = json_object_get(call, "arguments");
        char *text = json_is_string(arguments) ? NULL : json_dumps(arguments, 0);
        qkv_json_begin(out, '{');
        if (chunk) qkv_json_put_count(out, "index", i);
        qkv_json_put_text(out, "id", call_name(name, number, choice, i));
        qkv_json_put_text(out, "type", "function");
        qkv_json_key(out, "function");
        qkv_json_begin(out, '{');
        qkv_json_put_text(out, "name", json_string_value(json_object_get(call, "name")));
        qkv_json_put_text(out, "arguments",
                          text                        ? text
                          : json_is_string(arguments) ? json_string_value(arguments)
                                                      : "");
        qkv_json_end(out, '}');
        qkv_json_end(out, '}');
        free(text);
    }
    qkv_json_end(out, ']');
}
