/* The tokenizer of a model's folder: tokenizer.json; else the older files, models of SentencePiece and ranks of
 * tiktoken, which are rewritten as a tokenizer.json and read as one; and the special tokens that the folder's
 * configuration names. */
#include "text/spm.h"
#include "text/tiktoken.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENDS_KEY "more_end_tokens"
enum { CONFIG_BYTES = 1 << 24, VOCAB_BYTES = 1 << 28 };

static const char *const role_keys[QKV_TOKEN_ROLES] = {
#define FOLDER_KEY(name, key, help) [QKV_TOKEN_ROLE_##name] = key,
    QKV_TOKEN_ROLE_LIST(FOLDER_KEY)
#undef FOLDER_KEY
};

struct folder {
    struct qkv_context *ctx;
    const char *path;
    json_t *config, *map; /* tokenizer_config.json, special_tokens_map.json; NULL: missing */
    json_t *added;        /* added_tokens.json, for the older files */
    bool lowers;          /* sentence-transformers converts texts to lower case before the tokenizer */
    struct qkv_tokenizer *t;
};

static bool folder_has(const struct folder *f, const char *file) {
    struct stat info;
    char *name = qkv_join_path(f->ctx, f->path, file);
    const bool has = name && stat(name, &info) == 0 && S_ISREG(info.st_mode);
    free(name);
    return has;
}

/* Reads a JSON file of the folder; *root is NULL if it is missing. */
static enum qkv_status folder_json(const struct folder *f, const char *file, size_t max, json_t **root) {
    *root = NULL;
    if (!folder_has(f, file)) return QKV_OK;
    char *name = qkv_join_path(f->ctx, f->path, file);
    struct qkv_map map;
    enum qkv_status status = name ? qkv_read_file(f->ctx, name, &map) : QKV_MEMORY;
    if (!status) {
        const struct qkv_json_text text = {.name = name, .data = map.data, .size = map.size, .max_size = max};
        status = qkv_json_load(f->ctx, &text, root);
        qkv_unmap_file(&map);
    }
    free(name);
    return status;
}

/* A special token of the configuration: its text, or an object with it; NULL: not named. */
static const char *folder_special(const struct folder *f, const char *key) {
    const json_t *both[] = {f->config, f->map};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(both[i], key), *content = json_object_get(value, "content");
        const char *text = json_string_value(content ? content : value);
        if (text) return text;
    }
    return NULL;
}

