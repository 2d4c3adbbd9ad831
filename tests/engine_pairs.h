/* engine_pairs.h: small encoder-decoders with random weights for the tests of engines, and sources for them. */
#ifndef QKV_ENGINE_PAIRS_H
#define QKV_ENGINE_PAIRS_H

#include "search_fixture.h"

#include "model/model.h"
#include "text/sequence.h"

enum { PAIR_CONTEXT = 300 };

#define PAIR_STACK(norm, position, ffn)                                                                                \
    "{\"layers\": 2, \"norm\": " norm ", \"attention\": {\"heads\": 2, \"kv_heads\": 1, \"head_dim\": 32" position     \
    "}, \"ffn\": {\"kind\": \"" ffn "\", \"d_ff\": 64}}"
#define PAIR_BOTH(norm, position, ffn)                                                                                 \
    "\"encoder\": " PAIR_STACK(norm, position, ffn) ", \"decoder\": " PAIR_STACK(norm, position, ffn)
/* As T5, BART and Marian are, and one whose rotations depend on the length of a text. */
static const struct {
    const char *name, *json, *cache;
} pair_models[] = {
    {"T5",
     PAIR_BOTH("{\"kind\": \"rmsnorm\"}",
               ", \"position\": {\"kind\": \"buckets\", \"buckets\": 8, \"max_distance\": 40}", "gelu"),
     NULL},
    {"BART", "\"embed\": {\"position\": {\"kind\": \"learned\"}}, " PAIR_BOTH("{\"kind\": \"layernorm\"}", "", "gelu"),
     "q8_0"},
    {"Marian",
     "\"embed\": {\"position\": {\"kind\": \"sinusoidal\"}}, " PAIR_BOTH("{\"kind\": \"layernorm\"}", "", "silu"),
     NULL},
    {"by length",
     PAIR_BOTH("{\"kind\": \"rmsnorm\"}",
               ", \"position\": {\"kind\": \"rope\", \"scaling\": {\"kind\": \"dynamic\", \"factor\": 2, "
               "\"original_context\": 50}}",
               "swiglu"),
     NULL},
};

static inline struct qkv_context *pair_context(int threads) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(
                         &ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads, .precision = QKV_PRECISION_AUTO)),
                     QKV_OK);
    return ctx;
}

/* Its tokenizer has <s>, which targets begin with, and </s>, which ends sources and targets. */
static inline struct qkv_model *pair_model_of(struct qkv_context *ctx, const char *stacks, const char *cache) {
    static const char text[] = "abcdefghijklmnopqrstuvwxyz ,.\n";
    static const char *const names[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END};
    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = QKV_TOKENIZER_CHARS, .specials = names, .special_count = 2};
    struct qkv_tokenizer *tokenizer;
    char json[2048];
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text, sizeof text - 1, &tokenizer));
    const int n = snprintf(json, sizeof json,
                           "{\"format\": \"qkv\", \"version\": 2, \"vocab\": %d, \"d_model\": 32, \"context\": %d, %s}",
                           qkv_tokenizer_vocab(tokenizer), PAIR_CONTEXT, stacks);
    assert_in_range(n, 1, sizeof json - 1);
    struct qkv_model *m = fixture_model(ctx, json, NULL, 0, 7, 0.25);
    assert_ok(ctx, qkv_model_set_tokenizer(m, tokenizer));
    assert_ok(ctx, qkv_model_set_cache(m, cache));
    return m;
}
static inline struct qkv_model *pair_model(struct qkv_context *ctx, size_t i) {
    return pair_model_of(ctx, pair_models[i].json, pair_models[i].cache);
}

/* A decoder alone, with a tokenizer of bytes, whose weights are stored in a type of GGUF files. */
static inline struct qkv_model *pair_stored(struct qkv_context *ctx, const char *type) {
    struct qkv_tokenizer_options bytes = {.size = sizeof bytes, .kind = QKV_TOKENIZER_BYTES};
    struct qkv_gguf_options o = qkv_gguf_defaults();
    struct qkv_tokenizer *tokenizer;
    struct qkv_model *m;
    char path[600];
    snprintf(path, sizeof path, "%s/stored.gguf", test_folder());
    m = fixture_model(
        ctx,
        "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 256, \"d_model\": 32, \"context\": 300, "
        "\"decoder\": " PAIR_STACK("{\"kind\": \"rmsnorm\"}", ", \"position\": {\"kind\": \"rope\"}", "swiglu") "}",
        NULL, 0, 7, 0.25);
    assert_ok(ctx, qkv_tokenizer_train(ctx, &bytes, NULL, 0, &tokenizer));
    assert_ok(ctx, qkv_model_set_tokenizer(m, tokenizer));
    o.format = type;
    assert_ok(ctx, qkv_model_export_gguf(m, &o, path, NULL));
    qkv_model_free(m);
    assert_ok(ctx, qkv_model_load(ctx, path, &m));
    return m;
}

/* A text of at most `longest` characters. */
static inline void pair_text(struct qkv_random *r, char *text, size_t longest) {
    const size_t n = 1 + qkv_random_below(r, longest);
    for (size_t i = 0; i < n; i++) text[i] = "abcdefghijklmnopqrstuvwxyz ,."[qkv_random_below(r, 29)];
    if (qkv_is_blank(text, n)) text[0] = 'a';
    text[n] = 0;
}

#endif
