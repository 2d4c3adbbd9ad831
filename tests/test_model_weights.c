/* Attention weights of a pass, computed on request: any rows of any head, the same bits for every way of asking, in
 * agreement with the stages before them, and without T×T memory. test_golden tests that they are correct. */
/* labels: numeric quick */
#include "test.h"
#include "weights.h"

#include "model/model.h"

enum { B = 2, T = 9, S = 7, VOCAB = 13 };

struct sample {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_pass *pass;
    struct qkv_random random;
    int32_t ids[B * T], source[B * S], targets[B * T], lengths[B], source_lengths[B];
    struct qkv_batch batch;
};

#define ATTENTION "{\"heads\": 4, \"kv_heads\": 2, \"head_dim\": 6, \"value_dim\": 5, \"window\": 4, \"softcap\": 2.0}"
static const char stack[] = "{\"layers\": 2, \"attention\": " ATTENTION ", \"norm\": {\"placement\": \"pre\"}}";

static void make_model(struct sample *s, bool encoder, bool decoder, size_t context, const char *position) {
    char json[1024];
    OWNED_SPEC struct qkv_spec spec = {0};
    snprintf(json, sizeof json,
             "{\"format\": \"qkv\", \"version\": 1, \"vocab\": %d, \"d_model\": 12, \"context\": %zu, "
             "\"position\": {\"kind\": \"%s\"}, \"encoder\": %s, \"decoder\": %s}",
             VOCAB, context, position, encoder ? stack : "null", decoder ? stack : "null");
    if (!s->ctx) assert_int_equal(qkv_context_create(&s->ctx, NULL), QKV_OK);
    assert_ok(s->ctx, qkv_spec_parse(s->ctx, &spec, "test", json, strlen(json), NULL, 0));
    assert_ok(s->ctx, qkv_model_create(s->ctx, &spec, 5, &s->model));
    for (size_t i = 0; i < qkv_model_parameters(s->model); i++) { /* large, so that the weights differ */
        float *w = test_weights_mutable(s->model, i);
        for (size_t k = 0; k < qkv_array_elements(qkv_model_parameter(s->model, i)); k++)
            w[k] += 0.3F * (float)qkv_random_normal(&s->random);
    }
}

static void start(struct sample *s, uint64_t stream, bool encoder, bool decoder, bool train) {
    memset(s, 0, sizeof *s);
    s->random = test_random(stream);
    make_model(s, encoder, decoder, 16, stream % 2 ? "rope" : "alibi");
    for (size_t n = 0; n < B * T; n++) {
        s->ids[n] = (int32_t)qkv_random_below(&s->random, VOCAB);
        s->targets[n] = (int32_t)qkv_random_below(&s->random, VOCAB);
    }
    for (size_t n = 0; n < B * S; n++) s->source[n] = (int32_t)qkv_random_below(&s->random, VOCAB);
    for (size_t b = 0; b < B; b++) {
        s->lengths[b] = (int32_t)test_between(&s->random, 0, T);
        s->source_lengths[b] = (int32_t)test_between(&s->random, 0, S);
    }
    s->batch = (struct qkv_batch){.B = B,
                                  .T = T,
                                  .ids = s->ids,
                                  .lengths = s->lengths,
                                  .targets = s->targets,
                                  .source_T = S,
                                  .source = s->source,
                                  .source_lengths = s->source_lengths};
    struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = T, .source_T = S, .train = train, .weights = true};
    assert_ok(s->ctx, qkv_pass_create(s->model, &o, &s->pass));
}

static void finish(struct sample *s) {
    qkv_pass_free(s->pass);
    qkv_model_free(s->model);
    qkv_context_free(s->ctx);
}

static float *look(struct sample *s, size_t i, enum qkv_attention_stage stage, size_t b, size_t h) {
    struct qkv_array a;
    assert_true(qkv_pass_attention(s->pass, i, &a));
    float *out = malloc(a.shape[2] * a.shape[3] * sizeof(float));
    assert_ok(s->ctx, qkv_pass_weights(s->pass, i, stage, b, h, 0, a.shape[2], out));
    return out;
}

