/* Uses of encoders: classify, fill and embed against passes over one line at a time; each line has the same bits
 * whatever the other lines are; and every model and line that is refused. */
/* labels: numeric quick */
#include "context_fixture.h"
#include "weights.h"

#include "model/model.h"
#include "text/sequence.h"

#define ENCODER                                                                                                        \
    "\"encoder\":{\"layers\":2,\"attention\":{\"heads\":4,\"kv_heads\":2},\"norm\":{\"kind\":\"layernorm\"},"          \
    "\"ffn\":{\"kind\":\"gelu\",\"d_ff\":40}}"
#define DECODER                                                                                                        \
    "\"decoder\":{\"layers\":1,\"attention\":{\"heads\":2},\"norm\":{\"kind\":\"layernorm\"},\"ffn\":{\"kind\":"       \
    "\"relu\","                                                                                                        \
    "\"d_ff\":32}}"

static const char text[] = "the capital of England is London\nthe queen of Spain , and what is a name ?\n";

enum { ALL_SPECIALS = 3 };
static struct qkv_tokenizer *make_tokenizer(enum qkv_tokenizer_kind kind, size_t specials) {
    static const char *const names[ALL_SPECIALS] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END, QKV_TOKEN_MASK};
    struct qkv_tokenizer_options options = {
        .size = sizeof options, .kind = kind, .specials = names, .special_count = specials};
    struct qkv_tokenizer *tokenizer;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text, sizeof text - 1, &tokenizer));
    return tokenizer;
}

/* `rest`: the stacks and the head. The tokenizer may be NULL. */
static struct qkv_model *make_model(const char *position, const char *rest, struct qkv_tokenizer *tokenizer) {
    char json[2048];
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    int n =
        snprintf(json, sizeof json,
                 "{\"format\":\"qkv\",\"version\":1,\"vocab\":%d,\"d_model\":32,\"context\":24,\"position\":{\"kind\":"
                 "\"%s\"},%s}",
                 tokenizer ? qkv_tokenizer_vocab(tokenizer) + 3 : 50, position, rest);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", json, (size_t)n, NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, test_seed(), &model));
    /* Larger weights than a new model's, so that lines differ. */
    struct qkv_random random = test_random(9);
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        test_fill(&random, test_weights_mutable(model, i), qkv_array_elements(qkv_model_parameter(model, i)), 0.3);
    if (tokenizer) assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    return model;
}

#define CLASSIFIER(pool) "\"head\":{\"kind\":\"classify\",\"classes\":5,\"pool\":\"" pool "\"}," ENCODER

/* Lines of all lengths up to the context, some blank; *count of them, in `lines`. */
static void make_lines(char lines[][64], const char **list, size_t count) {
    struct qkv_random random = test_random(3);
    for (size_t i = 0; i < count; i++) {
        size_t n = test_between(&random, 0, 22);
        for (size_t k = 0; k < n; k++) lines[i][k] = "the qunofSpai"[test_between(&random, 0, 12)];
        lines[i][n] = 0;
        list[i] = lines[i];
    }
    snprintf(lines[1], sizeof lines[1], " \t ");
}

/* ---- the ids of lines ------------------------------------------------------------------------------------------- */

static void specials_stand_where_a_model_learnt_them(void **state) {
    struct qkv_tokenizer *with = make_tokenizer(QKV_TOKENIZER_CHARS, 2),
                         *without = make_tokenizer(QKV_TOKENIZER_CHARS, 0);
    int32_t begin = qkv_tokenizer_special(with, "<s>"), end = qkv_tokenizer_special(with, "</s>"), *ids;
    size_t count;
    (void)state;
    assert_ok(ctx, qkv_sequence_encode(ctx, with, "the", 3, true, true, &ids, &count));
    assert_int_equal(count, 5);
    assert_int_equal(ids[0], begin);
    assert_int_equal(ids[4], end);
    qkv_free(ids);
    assert_ok(ctx, qkv_sequence_encode(ctx, with, "the", 3, false, true, &ids, &count));
    assert_int_equal(count, 4);
    assert_int_equal(ids[3], end);
    qkv_free(ids);
    assert_ok(ctx, qkv_sequence_encode(ctx, without, "the", 3, true, true, &ids, &count));
    assert_int_equal(count, 3);
    qkv_free(ids);
    assert_ok(ctx, qkv_sequence_encode(ctx, with, "<s>", 3, false, false, &ids, &count));
    assert_true(count > 1); /* a stranger's text does not become a special */
    qkv_free(ids);
    qkv_tokenizer_free(with);
    qkv_tokenizer_free(without);
}

