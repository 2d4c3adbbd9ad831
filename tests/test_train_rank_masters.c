/* In mixed precision, ranks divide the fp32 copies of matrices: the bits are those of one rank, which has all of
 * them, for every model, and only the run's folder has all of a divided matrix. Models are large enough that each of
 * four ranks owns some. */
#include "rank_fixture.h"
#include "weights.h"

#include "model/model.h"

enum { FORMS = 6, PAIRS = 5 };

static const char *const form_names[FORMS] = {"untied", "experts", "latent", "frozen", "shared", "pairs"};

static void write_pairs(const char *path) {
    char text[4096];
    size_t n = 0;
    for (int i = 0; i < 60; i++) {
        char word[12] = {0};
        for (int j = 0; j <= i % 7; j++) word[j] = (char)('a' + (i * 7 + j * j) % 9);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\t%s\n", word, word);
    }
    test_write_file(path, text, n);
}

static struct qkv_spec form_spec(struct qkv_context *ctx, size_t form) {
    static const char *const settings[PAIRS][9] = {{"decoder.norm.kind=rmsnorm", "position.kind=rope", "tie=none",
                                                    "d_model=160", "decoder.attention.heads=4",
                                                    "decoder.ffn.kind=swiglu", "decoder.ffn.d_ff=416"},
                                                   {NULL},
                                                   {NULL},
                                                   {"d_model=192", "decoder.attention.heads=4", "decoder.ffn.d_ff=512"},
                                                   {"tie=head", "decoder.layers=4", "decoder.share=2",
                                                    "decoder.ffn.kind=swiglu", "d_model=192", "decoder.ffn.d_ff=400"}};
    static const char *const texts[] = {
        [1] = "{\"format\":\"qkv\",\"version\":2,\"d_model\":96,\"context\":16,\"embed\":{\"position\":{\"kind\":"
              "\"learned\"}},\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2},\"ffn\":{\"kind\":\"swiglu\","
              "\"d_ff\":176,\"experts\":{\"count\":5,\"top_k\":2,\"shared\":48,\"correction\":true}}}}",
        [2] =
            "{\"format\":\"qkv\",\"version\":2,\"d_model\":192,\"context\":16,\"decoder\":{\"layers\":2,\"attention\":"
            "{\"heads\":4,\"head_dim\":32,\"value_dim\":32,\"position\":{\"kind\":\"rope\"},\"latent\":{\"rank\":48,"
            "\"query_rank\":64,\"rope_dim\":16}},\"ffn\":{\"kind\":\"swiglu\",\"d_ff\":384}}}"};
    struct qkv_spec spec = {0};
    if (form == PAIRS) {
        static const char *const wide[] = {
            "d_model=160",           "encoder.attention.heads=4", "decoder.attention.heads=4",
            "decoder.cross.heads=4", "encoder.ffn.d_ff=320",      "decoder.ffn.d_ff=320"};
        assert_ok(ctx, qkv_spec_preset(ctx, &spec, "tiny-seq2seq", wide, TEST_COUNT(wide)));
        return spec;
    }
    if (form != 1 && form != 2) return fixture_spec(ctx, settings[form]);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, form_names[form], texts[form], strlen(texts[form]), NULL, 0));
    return spec;
}

static struct run form_run(struct qkv_context *ctx, size_t form, struct qkv_spec *spec) {
    static char pairs[1024];
    struct run run = {.spec = spec, .options = fixture_options(ctx), .until = 3};
    struct qkv_train_options *o = &run.options;
    *spec = form_spec(ctx, form);
    if (form == PAIRS) {
        snprintf(pairs, sizeof pairs, "%s", test_path("pairs.tsv"));
        write_pairs(pairs);
        o->data = NULL, o->pairs = pairs, o->tokenizer = "chars";
        o->valid_fraction = 0.1;
    }
    if (form == 3) {
        o->freeze[0] = "decoder.layers.0.attn.q.weight", o->freeze[1] = "decoder.layers.1.ffn.up.*";
        o->rates[0] = "*ffn.down*=0.5", o->optimizer = "sgd";
    }
    if (form == 2) o->optimizer = "muon";
    o->precision = "bf16";
    o->steps = 3, o->batch = 9, o->groups = 4 + (int64_t)(form % 3), o->warmup = 1;
    o->eval_every = 2, o->save_every = 2, o->keep = 2;
    o->dropout = form == 0 ? 0.2 : 0;
    o->accumulate = form == 4 ? 2 : 1;
    return run;
}