/* Whether a query of attention `name` may see a key, by the masks as the manual defines them; past a length there is
 * no query. */
static bool open_pair(const struct sample *s, const char *name, size_t b, size_t i, size_t j) {
    bool encoder = !strncmp(name, "encoder", 7), cross = strstr(name, "cross") != NULL;
    bool both = qkv_model_spec(s->model)->encoder.layers && qkv_model_spec(s->model)->decoder.layers;
    int32_t length = cross || (encoder && both) ? s->source_lengths[b] : s->lengths[b];
    int32_t queries = encoder && both ? s->source_lengths[b] : s->lengths[b];
    if ((int64_t)j >= length || (int64_t)i >= queries) return false;
    if (cross) return true;
    return (encoder || j <= i) && (i > j ? i - j : j - i) < 4;
}

/* One head of one row: the stages follow from each other, masks are where they belong, rows alone are the same bits. */
static void check_head(struct sample *s, size_t i, const struct qkv_array *a, size_t b, size_t h) {
    size_t Tq = a->shape[2], Tk = a->shape[3];
    float *w = look(s, i, QKV_ATTENTION_WEIGHTS, b, h), *scores = look(s, i, QKV_ATTENTION_SCORES, b, h);
    float *capped = look(s, i, QKV_ATTENTION_CAPPED, b, h), *products = look(s, i, QKV_ATTENTION_PRODUCTS, b, h);
    float row[T];
    for (size_t t = 0; t < Tq; t++) {
        double sum = 0;
        for (size_t j = t * Tk; j < (t + 1) * Tk; j++) {
            bool open = open_pair(s, a->name, b, t, j - t * Tk);
            assert_true(open ? isfinite(scores[j]) : scores[j] == -INFINITY && w[j] == 0);
            sum += open ? exp((double)scores[j]) : 0;
            assert_true(fabs((double)capped[j] - 2 * tanh((double)products[j] / 2)) < 1e-5);
        }
        for (size_t j = t * Tk; j < (t + 1) * Tk; j++)
            assert_true(fabs((double)w[j] - (sum > 0 ? exp((double)scores[j]) / sum : 0)) < 1e-5);
        assert_ok(s->ctx, qkv_pass_weights(s->pass, i, QKV_ATTENTION_WEIGHTS, b, h, t, 1, row));
        assert_memory_equal(row, w + t * Tk, Tk * sizeof(float));
    }
    free(w);
    free(scores);
    free(capped);
    free(products);
}

static void test_stages(void **state) {
    (void)state;
    for (uint64_t k = 0; k < 12; k++) {
        struct sample s;
        struct qkv_array a;
        size_t i = 0;
        bool encoder = k % 3 != 0, decoder = k % 3 != 1;
        start(&s, 10 + k, encoder, decoder, k % 2);
        size_t bytes = qkv_pass_bytes(s.pass);
        assert_ok(s.ctx, qkv_pass_forward(s.pass, &s.batch));
        for (; qkv_pass_attention(s.pass, i, &a); i++) {
            assert_true(a.rank == 4 && a.shape[0] == B && a.shape[1] == 4 && !a.data);
            for (size_t n = 0; n < (size_t)B * 4; n++) check_head(&s, i, &a, n / 4, n % 4);
        }
        assert_int_equal(i, encoder && decoder ? 6 : 2);
        assert_int_equal(qkv_pass_bytes(s.pass), bytes);
        finish(&s);
    }
}

