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

bool cli_api_find_model(const json_t *body, cli_api_names *names, const void *user, const char *others, size_t *found,
                        struct cli_api_error *error) {
    const json_t *wanted = json_object_get(body, "model");
    const char *name = json_string_value(wanted), *known;
    *found = 0;
    if (!wanted || json_is_null(wanted)) return true;
    if (!name) return cli_api_refuse(error, "model", "model must be a text");
    for (; (known = names(user, *found)); ++*found)
        if (!strcmp(known, name)) return true;
    const char *closest = qkv_closest_name(name, names, user, *found);
    cli_api_refuse(error, "model", "there is no model \"%.80s\"; %s%s", name, closest ? "did you mean " : others,
                   closest ? closest : "");
    error->status = 404;
    return false;
}

void cli_api_put_error(struct qkv_json *out, const struct cli_api_error *error) {
    static const struct {
        int status;
        const char *type, *code;
    } kinds[] = {{401, "authentication_error", "invalid_api_key"},
                 {403, "permission_error", NULL},
                 {404, "not_found_error", "not_found"},
                 {429, "rate_limit_error", "rate_limit_exceeded"},
                 {503, "unavailable_error", "overloaded"},
                 {500, "server_error", NULL},
                 {504, "server_error", "timeout"}};
    size_t i = 0;
    while (i < CLI_COUNT_OF(kinds) && kinds[i].status != error->status) i++;
    qkv_json_begin(out, '{');
    qkv_json_put_text(out, "message", error->text);
    qkv_json_put_text(out, "type", i < CLI_COUNT_OF(kinds) ? kinds[i].type : "invalid_request_error");
    qkv_json_put_text(out, "param", *error->field ? error->field : NULL);
    qkv_json_put_text(out, "code", i < CLI_COUNT_OF(kinds) ? kinds[i].code : NULL);
    qkv_json_end(out, '}');
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum { COMPLETION = 1, CHAT = 2, BOTH = COMPLETION | CHAT };
enum kind {
    REAL,
    COUNT,
    FLAG,
    NAMED, /* says who asks, or how often it is stored: nothing of an answer depends on it */
    ONLY,  /* may have one value, `low`: 0 is false, and 1 is true */
    OTHER  /* read elsewhere */
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
    {"use_beam_search", BOTH, FLAG, AT(beam), 0, 1},
    {"best_of", BOTH, COUNT, AT(best_of), 1, 128},
    {"length_penalty", BOTH, REAL, AT(length_penalty), -100, 100},
    {"early_stopping", BOTH, FLAG, AT(stop_early), 0, 1},
    {"max_tokens", BOTH, COUNT, AT(max_tokens), 0, INT32_MAX},
    {"max_completion_tokens", CHAT, COUNT, AT(max_completion_tokens), 0, INT32_MAX},
    {"min_tokens", BOTH, COUNT, AT(min_tokens), 0, INT32_MAX},
    {"seed", BOTH, COUNT, AT(seed), 0, 9007199254740992.0},
    {"logprobs", COMPLETION, COUNT, AT(logprobs), 0, CLI_API_TOP},
    {"logprobs", CHAT, FLAG, AT(chat_logprobs), 0, 1},
    {"top_logprobs", CHAT, COUNT, AT(top_logprobs), 0, CLI_API_TOP},
    {"echo", COMPLETION, FLAG, AT(echo), 0, 1},
    {"source", BOTH, OTHER, 0, 0, 0},
    {"target", BOTH, OTHER, 0, 0, 0},
    {"prompt", COMPLETION, OTHER, 0, 0, 0},
    {"messages", CHAT, OTHER, 0, 0, 0},
    {"tools", CHAT, OTHER, 0, 0, 0},
    {"tool_choice", CHAT, OTHER, 0, 0, 0},
    {"parallel_tool_calls", CHAT, ONLY, 0, 1, 1},
    {"chat_template_kwargs", CHAT, OTHER, 0, 0, 0},
    {"stop", BOTH, OTHER, 0, 0, 0},
    {"stop_token_ids", BOTH, OTHER, 0, 0, 0},
    {"ignore_eos", BOTH, FLAG, AT(ignore_eos), 0, 1},
    {"logit_bias", BOTH, OTHER, 0, 0, 0},
    {"stream", BOTH, FLAG, AT(stream), 0, 1},
    {"stream_options", BOTH, OTHER, 0, 0, 0},
    {"typical_p", BOTH, ONLY, 0, 1, 1},
    {"skip_special_tokens", BOTH, ONLY, 0, 0, 0},
    {"include_stop_str_in_output", BOTH, ONLY, 0, 0, 0},
    {"add_generation_prompt", CHAT, ONLY, 0, 1, 1},
    {"continue_final_message", CHAT, ONLY, 0, 0, 0},
    {"cache_prompt", BOTH, NAMED, 0, 0, 0},
    {"priority", BOTH, NAMED, 0, 0, 0},
    {"response_format", BOTH, OTHER, 0, 0, 0},
    {"guided_json", BOTH, OTHER, 0, 0, 0},
    {"guided_regex", BOTH, OTHER, 0, 0, 0},
    {"guided_choice", BOTH, OTHER, 0, 0, 0},
    {"guided_grammar", BOTH, OTHER, 0, 0, 0},
    {"grammar", BOTH, OTHER, 0, 0, 0},
    {"structured_outputs", BOTH, OTHER, 0, 0, 0},
    {"model", BOTH, NAMED, 0, 0, 0},
    {"user", BOTH, NAMED, 0, 0, 0},
    {"metadata", BOTH, NAMED, 0, 0, 0},
    {"store", BOTH, NAMED, 0, 0, 0},
    {"service_tier", BOTH, NAMED, 0, 0, 0},
    {"safety_identifier", BOTH, NAMED, 0, 0, 0},
    {"prompt_cache_key", BOTH, NAMED, 0, 0, 0},
};

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

enum { VALUES_MAX = 2000000, NESTED_MAX = 200000 };

/* Counts what a body has before it is read: an empty list of two bytes takes a hundred in memory. */
static bool body_count(const char *text, size_t size, struct cli_api_error *error) {
    size_t values = 0, nested = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted) {
            nested += text[i] == '{' || text[i] == '[';
            values += text[i] == ',';
        }
    }
    return (values <= VALUES_MAX && nested <= NESTED_MAX) ||
           cli_api_refuse(error, "", "the request has %zu objects and lists and %zu further values; at most %d and %d",
                          nested, values, NESTED_MAX, VALUES_MAX);
}