/* ---- what each rank has ----------------------------------------------------------------------------------------- */

static struct {
    /* numbers of divided weights, those of them that the rank owns, and numbers of weights that it has whole */
    size_t divided, own, whole, taken, planned;
} held[RANKS_MOST];

static void look_at_weights(struct qkv_trainer *t, int64_t step, int rank) {
    const struct qkv_weights *w = &t->model->weights;
    size_t runs;
    const struct qkv_moment_run *run = qkv_optimizer_runs(t->optimizer, &runs);
    if (step) return;
    memset(&held[rank], 0, sizeof held[rank]);
    for (size_t i = 0; i < w->count; i++) {
        const size_t n = w->list[i].rows * w->list[i].columns;
        if (!w->list[i].data != w->list[i].part_of->operand.divided) abort();
        *(w->list[i].part_of->operand.divided ? &held[rank].divided : &held[rank].whole) += n;
    }
    for (size_t i = 0; i < runs; i++) held[rank].own += run[i].master ? run[i].end - run[i].begin : 0;
    held[rank].taken = qkv_trainer_bytes(t);
    if (!t->options.data) return;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_rank_plan plan;
    struct qkv_model *model;
    qkv_context_set_precision(ctx, QKV_MIXED_BF16);
    if (qkv_model_plan(ctx, qkv_model_spec(t->model), &model)) abort();
    if (qkv_rank_plan(model, &t->options, (size_t)t->options.batch, t->data.T, t->ctx->ranks.ranks, rank, &plan))
        abort();
    held[rank].planned = plan.train_bytes;
    qkv_model_free(model);
    qkv_context_free(ctx);
}

static void expect_divided(size_t form, int ranks) {
    size_t own = 0;
    for (int r = 0; r < ranks; r++) {
        assert_true(held[r].own > 0 && held[r].own < held[r].divided);
        assert_true(held[r].divided > held[r].whole);
        if (held[r].planned) assert_int_equal(held[r].taken, held[r].planned);
        own += held[r].own;
    }
    print_message("%s, %d ranks: %zu of %zu numbers are divided\n", form_names[form], ranks, own,
                  held[0].divided + held[0].whole);
    assert_int_equal(own, held[0].divided);
}

static void divided_matrices_keep_the_bits_of_one_rank(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    for (size_t form = 0; form < FORMS; form++) {
        OWNED_SPEC struct qkv_spec spec = {0};
        struct run run = form_run(ctx, form, &spec);
        make_run_of_one(&run, "several");
        run.disturbs = look_at_weights;
        for (int ranks = 2; ranks <= 4; ranks++) {
            run.folder = fixture_run("several");
            expect_run(&run, ranks);
            expect_divided(form, ranks);
            assert_as_one(ctx, &run);
        }
    }
    qkv_context_free(ctx);
}

/* All weights in turn, as one rank has them. */
static void another_number_of_ranks_goes_on(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    for (size_t form = 0; form < FORMS; form++) {
        OWNED_SPEC struct qkv_spec spec = {0};
        struct run run = form_run(ctx, form, &spec);
        make_run_of_one(&run, "several");
        for (int64_t step = 1; step <= 3; step++) {
            run.until = step;
            run.again = step > 1;
            expect_run(&run, (int[]){3, 1, 2}[step - 1]);
        }
        assert_as_one(ctx, &run);
    }
    qkv_context_free(ctx);
}

/* ---- what is refused, and what goes on -------------------------------------------------------------------------- */

