/* From config.json to a spec: renames keys to the names of tables, then applies the family's table. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"

void qkv_family_config_free(struct qkv_family_config *config) {
    json_decref(config->keys);
    if (config->whole) qkv_spec_free(config->whole);
    free(config->whole);
    *config = (struct qkv_family_config){0};
}

bool qkv_family_is_config(const json_t *root) {
    return !json_object_get(root, "format") &&
           (json_object_get(root, "model_type") || json_object_get(root, "architectures"));
}

/* ---- which family ------------------------------------------------------------------------------------------------ */

/* Whether a list with commas contains a name. */
static bool names_have(const char *names, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',')
        if (n && strcspn(at, ",") == n && !strncmp(at, name, n)) return true;
    return false;
}

bool qkv_family_has_type(const struct qkv_family *family, const char *type) {
    return names_have(family->type, type);
}

static enum qkv_status unknown_family(const struct qkv_family_reading *r, const char *type) {
    const struct qkv_family *best[3] = {NULL};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; qkv_families[i]; i++) {
            const struct qkv_family *f = qkv_families[i];
            if (f == best[0] || f == best[1]) continue;
            if (!best[k] || qkv_name_distance(type, f->type) < qkv_name_distance(type, best[k]->type)) best[k] = f;
        }
    if (!*type) return qkv_fail(r->ctx, QKV_FORMAT, "%s: it has no model_type, so its family is not known", r->name);
    return qkv_fail(r->ctx, QKV_FORMAT,
                    "%s: model_type is \"%.60s\", which is not a known family of models; the nearest are %s, %s and "
                    "%s",
                    r->name, type, best[0]->type, best[1] ? best[1]->type : "", best[2] ? best[2]->type : "");
}

/* Finds the family of a type that reads the class, else the first family of the type. */
static enum qkv_status find_family(struct qkv_family_reading *r, const char *class) {
    const char *type = json_string_value(json_object_get(r->config, "model_type"));
    for (size_t i = 0; type && qkv_families[i]; i++) {
        if (!qkv_family_has_type(qkv_families[i], type)) continue;
        const bool has = class && names_have(qkv_families[i]->architectures, class);
        if (!r->family || has) r->family = qkv_families[i];
        if (has) break;
    }
    return r->family ? QKV_OK : unknown_family(r, type ? type : "");
}

/* Fails with all classes that the families of a type read. */
static enum qkv_status unknown_class(const struct qkv_family_reading *r, const char *class) {
    const char *type = json_string_value(json_object_get(r->config, "model_type"));
    struct qkv_buffer known = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; qkv_families[i] && !status; i++)
        if (qkv_family_has_type(qkv_families[i], type))
            status = qkv_buffer_print(r->ctx, &known, "%s%s", known.size ? "," : "", qkv_families[i]->architectures);
    if (!status)
        status = qkv_fail(r->ctx, QKV_SPEC, "%s: architectures is \"%.80s\"; %s can have: %s", r->name, class,
                          r->family->type, known.data);
    qkv_buffer_free(&known);
    return status;
}

/* architectures[0] becomes the keys architecture and class. */
static enum qkv_status find_architecture(struct qkv_family_reading *r) {
    const char *first = json_string_value(json_array_get(json_object_get(r->config, "architectures"), 0));
    char text[96];
    enum qkv_status status = find_family(r, first);
    if (status) return status;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(r->family->architectures, ","), r->family->architectures);
    if (!first) first = text;
    if (!names_have(r->family->architectures, first)) return unknown_class(r, first);
    const bool made = !json_object_set_new(r->config, "architecture", json_string(first)) &&
                      !json_object_set_new(r->config, "class", json_string(qkv_family_class(r->family, first)));
    return made ? QKV_OK : QKV_MEMORY;
}

/* ---- spellings --------------------------------------------------------------------------------------------------- */

static void spell_aliases(json_t *config, const char *aliases) {
    struct qkv_family_piece piece;
    while (qkv_family_next(&aliases, &piece)) {
        const bool wins = *piece.value == '!';
        const char *name = piece.value + wins;
        json_t *value = qkv_family_get(config, piece.key), *known = qkv_family_get(config, name);
        if (!value || json_is_null(value) || (known && !json_is_null(known) && !wins)) continue;
        qkv_family_put(config, name, json_incref(value));
    }
}

static bool fill_defaults(json_t *config, const char *defaults) {
    struct qkv_family_piece piece;
    while (qkv_family_next(&defaults, &piece))
        if (!qkv_family_get(config, piece.key) && !qkv_family_put(config, piece.key, qkv_family_constant(piece.value)))
            return false;
    return true;
}