static bool folder_flag(const struct folder *f, const char *key, bool fallback) {
    const json_t *value = json_object_get(f->config, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

/* ---- the older files --------------------------------------------------------------------------------------------- */

/* Appends the lines of a file to *list, without line ends. */
static enum qkv_status folder_lines(const struct folder *f, const char *file, json_t *list) {
    char *name = qkv_join_path(f->ctx, f->path, file);
    struct qkv_map map;
    enum qkv_status status = name ? qkv_read_file(f->ctx, name, &map) : QKV_MEMORY;
    if (status) {
        free(name);
        return status;
    }
    const char *s = (const char *)map.data;
    if (map.size > VOCAB_BYTES)
        status = qkv_fail(f->ctx, QKV_FORMAT, "%s has %zu bytes; at most %d are read", name, map.size, VOCAB_BYTES);
    for (size_t at = 0, line = 1; at < map.size && !status; line++) {
        const char *end = memchr(s + at, '\n', map.size - at);
        size_t n = end ? (size_t)(end - s) - at : map.size - at;
        const size_t next = at + n + 1;
        if (n && s[at + n - 1] == '\r') n--;
        json_t *text = json_stringn(s + at, n);
        if (!text || memchr(s + at, 0, n)) {
            json_decref(text);
            status = qkv_fail(f->ctx, QKV_FORMAT, "%s: line %zu is not UTF-8", name, line);
        } else if (json_array_append_new(list, text)) {
            status = qkv_fail_memory(f->ctx, 0, "a vocabulary");
        }
        at = next;
    }
    qkv_unmap_file(&map);
    free(name);
    return status;
}

static void folder_add(json_t *list, const char *text, json_int_t id, bool special) {
    json_array_append_new(list, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", text,
                                          "single_word", 0, "lstrip", !strcmp(text, "<mask>"), "rstrip", 0,
                                          "normalized", !special, "special", special));
}

/* added_tokens: the special tokens that are in the vocabulary, and those of added_tokens.json. */
static json_t *folder_added(const struct folder *f, const json_t *vocab) {
    static const char *const usual[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",  "[MASK]",          "<s>",
                                        "</s>",  "<pad>", "<unk>", "<mask>", QKV_TOKEN_TEXT_END};
    json_t *list = json_array(), *seen = json_object();
    const size_t count = QKV_TOKEN_ROLES + sizeof usual / sizeof *usual;
    for (size_t i = 0; i < count; i++) {
        const size_t named = QKV_TOKEN_ROLES;
        const char *text = i < named ? folder_special(f, role_keys[i]) : usual[i - named];
        const json_t *id = text ? json_object_get(vocab, text) : NULL;
        /* RoBERTa's vocabulary also has GPT-2's end token, which is ordinary text there. */
        if (i + 1 == count && json_object_get(vocab, "</s>")) continue;
        if (text && !id) id = json_object_get(f->added, text);
        if (!json_is_integer(id) || json_object_get(seen, text)) continue;
        json_object_set_new(seen, text, json_true());
        folder_add(list, text, json_integer_value(id), true);
    }
    const char *text;
    json_t *id;
    json_object_foreach(f->added, text, id) {
        if (json_object_get(seen, text)) continue;
        if (json_is_integer(id)) folder_add(list, text, json_integer_value(id), false);
    }
    json_decref(seen);
    return list;
}

/* [token, id] for a post-processor; NULL: the vocabulary does not have the token. */
static json_t *folder_pair(const json_t *vocab, const char *text) {
    const json_t *id = text ? json_object_get(vocab, text) : NULL;
    return json_is_integer(id) ? json_pack("[s, I]", text, json_integer_value(id)) : NULL;
}

static json_t *folder_processor(const struct folder *f, const json_t *vocab, const char *kind, const char *cls,
                                const char *sep) {
    const char *first = folder_special(f, "cls_token"), *last = folder_special(f, "sep_token");
    json_t *begin = folder_pair(vocab, first ? first : cls), *end = folder_pair(vocab, last ? last : sep);
    if (begin && end)
        return json_pack("{s:s, s:o, s:o, s:b, s:b}", "type", kind, "cls", begin, "sep", end, "trim_offsets", 1,
                         "add_prefix_space", folder_flag(f, "add_prefix_space", false));
    json_decref(begin);
    json_decref(end);
    return json_null();
}

/* vocab.json and merges.txt: GPT-2's byte-pair encoding, or, with a cls_token, RoBERTa's. */
static enum qkv_status folder_bpe(struct folder *f, json_t **root) {
    json_t *vocab, *lines = json_array(), *merges = json_array();
    enum qkv_status status = folder_json(f, "vocab.json", VOCAB_BYTES, &vocab);
    if (!status) status = folder_lines(f, "merges.txt", lines);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        json_t *line = json_array_get(lines, i);
        const bool version = i == 0 && !strncmp(json_string_value(line), "#version", 8);
        if (!version && json_string_length(line)) json_array_append(merges, line);
    }
    json_decref(lines);
    if (status) {
        json_decref(vocab);
        json_decref(merges);
        return status;
    }
    const bool space = folder_flag(f, "add_prefix_space", false);
    *root = json_pack("{s:s, s:o, s:n, s:{s:s, s:b, s:b, s:b}, s:{s:s, s:n, s:n, s:O, s:o}, s:o, s:{s:s}}", "version",
                      "1.0", "added_tokens", folder_added(f, vocab), "normalizer", "pre_tokenizer", "type", "ByteLevel",
                      "add_prefix_space", space, "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE", "dropout",
                      "unk_token", "vocab", vocab, "merges", merges, "post_processor",
                      folder_processor(f, vocab, "RobertaProcessing", "<s>", "</s>"), "decoder", "type", "ByteLevel");
    json_decref(vocab);
    return *root ? QKV_OK : qkv_fail_memory(f->ctx, 0, "a vocabulary");
}

