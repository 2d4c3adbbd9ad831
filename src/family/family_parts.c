/* Models of several parts, as text and images: the config.json of the text model, as the family of that model has it.
 * The other parts are left out. Positions of images have several numbers (M-RoPE), which are equal in texts: the
 * rotation of a text is that of one number. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"

#define TOWERS         "vision_tower.* multi_modal_projector.* model.vision_tower.* model.multi_modal_projector.*"
#define LANGUAGE_NAMES "language_model.model.=model.; language_model.lm_head.=lm_head.; model.language_model.=model."
#define QWEN_KEYS      "vision_config image_token_id video_token_id vision_*_token_id"

static const struct qkv_family_parts all_parts[] = {
    {.type = "gemma3",
     .texts = "gemma3_text=gemma3_text",
     .architectures = "Gemma3ForConditionalGeneration",
     .keys = "vision_config mm_tokens_per_image *_token_index",
     .names = LANGUAGE_NAMES,
     .others = TOWERS},
    {.type = "mistral3",
     .texts = "mistral=mistral; ministral3=ministral3; ministral=ministral",
     .architectures = "Mistral3ForConditionalGeneration",
     .keys = "vision_config image_token_index multimodal_projector_bias projector_hidden_act spatial_merge_size "
             "vision_feature_layer",
     .names = LANGUAGE_NAMES,
     .others = TOWERS},
    {.type = "llama4",
     .texts = "llama4_text=llama4_text",
     .architectures = "Llama4ForConditionalGeneration",
     .keys = "vision_config *_token_index",
     .names = LANGUAGE_NAMES,
     .others = "vision_model.* multi_modal_projector.* model.vision_model.* model.multi_modal_projector.*"},
    {.type = "llava",
     .texts = "llama=llama; mistral=mistral; qwen2=qwen2; qwen3=qwen3; gemma2=gemma2; phi3=phi3",
     .architectures = "LlavaForConditionalGeneration",
     .keys = "vision_config image_token_index image_seq_length multimodal_projector_bias projector_hidden_act "
             "vision_feature_layer vision_feature_select_strategy",
     .names = LANGUAGE_NAMES,
     .others = TOWERS},
    {.type = "qwen2_vl",
     .texts = "qwen2_vl_text=qwen2",
     .defaults = "rope_theta=1000000.0; rms_norm_eps=1e-5",
     .architectures = "Qwen2VLForConditionalGeneration",
     .keys = QWEN_KEYS,
     .names = "model.language_model.=model.",
     .others = "visual.* model.visual.*"},
    {.type = "qwen2_5_vl",
     .texts = "qwen2_5_vl_text=qwen2",
     .defaults = "rope_theta=1000000.0; rms_norm_eps=1e-5",
     .architectures = "Qwen2_5_VLForConditionalGeneration",
     .keys = QWEN_KEYS,
     .names = "model.language_model.=model.",
     .others = "visual.* model.visual.*"},
    {.type = "qwen3_vl",
     .texts = "qwen3_vl_text=qwen3",
     .defaults = "rope_theta=500000.0; max_position_embeddings=128000",
     .architectures = "Qwen3VLForConditionalGeneration",
     .keys = QWEN_KEYS,
     .names = "model.language_model.=model.",
     .others = "model.visual.*"},
    {.type = NULL},
};

const struct qkv_family_parts *qkv_family_parts_of(const json_t *root) {
    const char *type = json_string_value(json_object_get(root, "model_type"));
    for (const struct qkv_family_parts *p = all_parts; type && p->type; p++)
        if (!strcmp(p->type, type)) return p;
    return NULL;
}

const struct qkv_family_parts *qkv_family_parts_at(size_t i) {
    return i + 1 < sizeof all_parts / sizeof *all_parts ? &all_parts[i] : NULL;
}

/* ---- names of tensors -------------------------------------------------------------------------------------------- */

bool qkv_family_parts_name(const struct qkv_family_parts *parts, const char *name, size_t i,
                           char out[QKV_FAMILY_NAME]) {
    const char *list = parts->names;
    struct qkv_family_piece piece;
    while (qkv_family_next(&list, &piece)) {
        const size_t n = strlen(piece.value);
        if (strncmp(name, piece.value, n) != 0 || i-- > 0) continue;
        snprintf(out, QKV_FAMILY_NAME, "%s%.100s", piece.key, name + n);
        return true;
    }
    return false;
}

bool qkv_family_is_other_part(const struct qkv_family_config *config, const char *name) {
    return config->parts && qkv_family_patterns_have(config->parts->others, name);
}

static bool has_head(const struct qkv_family_parts *parts, qkv_family_has *has, const void *user) {
    static const char head[] = "lm_head.weight";
    char name[QKV_FAMILY_NAME];
    bool found = has(user, head);
    for (size_t i = 0; !found && qkv_family_parts_name(parts, head, i, name); i++) found = has(user, name);
    return found;
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

static enum qkv_status fail_part(const struct qkv_family_reading *r, const struct qkv_family_parts *parts,
                                 const char *key, const char *instead) {
    char *text = json_dumps(qkv_family_get(r->root, key), JSON_ENCODE_ANY | JSON_COMPACT);
    const enum qkv_status status = qkv_fail(r->ctx, QKV_SPEC, "%s: %s is %.80s; models of type %s can have: %s",
                                            r->name, key, text ? text : "missing", parts->type, instead);
    free(text);
    return status;
}

/* The family of a text model of that type; NULL: the first one. Returns false if there is none. */
static bool text_family(const struct qkv_family_parts *parts, const char *type,
                        char family[sizeof((struct qkv_family_piece *)NULL)->value]) {
    const char *list = parts->texts;
    struct qkv_family_piece piece;
    while (qkv_family_next(&list, &piece)) {
        if (type && strcmp(type, piece.key) != 0) continue;
        snprintf(family, sizeof piece.value, "%s", piece.value);
        return true;
    }
    return false;
}

static enum qkv_status refuse_text(const struct qkv_family_reading *r, const struct qkv_family_parts *parts) {
    char known[240] = "";
    const char *list = parts->texts;
    struct qkv_family_piece piece;
    while (qkv_family_next(&list, &piece)) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", piece.key);
    }
    return fail_part(r, parts, "text_config.model_type", known);
}

