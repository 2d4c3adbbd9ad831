/* api_fields.c: the fields of a request, in one table: their names, of which kind of request they are, their ranges. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_api.h"

bool cli_api_refuse(struct cli_api_error *error, const char *field, const char *format, ...) {
    va_list arguments;
    *error = (struct cli_api_error){.status = 400};
    snprintf(error->field, sizeof error->field, "%.*s", (int)sizeof error->field - 1, field);
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return false;
}

void cli_api_put_error(struct qkv_json *out, const struct cli_api_error *error) {
    qkv_json_begin(out, '{');
    qkv_json_put_text(out, "message", error->text);
    qkv_json_put_text(out, "type", error->status >= 500 ? "server_error" : "invalid_request_error");
    if (*error->field)
        qkv_json_put_text(out, "param", error->field);
    else
        qkv_json_put_raw(out, "param", "null");
    qkv_json_put_raw(out, "code", "null");
    qkv_json_end(out, '}');
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum { COMPLETION = 1, CHAT = 2, BOTH = COMPLETION | CHAT };
enum kind {
    REAL,
    COUNT,
    FLAG,
    NAMED,  /* says who asks, or how often it is stored: nothing of an answer depends on it */
    FALSE_, /* may be false */
    OTHER   /* read elsewhere */
};
struct field {
    const char *name;
    int where;
    enum kind kind;
    size_t offset; /* in struct cli_api_values */
    double low, high;
};
#define AT(name) offsetof(struct cli_api_values, name)
static const struct field fields[] = {
    {"temperature", BOTH, REAL, AT(temperature), 0, 100},
    {"top_p", BOTH, REAL, AT(top_p), 0, 1},
    {"min_p", BOTH, REAL, AT(min_p), 0, 1},
    {"top_k", BOTH, COUNT, AT(top_k), 0, INT32_MAX},
    {"presence_penalty", BOTH, REAL, AT(presence_penalty), -100, 100},
    {"frequency_penalty", BOTH, REAL, AT(frequency_penalty), -100, 100},
    {"repetition_penalty", BOTH, REAL, AT(repetition_penalty), 0.01, 100},
    {"n", BOTH, COUNT, AT(n), 1, 128},
    {"max_tokens", BOTH, COUNT, AT(max_tokens), 0, INT32_MAX},
    {"max_completion_tokens", CHAT, COUNT, AT(max_completion_tokens), 0, INT32_MAX},
    {"min_tokens", BOTH, COUNT, AT(min_tokens), 0, INT32_MAX},
    {"seed", BOTH, COUNT, AT(seed), 0, 9007199254740992.0},
    {"logprobs", COMPLETION, COUNT, AT(logprobs), 0, CLI_API_TOP},
    {"logprobs", CHAT, FLAG, AT(chat_logprobs), 0, 1},
    {"top_logprobs", CHAT, COUNT, AT(top_logprobs), 0, CLI_API_TOP},
    {"echo", COMPLETION, FLAG, AT(echo), 0, 1},
    {"prompt", COMPLETION, OTHER, 0, 0, 0},
    {"messages", CHAT, OTHER, 0, 0, 0},
    {"tools", CHAT, OTHER, 0, 0, 0},
    {"chat_template_kwargs", CHAT, OTHER, 0, 0, 0},
    {"stop", BOTH, OTHER, 0, 0, 0},
    {"logit_bias", BOTH, OTHER, 0, 0, 0},
    {"response_format", BOTH, OTHER, 0, 0, 0},
    {"guided_json", BOTH, OTHER, 0, 0, 0},
    {"guided_regex", BOTH, OTHER, 0, 0, 0},
    {"guided_choice", BOTH, OTHER, 0, 0, 0},
    {"guided_grammar", BOTH, OTHER, 0, 0, 0},
    {"grammar", BOTH, OTHER, 0, 0, 0},
    {"structured_outputs", BOTH, OTHER, 0, 0, 0},
    {"stream", BOTH, FALSE_, 0, 0, 0},
    {"model", BOTH, NAMED, 0, 0, 0},
    {"user", BOTH, NAMED, 0, 0, 0},
    {"metadata", BOTH, NAMED, 0, 0, 0},
    {"store", BOTH, NAMED, 0, 0, 0},
    {"service_tier", BOTH, NAMED, 0, 0, 0},
    {"safety_identifier", BOTH, NAMED, 0, 0, 0},
    {"prompt_cache_key", BOTH, NAMED, 0, 0, 0},
};

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bool field_number(const struct field *f, const json_t *value, struct cli_api_values *values,
                         struct cli_api_error *error) {
    const double x = json_number_value(value);
    const bool right = f->kind == REAL ? json_is_number(value) : json_is_integer(value);
    if (!right || !(x >= f->low && x <= f->high))
        return cli_api_refuse(error, f->name, "%s must be %s from %g to %g", f->name,
                              f->kind == REAL ? "a number" : "a whole number", f->low, f->high);
    char *at = (char *)values + f->offset;
    if (f->kind == REAL)
        memcpy(at, &x, sizeof x);
    else
        memcpy(at, &(int64_t){json_integer_value(value)}, sizeof(int64_t));
    return true;
}

