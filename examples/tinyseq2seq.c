/* tinyseq2seq.c: a T5 for two sentences. An encoder of two layers reads English, a decoder of two layers writes
 * French. The encoder runs once for a sentence, the decoder once for each word that it adds, greedily. */
#include "words.h"

enum { PAD, BOS, EOS, VOCAB = 12, EPOCHS = 200, PARAMETERS = 44044 };

static const char *const words[VOCAB] = {"<pad>", "<bos>", "<eos>", "i",   "like",  "cats",
                                         "dogs",  "j'",    "aime",  "les", "chats", "chiens"};
static const char *const pairs[][2] = {{"i like cats", "j' aime les chats"}, {"i like dogs", "j' aime les chiens"}};
enum { ROWS = sizeof pairs / sizeof *pairs, T = 6 }; /* <bos>, at most four words, <eos> */

static const char spec_text[] =
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 12, \"d_model\": 32, \"context\": 16, \"tie\": \"none\","
    " \"embed\": {\"position\": {\"kind\": \"sinusoidal\"}}, \"init\": {\"kind\": \"torch\"}, \"head\": {\"bias\": "
    "true},"
    " \"encoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}, \"ffn\": {\"kind\": \"relu\", \"d_ff\": 64}},"
    " \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}, \"ffn\": {\"kind\": \"relu\", \"d_ff\": 64}}}";

/* The decoder reads the target up to a word and predicts the next one. */
static void train(struct qkv_context *ctx, struct qkv_model *model) {
    int32_t source[ROWS * T] = {PAD}, source_lengths[ROWS], ids[ROWS * T] = {PAD}, targets[ROWS * T], lengths[ROWS];
    struct qkv_optimizer_options adam = qkv_optimizer_defaults();
    struct qkv_batch batch = qkv_batch_defaults();
    struct qkv_optimizer *optimizer;
    struct qkv_pass *pass;
    adam.kind = QKV_OPTIMIZER_ADAMW, adam.beta2 = 0.999, adam.weight_decay = 0;
    for (size_t row = 0; row < ROWS; row++) {
        int32_t target[T], count = encode(words, VOCAB, pairs[row][1], target, T);
        source_lengths[row] = encode(words, VOCAB, pairs[row][0], source + row * T, T);
        lengths[row] = count - 1;
        for (int32_t t = 0; t < T; t++) {
            ids[row * T + (size_t)t] = t < count - 1 ? target[t] : PAD;
            targets[row * T + (size_t)t] = t < count - 1 ? target[t + 1] : QKV_IGNORE;
        }
    }
    batch.B = ROWS, batch.T = batch.source_T = T, batch.ids = ids, batch.targets = targets, batch.lengths = lengths;
    batch.source = source, batch.source_lengths = source_lengths;
    if (qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = ROWS, .T = T, .source_T = T, .train = true),
                        &pass) ||
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

/* Whether the greedy target is the expected one. */
static bool translate(struct qkv_context *ctx, struct qkv_model *model, const char *sentence, const char *expected) {
    int32_t source[T], count = encode(words, VOCAB, sentence, source, T), next = BOS;
    struct qkv_encoded *encoded;
    struct qkv_decoder *decoder;
    char target[100] = "";
    size_t used = 0;
    if (qkv_encode(model, source, NULL, 1, (size_t)count, &encoded)) fail(ctx); /* encode, once */
    if (qkv_decoder_create(model,
                           &QKV_OPTIONS(qkv_decoder_options, .encoded = encoded, .rows = 1, .capacity = T, .chunk = 1),
                           &decoder))
        fail(ctx);
    for (int i = 0; i < T && next != EOS; i++) {
        if (qkv_decoder_step(decoder, &next)) fail(ctx); /* decode, word by word */
        const float *scores = qkv_decoder_logits(decoder);
        next = PAD;
        for (int32_t id = 0; id < VOCAB; id++)
            if (scores[id] > scores[next]) next = id;
        if (next != EOS)
            used += (size_t)snprintf(target + used, sizeof target - used, "%s%s", used ? " " : "", words[next]);
    }
    printf("%s -> %s\n", sentence, target);
    qkv_decoder_free(decoder);
    qkv_encoded_free(encoded);
    return strcmp(target, expected) == 0;
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
    printf("vocabulary of %d, %zu pairs, %zu parameters\n", VOCAB, (size_t)ROWS, parameters);
    train(ctx, model);
    bool right = true;
    for (size_t i = 0; i < ROWS; i++) right = translate(ctx, model, pairs[i][0], pairs[i][1]) && right;
    qkv_model_free(model);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return !(parameters == PARAMETERS && right);
}