/* The ids of the lines of vocab.txt. */
static enum qkv_status folder_vocab(const struct folder *f, json_t *vocab) {
    json_t *lines = json_array();
    const enum qkv_status status = folder_lines(f, "vocab.txt", lines);
    for (size_t i = 0; i < json_array_size(lines) && !status; i++) {
        const char *key = json_string_value(json_array_get(lines, i));
        if (*key) json_object_set_new(vocab, key, json_integer((json_int_t)i)); /* a repeated key has its last id */
    }
    json_decref(lines);
    return status;
}

/* vocab.txt of ESM: each line is a token that is cut out of the text wherever it is; what is left between white space
 * is unknown. */
static bool folder_is_esm(const struct folder *f) {
    const char *class = json_string_value(json_object_get(f->config, "tokenizer_class"));
    return class && !strcmp(class, "EsmTokenizer");
}

static json_t *folder_esm_template(const struct folder *f, const json_t *vocab) {
    const char *named[] = {folder_special(f, "cls_token"), folder_special(f, "eos_token")};
    const char *const first = named[0] ? named[0] : "<cls>", *const last = named[1] ? named[1] : "<eos>";
    const json_t *begin = json_object_get(vocab, first), *end = json_object_get(vocab, last);
    if (!begin || !end) return json_null();
    return json_pack("{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}, {s:{s:s, s:i}}], s:[], s:{s:{s:s, s:[I], s:[s]}, "
                     "s:{s:s, s:[I], s:[s]}}}",
                     "type", "TemplateProcessing", "single", "SpecialToken", "id", first, "type_id", 0, "Sequence",
                     "id", "A", "type_id", 0, "SpecialToken", "id", last, "type_id", 0, "pair", "special_tokens", first,
                     "id", first, "ids", json_integer_value(begin), "tokens", first, last, "id", last, "ids",
                     json_integer_value(end), "tokens", last);
}

static enum qkv_status folder_esm(struct folder *f, json_t **root) {
    json_t *vocab = json_object(), *added = NULL, *id;
    const char *unknown = folder_special(f, "unk_token"), *text;
    enum qkv_status status = folder_vocab(f, vocab);
    if (!status) added = folder_added(f, vocab);
    const size_t special = json_array_size(added);
    json_object_foreach(vocab, text, id) {
        bool seen = false;
        for (size_t i = 0; i < special && !seen; i++)
            seen = !strcmp(json_string_value(json_object_get(json_array_get(added, i), "content")), text);
        const bool named = !strcmp(text, "<cls>") || !strcmp(text, "<eos>"); /* the others are usual names */
        if (!seen && !status) folder_add(added, text, json_integer_value(id), named);
    }
    if (!status) {
        *root = json_pack("{s:s, s:O, s:n, s:{s:s}, s:{s:s, s:s, s:O}, s:o, s:n}", "version", "1.0", "added_tokens",
                          added, "normalizer", "pre_tokenizer", "type", "WhitespaceSplit", "model", "type", "WordLevel",
                          "unk_token", unknown ? unknown : "<unk>", "vocab", vocab, "post_processor",
                          folder_esm_template(f, vocab), "decoder");
        if (!*root) status = qkv_fail_memory(f->ctx, 0, "a vocabulary");
    }
    json_decref(added);
    json_decref(vocab);
    return status;
}

