/* Adapters that several ranks train (option lora): any number of them gives the losses, norms, weights and moments of
 * one, over a base in fp32 and over a quantised one. */
/* labels: numeric */
#include "rank_fixture.h"

#include "io/adapter_files.h"

/* The model that adapters belong to, which a run of two steps makes: its folder, and a file of the same in q8_0. */
static void make_bases(struct qkv_context *ctx, const char *experts, char bases[2][1024]) {
    snprintf(bases[0], 1024, "%s", fixture_run("base"));
    snprintf(bases[1], 1024, "%s", test_path("base.gguf"));
    OWNED_SPEC struct qkv_spec spec =
        fixture_spec(ctx, (const char *const[]){"decoder.norm.kind=rmsnorm", "position.kind=rope", experts, NULL});
    struct qkv_train_options options = fixture_options(ctx);
    struct qkv_trainer *t;
    options.steps = 2;
    options.warmup = 0;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &options, bases[0], NULL, NULL, &t));
    fixture_steps(ctx, t, 2);
    const struct qkv_gguf_options to = {.size = sizeof to, .format = "q8_0", .pure = true, .family = "qkv"};
    assert_ok(ctx, qkv_model_export_gguf(qkv_trainer_model(t), &to, bases[1], NULL));
    qkv_trainer_free(t);
}

static struct run make_run(struct qkv_context *ctx, const char *base, bool bf16, const char *lora) {
    struct run run = {.options = fixture_options(ctx), .until = 4};
    qkv_train_unset(&run.options, "tokenizer");
    qkv_train_unset(&run.options, "dropout");
    assert_ok(ctx, qkv_train_set(ctx, &run.options, "from", base));
    assert_ok(ctx, qkv_train_set(ctx, &run.options, "lora", lora));
    run.options.precision = bf16 ? "bf16" : "fp32";
    run.options.rate = 1e-2;
    run.options.steps = run.until, run.options.batch = 11, run.options.groups = 5;
    run.options.warmup = 1, run.options.eval_every = 2, run.options.save_every = 2;
    return run;
}

static void assert_as_one_adapter(struct qkv_context *ctx, const struct run *run) {
    char *one = log_numbers(test_path("one")), *own = log_numbers(run->folder);
    assert_same_logs(one, own);
    free(one);
    free(own);
    assert_same_tensors(ctx, test_path("one"), run->folder, "checkpoint.safetensors");
    assert_same_tensors(ctx, test_path("one"), run->folder, QKV_ADAPTER_WEIGHTS_FILE);
}

/* forms: two over each base. */
static void check_ranks(const char *experts, const char *const forms[4]) {
    struct qkv_context *ctx = fixture_context(1);
    char bases[2][1024];
    make_bases(ctx, experts, bases);
    for (int form = 0; form < 4; form++) {
        struct run run = make_run(ctx, bases[form / 2], form % 2, forms[form]);
        make_run_of_one(&run, "several");
        for (int ranks = 2; ranks <= 4; ranks++) {
            run.folder = fixture_run("several");
            expect_run(&run, ranks);
            print_message("form %d, %d ranks\n", form, ranks);
            assert_as_one_adapter(ctx, &run);
        }
    }
    qkv_context_free(ctx);
}

static void any_number_of_ranks_makes_the_bits_of_one(void **state) {
    (void)state;
    static const char *const forms[] = {"rank=3", "rank=4,dropout=0.2,dora=true,targets=q,v,down",
                                        "rank=4,dropout=0.2,targets=q,v,down", "rank=3,dora=true"};
    check_ranks(NULL, forms);
}

static void so_it_does_with_adapters_of_experts(void **state) {
    (void)state;
    static const char *const forms[] = {"rank=3", "rank=4,dropout=0.2,targets=experts.up,router",
                                        "rank=4,dropout=0.2,targets=q,experts.down", "rank=3,targets=experts.up"};
    check_ranks("decoder.ffn.experts={\"count\": 3, \"top_k\": 2}", forms);
}

static void another_number_of_ranks_goes_on(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    char bases[2][1024];
    make_bases(ctx, NULL, bases);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct run run = make_run(ctx, bases[bf16], bf16, "rank=2,dropout=0.1");
        make_run_of_one(&run, "several");
        for (int64_t step = 1; step <= 4; step++) {
            run.until = step;
            run.again = step > 1;
            expect_run(&run, (int[]){4, 1, 3, 2}[step - 1]);
        }
        assert_as_one_adapter(ctx, &run);
    }
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_makes_the_bits_of_one),
        cmocka_unit_test(so_it_does_with_adapters_of_experts),
        cmocka_unit_test(another_number_of_ranks_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
