/* Makes a tokenizer from a text: vocabularies of bytes, chars, words, whitespace and bpe. The text is read once, front
 * to back, whole or in parts, and only its distinct pieces are stored. Special tokens in it are cut out and not
 * counted. */
#include "base/sized_options.h"
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_BPE_VOCAB 1024

/* ---- counting ---------------------------------------------------------------------------------------------------- */

struct counter {
    struct qkv_context *ctx;
    struct qkv_strings pieces; /* the pieces and their counts */
};

static enum qkv_status train_tokenizer_count(struct counter *c, const char *s, size_t n) {
    struct qkv_string *piece = qkv_strings_add(c->ctx, &c->pieces, s, n);
    if (!piece) return QKV_MEMORY;
    piece->value++;
    return QKV_OK;
}

static enum qkv_status count_piece(void *user, const char *s, size_t n) {
    return train_tokenizer_count(user, s, n);
}

/* Counts a word, unless it cannot be a key of a JSON object: with U+0000, or not UTF-8. */
static enum qkv_status count_word(void *user, const char *s, size_t n) {
    if (memchr(s, 0, n) || qkv_utf8_valid(s, n) < n) return QKV_OK;
    return train_tokenizer_count(user, s, n);
}

/* Counts characters, without U+0000, which cannot be in keys of a JSON object here: it is spelled as a byte, or
 * unknown. */
static enum qkv_status count_characters(void *user, const char *s, size_t n) {
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; at < n && !status;) {
        const size_t begin = at;
        const uint32_t code = qkv_code_next(s, n, &at);
        if (code && code < QKV_CODE_BYTE) status = train_tokenizer_count(user, s + begin, at - begin);
    }
    return status;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

#define FALLBACK "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}]}"

/* What a kind counts in a text, and the tokens that each of its vocabularies has: the 256 bytes, padding, an unknown
 * token (of words only where the vocabulary leaves some out). */
static const struct trained {
    struct chain_row row;
    chain_piece_visit *count; /* NULL: the text does not matter */
    bool bytes, pads, unknown, sorted /* by bytes, not by frequency */, merges;
    const char *holds; /* the tokens, for messages */
} kinds[] = {
    [QKV_TOKENIZER_BYTES] = {.row = {.splitter = QKV_BYTE_LEVEL("false"), .decoder = QKV_BYTE_LEVEL("true")},
                             .bytes = true,
                             .holds = "256 bytes"},
    [QKV_TOKENIZER_CHARS] = {.row = {.decoder = "{\"type\": \"Fuse\"}"},
                             .count = count_characters,
                             .unknown = true,
                             .sorted = true,
                             .holds = QKV_TOKEN_UNKNOWN},
    [QKV_TOKENIZER_WORDS] = {.row = {.splitter = QKV_BYTE_LEVEL("true"),
                                     .decoder = QKV_BYTE_LEVEL("true"),
                                     .ignore_merges = true},
                             .count = count_piece,
                             .bytes = true,
                             .holds = "256 bytes"},
    [QKV_TOKENIZER_BPE] = {.row = {.splitter = QKV_BYTE_LEVEL("true"), .decoder = QKV_BYTE_LEVEL("true")},
                           .count = count_piece,
                           .bytes = true,
                           .merges = true,
                           .holds = "256 bytes"},
    [QKV_TOKENIZER_CHARS_BYTES] = {.row = {.decoder = FALLBACK, .fallback = true},
                                   .count = count_characters,
                                   .bytes = true,
                                   .sorted = true,
                                   .holds = "256 bytes"},
    [QKV_TOKENIZER_WHITESPACE] = {.row = {.splitter = "{\"type\": \"WhitespaceSplit\"}", .model = CHAIN_WORDLEVEL},
                                  .count = count_word,
                                  .pads = true,
                                  .unknown = true,
                                  .holds = QKV_TOKEN_PAD ", " QKV_TOKEN_UNKNOWN},
};

/* ---- vocabularies ------------------------------------------------------------------------------------------------ */

static enum qkv_status add_bytes(struct qkv_context *ctx, struct qkv_tokenizer *t) {
    enum qkv_status status = QKV_OK;
    for (unsigned byte = 0; byte < 256 && !status; byte++) {
        char c = (char)byte;
        status = qkv_tokenizer_set(ctx, t, t->count, &c, 1, t->chain->bytes ? QKV_TOKEN_TEXT : QKV_TOKEN_BYTE);
    }
    return status;
}

