/* generation_config.json: the tokens that end a text, how tokens are sampled, rules for them, and beams. Folders
 * without that file may have its keys in config.json. */
#include "io/generation.h"

#include <float.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/io.h"

enum { GENERATION_BYTES = 1 << 24 };

/* ---- the keys ---------------------------------------------------------------------------------------------------- */

#define GENERATION_AT(field) offsetof(struct qkv_model_generation, field)

/* Keys with a whole number. */
static const struct generation_count {
    const char *key;
    size_t at; /* a size_t */
    json_int_t low, high;
} counts[] = {
    {"num_beams", GENERATION_AT(beams), 1, 65536},
    {"max_length", GENERATION_AT(max_length), 1, INT32_MAX},
    {"max_new_tokens", GENERATION_AT(max_tokens), 1, INT32_MAX},
    {"min_length", GENERATION_AT(min_length), 0, INT32_MAX},
    {"min_new_tokens", GENERATION_AT(min_tokens), 0, INT32_MAX},
    {"no_repeat_ngram_size", GENERATION_AT(no_repeat), 0, INT32_MAX},
    {"encoder_no_repeat_ngram_size", GENERATION_AT(source_no_repeat), 0, INT32_MAX},
};

/* Keys with a token id, or a list of them. */
static const struct generation_ids {
    const char *key;
    size_t at, count; /* int32_t[], size_t */
    size_t limit;
} id_lists[] = {
    {"forced_eos_token_id", GENERATION_AT(last), GENERATION_AT(last_count), QKV_TOKEN_ENDS},
    {"suppress_tokens", GENERATION_AT(suppressed), GENERATION_AT(suppressed_count), QKV_GENERATION_IDS},
    {"begin_suppress_tokens", GENERATION_AT(suppressed_first), GENERATION_AT(suppressed_first_count),
     QKV_GENERATION_IDS},
};

/* Keys that would change texts, and that are not read, with their value without effect. null, false and empty lists
 * have none either. */
static const struct generation_unread {
    const char *key;
    double neutral;
    bool samples; /* without sampling it has no effect */
} unread[] = {
    {"num_beam_groups", 1, false},
    {"diversity_penalty", 0, false},
    {"num_return_sequences", 1, false},
    {"penalty_alpha", 0, false},
    {"guidance_scale", 1, false},
    {"dola_layers", NAN, false},
    {"constraints", NAN, false},
    {"force_words_ids", NAN, false},
    {"forced_decoder_ids", NAN, false},
    {"sequence_bias", NAN, false},
    {"exponential_decay_length_penalty", NAN, false},
    {"renormalize_logits", 0, false},
    {"watermarking_config", NAN, false},
    {"stop_strings", NAN, false},
    {"token_healing", 0, false},
    {"typical_p", 1, true},
    {"epsilon_cutoff", 0, true},
    {"eta_cutoff", 0, true},
    {"top_h", NAN, true},
};

enum {
    COUNTS = sizeof counts / sizeof *counts,
    ID_LISTS = sizeof id_lists / sizeof *id_lists,
    UNREAD = sizeof unread / sizeof *unread
};

static size_t *generation_size(struct qkv_model_generation *g, size_t at) {
    return (size_t *)(void *)((char *)g + at);
}

