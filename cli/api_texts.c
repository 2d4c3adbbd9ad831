/* api_texts.c: requests for what a model makes of texts: vectors (OpenAI's embeddings), classes (vLLM's /classify),
 * translations (LibreTranslate's /translate). */
#include <stdlib.h>
#include <string.h>

#include "cli_api.h"

enum { ALTERNATIVES = 15 }; /* of a translation */

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Refuses fields that are not in the list of names. */
static bool texts_known(const struct cli_api *api, const json_t *body, const char *const *names, const char *what,
                        struct cli_api_error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)body, key, value) {
        size_t i = 0;
        while (names[i] && strcmp(names[i], key) != 0) i++;
        if (!names[i] && !api->ignores)
            return cli_api_refuse(error, key, "there is no field \"%.40s\" in %s", key, what);
    }
    return true;
}

/* Begins a request of a kind; its model must be able to answer it. */
static void texts_begin(const struct cli_api *api, const json_t *body, enum qkv_engine_kind kind, cli_api_put *put,
                        struct cli_api_request *r) {
    *r = (struct cli_api_request){.body = body, .options = api->usual, .values = cli_api_no_values, .put = put};
    r->ask = qkv_engine_request_defaults();
    r->ask.kind = kind;
    if (kind != QKV_ENGINE_GENERATE) r->options = qkv_generate_defaults();
}

static void put_embeddings(const struct cli_api *api, const struct cli_api_request *r, uint64_t number, int64_t created,
                           struct qkv_json *out);
static void put_classes(const struct cli_api *api, const struct cli_api_request *r, uint64_t number, int64_t created,
                        struct qkv_json *out);
static void put_translations(const struct cli_api *api, const struct cli_api_request *r, uint64_t number,
                             int64_t created, struct qkv_json *out);

bool cli_api_read_embedding(const struct cli_api *api, const json_t *body, struct cli_api_request *r,
                            struct cli_api_error *error) {
    static const char *const names[] = {"input", "model", "encoding_format", "dimensions", "user", NULL};
    const json_t *format = json_object_get(body, "encoding_format"), *width = json_object_get(body, "dimensions");
    const char *name = json_string_value(format);
    enum qkv_pool pool;
    bool normalize;
    size_t most;
    texts_begin(api, body, QKV_ENGINE_EMBED, put_embeddings, r);
    if (!texts_known(api, body, names, "a request for embeddings", error)) return false;
    if (qkv_spec_topology(qkv_model_spec(api->model)) == QKV_DECODER_ALONE &&
        !qkv_model_pooling(api->model, &pool, &normalize, &most))
        return cli_api_refuse(error, "model", "%s makes no vectors: it is a decoder whose folder records no pooling",
                              api->name);
    r->encodes64 = name && !strcmp(name, "base64");
    if (format && !json_is_null(format) && !r->encodes64 && (!name || strcmp(name, "float") != 0))
        return cli_api_refuse(error, "encoding_format", "encoding_format must be \"float\" or \"base64\"");
    if (width && !json_is_null(width) && json_integer_value(width) != (json_int_t)qkv_embed_width(api->model))
        return cli_api_refuse(error, "dimensions", "the vectors of this model have %zu dimensions",
                              qkv_embed_width(api->model));
    const bool read = cli_api_read_prompts(r, "input", error) && cli_api_read_end(r, error);
    r->body = NULL;
    return read;
}

bool cli_api_read_class(const struct cli_api *api, const json_t *body, struct cli_api_request *r,
                        struct cli_api_error *error) {
    static const char *const names[] = {"input", "model", "second", "user", NULL};
    const json_t *second = json_object_get(body, "second");
    texts_begin(api, body, QKV_ENGINE_CLASSIFY, put_classes, r);
    if (!texts_known(api, body, names, "a request for classes", error)) return false;
    if (!cli_has_classes(qkv_model_spec(api->model)))
        return cli_api_refuse(error, "model", "%s has no classes", api->name);
    if (second && !json_is_null(second)) {
        if (!json_is_string(second) || strlen(json_string_value(second)) != json_string_length(second))
            return cli_api_refuse(error, "second", "second must be a text: the second one of each pair");
        if (!(r->second = strdup(json_string_value(second)))) return cli_api_refuse(error, "", "out of memory");
    }
    const bool read = cli_api_read_prompts(r, "input", error) && cli_api_read_end(r, error);
    r->body = NULL;
    return read;
}

