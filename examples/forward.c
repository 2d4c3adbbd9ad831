/* forward.c: a spec as text becomes a model; one forward pass gives its scores and shows where each head looks.
 *     forward */
#include <stdio.h>
#include <string.h>

#include <qkv.h>

enum { T = 6, VOCAB = 16 };

static const char spec_text[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 16, \"d_model\": 32, \"context\": 8,"
    " \"position\": {\"kind\": \"rope\"},"
    " \"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4, \"kv_heads\": 2, \"window\": 4}}}";

static void print_logits(const struct qkv_array *logits) { /* (B,T,V) */
    const float *x = logits->data;
    for (int t = 0; t < T; t++) {
        int best = 0;
        for (int v = 1; v < VOCAB; v++)
            if (x[t * VOCAB + v] > x[t * VOCAB + best]) best = v;
        printf("position %d: the highest score is token %d's, %.4f\n", t, best, (double)x[t * VOCAB + best]);
    }
}

static void print_weights(const struct qkv_array *weights) { /* (B,H,Tq,Tk) */
    const float *x = weights->data;
    printf("\n%s: keys across, queries down\n", weights->name);
    for (size_t h = 0; h < weights->shape[1]; h++) {
        printf("head %zu\n", h);
        for (size_t i = 0; i < weights->shape[2]; i++, printf("\n"))
            for (size_t j = 0; j < weights->shape[3]; j++) printf(" %5.3f", (double)*x++);
    }
}

int main(void) {
    const int32_t ids[T] = {3, 1, 4, 1, 5, 9};
    const struct qkv_batch batch = {.B = 1, .T = T, .ids = ids};
    const struct qkv_pass_options options = {.B = 1, .T = T, .logits = true, .weights = true};
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    struct qkv_pass *pass = NULL;
    struct qkv_array weights;
    struct qkv_spec spec;

    enum qkv_status status = qkv_context_create(&ctx, NULL);
    if (!status) status = qkv_spec_parse(ctx, &spec, "the spec", spec_text, strlen(spec_text), NULL, 0);
    if (!status) status = qkv_model_create(ctx, &spec, 42, &model);
    if (!status) status = qkv_pass_create(model, &options, &pass);
    if (!status) status = qkv_pass_forward(pass, &batch);
    if (!status) {
        struct qkv_array logits = qkv_pass_output(pass);
        print_logits(&logits);
        for (size_t i = 0; qkv_pass_weights(pass, i, &weights); i++) print_weights(&weights);
    } else {
        fprintf(stderr, "forward: %s\n", qkv_message(ctx));
    }
    qkv_pass_free(pass);
    qkv_model_free(model);
    qkv_context_free(ctx);
    return status ? 1 : 0;
}