/* Whether files have a tensor, also without the family's prefix, which files of the base model leave out. */
static bool files_have(const struct qkv_family_reading *r, const char *name, qkv_family_has *has, const void *user) {
    const size_t n = r->family->prefix ? strlen(r->family->prefix) : 0;
    char other[QKV_FAMILY_NAME];
    bool found = has && (has(user, name) || (n && !strncmp(name, r->family->prefix, n) && has(user, name + n)));
    for (size_t i = 0; has && !found && r->parts && qkv_family_parts_name(r->parts, name, i, other); i++)
        found = has(user, other);
    return found;
}

/* A classifier without id2label has two classes, as in transformers. */
static bool fill_labels(json_t *config) {
    const char *class = json_string_value(json_object_get(config, "class"));
    return !strstr(class, "Classification") || fill_defaults(config, "id2label={'0':'LABEL_0','1':'LABEL_1'}");
}

/* Whether embeddings are narrower than layers; tables ask "@narrow". */
static bool embeds_narrowly(const json_t *config) {
    const json_t *width = json_object_get(config, "embedding_size"), *hidden = json_object_get(config, "hidden_size");
    if (!width) width = json_object_get(config, "word_embed_proj_dim");
    return width && !json_is_null(width) && !qkv_family_same(width, hidden);
}

/* Adds a key for each tensor that a table asks about. */
static void find_tensors(const struct qkv_family_reading *r, const char *when, qkv_family_has *has, const void *user) {
    struct qkv_family_piece piece;
    while (qkv_family_next(&when, &piece))
        if (piece.key[0] == '@' && (has || !json_object_get(r->config, piece.key))) {
            const bool narrow = !strcmp(piece.key, "@narrow");
            const bool is = narrow ? embeds_narrowly(r->config) : files_have(r, piece.key + 1, has, user);
            json_object_set_new(r->config, piece.key, json_boolean(is));
        }
}

static void find_all_tensors(const struct qkv_family_reading *r, qkv_family_has *has, const void *user) {
    for (const struct qkv_family_choice *c = r->family->choices; c && (!c->key || *c->key); c++)
        for (const struct qkv_family_rule *rule = c->rules; rule->when && !c->key; rule++)
            find_tensors(r, rule->when, has, user);
    for (const struct qkv_family_tensor *t = r->family->tensors; t && t->ours; t++) find_tensors(r, t->when, has, user);
    for (const struct qkv_family_tensor *t = r->family->others; t && t->ours; t++) find_tensors(r, t->when, has, user);
}

/* Folders of sentence-transformers name a masked language model, but often have no weight of its head: they are read as
 * the encoder alone. */
static bool find_head(const struct qkv_family_reading *r, qkv_family_has *has, const void *user) {
    static const char masked[] = "ForMaskedLM", transform[] = "head.transform";
    const char *class = json_string_value(json_object_get(r->config, "class"));
    bool asked = false;
    size_t n;
    if (!has || strcmp(class, masked) != 0) return true;
    for (const struct qkv_family_tensor *t = r->family->tensors; t && t->ours; t++) {
        char name[QKV_FAMILY_NAME];
        if (strcmp(t->ours, transform) != 0 || !qkv_family_holds(r->config, t->when)) continue;
        asked = true;
        snprintf(name, sizeof name, "%s.weight", t->theirs);
        if (files_have(r, name, has, user)) return true;
    }
    const char *bare = qkv_family_architecture(r->family, "Model", &n);
    if (!asked || n < 5 || strncmp(bare + n - 5, "Model", 5) != 0) return true;
    return json_object_set_new(r->config, "class", json_string("Model")) == 0;
}

/* ---- required values --------------------------------------------------------------------------------------------- */

static enum qkv_status check_needs(const struct qkv_family_reading *r, const char *needs) {
    struct qkv_family_piece piece;
    while (qkv_family_next(&needs, &piece)) {
        char one[sizeof piece.key + sizeof piece.value + 1];
        snprintf(one, sizeof one, "%s=%s", piece.key, piece.value);
        const json_t *value = qkv_family_get(r->config, piece.key);
        if (!value || qkv_family_holds(r->config, one)) continue;
        char other[sizeof piece.value + 16];
        snprintf(other, sizeof other, "%s%s", *piece.value == '!' ? "other than " : "",
                 piece.value + (*piece.value == '!'));
        return qkv_family_refuse(r, piece.key, other);
    }
    return QKV_OK;
}

