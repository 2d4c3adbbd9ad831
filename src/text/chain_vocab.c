/* Reads the model of a tokenizer.json: its vocabulary, merges and flags. */
#include "text/spm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AFFIX_MAX 60        /* bytes of a prefix and of a suffix */
#define ID_END    (1 << 24) /* ids are less than this */
#define PENALTY   10.0      /* score of an unknown character, below the lowest one (SentencePiece) */

static bool vocab_absent(const json_t *value) {
    return !value || json_is_null(value);
}

/* Takes memory for the keys of ids up to `largest`, of added tokens and of holes. */
static enum qkv_status vocab_keys_room(struct chain_reader *r, size_t count, size_t largest) {
    struct qkv_chain *c = r->chain;
    c->key_count = qkv_max(2 * count + 8192, largest + 1);
    c->keys = qkv_allocate(r->ctx, c->key_count, sizeof *c->keys);
    c->key_sizes = qkv_allocate(r->ctx, c->key_count, sizeof *c->key_sizes);
    return c->keys && c->key_sizes ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status vocab_add(struct chain_reader *r, const char *key, size_t size, size_t id) {
    struct qkv_string *entry = qkv_strings_add(r->ctx, &r->chain->vocab, key, size);
    if (!entry) return QKV_MEMORY;
    entry->value = (int64_t)id;
    return QKV_OK;
}

/* The keys of the vocabulary: the file has them until the chain takes them over. */
static const struct qkv_strings *vocab_table(const struct chain_reader *r) {
    return r->chain->bytes ? &r->file->keys : &r->chain->vocab;
}

const struct qkv_string *qkv_chain_known(const struct chain_reader *r, const char *key, size_t size) {
    return qkv_strings_find(vocab_table(r), key, size);
}

/* Reads a vocabulary that is an object. The chain takes its keys over, unless it has bytes instead. */
static enum qkv_status read_object(struct chain_reader *r, const json_t *vocab) {
    if (!r->file->has_vocab) return qkv_json_refuse(r->ctx, r->name, "model.vocab", vocab, "an object of token: id");
    if (!r->chain->bytes) {
        r->chain->vocab = r->file->keys;
        r->file->keys = (struct qkv_strings){0};
    }
    const struct qkv_strings *keys = vocab_table(r);
    size_t largest = 0;
    for (size_t i = 0; i < keys->count; i++) {
        const struct qkv_string *e = &keys->entries[i];
        if (e->value < 0 || e->value >= ID_END)
            return qkv_fail(r->ctx, QKV_FORMAT,
                            "%s: the id of \"%.*s\" in model.vocab is not an integer in [0, %d), which is ample for a "
                            "vocabulary",
                            r->name, (int)qkv_min(e->size, 60), keys->bytes.data + e->offset, ID_END);
        largest = qkv_max(largest, (size_t)e->value);
    }
    return vocab_keys_room(r, keys->count, largest);
}

/* A score as the reference library reads it (serde_json without float_roundtrip): all digits are one integer, which is
 * rounded to a double, then multiplied or divided by a power of ten and rounded again. Where two segmentations have
 * nearly equal scores, the last bit decides. */
static double vocab_score(double x) {
    char text[QKV_REAL_TEXT], *end;
    uint64_t digits = 0;
    long power = 0;
    bool behind = false;
    const char *s = qkv_real_text(text, x);
    for (s += *s == '-'; *s == '.' || (*s >= '0' && *s <= '9'); s++) { /* 17 digits at most; the rest are zeros */
        if (*s == '.') {
            behind = true;
            continue;
        }
        if (digits > (UINT64_MAX - 9) / 10) return x;
        digits = digits * 10 + (uint64_t)(*s - '0');
        power -= behind;
    }
    if (*s == 'e' || *s == 'E') power += strtol(s + 1, &end, 10);
    if (!power || labs(power) > 300) return x;
    double ten = 1;
    char literal[16];
    snprintf(literal, sizeof literal, "1e%ld", labs(power));
    qkv_real_parse(literal, &ten);
    const double y = power < 0 ? (double)digits / ten : (double)digits * ten;
    return x < 0 ? -y : y;
}

static enum qkv_status read_pieces(struct chain_reader *r, const json_t *vocab) {
    struct qkv_chain *c = r->chain;
    const size_t count = json_array_size(vocab);
    double least = NAN;
    if (!json_is_array(vocab) || count == 0 || count > INT32_MAX / 4)
        return qkv_json_refuse(r->ctx, r->name, "model.vocab", vocab, "a list of [piece, score]");
    enum qkv_status status = vocab_keys_room(r, count, 0);
    c->scores = qkv_allocate(r->ctx, count, sizeof *c->scores);
    if (status || !c->scores) return QKV_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        const json_t *entry = json_array_get(vocab, i), *piece = json_array_get(entry, 0),
                     *score = json_array_get(entry, 1);
        if (!json_is_string(piece) || !json_is_number(score) || json_array_size(entry) != 2 ||
            !isfinite(json_number_value(score)))
            return qkv_fail(r->ctx, QKV_FORMAT, "%s: model.vocab[%zu] is not [\"piece\", score]", r->name, i);
        c->scores[i] = vocab_score(json_number_value(score));
        const enum qkv_spm_type type = qkv_chain_type(c, i);
        if ((!c->types || type == QKV_SPM_NORMAL) && !(c->scores[i] >= least)) least = c->scores[i];
        const char *key = json_string_value(piece);
        const size_t size = json_string_length(piece);
        status = vocab_add(r, key, size, i);
        if (!status && size && qkv_chain_spells(c, i) && type != QKV_SPM_UNUSED)
            status = qkv_trie_add(r->ctx, &c->trie, key, size, (int32_t)i);
    }
    c->unknown_score = least - PENALTY;
    return status;
}

