/* tinyencoder.c: a BERT for nine words. One word of each sentence is replaced by <mask>. An encoder of two layers,
 * which sees the words before and after it, learns to predict the word; then it fills masks. */
#include <math.h>

#include "words.h"

enum { PAD, BOS, EOS, MASK, VOCAB = 13, EPOCHS = 200 };

static const char *const words[VOCAB] = {"<pad>", "<bos>", "<eos>", "<mask>", "the", "cat", "dog",
                                         "bird",  "sat",   "on",    "mat",    "rug", "tree"};
static const char *const corpus[] = {"the cat sat on the mat", "the dog sat on the rug", "the bird sat on the tree"};
enum { SENTENCES = sizeof corpus / sizeof *corpus, T = 8, ROWS = SENTENCES * (T - 2) }; /* each word hidden once */

static const char spec_text[] =
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 13, \"d_model\": 32, \"context\": 16, \"tie\": \"none\","
    " \"embed\": {\"position\": {\"kind\": \"sinusoidal\"}}, \"init\": {\"kind\": \"torch\"}, \"head\": {\"bias\": "
    "true},"
    " \"encoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}, \"norm\": {\"final\": true},"
    "               \"ffn\": {\"kind\": \"relu\", \"d_ff\": 64}}}";

/* Makes one row for each word of each sentence: the word is masked, and it is the only target of the row. */
static size_t make_batch(int32_t *ids, int32_t *targets, int32_t *lengths) {
    size_t row = 0;
    for (size_t i = 0; i < SENTENCES; i++) {
        int32_t sentence[T], count = encode(words, VOCAB, corpus[i], sentence, T);
        for (int32_t hidden = 1; hidden < count - 1; hidden++, row++) {
            lengths[row] = count;
            for (int32_t t = 0; t < T; t++) {
                ids[row * T + (size_t)t] = t >= count ? PAD : t == hidden ? MASK : sentence[t];
                targets[row * T + (size_t)t] = t == hidden ? sentence[t] : QKV_IGNORE;
            }
        }
    }
    return row;
}

static void train(struct qkv_context *ctx, struct qkv_model *model) {
    int32_t ids[ROWS * T], targets[ROWS * T], lengths[ROWS];
    struct qkv_optimizer_options adam = qkv_optimizer_defaults();
    struct qkv_batch batch = qkv_batch_defaults();
    struct qkv_optimizer *optimizer;
    struct qkv_pass *pass;
    adam.kind = QKV_OPTIMIZER_ADAMW, adam.beta2 = 0.999, adam.weight_decay = 0;
    batch.B = make_batch(ids, targets, lengths), batch.T = T, batch.ids = ids, batch.targets = targets;
    batch.lengths = lengths;
    if (qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = ROWS, .T = T, .train = true), &pass) ||
        qkv_optimizer_create(model, &adam, &optimizer))
        fail(ctx);
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        if (qkv_pass_forward(pass, &batch) || qkv_pass_backward(pass) || qkv_optimizer_step(optimizer, 1e-3, 1))
            fail(ctx);
        if (epoch == 1 || epoch % 20 == 0) printf("epoch %3d  loss %.4f\n", epoch, qkv_pass_loss(pass, NULL));
    }
    qkv_optimizer_free(optimizer);
    qkv_pass_free(pass);
}

/* Prints the likeliest word for the mask, and its probability. */
static bool fill(struct qkv_context *ctx, struct qkv_model *model, const char *sentence, const char *expected) {
    int32_t ids[T], count = encode(words, VOCAB, sentence, ids, T), at = 0;
    struct qkv_batch batch = qkv_batch_defaults();
    struct qkv_pass *pass;
    while (ids[at] != MASK) at++;
    batch.B = 1, batch.T = (size_t)count, batch.ids = ids;
    if (qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = T, .logits = true), &pass) ||
        qkv_pass_forward(pass, &batch))
        fail(ctx);
    const float *scores = (const float *)qkv_pass_output(pass).data + at * VOCAB;
    int32_t best = 0;
    double sum = 0;
    for (int32_t id = 0; id < VOCAB; id++)
        if (scores[id] > scores[best]) best = id;
    for (int32_t id = 0; id < VOCAB; id++) sum += exp((double)(scores[id] - scores[best]));
    printf("%-28s %-5s %3.0f %%\n", sentence, words[best], 100 / sum);
    qkv_pass_free(pass);
    return strcmp(words[best], expected) == 0;
}

int main(void) {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_spec spec = {0};
    if (qkv_context_create(&ctx, NULL)) fail(ctx);
    if (qkv_spec_parse(ctx, &spec, "the example", spec_text, strlen(spec_text), NULL, 0) ||
        qkv_model_create(ctx, &spec, 1, &model))
        fail(ctx);
    train(ctx, model);
    bool right = fill(ctx, model, "the <mask> sat on the mat", "cat"); /* the words after the mask decide */
    right = fill(ctx, model, "the <mask> sat on the rug", "dog") && right;
    right = fill(ctx, model, "the bird sat on the <mask>", "tree") && right;
    right = fill(ctx, model, "the bird <mask> on the tree", "sat") && right;
    qkv_model_free(model);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return !right;
}
