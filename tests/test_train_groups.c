/* Training in groups (--groups): neither the parts of a batch nor the number of threads changes a bit of losses,
 * norms or weights; without groups they do. Other tests check the gradients. */
/* labels: numeric */
#include "train_same.h"

enum { FORMS = 6 };

/* A run of three steps; free() nothing: the path stays valid for some calls of test_path. */
static const char *run_of(const char *name, size_t form, int threads, int64_t accumulate, int64_t groups,
                          enum qkv_precision precision) {
    static const char *const settings[FORMS][8] = {
        {NULL},
        {"decoder.norm.kind=rmsnorm", "decoder.attention.kv_heads=1", "position.kind=rope", "tie=none",
         "decoder.norm.placement=parallel"},
        {"decoder.ffn.kind=swiglu", "position.kind=alibi", "decoder.norm.placement=post", NULL},
        {"head.bias=true", "decoder.attention.softcap=3", "decoder.layers=3", "decoder.share=1", NULL},
        {"position.kind=sinusoidal", "decoder.attention.window=5", "decoder.norm.placement=sandwich", NULL},
        {"decoder.norm.bias=false", "decoder.attention.bias=qkv", "decoder.norm.placement=output",
         "decoder.residual_scale=0.5", "decoder.layers=3", "decoder.share=2"}};
    struct qkv_context *ctx = fixture_context(threads);
    struct qkv_train_options options = fixture_options(ctx);
    qkv_context_set_precision(ctx, precision);
    options.precision = precision == QKV_FP32 ? "fp32" : "bf16";
    options.steps = 3, options.batch = form % 2 ? 11 : 8, options.accumulate = accumulate, options.groups = groups;
    options.warmup = 1, options.eval_every = 3, options.save_every = 3;
    options.dropout = form == 1 || form == 4 ? 0 : 0.2;
    options.checkpoint_activations = form == 3 && accumulate > 1;
    const char *folder = fixture_run(name);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, settings[form]);
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

/* Pairs, with one table for everything, and labelled lines, of mixed length; masked tokens. */
enum task { PAIRS, LABELS, MASKS, TASKS };

static void write_task(const char *path, enum task task) {
    struct qkv_random random = qkv_random_start(11, 3);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < 60; i++) {
        char word[16] = "";
        const size_t n = 1 + (size_t)qkv_random_below(&random, 9);
        for (size_t k = 0; k < n; k++) word[k] = (char)('a' + qkv_random_below(&random, 4));
        if (task == LABELS) fprintf(file, "%s\t%s\n", word[0] < 'c' ? "low" : "high", word);
        if (task == PAIRS) fprintf(file, "%s\t%.*s\n", word, (int)(n + 1) / 2, word);
        if (task == MASKS) fprintf(file, "%s %s\n", word, word);
    }
    fclose(file);
}

static const char *run_of_task(const char *name, enum task task, int threads, int64_t accumulate, int64_t tokens,
                               enum qkv_precision precision) {
    static const char pairs[] = "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":16,\"tie\":\"all\","
                                "\"position\":{\"kind\":\"learned\"},"
                                "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}},"
                                "\"decoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";
    static const char labels[] = "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":16,"
                                 "\"head\":{\"kind\":\"classify\",\"pool\":\"mean\"},"
                                 "\"encoder\":{\"layers\":2,\"attention\":{\"heads\":4,\"kv_heads\":2}}}";
    static const char masks[] = "{\"format\":\"qkv\",\"version\":1,\"d_model\":32,\"context\":16,"
                                "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2}}}";
    static const char *const specs[TASKS] = {[PAIRS] = pairs, [LABELS] = labels, [MASKS] = masks};
    struct qkv_context *ctx = fixture_context(threads);
    struct qkv_train_options options = fixture_options(ctx);
    OWNED_SPEC struct qkv_spec spec = {0};
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path("task.txt"));
    write_task(path, task);
    qkv_context_set_precision(ctx, precision);
    options.data = task == MASKS ? path : NULL, options.task = task == MASKS ? "mlm" : NULL;
    options.pairs = task == PAIRS ? path : NULL, options.labeled = task == LABELS ? path : NULL;
    options.tokenizer = task == MASKS ? NULL : "chars";
    options.precision = precision == QKV_FP32 ? "fp32" : "bf16";
    options.steps = 3, options.batch = 10, options.accumulate = accumulate, options.warmup = 1;
    if (tokens && task != MASKS) options.batch_tokens = tokens;
    options.eval_every = 3, options.save_every = 3;
    const char *folder = fixture_run(name);
    struct qkv_trainer *trainer;
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "task", specs[task], strlen(specs[task]), NULL, 0));
    assert_ok(ctx, qkv_trainer_create(ctx, &spec, &options, folder, NULL, NULL, &trainer));
    fixture_steps(ctx, trainer, options.steps);
    qkv_trainer_free(trainer);
    qkv_context_free(ctx);
    return folder;
}

static void lines_of_mixed_length_have_the_same_bits_in_any_parts(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    for (enum task task = 0; task < TASKS; task++) {
        for (int precision = 0; precision < 2; precision++) {
            const enum qkv_precision p = precision ? QKV_MIXED_BF16 : QKV_FP32;
            const int64_t tokens = precision ? 70 : 0;
            run_of_task("whole", task, 1, 1, tokens, p);
            for (int64_t parts = 2; parts <= 10; parts += parts < 4 ? 1 : 3) {
                const char *other = run_of_task("parts", task, 1 + (int)parts % 3, parts, tokens, p);
                print_message("task %d, %s, accumulate %d\n", (int)task, precision ? "bf16" : "fp32", (int)parts);
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
        cmocka_unit_test(lines_of_mixed_length_have_the_same_bits_in_any_parts),
        cmocka_unit_test(the_number_of_groups_is_part_of_the_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