/* A piece that occurs several times is found with its last id; all its ids have its text. */
static void vocab_twins(struct chain_reader *r, const json_t *vocab) {
    struct qkv_chain *c = r->chain;
    for (size_t i = 0; i < json_array_size(vocab) && c->vocab.count < json_array_size(vocab); i++) {
        const json_t *piece = json_array_get(json_array_get(vocab, i), 0);
        const struct qkv_string *e = qkv_strings_find(&c->vocab, json_string_value(piece), json_string_length(piece));
        c->keys[i] = c->vocab.bytes.data + e->offset;
        c->key_sizes[i] = e->size;
    }
}

/* Lists the key of each id, after the vocabulary is complete. */
static enum qkv_status vocab_keys(struct chain_reader *r) {
    struct qkv_chain *c = r->chain;
    const struct qkv_strings *keys = vocab_table(r);
    for (size_t i = 0; i < keys->count; i++) {
        const struct qkv_string *e = &keys->entries[i];
        const size_t id = (size_t)e->value;
        if (c->keys[id])
            return qkv_fail(r->ctx, QKV_FORMAT,
                            "%s: model.vocab: tokens \"%.*s\" and \"%.*s\" both have id %zu; ids must differ", r->name,
                            (int)qkv_min(c->key_sizes[id], 60), c->keys[id], (int)qkv_min(e->size, 60),
                            keys->bytes.data + e->offset, id);
        c->keys[id] = keys->bytes.data + e->offset;
        c->key_sizes[id] = e->size;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        char key[8];
        snprintf(key, sizeof key, "<0x%02X>", byte);
        const struct qkv_string *found = qkv_strings_find(keys, key, 6);
        c->byte_ids[byte] = found ? (int32_t)found->value : -1;
    }
    return QKV_OK;
}

