/* Removes the tokens that begin and end a sequence from a text that is written with them. */
#include "text/sequence.h"
#include "text/text.h"

#include <string.h>

static bool trim_is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

void qkv_sequence_trim(const struct qkv_tokenizer *t, bool begin, bool end, const char **text, size_t *size) {
    size_t n = 0;
    if (!t->whole_words || !*text || !*size) return;
    const char *from = *text, *to = from + *size;
    while (from < to && trim_is_blank(*from)) from++;
    while (to > from && trim_is_blank(to[-1])) to--;
    const char *word = begin ? qkv_tokenizer_token(t, qkv_tokenizer_role(t, QKV_TOKEN_ROLE_BEGIN), &n) : NULL;
    if (word && (size_t)(to - from) >= n && !memcmp(from, word, n) && (from + n == to || trim_is_blank(from[n]))) {
        from += n;
        *size -= (size_t)(from - *text);
        *text = from;
    }
    word = end ? qkv_tokenizer_token(t, qkv_tokenizer_role(t, QKV_TOKEN_ROLE_END), &n) : NULL;
    if (word && (size_t)(to - from) >= n && !memcmp(to - n, word, n) &&
        (to - n == from || trim_is_blank(to[-1 - (ptrdiff_t)n])))
        *size = (size_t)(to - from) - n;
}