static void a_mask_hides_a_word_with_its_space(void **state) {
    static const enum qkv_tokenizer_kind kinds[] = {QKV_TOKENIZER_WORDS, QKV_TOKENIZER_CHARS, QKV_TOKENIZER_BPE};
    (void)state;
    for (size_t k = 0; k < TEST_COUNT(kinds); k++) {
        struct qkv_tokenizer *t = make_tokenizer(kinds[k], ALL_SPECIALS);
        int32_t mask = qkv_tokenizer_special(t, "<mask>"), *plain, *masked;
        size_t n, m;
        bool chars = kinds[k] == QKV_TOKENIZER_CHARS;
        const char *whole = chars ? "the xof" : "the of", *hidden = chars ? "the <mask>of" : "the <mask> of<mask>";
        assert_ok(ctx, qkv_tokenizer_encode(ctx, t, whole, strlen(whole), false, &plain, &n));
        assert_ok(ctx, qkv_masked_encode(ctx, t, hidden, strlen(hidden), mask, &masked, &m));
        if (chars) { /* one character hidden, all others as they were */
            for (size_t i = 0; i < 4; i++) assert_int_equal(masked[i], plain[i]);
            assert_int_equal(masked[4], mask);
            assert_int_equal(m, 7);
        } else { /* as if words were cut out with the space before them */
            assert_int_equal(m, n + 2);
            assert_int_equal(masked[m - 1], mask);
            size_t i = 0;
            while (masked[i] == plain[i]) i++;
            assert_int_equal(masked[i], mask);
            assert_memory_equal(masked + i + 1, plain + i, (n - i) * sizeof *plain);
        }
        qkv_free(plain);
        qkv_free(masked);
        qkv_tokenizer_free(t);
    }
}

/* ---- classify --------------------------------------------------------------------------------------------------- */

enum { LINES = 150, CLASSES = 5 };

static void classes_of_a_line_are_those_of_a_pass_over_it(void **state) {
    static const char *const heads[] = {CLASSIFIER("mean"), CLASSIFIER("first")};
    static const char *const positions[] = {"learned", "alibi"};
    static char lines[LINES][64];
    const char *list[LINES];
    float all[LINES * CLASSES], one[CLASSES];
    (void)state;
    make_lines(lines, list, LINES);
    for (size_t k = 0; k < 2; k++) {
        struct qkv_model *model = make_model(positions[k], heads[k], make_tokenizer(QKV_TOKENIZER_CHARS, 2));
        assert_ok(ctx, qkv_classify(model, list, LINES, NULL, all));
        for (size_t i = 0; i < LINES; i++) {
            assert_ok(ctx, qkv_classify(model, list + i, 1, NULL, one));
            assert_memory_equal(one, all + i * CLASSES, sizeof one);
            double sum = 0;
            for (size_t c = 0; c < CLASSES; c++) sum += (double)one[c];
            bool blank = qkv_is_blank(list[i], strlen(list[i]));
            assert_true(blank ? sum == 0 : fabs(sum - 1) < 1e-5);
        }
        /* the definition: softmax over the scores of <s> text </s> */
        int32_t *ids;
        size_t n;
        struct qkv_pass *pass;
        assert_ok(ctx, qkv_sequence_encode(ctx, qkv_model_tokenizer(model), "the queen", 9, true, true, &ids, &n));
        assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = n, .logits = true), &pass));
        assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = n, .ids = ids}));
        const float *x = qkv_pass_output(pass).data;
        double sum = 0;
        for (size_t c = 0; c < CLASSES; c++) sum += exp((double)x[c]);
        assert_ok(ctx, qkv_classify(model, &(const char *){"the queen"}, 1, NULL, one));
        for (size_t c = 0; c < CLASSES; c++) assert_true(fabs(exp((double)x[c]) / sum - (double)one[c]) < 1e-6);
        qkv_pass_free(pass);
        qkv_free(ids);
        qkv_model_free(model);
    }
}