static enum qkv_status vocab_unknown(struct chain_reader *r, const json_t *model) {
    struct qkv_chain *c = r->chain;
    const json_t *unknown = json_object_get(model, c->model == CHAIN_UNIGRAM ? "unk_id" : "unk_token");
    c->unknown = -1;
    if (vocab_absent(unknown)) return QKV_OK;
    if (c->model == CHAIN_UNIGRAM) {
        const json_int_t id = json_integer_value(unknown);
        if (!json_is_integer(unknown) || id < 0 || (size_t)id >= json_array_size(json_object_get(model, "vocab")))
            return qkv_json_refuse(r->ctx, r->name, "model.unk_id", unknown, "the place of a piece in model.vocab");
        c->unknown = (int32_t)id;
        return QKV_OK;
    }
    if (!json_is_string(unknown)) return qkv_json_refuse(r->ctx, r->name, "model.unk_token", unknown, "a text");
    const struct qkv_string *found = qkv_chain_known(r, json_string_value(unknown), json_string_length(unknown));
    if (!found && c->model == CHAIN_BPE && !c->bytes) /* where each byte is a token, nothing is unknown */
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: model.unk_token is \"%.60s\", which is not in model.vocab", r->name,
                        json_string_value(unknown));
    if (found) c->unknown = (int32_t)found->value;
    return QKV_OK;
}

/* ---- merges ------------------------------------------------------------------------------------------------------ */

static enum qkv_status merge_id(struct chain_reader *r, size_t i, const char *key, size_t size, int32_t *id) {
    const struct qkv_string *found = qkv_chain_known(r, key, size);
    if (found) *id = (int32_t)found->value;
    return found ? QKV_OK
                 : qkv_fail(r->ctx, QKV_FORMAT,
                            "%s: model.merges[%zu] needs the token \"%.*s\", which is not in model.vocab", r->name, i,
                            (int)qkv_min(size, 60), key);
}

static enum qkv_status vocab_merge(struct chain_reader *r, size_t i, struct qkv_buffer *joined) {
    const struct qkv_vocab_merge *merge = &r->file->merges[i];
    const char *left = merge->left, *right = merge->right;
    const size_t left_size = merge->left_size, right_size = merge->right_size;
    if (!left)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: model.merges[%zu] is neither \"a b\" nor [\"a\", \"b\"]", r->name, i);
    int32_t ids[3] = {0, 0, 0};
    const size_t skip = qkv_min(r->chain->prefix_size, right_size);
    enum qkv_status status = merge_id(r, i, left, left_size, &ids[0]);
    if (!status) status = merge_id(r, i, right, right_size, &ids[1]);
    joined->size = 0;
    if (!status) status = qkv_buffer_append(r->ctx, joined, left, left_size);
    if (!status) status = qkv_buffer_append(r->ctx, joined, right + skip, right_size - skip);
    if (!status) status = merge_id(r, i, joined->data, joined->size, &ids[2]);
    if (status) return status;
    /* A merge whose right part begins with the mark, after a left part that does not end with it, spans a mark: no cuts
     * then. */
    const bool marked = right_size >= 3 && memcmp(right, "\xE2\x96\x81", 3) == 0;
    if (marked && !(left_size >= 3 && memcmp(left + left_size - 3, "\xE2\x96\x81", 3) == 0))
        r->chain->splits_at_mark = false;
    return qkv_merges_add(r->ctx, &r->t->merges, ids[0], ids[1], ids[2]);
}

static enum qkv_status read_affix(struct chain_reader *r, const json_t *model, const char *key, char **out,
                                  size_t *size) {
    if (vocab_absent(json_object_get(model, key))) return QKV_OK;
    enum qkv_status status = qkv_chain_string(r, model, key, NULL, out);
    if (status) return status;
    *size = strlen(*out);
    return *size <= AFFIX_MAX ? QKV_OK
                              : qkv_fail(r->ctx, QKV_FORMAT, "%s: model.%s has %zu bytes; at most %d are read", r->name,
                                         key, *size, AFFIX_MAX);
}

/* Whether each byte has a token in the byte alphabet. */
static bool vocab_has_bytes(const struct chain_reader *r) {
    bool all = true;
    for (unsigned byte = 0; byte < 256 && all; byte++) {
        char key[4];
        all = qkv_strings_find(&r->file->keys, key, qkv_utf8_write(qkv_byte_symbol((unsigned char)byte), key)) != NULL;
    }
    return all;
}