static bool train_tokenizer_has(const struct qkv_tokenizer_options *options, const char *special) {
    for (size_t i = 0; i < options->special_count; i++)
        if (!strcmp(options->specials[i], special)) return true;
    return false;
}

/* Whether the vocabulary has an unknown token: one of whitespace only if it leaves words out. */
static bool train_tokenizer_unknown(const struct qkv_tokenizer_options *options) {
    return kinds[options->kind].unknown && (!kinds[options->kind].pads || options->vocab > 0);
}

/* The number of tokens that every vocabulary of a kind has, with the specials. */
static size_t train_tokenizer_fixed(const struct qkv_tokenizer_options *options) {
    const struct trained *kind = &kinds[options->kind];
    size_t n = kind->bytes ? 256 : 0;
    if (kind->pads) n += !train_tokenizer_has(options, QKV_TOKEN_PAD);
    if (train_tokenizer_unknown(options)) n += !train_tokenizer_has(options, QKV_TOKEN_UNKNOWN);
    return n + options->special_count;
}

/* The number of other tokens that fit; SIZE_MAX: no limit. */
static size_t train_tokenizer_room(const struct qkv_tokenizer_options *options) {
    return options->vocab > 0 ? (size_t)options->vocab - train_tokenizer_fixed(options) : SIZE_MAX;
}

/* Adds a special token that is listed in the vocabulary too. */
static enum qkv_status add_listed(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *text) {
    const size_t size = strlen(text), id = t->count;
    enum qkv_status status = qkv_tokenizer_set(ctx, t, id, text, size, QKV_TOKEN_RAW);
    return status ? status : qkv_tokenizer_set_special(ctx, t, id, text, size);
}

static enum qkv_status add_unknown(struct qkv_context *ctx, struct qkv_tokenizer *t) {
    t->unknown = (int32_t)t->count;
    return add_listed(ctx, t, QKV_TOKEN_UNKNOWN);
}

/* Adds the first tokens of a vocabulary of words: padding, specials, unknown. */
static enum qkv_status add_word_specials(struct qkv_context *ctx, struct qkv_tokenizer *t,
                                         const struct qkv_tokenizer_options *options) {
    enum qkv_status status = train_tokenizer_has(options, QKV_TOKEN_PAD) ? QKV_OK : add_listed(ctx, t, QKV_TOKEN_PAD);
    const bool unknown = train_tokenizer_unknown(options);
    for (size_t i = 0; i < options->special_count && !status; i++)
        if (!unknown || strcmp(options->specials[i], QKV_TOKEN_UNKNOWN) != 0)
            status = add_listed(ctx, t, options->specials[i]);
    return !status && unknown ? add_unknown(ctx, t) : status;
}

struct ranked {
    const char *s;
    size_t size, first;
    int64_t count;
};

