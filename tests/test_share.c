/* One model in several contexts (qkv_model_share): what threads compute at once is what the model computes alone, byte
 * for byte; what a share refuses; models that are freed while something uses them; calls of two threads with one
 * context; and cancelling (qkv_context_cancel). */
/* labels: numeric */
#include <pthread.h>
#include <stdatomic.h>

#include "search_fixture.h"

#define FIXTURE_OPTIONS .precision = QKV_PRECISION_AUTO
#include "context_fixture.h"

#include "model/model.h"

enum { THREADS = 8, GENERATIONS = 50, TOKENS = 16 };

/* Grouped heads; latent attention, and experts. */
#define HEAD "{\"format\":\"qkv\",\"version\":2,\"vocab\":280,\"d_model\":32,\"context\":64,\"decoder\":{\"layers\":2,"
static const char one[] = HEAD "\"attention\":{\"heads\":4,\"kv_heads\":2,\"position\":{\"kind\":\"rope\"}},"
                               "\"ffn\":{\"d_ff\":64}}}";
static const char latent[] = HEAD "\"attention\":{\"heads\":4,\"head_dim\":12,\"latent\":{\"rank\":16},"
                                  "\"position\":{\"kind\":\"rope\"}},"
                                  "\"ffn\":{\"d_ff\":48,\"experts\":{\"count\":5,\"top_k\":2,\"shared\":8}}}}";

static const char text[] =
    "the prompt of a prompter prompts the other promptly; the number of prompts is the number of the "
    "others, and the other numbers are the numbers of the others' other prompts";

static struct qkv_model *share_model_of(struct qkv_context *own, const char *json) {
    struct qkv_model *m = fixture_model(own, json, NULL, 0, 5, 0.2);
    struct qkv_tokenizer_options o = qkv_tokenizer_defaults();
    struct qkv_tokenizer *pairs;
    o.kind = QKV_TOKENIZER_BPE;
    o.vocab = 280;
    assert_ok(own, qkv_tokenizer_train(own, &o, text, sizeof text - 1, &pairs));
    assert_ok(own, qkv_model_set_tokenizer(m, pairs));
    return m;
}

static struct qkv_model *share_model(struct qkv_context *own) {
    return share_model_of(own, one);
}

/* The same model with weights that stay in the file, in bf16. */
static struct qkv_model *share_stored(struct qkv_context *own) {
    char folder[1024];
    struct qkv_model *m = share_model(own), *stored;
    snprintf(folder, sizeof folder, "%s/stored", test_folder());
    assert_ok(own, qkv_model_export(m, "bf16", folder));
    qkv_model_free(m);
    assert_ok(own, qkv_model_load(own, folder, &stored));
    return stored;
}

static struct qkv_context *share_context(const char *isa, enum qkv_precision precision) {
    struct qkv_context_options o = qkv_context_defaults();
    struct qkv_context *own;
    o.threads = 1;
    o.isa = isa;
    o.precision = precision;
    assert_ok(own, qkv_context_create(&own, &o));
    return own;
}

/* ---- the same bytes ---------------------------------------------------------------------------------------------- */

struct result {
    char bytes[8 * TOKENS];
    size_t size;
};

static bool result_add(void *user, const char *piece, size_t size) {
    struct result *t = user;
    if (t->size + size > sizeof t->bytes) return false;
    memcpy(t->bytes + t->size, piece, size);
    t->size += size;
    return true;
}

static enum qkv_status share_generate(struct qkv_model *m, size_t number, struct result *out) {
    struct qkv_generate_options o = qkv_generate_defaults();
    char prompt[32];
    o.tokens = TOKENS;
    o.sampling.seed = number;
    o.sampling.temperature = number % 3 ? 1 : 0;
    out->size = 0;
    const int n = snprintf(prompt, sizeof prompt, "prompt %zu", number % 7);
    return qkv_generate(m, prompt, (size_t)n, &o, result_add, out, NULL);
}

struct user {
    pthread_t thread;
    struct qkv_model *model;
    const struct result *expected; /* (GENERATIONS) */
    size_t wrong;
};

