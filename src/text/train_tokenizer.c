/* Making a tokenizer from a text: the vocabularies of bytes, chars, words and bpe. The text is read once, front to back,
 * whole or cut, and only its distinct pieces are kept. Special tokens in it are cut out and teach nothing. */
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_BPE_VOCAB 1024

typedef enum qkv_status visit(struct qkv_context *ctx, struct qkv_strings *pieces, struct qkv_splitter *splitter,
                              const char *text, size_t size);

static enum qkv_status train_tokenizer_count(struct qkv_context *ctx, struct qkv_strings *pieces, const char *s,
                                             size_t n) {
    struct qkv_string *piece = qkv_strings_add(ctx, pieces, s, n);
    if (!piece) return QKV_MEMORY;
    piece->value++;
    return QKV_OK;
}

static enum qkv_status count_pieces(struct qkv_context *ctx, struct qkv_strings *pieces, struct qkv_splitter *splitter,
                                    const char *text, size_t size) {
    size_t begin, end;
    qkv_splitter_start(splitter, text, size, false);
    for (enum qkv_split split; (split = qkv_splitter_next(splitter, &begin, &end)) != QKV_SPLIT_END;) {
        if (split == QKV_SPLIT_FAILED) return qkv_splitter_fail(ctx, splitter);
        enum qkv_status status = train_tokenizer_count(ctx, pieces, text + begin, end - begin);
        if (status) return status;
    }
    return QKV_OK;
}

/* Characters; not U+0000, which the keys of a JSON object cannot hold here: it is spelled as a byte. */
static enum qkv_status count_characters(struct qkv_context *ctx, struct qkv_strings *pieces,
                                        struct qkv_splitter *splitter, const char *text, size_t size) {
    (void)splitter;
    for (size_t at = 0; at < size;) {
        uint32_t code;
        int length = qkv_utf8_scan(text + at, size - at, &code);
        size_t n = length > 0 ? (size_t)length : 1;
        enum qkv_status status = length > 0 && code > 0 ? train_tokenizer_count(ctx, pieces, text + at, n) : QKV_OK;
        if (status) return status;
        at += n;
    }
    return QKV_OK;
}

/* Calls `each` for the stretches of the text between special tokens. */
static enum qkv_status visit_text(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                  visit *each, struct qkv_strings *pieces) {
    struct qkv_splitter *splitter;
    enum qkv_status status = qkv_splitter_create(ctx, t->pattern, &splitter);
    for (size_t at = 0; !status && at < size;) {
        size_t begin;
        const struct qkv_added *added = qkv_added_next(t, text, size, at, QKV_ADDED_ANY, true, &begin);
        status = each(ctx, pieces, splitter, text + at, begin - at);
        at = begin + (added ? added->size : 0);
    }
    qkv_splitter_free(splitter);
    return status;
}

/* ---- vocabularies ---------------------------------------------------------------------------------------------------- */

static enum qkv_status add_bytes(struct qkv_context *ctx, struct qkv_tokenizer *t) {
    enum qkv_status status = QKV_OK;
    for (unsigned byte = 0; byte < 256 && !status; byte++) {
        char c = (char)byte;
        status = qkv_tokenizer_set(ctx, t, t->count, &c, 1, t->byte_level ? QKV_TOKEN_TEXT : QKV_TOKEN_BYTE);
    }
    return status;
}