static enum qkv_status check_part(const struct qkv_family_reading *r, const struct qkv_family_parts *parts,
                                  const json_t *text) {
    const json_t *class = json_array_get(json_object_get(r->root, "architectures"), 0);
    const char *type = json_string_value(json_object_get(text, "model_type")), *key;
    const bool nested = text != r->root;
    char family[sizeof((struct qkv_family_piece *)NULL)->value];
    json_t *value;
    if (class && (!json_is_string(class) || strcmp(json_string_value(class), parts->architectures) != 0))
        return fail_part(r, parts, "architectures", parts->architectures);
    if (nested && json_object_get(text, "model_type") && !text_family(parts, type, family))
        return refuse_text(r, parts);
    json_object_foreach((json_t *)(uintptr_t)r->root, key, value) {
        if (!nested || !strcmp(key, "text_config") || qkv_family_patterns_have(parts->keys, key) ||
            qkv_family_same(value, json_object_get(text, key)) || !qkv_family_may_matter(key, value))
            continue;
        return fail_part(r, parts, key, "no such key");
    }
    return QKV_OK;
}

/* A rotation without its parts for images. */
static bool spell_rotation(json_t *text, const char *key) {
    json_t *rotation = json_object_get(text, key);
    if (!json_is_object(rotation) || !json_object_get(rotation, "mrope_section")) return true;
    static const char *const types[] = {"type", "rope_type"};
    bool made = true;
    json_object_del(rotation, "mrope_section");
    json_object_del(rotation, "mrope_interleaved");
    for (size_t i = 0; i < 2; i++) {
        const char *type = json_string_value(json_object_get(rotation, types[i]));
        if (type && !strcmp(type, "mrope"))
            made = made && !json_object_set_new(rotation, types[i], json_string("default"));
    }
    return made;
}

/* Whether scores use the embedding: what both parts of the file say; where they differ, or say nothing, the tensor
 * tells. */
static bool spell_tie(const json_t *root, json_t *text, const struct qkv_family_parts *parts, qkv_family_has *has,
                      const void *user) {
    static const char key[] = "tie_word_embeddings";
    json_t *whole = json_object_get(root, key), *own = json_object_get(text, key);
    if (whole && own && qkv_family_same(whole, own)) return true;
    if (has) return !json_object_set_new(text, key, json_boolean(!has_head(parts, has, user)));
    return own || !whole || !json_object_set(text, key, whole);
}

/* Ids of the whole that generation uses. */
static bool spell_ids(const json_t *root, json_t *text) {
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    bool made = true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && made; i++) {
        json_t *value = json_object_get(root, keys[i]);
        if (value && !json_is_null(value)) made = !json_object_set(text, keys[i], value);
    }
    return made;
}

/* Removes keys of other parts, in a file that has all keys in one object. */
static void leave_keys(json_t *text, const struct qkv_family_parts *parts) {
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(text, next, key, value) {
        if (qkv_family_patterns_have(parts->keys, key)) json_object_del(text, key);
    }
}

enum qkv_status qkv_family_take_text(const struct qkv_family_reading *r, qkv_family_has *has, const void *user,
                                     const struct qkv_family_parts **parts, json_t **out) {
    const json_t *text = json_object_get(r->root, "text_config");
    *out = NULL;
    *parts = qkv_family_parts_of(r->root);
    if (!*parts) return QKV_OK;
    if (text && !json_is_object(text)) return fail_part(r, *parts, "text_config", "an object");
    if (!text) text = r->root; /* older files of Qwen have all keys in one object */
    const enum qkv_status status = check_part(r, *parts, text);
    if (status) return status;
    const char *type = text == r->root ? NULL : json_string_value(json_object_get(text, "model_type"));
    char family[sizeof((struct qkv_family_piece *)NULL)->value];
    json_t *made = json_deep_copy(text);
    bool good = made != NULL && text_family(*parts, type, family);
    if (good && text == r->root) leave_keys(made, *parts);
    if (good) json_object_del(made, "architectures"); /* the first class of a family is the language model */
    const json_t *packed = json_object_get(r->root, "quantization_config");
    if (good && packed) good = !json_object_set(made, "quantization_config", (json_t *)(uintptr_t)packed);
    good = good && !json_object_set_new(made, "model_type", json_string(family)) &&
           spell_rotation(made, "rope_scaling") && spell_rotation(made, "rope_parameters") &&
           spell_tie(r->root, made, *parts, has, user) && spell_ids(r->root, made);
    const char *defaults = (*parts)->defaults;
    struct qkv_family_piece piece;
    while (good && qkv_family_next(&defaults, &piece)) {
        const bool theta = !strcmp(piece.key, "rope_theta");
        const json_t *rotation = theta ? json_object_get(made, "rope_parameters") : NULL;
        if (!json_object_get(made, piece.key) && !json_object_get(rotation, piece.key))
            good = !json_object_set_new(made, piece.key, qkv_family_constant(piece.value));
    }
    if (good) *out = made;
    if (!good) json_decref(made);
    return good ? QKV_OK : QKV_MEMORY;
}