static void *user_run(void *argument) {
    struct user *u = argument;
    for (size_t i = 0; i < GENERATIONS; i++) {
        struct result got;
        const struct result *want = &u->expected[i];
        if (share_generate(u->model, i, &got) || got.size != want->size || memcmp(got.bytes, want->bytes, got.size))
            u->wrong++;
    }
    return NULL;
}

static void check_at_once(struct qkv_model *first, int threads) {
    static struct result expected[GENERATIONS];
    struct user users[THREADS];
    struct qkv_context *contexts[THREADS];
    for (size_t i = 0; i < GENERATIONS; i++) assert_ok(ctx, share_generate(first, i, &expected[i]));
    for (size_t i = 0; i < THREADS; i++) {
        struct qkv_context_options o = qkv_context_defaults();
        o.threads = threads;
        o.isa = qkv_context_isa(ctx);
        assert_ok(contexts[i], qkv_context_create(&contexts[i], &o));
        users[i] = (struct user){.expected = expected};
        assert_ok(contexts[i], qkv_model_share(i ? users[i - 1].model : first, contexts[i], &users[i].model));
    }
    qkv_model_free(first); /* the shares live on */
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&users[i].thread, NULL, user_run, &users[i]), 0);
    for (size_t i = 0; i < THREADS; i++) assert_int_equal(pthread_join(users[i].thread, NULL), 0);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(users[i].wrong, 0);
        qkv_model_free(users[i].model);
        qkv_context_free(contexts[i]);
    }
}

static void test_at_once(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        check_at_once(share_model(ctx), threads);
        check_at_once(share_model_of(ctx, latent), threads);
        check_at_once(share_stored(ctx), threads);
    }
}

/* ---- threads that share for the first time at once --------------------------------------------------------------- */

static void *user_share(void *argument) {
    struct user *u = argument;
    struct qkv_context_options o = qkv_context_defaults();
    struct qkv_context *own;
    struct qkv_model *share;
    struct result got;
    o.threads = 1;
    o.isa = qkv_context_isa(qkv_model_context(u->model));
    u->wrong = qkv_context_create(&own, &o) || qkv_model_share(u->model, own, &share);
    if (!u->wrong) {
        u->wrong = share_generate(share, 1, &got) || got.size != u->expected->size ||
                   memcmp(got.bytes, u->expected->bytes, got.size);
        qkv_model_free(share);
    }
    if (u->wrong) fprintf(stderr, "%s\n", qkv_message(own));
    qkv_context_free(own);
    return NULL;
}

static void test_first_shares_at_once(void **state) {
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct result expected;
        struct user users[THREADS];
        struct qkv_model *first = share_model(ctx), *other = share_model(ctx);
        assert_ok(ctx, share_generate(other, 1, &expected));
        for (size_t i = 0; i < THREADS; i++) {
            users[i] = (struct user){.model = first, .expected = &expected};
            assert_int_equal(pthread_create(&users[i].thread, NULL, user_share, &users[i]), 0);
        }
        for (size_t i = 0; i < THREADS; i++) assert_int_equal(pthread_join(users[i].thread, NULL), 0);
        for (size_t i = 0; i < THREADS; i++) assert_int_equal(users[i].wrong, 0);
        qkv_model_free(first);
        qkv_model_free(other);
    }
}

/* ---- an encoder with a context of its own ------------------------------------------------------------------------ */

enum { SOURCE = 20, CHANNELS = 5, TARGET = 6 };
static const char pair[] =
    "{\"format\":\"qkv\",\"version\":2,\"vocab\":11,\"d_model\":16,\"context\":8,\"source_context\":20,"
    "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2},\"ffn\":{\"d_ff\":16},"
    "\"embed\":{\"input\":{\"kind\":\"vectors\",\"channels\":5}}},"
    "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2},\"ffn\":{\"d_ff\":16}}}";

/* The scores after some tokens of a target. */
static void pair_scores(struct qkv_model *m, const float *features, float *scores) {
    struct qkv_context *own = qkv_model_context(m);
    struct qkv_decoder_options o = qkv_decoder_defaults();
    struct qkv_encoded *encoded;
    struct qkv_decoder *decoder;
    assert_ok(own, qkv_encode_features(m, features, NULL, 1, SOURCE, 0, &encoded));
    o.encoded = encoded;
    assert_ok(own, qkv_decoder_create(m, &o, &decoder));
    for (int32_t id = 1; id <= TARGET; id++) assert_ok(own, qkv_decoder_step(decoder, &id));
    memcpy(scores, qkv_decoder_logits(decoder), 11 * sizeof *scores);
    qkv_decoder_free(decoder);
    qkv_encoded_free(encoded);
}

