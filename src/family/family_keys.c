/* The keys of a config.json: those that a family reads, those without effect, and the refusal of all others. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"

/* Keys that change nothing of what a model computes, in any family: names, formats, and how it is run, trained and
 * sampled. io/generation.c reads some of them. */
static const char without_effect[] =
    "model_type architectures architecture transformers_version torch_dtype dtype _name_or_path name_or_path "
    "_commit_hash auto_map quantization_config *attn_implementation* *experts_implementation* "
    "_flash_attn_2_enabled use_flash_attn* use_cache cache_implementation output_* return_dict* use_return_dict "
    "is_encoder_decoder is_decoder add_cross_attention cross_attention_hidden_size tie_encoder_decoder "
    "tie_word_embeddings chunk_size_feed_forward id2label label2id num_labels problem_type finetuning_task "
    "task_specific_params prefix pruned_heads tokenizer_class model_max_length max_sequence_length tf_legacy_loss "
    "use_bfloat16 torchscript xla_device gradient_checkpointing output_past pretraining_tp init_* initializer_* "
    "*dropout* *_pdrop *layerdrop layer_drop *_token_id *_token_ids *_token_index router_aux_loss_coef "
    "router_jitter_noise aux_loss_alpha seq_aux ep_size is_llama_config "
    /* generation of text */
    "max_length min_length max_new_tokens min_new_tokens do_sample early_stopping num_beams num_beam_groups "
    "temperature top_k top_p typical_p repetition_penalty diversity_penalty length_penalty no_repeat_ngram_size "
    "encoder_no_repeat_ngram_size encoder_repetition_penalty bad_words_ids num_return_sequences "
    "remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens epsilon_cutoff "
    "eta_cutoff num_assistant_tokens* assistant_* target_lookbehind forced_decoder_ids force_bos_token_to_be_generated";

/* Words in the names of keys about what a model computes. An unknown key without any of them is taken for a note of
 * some tool, and has no effect. */
static const char about_models[] =
    "*act_fn* *activation* *alibi* *attention* *attn* *bias* *block* *cap *capping* *causal* *clip* *conv* *dim *dims "
    "*embed* *eps *epsilon *expert* *ffn* *gate* *gated* *group* *head* *heads *hidden* *kernel* *kv* *lambda* "
    "*latent* "
    "*layer* *logit* *lora* *mask* *mlp* *moe* *multiplier* *norm* *pool* *position* *query* *qk* *residual* *rope* "
    "*rotary* *router* *scal* *share* *sink* *softmax* *sparse* *swiglu* *temperature* *tie* *vocab* *window*";

/* The keys that hold rotations. */
static const char rotation_words[] = "rope_parameters rope_scaling original_max_position_embeddings";

bool qkv_family_patterns_have(const char *patterns, const char *key) {
    char pattern[96];
    for (const char *at = patterns ? patterns : ""; *at; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(at, " "), at);
        if (qkv_text_matches(key, pattern)) return true;
    }
    return false;
}

/* ---- keys that a table reads ------------------------------------------------------------------------------------- */

/* The key that a search is for; `inside`: any key of the object of that name. */
struct wanted {
    const char *key;
    bool inside;
};

static bool wanted_is(const struct wanted *w, const char *name, size_t n) {
    const size_t key = strlen(w->key);
    return n >= key && !strncmp(name, w->key, key) && (w->inside ? n > key && name[key] == '.' : n == key);
}

/* Whether a list reads the key's value, "PATH=$KEY:TRANSFORM". */
static bool list_takes(const struct wanted *w, const char *list) {
    struct qkv_family_piece piece;
    while (list && qkv_family_next(&list, &piece))
        if (*piece.value == '$' && wanted_is(w, piece.value + 1, strcspn(piece.value + 1, ":"))) return true;
    return false;
}

/* Whether a list compares the key's value, "KEY=VALUE". */
static bool list_asks(const struct wanted *w, const char *list) {
    struct qkv_family_piece piece;
    while (list && qkv_family_next(&list, &piece))
        if (wanted_is(w, piece.key, strlen(piece.key))) return true;
    return false;
}

static bool choices_read(const struct wanted *w, const struct qkv_family_choice *choices) {
    for (const struct qkv_family_choice *c = choices; c && (!c->key || *c->key); c++) {
        if (c->key && wanted_is(w, c->key, strlen(c->key))) return true;
        for (const struct qkv_family_rule *rule = c->rules; rule->when; rule++)
            if (list_takes(w, rule->then) || (!c->key && list_asks(w, rule->when))) return true;
    }
    return false;
}

