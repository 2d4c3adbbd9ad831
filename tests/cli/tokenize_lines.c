/* Encodes each text of a list (JSON, standard input): prints a line of JSON with ids, spans and the decoded text.
 * For scripts/check-tokenizers.
 *     tokenize_lines TOKENIZER < lines.json */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "qkv.h"

static int fail(const struct qkv_context *ctx) {
    fprintf(stderr, "%s\n", qkv_message(ctx));
    return 1;
}

static int line(struct qkv_context *ctx, const struct qkv_tokenizer *t, const json_t *value) {
    const char *text = json_string_value(value);
    const size_t size = json_string_length(value);
    int32_t *ids;
    size_t *spans, count, n;
    char *decoded;
    if (qkv_tokenizer_encode_spans(ctx, t, text, size, true, &ids, &spans, &count)) return fail(ctx);
    if (qkv_tokenizer_text(ctx, t, ids, count, true, &decoded, &n)) return fail(ctx);
    json_t *out[] = {json_array(), json_array(), json_stringn(decoded, n)};
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(out[0], json_integer(ids[i]));
        json_array_append_new(out[1], json_pack("[I, I]", (json_int_t)spans[2 * i], (json_int_t)spans[2 * i + 1]));
    }
    json_t *all = json_pack("{s:o, s:o, s:o*}", "ids", out[0], "spans", out[1], "text", out[2]);
    char *written = json_dumps(all, JSON_COMPACT);
    puts(written ? written : "null");
    free(written);
    json_decref(all);
    qkv_free(ids);
    qkv_free(spans);
    qkv_free(decoded);
    return 0;
}

int main(int count, char **words) {
    struct qkv_context *ctx;
    struct qkv_tokenizer *t;
    int code = 0;
    json_t *lines = json_loadf(stdin, JSON_ALLOW_NUL, NULL);
    if (count != 2 || !json_is_array(lines)) {
        fprintf(stderr, "usage: tokenize_lines TOKENIZER < lines.json\n");
        return 2;
    }
    if (qkv_context_create(&ctx, NULL)) return 1;
    if (qkv_tokenizer_open(ctx, words[1], &t)) return fail(ctx);
    for (size_t i = 0; i < json_array_size(lines) && !code; i++) code = line(ctx, t, json_array_get(lines, i));
    json_decref(lines);
    qkv_tokenizer_free(t);
    qkv_context_free(ctx);
    return code;
}
