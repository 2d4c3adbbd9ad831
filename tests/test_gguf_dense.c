/* GGUF files of EmbeddingGemma with the layers behind its pooling, "dense_2.weight" and "dense_3.weight". */
/* labels: quick */
#include "gguf_fixture.h"
#include "gguf_write_fixture.h"

#include "io/gguf_write.h"
#include "model/model.h"

#define GOLDEN TEST_SOURCE_DIR "/tests/golden/gguf/gemma3_embedding.gguf"
enum { WIDTH = 8, INNER = 5 };

/* Writes the golden file again, with a pooling and two matrices. */
static const char *make_dense(struct qkv_context *ctx, const struct qkv_array dense[2], uint32_t pooling) {
    const char *path = test_path("dense.gguf");
    struct qkv_gguf_writer w = {.ctx = ctx, .path = path};
    struct qkv_gguf *g;
    struct qkv_tensors *t;
    assert_ok(ctx, qkv_gguf_open(ctx, GOLDEN, &g, &t));
    for (size_t i = 0; i < g->count; i++) qkv_gguf_put_value(&w, g, &g->values[i]);
    if (pooling) qkv_gguf_put_u32(&w, "gemma-embedding.pooling_type", pooling);
    qkv_gguf_put_u32(&w, "gemma-embedding.dense_2_feat_in", WIDTH);
    qkv_gguf_put_u32(&w, "gemma-embedding.dense_2_feat_out", INNER);
    const size_t count = qkv_tensors_count(t);
    for (size_t i = 0; i < count + 2; i++)
        qkv_gguf_put_tensor(&w, i < count ? qkv_tensors_at(t, i) : &dense[i - count]);
    assert_ok(ctx, qkv_gguf_begin_data(&w));
    for (size_t i = 0; i < count + 2; i++) {
        const struct qkv_array *a = i < count ? qkv_tensors_at(t, i) : &dense[i - count];
        qkv_gguf_write_data(&w, a->data, a->bytes);
        qkv_gguf_end_tensor(&w);
    }
    assert_ok(ctx, qkv_gguf_commit(&w));
    qkv_gguf_writer_free(&w);
    qkv_gguf_free(g);
    qkv_tensors_close(t);
    return path;
}

/* Compares all tensors, and the keys of the layers. */
static void expect_same_file(struct qkv_context *ctx, const char *a, const char *b) {
    static const char *const keys[] = {"gemma-embedding.pooling_type", "gemma-embedding.dense_2_feat_in",
                                       "gemma-embedding.dense_2_feat_out"};
    struct qkv_gguf *g[2];
    struct qkv_tensors *t[2];
    assert_ok(ctx, qkv_gguf_open(ctx, a, &g[0], &t[0]));
    assert_ok(ctx, qkv_gguf_open(ctx, b, &g[1], &t[1]));
    assert_int_equal(qkv_tensors_count(t[0]), qkv_tensors_count(t[1]));
    for (size_t i = 0; i < qkv_tensors_count(t[0]); i++) {
        const struct qkv_array *x = qkv_tensors_at(t[0], i), *y = qkv_tensors_find(t[1], x->name);
        if (!y || x->bytes != y->bytes || memcmp(x->data, y->data, x->bytes) != 0) fail_msg("%s differs", x->name);
        assert_memory_equal(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape);
    }
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        const struct qkv_gguf_value *x = qkv_gguf_find(g[0], keys[i]), *y = qkv_gguf_find(g[1], keys[i]);
        if (!y || qkv_gguf_number(g[0], x, 0) != qkv_gguf_number(g[1], y, 0)) fail_msg("%s differs", keys[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        qkv_gguf_free(g[i]);
        qkv_tensors_close(t[i]);
    }
}

static void layers_behind_a_pooling_are_read(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_model *model;
    float numbers[2][INNER * WIDTH];
    struct qkv_array dense[2] = {{.name = "dense_2.weight", .shape = {INNER, WIDTH}},
                                 {.name = "dense_3.weight", .shape = {WIDTH, INNER}}};
    for (int i = 0; i < 2 * INNER * WIDTH; i++) numbers[i / (INNER * WIDTH)][i % (INNER * WIDTH)] = (float)(i * 7 % 11);
    for (int i = 0; i < 2; i++) {
        dense[i].dtype = QKV_F32, dense[i].rank = 2, dense[i].data = numbers[i];
        dense[i].bytes = sizeof numbers[i];
    }
    load_or_fail(ctx, make_dense(ctx, dense, 1), &model);
    const struct qkv_model_pooling *p = &model->pooling;
    assert_true(p->given && p->pool == QKV_POOL_MEAN && p->normalize && p->dense_count == 2);
    for (size_t i = 0; i < 2; i++) {
        const struct qkv_model_dense *d = &p->dense[i];
        assert_true(d->out == dense[i].shape[0] && d->in == dense[i].shape[1] && d->activation == -1);
        assert_true(!d->bias && !d->shortcut && !d->residual && !d->normalize);
        assert_memory_equal(d->weight, numbers[i], sizeof numbers[i]);
    }
    char *notes = write_model(model, NULL, test_path("again.gguf"));
    assert_null(strstr(notes, "modules.json"));
    free(notes);
    qkv_model_free(model);
    expect_same_file(ctx, test_path("dense.gguf"), test_path("again.gguf"));
    model = NULL;
    assert_int_equal(qkv_model_load(ctx, make_dense(ctx, dense, 0), &model), QKV_FORMAT);
    assert_non_null(strstr(qkv_message(ctx), "dense_2.weight is no matrix of rows of 8 numbers behind a pooling"));
    dense[1].shape[0] = INNER, dense[1].shape[1] = WIDTH;
    assert_int_equal(qkv_model_load(ctx, make_dense(ctx, dense, 1), &model), QKV_FORMAT);
    assert_non_null(strstr(qkv_message(ctx), "dense_3.weight is no matrix of rows of 5 numbers behind a pooling"));
    assert_null(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CONTEXT(layers_behind_a_pooling_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
