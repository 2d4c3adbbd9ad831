/* Making a tokenizer from a text: the vocabularies of bytes, chars, words and bpe. The text is read once, front to back,
 * and only its distinct pieces are kept. Special tokens in it are cut out and teach nothing. */
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_BPE_VOCAB 1024

typedef enum qkv_status visit(struct qkv_context *ctx, struct qkv_strings *pieces, struct qkv_splitter *splitter,
                              const char *text, size_t size);

static enum qkv_status count(struct qkv_context *ctx, struct qkv_strings *pieces, const char *s, size_t n) {
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
        enum qkv_status status = count(ctx, pieces, text + begin, end - begin);
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
        enum qkv_status status = length > 0 && code > 0 ? count(ctx, pieces, text + at, n) : QKV_OK;
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
static size_t room(const struct qkv_tokenizer_options *options) {
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
        status = add_frequent(ctx, t, pieces, room(options), true);
        return status ? status : add_bytes(ctx, t);
    }
    status = add_bytes(ctx, t);
    if (!status && options->kind == QKV_TOKENIZER_WORDS) status = add_frequent(ctx, t, pieces, room(options), false);
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

static enum qkv_status check_options(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                     const char *text, size_t size) {
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
    if (!text && size > 0 && options->kind != QKV_TOKENIZER_BYTES) {
        return qkv_fail(ctx, QKV_ARGUMENT, "tokenizer: the text is NULL but its size is %zu", size);
    }
    return check_specials(ctx, options);
}

/* ---- training ------------------------------------------------------------------------------------------------------ */

/* Counts what the vocabulary is made of. A tokenizer with the specials alone finds them in the text. */
static enum qkv_status count_text(struct qkv_context *ctx, struct qkv_tokenizer *t,
                                  const struct qkv_tokenizer_options *options, const char *text, size_t size,
                                  struct qkv_strings *pieces) {
    if (options->kind == QKV_TOKENIZER_BYTES) return QKV_OK;
    struct qkv_tokenizer *finder = qkv_tokenizer_new(ctx);
    if (!finder) return QKV_MEMORY;
    finder->pattern = t->pattern;
    enum qkv_status status = add_specials(ctx, finder, options);
    if (!status) {
        qkv_added_index(finder);
        status = visit_text(ctx, finder, text, size,
                            options->kind == QKV_TOKENIZER_CHARS ? count_characters : count_pieces, pieces);
    }
    finder->pattern = NULL;
    qkv_tokenizer_free(finder);
    return status;
}

enum qkv_status qkv_tokenizer_train(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                    const char *text, size_t size, struct qkv_tokenizer **out) {
    QKV_CALL(ctx);
    *out = NULL;
    enum qkv_status status = check_options(ctx, options, text, size);
    if (status) return status;
    struct qkv_tokenizer *t = qkv_tokenizer_new(ctx);
    if (!t) return QKV_MEMORY;
    struct qkv_strings pieces = {0};
    t->byte_level = options->kind != QKV_TOKENIZER_CHARS;
    t->ignore_merges = options->kind == QKV_TOKENIZER_WORDS;
    t->gpt2 = options->kind == QKV_TOKENIZER_WORDS || options->kind == QKV_TOKENIZER_BPE;
    if (t->gpt2) status = qkv_pattern_create(ctx, qkv_pattern_gpt2, &t->pattern);
    if (!status) status = count_text(ctx, t, options, text, size, &pieces);
    if (!status) status = add_vocabulary(ctx, t, options, &pieces);
    if (!status) status = check_keys(ctx, t, options);
    if (!status) status = add_specials(ctx, t, options);
    if (!status) status = qkv_tokenizer_finish(ctx, t);
    qkv_strings_free(&pieces);
    if (status) {
        qkv_tokenizer_free(t);
        return status;
    }
    *out = t;
    return QKV_OK;
}