static int32_t *generation_list(struct qkv_model_generation *g, size_t at) {
    return (int32_t *)(void *)((char *)g + at);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

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

/* Reads the words that no text has. One with an id outside of the vocabulary is dropped. */
static enum qkv_status generation_bad_words(struct qkv_context *ctx, const char *name, const json_t *root, int vocab,
                                            struct qkv_model_generation *g) {
    const json_t *words = json_object_get(root, "bad_words_ids");
    bool listed = !words || json_is_null(words) || json_is_array(words);
    for (size_t i = 0; i < json_array_size(words) && listed; i++) {
        const json_t *word = json_array_get(words, i);
        const size_t count = json_array_size(word), begun = g->bad_word_ids;
        bool known = count > 0;
        listed = json_is_array(word);
        if (count >= QKV_GENERATION_IDS - begun)
            return qkv_fail(ctx, QKV_FORMAT, "%s: bad_words_ids has more than %d tokens", name, QKV_GENERATION_IDS);
        for (size_t k = 0; k < count && listed; k++) {
            const json_t *id = json_array_get(word, k);
            const json_int_t number = json_integer_value(id);
            listed = json_is_integer(id);
            known = known && number >= 0 && number < vocab;
            if (known) g->bad_words[begun + k] = (int32_t)number;
        }
        if (!known) continue;
        g->bad_words[begun + count] = -1;
        g->bad_word_ids = begun + count + 1;
    }
    if (listed) return QKV_OK;
    return qkv_fail(ctx, QKV_FORMAT, "%s: bad_words_ids is not a list of words, each a list of token ids: [[58100]]",
                    name);
}

/* Reads whole numbers. */
static enum qkv_status generation_counts(struct qkv_context *ctx, const char *name, const json_t *root,
                                         struct qkv_model_generation *g) {
    for (size_t i = 0; i < COUNTS; i++) {
        const struct generation_count *c = &counts[i];
        const json_t *value = json_object_get(root, c->key);
        const json_int_t number = json_integer_value(value);
        if (!value || json_is_null(value)) continue;
        if (!json_is_integer(value) || number < c->low || number > c->high)
            return qkv_fail(ctx, QKV_FORMAT, "%s: %s is not a whole number from %lld to %lld", name, c->key,
                            (long long)c->low, (long long)c->high);
        *generation_size(g, c->at) = (size_t)number;
    }
    return QKV_OK;
}

/* Reads lists of token ids. Ids outside of the vocabulary are dropped. */
static enum qkv_status generation_id_lists(struct qkv_context *ctx, const char *name, const json_t *root, int vocab,
                                           struct qkv_model_generation *g) {
    for (size_t i = 0; i < ID_LISTS; i++) {
        const struct generation_ids *list = &id_lists[i];
        const json_t *value = json_object_get(root, list->key);
        const size_t count = json_is_array(value) ? json_array_size(value) : value && !json_is_null(value);
        size_t *used = generation_size(g, list->count);
        for (size_t k = 0; k < count; k++) {
            const json_t *id = json_is_array(value) ? json_array_get(value, k) : value;
            const json_int_t number = json_integer_value(id);
            if (!json_is_integer(id))
                return qkv_fail(ctx, QKV_FORMAT, "%s: %s is not a token id or a list of token ids", name, list->key);
            if (number < 0 || number >= vocab) continue;
            if (*used == list->limit)
                return qkv_fail(ctx, QKV_FORMAT, "%s: %s has more than %zu tokens", name, list->key, list->limit);
            generation_list(g, list->at)[(*used)++] = (int32_t)number;
        }
    }
    return QKV_OK;
}

static enum qkv_status generation_stopping(struct qkv_context *ctx, const char *name, const json_t *root,
                                           enum qkv_stopping *stopping) {
    const json_t *value = json_object_get(root, "early_stopping");
    if (!value || json_is_null(value)) return QKV_OK;
    if (json_is_true(value))
        *stopping = QKV_STOPPING_TRUE;
    else if (json_is_false(value))
        *stopping = QKV_STOPPING_FALSE;
    else if (json_is_string(value) && !strcmp(json_string_value(value), qkv_stopping_name(QKV_STOPPING_NEVER)))
        *stopping = QKV_STOPPING_NEVER;
    else
        return qkv_fail(ctx, QKV_FORMAT, "%s: early_stopping is neither true nor false nor \"never\"", name);
    return QKV_OK;
}

static void generation_put_unread(struct qkv_model_generation *g, const char *key) {
    const size_t used = strlen(g->unread);
    snprintf(g->unread + used, sizeof g->unread - used, "%s%s", used ? ", " : "", key);
}

/* Lists the keys of the file that would change texts and have no effect: those that are not read, and beams where
 * tokens are drawn. */
static void generation_find_unread(const json_t *root, struct qkv_model_generation *g) {
    for (size_t i = 0; i < UNREAD; i++) {
        const json_t *value = json_object_get(root, unread[i].key);
        const bool empty = (json_is_array(value) && !json_array_size(value)) ||
                           (json_is_object(value) && !json_object_size(value)) || json_is_null(value) ||
                           json_is_false(value);
        if (!value || empty || (json_is_number(value) && json_number_value(value) == unread[i].neutral)) continue;
        if (unread[i].samples && !(g->sampling.temperature > 0)) continue;
        generation_put_unread(g, unread[i].key);
    }
    if (g->beams > 1 && g->sampling.temperature > 0) generation_put_unread(g, "num_beams");
}

/* Reads the rules of tokens and what is about beams. */
static enum qkv_status generation_rules(struct qkv_context *ctx, const char *name, const json_t *root, int vocab,
                                        struct qkv_model_generation *g) {
    enum qkv_status status = generation_counts(ctx, name, root, g);
    if (!status) status = generation_id_lists(ctx, name, root, vocab, g);
    if (!status) status = generation_stopping(ctx, name, root, &g->stopping);
    if (!status)
        status = generation_number(ctx, name, root, "length_penalty", -FLT_MAX, false, FLT_MAX, &g->length_penalty);
    if (!status)
        status = generation_number(ctx, name, root, "encoder_repetition_penalty", 0, true, FLT_MAX, &g->source_penalty);
    if (!status) generation_find_unread(root, g);
    return status;
}

/* Reads the tokens that targets begin with, and the bad words if no earlier file has any. A key that is present
 * replaces the value of an earlier file. */
static enum qkv_status generation_targets(struct qkv_context *ctx, const char *name, const json_t *root, int vocab,
                                          struct qkv_model_generation *g) {
    enum qkv_status status = generation_token(ctx, name, root, "decoder_start_token_id", vocab, &g->start);
    if (!status) status = generation_token(ctx, name, root, "forced_bos_token_id", vocab, &g->first);
    return status || g->bad_word_ids ? status : generation_bad_words(ctx, name, root, vocab, g);
}

static enum qkv_status generation_take_json(struct qkv_context *ctx, const char *name, const json_t *root,
                                            const struct qkv_spec *spec, struct qkv_model_generation *g) {
    enum qkv_status status = generation_ends(ctx, name, json_object_get(root, "eos_token_id"), spec->vocab, g);
    if (!status) status = generation_sampling(ctx, name, root, &g->sampling);
    if (!status) status = generation_targets(ctx, name, root, spec->vocab, g);
    if (!status) status = generation_rules(ctx, name, root, spec->vocab, g);
    g->given = !status;
    return status;
}

static enum qkv_status generation_take(struct qkv_context *ctx, const char *path, const void *data, size_t size,
                                       const struct qkv_spec *spec, struct qkv_model_generation *g) {
    json_t *root = NULL;
    enum qkv_status status = qkv_json_load(
        ctx, &(struct qkv_json_text){.name = path, .data = data, .size = size, .max_size = GENERATION_BYTES}, &root);
    if (!status && !json_is_object(root)) status = qkv_fail(ctx, QKV_FORMAT, "%s is not a JSON object", path);
    if (!status) status = generation_take_json(ctx, path, root, spec, g);
    json_decref(root);
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
    qkv_model_generation_clear(g);
    return generation_take(ctx, name, text, size, spec, g);
}

/* Reads a published config.json of a folder without generation_config.json. Keys that it does not have may be in the
 * part of it that is about the decoder. */
static enum qkv_status generation_take_config(struct qkv_context *ctx, const json_t *config,
                                              const struct qkv_spec *spec, struct qkv_model_generation *g) {
    static const char *const parts[] = {"decoder", "generator", "text_config"};
    const json_t *part = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !json_object_size(part); i++)
        part = json_object_get(config, parts[i]);
    json_t *all = json_object_size(part) ? json_copy((json_t *)(uintptr_t)part) : json_object();
    bool made = all != NULL;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)config, key, value) {
        if (!json_is_null(value)) made = made && !json_object_set(all, key, value);
    }
    const enum qkv_status status = made ? generation_take_json(ctx, QKV_CONFIG_FILE, all, spec, g)
                                        : qkv_fail_memory(ctx, 0, "the settings of config.json");
    json_decref(all);
    return status;
}

