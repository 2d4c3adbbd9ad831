/* GGUF files of families, written: the keys of a file, from the family's config.json and the spec. The family's list of
 * keys is applied in reverse; sizes that every architecture has are added where the list does not have them. The result
 * is read again, and must give the same spec. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "family/family_gguf.h"
#include "model/spec.h"

struct writing {
    const struct qkv_family_arrays *arrays;
    struct qkv_context *ctx;
    const struct qkv_family *family;
    const struct qkv_family_gguf *table;
    const json_t *config;        /* the keys of config.json */
    const struct qkv_spec *spec; /* that of the family's model */
    const struct qkv_stack_spec *stack;
    struct qkv_family_gguf_written *out;
    bool made; /* false: there was no memory */
};

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Keys that are floats even where the number is whole. */
static bool key_is_real(const char *key) {
    static const char *const patterns[] = {"*epsilon", "rope.freq_base*",         "*softcapping",
                                           "*scale",   "*max_alibi_bias",         "*clamp_kqv",
                                           "*factor",  "rope.scaling.yarn_beta*", "*yarn_log_multiplier"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (qkv_text_matches(key, patterns[i])) return true;
    return false;
}

static void key_name(const struct writing *w, const char *key, char name[240]) {
    snprintf(name, 240, "%.64s.%.160s", w->table->architecture, key);
}

static bool key_has(const struct writing *w, const char *key) {
    char name[240];
    key_name(w, key, name);
    return json_object_get(w->out->keys, name) != NULL;
}

/* Sets a key of the architecture; owns the value. Reals are rounded to floats, as the file has them. */
static void key_put(struct writing *w, const char *key, json_t *value) {
    char name[240];
    key_name(w, key, name);
    if (value && (json_is_real(value) || (json_is_integer(value) && key_is_real(key)))) {
        const double x = qkv_real_meant((float)json_number_value(value));
        json_decref(value);
        value = json_real(x);
    }
    w->made = value && !json_object_set_new(w->out->keys, name, value) && w->made;
}

/* Sets a size that the family's list may have set already. */
static void key_put_size(struct writing *w, const char *key, int value) {
    if (!key_has(w, key)) key_put(w, key, json_integer(value));
}

/* ---- the family's list ------------------------------------------------------------------------------------------- */

/* The value of a key of config.json under the names of tables, or its default; NULL: none. New. */
static json_t *config_value(const struct writing *w, const char *key) {
    const char *aliases = w->family->aliases, *defaults = w->family->defaults, *name = key;
    struct qkv_family_piece alias, piece;
    while (qkv_family_next(&aliases, &alias))
        if (!strcmp(alias.key, key)) {
            name = alias.value + (*alias.value == '!');
            break;
        }
    json_t *value = qkv_family_get(w->config, name);
    if (!value && name != key) value = qkv_family_get(w->config, key);
    if (value) return json_incref(value);
    while (qkv_family_next(&defaults, &piece))
        if (!strcmp(piece.key, name)) return qkv_family_constant(piece.value);
    return NULL;
}

/* A number that is a share of the width of a head, or of the model, as a number of channels; the channels of a head
 * that are not rotated, as all of them. */
static json_t *config_whole(const struct writing *w, const char *transform, const json_t *value) {
    const struct qkv_attention_spec *a = &w->stack->kinds[0].attention;
    const int all = !strcmp(transform, "of_head") ? a->head_dim : w->spec->d_model;
    if (!strcmp(transform, "not_rotated")) return json_integer(a->head_dim);
    return json_integer((json_int_t)lround(json_number_value(value) * all));
}

/* Applies "KEY=$THEIRS:TRANSFORM|OTHER" in reverse. */
static void list_put(struct writing *w, const struct qkv_family_piece *piece) {
    char key[160];
    const size_t n = strcspn(piece->value, "|:");
    if (*piece->value != '$') return;
    snprintf(key, sizeof key, "%.*s", (int)n - 1, piece->value + 1);
    if (w->table->unwritten && !strcmp(key, w->table->unwritten)) return;
    json_t *value = config_value(w, piece->key);
    if (!value || json_is_null(value)) {
        json_decref(value);
        return;
    }
    if (piece->value[n] == ':') {
        char transform[32];
        snprintf(transform, sizeof transform, "%.*s", (int)strcspn(piece->value + n + 1, "|"), piece->value + n + 1);
        json_t *whole = config_whole(w, transform, value);
        json_decref(value);
        value = whole;
    }
    key_put(w, key, json_deep_copy(value));
    json_decref(value);
}

/* Whether the model has what a key of the list is about: a scaled rotation, or experts. */
static bool list_applies(const struct writing *w, const struct qkv_family_piece *piece, bool scaled) {
    static const char *const of_experts[] = {"$expert_count", "$expert_used_count", "$expert_group_"};
    bool experts = false;
    if (!scaled && strstr(piece->value, "$rope.scaling.")) return false;
    for (int k = 0; k < w->stack->kind_count; k++) experts = experts || w->stack->kinds[k].ffn.experts.given;
    for (size_t i = 0; i < sizeof of_experts / sizeof *of_experts; i++)
        if (!experts && strstr(piece->value, of_experts[i])) return false;
    return true;
}

/* ---- rotations --------------------------------------------------------------------------------------------------- */

/* The rotation whose scaling the file says: of the first kind of layers that has one; NULL: none. */
static const struct qkv_attention_spec *rotation_scaled(const struct writing *w) {
    for (int k = 0; k < w->stack->kind_count; k++) {
        const struct qkv_position_spec *p = &w->stack->kinds[k].attention.position;
        if (p->kind == QKV_POSITION_ROPE && p->scaling.given) return &w->stack->kinds[k].attention;
    }
    return NULL;
}

/* Adds a tensor of divisors of frequencies. */
static enum qkv_status factors_add(struct writing *w, const char *name, const double *values, size_t count) {
    float *x = qkv_allocate(w->ctx, count + 1, sizeof *x);
    if (!x) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++) x[i] = (float)values[i];
    w->out->factors[w->out->factor_count++] = (struct qkv_array){
        .name = name, .dtype = QKV_F32, .rank = 1, .shape = {count}, .data = x, .bytes = count * sizeof *x};
    return QKV_OK;
}