/* Reads the format of weights in few bits, which are read as floats: 8 bits of DeepSeek and 4 bits of gpt-oss. */
static enum qkv_status read_quantization(const struct qkv_family_reading *r, struct qkv_family_config *config) {
    const json_t *quantization = json_object_get(r->config, "quantization_config");
    if (!quantization || json_is_null(quantization)) return QKV_OK;
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    const char *fmt = json_string_value(json_object_get(quantization, "fmt"));
    const json_t *block = json_object_get(quantization, "weight_block_size");
    config->packed = method && !strcmp(method, "mxfp4");
    if (!config->packed && (!method || strcmp(method, "fp8")))
        return qkv_family_refuse(r, "quantization_config.quant_method",
                                 "\"fp8\", \"mxfp4\", or no quantization_config");
    if (!config->packed && fmt && strcmp(fmt, "e4m3"))
        return qkv_family_refuse(r, "quantization_config.fmt", "\"e4m3\"");
    for (size_t i = 0; i < 2 && !config->packed; i++) {
        const json_int_t size = json_integer_value(json_array_get(block, i));
        if (size < 1 || size > 1 << 20 || json_array_size(block) != 2)
            return qkv_family_refuse(r, "quantization_config.weight_block_size", "[ROWS, COLUMNS], \"[128, 128]\"");
        config->block[i] = (size_t)size;
    }
    json_object_del(r->config, "quantization_config");
    return QKV_OK;
}

/* ---- the spec ---------------------------------------------------------------------------------------------------- */

/* Sets a path in all stacks that it names. */
static bool put_all(const struct qkv_family_reading *r, const char *path, json_t *value) {
    char whole[320];
    bool made = true;
    if (*path != '*') return qkv_family_put(r->spec, path, json_incref(value));
    for (const char *at = r->family->stacks; *at && made; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(whole, sizeof whole, "%.*s%s", (int)strcspn(at, " "), at, path + 1);
        made = qkv_family_put(r->spec, whole, json_deep_copy(value));
    }
    return made;
}

/* Stores the key whose value a path has, for messages. */
static bool name_path(const struct qkv_family_reading *r, const char *path, const char *value) {
    char whole[320];
    if (*path != '*') return json_object_set_new(r->paths, path, json_string(value)) == 0;
    bool named = true;
    for (const char *at = r->family->stacks; *at && named; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(whole, sizeof whole, "%.*s%s", (int)strcspn(at, " "), at, path + 1);
        named = json_object_set_new(r->paths, whole, json_string(value)) == 0;
    }
    return named;
}

/* Applies the settings of a list under a path. */
static enum qkv_status put_list(const struct qkv_family_reading *r, const char *under, const char *list) {
    struct qkv_family_piece piece;
    enum qkv_status status;
    char path[224];
    while (qkv_family_next(&list, &piece)) {
        const char *why;
        json_t *value = qkv_family_value(r->config, piece.value, &why);
        if (why) {
            json_decref(value);
            char key[sizeof piece.value];
            snprintf(key, sizeof key, "%.*s", (int)strcspn(piece.value + 1, ":"), piece.value + 1);
            char *text = json_dumps(qkv_family_get(r->config, key), JSON_ENCODE_ANY | JSON_COMPACT);
            status = qkv_fail(r->ctx, QKV_SPEC, "%s: the key %s %s%.60s%s%s", r->name, key, text ? "(" : "",
                              text ? text : "", text ? ") " : "", why);
            free(text);
            return status;
        }
        if (!value) return QKV_MEMORY;
        snprintf(path, sizeof path, "%s%s", under, piece.key);
        const bool taken = *piece.value == '$', own = taken && json_is_null(value); /* own: the spec's default */
        const bool made = (!taken || name_path(r, path, piece.value + 1)) && (own || put_all(r, path, value));
        json_decref(value);
        if (!made) return QKV_MEMORY;
    }
    return QKV_OK;
}

static bool rule_holds(const struct qkv_family_reading *r, const char *key, const char *when) {
    if (!key) return qkv_family_holds(r->config, when);
    json_t *value = qkv_family_constant(when);
    const bool same = qkv_family_same(qkv_family_get(r->config, key), value);
    json_decref(value);
    return same;
}

static enum qkv_status put_choice(const struct qkv_family_reading *r, const struct qkv_family_choice *choice) {
    for (const struct qkv_family_rule *rule = choice->rules; rule->when; rule++)
        if (rule_holds(r, choice->key, rule->when)) return put_list(r, "", rule->then);
    return qkv_family_refuse_choice(r, choice);
}