static struct qkv_moment_run *own_master(struct qkv_trainer *t) {
    size_t runs;
    const struct qkv_moment_run *run = qkv_optimizer_runs(t->optimizer, &runs);
    for (size_t i = 0; i < runs; i++)
        if (run[i].master) return (struct qkv_moment_run *)(uintptr_t)&run[i];
    abort();
}

/* Before the last step, which saves. */
static void poison_master(struct qkv_trainer *t, int64_t step, int rank) {
    if (step == 2 && rank == 1) own_master(t)->master[0] = INFINITY;
}

static void a_share_that_is_not_finite_is_not_saved(void **state) {
    (void)state;
    char message[1024];
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct run run = form_run(ctx, 0, &spec);
    fixture_no_validation(&run.options);
    make_run_of_one(&run, "poisoned");
    run.disturbs = poison_master;
    assert_int_equal(run_ranks(&run, 3, message), QKV_NUMBER);
    assert_non_null(strstr(message, "rank 1: step 3: "));
    assert_non_null(
        strstr(message, " holds numbers that are not finite, so nothing was saved; the checkpoint of step 2"));
    run.disturbs = NULL;
    run.again = true;
    expect_run(&run, 2);
    assert_as_one(ctx, &run);
    qkv_context_free(ctx);
}

static void expect_sentence(struct qkv_context *ctx, enum qkv_status status, const char *sentence) {
    if (status != QKV_ARGUMENT || !strstr(qkv_message(ctx), sentence)) {
        fprintf(stderr, "%d: %s\n", (int)status, qkv_message(ctx));
        abort();
    }
}

static void misuse(struct qkv_trainer *t, int64_t step, int rank) {
    struct qkv_model *m = qkv_trainer_model(t);
    struct qkv_pass *pass;
    size_t i = 0;
    if (step != 1 || rank != 1) return;
    while (!m->weights.list[i].part_of->operand.divided) i++;
    if (test_weights(m, i) || qkv_model_parameter(m, i)->data) abort();
    const size_t count = qkv_array_elements(qkv_model_parameter(m, i));
    float *numbers = calloc(count, sizeof *numbers);
    if (!numbers) abort();
    expect_sentence(t->ctx, qkv_model_get_weights(m, i, numbers, count), "is divided among ranks while these train");
    expect_sentence(t->ctx, qkv_model_set_weights(m, i, numbers, count), "is divided among ranks while these train");
    free(numbers);
    expect_sentence(t->ctx, qkv_model_save(m, test_path("misused")), "are divided among ranks while these train");
    m->precision = QKV_FP32;
    expect_sentence(t->ctx, qkv_pass_create(m, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 4), &pass),
                    "is divided among ranks, and this rank has it in bf16 only");
    m->precision = QKV_MIXED_BF16;
}

static void divided_weights_are_not_taken_for_whole_ones(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct run run = form_run(ctx, 0, &spec);
    make_run_of_one(&run, "misuse");
    run.disturbs = misuse;
    expect_run(&run, 2);
    assert_as_one(ctx, &run);
    qkv_context_free(ctx);
}

/* Rank 0 alone knows that the best model is gone, which is then chosen again. */
static void a_run_that_lost_its_best_model_goes_on(void **state) {
    (void)state;
    char path[2048];
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct run run = form_run(ctx, 0, &spec);
    for (int ranks = 1; ranks <= 3; ranks += 2) {
        run.folder = fixture_run(ranks == 1 ? "one" : "three");
        run.until = 2, run.again = false;
        expect_run(&run, ranks);
        snprintf(path, sizeof path, "%s/model.safetensors", run.folder);
        assert_int_equal(unlink(path), 0);
        run.until = 3, run.again = true;
        expect_run(&run, ranks);
    }
    assert_as_one(ctx, &run);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divided_matrices_keep_the_bits_of_one_rank),
        cmocka_unit_test(another_number_of_ranks_goes_on),
        cmocka_unit_test(a_share_that_is_not_finite_is_not_saved),
        cmocka_unit_test(divided_weights_are_not_taken_for_whole_ones),
        cmocka_unit_test(a_run_that_lost_its_best_model_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