/* How many tokens fit besides the bytes and the specials; SIZE_MAX: as many as there are. */
static size_t train_tokenizer_room(const struct qkv_tokenizer_options *options) {
    return options->vocab > 0 ? (size_t)options->vocab - 256 - options->special_count : SIZE_MAX;
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

/* Byte order of UTF-8 is the order of code points. */
static int by_bytes(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    int order = memcmp(a->s, b->s, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* Adds the most frequent pieces as tokens: by frequency, equals by first appearance; or the same ones in byte order. */
static enum qkv_status add_frequent(struct qkv_context *ctx, struct qkv_tokenizer *t, const struct qkv_strings *pieces,
                                    size_t most, bool in_byte_order) {
    struct ranked *ranked = qkv_allocate(ctx, pieces->count, sizeof *ranked);
    if (!ranked) return QKV_MEMORY;
    size_t n = 0;
    for (size_t i = 0; i < pieces->count; i++) {
        const struct qkv_string *piece = &pieces->entries[i];
        const char *s = pieces->bytes.data + piece->offset;
        if (qkv_strings_find(&t->pieces, s, piece->size)) continue; /* single bytes are there already */
        ranked[n++] = (struct ranked){s, piece->size, i, piece->value};
    }
    if (n > 1) qsort(ranked, n, sizeof *ranked, by_count);
    if (n > most) n = most;
    if (n > 1 && in_byte_order) qsort(ranked, n, sizeof *ranked, by_bytes);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < n && !status; i++) {
        status = qkv_tokenizer_set(ctx, t, t->count, ranked[i].s, ranked[i].size, QKV_TOKEN_TEXT);
    }
    free(ranked);
    return status;
}

static enum qkv_status add_vocabulary(struct qkv_context *ctx, struct qkv_tokenizer *t,
                                      const struct qkv_tokenizer_options *options, const struct qkv_strings *pieces) {
    enum qkv_status status = QKV_OK;
    if (options->kind == QKV_TOKENIZER_CHARS) {
        status = add_frequent(ctx, t, pieces, train_tokenizer_room(options), true);
        return status ? status : add_bytes(ctx, t);
    }
    status = add_bytes(ctx, t);
    if (!status && options->kind == QKV_TOKENIZER_WORDS)
        status = add_frequent(ctx, t, pieces, train_tokenizer_room(options), false);
    if (!status && options->kind == QKV_TOKENIZER_BPE) {
        size_t vocab = options->vocab > 0 ? (size_t)options->vocab : DEFAULT_BPE_VOCAB;
        if (vocab > options->special_count) status = qkv_bpe_train(ctx, pieces, vocab - options->special_count, t);
    }
    return status;
}

/* ---- specials ------------------------------------------------------------------------------------------------------ */

static enum qkv_status add_specials(struct qkv_context *ctx, struct qkv_tokenizer *t,
                                    const struct qkv_tokenizer_options *options) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < options->special_count && !status; i++) {
        const char *text = options->specials[i];
        status = qkv_tokenizer_set_added(ctx, t, t->count, text, strlen(text), true, false);
    }
    return status;
}

static enum qkv_status check_specials(struct qkv_context *ctx, const struct qkv_tokenizer_options *options) {
    for (size_t i = 0; i < options->special_count; i++) {
        const char *text = options->specials[i];
        if (!text || !*text)
            return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: special token %zu is empty; give it a text", i);
        if (qkv_utf8_valid(text, strlen(text)) < strlen(text)) {
            return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: special token %zu is not UTF-8; choose another text", i);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(options->specials[k], text) == 0) {
                return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: special token \"%.60s\" is given twice", text);
            }
        }
    }
    return QKV_OK;
}

/* In a saved file a special token and an ordinary one must not have the same key. */
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
        if (!status && qkv_strings_find(&specials, key.data, key.size)) {
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
    if (!options) return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: no options are given");
    if ((size_t)options->kind >= sizeof names / sizeof *names) {
        return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: there is no kind %d", (int)options->kind);
    }
    if (options->special_count > 0 && !options->specials) {
        return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: special_count is %zu but specials is NULL",
                        options->special_count);
    }
    bool sized = options->kind != QKV_TOKENIZER_BYTES && options->vocab != 0;
    if (sized && (options->vocab < 256 || (size_t)options->vocab - 256 < options->special_count)) {
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "tokenizer: %s cannot have a vocabulary of %d; it must hold 256 bytes and %zu special tokens",
                        names[options->kind], options->vocab, options->special_count);
    }
    return check_specials(ctx, options);
}

/* ---- training ------------------------------------------------------------------------------------------------------ */