/* ---- embed ------------------------------------------------------------------------------------------------------ */

enum { C = 32 };

static void vectors_of_a_line_do_not_depend_on_its_neighbours(void **state) {
    static const char *const rests[] = {ENCODER, CLASSIFIER("first"), ENCODER "," DECODER};
    static char lines[LINES][64];
    const char *list[LINES];
    static float all[LINES * C], one[C];
    (void)state;
    make_lines(lines, list, LINES);
    for (size_t k = 0; k < TEST_COUNT(rests); k++)
        for (int pool = QKV_POOL_FIRST; pool <= QKV_POOL_MAX; pool++) {
            struct qkv_model *model = make_model("rope", rests[k], make_tokenizer(QKV_TOKENIZER_CHARS, 2));
            bool unit = k != 1;
            assert_ok(ctx,
                      qkv_embed(model, list, LINES,
                                &QKV_OPTIONS(qkv_embed_options, .pool = (enum qkv_pool)pool, .normalize = unit), all));
            for (size_t i = 0; i < LINES; i++) {
                double sum = 0;
                assert_ok(ctx,
                          qkv_embed(model, list + i, 1,
                                    &QKV_OPTIONS(qkv_embed_options, .pool = (enum qkv_pool)pool, .normalize = unit),
                                    one));
                assert_memory_equal(one, all + i * C, sizeof one);
                for (size_t c = 0; c < C; c++) sum += (double)one[c] * (double)one[c];
                bool blank = qkv_is_blank(list[i], strlen(list[i]));
                assert_true(blank ? sum == 0 : unit ? fabs(sum - 1) < 1e-5 : sum > 0);
            }
            qkv_model_free(model);
        }
}

/* The hidden states of a model without a head are what a pass gives out. */
static void pools_are_first_mean_and_largest(void **state) {
    struct qkv_model *model =
        make_model("learned", "\"head\":{\"kind\":\"none\"}," ENCODER, make_tokenizer(QKV_TOKENIZER_CHARS, 2));
    int32_t *ids;
    size_t n;
    struct qkv_pass *pass;
    float first[C], mean[C], largest[C];
    const char *line = "what is Spain";
    (void)state;
    assert_ok(ctx, qkv_sequence_encode(ctx, qkv_model_tokenizer(model), line, 13, false, false, &ids, &n));
    assert_int_equal(n, 13);
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = n), &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = n, .ids = ids}));
    const float *x = qkv_pass_output(pass).data;
    assert_ok(ctx, qkv_embed(model, &line, 1, &QKV_OPTIONS(qkv_embed_options, .pool = QKV_POOL_FIRST), first));
    assert_ok(ctx, qkv_embed(model, &line, 1, &QKV_OPTIONS(qkv_embed_options, .pool = QKV_POOL_MEAN), mean));
    assert_ok(ctx, qkv_embed(model, &line, 1, &QKV_OPTIONS(qkv_embed_options, .pool = QKV_POOL_MAX), largest));
    assert_memory_equal(first, x, sizeof first);
    for (size_t c = 0; c < C; c++) {
        double sum = 0;
        float most = x[c];
        for (size_t t = 0; t < n; t++) sum += (double)x[t * C + c], most = fmaxf(most, x[t * C + c]);
        assert_true(largest[c] == most);
        assert_true(fabs(sum / (double)n - (double)mean[c]) < 1e-6);
    }
    qkv_pass_free(pass);
    qkv_free(ids);
    qkv_model_free(model);
}

/* ---- fill ------------------------------------------------------------------------------------------------------- */

