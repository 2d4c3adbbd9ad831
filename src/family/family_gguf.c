/* GGUF files of families: the config.json that a folder of the same model would have, from the keys of the file. */
#include <stdlib.h>
#include <string.h>

#include "family/family_gguf.h"

/* ---- keys of a file ---------------------------------------------------------------------------------------------- */

struct gguf {
    struct qkv_context *ctx;
    const struct qkv_family_gguf_file *file;
    const char *architecture;
    const struct qkv_family *family;
    const struct qkv_family_gguf *table;
    json_t *config;
};

/* A key of the architecture; NULL: the file does not have it. Borrowed. */
static const json_t *gguf_key(const struct gguf *g, const char *key) {
    char whole[240];
    snprintf(whole, sizeof whole, "%.64s.%.160s", g->architecture, key);
    return json_object_get(g->file->keys, whole);
}

static bool gguf_has(const struct gguf *g, const char *tensor) {
    return g->file->find(g->file->user, tensor) != NULL;
}

static enum qkv_status gguf_missing(const struct gguf *g, const char *key) {
    return qkv_fail(g->ctx, QKV_SPEC, "%s has no key %s.%s, which models of type %s need", g->file->name,
                    g->architecture, key, g->family->type);
}

static enum qkv_status gguf_refuse(const struct gguf *g, const char *key, const json_t *value, const char *instead) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const enum qkv_status status =
        qkv_fail(g->ctx, QKV_SPEC, "%s: %s.%s is %.80s; models of type %s can have: %s", g->file->name, g->architecture,
                 key, text ? text : "", g->family->type, instead);
    free(text);
    return status;
}

static double gguf_number(const struct gguf *g, const char *key) {
    return json_number_value(gguf_key(g, key));
}

/* The channels of a head; 0: the keys do not say it. */
static double gguf_head_width(const struct gguf *g) {
    const double heads = gguf_number(g, "attention.head_count"), width = gguf_number(g, "attention.key_length");
    return width > 0 ? width : heads > 0 ? gguf_number(g, "embedding_length") / heads : 0;
}

/* ---- rotations --------------------------------------------------------------------------------------------------- */

/* The numbers of a tensor as a list. */
static json_t *gguf_factors(const struct gguf *g, const char *tensor) {
    const struct qkv_array *array = g->file->find(g->file->user, tensor);
    const size_t n = array && array->rank == 1 && qkv_type_is_real(array->dtype) ? array->shape[0] : 0;
    float *x = qkv_allocate(g->ctx, n + 1, sizeof *x);
    json_t *list = x ? json_array() : NULL;
    if (n && x) qkv_array_floats(array, x);
    for (size_t i = 0; i < n && list; i++) json_array_append_new(list, json_real(qkv_real_meant(x[i])));
    free(x);
    return list;
}

/* Divisors of all frequencies: those of texts within and beyond the length of training. */
static json_t *gguf_long(const struct gguf *g, const char *within, const char *beyond) {
    const json_t *factor = gguf_key(g, "rope.scaling.attn_factor");
    return json_pack("{s:s, s:o, s:o, s:f}", "rope_type", "longrope", "short_factor", gguf_factors(g, within),
                     "long_factor", gguf_factors(g, beyond), "attention_factor",
                     json_is_number(factor) ? json_number_value(factor) : 1.0);
}

/* Keys of a scaling: the file's, and that of config.json. */
static const struct {
    const char *theirs, *config;
} scaling_keys[] = {
    {"rope.scaling.factor", "factor"},
    {"rope.scaling.original_context_length", "original_max_position_embeddings"},
    {"rope.scaling.yarn_beta_fast", "beta_fast"},
    {"rope.scaling.yarn_beta_slow", "beta_slow"},
};