/* vocab.txt: BERT's WordPiece. */
static enum qkv_status folder_wordpiece(struct folder *f, json_t **root) {
    json_t *vocab = json_object();
    enum qkv_status status = folder_vocab(f, vocab);
    if (!status) {
        const char *unknown = folder_special(f, "unk_token");
        const json_t *accents = json_object_get(f->config, "strip_accents");
        *root = json_pack(
            "{s:s, s:o, s:{s:s, s:b, s:b, s:o, s:b}, s:{s:s}, s:{s:s, s:s, s:s, s:i, s:O}, s:o, s:{s:s, s:s, s:b}}",
            "version", "1.0", "added_tokens", folder_added(f, vocab), "normalizer", "type", "BertNormalizer",
            "clean_text", 1, "handle_chinese_chars", folder_flag(f, "tokenize_chinese_chars", true), "strip_accents",
            json_is_boolean(accents) ? json_boolean(json_is_true(accents)) : json_null(), "lowercase",
            folder_flag(f, "do_lower_case", true), "pre_tokenizer", "type", "BertPreTokenizer", "model", "type",
            "WordPiece", "unk_token", unknown ? unknown : "[UNK]", "continuing_subword_prefix", "##",
            "max_input_chars_per_word", 100, "vocab", vocab, "post_processor",
            folder_processor(f, vocab, "BertProcessing", "[CLS]", "[SEP]"), "decoder", "type", "WordPiece", "prefix",
            "##", "cleanup", 1);
        if (!*root) status = qkv_fail_memory(f->ctx, 0, "a vocabulary");
    }
    json_decref(vocab);
    return status;
}

/* ---- a tokenizer.json that was made ------------------------------------------------------------------------------ */

/* Adds a normalizer Lowercase before the others, as sentence-transformers 6 does where there is none. */
static enum qkv_status folder_lower(const struct folder *f, json_t *root) {
    json_t *old = json_object_get(root, "normalizer");
    json_t *parts = json_object_get(old, QKV_SPM_KEY) ? NULL : json_object_get(old, "normalizers");
    const size_t count = json_array_size(parts);
    json_t *list = json_pack("[{s:s}]", "type", "Lowercase");
    bool has = false;
    for (size_t i = 0; i < (count ? count : 1) && !has; i++) {
        json_t *part = count ? json_array_get(parts, i) : old;
        const char *type = json_string_value(json_object_get(part, "type"));
        has = type && !strcmp(type, "Lowercase");
        if (part && !json_is_null(part)) json_array_append(list, part);
    }
    json_t *all = json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
    const bool made = all && (has || !json_object_set(root, "normalizer", all));
    json_decref(all);
    return made ? QKV_OK : qkv_fail_memory(f->ctx, 0, "a normalizer");
}

static enum qkv_status folder_made(struct folder *f, const char *file, json_t *root) {
    enum qkv_status status = f->lowers && json_is_object(root) ? folder_lower(f, root) : QKV_OK;
    if (status) return status;
    char *name = qkv_join_path(f->ctx, f->path, file), *text = json_dumps(root, JSON_COMPACT);
    status = name && text ? qkv_tokenizer_parse(f->ctx, text, strlen(text), name, &f->t)
                          : qkv_fail_memory(f->ctx, 0, "a vocabulary");
    free(name);
    free(text);
    return status;
}

/* ---- SentencePiece and tiktoken ---------------------------------------------------------------------------------- */

static const char *const model_files[] = {"tokenizer.model",    "spiece.model",  "sentencepiece.bpe.model",
                                          "tiktoken.model",     "qwen.tiktoken", "cl100k_base.tiktoken",
                                          "o200k_base.tiktoken"};
enum { MODEL_FILES = sizeof model_files / sizeof *model_files };

/* added_tokens of added_tokens.json and tokenizer_config.json that are no pieces. */
static json_t *folder_more(const struct folder *f, const struct qkv_spm *spm) {
    json_t *list = json_array(), *seen = json_object(), *value;
    const char *key;
    json_object_foreach(json_object_get(f->config, "added_tokens_decoder"), key, value) {
        const char *text = json_string_value(json_object_get(value, "content"));
        char *end;
        const long long id = strtoll(key, &end, 10);
        if (!text || !*text || *end || id < 0 || qkv_spm_id(spm, text) >= 0) continue;
        json_t *token = json_copy(value);
        json_object_set_new(token, "id", json_integer(id));
        json_array_append_new(list, token);
        json_object_set_new(seen, text, json_true());
    }
    json_object_foreach(f->added, key, value) {
        if (!*key || !json_is_integer(value) || qkv_spm_id(spm, key) >= 0 || json_object_get(seen, key)) continue;
        folder_add(list, key, json_integer_value(value), true);
    }
    json_decref(seen);
    return list;
}