static void test_encoder_and_decoder(void **state) {
    (void)state;
    struct qkv_context *other = share_context(qkv_context_isa(ctx), QKV_FP32);
    struct qkv_model *m = fixture_model(ctx, pair, NULL, 0, 5, 0.2), *share;
    struct qkv_random random = test_random(1);
    float features[SOURCE * CHANNELS], alone[11], shared[11];
    test_fill(&random, features, SOURCE * CHANNELS, 1);
    pair_scores(m, features, alone);
    assert_ok(other, qkv_model_share(m, other, &share));
    pair_scores(share, features, shared);
    assert_memory_equal(shared, alone, sizeof alone);
    qkv_model_free(m);
    pair_scores(share, features, shared);
    assert_memory_equal(shared, alone, sizeof alone);
    qkv_model_free(share);
    qkv_context_free(other);
}

/* ---- what is shared, and what is refused ------------------------------------------------------------------------- */

/* Nothing is copied; a context of another precision changes no byte. */
static void test_once_in_memory(void **state) {
    (void)state;
    const bool bf16 = qkv_context_precision(ctx) != QKV_FP32;
    struct qkv_context *other = share_context(qkv_context_isa(ctx), bf16 ? QKV_FP32 : QKV_MIXED_BF16);
    struct qkv_model *m = share_model(ctx), *share;
    struct result alone, shared;
    assert_ok(ctx, share_generate(m, 1, &alone));
    assert_ok(other, qkv_model_share(m, other, &share));
    assert_ptr_equal(share->weights.tensors, m->weights.tensors);
    assert_ptr_equal(share->packed_weights, m->packed_weights);
    assert_true(!bf16 || m->packed_weights);
    assert_ptr_equal(qkv_model_tokenizer(share), qkv_model_tokenizer(m));
    assert_ptr_equal(qkv_model_context(share), other);
    assert_int_equal(qkv_model_own_precision(share), qkv_context_precision(ctx));
    assert_ok(other, share_generate(share, 1, &shared));
    assert_int_equal(shared.size, alone.size);
    assert_memory_equal(shared.bytes, alone.bytes, alone.size);
    qkv_model_free(share);
    qkv_model_free(m);
    qkv_context_free(other);
}

static enum qkv_status share_set_weights(struct qkv_model *m) {
    const size_t count = qkv_array_elements(qkv_model_parameter(m, 0));
    float *numbers = calloc(count, sizeof *numbers);
    assert_non_null(numbers);
    const enum qkv_status status = qkv_model_set_weights(m, 0, numbers, count);
    free(numbers);
    return status;
}

static void refuse_changes(struct qkv_context *own, struct qkv_model *m) {
    const struct qkv_pass_options pass_options = {.size = sizeof pass_options, .B = 1, .T = 4, .train = true};
    struct qkv_pass *pass;
    struct qkv_optimizer *optimizer;
    struct qkv_tokenizer *tokenizer;
    struct qkv_tokenizer_options o = qkv_tokenizer_defaults();
    o.kind = QKV_TOKENIZER_BYTES;
    assert_fails(own, qkv_pass_create(m, &pass_options, &pass), QKV_ARGUMENT, "several contexts share this model");
    assert_fails(own, qkv_optimizer_create(m, NULL, &optimizer), QKV_ARGUMENT, "several contexts share this model");
    assert_fails(own, qkv_model_set_trainable(m, 0, false), QKV_ARGUMENT, "several contexts share this model");
    assert_fails(own, qkv_model_set_trainable_all(m, "*", false, NULL), QKV_ARGUMENT, "read-only");
    assert_fails(own, qkv_model_set_rate_all(m, "*", 2, NULL), QKV_ARGUMENT, "read-only");
    assert_ok(own, qkv_tokenizer_train(own, &o, "", 0, &tokenizer));
    assert_fails(own, qkv_model_set_tokenizer(m, tokenizer), QKV_ARGUMENT, "its tokenizer cannot be set");
    assert_fails(own, share_set_weights(m), QKV_ARGUMENT, "its weights cannot be set");
}