static void fillings_are_the_likeliest_of_each_mask(void **state) {
    struct qkv_tokenizer *t = make_tokenizer(QKV_TOKENIZER_WORDS, ALL_SPECIALS);
    struct qkv_model *model = make_model("learned", ENCODER, t);
    struct qkv_filling *few, *all;
    size_t masks, vocab = (size_t)qkv_tokenizer_vocab(t), n, V = (size_t)qkv_model_spec(model)->vocab;
    const char *line = "<mask> capital of <mask> is";
    struct qkv_pass *pass;
    int32_t *ids;
    (void)state;
    assert_ok(ctx, qkv_fill(model, line, 4, NULL, &few, &masks));
    assert_int_equal(masks, 2);
    assert_ok(ctx, qkv_fill(model, line, vocab, NULL, &all, &masks));
    assert_ok(ctx, qkv_masked_encode(ctx, t, line, strlen(line), qkv_tokenizer_special(t, "<mask>"), &ids, &n));
    assert_int_equal(n, 5);
    assert_ok(ctx, qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = n, .logits = true), &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = n, .ids = ids}));
    for (size_t m = 0; m < 2; m++) {
        const float *x = (const float *)qkv_pass_output(pass).data + (m ? 3 : 0) * V;
        double sum = 0;
        for (size_t v = 0; v < V; v++) sum += exp((double)x[v]);
        for (size_t i = 0; i < vocab; i++) {
            struct qkv_filling f = all[m * vocab + i];
            assert_true(fabs(f.probability - exp((double)x[f.id]) / sum) < 1e-9);
            assert_true(i == 0 || f.probability <= all[m * vocab + i - 1].probability);
            if (i < 4) assert_memory_equal(&f, &few[m * 4 + i], sizeof f);
        }
    }
    qkv_pass_free(pass);
    qkv_free(ids);
    qkv_free(few);
    qkv_free(all);
    qkv_model_free(model);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void models_that_cannot_are_refused(void **state) {
    const char *line = "the <mask>";
    float out[64];
    struct qkv_filling *fillings;
    size_t masks;
    struct qkv_model *lm = make_model("learned", ENCODER, make_tokenizer(QKV_TOKENIZER_CHARS, 2)),
                     *decoder = make_model("learned", DECODER, make_tokenizer(QKV_TOKENIZER_CHARS, ALL_SPECIALS)),
                     *both = make_model("learned", ENCODER "," DECODER, make_tokenizer(QKV_TOKENIZER_CHARS, 2)),
                     *classifier = make_model("learned", CLASSIFIER("mean"), make_tokenizer(QKV_TOKENIZER_CHARS, 2)),
                     *mute = make_model("learned", CLASSIFIER("mean"), NULL);
    (void)state;
    assert_status(ctx, qkv_classify(lm, &line, 1, NULL, out), QKV_ARGUMENT);
    assert_message(
        ctx, "classify needs a model with a classify head; this one has head.kind lm: train one on labelled lines");
    assert_status(ctx, qkv_classify(mute, &line, 1, NULL, out), QKV_ARGUMENT);
    assert_message(ctx, "classify: the model has no tokenizer, so it reads no text; put its tokenizer.json into");
    assert_status(ctx, qkv_embed(mute, &line, 1, &QKV_OPTIONS(qkv_embed_options, .pool = QKV_POOL_MEAN), out),
                  QKV_ARGUMENT);
    assert_message(ctx, "embed: the model has no tokenizer");
    assert_status(ctx, qkv_embed(lm, &line, 1, &QKV_OPTIONS(qkv_embed_options, .pool = (enum qkv_pool)7), out),
                  QKV_ARGUMENT);
    assert_message(ctx, "the pool is 7");
    assert_status(ctx, qkv_fill(decoder, line, 1, NULL, &fillings, &masks), QKV_ARGUMENT);
    assert_message(ctx, "fill needs an encoder alone; this model has a decoder alone: use generate");
    assert_status(ctx, qkv_fill(both, line, 1, NULL, &fillings, &masks), QKV_ARGUMENT);
    assert_message(ctx, "this model has a decoder beside it: use translate");
    assert_status(ctx, qkv_fill(classifier, line, 1, NULL, &fillings, &masks), QKV_ARGUMENT);
    assert_message(ctx, "fill needs a model with an lm head; this one has head.kind classify: train one with task mlm");
    assert_status(ctx, qkv_fill(lm, line, 1, NULL, &fillings, &masks), QKV_ARGUMENT);
    assert_message(ctx, "the model's tokenizer has no <mask>, so the model never learnt to fill one");
    qkv_model_free(lm);
    qkv_model_free(decoder);
    qkv_model_free(both);
    qkv_model_free(classifier);
    qkv_model_free(mute);
}