static enum qkv_status folder_spm(struct folder *f, const char *name, const struct qkv_map *map, json_t **root) {
    struct qkv_spm spm;
    struct qkv_spm_family family = {0};
    json_t *model = NULL;
    enum qkv_status status = qkv_spm_read(f->ctx, name, map->data, map->size, &spm);
    if (!status) status = folder_json(f, "config.json", CONFIG_BYTES, &model);
    const struct qkv_spm_folder folder = {.model = model,
                                          .config = f->config,
                                          .added = f->added,
                                          .begin = folder_special(f, "bos_token"),
                                          .end = folder_special(f, "eos_token")};
    if (!status) status = qkv_spm_adapt(f->ctx, &spm, &folder, &family);
    if (!status) family.added = folder_more(f, &spm);
    if (!status) status = qkv_spm_json(f->ctx, &spm, &family, root);
    qkv_spm_family_free(&family);
    qkv_spm_free(&spm);
    json_decref(model);
    return status;
}

/* A model of SentencePiece, or ranks: the content tells. */
static enum qkv_status folder_model(struct folder *f, const char *file) {
    char *name = qkv_join_path(f->ctx, f->path, file);
    struct qkv_map map;
    json_t *root = NULL;
    enum qkv_status status = name ? qkv_read_file(f->ctx, name, &map) : QKV_MEMORY;
    if (!status) {
        const bool spm = qkv_spm_is(map.data, map.size);
        status = spm ? folder_spm(f, name, &map, &root) : qkv_tokenizer_load(f->ctx, name, &f->t);
        if (!status && spm) status = folder_made(f, file, root);
        qkv_unmap_file(&map);
    }
    json_decref(root);
    free(name);
    return status;
}

/* The file of the folder that has such a model; NULL: none. */
static const char *folder_model_file(const struct folder *f) {
    for (size_t i = 0; i < MODEL_FILES; i++)
        if (folder_has(f, model_files[i])) return model_files[i];
    return NULL;
}

static enum qkv_status folder_none(const struct folder *f) {
    char names[256];
    size_t n = 0;
    for (size_t i = 0; i < MODEL_FILES && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, ", no %s", model_files[i]);
    return qkv_fail(f->ctx, QKV_FILE,
                    "%s has no tokenizer: no tokenizer.json, no vocab.json with merges.txt, no vocab.txt%s%s", f->path,
                    names, folder_has(f, "source.spm") ? "; source.spm and target.spm of Marian are not read" : "");
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

const char *const qkv_sentence_files[] = {QKV_SENTENCES_FILE,
                                          "sentence_roberta_config.json",
                                          "sentence_distilbert_config.json",
                                          "sentence_camembert_config.json",
                                          "sentence_albert_config.json",
                                          "sentence_xlm-roberta_config.json",
                                          "sentence_xlnet_config.json",
                                          NULL};

static enum qkv_status folder_sentences(struct folder *f) {
    json_t *root = NULL;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; qkv_sentence_files[i] && !status && !root; i++)
        status = folder_json(f, qkv_sentence_files[i], CONFIG_BYTES, &root);
    f->lowers = json_is_true(json_object_get(root, "do_lower_case"));
    json_decref(root);
    return status;
}

/* The id of the ordinary token with that key; −1: there is none. */
static int folder_key(const struct folder *f, const char *text, size_t size) {
    struct qkv_buffer key = {0};
    int found = -1;
    for (size_t id = 0; id < f->t->count && found < 0; id++) {
        key.size = 0;
        if (f->t->tokens[id].added || qkv_tokenizer_key(f->ctx, f->t, id, &key)) continue;
        if (key.size == size && !memcmp(key.data, text, size)) found = (int)id;
    }
    qkv_buffer_free(&key);
    return found;
}

