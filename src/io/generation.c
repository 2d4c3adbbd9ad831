/* generation_config.json: the tokens that end a text, and how tokens are sampled. */
#include "io/generation.h"

#include <float.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/io.h"

enum { GENERATION_BYTES = 1 << 24 };

/* Reads the end tokens. Ids outside the vocabulary are dropped. */
static enum qkv_status generation_ends(struct qkv_context *ctx, const char *name, const json_t *value, int vocab,
                                       struct qkv_model_generation *g) {
    const size_t count = json_is_array(value) ? json_array_size(value) : value && !json_is_null(value);
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        const json_int_t number = json_integer_value(id);
        bool known = number < 0 || number >= vocab;
        if (!json_is_integer(id))
            return qkv_fail(ctx, QKV_FORMAT, "%s: eos_token_id is not a token id or a list of token ids", name);
        for (size_t k = 0; k < g->end_count && !known; k++) known = g->ends[k] == number;
        if (known) continue;
        if (g->end_count == QKV_TOKEN_ENDS)
            return qkv_fail(ctx, QKV_FORMAT, "%s: eos_token_id has more than %d tokens", name, QKV_TOKEN_ENDS);
        g->ends[g->end_count++] = (int32_t)number;
    }
    return QKV_OK;
}

/* Reads a number in [low, high], or in (low, high] with `above`. A missing key leaves the number as it is. */
static enum qkv_status generation_number(struct qkv_context *ctx, const char *name, const json_t *root, const char *key,
                                         double low, bool above, double high, double *out) {
    const json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value)) return QKV_OK;
    const double x = json_number_value(value);
    if (!json_is_number(value) || !(above ? x > low : x >= low) || !(x <= high))
        return qkv_fail(ctx, QKV_FORMAT, "%s: %s is not a number %s %g and at most %g", name, key,
                        above ? "above" : "of at least", low, high);
    *out = x;
    return QKV_OK;
}

/* Defaults are those of transformers: greedy; with do_sample, top_k 50. */
static enum qkv_status generation_sampling(struct qkv_context *ctx, const char *name, const json_t *root,
                                           struct qkv_sampling *s) {
    const json_t *sample = json_object_get(root, "do_sample");
    double top_k = 50, penalty = 1;
    struct qkv_sampling read = {.temperature = 1, .top_p = 1};
    if (sample && !json_is_boolean(sample) && !json_is_null(sample))
        return qkv_fail(ctx, QKV_FORMAT, "%s: do_sample is neither true nor false", name);
    enum qkv_status status = generation_number(ctx, name, root, "temperature", 0, false, FLT_MAX, &read.temperature);
    if (!status) status = generation_number(ctx, name, root, "top_k", 0, false, INT32_MAX, &top_k);
    if (!status) status = generation_number(ctx, name, root, "top_p", 0, true, 1, &read.top_p);
    if (!status) status = generation_number(ctx, name, root, "min_p", 0, false, 1, &read.min_p);
    if (!status) status = generation_number(ctx, name, root, "repetition_penalty", 0, true, FLT_MAX, &penalty);
    if (status) return status;
    read.top_k = (int)top_k;
    *s = json_is_true(sample) ? read : (struct qkv_sampling){.top_p = 1};
    s->repeat_penalty = penalty;
    return QKV_OK;
}

/* Reads a token id of the vocabulary. A missing key leaves it as it is. */
static enum qkv_status generation_token(struct qkv_context *ctx, const char *name, const json_t *root, const char *key,
                                        int vocab, int32_t *out) {
    const json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value) || *out >= 0) return QKV_OK;
    if (!json_is_integer(value)) return qkv_fail(ctx, QKV_FORMAT, "%s: %s is not a token id", name, key);
    const json_int_t id = json_integer_value(value);
    if (id >= 0 && id < vocab) *out = (int32_t)id;
    return QKV_OK;
}

/* Reads tokens that are never chosen: bad words of one token each. */
static enum qkv_status generation_barred(struct qkv_context *ctx, const char *name, const json_t *root, int vocab,
                                         struct qkv_model_generation *g) {
    const json_t *words = json_object_get(root, "bad_words_ids");
    for (size_t i = 0; i < json_array_size(words); i++) {
        const json_t *word = json_array_get(words, i), *id = json_array_get(word, 0);
        if (json_array_size(word) != 1 || !json_is_integer(id))
            return qkv_fail(ctx, QKV_FORMAT,
                            "%s: bad_words_ids has a word of several tokens; each must be like [58100]", name);
        const json_int_t number = json_integer_value(id);
        if (number < 0 || number >= vocab) continue;
        if (g->barred_count == QKV_TOKEN_ENDS)
            return qkv_fail(ctx, QKV_FORMAT, "%s: bad_words_ids has more than %d tokens", name, QKV_TOKEN_ENDS);
        g->barred[g->barred_count++] = (int32_t)number;
    }
    return QKV_OK;
}

/* Reads the tokens that targets begin with, and the barred tokens if no earlier file has any. A key that is present
 * replaces the value of an earlier file. */
