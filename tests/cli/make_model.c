/* Makes a small model with random weights for the tests of the command: make_model KIND FOLDER. Kinds: classifier
 * (three classes with names), many (twenty classes without), encoder (with a mask), pairs, languages (pairs with tokens
 * of two languages), decoder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qkv.h"

#define STACK(name)                                                                                                    \
    "\"" name                                                                                                          \
    "\":{\"layers\":1,\"attention\":{\"heads\":2},\"norm\":{\"kind\":\"layernorm\"},\"ffn\":{\"kind\":\"relu\","       \
    "\"d_ff\":32}}"

static const struct kind {
    const char *name, *rest;
    enum qkv_tokenizer_kind tokenizer;
} kinds[] = {
    {"classifier", "\"head\":{\"kind\":\"classify\",\"classes\":3,\"pool\":\"mean\"}," STACK("encoder"),
     QKV_TOKENIZER_WORDS},
    {"many", "\"head\":{\"kind\":\"classify\",\"classes\":20,\"pool\":\"first\"}," STACK("encoder"),
     QKV_TOKENIZER_CHARS_BYTES},
    {"encoder", STACK("encoder"), QKV_TOKENIZER_WORDS},
    {"pairs", STACK("encoder") "," STACK("decoder"), QKV_TOKENIZER_CHARS_BYTES},
    {"languages", STACK("encoder") "," STACK("decoder"), QKV_TOKENIZER_CHARS_BYTES},
    {"decoder", STACK("decoder"), QKV_TOKENIZER_CHARS_BYTES},
};

static enum qkv_status make(struct qkv_context *ctx, const struct kind *kind, const char *folder) {
    static const char text[] = "the capital of England is London\nwhat is the name of the queen ?\n";
    static const char *const specials[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END, QKV_TOKEN_MASK, "__en__", "__de__"};
    static const char *const labels[] = {"place", "person", "Größe und Gewicht"};
    struct qkv_tokenizer_options options = {.size = sizeof options,
                                            .kind = kind->tokenizer,
                                            .specials = specials,
                                            .special_count = strcmp(kind->name, "languages") ? 3 : 5};
    struct qkv_tokenizer *tokenizer;
    struct qkv_model *model = NULL;
    struct qkv_spec spec = {0};
    char json[2048];
    enum qkv_status status = qkv_tokenizer_train(ctx, &options, text, sizeof text - 1, &tokenizer);
    if (status) return status;
    int n =
        snprintf(json, sizeof json,
                 "{\"format\":\"qkv\",\"version\":1,\"vocab\":%d,\"d_model\":16,\"context\":40,\"position\":{\"kind\":"
                 "\"learned\"},%s}",
                 qkv_tokenizer_vocab(tokenizer), kind->rest);
    status = qkv_spec_parse(ctx, &spec, kind->name, json, (size_t)n, NULL, 0);
    if (!status) status = qkv_model_create(ctx, &spec, 5, &model);
    if (!status)
        status = qkv_model_set_tokenizer(model, tokenizer);
    else
        qkv_tokenizer_free(tokenizer);
    for (size_t i = 0; !status && i < qkv_model_parameters(model); i++) { /* larger weights, so that lines differ */
        const size_t count = qkv_array_elements(qkv_model_parameter(model, i));
        float *weights = malloc((count + 1) * sizeof *weights);
        if (!weights) return QKV_MEMORY;
        status = qkv_model_get_weights(model, i, weights, count);
        for (size_t k = 0; k < count && !status; k++) weights[k] *= 15;
        if (!status) status = qkv_model_set_weights(model, i, weights, count);
        free(weights);
    }
    if (!status && !strcmp(kind->name, "classifier")) status = qkv_model_set_labels(model, labels, 3);
    if (!status) status = qkv_model_save(model, folder);
    qkv_model_free(model);
    qkv_spec_free(&spec);
    return status;
}

int main(int argc, char **argv) {
    struct qkv_context *ctx = NULL;
    const struct kind *kind = NULL;
    for (size_t i = 0; argc == 3 && i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(argv[1], kinds[i].name)) kind = &kinds[i];
    if (!kind) {
        fprintf(stderr, "usage: make_model classifier|many|encoder|pairs|languages|decoder FOLDER\n");
        return 2;
    }
    enum qkv_status status = qkv_context_create(&ctx, NULL);
    if (!status) status = make(ctx, kind, argv[2]);
    if (status) fprintf(stderr, "%s\n", qkv_message(ctx));
    qkv_context_free(ctx);
    return status ? 1 : 0;
}