/* Whether the tokens of a text before a U+2581 do not depend on those after it, unless a merge spans both: no run of
 * unknown characters does. */
static bool vocab_splits(const struct chain_reader *r) {
    const struct qkv_chain *c = r->chain;
    bool spelt = c->fallback;
    for (size_t i = 0; i < 256; i++) spelt = spelt && c->byte_ids[i] >= 0;
    const struct qkv_string *mark = qkv_chain_known(r, QKV_SPM_MARK, 3);
    spelt = spelt || (c->types && mark && qkv_chain_spells(c, (size_t)mark->value));
    return spelt && !c->bytes && !c->ignore_merges && !c->prefix_size && !c->suffix_size && !c->has_unused;
}

static enum qkv_status read_bpe(struct chain_reader *r, const json_t *model) {
    struct qkv_chain *c = r->chain;
    const json_t *dropout = json_object_get(model, "dropout"), *merges = json_object_get(model, "merges");
    if (!vocab_absent(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return qkv_json_refuse(r->ctx, r->name, "model.dropout", dropout,
                               "null and 0: merges are not left out by chance");
    enum qkv_status status = read_affix(r, model, "continuing_subword_prefix", &c->prefix, &c->prefix_size);
    if (!status) status = read_affix(r, model, "end_of_word_suffix", &c->suffix, &c->suffix_size);
    if (!status) status = qkv_chain_bool(r, model, "fuse_unk", false, &c->fuse_unknown);
    if (!status) status = qkv_chain_bool(r, model, "byte_fallback", false, &c->fallback);
    if (!status) status = qkv_chain_bool(r, model, "ignore_merges", false, &c->ignore_merges);
    c->bytes = c->bytes && !c->prefix_size && !c->suffix_size && vocab_has_bytes(r);
    if (!status) status = read_object(r, json_object_get(model, "vocab"));
    if (!status) status = vocab_keys(r);
    if (!status) status = vocab_unknown(r, model);
    if (!status && !json_is_array(merges)) status = qkv_json_refuse(r->ctx, r->name, "model.merges", merges, "a list");
    c->has_unused = c->has_unused && !c->bytes && c->fuse_unknown && !c->prefix_size && !c->suffix_size;
    for (size_t i = 0; i < 256 && c->fallback; i++) c->has_unused = c->has_unused && c->byte_ids[i] >= 0;
    c->splits_at_mark = !status && vocab_splits(r);
    struct qkv_buffer joined = {0};
    for (size_t i = 0; i < r->file->merge_count && !status; i++) status = vocab_merge(r, i, &joined);
    qkv_buffer_free(&joined);
    if (!status) status = qkv_spm_read_groups(r, model);
    return status ? status : qkv_merges_index(r->ctx, &r->t->merges, NULL);
}

/* ---- the other models -------------------------------------------------------------------------------------------- */

/* Packs the trie; units have the scores of SentencePiece. */
static enum qkv_status vocab_pack(struct chain_reader *r) {
    struct qkv_chain *c = r->chain;
    enum qkv_status status = qkv_trie_pack(r->ctx, &c->trie, &c->pack);
    for (size_t i = 0; i < c->pack.count && c->scores && !status; i++) {
        struct chain_unit *unit = &c->pack.units[i];
        if (unit->value < 0) continue;
        const bool user = qkv_chain_type(c, (size_t)unit->value) == QKV_SPM_USER;
        const double length = (double)c->key_sizes[unit->value];
        unit->score = user ? (float)(0.1 * (length - 1)) : (float)c->scores[unit->value];
    }
    qkv_trie_free(&c->trie);
    return status;
}

static enum qkv_status read_wordpiece(struct chain_reader *r, const json_t *model) {
    struct qkv_chain *c = r->chain;
    enum qkv_status status = qkv_chain_size(r, model, "max_input_chars_per_word", 100, &c->longest_word);
    if (!status) status = qkv_chain_string(r, model, "continuing_subword_prefix", "##", &c->prefix);
    if (!status) status = read_object(r, json_object_get(model, "vocab"));
    if (!status) status = vocab_keys(r);
    if (!status) status = vocab_unknown(r, model);
    for (size_t i = 0; i < c->vocab.count && !status; i++) {
        const struct qkv_string *e = &c->vocab.entries[i];
        if (e->size)
            status = qkv_trie_add(r->ctx, &c->trie, c->vocab.bytes.data + e->offset, e->size, (int32_t)e->value);
    }
    if (!status) status = vocab_pack(r);
    for (const char *s = c->prefix; !status && *s && c->continuing >= 0; s++)
        c->continuing = qkv_pack_step(c->pack.units, c->continuing, (unsigned char)*s);
    return status;
}

/* Whether no piece spans the beginning of a U+2581, so that a text of SentencePiece may be cut there. */
static bool vocab_splits_pieces(const struct chain_reader *r) {
    const struct qkv_chain *c = r->chain;
    const struct qkv_string *mark = qkv_chain_known(r, QKV_SPM_MARK, 3);
    bool splits = c->types && mark && qkv_chain_spells(c, (size_t)mark->value);
    for (size_t id = 0; id < c->type_count && splits; id++)
        splits = !qkv_chain_spells(c, id) || !c->keys[id] ||
                 qkv_model_mark(c->keys[id], c->key_sizes[id], 0) == c->key_sizes[id];
    return splits;
}

static enum qkv_status read_unigram(struct chain_reader *r, const json_t *model) {
    enum qkv_status status = qkv_chain_bool(r, model, "byte_fallback", false, &r->chain->fallback);
    const json_t *vocab = json_object_get(model, "vocab");
    if (!status) status = read_pieces(r, vocab);
    if (!status) status = vocab_keys(r);
    if (!status) vocab_twins(r, vocab);
    if (!status) status = vocab_pack(r);
    r->chain->splits_at_mark = !status && vocab_splits_pieces(r);
    return status ? status : vocab_unknown(r, model);
}

static enum qkv_status read_words(struct chain_reader *r, const json_t *model) {
    enum qkv_status status = read_object(r, json_object_get(model, "vocab"));
    if (!status) status = vocab_keys(r);
    return status ? status : vocab_unknown(r, model);
}

static const struct {
    const char *name;
    enum chain_model model;
    enum qkv_status (*read)(struct chain_reader *r, const json_t *model);
} models[] = {{"BPE", CHAIN_BPE, read_bpe},
              {"WordPiece", CHAIN_WORDPIECE, read_wordpiece},
              {"Unigram", CHAIN_UNIGRAM, read_unigram},
              {"WordLevel", CHAIN_WORDLEVEL, read_words}};

const char *qkv_vocab_model_name(const json_t *model) {
    const char *name = json_string_value(json_object_get(model, "type"));
    if (json_object_get(model, "type")) return name ? name : "";
    if (json_object_get(model, "merges")) return "BPE";
    if (json_is_array(json_object_get(model, "vocab"))) return "Unigram";
    return json_object_get(model, "max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

enum qkv_status qkv_chain_read_model(struct chain_reader *r, const json_t *model) {
    const char *name = qkv_vocab_model_name(model);
    if (!json_is_object(model)) return qkv_json_refuse(r->ctx, r->name, "model", model, "an object");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (strcmp(models[i].name, name) != 0) continue;
        r->chain->model = models[i].model;
        r->chain->bytes = r->chain->bytes && models[i].model == CHAIN_BPE;
        enum qkv_status status = qkv_spm_read_types(r, model);
        if (!status) status = models[i].read(r, model);
        if (!status) status = qkv_spm_read_users(r);
        r->t->unknown = r->chain->unknown;
        return status;
    }
    return qkv_json_refuse(r->ctx, r->name, "model.type", json_object_get(model, "type"),
                           "BPE, WordPiece, Unigram and WordLevel");
}
