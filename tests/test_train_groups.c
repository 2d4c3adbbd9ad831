/* Training in groups (--groups): neither how a batch is cut into parts nor the number of threads changes a bit of losses, norms or
 * weights. What gradients must be is checked elsewhere; here that they do not change, and that without groups they do. */
#include "train_same.h"

enum { FORMS = 6 };

/* A run of three steps; free() nothing: the path stays valid for some calls of test_path. */
static const char *run_of(const char *name, size_t form, int threads, int64_t accumulate, int64_t groups,
                          enum qkv_precision precision) {
    static const char *const settings[FORMS][6] = {
        {NULL},
        {"decoder.norm.kind=rmsnorm", "decoder.attention.kv_heads=1", "position.kind=rope", "tie=none", NULL},
        {"decoder.ffn.kind=swiglu", "position.kind=alibi", "decoder.norm.placement=post", NULL},
        {"head.bias=true", "decoder.attention.softcap=3", NULL},
        {"position.kind=sinusoidal", "decoder.attention.window=5", NULL},
        {"decoder.norm.bias=false", "decoder.attention.bias=qkv", NULL}};
    struct qkv_context *ctx = fixture_context(threads);
    struct qkv_train_options options = fixture_options(ctx);
    qkv_context_set_precision(ctx, precision);
    options.precision = precision == QKV_FP32 ? "fp32" : "bf16";
    options.steps = 3, options.batch = form % 2 ? 11 : 8, options.accumulate = accumulate, options.groups = groups;
    options.warmup = 1, options.eval_every = 3, options.save_every = 3;
    options.dropout = form == 1 || form == 4 ? 0 : 0.2;
    options.checkpoint_activations = form == 3 && accumulate > 1;
    const char *folder = fixture_run(name);
    struct qkv_spec spec = fixture_spec(ctx, settings[form]);
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, options.steps);
    qkv_trainer_free(trainer);
    qkv_context_free(ctx);
    return folder;
}

static void parts_and_threads_change_no_bit(void **state) {
    static const struct {
        int threads;
        int64_t accumulate;
    } ways[] = {{2, 1}, {1, 2}, {3, 3}, {1, 4}, {2, 5}, {1, 8}};
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    for (size_t form = 0; form < FORMS; form++) {
        for (int precision = 0; precision < 2; precision++) {
            const int64_t groups = (int64_t[]){8, 3, 5, 2, 8, 64}[form];
            run_of("whole", form, 1, 1, groups, precision ? QKV_MIXED_BF16 : QKV_FP32);
            for (size_t i = form % 2; i < TEST_COUNT(ways); i += 2) {
                const char *other = run_of("parts", form, ways[i].threads, ways[i].accumulate, groups,
                                           precision ? QKV_MIXED_BF16 : QKV_FP32);
                print_message("form %zu, %s, accumulate %d\n", form, precision ? "bf16" : "fp32",
                              (int)ways[i].accumulate);
                assert_same_runs(ctx, test_path("whole"), other);
            }
        }
    }
    qkv_context_free(ctx);
}

static void the_number_of_groups_is_part_of_the_numbers(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    run_of("one", 1, 1, 1, 1, QKV_FP32);
    run_of("two", 1, 1, 1, 2, QKV_FP32);
    char *one = log_numbers(test_path("one")), *two = log_numbers(test_path("two"));
    assert_string_not_equal(one, two);
    free(one);
    free(two);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_and_threads_change_no_bit),
        cmocka_unit_test(the_number_of_groups_is_part_of_the_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