struct qkv_learner {
    struct qkv_context *ctx;
    struct qkv_tokenizer_options options;
    struct qkv_tokenizer *t;
    struct qkv_tokenizer *finder; /* has the specials alone, and finds them in the text; the pattern is t's */
    struct qkv_strings pieces;    /* what the vocabulary is made of, and how often it occurs */
};

static enum qkv_status learner_prepare(struct qkv_learner *l) {
    enum qkv_tokenizer_kind kind = l->options.kind;
    l->t = qkv_tokenizer_new(l->ctx);
    l->finder = qkv_tokenizer_new(l->ctx);
    if (!l->t || !l->finder) return QKV_MEMORY;
    l->t->byte_level = kind != QKV_TOKENIZER_CHARS;
    l->t->ignore_merges = kind == QKV_TOKENIZER_WORDS;
    l->t->gpt2 = kind == QKV_TOKENIZER_WORDS || kind == QKV_TOKENIZER_BPE;
    enum qkv_status status = l->t->gpt2 ? qkv_pattern_create(l->ctx, qkv_pattern_gpt2, &l->t->pattern) : QKV_OK;
    if (!status) status = add_specials(l->ctx, l->finder, &l->options);
    if (status) return status;
    l->finder->pattern = l->t->pattern;
    qkv_added_index(l->finder);
    return QKV_OK;
}

enum qkv_status qkv_learner_begin(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                  struct qkv_learner **out) {
    *out = NULL;
    enum qkv_status status = check_options(ctx, options);
    if (status) return status;
    struct qkv_learner *l = qkv_allocate(ctx, 1, sizeof *l);
    if (!l) return QKV_MEMORY;
    l->ctx = ctx;
    l->options = *options;
    status = learner_prepare(l);
    if (status)
        qkv_learner_free(l);
    else
        *out = l;
    return status;
}

void qkv_learner_free(struct qkv_learner *l) {
    if (!l) return;
    if (l->finder) l->finder->pattern = NULL;
    qkv_tokenizer_free(l->finder);
    qkv_tokenizer_free(l->t);
    qkv_strings_free(&l->pieces);
    free(l);
}

size_t qkv_learner_cut(const struct qkv_learner *l, const char *text, size_t size, bool end) {
    return qkv_tokenizer_cut(l->finder, text, size, end);
}

enum qkv_status qkv_learner_read(struct qkv_learner *l, const char *text, size_t size) {
    if (l->options.kind == QKV_TOKENIZER_BYTES) return QKV_OK;
    visit *each = l->options.kind == QKV_TOKENIZER_CHARS ? count_characters : count_pieces;
    return visit_text(l->ctx, l->finder, text, size, each, &l->pieces);
}

enum qkv_status qkv_learner_end(struct qkv_learner *l, struct qkv_tokenizer **out) {
    enum qkv_status status = add_vocabulary(l->ctx, l->t, &l->options, &l->pieces);
    *out = NULL;
    if (!status) status = check_keys(l->ctx, l->t, &l->options);
    if (!status) status = add_specials(l->ctx, l->t, &l->options);
    if (!status) status = qkv_tokenizer_finish(l->ctx, l->t);
    if (status) return status;
    *out = l->t;
    l->finder->pattern = NULL;
    l->t = NULL;
    return QKV_OK;
}

struct qkv_tokenizer_options qkv_tokenizer_defaults(void) {
    return (struct qkv_tokenizer_options){.kind = QKV_TOKENIZER_BPE};
}

enum qkv_status qkv_tokenizer_train(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                    const char *text, size_t size, struct qkv_tokenizer **out) {
    QKV_CALL(ctx);
    struct qkv_learner *learner;
    *out = NULL;
    enum qkv_status status = qkv_learner_begin(ctx, options, &learner);
    if (status) return status;
    if (!text && size > 0 && options->kind != QKV_TOKENIZER_BYTES)
        status = qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: the text is NULL but its size is %zu", size);
    if (!status) status = qkv_learner_read(learner, text, size);
    if (!status) status = qkv_learner_end(learner, out);
    qkv_learner_free(learner);
    return status;
}