/* rope_scaling; NULL: no memory, or a scaling that cannot be read, and *status says so. */
static json_t *gguf_scaling(const struct gguf *g, enum qkv_status *status) {
    const json_t *type = gguf_key(g, "rope.scaling.type"),
                 *multiplier = gguf_key(g, "rope.scaling.yarn_log_multiplier");
    const char *name = json_string_value(type);
    json_t *out = NULL;
    if (gguf_has(g, "rope_factors_short.weight") && gguf_has(g, "rope_factors_long.weight"))
        out = gguf_long(g, "rope_factors_short.weight", "rope_factors_long.weight");
    else if (gguf_has(g, "rope_freqs.weight"))
        out = gguf_long(g, "rope_freqs.weight", "rope_freqs.weight");
    else if (!name || !strcmp(name, "none"))
        return json_null();
    else if (!strcmp(name, "linear") || !strcmp(name, "yarn"))
        out = json_pack("{s:s}", "rope_type", name);
    else
        *status = gguf_refuse(g, "rope.scaling.type", type, "none, linear, yarn, or factors of all frequencies");
    for (size_t i = 0; i < sizeof scaling_keys / sizeof *scaling_keys && out; i++) {
        json_t *value = (json_t *)(uintptr_t)gguf_key(g, scaling_keys[i].theirs);
        if (value) json_object_set(out, scaling_keys[i].config, value);
    }
    if (out && json_is_number(multiplier)) { /* a tenth of it, as DeepSeek's mscale_all_dim */
        json_object_set_new(out, "mscale", json_real(10 * json_number_value(multiplier)));
        json_object_set(out, "mscale_all_dim", json_object_get(out, "mscale"));
    }
    return out;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Transforms of numbers: shares of the width of a head, or of the model, and the channels of a head that are not
 * rotated. */
static json_t *gguf_transform(const struct gguf *g, const char *name, const json_t *value) {
    const double all = !strcmp(name, "of_head") ? gguf_head_width(g) : gguf_number(g, "embedding_length");
    if (!*name) return json_incref((json_t *)(uintptr_t)value);
    if (!strcmp(name, "not_rotated"))
        return json_integer((json_int_t)(json_number_value(value) - gguf_number(g, "rope.dimension_count")));
    return json_real(all > 0 ? json_number_value(value) / all : 0);
}

/* The value of a list's "VALUE|OTHER"; NULL: no memory, or *status says why. */
static json_t *gguf_value(const struct gguf *g, const char *text, enum qkv_status *status) {
    char part[160], key[160];
    const char *other = strchr(text, '|');
    snprintf(part, sizeof part, "%.*s", (int)strcspn(text, "|"), text);
    snprintf(key, sizeof key, "%.*s", (int)strcspn(part + 1, ":"), part + 1);
    if (!strcmp(part, "@scaling")) return gguf_scaling(g, status);
    if (*part == '?' || *part == '!') return json_boolean(gguf_has(g, part + 1) == (*part == '?'));
    if (*part == '#') {
        const struct qkv_array *array = g->file->find(g->file->user, part + 1);
        if (array && array->rank) return json_integer((json_int_t)array->shape[0]);
        *status = qkv_fail(g->ctx, QKV_FORMAT, "%s has no tensor %s", g->file->name, part + 1);
        return NULL;
    }
    if (*part != '$') return qkv_family_constant(part);
    const json_t *value = gguf_key(g, key);
    if (value) return gguf_transform(g, part + 1 + strlen(key) + (strchr(part, ':') != NULL), value);
    if (other) return gguf_value(g, other + 1, status);
    *status = gguf_missing(g, key);
    return NULL;
}

static enum qkv_status gguf_put_keys(const struct gguf *g) {
    const char *list = g->table->keys;
    struct qkv_family_piece piece;
    while (qkv_family_next(&list, &piece)) {
        enum qkv_status status = QKV_OK;
        json_t *value = gguf_value(g, piece.value, &status);
        if (!value || !qkv_family_put(g->config, piece.key, value))
            return status ? status : qkv_fail_memory(g->ctx, 0, "the keys of a file");
    }
    return QKV_OK;
}

/* The special tokens that a config.json names. */
static enum qkv_status gguf_put_tokens(const struct gguf *g) {
    static const char *const names[][2] = {
        {"bos_token_id", "tokenizer.ggml.bos_token_id"},
        {"eos_token_id", "tokenizer.ggml.eos_token_id"},
        {"pad_token_id", "tokenizer.ggml.padding_token_id"},
    };
    bool made = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *id = json_object_get(g->file->keys, names[i][1]);
        if (json_is_integer(id)) made = made && !json_object_set(g->config, names[i][0], id);
    }
    const json_t *start = gguf_key(g, "decoder_start_token_id");
    if (start) made = made && !json_object_set(g->config, "decoder_start_token_id", (json_t *)(uintptr_t)start);
    return made ? QKV_OK : qkv_fail_memory(g->ctx, 0, "the keys of a file");
}

/* ---- keys that nobody reads -------------------------------------------------------------------------------------- */

static bool gguf_patterns_have(const char *patterns, const char *key) {
    char pattern[96];
    for (const char *at = patterns ? patterns : ""; *at; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(at, " "), at);
        if (qkv_text_matches(key, pattern)) return true;
    }
    return false;
}

/* Whether the family's list has "$KEY". */
static bool gguf_reads(const struct gguf *g, const char *key) {
    const size_t n = strlen(key);
    const char *at = g->table->keys;
    while ((at = strchr(at, '$'))) {
        at++;
        if (!strncmp(at, key, n) && strchr(":|;", at[n])) return true;
    }
    return !strncmp(key, "rope.scaling.", 13) && strstr(g->table->keys, "@scaling");
}

/* The only value that a key may have where the family's list does not read it. */
static json_t *gguf_only(const struct gguf *g, const char *key) {
    const char *only = g->table->only;
    struct qkv_family_piece piece;
    while (qkv_family_next(&only, &piece))
        if (!strcmp(piece.key, key)) return qkv_family_constant(piece.value);
    const bool latent = gguf_key(g, "attention.key_length_mla") != NULL; /* all heads read the same latent */
    const bool width = !strcmp(key, "attention.key_length") || !strcmp(key, "attention.value_length") ||
                       !strcmp(key, "rope.dimension_count");
    if (width) return json_real(gguf_head_width(g));
    if (!strcmp(key, "attention.head_count_kv"))
        return json_integer(latent ? 1 : (json_int_t)gguf_number(g, "attention.head_count"));
    if (!strcmp(key, "attention.causal")) return json_boolean(!strcmp(g->family->stacks, "decoder"));
    return NULL;
}