/* Recorded or not, before backward or after it, of a smaller batch too: the same bits. */
static void test_when(void **state) {
    (void)state;
    for (uint64_t k = 0; k < 6; k++) {
        struct sample s, t;
        struct qkv_array a;
        start(&s, 30 + k, k % 3 != 0, k % 3 != 1, true);
        start(&t, 30 + k, k % 3 != 0, k % 3 != 1, false);
        t.batch.B = s.batch.B = 1 + k % 2;
        assert_ok(s.ctx, qkv_pass_forward(s.pass, &s.batch));
        assert_ok(t.ctx, qkv_pass_forward(t.pass, &t.batch));
        for (size_t i = 0; qkv_pass_attention(s.pass, i, &a); i++) {
            float *x = look(&s, i, QKV_ATTENTION_WEIGHTS, k % 2, 3), *y = look(&t, i, QKV_ATTENTION_WEIGHTS, k % 2, 3);
            assert_memory_equal(x, y, a.shape[2] * a.shape[3] * sizeof(float));
            free(x);
            free(y);
        }
        float *before = look(&s, 1, QKV_ATTENTION_WEIGHTS, 0, 2);
        assert_ok(s.ctx, qkv_pass_backward(s.pass));
        float *after = look(&s, 1, QKV_ATTENTION_WEIGHTS, 0, 2);
        assert_true(qkv_pass_attention(s.pass, 1, &a));
        assert_memory_equal(before, after, a.shape[2] * a.shape[3] * sizeof(float));
        free(before);
        free(after);
        finish(&s);
        finish(&t);
    }
}

/* With dropout, the weights before and after it are equal except for a share p of zeros, which differs in every row
 * of the batch; for one seed they stay the same, before backward and after it. */
static void weights_after_dropout_are_zero_or_scaled(void **state) {
    (void)state;
    for (uint64_t k = 0; k < 6; k++) {
        struct sample s;
        struct qkv_array a;
        size_t kept = 0, all = 0;
        const double p = 0.3;
        start(&s, 60 + k, k % 3 != 0, k % 3 != 1, false);
        qkv_pass_free(s.pass);
        s.model->spec.dropout = p;
        struct qkv_pass_options o = {
            .size = sizeof o, .B = B, .T = T, .source_T = S, .train = true, .dropout = true, .weights = true};
        assert_ok(s.ctx, qkv_pass_create(s.model, &o, &s.pass));
        s.batch.dropout_seed = k;
        s.batch.lengths = s.batch.source_lengths = NULL;
        assert_ok(s.ctx, qkv_pass_forward(s.pass, &s.batch));
        for (size_t i = 0; qkv_pass_attention(s.pass, i, &a); i++)
            for (size_t n = 0; n < (size_t)B * 4; n++) {
                float *w = look(&s, i, QKV_ATTENTION_WEIGHTS, n / 4, n % 4);
                float *dropped = look(&s, i, QKV_ATTENTION_DROPPED, n / 4, n % 4);
                for (size_t e = 0; e < a.shape[2] * a.shape[3]; e++) {
                    const double whole = (double)w[e] / (1 - p), got = (double)dropped[e];
                    assert_true(got == 0 || fabs(got - whole) <= 1e-6 * whole);
                    all += w[e] > 0, kept += got > 0;
                }
                free(w), free(dropped);
            }
        /* Seven deviations of a binomial. */
        const double off = (double)kept / (double)all - (1 - p);
        if (!(fabs(off) < 7 * sqrt(p * (1 - p) / (double)all))) fail_msg("%zu of %zu are kept", kept, all);
        float *before = look(&s, 0, QKV_ATTENTION_DROPPED, 0, 2), *other = look(&s, 0, QKV_ATTENTION_DROPPED, 1, 2);
        assert_ok(s.ctx, qkv_pass_backward(s.pass));
        float *after = look(&s, 0, QKV_ATTENTION_DROPPED, 0, 2);
        assert_true(qkv_pass_attention(s.pass, 0, &a));
        assert_memory_equal(before, after, a.shape[2] * a.shape[3] * sizeof(float));
        assert_true(memcmp(before, other, a.shape[2] * a.shape[3] * sizeof(float)) != 0);
        free(before), free(after), free(other);
        finish(&s);
    }
}