/* LLaMA 3.1: the frequencies without a scaling over those with it. */
static enum qkv_status factors_llama3(struct writing *w, const struct qkv_attention_spec *a) {
    const size_t pairs = qkv_rotation_pairs(&a->position, a->head_dim);
    struct qkv_position_spec plain = a->position;
    double *scaled = qkv_allocate(w->ctx, 2 * pairs + 1, sizeof *scaled);
    if (!scaled) return QKV_MEMORY;
    plain.scaling.given = false;
    qkv_rotation_frequencies(&a->position, 0, pairs, scaled);
    qkv_rotation_frequencies(&plain, 0, pairs, scaled + pairs);
    for (size_t i = 0; i < pairs; i++) scaled[i] = scaled[pairs + i] / scaled[i];
    const enum qkv_status status = factors_add(w, "rope_freqs.weight", scaled, pairs);
    free(scaled);
    return status;
}

/* LongRoPE: one list of divisors, or one within the length of training and one beyond it. */
static enum qkv_status factors_long(struct writing *w, const struct qkv_attention_spec *a) {
    const struct qkv_number_list *within = &a->position.scaling.short_factors,
                                 *beyond = &a->position.scaling.long_factors;
    const double factor = qkv_rotation_factor(&a->position, (size_t)w->spec->context);
    bool same = within->count == beyond->count && factor == 1;
    for (int i = 0; i < within->count && same; i++) same = within->values[i] == beyond->values[i];
    if (same) return factors_add(w, "rope_freqs.weight", within->values, (size_t)within->count);
    key_put(w, "rope.scaling.attn_factor", json_real(factor));
    key_put(w, "rope.scaling.original_context_length", json_integer(a->position.scaling.original_context));
    enum qkv_status status = factors_add(w, "rope_factors_short.weight", within->values, (size_t)within->count);
    return status ? status : factors_add(w, "rope_factors_long.weight", beyond->values, (size_t)beyond->count);
}