static int folder_id(const struct folder *f, const char *text) {
    const int special = qkv_tokenizer_special(f->t, text);
    const size_t size = strlen(text);
    if (special >= 0) return special;
    for (size_t id = 0; id < f->t->count; id++)
        if (f->t->tokens[id].added && f->t->tokens[id].size == size && !memcmp(qkv_token_bytes(f->t, id), text, size))
            return (int)id;
    return folder_key(f, text, size);
}

/* Reads the templates of chats. A fault in their files is one of the calls that use them. */
static enum qkv_status folder_chats(struct folder *f) {
    enum qkv_status status = qkv_chat_sources_read(f->ctx, &f->t->chats, f->path);
    if (status != QKV_FORMAT) return status;
    qkv_forgive(f->ctx);
    qkv_chat_sources_free(&f->t->chats);
    return QKV_OK;
}

/* Reads more tokens that end a text: a list that only folders written by qkv have. */
static enum qkv_status folder_ends(struct folder *f) {
    const json_t *list = json_object_get(f->config, ENDS_KEY);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        const int id = text ? folder_id(f, text) : -1;
        if (id >= 0) status = qkv_tokenizer_add_end(f->ctx, f->t, id);
    }
    return status;
}

static enum qkv_status folder_languages(struct folder *f) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < 4 && !status; i++) {
        const json_t *code = json_object_get(f->config, qkv_language_keys[i / 2][i % 2]);
        status = qkv_language_name(f->ctx, f->t, i / 2, i % 2, json_string_value(code));
    }
    qkv_language_take_source(f->t);
    return status;
}

static enum qkv_status folder_roles(struct folder *f) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV_TOKEN_ROLES && !status; i++) {
        const char *text = folder_special(f, role_keys[i]);
        const int id = text ? folder_id(f, text) : -1;
        if (id >= 0) status = qkv_tokenizer_set_role(f->ctx, f->t, (enum qkv_token_role)i, id);
    }
    if (!status) status = folder_languages(f);
    return status ? status : folder_ends(f);
}

static enum qkv_status folder_read(struct folder *f) {
    json_t *root = NULL;
    enum qkv_status status = folder_json(f, "tokenizer_config.json", CONFIG_BYTES, &f->config);
    if (!status) status = folder_json(f, "special_tokens_map.json", CONFIG_BYTES, &f->map);
    if (!status) status = folder_json(f, "added_tokens.json", CONFIG_BYTES, &f->added);
    if (!status) status = folder_sentences(f);
    if (status) return status;
    if (folder_has(f, QKV_TOKENIZER_FILE)) {
        char *name = f->lowers ? NULL : qkv_join_path(f->ctx, f->path, QKV_TOKENIZER_FILE);
        if (name) status = qkv_tokenizer_load(f->ctx, name, &f->t);
        if (!name) status = f->lowers ? folder_json(f, QKV_TOKENIZER_FILE, VOCAB_BYTES, &root) : QKV_MEMORY;
        if (!status && root) status = folder_made(f, QKV_TOKENIZER_FILE, root);
        free(name);
    } else if (folder_has(f, "vocab.json") && folder_has(f, "merges.txt")) {
        status = folder_bpe(f, &root);
        if (!status) status = folder_made(f, "vocab.json", root);
    } else if (folder_has(f, "vocab.txt")) {
        status = folder_is_esm(f) ? folder_esm(f, &root) : folder_wordpiece(f, &root);
        if (!status) status = folder_made(f, "vocab.txt", root);
    } else if (folder_model_file(f)) {
        status = folder_model(f, folder_model_file(f));
    } else {
        status = folder_none(f);
    }
    json_decref(root);
    if (!status) status = folder_roles(f);
    return status ? status : folder_chats(f);
}

