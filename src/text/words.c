/* Sentences that are already cut into words: the tokens of each word.
 *
 * Words are encoded one by one, with the space before them, as most tokenizers cut (words, bpe); or without it, if that
 * gives the tokens of the whole sentence (tokenizers that add ▁ before each word). */
#include <stdlib.h>
#include <string.h>

#include "text/sequence.h"

struct words {
    struct qkv_context *ctx;
    const struct qkv_tokenizer *tokenizer;
    int32_t *ids, *firsts; /* of the words, without the frame */
    size_t count, ids_capacity, firsts_capacity;
    struct qkv_buffer text;
};

/* Whether the space before this word is a token by itself. */
static bool words_space_apart(const struct words *w, const int32_t *ids, size_t n) {
    size_t size;
    const char *token = n > 1 ? qkv_tokenizer_token(w->tokenizer, ids[0], &size) : NULL;
    return token && size == 1 && token[0] == ' ';
}

static enum qkv_status words_add(struct words *w, const struct qkv_word *word, size_t number, bool space) {
    int32_t *ids = NULL;
    size_t n = 0;
    w->text.size = 0;
    enum qkv_status status = space ? qkv_buffer_append(w->ctx, &w->text, " ", 1) : QKV_OK;
    if (!status) status = qkv_buffer_append(w->ctx, &w->text, word->text, word->size);
    if (!status) status = qkv_tokenizer_encode(w->ctx, w->tokenizer, w->text.data, w->text.size, false, &ids, &n);
    int32_t *all = status ? NULL : qkv_list_room(w->ctx, w->ids, &w->ids_capacity, w->count, n, sizeof *all);
    if (all) w->ids = all;
    int32_t *firsts = all ? qkv_list_room(w->ctx, w->firsts, &w->firsts_capacity, w->count, n, sizeof *firsts) : NULL;
    if (firsts) w->firsts = firsts;
    if (!status && !firsts) status = QKV_MEMORY;
    const size_t first = space && words_space_apart(w, ids, n);
    for (size_t i = 0; i < n && !status; i++) {
        w->ids[w->count] = ids[i];
        w->firsts[w->count++] = i == first ? (int32_t)number + 1 : 0;
    }
    qkv_free(ids);
    if (!status && !n)
        status = qkv_fail(w->ctx, QKV_FORMAT,
                          "the word \"%.*s\" has no token in this model's tokenizer; remove it, or write another",
                          (int)(word->size < 100 ? word->size : 100), word->text);
    return status;
}

static enum qkv_status words_add_all(struct words *w, const struct qkv_word *words, size_t count, bool space,
                                     size_t *bad) {
    enum qkv_status status = QKV_OK;
    w->count = 0;
    for (size_t i = 0; i < count && !status; i++) {
        *bad = i;
        status = words_add(w, &words[i], i, space && i > 0);
    }
    return status;
}

/* Whether the tokens of the words are those of the sentence, which is in `ids` inside its frame. */
static bool words_same(const struct words *w, struct qkv_sequence_frame frame, const int32_t *ids, size_t count) {
    return count == w->count + frame.before + frame.after &&
           !memcmp(w->ids, ids + frame.before, w->count * sizeof *ids);
}

static enum qkv_status words_sentence(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                      const struct qkv_word *words, size_t count, int32_t **ids, size_t *n) {
    struct qkv_buffer text = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (i) status = qkv_buffer_append(ctx, &text, " ", 1);
        if (!status) status = qkv_buffer_append(ctx, &text, words[i].text, words[i].size);
    }
    if (!status) status = qkv_source_encode(ctx, t, text.data ? text.data : "", text.size, true, true, ids, n);
    qkv_buffer_free(&text);
    return status;
}

/* Puts the frame of the sentence around the tokens of its words. */
static enum qkv_status words_framed(const struct words *w, struct qkv_sequence_frame frame, const int32_t *sentence,
                                    size_t n, int32_t **ids, int32_t **firsts, size_t *count) {
    *count = w->count + frame.before + frame.after;
    *ids = qkv_allocate(w->ctx, *count + 1, sizeof **ids);
    *firsts = qkv_allocate(w->ctx, *count + 1, sizeof **firsts);
    if (!*ids || !*firsts) return QKV_MEMORY;
    memcpy(*ids, sentence, frame.before * sizeof **ids);
    memcpy(*ids + frame.before, w->ids, w->count * sizeof **ids);
    memcpy(*ids + frame.before + w->count, sentence + n - frame.after, frame.after * sizeof **ids);
    memcpy(*firsts + frame.before, w->firsts, w->count * sizeof **firsts);
    return QKV_OK;
}

enum qkv_status qkv_words_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const struct qkv_word *words,
                                 size_t word_count, int32_t **ids, int32_t **firsts, size_t *count, size_t *bad) {
    const struct qkv_sequence_frame frame = qkv_source_frame(t, true, true);
    struct words w = {.ctx = ctx, .tokenizer = t};
    int32_t *sentence = NULL;
    size_t n = 0;
    *ids = *firsts = NULL;
    *count = *bad = 0;
    enum qkv_status status = words_sentence(ctx, t, words, word_count, &sentence, &n);
    if (!status) status = words_add_all(&w, words, word_count, true, bad);
    if (!status && !words_same(&w, frame, sentence, n)) status = words_add_all(&w, words, word_count, false, bad);
    if (!status) status = words_framed(&w, frame, sentence, n, ids, firsts, count);
    if (status) {
        qkv_free(*ids);
        qkv_free(*firsts);
        *ids = *firsts = NULL;
    }
    qkv_free(sentence);
    free(w.ids);
    free(w.firsts);
    qkv_buffer_free(&w.text);
    return status;
}