static enum qkv_status scaling_put(struct writing *w, const struct qkv_attention_spec *a) {
    const struct qkv_scaling_spec *s = &a->position.scaling;
    if (s->kind == QKV_SCALING_LLAMA3) return factors_llama3(w, a);
    if (s->kind == QKV_SCALING_LONGROPE) return factors_long(w, a);
    if (s->kind != QKV_SCALING_LINEAR && s->kind != QKV_SCALING_YARN) return QKV_OK; /* reading back refuses it */
    const bool yarn = s->kind == QKV_SCALING_YARN;
    key_put(w, "rope.scaling.type", json_string(yarn ? "yarn" : "linear"));
    key_put(w, "rope.scaling.factor", json_real(s->factor));
    if (!yarn) return QKV_OK;
    key_put(w, "rope.scaling.original_context_length", json_integer(s->original_context));
    key_put(w, "rope.scaling.yarn_beta_fast", json_real(s->beta_fast));
    key_put(w, "rope.scaling.yarn_beta_slow", json_real(s->beta_slow));
    if (s->mscale_all_dim != 0) key_put(w, "rope.scaling.yarn_log_multiplier", json_real(s->mscale_all_dim / 10));
    return QKV_OK;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* The sizes of latent attention as that of one head of keys and values, which all heads read. */
static void sizes_put_latent(struct writing *w, const struct qkv_latent_spec *latent) {
    if (!latent->rank) return;
    key_put_size(w, "attention.head_count_kv", 1);
    key_put_size(w, "attention.key_length", latent->rank + latent->rope_dim);
    key_put_size(w, "attention.value_length", latent->rank);
}

/* The sizes that readers of every architecture ask about. */
static void sizes_put(struct writing *w) {
    const struct qkv_layer_spec *kind = &w->stack->kinds[0];
    const struct qkv_attention_spec *a = &kind->attention;
    const bool rotates = a->position.kind == QKV_POSITION_ROPE;
    const bool sums = (long long)a->heads * a->head_dim == w->spec->d_model && a->value_dim == a->head_dim;
    key_put_size(w, "context_length", w->spec->context);
    key_put_size(w, "embedding_length", w->spec->d_model);
    key_put_size(w, "block_count", w->stack->layers);
    key_put_size(w, "feed_forward_length", kind->ffn.d_ff);
    key_put_size(w, "attention.head_count", a->heads);
    sizes_put_latent(w, &a->latent);
    key_put_size(w, "attention.head_count_kv", a->kv_heads);
    if (!sums || key_has(w, "attention.key_length")) {
        key_put_size(w, "attention.key_length", a->head_dim);
        key_put_size(w, "attention.value_length", a->value_dim);
    }
    if (rotates) {
        key_put_size(w, "rope.dimension_count", (int)(2 * qkv_rotation_pairs(&a->position, a->head_dim)));
        if (!key_has(w, "rope.freq_base")) key_put(w, "rope.freq_base", json_real(a->position.theta));
    }
    if (a->position.kind == QKV_POSITION_ALIBI && !key_has(w, "attention.max_alibi_bias"))
        key_put(w, "attention.max_alibi_bias", json_real(8));
    key_put_size(w, "vocab_size", w->spec->vocab);
    if (!strcmp(w->family->stacks, "encoder") && a->position.kind != QKV_POSITION_BUCKETS)
        key_put(w, "attention.causal", json_false());
}

/* ---- reading again ----------------------------------------------------------------------------------------------- */

static const struct qkv_array *written_find(const void *user, const char *name) {
    const struct writing *w = user;
    for (size_t i = 0; i < w->out->factor_count; i++)
        if (!strcmp(w->out->factors[i].name, name)) return &w->out->factors[i];
    for (size_t i = 0; i < w->arrays->count; i++)
        if (!strcmp(w->arrays->list[i].array.name, name)) return &w->arrays->list[i].array;
    return NULL;
}

/* Whether two values of specs are the same: numbers, apart from rounding to floats. path: where they differ first. */
static bool values_same(const json_t *a, const json_t *b, bool factors, struct qkv_buffer *path) {
    const char *key;
    json_t *value;
    const size_t at = path->size;
    if (json_is_number(a) && json_is_number(b)) {
        const double x = json_number_value(a), y = json_number_value(b);
        return fabs(x - y) <= 1e-6 * fmax(fabs(x), fabs(y));
    }
    if (!json_is_object(a) || !json_is_object(b)) {
        bool same = json_is_array(a) && json_array_size(a) == json_array_size(b);
        for (size_t i = 0; i < json_array_size(a) && same; i++)
            same = values_same(json_array_get(a, i), json_array_get(b, i), factors, path);
        return same || json_equal(a, b);
    }
    for (int turn = 0; turn < 2; turn++) { /* keys of the one, then keys that only the other has */
        json_object_foreach((json_t *)(uintptr_t)(turn ? b : a), key, value) {
            const json_t *other = json_object_get(turn ? a : b, key);
            const bool follows = !at && !strcmp(key, "version"); /* from the other keys */
            if ((turn && other) || follows || (factors && !strcmp(key, "scaling"))) continue;
            if (qkv_buffer_print(NULL, path, "%s%s", at ? "." : "", key)) return false;
            if (!turn && other && values_same(value, other, factors, path)) {
                path->size = at;
                continue;
            }
            return false;
        }
    }
    return true;
}

/* The spec as JSON, without settings of training; NULL: no memory. */
static json_t *spec_json(struct qkv_context *ctx, const struct qkv_spec *spec) {
    struct qkv_spec copy = {0};
    char *text = NULL;
    if (qkv_spec_copy(ctx, spec, &copy)) return NULL;
    qkv_family_strip(&copy);
    json_t *root = qkv_spec_print(ctx, &copy, &text) ? NULL : json_loads(text, 0, NULL);
    qkv_free(text);
    qkv_spec_free(&copy);
    return root;
}

static enum qkv_status written_compare(const struct writing *w, const struct qkv_spec *again) {
    struct qkv_buffer path = {0};
    json_t *ours = spec_json(w->ctx, w->spec), *theirs = spec_json(w->ctx, again);
    enum qkv_status status = ours && theirs ? QKV_OK : qkv_fail_memory(w->ctx, 0, "a spec");
    if (!status && !values_same(ours, theirs, w->out->factor_count > 0, &path))
        status = qkv_fail(w->ctx, QKV_SPEC, "GGUF files of architecture %s cannot say this model's %s",
                          w->table->architecture, path.size ? path.data : "layers");
    qkv_buffer_free(&path);
    json_decref(ours);
    json_decref(theirs);
    return status;
}

static enum qkv_status written_check(const struct writing *w) {
    const struct qkv_family_gguf_file file = {
        .name = "the file to write", .keys = w->out->keys, .find = written_find, .user = w};
    struct qkv_family_config config = {0};
    struct qkv_spec *again = qkv_allocate(w->ctx, 1, sizeof *again);
    const struct qkv_family_gguf *table;
    json_t *root = NULL;
    enum qkv_status status = again ? qkv_family_gguf_config(w->ctx, &file, &table, &root) : QKV_MEMORY;
    if (!status) status = qkv_family_read(w->ctx, file.name, root, NULL, NULL, &config, again);
    if (!status && config.family != w->family)
        status = qkv_fail(w->ctx, QKV_SPEC, "GGUF files of architecture %s mean models of type %s",
                          w->table->architecture, config.family->type);
    if (!status) status = written_compare(w, again);
    qkv_family_config_free(&config);
    if (again) qkv_spec_free(again);
    free(again);
    json_decref(root);
    return status;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

void qkv_family_gguf_written_free(struct qkv_family_gguf_written *written) {
    json_decref(written->keys);
    for (size_t i = 0; i < written->factor_count; i++) free((void *)(uintptr_t)written->factors[i].data);
    *written = (struct qkv_family_gguf_written){0};
}

enum qkv_status qkv_family_gguf_write(const struct qkv_family_arrays *arrays, struct qkv_family_gguf_written *out) {
    const struct qkv_family_config *config = arrays->config;
    struct qkv_family_piece piece;
    *out = (struct qkv_family_gguf_written){0};
    struct writing w = {.arrays = arrays,
                        .ctx = arrays->model->ctx,
                        .family = config->family,
                        .table = config->gguf,
                        .config = config->keys,
                        .spec = config->whole ? config->whole : &arrays->model->spec,
                        .out = out};
    if (!w.table)
        return qkv_fail(w.ctx, QKV_SPEC, "GGUF files have no architecture for models of type %s", w.family->type);
    w.stack = w.spec->encoder.layers ? &w.spec->encoder : &w.spec->decoder;
    out->keys = json_pack("{s:s}", "general.architecture", w.table->architecture);
    w.made = out->keys != NULL;
    const struct qkv_attention_spec *scaled = rotation_scaled(&w);
    for (const char *list = w.table->keys; w.made && qkv_family_next(&list, &piece);)
        if (list_applies(&w, &piece, scaled != NULL)) list_put(&w, &piece);
    for (const char *only = w.table->only; w.made && qkv_family_next(&only, &piece);)
        key_put(&w, piece.key, qkv_family_constant(piece.value));
    json_t *start =
        w.spec->encoder.layers && w.spec->decoder.layers ? config_value(&w, "decoder_start_token_id") : NULL;
    if (json_is_integer(start)) key_put(&w, "decoder_start_token_id", json_incref(start));
    json_decref(start);
    if (w.made) sizes_put(&w);
    enum qkv_status status = w.made && scaled ? scaling_put(&w, scaled) : QKV_OK;
    if (!status && !w.made) status = qkv_fail_memory(w.ctx, 0, "the keys of a file");
    return status ? status : written_check(&w);
}