static void test_read_only(void **state) {
    (void)state;
    struct qkv_context *other = share_context(qkv_context_isa(ctx), QKV_FP32);
    struct qkv_model *m = share_model(ctx), *share, *second;
    struct qkv_pass *pass;
    const struct qkv_pass_options train = {.size = sizeof train, .B = 1, .T = 4, .train = true};
    assert_ok(other, qkv_model_share(m, other, &share));
    refuse_changes(ctx, m);
    refuse_changes(other, share);
    qkv_model_free(share);
    assert_ok(ctx, share_set_weights(m)); /* the only one again */
    assert_ok(ctx, qkv_pass_create(m, &train, &pass));
    assert_fails(other, qkv_model_share(m, other, &share), QKV_ARGUMENT, "the model is being trained");
    qkv_pass_free(pass);
    assert_ok(other, qkv_model_share(m, other, &share));
    qkv_model_free(m);
    refuse_changes(other, share); /* what it shares is not its own, also alone */
    assert_ok(other, qkv_model_share(share, other, &second));
    qkv_model_free(share);
    qkv_model_free(second);
    qkv_context_free(other);
}

static void test_refused(void **state) {
    (void)state;
    struct qkv_model *m = share_model(ctx), *plan, *share;
    const char *isa = NULL;
    for (size_t i = 0; qkv_isa_at(i); i++)
        if (strcmp(qkv_isa_at(i), qkv_context_isa(ctx)) != 0) isa = qkv_isa_at(i);
    assert_ok(ctx, qkv_model_plan(ctx, qkv_model_spec(m), &plan));
    assert_fails(ctx, qkv_model_share(plan, ctx, &share), QKV_ARGUMENT, "a planned model has no weights to share");
    if (isa) {
        struct qkv_context *other = share_context(isa, QKV_FP32);
        assert_fails(other, qkv_model_share(m, other, &share), QKV_ARGUMENT, "make it with option isa = ");
        assert_null(share);
        qkv_context_free(other);
    }
    qkv_model_free(plan);
    qkv_model_free(m);
}

/* ---- freed too early --------------------------------------------------------------------------------------------- */

static void test_freed(void **state) {
    (void)state;
    struct qkv_model *m = share_model(ctx), *share;
    struct qkv_session *s, *fork;
    struct qkv_pass *pass;
    struct qkv_optimizer *optimizer;
    const int32_t ids[] = {1, 2, 3, 4};
    const struct qkv_pass_options train = {.size = sizeof train, .B = 1, .T = 4, .train = true};
    const struct qkv_batch batch = {.B = 1, .T = 4, .ids = ids, .targets = ids};
    assert_ok(ctx, qkv_session_create(m, NULL, &s));
    assert_ok(ctx, qkv_session_append(s, ids, 2));
    assert_ok(ctx, qkv_pass_create(m, &train, &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &batch));
    assert_ok(ctx, qkv_pass_backward(pass));
    assert_ok(ctx, qkv_optimizer_create(m, NULL, &optimizer));
    qkv_model_free(m);
    assert_fails(ctx, qkv_session_append(s, ids, 1), QKV_ARGUMENT, "the model was freed");
    assert_fails(ctx, qkv_session_fork(s, &fork), QKV_ARGUMENT, "the model was freed");
    assert_fails(ctx, qkv_pass_forward(pass, &batch), QKV_ARGUMENT, "the model was freed");
    assert_fails(ctx, qkv_optimizer_step(optimizer, 0.1, 1), QKV_ARGUMENT, "the model was freed");
    assert_fails(ctx, qkv_model_share(m, ctx, &share), QKV_ARGUMENT, "the model was freed");
    assert_non_null(qkv_session_logits(s));
    qkv_optimizer_free(optimizer);
    qkv_pass_free(pass);
    qkv_session_free(s);
}

/* ---- two threads in one context ---------------------------------------------------------------------------------- */

struct second {
    struct qkv_model *model;
    atomic_int status; /* −1: no call yet */
    char message[256];
};