static enum qkv_status generation_targets(struct qkv_context *ctx, const char *name, const json_t *root, int vocab,
                                          struct qkv_model_generation *g) {
    enum qkv_status status = generation_token(ctx, name, root, "decoder_start_token_id", vocab, &g->start);
    if (!status) status = generation_token(ctx, name, root, "forced_bos_token_id", vocab, &g->first);
    return status || g->barred_count ? status : generation_barred(ctx, name, root, vocab, g);
}

/* The settings before a file is read. */
static const struct qkv_model_generation generation_usual = {
    .sampling = {.top_p = 1, .repeat_penalty = 1}, .start = -1, .first = -1};

static enum qkv_status generation_take(struct qkv_context *ctx, const char *path, const void *data, size_t size,
                                       const struct qkv_spec *spec, struct qkv_model_generation *g) {
    json_t *root = NULL;
    enum qkv_status status = qkv_json_load(
        ctx, &(struct qkv_json_text){.name = path, .data = data, .size = size, .max_size = GENERATION_BYTES}, &root);
    if (!status && !json_is_object(root)) status = qkv_fail(ctx, QKV_FORMAT, "%s is not a JSON object", path);
    if (!status) status = generation_ends(ctx, path, json_object_get(root, "eos_token_id"), spec->vocab, g);
    if (!status) status = generation_sampling(ctx, path, root, &g->sampling);
    if (!status) status = generation_targets(ctx, path, root, spec->vocab, g);
    json_decref(root);
    g->given = !status;
    return status;
}

static enum qkv_status generation_parse(struct qkv_context *ctx, const char *path, const struct qkv_spec *spec,
                                        struct qkv_model_generation *g) {
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (status) return status;
    status = generation_take(ctx, path, map.data, map.size, spec, g);
    qkv_unmap_file(&map);
    return status;
}

enum qkv_status qkv_generation_parse(struct qkv_context *ctx, const char *name, const char *text, size_t size,
                                     const struct qkv_spec *spec, struct qkv_model_generation *g) {
    *g = generation_usual;
    return generation_take(ctx, name, text, size, spec, g);
}

enum qkv_status qkv_generation_read(struct qkv_context *ctx, const char *folder, const struct qkv_spec *spec,
                                    const json_t *config, struct qkv_model_generation *g) {
    *g = generation_usual;
    char *path = qkv_join_path(ctx, folder, QKV_GENERATION_FILE);
    bool found = false;
    enum qkv_status status = path ? qkv_file_find(ctx, path, &found) : QKV_MEMORY;
    if (found) status = generation_parse(ctx, path, spec, g);
    if (!status && config && !g->end_count)
        status = generation_ends(ctx, QKV_CONFIG_FILE, json_object_get(config, "eos_token_id"), spec->vocab, g);
    if (!status && config) status = generation_targets(ctx, QKV_CONFIG_FILE, config, spec->vocab, g);
    if (config) g->given = true;
    free(path);
    return status;
}

static json_t *generation_words(const struct qkv_model_generation *g) {
    json_t *words = json_array();
    for (size_t i = 0; i < g->barred_count && words; i++)
        if (json_array_append_new(words, json_pack("[i]", (int)g->barred[i]))) break;
    return words;
}

json_t *qkv_generation_json(const struct qkv_model_generation *g) {
    const struct qkv_sampling *s = &g->sampling;
    json_t *ends = json_array(), *root = json_object();
    bool made = root && ends;
    for (size_t i = 0; i < g->end_count && made; i++) made = !json_array_append_new(ends, json_integer(g->ends[i]));
    if (made && g->end_count)
        made = !json_object_set(root, "eos_token_id", g->end_count == 1 ? json_array_get(ends, 0) : ends);
    if (made) made = !json_object_set_new(root, "do_sample", json_boolean(s->temperature > 0));
    if (made && s->temperature > 0)
        made = !json_object_set_new(root, "temperature", json_real(s->temperature)) &&
               !json_object_set_new(root, "top_k", json_integer(s->top_k)) &&
               !json_object_set_new(root, "top_p", json_real(s->top_p)) &&
               (!(s->min_p > 0) || !json_object_set_new(root, "min_p", json_real(s->min_p)));
    if (made && s->repeat_penalty != 1)
        made = !json_object_set_new(root, "repetition_penalty", json_real(s->repeat_penalty));
    if (made && g->start >= 0) made = !json_object_set_new(root, "decoder_start_token_id", json_integer(g->start));
    if (made && g->first >= 0) made = !json_object_set_new(root, "forced_bos_token_id", json_integer(g->first));
    if (made && g->barred_count) made = !json_object_set_new(root, "bad_words_ids", generation_words(g));
    json_decref(ends);
    if (made) return root;
    json_decref(root);
    return NULL;
}

enum qkv_status qkv_generation_write(struct qkv_context *ctx, const struct qkv_model_generation *g,
                                     const char *folder) {
    if (!g->given) return QKV_OK;
    return qkv_json_save(ctx, folder, QKV_GENERATION_FILE, qkv_generation_json(g));
}
