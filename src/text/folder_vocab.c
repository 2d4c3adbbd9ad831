/* The older files of a folder, which are rewritten as a tokenizer.json: vocab.json with merges.txt, and vocab.txt. */
#include "text/folder.h"

#include <stdlib.h>
#include <string.h>

static bool folder_flag(const struct qkv_folder *f, const char *key, bool fallback) {
    const json_t *value = json_object_get(f->config, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Appends the lines of a file to *list, without line ends, or, with `strip`, without white space on both sides. */
static enum qkv_status folder_lines(const struct qkv_folder *f, const char *file, bool strip, json_t *list) {
    char *name = qkv_join_path(f->ctx, f->path, file);
    struct qkv_map map;
    enum qkv_status status = name ? qkv_read_file(f->ctx, name, &map) : QKV_MEMORY;
    if (status) {
        free(name);
        return status;
    }
    const char *s = (const char *)map.data;
    if (map.size > QKV_FOLDER_VOCAB_BYTES)
        status = qkv_fail(f->ctx, QKV_FORMAT, "%s has %zu bytes; at most %d are read", name, map.size,
                          QKV_FOLDER_VOCAB_BYTES);
    for (size_t at = 0, line = 1; at < map.size && !status; line++) {
        const char *end = memchr(s + at, '\n', map.size - at);
        size_t n = end ? (size_t)(end - s) - at : map.size - at;
        const size_t next = at + n + 1;
        if (n && s[at + n - 1] == '\r') n--;
        while (strip && n && is_space(s[at])) at++, n--;
        while (strip && n && is_space(s[at + n - 1])) n--;
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

void qkv_folder_add(json_t *list, const char *text, json_int_t id, bool special) {
    json_array_append_new(list, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", text,
                                          "single_word", 0, "lstrip", !strcmp(text, "<mask>"), "rstrip", 0,
                                          "normalized", !special, "special", special));
}

/* added_tokens: the special tokens that are in the vocabulary, and those of added_tokens.json. */
static json_t *folder_added(const struct qkv_folder *f, const json_t *vocab) {
    static const char *const usual[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",  "[MASK]",          "<s>",
                                        "</s>",  "<pad>", "<unk>", "<mask>", QKV_TOKEN_TEXT_END};
    json_t *list = json_array(), *seen = json_object();
    const size_t count = QKV_TOKEN_ROLES + sizeof usual / sizeof *usual;
    for (size_t i = 0; i < count; i++) {
        const size_t named = QKV_TOKEN_ROLES;
        const char *text = i < named ? qkv_folder_special(f, qkv_role_keys[i]) : usual[i - named];
        const json_t *id = text ? json_object_get(vocab, text) : NULL;
        /* RoBERTa's vocabulary also has GPT-2's end token, which is ordinary text there. */
        if (i + 1 == count && json_object_get(vocab, "</s>")) continue;
        if (text && !id) id = json_object_get(f->added, text);
        if (!json_is_integer(id) || json_object_get(seen, text)) continue;
        json_object_set_new(seen, text, json_true());
        qkv_folder_add(list, text, json_integer_value(id), true);
    }
    const char *text;
    json_t *id;
    json_object_foreach(f->added, text, id) {
        if (json_object_get(seen, text)) continue;
        if (json_is_integer(id)) qkv_folder_add(list, text, json_integer_value(id), false);
    }
    json_decref(seen);
    return list;
}

/* [token, id] for a post-processor; NULL: the vocabulary does not have the token. */
static json_t *folder_pair(const json_t *vocab, const char *text) {
    const json_t *id = text ? json_object_get(vocab, text) : NULL;
    return json_is_integer(id) ? json_pack("[s, I]", text, json_integer_value(id)) : NULL;
}

static json_t *folder_processor(const struct qkv_folder *f, const json_t *vocab, const char *kind, const char *cls,
                                const char *sep) {
    const char *first = qkv_folder_special(f, "cls_token"), *last = qkv_folder_special(f, "sep_token");
    json_t *begin = folder_pair(vocab, first ? first : cls), *end = folder_pair(vocab, last ? last : sep);
    if (begin && end)
        return json_pack("{s:s, s:o, s:o, s:b, s:b}", "type", kind, "cls", begin, "sep", end, "trim_offsets", 1,
                         "add_prefix_space", folder_flag(f, "add_prefix_space", false));
    json_decref(begin);
    json_decref(end);
    return json_null();
}

/* Whether the folder's tokenizer is of that class: its configuration says so, or, where it names none, the type of the
 * folder's model. */
static enum qkv_status folder_is(const struct qkv_folder *f, const char *class, const char *type, bool *is) {
    const char *named = json_string_value(json_object_get(f->config, "tokenizer_class"));
    json_t *model = NULL;
    *is = named && !strcmp(named, class);
    if (named) return QKV_OK;
    const enum qkv_status status = qkv_folder_json(f, "config.json", QKV_FOLDER_CONFIG_BYTES, &model);
    const char *of = json_string_value(json_object_get(model, "model_type"));
    *is = of && !strcmp(of, type);
    json_decref(model);
    return status;
}

/* vocab.json and merges.txt: GPT-2's byte-pair encoding, or, with a cls_token, RoBERTa's. */
enum qkv_status qkv_folder_merges(const struct qkv_folder *f, json_t **root) {
    bool small;
    enum qkv_status status = folder_is(f, "BlenderbotSmallTokenizer", "blenderbot-small", &small);
    if (status) return status;
    if (small)
        return qkv_fail(f->ctx, QKV_FILE,
                        "%s has a tokenizer of the class BlenderbotSmallTokenizer, whose vocab.json and merges.txt are "
                        "not read: their parts of words end in @@",
                        f->path);
    json_t *vocab, *lines = json_array(), *merges = json_array();
    status = qkv_folder_json(f, "vocab.json", QKV_FOLDER_VOCAB_BYTES, &vocab);
    if (!status) status = folder_lines(f, "merges.txt", false, lines);
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
static enum qkv_status folder_ids(const struct qkv_folder *f, bool strip, json_t *vocab) {
    json_t *lines = json_array();
    const enum qkv_status status = folder_lines(f, "vocab.txt", strip, lines);
    for (size_t i = 0; i < json_array_size(lines) && !status; i++) {
        const char *key = json_string_value(json_array_get(lines, i));
        if (*key) json_object_set_new(vocab, key, json_integer((json_int_t)i)); /* a repeated key has its last id */
    }
    json_decref(lines);
    return status;
}

#define PART "{s:{s:s, s:i}}"
/* <cls> A <eos>, and of pairs <cls> A <eos> B <eos>; null where the vocabulary lacks these. */
static json_t *folder_esm_template(const struct qkv_folder *f, const json_t *vocab) {
    const char *named[] = {qkv_folder_special(f, "cls_token"), qkv_folder_special(f, "eos_token")};
    const char *const first = named[0] ? named[0] : "<cls>", *const last = named[1] ? named[1] : "<eos>";
    const json_t *begin = json_object_get(vocab, first), *end = json_object_get(vocab, last);
    if (!begin || !end) return json_null();
    return json_pack("{s:s, s:[" PART PART PART "], s:[" PART PART PART PART PART "], s:{s:{s:s, s:[I], s:[s]}, "
                     "s:{s:s, s:[I], s:[s]}}}",
                     "type", "TemplateProcessing", "single", "SpecialToken", "id", first, "type_id", 0, "Sequence",
                     "id", "A", "type_id", 0, "SpecialToken", "id", last, "type_id", 0, "pair", "SpecialToken", "id",
                     first, "type_id", 0, "Sequence", "id", "A", "type_id", 0, "SpecialToken", "id", last, "type_id", 0,
                     "Sequence", "id", "B", "type_id", 1, "SpecialToken", "id", last, "type_id", 1, "special_tokens",
                     first, "id", first, "ids", json_integer_value(begin), "tokens", first, last, "id", last, "ids",
                     json_integer_value(end), "tokens", last);
}
#undef PART

/* vocab.txt of ESM: each line, without white space around it, is a token that is cut out of the text wherever it is;
 * what is left between white space is unknown. */
static enum qkv_status folder_esm(const struct qkv_folder *f, json_t **root) {
    json_t *vocab = json_object(), *added = NULL, *seen = json_object(), *id, *token;
    size_t i;
    const char *unknown = qkv_folder_special(f, "unk_token"), *text;
    enum qkv_status status = folder_ids(f, true, vocab);
    if (!status) added = folder_added(f, vocab);
    json_array_foreach(added, i, token) {
        json_object_set_new(seen, json_string_value(json_object_get(token, "content")), json_true());
    }
    json_object_foreach(vocab, text, id) {
        const bool named = !strcmp(text, "<cls>") || !strcmp(text, "<eos>"); /* the others are usual names */
        if (!json_object_get(seen, text) && !status) qkv_folder_add(added, text, json_integer_value(id), named);
    }
    if (!status) {
        *root = json_pack("{s:s, s:O, s:n, s:{s:s}, s:{s:s, s:s, s:O}, s:o, s:n}", "version", "1.0", "added_tokens",
                          added, "normalizer", "pre_tokenizer", "type", "WhitespaceSplit", "model", "type", "WordLevel",
                          "unk_token", unknown ? unknown : "<unk>", "vocab", vocab, "post_processor",
                          folder_esm_template(f, vocab), "decoder");
        if (!*root) status = qkv_fail_memory(f->ctx, 0, "a vocabulary");
    }
    json_decref(seen);
    json_decref(added);
    json_decref(vocab);
    return status;
}

/* vocab.txt: BERT's WordPiece. */
static enum qkv_status folder_wordpiece(const struct qkv_folder *f, json_t **root) {
    json_t *vocab = json_object();
    enum qkv_status status = folder_ids(f, false, vocab);
    if (!status) {
        const char *unknown = qkv_folder_special(f, "unk_token");
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

enum qkv_status qkv_folder_vocab(const struct qkv_folder *f, json_t **root) {
    bool esm;
    const enum qkv_status status = folder_is(f, "EsmTokenizer", "esm", &esm);
    return status ? status : esm ? folder_esm(f, root) : folder_wordpiece(f, root);
}