static bool field_read(const struct field *f, const json_t *value, struct cli_api_values *values,
                       struct cli_api_error *error) {
    if (json_is_null(value)) return true;
    switch (f->kind) {
    case REAL:
    case COUNT:
        return field_number(f, value, values, error);
    case FLAG:
        if (!json_is_boolean(value)) return cli_api_refuse(error, f->name, "%s must be true or false", f->name);
        memcpy((char *)values + f->offset, &(int64_t){json_is_true(value)}, sizeof(int64_t));
        return true;
    case FALSE_:
        return json_is_false(value) || cli_api_refuse(error, f->name, "%s must be false: answers are whole", f->name);
    case NAMED:
    case OTHER:
        break;
    }
    return true;
}

static const char *field_name(const void *list, size_t i) {
    (void)list;
    return fields[i].name;
}

static bool fields_all(struct cli_api_request *r, struct cli_api_error *error) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)r->body, name, value) {
        size_t i = 0;
        while (i < CLI_COUNT_OF(fields) &&
               (strcmp(fields[i].name, name) != 0 || !(fields[i].where & (r->chat ? CHAT : COMPLETION))))
            i++;
        if (i == CLI_COUNT_OF(fields)) {
            const char *closest = qkv_closest_name(name, field_name, NULL, CLI_COUNT_OF(fields));
            return cli_api_refuse(error, name, "there is no field \"%.40s\" in a %s%s%s%s", name,
                                  r->chat ? "chat" : "completion", closest ? "; did you mean " : "",
                                  closest ? closest : "", closest ? "?" : "");
        }
        if (!field_read(&fields[i], value, &r->values, error)) return false;
    }
    return true;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

enum { STOPS_MAX = 16, BIASES_MAX = 1024 };

/* "stop": a text, or a list of them; those of the template come too. */
static bool fields_stops(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    const json_t *stop = json_object_get(r->body, "stop");
    const bool one = json_is_string(stop), plain = r->chat && api->style.plain;
    const size_t count = one ? 1 : json_array_size(stop);
    if (stop && !one && !json_is_null(stop) && !json_is_array(stop))
        return cli_api_refuse(error, "stop", "stop must be a text, or a list of texts");
    if (count > STOPS_MAX) return cli_api_refuse(error, "stop", "stop has %zu texts; at most %d", count, STOPS_MAX);
    r->stops = calloc(count + 2, sizeof *r->stops);
    r->owned = calloc(count + 1, sizeof *r->owned);
    if (!r->stops || !r->owned) return cli_api_refuse(error, "", "out of memory");
    for (size_t i = 0; i < count; i++) {
        const json_t *text = one ? stop : json_array_get(stop, i);
        if (!json_string_length(text) || strlen(json_string_value(text)) != json_string_length(text))
            return cli_api_refuse(error, "stop", "a text of stop is empty, has a zero byte, or is no text");
        r->owned[r->stop_count] = strdup(json_string_value(text));
        if (!r->owned[r->stop_count]) return cli_api_refuse(error, "", "out of memory");
        r->stops[r->stop_count] = r->owned[r->stop_count];
        r->stop_count++;
    }
    r->options.stops = r->stops;
    r->options.stop_count = r->stop_count;
    if (plain) {
        const struct cli_texts none = {0};
        struct cli_texts own = cli_talk_stops(&api->style, &none);
        if (own.items && own.count) r->stops[r->options.stop_count++] = own.items[0];
        free(own.items);
    }
    return true;
}

