/* The keys of config.json in words: what the tables say of a key, with an example in two ways of writing. */
#include "base/json_load.h"
#include "model/spec_tables.h"

#include <stdlib.h>
#include <string.h>

/* The parts in the order of a reader. A test finds the keys of every object in one of them. */
static const struct {
    struct qkv_spec_part part;
    const struct qkv_key *keys; /* where the path does not lead to them: of a key at the top */
} parts[] = {
    {{"", "The whole model", "The keys at the top of config.json."}, qkv_spec_keys},
    {{"embed", "The embedding",
      "From the input to the first layer. Both stacks have these values, unless a stack has a value of its own: "
      "decoder.embed.scale."},
     NULL},
    {{"embed.position", "The position of the embedding", "The position that is added to the token embedding."}, NULL},
    {{"embed.norm", "The norm of the embedding",
      "A norm after the embedding; by default there is none. head.transform.norm has the same keys."},
     NULL},
    {{"embed.masked", "Masks in the embedding",
      "Embeddings of the mask are 0, and those of the other tokens of a sequence of n tokens, m of which are masks, "
      "are multiplied by (1 - share)*n/(n - m) (ESM-2); by default masks are tokens like others. Documents that "
      "are packed into a row are sequences of their own. Padding is not counted; tokens that another mask of a batch "
      "hides are. The attention of the stack must not be causal."},
     NULL},
    {{"embed.input", "Other inputs than tokens",
      "Images, frames of sound or vectors in the place of tokens. Such a stack has no token embedding, so tie must not "
      "be head."},
     NULL},
    {{"decoder", "A stack of layers",
      "The decoder. Every key of decoder is also a key of encoder, and every key of a layer is also a key of a kind of "
      "layer, decoder.kinds.NAME."},
     NULL},
    {{"decoder.attention", "Attention",
      "Self attention. decoder.cross, the attention to the encoder, has the same keys, without causal, window, "
      "window_right, chunk, temperature, latent and position."},
     NULL},
    {{"decoder.attention.qk_norm", "Norms of queries and keys",
      "One norm of the queries and one of the keys; by default there are none."},
     NULL},
    {{"decoder.attention.temperature", "Queries by position",
      "Queries grow with their positions, so that attention to many keys stays sharp; by default they do not."},
     NULL},
    {{"decoder.attention.latent", "Latent attention",
      "Keys and values are projected from a latent, which has few channels; by default there is none. The cache stores "
      "only the latent and rope_dim channels of each position (DeepSeek-AI 2024)."},
     NULL},
    {{"decoder.attention.position", "The position of attention",
      "A position inside self attention; by default there is none. The layers of a stack share the biases that they "
      "learn for distances, unless each has its own (per_layer)."},
     NULL},
    {{"decoder.attention.position.scaling", "RoPE for more positions",
      "RoPE at more positions than the model was trained with; by default the rotation does not change."},
     NULL},
    {{"decoder.norm", "Norms of a layer", "The norms around the sublayers, and the one after the last layer."}, NULL},
    {{"decoder.ffn", "The feed-forward", "The feed-forward of a layer."}, NULL},
    {{"decoder.ffn.experts", "Mixture of experts",
      "Several feed-forwards, of which a router chooses some for each token (Shazeer et al. 2017); by default there is "
      "one feed-forward for all tokens. No token is ever dropped."},
     NULL},
    {{"head", "The head", "From the hidden states of the last layer to the output."}, NULL},
    {{"head.transform", "A layer in the head",
      "It computes norm(activation(x*W + b)) of the hidden states x; by default there is none."},
     NULL},
    {{"init", "New weights",
      "The distribution of new weights. It is not part of the digest of a spec: trained weights do not depend on it."},
     NULL},
    {{"position", "Positions of version 1",
      "The position as version 1 writes it, in one place. A file of version 2 has embed.position and "
      "decoder.attention.position instead; as settings these keys work with files of both versions."},
     NULL},
};
enum { PARTS = sizeof parts / sizeof *parts };

bool qkv_spec_part_at(size_t i, struct qkv_spec_part *part) {
    if (!part || i >= PARTS) return false;
    *part = parts[i].part;
    return true;
}

/* ---- finding a key ----------------------------------------------------------------------------------------------- */

/* Where a search is: the keys of an object and what examples in it need. */
struct help_search {
    const char *target;               /* the path that is searched */
    const struct qkv_key *keys, *key; /* key: the one that was found last */
    char path[QKV_SPEC_KEY_PATH];     /* of the object that has `key`, "decoder.attention." */
    char needs[QKV_SPEC_KEY_TEXT];
};

/* Whether a text has this word, of n bytes, among words with spaces between them. */
static bool help_has(const char *words, const char *word, size_t n) {
    for (; *words; words += strcspn(words, " ") + (strchr(words, ' ') != NULL))
        if (!strncmp(words, word, n) && (!words[n] || words[n] == ' ')) return true;
    return false;
}

