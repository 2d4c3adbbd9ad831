/* forward.c: makes a model from a spec in JSON; one forward pass computes its logits and the attention weights of
 * each head.
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

static enum qkv_status print_weights(struct qkv_pass *pass, size_t i, const struct qkv_array *attention) {
    enum qkv_status status = QKV_OK;
    float row[T]; /* one weight for each key */
    printf("\n%s: keys across, queries down\n", attention->name);
    for (size_t h = 0; h < attention->shape[1]; h++) {
        printf("head %zu\n", h);
        for (size_t t = 0; t < attention->shape[2] && !status; t++, printf("\n")) {
            status = qkv_pass_weights(pass, i, QKV_ATTENTION_WEIGHTS, 0, h, t, 1, row);
            for (size_t j = 0; j < attention->shape[3] && !status; j++) printf(" %5.3f", (double)row[j]);
        }
    }
    return status;
}

int main(void) {
    const int32_t ids[T] = {3, 1, 4, 1, 5, 9};
    const struct qkv_batch batch = {.B = 1, .T = T, .ids = ids};
    const struct qkv_pass_options options = {.size = sizeof options, .B = 1, .T = T, .logits = true, .weights = true};
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    struct qkv_pass *pass = NULL;
    struct qkv_array attention;
    struct qkv_spec spec = {0};

    enum qkv_status status = qkv_context_create(&ctx, NULL);
    if (!status) status = qkv_spec_parse(ctx, &spec, "the spec", spec_text, strlen(spec_text), NULL, 0);
    if (!status) status = qkv_model_create(ctx, &spec, 42, &model);
    if (!status) status = qkv_pass_create(model, &options, &pass);
    if (!status) status = qkv_pass_forward(pass, &batch);
    if (!status) {
        struct qkv_array logits = qkv_pass_output(pass);
        print_logits(&logits);
        for (size_t i = 0; !status && qkv_pass_attention(pass, i, &attention); i++)
            status = print_weights(pass, i, &attention);
    }
    if (status) fprintf(stderr, "forward: %s\n", qkv_message(ctx));
    qkv_pass_free(pass);
    qkv_model_free(model);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return status ? 1 : 0;
}
