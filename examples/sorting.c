/* sorting.c: a small T5 learns to sort. Ten different letters of thirty, in any order, become the same letters in
 * alphabetical order. Its only positions are those of T5: a learned bias for each bucket of distances, one table for
 * each stack. Every step draws new lists; at the end the model sorts 1,000 lists that it has never seen.
 *     sorting [STEPS]        600 if STEPS is left out */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkv.h>

enum { LETTERS = 30, BOS = LETTERS, EOS, VOCAB, ITEMS = 10, T = ITEMS + 1, ROWS = 64, TESTS = 1000, STEPS = 600 };

static const char *const letters[LETTERS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o",
                                             "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z", "ä", "ö", "ü", "ß"};

/* RMSNorm, a gated feed-forward, no biases, unscaled scores (T5 1.1). */
static const char spec_text[] =
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 32, \"d_model\": 64, \"context\": 16, \"tie\": \"all\","
    " \"encoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, \"scale\": 1.0, \"bias\": false,"
    " \"position\": {\"kind\": \"buckets\", \"buckets\": 16, \"max_distance\": 16}},"
    " \"norm\": {\"kind\": \"rmsnorm\"}, \"ffn\": {\"kind\": \"geglu\", \"d_ff\": 128, \"bias\": false}},"
    " \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, \"scale\": 1.0, \"bias\": false,"
    " \"position\": {\"kind\": \"buckets\", \"buckets\": 8, \"max_distance\": 16}},"
    " \"norm\": {\"kind\": \"rmsnorm\"}, \"ffn\": {\"kind\": \"geglu\", \"d_ff\": 128, \"bias\": false}}}";

static _Noreturn void fail(const struct qkv_context *ctx) {
    fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
    exit(1);
}

static uint32_t draw(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*state >> 33) % below;
}

/* Draws ten different letters, and sorts them. */
static void draw_list(uint64_t *state, int32_t *list, int32_t *sorted) {
    int32_t all[LETTERS], chosen[LETTERS] = {0}, at = 0;
    for (int32_t i = 0; i < LETTERS; i++) all[i] = i;
    for (int32_t i = 0; i < ITEMS; i++) {
        const int32_t other = i + (int32_t)draw(state, (uint32_t)(LETTERS - i)), letter = all[other];
        all[other] = all[i];
        list[i] = letter;
        chosen[letter] = 1;
    }
    for (int32_t i = 0; i < LETTERS; i++)
        if (chosen[i]) sorted[at++] = i;
}

static void train(struct qkv_context *ctx, struct qkv_model *model, int steps) {
    int32_t source[ROWS * ITEMS], ids[ROWS * T], targets[ROWS * T], sorted[ITEMS];
    struct qkv_optimizer_options adam = qkv_optimizer_defaults();
    struct qkv_batch batch = qkv_batch_defaults();
    struct qkv_optimizer *optimizer;
    struct qkv_pass *pass;
    uint64_t state = 1;
    adam.kind = QKV_OPTIMIZER_ADAMW, adam.beta2 = 0.98;
    batch.B = ROWS, batch.T = T, batch.source_T = ITEMS;
    batch.source = source, batch.ids = ids, batch.targets = targets;
    if (qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = ROWS, .T = T, .source_T = ITEMS, .train = true),
                        &pass) ||
        qkv_optimizer_create(model, &adam, &optimizer))
        fail(ctx);
    for (int step = 1; step <= steps; step++) {
        const double warm = step < 50 ? step / 50.0 : 1, rest = 0.5 * (1 + cos(3.14159265 * step / steps));
        for (int row = 0; row < ROWS; row++) {
            draw_list(&state, source + row * ITEMS, sorted);
            for (int t = 0; t < T; t++) {
                ids[row * T + t] = t ? sorted[t - 1] : BOS;
                targets[row * T + t] = t < ITEMS ? sorted[t] : EOS;
            }
        }
        if (qkv_pass_forward(pass, &batch) || qkv_pass_backward(pass) ||
            qkv_optimizer_step(optimizer, 3e-3 * warm * (0.02 + 0.98 * rest), 1))
            fail(ctx);
        if (step == 1 || step % 100 == 0) {
            printf("step %4d  loss %.4f\n", step, qkv_pass_loss(pass, NULL));
            fflush(stdout);
        }
    }
    qkv_optimizer_free(optimizer);
    qkv_pass_free(pass);
}

/* Sorts all lists together, greedily: (TESTS,T). */
static void sort_lists(struct qkv_context *ctx, struct qkv_model *model, const int32_t *lists, int32_t *out) {
    static int32_t next[TESTS];
    struct qkv_encoded *encoded;
    struct qkv_decoder *decoder;
    if (qkv_encode(model, lists, NULL, TESTS, ITEMS, &encoded) ||
        qkv_decoder_create(
            model, &QKV_OPTIONS(qkv_decoder_options, .encoded = encoded, .rows = TESTS, .capacity = T, .chunk = 1),
            &decoder))
        fail(ctx);
    for (int row = 0; row < TESTS; row++) next[row] = BOS;
    for (int t = 0; t < T; t++) {
        if (qkv_decoder_step(decoder, next)) fail(ctx);
        for (int row = 0; row < TESTS; row++) {
            const float *scores = qkv_decoder_logits(decoder) + row * VOCAB;
            next[row] = 0;
            for (int32_t id = 0; id < VOCAB; id++)
                if (scores[id] > scores[next[row]]) next[row] = id;
            out[row * T + t] = next[row];
        }
    }
    qkv_decoder_free(decoder);
    qkv_encoded_free(encoded);
}

/* Counts the unseen lists whose letters and end are all correct. */
static int test(struct qkv_context *ctx, struct qkv_model *model) {
    static int32_t lists[TESTS * ITEMS], sorted[TESTS * ITEMS], out[TESTS * T];
    uint64_t state = 2;
    int right = 0;
    for (int row = 0; row < TESTS; row++) draw_list(&state, lists + row * ITEMS, sorted + row * ITEMS);
    sort_lists(ctx, model, lists, out);
    for (int row = 0; row < TESTS; row++)
        right += !memcmp(out + row * T, sorted + row * ITEMS, ITEMS * sizeof *out) && out[row * T + ITEMS] == EOS;
    for (int i = 0; i < ITEMS; i++) printf("%s ", letters[lists[i]]);
    printf("->");
    for (int i = 0; i < ITEMS && out[i] < LETTERS; i++) printf(" %s", letters[out[i]]);
    printf("\n%d of %d unseen lists are sorted exactly: %.1f %%\n", right, TESTS, 100.0 * right / TESTS);
    return right;
}

int main(int argc, char **argv) {
    const int steps = argc > 1 ? atoi(argv[1]) : STEPS;
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_spec spec = {0};
    if (argc > 2 || steps < 1) {
        fprintf(stderr, "usage: sorting [STEPS], at least one\n");
        return 2;
    }
    if (qkv_context_create(&ctx, NULL)) fail(ctx);
    if (qkv_spec_parse(ctx, &spec, "the example", spec_text, strlen(spec_text), NULL, 0) ||
        qkv_model_create(ctx, &spec, 1, &model))
        fail(ctx);
    train(ctx, model, steps);
    const int right = test(ctx, model);
    qkv_model_free(model);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return steps >= STEPS && right * 100 < 95 * TESTS;
}