/* ---- kinds of layers --------------------------------------------------------------------------------------------- */

static int kind_listed(const struct qkv_family_reading *r, const json_t *value) {
    const struct qkv_family_kind *kinds = r->family->layers->kinds;
    for (int k = 0; value && kinds[k].value; k++) {
        json_t *wanted = qkv_family_constant(kinds[k].value);
        const bool same = qkv_family_same(value, wanted);
        json_decref(wanted);
        if (same) return k;
    }
    return -1;
}

static enum qkv_status kind_of(const struct qkv_family_reading *r, int layer, int *kind) {
    const struct qkv_family_layers *layers = r->family->layers;
    const json_t *list = layers->list ? qkv_family_get(r->config, layers->list) : NULL;
    const json_t *value = json_array_get(list, (size_t)layer);
    int listed = kind_listed(r, value);
    if (json_is_array(list) && listed < 0)
        return qkv_fail(r->ctx, QKV_SPEC, "%s: %s gives layer %d a kind that models of type %s cannot have", r->name,
                        layers->list, layer, r->family->type);
    *kind = layers->kind ? layers->kind(r->config, layer, listed) : listed < 0 ? 0 : listed;
    if (*kind >= 0) return QKV_OK;
    const bool windows = qkv_family_reads(r->family, "use_sliding_window");
    return qkv_family_refuse(r, layers->list,
                             windows ? "a list without sliding_attention, as use_sliding_window is false"
                                     : "a list with the kind of each layer");
}

static bool is_type(const json_t *value) {
    const char *type = json_string_value(value);
    return type && (!strcmp(type, "full_attention") || !strcmp(type, "sliding_attention"));
}

static enum qkv_status refuse_length(const struct qkv_family_reading *r, const char *list, json_int_t count) {
    const char *stack = strstr(r->family->stacks, "decoder") ? "decoder.layers" : "encoder.layers";
    const char *key = json_string_value(json_object_get(r->paths, stack));
    char instead[160];
    snprintf(instead, sizeof instead, "a list with a value for each of the %lld layers (%s)", (long long)count,
             key ? key : stack);
    return qkv_family_refuse(r, list, instead);
}

/* Whether a key is absent or a list of layers, or of a type for each layer. */
static bool layers_listed(const struct qkv_family_reading *r, const char *key, bool types) {
    const json_t *value = qkv_family_get(r->config, key);
    bool good = !value || json_is_null(value) || json_is_array(value);
    for (size_t i = 0; i < json_array_size(value) && good; i++)
        good = types ? is_type(json_array_get(value, i)) : json_is_integer(json_array_get(value, i));
    return good;
}

/* Checks the keys that determine the kinds of layers; null counts as absent. */
static enum qkv_status check_layers(const struct qkv_family_reading *r, json_int_t count) {
    const struct qkv_family_layers *of = r->family->layers;
    const bool types = of->layers && !strcmp(of->layers, "layer_types");
    const char *const lists[] = {of->list, types ? of->layers : NULL};
    for (size_t i = 0; i < 2; i++) {
        const json_t *list = lists[i] ? qkv_family_get(r->config, lists[i]) : NULL;
        if (list && !json_is_null(list) && (!json_is_array(list) || (json_int_t)json_array_size(list) != count))
            return refuse_length(r, lists[i], count);
    }
    for (size_t i = 0; i < sizeof of->numbers / sizeof *of->numbers && of->numbers[i]; i++) {
        const json_t *value = qkv_family_get(r->config, of->numbers[i]);
        if (value && !json_is_null(value) && !json_is_integer(value))
            return qkv_family_refuse(r, of->numbers[i], "a whole number");
    }
    for (const char *at = of->layers ? of->layers : ""; *at; at += strcspn(at, " "), at += *at == ' ') {
        char key[96];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(at, " "), at);
        if (!layers_listed(r, key, types))
            return qkv_family_refuse(
                r, key, types ? "a list of full_attention and sliding_attention" : "a list of layers, [0, 2]");
    }
    return QKV_OK;
}

/* The largest number of kinds of a table; a model has at most QKV_KINDS_MAX of them. */
enum { TABLE_KINDS = 16 };