enum qkv_status qkv_generation_read(struct qkv_context *ctx, const char *folder, const struct qkv_spec *spec,
                                    const json_t *config, struct qkv_model_generation *g) {
    qkv_model_generation_clear(g);
    char *path = qkv_join_path(ctx, folder, QKV_GENERATION_FILE);
    bool found = false;
    enum qkv_status status = path ? qkv_file_find(ctx, path, &found) : QKV_MEMORY;
    if (found) status = generation_parse(ctx, path, spec, g);
    if (!status && !found && config) status = generation_take_config(ctx, config, spec, g);
    if (!status && config && !g->end_count)
        status = generation_ends(ctx, QKV_CONFIG_FILE, json_object_get(config, "eos_token_id"), spec->vocab, g);
    if (!status && config) status = generation_targets(ctx, QKV_CONFIG_FILE, config, spec->vocab, g);
    if (config) g->given = true;
    free(path);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *generation_put_ids(const int32_t *ids, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count && list; i++)
        if (json_array_append_new(list, json_integer(ids[i]))) break;
    return list;
}

static json_t *generation_put_words(const struct qkv_model_generation *g) {
    json_t *words = json_array();
    for (size_t at = 0, n; at < g->bad_word_ids && words; at += n + 1) {
        for (n = 0; g->bad_words[at + n] >= 0;) n++;
        if (json_array_append_new(words, generation_put_ids(g->bad_words + at, n))) break;
    }
    return words;
}