static size_t pass_bytes(struct sample *s, size_t positions, bool weights) {
    struct qkv_pass *pass;
    struct qkv_pass_options o = {.size = sizeof o, .B = 1, .T = positions, .source_T = positions, .weights = weights};
    assert_ok(s->ctx, qkv_pass_create(s->model, &o, &pass));
    size_t bytes = qkv_pass_bytes(pass);
    qkv_pass_free(pass);
    return bytes;
}

/* Twice the positions take at most twice the memory: nothing is T×T. */
static void test_memory(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct sample s = {.random = test_random(50)};
        make_model(&s, k != 0, k != 1, 4096, "none");
        size_t one = pass_bytes(&s, 2048, true), two = pass_bytes(&s, 4096, true);
        if (two > 2 * one) fail_msg("%zu bytes for 2048 positions, %zu for 4096", one, two);
        assert_true(two > pass_bytes(&s, 4096, false));
        qkv_model_free(s.model);
        qkv_context_free(s.ctx);
    }
}

static void refuse(struct sample *s, size_t i, size_t b, size_t h, size_t first, size_t rows, const char *sentence) {
    float out[T * T];
    assert_status(s->ctx, qkv_pass_weights(s->pass, i, QKV_ATTENTION_WEIGHTS, b, h, first, rows, out), QKV_ARGUMENT);
    assert_message(s->ctx, sentence);
}

static void test_misuse(void **state) {
    (void)state;
    struct sample s;
    struct qkv_array a;
    struct qkv_pass *plain;
    float out[T * T];
    start(&s, 60, false, true, false);
    refuse(&s, 0, 0, 0, 0, 1, "attention weights need a forward before them, of a pass made with weights");
    assert_ok(s.ctx, qkv_pass_forward(s.pass, &s.batch));
    refuse(&s, 2, 0, 0, 0, 1, "attention 2 does not exist: this model has 2, counted from 0");
    refuse(&s, 0, B, 0, 0, 1, "decoder.layers.0.attn has no head 0 of batch row 2: there are 4 heads and 2 rows");
    refuse(&s, 0, 0, 4, 0, 1, "decoder.layers.0.attn has no head 4 of batch row 0");
    refuse(&s, 1, 0, 0, T, 1, "decoder.layers.1.attn has 9 queries; 1 from query 9 on are too many");
    refuse(&s, 1, 0, 0, 1, SIZE_MAX, "decoder.layers.1.attn has 9 queries;");
    assert_status(s.ctx, qkv_pass_weights(s.pass, 0, (enum qkv_attention_stage)17, 0, 0, 0, 1, out), QKV_ARGUMENT);
    assert_message(s.ctx, "the stage is 17; it must be");
    assert_status(s.ctx, qkv_pass_weights(s.pass, 0, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, NULL), QKV_ARGUMENT);
    assert_message(s.ctx, "out is NULL");
    assert_false(qkv_pass_attention(s.pass, 2, &a));
    s.batch.B = B + 1;
    assert_status(s.ctx, qkv_pass_forward(s.pass, &s.batch), QKV_SHAPE);
    refuse(&s, 0, 0, 0, 0, 1, "need a forward before them");
    s.batch.B = B;
    assert_ok(s.ctx, qkv_pass_create(s.model, &QKV_OPTIONS(qkv_pass_options, .B = B, .T = T), &plain));
    assert_ok(s.ctx, qkv_pass_forward(plain, &s.batch));
    assert_false(qkv_pass_attention(plain, 0, &a));
    assert_status(s.ctx, qkv_pass_weights(plain, 0, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, out), QKV_ARGUMENT);
    assert_message(s.ctx, "of a pass made with weights");
    qkv_pass_free(plain);
    finish(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_when),
        cmocka_unit_test(weights_after_dropout_are_zero_or_scaled),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
