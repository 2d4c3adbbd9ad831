/* Training on several ranks, here threads of one process: any number of them makes the losses, norms, weights and moments of one. */
#include "rank_fixture.h"

enum { FORMS = 5, EXPERTS = 4 };

/* Tables used twice, layers that share weights, experts whose corrections move, and frozen weights. */
static struct run make_run(struct qkv_context *ctx, size_t form, bool bf16, int64_t groups, struct qkv_spec *spec) {
    static const char *const settings[EXPERTS][6] = {
        {NULL},
        {"decoder.norm.kind=rmsnorm", "position.kind=rope", "tie=none"},
        {"tie=head", "decoder.layers=3", "decoder.share=1", "decoder.ffn.kind=swiglu"},
        {"decoder.norm.placement=sandwich", "position.kind=alibi", "d_model=160", "decoder.attention.heads=4"}};
    struct run run = {.spec = spec, .options = fixture_options(ctx), .until = 3};
    static const char experts[] =
        "{\"format\":\"qkv\",\"version\":2,\"d_model\":32,\"context\":16,\"embed\":{\"position\":{\"kind\":\"learned\"}"
        "},"
        "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2},\"ffn\":{\"kind\":\"swiglu\",\"d_ff\":16,\"experts\":"
        "{\"count\":4,\"top_k\":2,\"scores\":\"sigmoid\",\"correction\":true,\"correction_rate\":0.01,\"balance_loss\":"
        "0.01}}}}";
    if (form < EXPERTS) *spec = fixture_spec(ctx, settings[form]);
    if (form == EXPERTS) assert_ok(ctx, qkv_spec_parse(ctx, spec, "experts", experts, sizeof experts - 1, NULL, 0));
    run.options.precision = bf16 ? "bf16" : "fp32";
    run.options.steps = run.until = 4, run.options.batch = form % 2 ? 11 : 8, run.options.groups = groups;
    run.options.warmup = 1, run.options.eval_every = 2, run.options.save_every = 2;
    run.options.dropout = form == 1 ? 0.2 : 0;
    run.options.accumulate = form == 2 ? 2 : 1;
    return run;
}

static void any_number_of_ranks_makes_the_bits_of_one(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    for (size_t form = 0; form < FORMS; form++) {
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const int64_t groups = (int64_t[]){8, 5, 4, 4, 7}[form];
            struct qkv_spec spec;
            struct run run = make_run(ctx, form, bf16, groups, &spec);
            run.folder = fixture_run("one");
            expect_run(&run, 1);
            for (int ranks = 2; ranks <= 4; ranks++) {
                run.folder = fixture_run("several");
                expect_run(&run, ranks);
                print_message("form %zu, %s, %d ranks\n", form, bf16 ? "bf16" : "fp32", ranks);
                assert_same_runs(ctx, test_path("one"), run.folder);
            }
        }
    }
    qkv_context_free(ctx);
}

static void another_number_of_ranks_goes_on(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_spec spec;
    struct run run = make_run(ctx, 2, false, 4, &spec);
    run.folder = fixture_run("one");
    expect_run(&run, 1);
    run.folder = fixture_run("several");
    for (int64_t step = 1; step <= 4; step++) {
        run.until = step;
        run.again = step > 1;
        expect_run(&run, (int[]){4, 1, 3, 2}[step - 1]);
    }
    assert_same_runs(ctx, test_path("one"), run.folder);
    qkv_context_free(ctx);
}

static void more_ranks_than_groups_are_refused(void **state) {
    (void)state;
    char message[1024];
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_spec spec;
    struct run run = make_run(ctx, 0, false, 2, &spec);
    run.folder = fixture_run("few");
    assert_int_equal(run_ranks(&run, 3, message), QKV_ARGUMENT);
    assert_non_null(strstr(message, "there are 3 ranks and 2 groups"));
    assert_false(fixture_has(run.folder, "train.json"));
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_makes_the_bits_of_one),
        cmocka_unit_test(another_number_of_ranks_goes_on),
        cmocka_unit_test(more_ranks_than_groups_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