static bool generation_put_sampling(json_t *root, const struct qkv_sampling *s) {
    bool made = !json_object_set_new(root, "do_sample", json_boolean(s->temperature > 0));
    if (made && s->temperature > 0)
        made = !json_object_set_new(root, "temperature", json_real(s->temperature)) &&
               !json_object_set_new(root, "top_k", json_integer(s->top_k)) &&
               !json_object_set_new(root, "top_p", json_real(s->top_p)) &&
               (!(s->min_p > 0) || !json_object_set_new(root, "min_p", json_real(s->min_p)));
    if (made && s->repeat_penalty != 1)
        made = !json_object_set_new(root, "repetition_penalty", json_real(s->repeat_penalty));
    return made;
}

/* Writes the rules of tokens and what is about beams, where they are not the usual ones. */
static bool generation_put_rules(json_t *root, struct qkv_model_generation *g) {
    bool made = true;
    for (size_t i = 0; i < COUNTS && made; i++) {
        const size_t number = *generation_size(g, counts[i].at);
        if (number) made = !json_object_set_new(root, counts[i].key, json_integer((json_int_t)number));
    }
    for (size_t i = 0; i < ID_LISTS && made; i++) {
        const size_t count = *generation_size(g, id_lists[i].count);
        const int32_t *ids = generation_list(g, id_lists[i].at);
        json_t *value = NULL;
        if (count)
            value =
                count == 1 && id_lists[i].limit == QKV_TOKEN_ENDS ? json_integer(*ids) : generation_put_ids(ids, count);
        if (count) made = !json_object_set_new(root, id_lists[i].key, value);
    }
    if (made && g->length_penalty != 1)
        made = !json_object_set_new(root, "length_penalty", json_real(g->length_penalty));
    if (made && g->source_penalty != 1)
        made = !json_object_set_new(root, "encoder_repetition_penalty", json_real(g->source_penalty));
    if (made && g->stopping != QKV_STOPPING_FALSE)
        made = !json_object_set_new(root, "early_stopping",
                                    g->stopping == QKV_STOPPING_TRUE ? json_true()
                                                                     : json_string(qkv_stopping_name(g->stopping)));
    return made;
}

bool qkv_generation_rules(const struct qkv_model_generation *generation) {
    struct qkv_model_generation own = *generation;
    bool any = own.length_penalty != 1 || own.source_penalty != 1 || own.stopping != QKV_STOPPING_FALSE;
    for (size_t i = 0; i < COUNTS; i++) any = any || *generation_size(&own, counts[i].at);
    for (size_t i = 0; i < ID_LISTS; i++) any = any || *generation_size(&own, id_lists[i].count);
    return any;
}

json_t *qkv_generation_json(const struct qkv_model_generation *generation) {
    struct qkv_model_generation own = *generation, *g = &own;
    json_t *ends = generation_put_ids(g->ends, g->end_count), *root = json_object();
    bool made = root && ends;
    if (made && g->end_count)
        made = !json_object_set(root, "eos_token_id", g->end_count == 1 ? json_array_get(ends, 0) : ends);
    if (made) made = generation_put_sampling(root, &g->sampling);
    if (made && g->start >= 0) made = !json_object_set_new(root, "decoder_start_token_id", json_integer(g->start));
    if (made && g->first >= 0) made = !json_object_set_new(root, "forced_bos_token_id", json_integer(g->first));
    if (made && g->bad_word_ids) made = !json_object_set_new(root, "bad_words_ids", generation_put_words(g));
    if (made) made = generation_put_rules(root, g);
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