static int by_count(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Compares bytes: the byte order of UTF-8 is the order of code points. */
static int by_bytes(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    int order = memcmp(a->s, b->s, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* Adds the most frequent pieces as tokens: by frequency, equals by first appearance; or the same pieces in byte
 * order. */
static enum qkv_status add_frequent(struct qkv_context *ctx, struct qkv_tokenizer *t, const struct qkv_strings *pieces,
                                    size_t most, bool in_byte_order, enum qkv_token_form form) {
    struct ranked *ranked = qkv_allocate(ctx, pieces->count, sizeof *ranked);
    if (!ranked) return QKV_MEMORY;
    size_t n = 0;
    for (size_t i = 0; i < pieces->count; i++) {
        const struct qkv_string *piece = &pieces->entries[i];
        const char *s = pieces->bytes.data + piece->offset;
        if (qkv_strings_find(&t->chain->vocab, s, piece->size)) continue; /* single bytes are tokens already */
        ranked[n++] = (struct ranked){s, piece->size, i, piece->value};
    }
    if (n > 1) qsort(ranked, n, sizeof *ranked, by_count);
    if (n > most) n = most;
    if (n > 1 && in_byte_order) qsort(ranked, n, sizeof *ranked, by_bytes);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < n && !status; i++) {
        status = qkv_tokenizer_set(ctx, t, t->count, ranked[i].s, ranked[i].size, form);
    }
    free(ranked);
    return status;
}

static enum qkv_status add_vocabulary(struct qkv_context *ctx, struct qkv_tokenizer *t,
                                      const struct qkv_tokenizer_options *options, const struct qkv_strings *pieces,
                                      qkv_progress *progress, void *user) {
    const struct trained *kind = &kinds[options->kind];
    const enum qkv_token_form form = t->whole_words ? QKV_TOKEN_WORD : QKV_TOKEN_TEXT;
    enum qkv_status status = QKV_OK;
    if (kind->pads) status = add_word_specials(ctx, t, options);
    if (!status && kind->bytes && !kind->sorted) status = add_bytes(ctx, t);
    if (!status && kind->count && !kind->merges)
        status = add_frequent(ctx, t, pieces, train_tokenizer_room(options), kind->sorted, form);
    if (!status && kind->bytes && kind->sorted) status = add_bytes(ctx, t);
    if (!status && kind->unknown && !kind->pads) status = add_unknown(ctx, t);
    const size_t vocab = options->vocab > 0 ? (size_t)options->vocab : DEFAULT_BPE_VOCAB;
    if (!status && kind->merges && vocab > options->special_count)
        status = qkv_bpe_train(ctx, pieces, vocab - options->special_count, t, progress, user);
    return status;
}

/* ---- specials ---------------------------------------------------------------------------------------------------- */

static enum qkv_status add_specials(struct qkv_context *ctx, struct qkv_tokenizer *t,
                                    const struct qkv_tokenizer_options *options) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < options->special_count && !status; i++) {
        const char *text = options->specials[i];
        if (t->unknown >= 0 && !strcmp(text, QKV_TOKEN_UNKNOWN)) continue;
        status = qkv_tokenizer_set_special(ctx, t, t->count, text, strlen(text));
    }
    return status;
}

static enum qkv_status check_specials(struct qkv_context *ctx, const struct qkv_tokenizer_options *options) {
    for (size_t i = 0; i < options->special_count; i++) {
        const char *text = options->specials[i];
        if (!text || !*text)
            return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: special token %zu is empty; give it a text", i);
        if (qkv_utf8_valid(text, strlen(text)) < strlen(text))
            return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: special token %zu is not UTF-8; choose another text", i);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(options->specials[k], text) == 0)
                return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: special token \"%.60s\" is given twice", text);
        }
    }
    return QKV_OK;
}

/* In a saved file, a special token and an ordinary one must not have the same key. */
static enum qkv_status check_keys(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                  const struct qkv_tokenizer_options *options) {
    struct qkv_strings specials = {0};
    struct qkv_buffer key = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < options->special_count && !status; i++) {
        if (!qkv_strings_add(ctx, &specials, options->specials[i], strlen(options->specials[i]))) status = QKV_MEMORY;
    }
    for (size_t id = 0; id < t->count && specials.count > 0 && !status; id++) {
        key.size = 0;
        status = qkv_tokenizer_key(ctx, t, id, &key);
        if (!status && !t->tokens[id].added && qkv_strings_find(&specials, key.data, key.size)) {
            status =
                qkv_fail(ctx, QKV_ARGUMENT,
                         "tokenizer: special token \"%.60s\" is written like ordinary token %zu; choose another text",
                         key.data, id);
        }
    }
    qkv_buffer_free(&key);
    qkv_strings_free(&specials);
    return status;
}

static enum qkv_status check_options(struct qkv_context *ctx, const struct qkv_tokenizer_options *options) {
    static const char *const names[] = {
#define NAME(name, text_name, help) text_name,
        QKV_TOKENIZER_LIST(NAME)
#undef NAME
    };
    if ((size_t)options->kind >= sizeof names / sizeof *names)
        return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: %d is not a kind", (int)options->kind);
    if (options->special_count > 0 && !options->specials)
        return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: special_count is %zu but specials is NULL",
                        options->special_count);
    enum qkv_status status = check_specials(ctx, options);
    bool sized = options->kind != QKV_TOKENIZER_BYTES && options->vocab != 0;
    if (status || !sized || (options->vocab > 0 && (size_t)options->vocab >= train_tokenizer_fixed(options)))
        return status;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "tokenizer: %s cannot have a vocabulary of %d; it must hold %s and %zu special tokens",
                    names[options->kind], options->vocab, kinds[options->kind].holds, options->special_count);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