/* Appends settings, written from the object at s->path, with that path before each of them. Settings of the key that is
 * searched, of its own keys, and those that are there are left out. */
static void help_add_needs(struct help_search *s, const char *settings) {
    while (settings && *settings) {
        char word[QKV_SPEC_KEY_TEXT];
        const size_t used = strlen(s->needs), n = strcspn(settings, " "), target = strlen(s->target);
        const bool whole = *settings == '/';
        snprintf(word, sizeof word, "%s%.*s", whole ? "" : s->path, (int)(n - whole), settings + whole);
        const bool own = !strncmp(word, s->target, target) && (word[target] == '=' || word[target] == '.');
        if (!own && !help_has(s->needs, word, strlen(word)))
            snprintf(s->needs + used, sizeof s->needs - used, "%s%s", used ? " " : "", word);
        settings += n + (settings[n] == ' ');
    }
}

/* Enters the object, or the kind of layers, that was found, whose name in a path has n bytes. */
static void help_enter(struct help_search *s, const char *name, size_t n) {
    const size_t used = strlen(s->path);
    char pattern[QKV_KIND_NAME + 16];
    const char *kind = memchr(name, '.', n);
    snprintf(pattern, sizeof pattern, "pattern=[\"%.*s\"]", kind ? (int)(n - (size_t)(kind + 1 - name)) : 0,
             kind ? kind + 1 : "");
    help_add_needs(s, kind ? pattern : s->key->needs);
    snprintf(s->path + used, sizeof s->path - used, "%.*s.", (int)n, name);
    s->keys = s->key->keys;
}

/* Finds the key at a path. False if there is none. */
static bool help_find(struct help_search *s, const char *path) {
    const size_t top = strcspn(path, ".");
    const struct qkv_key *first = qkv_version1_keys;
    while (first->name && (strlen(first->name) != top || strncmp(first->name, path, top))) first++;
    *s = (struct help_search){.target = path, .keys = first->name ? qkv_version1_keys : qkv_spec_keys};
    if (strlen(path) >= sizeof s->path - 1) return false;
    while (s->keys) {
        size_t n = strcspn(path, ".");
        const struct qkv_key *key = s->keys;
        while (key->name && (strlen(key->name) != n || strncmp(key->name, path, n))) key++;
        if (!key->name) return false;
        s->key = key;
        if (!path[n]) return true;
        if (key->type == QKV_KEY_KINDS) { /* the next word is a name */
            char kind[QKV_KIND_NAME];
            const size_t word = strcspn(path + n + 1, ".");
            snprintf(kind, sizeof kind, "%.*s", (int)word, path + n + 1);
            if (word >= sizeof kind || !qkv_kind_name_valid(kind) || !path[n + 1 + word]) return false;
            n += 1 + word;
        }
        help_enter(s, path, n);
        path += n + 1;
    }
    return false;
}

/* The part that lists the keys of a table; NULL for none. */
static const char *help_part_of(const struct qkv_key *keys) {
    struct help_search s;
    if (keys == qkv_layer_keys) keys = qkv_stack_keys;
    if (keys == qkv_version1_keys) keys = qkv_spec_keys;
    for (size_t i = 0; i < PARTS; i++) {
        const char *path = parts[i].part.path;
        const struct qkv_key *own = parts[i].keys ? parts[i].keys : help_find(&s, path) ? s.key->keys : NULL;
        if (own == keys) return path;
    }
    return NULL;
}

/* ---- what the table says ----------------------------------------------------------------------------------------- */

static bool help_given(const struct qkv_key *key) {
    return key->type == QKV_KEY_OBJECT && !(key->flags & (QKV_KEY_NULL | QKV_KEY_OPTIONAL));
}

static void help_standard(const struct qkv_key *key, char *text, size_t size) {
    char number[QKV_REAL_TEXT];
    text[0] = 0;
    if (key->standard)
        snprintf(text, size, "%s", strcmp(key->standard, "must be given") != 0 ? key->standard : "");
    else if (key->flags & QKV_KEY_REQUIRED || help_given(key))
        return;
    else if (key->flags & (QKV_KEY_NULL | QKV_KEY_OPTIONAL))
        snprintf(text, size, "null");
    else if (key->type == QKV_KEY_CHOICE)
        snprintf(text, size, "%s", key->choices[(size_t)key->value].text);
    else if (key->type == QKV_KEY_FLAG)
        snprintf(text, size, "%s", key->value != 0 ? "true" : "false");
    else {
        qkv_real_text(number, key->value);
        char *zero = strstr(number, "e-0"); /* 1e-05 */
        if (zero) memmove(zero + 2, zero + 3, strlen(zero + 3) + 1);
        snprintf(text, size, "%s", number);
    }
}