static enum qkv_status gguf_check_key(const struct gguf *g, const char *key, const json_t *value) {
    static const char idle[] = "vocab_size tensor_data_layout pooling_type decoder_start_token_id name";
    const bool nothing = json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0);
    if (gguf_reads(g, key) || gguf_patterns_have(idle, key) || gguf_patterns_have(g->table->idle, key)) return QKV_OK;
    json_t *only = gguf_only(g, key);
    const bool same = only && qkv_family_same(only, value);
    char *text = only ? json_dumps(only, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    enum qkv_status status = QKV_OK;
    if (only && !same)
        status = gguf_refuse(g, key, value, text ? text : "");
    else if (!only && !nothing)
        status = qkv_fail(g->ctx, QKV_SPEC, "%s: models of type %s have no key %s.%.80s", g->file->name,
                          g->family->type, g->architecture, key);
    free(text);
    json_decref(only);
    return status;
}

static enum qkv_status gguf_check_keys(const struct gguf *g) {
    const size_t n = strlen(g->architecture);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)g->file->keys, key, value) {
        if (strncmp(key, g->architecture, n) != 0 || key[n] != '.') continue;
        const enum qkv_status status = gguf_check_key(g, key + n + 1, value);
        if (status) return status;
    }
    return QKV_OK;
}

/* ---- the family -------------------------------------------------------------------------------------------------- */

/* Whether the file has what tells a family from others. */
static bool gguf_tells(const struct gguf *g, const char *has) {
    struct qkv_family_piece piece;
    if (!strchr(has, '=')) return gguf_has(g, has);
    if (!qkv_family_next(&has, &piece)) return false;
    json_t *value = qkv_family_constant(piece.value);
    const bool same = qkv_family_same(gguf_key(g, piece.key), value);
    json_decref(value);
    return same;
}

/* Finds the family: one of the architecture, if possible one whose tensor or key the file has. */
static enum qkv_status gguf_family(struct gguf *g) {
    const json_t *type = json_object_get(g->file->keys, "general.type");
    g->architecture = json_string_value(json_object_get(g->file->keys, "general.architecture"));
    if (json_is_string(type) && strcmp(json_string_value(type), "model") != 0)
        return qkv_fail(g->ctx, QKV_FORMAT, "%s: general.type is \"%.60s\"; files of type model can be opened",
                        g->file->name, json_string_value(type));
    if (!g->architecture)
        return qkv_fail(g->ctx, QKV_FORMAT, "%s has no key general.architecture, so its family is not known",
                        g->file->name);
    for (size_t i = 0; qkv_families[i]; i++) {
        const struct qkv_family_gguf *table = qkv_families[i]->gguf;
        while (table && strcmp(table->architecture, g->architecture) != 0) table = table->next;
        if (!table) continue;
        const bool has = table->has && gguf_tells(g, table->has);
        if (table->has ? !has : g->family != NULL) continue;
        g->family = qkv_families[i];
        g->table = table;
        if (has) break;
    }
    if (g->family) return QKV_OK;
    return qkv_fail(g->ctx, QKV_FORMAT, "%s: general.architecture is \"%.60s\", which no known family of models has",
                    g->file->name, g->architecture);
}

enum qkv_status qkv_family_gguf_config(struct qkv_context *ctx, const struct qkv_family_gguf_file *file,
                                       const struct qkv_family_gguf **table, json_t **config) {
    struct gguf g = {.ctx = ctx, .file = file};
    size_t n;
    *config = NULL;
    *table = NULL;
    enum qkv_status status = gguf_family(&g);
    if (status) return status;
    const char *class = qkv_family_architecture(g.family, g.table->class ? g.table->class : "ForCausalLM", &n);
    g.config = json_pack("{s:s%, s:[s%]}", "model_type", g.family->type, strcspn(g.family->type, ","), "architectures",
                         class, n);
    status = g.config ? gguf_put_keys(&g) : qkv_fail_memory(ctx, 0, "the keys of a file");
    if (!status) status = gguf_put_tokens(&g);
    if (!status) status = gguf_check_keys(&g);
    if (!status && g.table->finish && !g.table->finish(g.config))
        status = qkv_fail_memory(ctx, 0, "the keys of a file");
    if (status)
        json_decref(g.config);
    else
        *config = g.config;
    *table = g.table;
    return status;
}

const struct qkv_family_gguf *qkv_family_gguf_of(const struct qkv_family_config *config) {
    const struct qkv_family_gguf *table = config->family->gguf;
    while (table && table->when && !qkv_family_holds(config->keys, table->when)) table = table->next;
    return table;
}
