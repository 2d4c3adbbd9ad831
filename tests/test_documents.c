/* test_documents.c: documents packed into the rows of a batch, over the grid of specs: they give the same as in rows
 * of their own, which the golden cases anchor, and do not see one another. */
/* labels: numeric quick */
#include "model_grid.h"

#include "base/base.h"

#include <math.h>

/* In fp32: differences of losses are compared. */
static const struct qkv_context_options exact = {.size = sizeof exact, .threads = 1, .precision = QKV_FP32};
/* In the precision of the environment. */
static const struct qkv_context_options usual = {.size = sizeof usual, .threads = 1, .precision = QKV_PRECISION_AUTO};
enum { MOST = B * T }; /* documents */

/* The sample with random documents in its rows, some of one position; returns how many there are. */
struct packed {
    struct sample s;
    int32_t documents[B * T];
    size_t count, row[MOST], begin[MOST], end[MOST];
};

static void packed_cut(struct packed *p) {
    struct sample *s = &p->s;
    p->count = 0;
    for (size_t b = 0; b < B; b++) {
        const size_t length = (size_t)s->lengths[b];
        int32_t number = (int32_t)qkv_random_below(&s->random, 3);
        for (size_t t = 0; t < T; t++) {
            const bool begins = t < length && (t == 0 || qkv_random_below(&s->random, 3) == 0);
            if (begins && t) number += (int32_t)test_between(&s->random, 1, 3);
            if (begins) p->row[p->count] = b, p->begin[p->count++] = t;
            if (t < length) p->end[p->count - 1] = t + 1;
            p->documents[b * T + t] = t < length ? number : -1;
        }
    }
    s->batch.documents = p->documents;
}

static void packed_start(struct packed *p, uint64_t stream, const struct qkv_context_options *options) {
    start(&p->s, stream, stream % 4 == 3 ? ENCODER : DECODER, options);
    if (stream % 3 == 0) {
        p->s.batch.lengths = NULL;
        for (size_t b = 0; b < B; b++) p->s.lengths[b] = T;
    }
    packed_cut(p);
}

static struct qkv_pass *documents_pass(struct sample *s, struct qkv_pass_options o, size_t rows) {
    struct qkv_pass *pass;
    o.B = rows, o.T = T;
    if (qkv_pass_create(s->model, &o, &pass)) fail_msg("%s", qkv_message(s->ctx));
    return pass;
}

static float *documents_gradients(struct sample *s, struct qkv_pass *pass, double *loss, size_t *count) {
    *loss = forward(s, pass);
    if (qkv_pass_backward(pass)) fail_msg("%s", qkv_message(s->ctx));
    return take_gradients(s, count);
}

/* Norm of the difference over the norm. */
static double apart(const float *a, const float *b, size_t n) {
    double difference = 0, norm = 1e-18;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

/* Each document as a row. */
struct unpacked {
    int32_t ids[MOST * T], targets[MOST * T], lengths[MOST];
    struct qkv_batch batch;
};

static void unpack(const struct packed *p, struct unpacked *u) {
    memset(u, 0, sizeof *u);
    for (size_t i = 0; i < p->count; i++) {
        const size_t from = p->row[i] * T + p->begin[i], n = p->end[i] - p->begin[i];
        memcpy(u->ids + i * T, p->s.ids + from, n * sizeof *u->ids);
        memcpy(u->targets + i * T, p->s.targets + from, n * sizeof *u->targets);
        u->lengths[i] = (int32_t)n;
    }
    u->batch = (struct qkv_batch){.B = p->count, .T = T, .ids = u->ids, .targets = u->targets, .lengths = u->lengths};
}

static void documents_have_the_loss_and_the_gradients_of_rows_of_their_own(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        struct packed p;
        static struct unpacked u;
        double loss, expected;
        size_t n;
        packed_start(&p, i, i % 2 ? &exact : &usual);
        const bool rounds = p.s.ctx->precision != QKV_FP32;
        unpack(&p, &u);
        const struct qkv_batch packed = p.s.batch;
        struct qkv_pass_options o = {.size = sizeof o, .train = true, .logits = i % 5 == 4};
        struct qkv_pass *pass = documents_pass(&p.s, o, B), *rows = documents_pass(&p.s, o, p.count);
        float *mine = documents_gradients(&p.s, pass, &loss, &n);
        p.s.batch = u.batch;
        float *others = documents_gradients(&p.s, rows, &expected, &n);
        p.s.batch = packed;
        if (!(fabs(loss - expected) <= (rounds ? 0.05 : 1e-5) * fmax(1, fabs(expected))))
            fail_msg("case %d: a loss of %.9g, not %.9g", (int)i, loss, expected);
        if (!rounds && !(apart(mine, others, n) <= 1e-3))
            fail_msg("case %d: gradients %g apart", (int)i, apart(mine, others, n));
        free(mine), free(others);
        qkv_pass_free(pass), qkv_pass_free(rows);
        finish(&p.s);
    }
}