static enum qkv_status put_layers(const struct qkv_family_reading *r) {
    const struct qkv_family_kind *kinds = r->family->layers->kinds;
    const char *stack = strchr(r->family->stacks, ' ') ? strchr(r->family->stacks, ' ') + 1 : r->family->stacks;
    char path[96];
    snprintf(path, sizeof path, "%s.layers", stack);
    const json_t *count = qkv_family_get(r->spec, path);
    enum qkv_status status = json_is_integer(count) ? check_layers(r, json_integer_value(count)) : QKV_OK;
    if (status || !json_is_integer(count)) return status; /* put_list refuses a count that is not a number */
    json_t *pattern = json_array();
    bool has[TABLE_KINDS] = {false}, several = false;
    int kind = 0, first = 0;
    status = pattern ? QKV_OK : QKV_MEMORY;
    for (int i = 0; i < (int)json_integer_value(count) && i < QKV_LAYERS_MAX && !status; i++) {
        status = kind_of(r, i, &kind);
        if (status) break;
        if (i == 0) first = kind;
        several = several || kind != first;
        has[kind] = true;
        json_array_append_new(pattern, json_string(kinds[kind].name));
    }
    for (kind = 0; kinds[kind].value && !status; kind++) {
        snprintf(path, sizeof path, several ? "%s.kinds.%s." : "%s.", stack, kinds[kind].name);
        if (has[kind]) status = put_list(r, path, kinds[kind].then);
        if (has[kind] && several && !status) { /* a kind may have no settings of its own */
            path[strlen(path) - 1] = 0;
            if (!qkv_family_get(r->spec, path)) qkv_family_put(r->spec, path, json_object());
        }
    }
    snprintf(path, sizeof path, "%s.pattern", stack);
    if (several && !status && !qkv_family_put(r->spec, path, json_incref(pattern))) status = QKV_MEMORY;
    json_decref(pattern);
    return status;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* A message about a value that no spec can have is rewritten to name the key that it was read from. */
static enum qkv_status parse_spec(const struct qkv_family_reading *r, struct qkv_spec *spec, const char *text) {
    const enum qkv_status status = qkv_spec_parse(r->ctx, spec, r->name, text, strlen(text), NULL, 0);
    char *message = status ? qkv_family_reword(r, qkv_message(r->ctx)) : NULL;
    if (message) qkv_fail(r->ctx, status, "%s", message);
    free(message);
    return status;
}

static enum qkv_status make_spec(struct qkv_family_reading *r, struct qkv_spec *spec) {
    static const char start[] = "format='qkv'; version=2";
    r->spec = json_object();
    r->paths = json_object();
    enum qkv_status status = r->spec && r->paths ? put_list(r, "", start) : QKV_MEMORY;
    if (!status) status = put_list(r, "", r->family->spec);
    for (const struct qkv_family_choice *c = r->family->choices; c && (!c->key || *c->key) && !status; c++)
        status = put_choice(r, c);
    if (!status && r->family->layers) status = put_layers(r);
    char *text = status ? NULL : json_dumps(r->spec, JSON_REAL_PRECISION(17));
    if (!status && !text) status = QKV_MEMORY;
    if (!status) status = parse_spec(r, spec, text);
    free(text);
    json_decref(r->spec);
    json_decref(r->paths);
    return status;
}

enum qkv_status qkv_family_read(struct qkv_context *ctx, const char *name, const json_t *root, qkv_family_has *has,
                                const void *user, struct qkv_family_config *config, struct qkv_spec *spec) {
    struct qkv_family_reading r = {.ctx = ctx, .name = name, .root = root};
    json_t *text;
    enum qkv_status status = qkv_family_take_text(&r, has, user, &r.parts, &text);
    if (text) r.root = text;
    if (!status) r.config = json_deep_copy(r.root);
    if (!status) status = r.config ? find_architecture(&r) : QKV_MEMORY;
    if (!status) status = qkv_family_spell_rotations(&r);
    if (!status) {
        spell_aliases(r.config, r.family->aliases);
        if (!fill_defaults(r.config, r.family->defaults) || !fill_labels(r.config)) status = QKV_MEMORY;
        if (!status && !find_head(&r, has, user)) status = QKV_MEMORY;
        find_all_tensors(&r, has, user);
    }
    *config = (struct qkv_family_config){0};
    *spec = (struct qkv_spec){0};
    if (!status) status = read_quantization(&r, config);
    if (!status) status = check_needs(&r, r.family->needs);
    if (!status) status = make_spec(&r, spec);
    if (!status) status = qkv_family_check_keys(&r);
    config->family = r.family;
    config->parts = r.parts;
    config->keys = r.config;
    json_decref(text);
    if (status) qkv_family_config_free(config);
    if (status) qkv_spec_free(spec);
    return status;
}