static bool layers_read(const struct wanted *w, const struct qkv_family_layers *layers) {
    const char *const *numbers = layers->numbers;
    const char *const names[] = {layers->list, numbers[0], numbers[1], numbers[2]};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && wanted_is(w, names[i], strlen(names[i]))) return true;
    for (const char *at = layers->layers ? layers->layers : ""; *at; at += strcspn(at, " "), at += *at == ' ')
        if (wanted_is(w, at, strcspn(at, " "))) return true;
    for (const struct qkv_family_kind *kind = layers->kinds; kind->value; kind++)
        if (list_takes(w, kind->then)) return true;
    return false;
}

static bool tensors_read(const struct wanted *w, const struct qkv_family_tensor *tensors) {
    for (const struct qkv_family_tensor *t = tensors; t && t->ours; t++)
        if (list_asks(w, t->when)) return true;
    return false;
}

static bool table_reads(const struct qkv_family *family, const char *key, bool inside) {
    const struct wanted w = {key, inside};
    return list_takes(&w, family->spec) || choices_read(&w, family->choices) ||
           (family->layers && layers_read(&w, family->layers)) || tensors_read(&w, family->tensors) ||
           tensors_read(&w, family->others) || list_asks(&w, family->needs) || list_asks(&w, family->aliases);
}

bool qkv_family_reads(const struct qkv_family *family, const char *key) {
    for (size_t i = 0; i < 2 && family->rotations[i]; i++)
        if (!strcmp(family->rotations[i], key)) return true;
    return table_reads(family, key, false) || (qkv_family_patterns_have(rotation_words, key) &&
                                               (family->rotations[0] || table_reads(family, "rope_scaling", false)));
}

bool qkv_family_knows(const struct qkv_family *family, const char *key) {
    return qkv_family_reads(family, key) || qkv_family_patterns_have(without_effect, key) ||
           qkv_family_patterns_have(family->idle, key);
}

/* Whether a key that the family does not know may change what a model computes. */
static bool may_matter(const char *key) {
    for (size_t i = 0; qkv_families[i]; i++)
        if (qkv_family_reads(qkv_families[i], key)) return true;
    return qkv_family_patterns_have(about_models, key);
}

/* ---- refusal of other keys --------------------------------------------------------------------------------------- */

/* Whether a value is null, false or empty: such a key has no effect. */
static bool says_nothing(const json_t *value) {
    return json_is_null(value) || json_is_false(value) || (json_is_string(value) && !*json_string_value(value)) ||
           (json_is_array(value) && !json_array_size(value)) || (json_is_object(value) && !json_object_size(value));
}

bool qkv_family_may_matter(const char *key, const json_t *value) {
    return !says_nothing(value) && !qkv_family_patterns_have(without_effect, key) && may_matter(key);
}

static enum qkv_status refuse_key(const struct qkv_family_reading *r, const char *key, const json_t *value) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const enum qkv_status status = qkv_fail(
        r->ctx, QKV_SPEC,
        "%s: %.80s is %.80s; models of type %s have no such key; take it out of the file if it changes nothing",
        r->name, key, text ? text : "", r->family->type);
    free(text);
    return status;
}

/* Decoders have causal masks and encoders none: a model with another mask is refused. */
static enum qkv_status check_mask(const struct qkv_family_reading *r) {
    static const char key[] = "is_causal";
    const json_t *value = json_object_get(r->config, key);
    const bool decoder = !strcmp(r->family->stacks, "decoder"), both = strchr(r->family->stacks, ' ') != NULL;
    if (!value || json_is_null(value) || (!both && json_is_boolean(value) && json_is_true(value) == decoder))
        return QKV_OK;
    return qkv_family_refuse(r, key, both ? "null" : decoder ? "true" : "false");
}

static enum qkv_status check_object(const struct qkv_family_reading *r, const char *under, const json_t *object) {
    const char *name;
    char key[192];
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        snprintf(key, sizeof key, "%s%s", under, name);
        if (says_nothing(value) || *name == '@' || qkv_family_knows(r->family, key)) continue;
        if (*under && qkv_family_patterns_have(without_effect, name)) continue;
        if (!*under && json_is_object(value) && table_reads(r->family, key, true)) {
            char inner[sizeof key + 1];
            snprintf(inner, sizeof inner, "%s.", key);
            const enum qkv_status status = check_object(r, inner, value);
            if (status) return status;
        } else if (strcmp(key, "is_causal") && may_matter(key)) {
            return refuse_key(r, key, value);
        }
    }
    return QKV_OK;
}

enum qkv_status qkv_family_check_keys(const struct qkv_family_reading *r) {
    const enum qkv_status status = check_mask(r);
    return status ? status : check_object(r, "", r->root);
}