static void another_document_changes_no_bit(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        struct packed p;
        packed_start(&p, 100 + i, &usual);
        struct qkv_pass *pass = documents_pass(&p.s, QKV_OPTIONS(qkv_pass_options, .logits = true), B);
        forward(&p.s, pass);
        float *before = copy_output(pass);
        const size_t changed = (size_t)qkv_random_below(&p.s.random, p.count);
        bool differs = false;
        for (size_t t = p.begin[changed]; t < p.end[changed]; t++) {
            int32_t *id = &p.s.ids[p.row[changed] * T + t];
            *id = (*id + 1 + (int32_t)qkv_random_below(&p.s.random, VOCAB - 1)) % VOCAB;
        }
        forward(&p.s, pass);
        const float *after = qkv_pass_output(pass).data;
        for (size_t d = 0; d < p.count; d++)
            for (size_t t = p.begin[d]; t < p.end[d]; t++) {
                const size_t at = (p.row[d] * T + t) * VOCAB;
                const bool same = !memcmp(before + at, after + at, VOCAB * sizeof *before);
                if (d == changed)
                    differs = differs || !same;
                else if (!same)
                    fail_msg("case %d: position %zu of row %zu has seen another document", (int)i, t, p.row[d]);
            }
        assert_true(differs);
        free(before);
        qkv_pass_free(pass);
        finish(&p.s);
    }
}

/* One document a row is no documents, to the bit, and numbers only have to differ. */
static void a_row_of_one_document_is_a_row(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        struct packed p;
        double loss, expected;
        size_t n;
        packed_start(&p, 200 + i, &usual);
        struct qkv_pass *pass = documents_pass(&p.s, QKV_OPTIONS(qkv_pass_options, .train = true, .dropout = true), B);
        p.s.batch.documents = NULL;
        float *others = documents_gradients(&p.s, pass, &expected, &n);
        for (size_t at = 0; at < (size_t)B * T; at++) p.documents[at] = (int32_t)(at / T * 5);
        p.s.batch.documents = p.documents;
        float *mine = documents_gradients(&p.s, pass, &loss, &n);
        assert_true(loss == expected);
        assert_memory_equal(mine, others, n * sizeof *mine);
        free(mine), free(others);
        qkv_pass_free(pass);
        finish(&p.s);
    }
}

static void checkpoints_and_threads_change_no_bit(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        struct packed p;
        double loss, expected;
        size_t n;
        packed_start(&p, 300 + i, &usual);
        OWNED_SPEC struct qkv_spec spec = test_model_spec(p.s.model);
        struct qkv_model *model;
        drop_everywhere(&spec, 0.2);
        assert_int_equal(qkv_model_create(p.s.ctx, &spec, 5, &model), QKV_OK);
        qkv_model_free(p.s.model);
        p.s.model = model;
        p.s.batch.dropout_seed = i;
        struct qkv_pass_options o = {.size = sizeof o, .train = true, .dropout = true};
        struct qkv_pass *whole = documents_pass(&p.s, o, B);
        o.checkpoint = true;
        p.s.ctx->threads = 1 + (int)(i % 3);
        struct qkv_pass *segments = documents_pass(&p.s, o, B);
        float *mine = documents_gradients(&p.s, segments, &loss, &n);
        p.s.ctx->threads = 1;
        float *others = documents_gradients(&p.s, whole, &expected, &n);
        assert_true(loss == expected);
        assert_memory_equal(mine, others, n * sizeof *mine);
        free(mine), free(others);
        qkv_pass_free(whole), qkv_pass_free(segments);
        finish(&p.s);
    }
}

