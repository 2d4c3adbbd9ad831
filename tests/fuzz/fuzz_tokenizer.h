/* fuzz_tokenizer.h: uses of a tokenizer that could be read. */
#ifndef QKV_FUZZ_TOKENIZER_H
#define QKV_FUZZ_TOKENIZER_H

#include "fuzz.h"

#include "qkv.h"

/* Encodes, looks at the offsets, and decodes again. */
static inline void fuzz_encode(const struct qkv_tokenizer *t, const char *text, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    int32_t *ids = NULL;
    size_t *spans = NULL, count = 0, bytes = 0;
    char *out = NULL;
    if (fuzz_ok(qkv_tokenizer_encode_spans(ctx, t, text, size, true, &ids, &spans, &count))) {
        for (size_t i = 0; i < count; i++) {
            FUZZ_CHECK(ids[i] >= 0 && ids[i] < qkv_tokenizer_vocab(t));
            FUZZ_CHECK(spans[2 * i] <= spans[2 * i + 1] && spans[2 * i + 1] <= size);
        }
        for (int skip = 0; skip < 2; skip++) {
            fuzz_ok(qkv_tokenizer_text(ctx, t, ids, count, skip, &out, &bytes));
            qkv_free(out);
        }
        fuzz_ok(qkv_tokenizer_decode(ctx, t, ids, count, &out, &bytes));
        qkv_free(out);
    }
    qkv_free(ids);
    qkv_free(spans);
    if (fuzz_ok(qkv_tokenizer_encode_sequence(ctx, t, text, size, false, &ids, &count))) qkv_free(ids);
    FUZZ_CHECK(qkv_tokenizer_cut(t, text, size, false) <= size);
}

/* A text of the input, and one that has something of everything; then it is written and read again. */
static inline void fuzz_tokenizer(struct qkv_tokenizer *t, struct fuzz_part text) {
    static const char usual[] = "The  cat's 12 \xC3\xA9\xCC\x81 <mask> <s>\r\n\xE6\x97\xA5\xE6\x9C\xAC "
                                "\xFF\xF0\x9F\x98\x80 [MASK]tokens<0x41>\t";
    struct qkv_context *ctx = fuzz_context();
    struct qkv_tokenizer *again;
    int32_t ends[QKV_TOKEN_ENDS];
    fuzz_encode(t, usual, sizeof usual - 1);
    if (text.size) fuzz_encode(t, text.data, text.size);
    qkv_tokenizer_special(t, "<s>");
    qkv_tokenizer_ends(t, ends);
    const char *path = fuzz_path("saved.json");
    if (fuzz_ok(qkv_tokenizer_save(ctx, t, path))) {
        if (!fuzz_ok(qkv_tokenizer_load(ctx, path, &again))) {
            fprintf(stderr, "a tokenizer that was saved cannot be read: %s\n", qkv_message(ctx));
            abort();
        }
        FUZZ_CHECK(qkv_tokenizer_vocab(again) == qkv_tokenizer_vocab(t));
        qkv_tokenizer_free(again);
    }
    qkv_tokenizer_free(t);
}

#endif