static void lines_that_do_not_fit_are_named(void **state) {
    const char *lines[] = {"the", "", "the queen of Spain is what"};
    float out[3 * C];
    struct qkv_filling *fillings;
    size_t masks;
    struct qkv_model *classifier = make_model("learned", CLASSIFIER("mean"), make_tokenizer(QKV_TOKENIZER_CHARS, 2)),
                     *filler = make_model("learned", ENCODER, make_tokenizer(QKV_TOKENIZER_CHARS, ALL_SPECIALS));
    (void)state;
    assert_status(ctx, qkv_classify(classifier, lines, 3, NULL, out), QKV_ARGUMENT);
    assert_message(ctx, "line 3 has 28 tokens, but the model's context is 24; shorten it or cut it in two");
    assert_status(ctx, qkv_embed(filler, lines, 3, &QKV_OPTIONS(qkv_embed_options, .pool = QKV_POOL_MEAN), out),
                  QKV_ARGUMENT);
    assert_message(ctx, "line 3 has 26 tokens");
    assert_ok(ctx, qkv_classify(classifier, NULL, 0, NULL, NULL));
    assert_status(ctx, qkv_fill(filler, "the queen", 1, NULL, &fillings, &masks), QKV_ARGUMENT);
    assert_message(ctx, "there is no <mask> in the text; write one");
    assert_null(fillings);
    assert_status(ctx, qkv_fill(filler, "<mask> the queen of Spain is what", 1, NULL, &fillings, &masks), QKV_ARGUMENT);
    assert_message(ctx, "the text has 28 tokens, but the model's context is 24; shorten it");
    assert_status(ctx, qkv_fill(filler, "<mask>", 0, NULL, &fillings, &masks), QKV_ARGUMENT);
    assert_status(ctx, qkv_fill(filler, "<mask>", 100000, NULL, &fillings, &masks), QKV_ARGUMENT);
    assert_message(ctx, "top is 100000; it must be from 1 to the");
    qkv_model_free(classifier);
    qkv_model_free(filler);
}

static void broken_weights_are_told(void **state) {
    const char *line = "the <mask>";
    float out[C];
    struct qkv_filling *fillings;
    size_t masks;
    struct qkv_model *classifier = make_model("learned", CLASSIFIER("mean"), make_tokenizer(QKV_TOKENIZER_CHARS, 2)),
                     *filler = make_model("learned", ENCODER, make_tokenizer(QKV_TOKENIZER_CHARS, ALL_SPECIALS));
    (void)state;
    for (size_t i = 0; i < qkv_model_parameters(classifier); i++) test_weights_mutable(classifier, i)[0] = NAN;
    for (size_t i = 0; i < qkv_model_parameters(filler); i++) test_weights_mutable(filler, i)[0] = NAN;
    assert_status(ctx, qkv_classify(classifier, &line, 1, NULL, out), QKV_NUMBER);
    assert_message(ctx, "the scores of line 1 are not finite: the model's weights are broken");
    assert_status(
        ctx,
        qkv_embed(classifier, &line, 1, &QKV_OPTIONS(qkv_embed_options, .pool = QKV_POOL_MEAN, .normalize = true), out),
        QKV_NUMBER);
    assert_message(ctx, "the hidden states of line 1 are not finite");
    assert_status(ctx, qkv_fill(filler, line, 1, NULL, &fillings, &masks), QKV_NUMBER);
    assert_null(fillings);
    qkv_model_free(classifier);
    qkv_model_free(filler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specials_stand_where_a_model_learnt_them),
        cmocka_unit_test(a_mask_hides_a_word_with_its_space),
        cmocka_unit_test(classes_of_a_line_are_those_of_a_pass_over_it),
        cmocka_unit_test(vectors_of_a_line_do_not_depend_on_its_neighbours),
        cmocka_unit_test(pools_are_first_mean_and_largest),
        cmocka_unit_test(fillings_are_the_likeliest_of_each_mask),
        cmocka_unit_test(models_that_cannot_are_refused),
        cmocka_unit_test(lines_that_do_not_fit_are_named),
        cmocka_unit_test(broken_weights_are_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
