/* tinylm.c: a GPT for nine words. Three sentences, one a row, are between <bos> and <eos> and padded to one length.
 * A decoder of two layers learns which word follows, and then writes sentences from <bos> to <eos> greedily. */
#include "words.h"

enum { PAD, BOS, EOS, VOCAB = 12, EPOCHS = 200, PARAMETERS = 17932 };

static const char *const words[VOCAB] = {"<pad>", "<bos>", "<eos>", "the", "cat", "dog",
                                         "bird",  "sat",   "on",    "mat", "rug", "tree"};
static const char *const corpus[] = {"the cat sat on the mat", "the dog sat on the rug", "the bird sat on the tree"};
enum { ROWS = sizeof corpus / sizeof *corpus, T = 8 }; /* <bos>, at most six words, <eos> */

static const char spec_text[] =
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 12, \"d_model\": 32, \"context\": 16, \"tie\": \"none\","
    " \"embed\": {\"position\": {\"kind\": \"sinusoidal\"}}, \"init\": {\"kind\": \"torch\"}, \"head\": {\"bias\": "
    "true},"
    " \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}, \"ffn\": {\"kind\": \"relu\", \"d_ff\": 64}}}";

/* The target of a position is the next token. Padding has no target, and lengths exclude it from attention. */
static void make_batch(int32_t *ids, int32_t *targets, int32_t *lengths) {
    for (size_t row = 0; row < ROWS; row++) {
        int32_t sentence[T], count = encode(words, VOCAB, corpus[row], sentence, T);
        lengths[row] = count - 1;
        for (int32_t t = 0; t < T - 1; t++) {
            ids[row * (T - 1) + (size_t)t] = t < count - 1 ? sentence[t] : PAD;
            targets[row * (T - 1) + (size_t)t] = t < count - 1 ? sentence[t + 1] : QKV_IGNORE;
        }
    }
}

/* Returns the loss of the last epoch. */
static double train(struct qkv_context *ctx, struct qkv_model *model) {
    int32_t ids[ROWS * (T - 1)], targets[ROWS * (T - 1)], lengths[ROWS];
    struct qkv_optimizer_options adam = qkv_optimizer_defaults();
    struct qkv_batch batch = qkv_batch_defaults();
    struct qkv_optimizer *optimizer;
    struct qkv_pass *pass;
    double loss = 0;
    adam.kind = QKV_OPTIMIZER_ADAMW, adam.beta2 = 0.999, adam.weight_decay = 0;
    make_batch(ids, targets, lengths);
    batch.B = ROWS, batch.T = T - 1, batch.ids = ids, batch.targets = targets, batch.lengths = lengths;
    if (qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = ROWS, .T = T - 1, .train = true), &pass) ||
        qkv_optimizer_create(model, &adam, &optimizer))
        fail(ctx);
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        if (qkv_pass_forward(pass, &batch) || qkv_pass_backward(pass) || qkv_optimizer_step(optimizer, 1e-3, 1))
            fail(ctx);
        loss = qkv_pass_loss(pass, NULL);
        if (epoch == 1 || epoch % 20 == 0) printf("epoch %3d  loss %.4f\n", epoch, loss);
    }
    qkv_optimizer_free(optimizer);
    qkv_pass_free(pass);
    return loss;
}

/* Writes the greedy sentence that begins with `prompt`; returns whether it ends. */
static bool generate(struct qkv_context *ctx, struct qkv_model *model, const char *prompt) {
    int32_t ids[T], count = encode(words, VOCAB, prompt, ids, T) - 1; /* without <eos> */
    struct qkv_session *session;
    if (qkv_session_create(model, &QKV_OPTIONS(qkv_session_options, .capacity = 16), &session) ||
        qkv_session_append(session, ids, (size_t)count))
        fail(ctx);
    for (int32_t i = 0; i < count; i++) printf("%s%s", i ? " " : "", words[ids[i]]);
    int32_t next = BOS;
    for (int i = 0; i < 8 && next != EOS; i++) {
        const float *scores = qkv_session_logits(session);
        next = PAD;
        for (int32_t id = 0; id < VOCAB; id++)
            if (scores[id] > scores[next]) next = id;
        printf(" %s", words[next]);
        if (next != EOS && qkv_session_append(session, &next, 1)) fail(ctx);
    }
    printf("\n");
    qkv_session_free(session);
    return next == EOS;
}

int main(void) {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_spec spec = {0};
    size_t parameters = 0;
    if (qkv_context_create(&ctx, NULL)) fail(ctx);
    if (qkv_spec_parse(ctx, &spec, "the example", spec_text, strlen(spec_text), NULL, 0) ||
        qkv_model_create(ctx, &spec, 1, &model))
        fail(ctx);
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        parameters += qkv_array_elements(qkv_model_parameter(model, i));
    printf("vocabulary of %d, %zu sentences, %zu parameters\n", VOCAB, (size_t)ROWS, parameters);
    const double loss = train(ctx, model);
    bool ends = generate(ctx, model, "");
    ends = generate(ctx, model, "the dog") && ends;
    ends = generate(ctx, model, "the bird") && ends;
    qkv_model_free(model);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return !(parameters == PARAMETERS && loss < 0.25 && ends);
}