struct qkv_learner {
    struct qkv_tokenizer_options options;
    struct qkv_tokenizer *t;
    struct qkv_tokenizer *finder; /* has only the specials: it finds them in the text, and cuts what lies between */
    struct counter counter;
    qkv_progress *progress;
    void *user;
};

static enum qkv_status learner_prepare(struct qkv_learner *l, struct qkv_context *ctx) {
    const struct chain_row *row = &kinds[l->options.kind].row;
    l->counter.ctx = ctx;
    l->t = qkv_tokenizer_new(ctx);
    l->finder = qkv_tokenizer_new(ctx);
    if (!l->t || !l->finder) return QKV_MEMORY;
    enum qkv_status status = qkv_chain_make(ctx, row, l->t);
    if (!status) status = qkv_chain_make(ctx, row, l->finder);
    if (!status && l->t->whole_words) return add_word_specials(ctx, l->finder, &l->options);
    if (!status && train_tokenizer_unknown(&l->options)) status = add_unknown(ctx, l->finder);
    return status ? status : add_specials(ctx, l->finder, &l->options);
}

enum qkv_status qkv_learner_begin(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                  struct qkv_learner **out) {
    *out = NULL;
    enum qkv_status status = check_options(ctx, options);
    if (status) return status;
    struct qkv_learner *l = qkv_allocate(ctx, 1, sizeof *l);
    if (!l) return QKV_MEMORY;
    l->options = *options;
    status = learner_prepare(l, ctx);
    if (status)
        qkv_learner_free(l);
    else
        *out = l;
    return status;
}

void qkv_learner_watch(struct qkv_learner *l, qkv_progress *progress, void *user) {
    l->progress = progress;
    l->user = user;
}

void qkv_learner_free(struct qkv_learner *l) {
    if (!l) return;
    qkv_tokenizer_free(l->finder);
    qkv_tokenizer_free(l->t);
    qkv_strings_free(&l->counter.pieces);
    free(l);
}

size_t qkv_learner_cut(const struct qkv_learner *l, const char *text, size_t size, bool end) {
    return qkv_tokenizer_cut(l->finder, text, size, end);
}

enum qkv_status qkv_learner_read(struct qkv_learner *l, const char *text, size_t size) {
    chain_piece_visit *count = kinds[l->options.kind].count;
    return count ? qkv_chain_visit(l->counter.ctx, l->finder, text, size, count, &l->counter) : QKV_OK;
}

enum qkv_status qkv_learner_end(struct qkv_learner *l, struct qkv_tokenizer **out) {
    struct qkv_context *ctx = l->counter.ctx;
    enum qkv_status status = add_vocabulary(ctx, l->t, &l->options, &l->counter.pieces, l->progress, l->user);
    *out = NULL;
    if (!status) status = check_keys(ctx, l->t, &l->options);
    if (!status && !l->t->whole_words) status = add_specials(ctx, l->t, &l->options);
    if (!status) status = qkv_tokenizer_finish(ctx, l->t);
    if (status) return status;
    *out = l->t;
    l->t = NULL;
    return QKV_OK;
}

void qkv_tokenizer_options_init(struct qkv_tokenizer_options *options, size_t size) {
    static const struct qkv_tokenizer_options usual = {.size = sizeof usual, .kind = QKV_TOKENIZER_BPE};
    qkv_options_init(options, size, &usual, sizeof usual);
}

enum qkv_status qkv_tokenizer_train(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                    const char *text, size_t size, struct qkv_tokenizer **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    struct qkv_tokenizer_options own = qkv_tokenizer_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_tokenizer_options, &own, options);
    struct qkv_learner *learner;
    if (!status) status = qkv_learner_begin(ctx, &own, &learner);
    if (status) return status;
    if (!text && size > 0 && own.kind != QKV_TOKENIZER_BYTES)
        status = qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: the text is NULL but its size is %zu", size);
    if (!status) status = qkv_learner_read(learner, text, size);
    if (!status) status = qkv_learner_end(learner, out);
    qkv_learner_free(learner);
    return status;
}
