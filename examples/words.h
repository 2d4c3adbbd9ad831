/* words.h: shared by the three tiny models: sentences of known words as ids, between <bos> and <eos>. Each has its
 * own `words`. */
#ifndef WORDS_H
#define WORDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkv.h>

static _Noreturn void fail(const struct qkv_context *ctx) {
    fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
    exit(1);
}

/* Encodes a sentence as at most `room` ids, with <bos> before and <eos> after it; `words` has a text for each of
 * `vocab` ids. */
static int32_t encode(const char *const *words, int32_t vocab, const char *sentence, int32_t *ids, int32_t room) {
    char copy[100];
    int32_t count = 0;
    snprintf(copy, sizeof copy, "<bos> %s <eos>", sentence);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        int32_t id = 0;
        while (id < vocab && strcmp(words[id], word) != 0) id++;
        if (id == vocab || count == room) {
            fprintf(stderr, "\"%s\" in \"%s\" is no word of the vocabulary, or one too many\n", word, sentence);
            exit(1);
        }
        ids[count++] = id;
    }
    return count;
}

#endif