json_t *cli_api_parse(const char *text, size_t size, struct cli_api_error *error) {
    json_error_t fault;
    if (!size) {
        cli_api_refuse(error, "", "the request has no body; it is a JSON object");
        return NULL;
    }
    if (!body_count(text, size, error)) return NULL;
    json_t *body = json_loadb(text, size, JSON_REJECT_DUPLICATES, &fault);
    if (!body) cli_api_refuse(error, "", "no JSON, line %d, column %d: %s", fault.line, fault.column, fault.text);
    if (body && !json_is_object(body)) {
        cli_api_refuse(error, "", "the request must be an object");
        json_decref(body);
        return NULL;
    }
    return body;
}

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
    case ONLY:
        if (json_is_boolean(value) ? json_is_true(value) == (f->low > 0) : json_number_value(value) == f->low)
            return true;
        return cli_api_refuse(error, f->name, "%s can be %s alone here; leave it out", f->name,
                              json_is_boolean(value) ? (f->low > 0 ? "true" : "false")
                              : f->low > 0           ? "1"
                                                     : "0");
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

static bool fields_all(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)r->body, name, value) {
        size_t i = 0;
        while (i < CLI_COUNT_OF(fields) &&
               (strcmp(fields[i].name, name) != 0 || !(fields[i].where & (r->chat ? CHAT : COMPLETION))))
            i++;
        if (i == CLI_COUNT_OF(fields) && api->ignores) continue;
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

/* "stop_token_ids": [ID, ...], beside the ends of the model; with "ignore_eos" the ends of the model end nothing. */
static bool fields_ends(struct cli_api_request *r, struct cli_api_error *error) {
    const json_t *ids = json_object_get(r->body, "stop_token_ids");
    struct qkv_generate_options *o = &r->options;
    if (r->values.ignore_eos > 0) o->end_id = -1, o->end_count = 0;
    if (!ids || json_is_null(ids)) return true;
    if (!json_is_array(ids) || json_array_size(ids) > QKV_TOKEN_ENDS - o->end_count)
        return cli_api_refuse(error, "stop_token_ids", "stop_token_ids must be a list of at most %zu token ids",
                              QKV_TOKEN_ENDS - o->end_count);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return cli_api_refuse(error, "stop_token_ids", "item %zu of stop_token_ids is no token id", i);
        o->ends[o->end_count++] = (int32_t)json_integer_value(id);
    }
    return true;
}