static void documents_take_no_more_memory_than_planned(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        struct packed p;
        packed_start(&p, 400 + i, &usual);
        struct qkv_pass *pass = documents_pass(&p.s, QKV_OPTIONS(qkv_pass_options, .train = true), B);
        const size_t bytes = qkv_pass_bytes(pass);
        for (int k = 0; k < 6; k++) {
            packed_cut(&p);
            forward(&p.s, pass);
            assert_int_equal(qkv_pass_backward(pass), QKV_OK);
            assert_int_equal(qkv_pass_bytes(pass), bytes);
        }
        qkv_pass_free(pass);
        finish(&p.s);
    }
}

static void assert_refused(struct sample *s, struct qkv_pass *pass, const char *sentence) {
    assert_int_equal(qkv_pass_forward(pass, &s->batch), QKV_ARGUMENT);
    if (!strstr(qkv_message(s->ctx), sentence)) fail_msg("%s", qkv_message(s->ctx));
}

static void documents_that_make_no_sense_are_refused(void **state) {
    (void)state;
    struct packed p;
    packed_start(&p, 501, &usual); /* full rows */
    struct qkv_pass *pass = documents_pass(&p.s, qkv_pass_defaults(), B);
    for (size_t at = 0; at < (size_t)B * T; at++) p.documents[at] = (int32_t)(at % T);
    forward(&p.s, pass);
    p.documents[T + 4] = 2;
    assert_refused(&p.s, pass, "the documents of batch row 1 go from 3 down to 2 at position 4");
    p.documents[T + 4] = -1;
    assert_refused(&p.s, pass,
                   "position 4 of batch row 1 is of document -1; only padding, past the row's length of 11");
    p.s.batch.lengths = p.s.lengths, p.s.lengths[1] = 4;
    assert_refused(&p.s, pass, "batch row 1 has document 5 at position 5 after padding (-1)");
    p.s.lengths[1] = T, p.documents[T + 4] = 4;
    p.s.batch.prefix = p.s.lengths;
    assert_refused(&p.s, pass, "documents and a prefix");
    qkv_pass_free(pass);
    finish(&p.s);
}

static void models_with_sources_and_classifiers_take_no_documents(void **state) {
    (void)state;
    struct packed p;
    start(&p.s, 600, BOTH, &usual);
    struct qkv_pass *pass = make_pass(&p.s, false);
    packed_cut(&p);
    assert_refused(&p.s, pass, "this model has a source for each row");
    qkv_pass_free(pass);
    finish(&p.s);
    packed_start(&p, 603, &usual);
    OWNED_SPEC struct qkv_spec spec = test_model_spec(p.s.model);
    struct qkv_model *model;
    spec.head.kind = QKV_HEAD_CLASSIFY, spec.head.classes = 3, spec.tie = QKV_TIE_NONE;
    assert_int_equal(qkv_model_create(p.s.ctx, &spec, 5, &model), QKV_OK);
    qkv_model_free(p.s.model);
    p.s.model = model;
    p.s.batch.targets = NULL;
    pass = documents_pass(&p.s, qkv_pass_defaults(), B);
    assert_refused(&p.s, pass, "this model gives one result for each row");
    qkv_pass_free(pass);
    finish(&p.s);
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_have_the_loss_and_the_gradients_of_rows_of_their_own),
        cmocka_unit_test(another_document_changes_no_bit),
        cmocka_unit_test(a_row_of_one_document_is_a_row),
        cmocka_unit_test(checkpoints_and_threads_change_no_bit),
        cmocka_unit_test(documents_take_no_more_memory_than_planned),
        cmocka_unit_test(documents_that_make_no_sense_are_refused),
        cmocka_unit_test(models_with_sources_and_classifiers_take_no_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