bool cli_api_read_translation(const struct cli_api *api, const json_t *body, struct cli_api_request *r,
                              struct cli_api_error *error) {
    static const char *const names[] = {"q", "source", "target", "format", "api_key", "model", "alternatives", NULL};
    const json_t *format = json_object_get(body, "format"), *more = json_object_get(body, "alternatives"),
                 *key = json_object_get(body, "api_key");
    texts_begin(api, body, QKV_ENGINE_GENERATE, put_translations, r);
    if (!texts_known(api, body, names, "a request for a translation", error)) return false;
    if (qkv_spec_topology(qkv_model_spec(api->model)) != QKV_ENCODER_DECODER)
        return cli_api_refuse(error, "model", "%s does not translate: it has no encoder and decoder", api->name);
    if (key && !json_is_string(key) && !json_is_null(key))
        return cli_api_refuse(error, "api_key", "api_key must be a text");
    if (!cli_api_read_languages(api, r, error)) return false;
    if (format && !json_is_null(format) && (!json_is_string(format) || strcmp(json_string_value(format), "text") != 0))
        return cli_api_refuse(error, "format", "format must be \"text\"");
    if (more && !json_is_null(more) &&
        (!json_is_integer(more) || json_integer_value(more) < 0 || json_integer_value(more) > ALTERNATIVES))
        return cli_api_refuse(error, "alternatives", "alternatives must be a whole number from 0 to %d", ALTERNATIVES);
    r->search = qkv_search_defaults();
    qkv_search_settings(api->model, &r->search);
    r->search.sample = false;
    r->ask.answers = r->search.n_best = 1 + (size_t)json_integer_value(more);
    if (r->search.beam < r->search.n_best) r->search.beam = r->search.n_best;
    const bool read = cli_api_read_prompts(r, "q", error) && cli_api_read_end(r, error);
    r->body = NULL;
    return read;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Vectors as little-endian numbers of 32 bits. */
static void put_vector(const struct cli_api_choice *c, bool encodes64, struct qkv_json *out) {
    unsigned char *bytes = encodes64 ? malloc(4 * c->width + 1) : NULL;
    if (bytes) {
        for (size_t i = 0; i < c->width; i++) {
            uint32_t bits;
            memcpy(&bits, &c->vector[i], sizeof bits);
            for (size_t k = 0; k < 4; k++) bytes[4 * i + k] = (unsigned char)(bits >> (8 * k));
        }
        qkv_json_base64(out, bytes, 4 * c->width);
    } else {
        qkv_json_begin(out, '[');
        for (size_t i = 0; i < c->width; i++) qkv_json_number(out, (double)c->vector[i], 9);
        qkv_json_end(out, ']');
    }
    free(bytes);
}

static void put_list(const struct cli_api *api, const struct cli_api_request *r, struct qkv_json *out) {
    qkv_json_put_text(out, "model", r->adapter ? r->adapter : api->name);
    qkv_json_key(out, "usage");
    qkv_json_begin(out, '{');
    qkv_json_put_count(out, "prompt_tokens", r->prompt_tokens);
    qkv_json_put_count(out, "total_tokens", r->prompt_tokens);
    qkv_json_end(out, '}');
    qkv_json_end(out, '}');
}

static void put_embeddings(const struct cli_api *api, const struct cli_api_request *r, uint64_t number, int64_t created,
                           struct qkv_json *out) {
    (void)number, (void)created;
    qkv_json_begin(out, '{');
    qkv_json_put_text(out, "object", "list");
    qkv_json_key(out, "data");
    qkv_json_begin(out, '[');
    for (size_t i = 0; i < r->choice_count; i++) {
        qkv_json_begin(out, '{');
        qkv_json_put_text(out, "object", "embedding");
        qkv_json_put_count(out, "index", i);
        qkv_json_key(out, "embedding");
        put_vector(&r->choices[i], r->encodes64, out);
        qkv_json_end(out, '}');
    }
    qkv_json_end(out, ']');
    put_list(api, r, out);
}

static void put_classes(const struct cli_api *api, const struct cli_api_request *r, uint64_t number, int64_t created,
                        struct qkv_json *out) {
    qkv_json_begin(out, '{');
    qkv_json_key(out, "id");
    char id[40];
    snprintf(id, sizeof id, "classify-%llu", (unsigned long long)number);
    qkv_json_text(out, id);
    qkv_json_put_text(out, "object", "list");
    qkv_json_put_integer(out, "created", created);
    qkv_json_key(out, "data");
    qkv_json_begin(out, '[');
    for (size_t i = 0; i < r->choice_count; i++) {
        const struct cli_api_choice *c = &r->choices[i];
        size_t best = 0;
        for (size_t k = 1; k < c->width; k++)
            if (c->vector[k] > c->vector[best]) best = k;
        char class[24];
        snprintf(class, sizeof class, "%zu", best);
        const char *label = qkv_model_label(api->model, best);
        qkv_json_begin(out, '{');
        qkv_json_put_count(out, "index", i);
        qkv_json_put_text(out, "label", label ? label : class);
        qkv_json_key(out, "probs");
        put_vector(c, false, out);
        qkv_json_put_count(out, "num_classes", c->width);
        qkv_json_end(out, '}');
    }
    qkv_json_end(out, ']');
    put_list(api, r, out);
}

static void put_text(const struct cli_api_choice *c, struct qkv_json *out) {
    qkv_json_string(out, c->text ? c->text : "", c->size);
}

static void put_translations(const struct cli_api *api, const struct cli_api_request *r, uint64_t number,
                             int64_t created, struct qkv_json *out) {
    const size_t each = r->ask.answers;
    (void)api, (void)number, (void)created;
    qkv_json_begin(out, '{');
    qkv_json_key(out, "translatedText");
    if (r->list) qkv_json_begin(out, '[');
    for (size_t i = 0; i < r->choice_count; i += each) put_text(&r->choices[i], out);
    if (r->list) qkv_json_end(out, ']');
    if (each > 1) qkv_json_key(out, "alternatives");
    if (each > 1 && r->list) qkv_json_begin(out, '[');
    for (size_t i = 0; each > 1 && i < r->choice_count; i += each) {
        qkv_json_begin(out, '[');
        for (size_t k = 1; k < each; k++) put_text(&r->choices[i + k], out);
        qkv_json_end(out, ']');
    }
    if (each > 1 && r->list) qkv_json_end(out, ']');
    qkv_json_end(out, '}');
}