enum qkv_status qkv_tokenizer_missing(struct qkv_context *ctx, const char *problem, const char *doing, const char *file,
                                      const char *instead) {
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "%s%sthe model has no tokenizer, so it reads no text%s%s; put its %s into the model's folder%s",
                    doing ? doing : "", doing ? ": " : "", problem ? ": " : "", problem ? problem : "", file, instead);
}

enum qkv_status qkv_tokenizer_read_roles(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *folder,
                                         const char *file) {
    struct folder f = {.ctx = ctx, .path = folder, .t = t};
    enum qkv_status status = folder_json(&f, file, CONFIG_BYTES, &f.config);
    if (!status) status = folder_roles(&f);
    if (!status && !strcmp(file, QKV_ROLES_FILE)) status = folder_chats(&f);
    json_decref(f.config);
    return status;
}

/* Whether the configuration names special tokens, or has templates of chats. */
static bool roles_named(const struct qkv_tokenizer *t) {
    bool any = t->end_count > 0 || t->chats.count > 0;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) any = any || (t->has_role[i] && t->roles[i] >= 0);
    return any;
}

bool qkv_tokenizer_has_roles(const struct qkv_tokenizer *t) {
    return roles_named(t) || t->languages[0] || t->languages[1];
}

/* The text of a token, or its key, for a file; NULL: it is not UTF-8, or no memory. */
static json_t *roles_token(struct qkv_context *ctx, const struct qkv_tokenizer *t, int id) {
    struct qkv_buffer key = {0};
    size_t size;
    if (t->tokens[id].added) {
        const char *text = qkv_tokenizer_token(t, id, &size);
        return json_stringn(text, size);
    }
    json_t *text = qkv_tokenizer_key(ctx, t, (size_t)id, &key) ? NULL : json_stringn(key.data, key.size);
    qkv_buffer_free(&key);
    return text;
}

/* usual: also roles that no configuration names, of tokens with their usual names. */
static json_t *roles_json(struct qkv_context *ctx, const struct qkv_tokenizer *t, bool usual) {
    json_t *root = json_pack("{s:s}", "tokenizer_class", "PreTrainedTokenizerFast"), *ends = json_array();
    bool made = root && ends;
    for (size_t i = 0; i < QKV_TOKEN_ROLES && made; i++) {
        const int id = usual || t->has_role[i] ? qkv_tokenizer_role(t, (enum qkv_token_role)i) : -1;
        if (id >= 0) made = !json_object_set_new(root, role_keys[i], roles_token(ctx, t, id));
    }
    for (size_t i = 0; i < t->end_count && made; i++)
        made = !json_array_append_new(ends, roles_token(ctx, t, t->ends[i]));
    if (made && t->end_count) made = !json_object_set(root, ENDS_KEY, ends);
    json_decref(ends);
    for (size_t i = 0; i < 2 && made; i++)
        if (t->languages[i])
            made = !json_object_set_new(root, qkv_language_keys[i][t->short_keys[i]], json_string(t->languages[i]));
    if (made && t->chats.count) made = !json_object_set_new(root, "chat_template", qkv_chat_sources_json(&t->chats));
    if (made) return root;
    json_decref(root);
    return NULL;
}

enum qkv_status qkv_tokenizer_write_roles(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *folder,
                                          const char *file) {
    if (!qkv_tokenizer_has_roles(t)) return QKV_OK;
    return qkv_json_save(ctx, folder, file, roles_json(ctx, t, false));
}

enum qkv_status qkv_tokenizer_write_class(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *folder,
                                          const char *file) {
    return roles_named(t) ? QKV_OK : qkv_json_save(ctx, folder, file, roles_json(ctx, t, true));
}

enum qkv_status qkv_tokenizer_open(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return qkv_tokenizer_load(ctx, path, out);
    struct folder f = {.ctx = ctx, .path = path};
    enum qkv_status status = folder_read(&f);
    json_decref(f.config);
    json_decref(f.map);
    json_decref(f.added);
    if (status) {
        qkv_tokenizer_free(f.t);
        return status;
    }
    *out = f.t;
    return QKV_OK;
}