static void *second_run(void *argument) {
    struct second *second = argument;
    struct qkv_session *s = (struct qkv_session *)second; /* a refused call also says that there is none */
    const int status = (int)qkv_session_create(second->model, NULL, &s);
    snprintf(second->message, sizeof second->message, "%s", qkv_message(qkv_model_context(second->model)));
    qkv_session_free(s);
    atomic_store(&second->status, status);
    return NULL;
}

/* Is called inside a call of the first thread. */
static bool second_meanwhile(void *user, const char *piece, size_t size) {
    struct second *second = user;
    pthread_t thread;
    (void)piece, (void)size;
    if (atomic_load(&second->status) >= 0) return true;
    assert_int_equal(pthread_create(&thread, NULL, second_run, second), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return true;
}

static void test_two_threads_refused(void **state) {
    (void)state;
    struct qkv_model *m = share_model(ctx);
    struct second second = {.model = m};
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_session *s;
    o.tokens = TOKENS;
    atomic_init(&second.status, -1);
    assert_ok(ctx, qkv_generate(m, "prompt", 6, &o, second_meanwhile, &second, NULL));
    assert_int_equal(atomic_load(&second.status), QKV_ARGUMENT);
    assert_non_null(strstr(second.message, "another thread is inside a call with this context"));
    assert_ok(ctx, qkv_session_create(m, NULL, &s)); /* the context is as before */
    qkv_session_free(s);
    qkv_model_free(m);
}

/* ---- cancelling -------------------------------------------------------------------------------------------------- */

static void test_cancelled(void **state) {
    (void)state;
    struct qkv_model *m = share_model(ctx);
    struct qkv_session *a, *b;
    struct result before, after;
    const int32_t ids[] = {5, 6, 7, 8, 9};
    const size_t V = (size_t)qkv_model_spec(m)->vocab;
    assert_ok(ctx, share_generate(m, 1, &before));
    assert_ok(ctx, qkv_session_create(m, NULL, &a));
    assert_ok(ctx, qkv_session_create(m, NULL, &b));
    assert_ok(ctx, qkv_session_append(a, ids, 2));
    assert_ok(ctx, qkv_session_append(b, ids, 2));
    qkv_context_cancel(ctx, true);
    assert_fails(ctx, qkv_session_append(a, ids + 2, 3), QKV_STOPPED, "was cancelled (qkv_context_cancel)");
    assert_fails(ctx, share_generate(m, 1, &after), QKV_STOPPED, "was cancelled");
    assert_int_equal(qkv_session_length(a), 2);
    qkv_context_cancel(ctx, false);
    assert_ok(ctx, qkv_session_append(a, ids + 2, 3));
    assert_ok(ctx, qkv_session_append(b, ids + 2, 3));
    assert_memory_equal(qkv_session_logits(a), qkv_session_logits(b), V * sizeof(float));
    assert_ok(ctx, share_generate(m, 1, &after));
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.bytes, before.bytes, before.size);
    qkv_session_free(a);
    qkv_session_free(b);
    qkv_model_free(m);
}

/* From another thread, while the first one is at work. */
static void *cancel_run(void *argument) {
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    qkv_context_cancel(argument, true);
    return NULL;
}

static bool endless(void *user, const char *piece, size_t size) {
    (void)user, (void)piece, (void)size;
    return true;
}

static void test_cancelled_from_outside(void **state) {
    (void)state;
    struct qkv_model *m = share_model(ctx);
    struct qkv_generate_options o = qkv_generate_defaults();
    pthread_t thread;
    o.tokens = (size_t)1 << 40;
    assert_int_equal(pthread_create(&thread, NULL, cancel_run, ctx), 0);
    assert_fails(ctx, qkv_generate(m, "prompt", 6, &o, endless, NULL, NULL), QKV_STOPPED, "was cancelled");
    assert_int_equal(pthread_join(thread, NULL), 0);
    qkv_context_cancel(ctx, false);
    qkv_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_first_shares_at_once),
        cmocka_unit_test(test_encoder_and_decoder),
        cmocka_unit_test(test_once_in_memory),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_freed),
        cmocka_unit_test(test_two_threads_refused),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_cancelled_from_outside),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