/* The example of the table; else a value other than the default. */
static void help_example(const struct qkv_key *key, char *text, size_t size) {
    size_t i = 0;
    text[0] = 0;
    if (key->example)
        snprintf(text, size, "%s", key->example);
    else if (key->type == QKV_KEY_FLAG)
        snprintf(text, size, "%s", key->value != 0 ? "false" : "true");
    else if (key->type == QKV_KEY_CHOICE) {
        const bool none = key->flags & QKV_KEY_REQUIRED;
        while (key->choices[i].text && (!*key->choices[i].text || (!none && (double)i == key->value))) i++;
        if (key->choices[i].text) snprintf(text, size, "\"%s\"", key->choices[i].text);
    }
}

/* "a stack that reads tokens, or a head of kind lm," ends with a comma for the sentence that it stands in. */
static const char *help_owner(const struct qkv_key *key) {
    return key->type == QKV_KEY_WHOLE && !strcmp(key->name, "vocab") ? NULL : key->owner;
}

/* Puts a value at a path into a tree of objects. */
static bool help_put(json_t *root, const char *path, json_t *value) {
    char name[QKV_SPEC_KEY_PATH];
    json_t *at = root;
    for (size_t n; at && path[n = strcspn(path, ".")]; path += n + 1) {
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        json_t *inner = json_object_get(at, name);
        if (!inner && !json_object_set_new(at, name, json_object())) inner = json_object_get(at, name);
        at = inner;
    }
    return json_object_set_new(at, path, value) == 0;
}

/* The example, and what it needs, as one object. */
static void help_json(const struct qkv_spec_key *key, char json[QKV_SPEC_KEY_JSON]) {
    json_t *root = json_object();
    bool fine = root != NULL;
    for (const char *setting = key->needs; *setting && fine;) {
        char path[QKV_SPEC_KEY_TEXT], value[QKV_SPEC_KEY_TEXT];
        const size_t n = strcspn(setting, " "), equal = strcspn(setting, "=");
        snprintf(path, sizeof path, "%.*s", (int)equal, setting);
        snprintf(value, sizeof value, "%.*s", (int)(n - equal - 1), setting + equal + 1);
        json_t *parsed = qkv_json_value(value);
        fine = help_put(root, path, parsed ? parsed : json_string(value));
        setting += n + (setting[n] == ' ');
    }
    fine = fine && help_put(root, key->path, qkv_json_value(key->example));
    char *text = fine ? json_dumps(root, JSON_REAL_PRECISION(12)) : NULL;
    snprintf(json, QKV_SPEC_KEY_JSON, "%s", text ? text : "");
    free(text);
    json_decref(root);
}

bool qkv_spec_describe(const char *path, struct qkv_spec_key *out) {
    struct help_search s;
    if (!out) return false;
    *out = (struct qkv_spec_key){0};
    if (!path || !help_find(&s, path)) return false;
    const struct qkv_key *key = s.key;
    const char *part = help_part_of(s.keys), *inside = key->keys ? help_part_of(key->keys) : NULL;
    snprintf(out->path, sizeof out->path, "%s", path);
    snprintf(out->part, sizeof out->part, "%s", part ? part : "");
    snprintf(out->inside, sizeof out->inside, "%s", inside ? inside : "");
    out->help = key->help;
    out->owner = help_owner(key);
    qkv_key_words(key, out->range, sizeof out->range);
    help_standard(key, out->standard, sizeof out->standard);
    help_example(key, out->example, sizeof out->example);
    help_add_needs(&s, key->needs);
    snprintf(out->needs, sizeof out->needs, "%s", s.needs);
    for (size_t i = 0; key->type == QKV_KEY_CHOICE && key->choices[i].text; i++)
        if (*key->choices[i].text && out->choice_count < QKV_SPEC_KEY_CHOICES)
            out->choices[out->choice_count++] = key->choices[i];
    help_json(out, out->json);
    return true;
}

void qkv_spec_fail_key(struct qkv_context *ctx, const char *path) {
    struct help_search s;
    char known[QKV_SPEC_KEY_PATH];
    snprintf(known, sizeof known, "%s",
             path); /* "decoder.attention.", as places have it, ends with a key without name */
    while (*known && !help_find(&s, known)) {
        char *dot = strrchr(known, '.');
        *(dot ? dot : known) = 0;
    }
    qkv_fail_key(ctx, known);
}

bool qkv_spec_describe_at(size_t i, struct qkv_spec_key *out) {
    if (out) *out = (struct qkv_spec_key){0};
    for (size_t p = 0; out && p < PARTS; p++) {
        struct help_search s;
        char path[QKV_SPEC_KEY_PATH];
        const char *part = parts[p].part.path;
        const struct qkv_key *key = parts[p].keys ? parts[p].keys : help_find(&s, part) ? s.key->keys : NULL;
        for (bool more = true; key && (key->name || more); key++) {
            if (!key->name) { /* after the keys at the top, those of version 1 */
                more = false;
                if (*part) break;
                key = qkv_version1_keys;
            }
            if (i-- > 0) continue;
            snprintf(path, sizeof path, "%s%s%s", part, *part ? "." : "", key->name);
            return qkv_spec_describe(path, out);
        }
    }
    return false;
}
