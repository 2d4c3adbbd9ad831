/* train.c: trains a model on arrays of ids, without files: forward, backward, an optimizer step, again.
 *
 * The task: a row has eight digits, a separator, and the digits backwards. The model sees a row up to a position and
 * predicts the next token. Only the second half can be predicted, so only its positions have targets. Attention
 * learns to find the digit to copy.
 *     train [STEPS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkv.h>

enum { DIGITS = 8, SEPARATOR = 10, VOCAB = 11, T = 2 * DIGITS, B = 32 };

static const char spec_text[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 11, \"d_model\": 64, \"context\": 16,"
    " \"position\": {\"kind\": \"learned\"},"
    " \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}, \"norm\": {\"kind\": \"rmsnorm\"},"
    "               \"ffn\": {\"kind\": \"swiglu\", \"d_ff\": 128, \"bias\": false}}}";

static uint32_t state = 1;

static int32_t digit(void) { /* a linear congruential generator: the same rows on every machine */
    state = state * 1664525u + 1013904223u;
    return (int32_t)((state >> 16) % 10);
}

static void fill(int32_t *ids, int32_t *targets) {
    for (int row = 0; row < B; row++) {
        int32_t text[T + 1];
        for (int i = 0; i < DIGITS; i++) text[i] = text[2 * DIGITS - i] = digit();
        text[DIGITS] = SEPARATOR;
        memcpy(ids + row * T, text, T * sizeof *text);
        for (int t = 0; t < T; t++) targets[row * T + t] = t >= DIGITS ? text[t + 1] : QKV_IGNORE;
    }
}

/* Returns the share of the predicted digits that are correct. */
static double accuracy(const float *logits, const int32_t *targets) {
    int right = 0, all = 0;
    for (int n = 0; n < B * T; n++) {
        int best = 0;
        if (targets[n] == QKV_IGNORE) continue;
        for (int v = 1; v < VOCAB; v++)
            if (logits[n * VOCAB + v] > logits[n * VOCAB + best]) best = v;
        right += best == targets[n];
        all++;
    }
    return (double)right / all;
}

static enum qkv_status train(struct qkv_model *model, struct qkv_pass *pass, struct qkv_optimizer *optimizer,
                             int steps) {
    int32_t ids[B * T], targets[B * T];
    const struct qkv_batch batch = {.B = B, .T = T, .ids = ids, .targets = targets};
    enum qkv_status status = QKV_OK;
    for (int step = 1; step <= steps && !status; step++) {
        double rate = step < 50 ? 3e-3 * step / 50 : 3e-3 * (1 - (double)step / (steps + 1));
        fill(ids, targets);
        status = qkv_pass_forward(pass, &batch);
        if (!status && (step % 100 == 0 || step == steps))
            printf("step %4d  loss %.4f  right %5.1f%%\n", step, qkv_pass_loss(pass, NULL),
                   100 * accuracy(qkv_pass_output(pass).data, targets));
        if (!status) status = qkv_pass_backward(pass);
        double norm = status ? 0 : qkv_model_gradient_norm(model);
        if (!status) /* also clears the gradients */
            status = qkv_optimizer_step(optimizer, rate, norm > 1 ? 1 / norm : 1);
    }
    return status;
}

int main(int argc, char **argv) {
    int steps = argc > 1 ? atoi(argv[1]) : 600;
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    struct qkv_pass *pass = NULL;
    struct qkv_optimizer *optimizer = NULL;
    struct qkv_spec spec = {0};
    const struct qkv_pass_options options = {
        .size = sizeof options, .B = B, .T = T, .train = true, .dropout = true, .logits = true};
    const struct qkv_optimizer_options adamw = {.size = sizeof adamw,
                                                .kind = QKV_OPTIMIZER_ADAMW,
                                                .beta1 = 0.9,
                                                .beta2 = 0.98,
                                                .eps = 1e-8,
                                                .weight_decay = 0.01};

    enum qkv_status status = qkv_context_create(&ctx, NULL);
    if (!status) status = qkv_spec_parse(ctx, &spec, "the spec", spec_text, strlen(spec_text), NULL, 0);
    if (!status) status = qkv_model_create(ctx, &spec, 1, &model);
    if (!status) status = qkv_pass_create(model, &options, &pass);
    if (!status) status = qkv_optimizer_create(model, &adamw, &optimizer);
    if (!status) status = train(model, pass, optimizer, steps);
    if (status) fprintf(stderr, "%s: %s\n", argv[0], qkv_message(ctx));
    qkv_optimizer_free(optimizer);
    qkv_pass_free(pass);
    qkv_model_free(model);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return status ? 1 : 0;
}