/* "logit_bias": {"ID": number}. */
static bool fields_biases(struct cli_api_request *r, struct cli_api_error *error) {
    const json_t *biases = json_object_get(r->body, "logit_bias");
    const char *key;
    json_t *value;
    if (!biases || json_is_null(biases)) return true;
    if (!json_is_object(biases)) return cli_api_refuse(error, "logit_bias", "logit_bias must be an object {\"ID\": x}");
    if (json_object_size(biases) > BIASES_MAX)
        return cli_api_refuse(error, "logit_bias", "logit_bias has more than %d tokens", BIASES_MAX);
    r->biases = calloc(json_object_size(biases) + 1, sizeof *r->biases);
    if (!r->biases) return cli_api_refuse(error, "", "out of memory");
    json_object_foreach((json_t *)(uintptr_t)biases, key, value) {
        char *end;
        const long id = strtol(key, &end, 10);
        if (*end || !*key || id < 0 || id > INT32_MAX || !json_is_number(value))
            return cli_api_refuse(error, "logit_bias", "logit_bias must have token ids as keys and numbers as values");
        r->biases[r->ask.bias_count++] =
            (struct qkv_token_bias){.id = (int32_t)id, .bias = (float)json_number_value(value)};
    }
    r->ask.biases = r->biases;
    return true;
}

/* ---- the request ------------------------------------------------------------------------------------------------- */

static void fields_sampling(struct cli_api_request *r) {
    const struct cli_api_values *v = &r->values;
    struct qkv_sampling *s = &r->options.sampling;
    if (!isnan(v->temperature)) s->temperature = v->temperature;
    if (!isnan(v->top_p)) s->top_p = v->top_p;
    if (!isnan(v->min_p)) s->min_p = v->min_p;
    if (v->top_k >= 0) s->top_k = (int)v->top_k;
    if (!isnan(v->repetition_penalty)) s->repeat_penalty = v->repetition_penalty, s->repeat_last = 0;
    if (v->seed >= 0) s->seed = (uint64_t)v->seed;
    const int64_t tokens = v->max_completion_tokens >= 0 ? v->max_completion_tokens : v->max_tokens;
    if (tokens >= 0) r->options.tokens = (size_t)tokens;
}

static void fields_ask(struct cli_api_request *r) {
    const struct cli_api_values *v = &r->values;
    struct qkv_engine_request *ask = &r->ask;
    const int64_t top = r->chat ? (v->top_logprobs > 0 ? v->top_logprobs : 0) : (v->logprobs > 0 ? v->logprobs : 0);
    ask->answers = v->n > 0 ? (size_t)v->n : 1;
    if (!isnan(v->presence_penalty)) ask->presence_penalty = v->presence_penalty;
    if (!isnan(v->frequency_penalty)) ask->frequency_penalty = v->frequency_penalty;
    ask->min_tokens = v->min_tokens > 0 ? (size_t)v->min_tokens : 0;
    ask->top = (size_t)top;
    ask->log_probabilities = r->chat ? v->chat_logprobs > 0 : v->logprobs >= 0;
    ask->prompt_probabilities = v->echo > 0 && ask->log_probabilities;
}

bool cli_api_read_fields(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    r->values = (struct cli_api_values){NAN, NAN, NAN, NAN, NAN, NAN, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (!json_is_object(r->body)) return cli_api_refuse(error, "", "the request must be an object");
    if (!fields_all(r, error) || !fields_stops(api, r, error) || !fields_biases(r, error)) return false;
    if (r->values.top_p == 0) return cli_api_refuse(error, "top_p", "top_p must be greater than 0");
    if (r->values.top_logprobs > 0 && r->values.chat_logprobs <= 0)
        return cli_api_refuse(error, "top_logprobs", "top_logprobs needs logprobs true");
    if (r->values.max_tokens >= 0 && r->values.max_completion_tokens >= 0)
        return cli_api_refuse(error, "max_tokens", "max_tokens and max_completion_tokens are the same; name one");
    fields_sampling(r);
    fields_ask(r);
    return true;
}