/* "stream_options": {"include_usage": true}. */
static bool fields_stream(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    const json_t *options = json_object_get(r->body, "stream_options");
    const json_t *usage = json_object_get(options, "include_usage");
    r->streams = r->values.stream > 0;
    if (r->streams && !api->streams) return cli_api_refuse(error, "stream", "stream must be false: answers are whole");
    if (!options || json_is_null(options)) return true;
    if (!json_is_object(options) || (usage && !json_is_boolean(usage) && !json_is_null(usage)))
        return cli_api_refuse(error, "stream_options", "stream_options must be {\"include_usage\": true or false}");
    if (!r->streams) return cli_api_refuse(error, "stream_options", "stream_options needs stream true");
    r->tells_usage = json_is_true(usage);
    return true;
}

/* ---- the request ------------------------------------------------------------------------------------------------- */

const struct cli_api_values cli_api_no_values = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, -1, -1, -1, -1,
                                                 -1,  -1,  -1,  -1,  -1,  -1,  -1,  -1, -1, -1, -1};

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

/* Beams, as vLLM has them: best_of of them, of which n are given. */
static bool fields_search(struct cli_api_request *r, struct cli_api_error *error) {
    const struct cli_api_values *v = &r->values;
    const struct {
        const char *name;
        bool given;
    } others[] = {{"temperature", !isnan(v->temperature)},
                  {"top_p", !isnan(v->top_p)},
                  {"top_k", v->top_k >= 0},
                  {"min_p", !isnan(v->min_p)},
                  {"seed", v->seed >= 0},
                  {"stop", r->stop_count > 0}};
    if (v->beam <= 0) {
        const char *alone = v->best_of > 1              ? "best_of"
                            : !isnan(v->length_penalty) ? "length_penalty"
                            : v->stop_early >= 0        ? "early_stopping"
                                                        : NULL;
        return !alone || cli_api_refuse(error, alone, "%s is of beams; add use_beam_search true", alone);
    }
    for (size_t i = 0; i < CLI_COUNT_OF(others); i++)
        if (others[i].given)
            return cli_api_refuse(error, others[i].name, "a search with beams has no %s", others[i].name);
    r->search = qkv_search_defaults();
    r->search.n_best = v->n > 0 ? (size_t)v->n : 1;
    r->search.beam = v->best_of > 0 ? (size_t)v->best_of : r->search.n_best;
    r->search.length_penalty = isnan(v->length_penalty) ? 1 : v->length_penalty;
    r->search.stopping = v->stop_early > 0 ? QKV_STOPPING_TRUE : QKV_STOPPING_FALSE;
    r->search.sampling.repeat_penalty = isnan(v->repetition_penalty) ? 1 : v->repetition_penalty;
    r->options.stop_count = 0; /* those of a template */
    return true;
}

bool cli_api_read_fields(const struct cli_api *api, struct cli_api_request *r, struct cli_api_error *error) {
    r->values = cli_api_no_values;
    if (!json_is_object(r->body)) return cli_api_refuse(error, "", "the request must be an object");
    if (!fields_all(api, r, error) || !fields_stops(api, r, error) || !fields_biases(r, error) ||
        !fields_ends(r, error) || !fields_stream(api, r, error))
        return false;
    if (r->values.top_p == 0) return cli_api_refuse(error, "top_p", "top_p must be greater than 0");
    if (r->values.top_logprobs > 0 && r->values.chat_logprobs <= 0)
        return cli_api_refuse(error, "top_logprobs", "top_logprobs needs logprobs true");
    if (r->values.max_tokens >= 0 && r->values.max_completion_tokens >= 0)
        return cli_api_refuse(error, "max_tokens", "max_tokens and max_completion_tokens are the same; name one");
    fields_sampling(r);
    fields_ask(r);
    return fields_search(r, error);
}
