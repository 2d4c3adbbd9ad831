/* What a comparison varies, and its statistics: axes and their values, variants and their folders, medians and
 * deviations. */
/* labels: numeric quick */
#include "test.h"

#include "lab/compare/compare_room.h"

#define assert_fails(ctx, call, expected, part)                                                                        \
    do {                                                                                                               \
        assert_status(ctx, call, expected);                                                                            \
        if (ctx) test_message_has(ctx, part, __FILE__, __LINE__);                                                      \
    } while (0)

static struct qkv_context *make_context(void) {
    struct qkv_context *ctx;
    struct qkv_context_options options = {.size = sizeof options, .threads = 1, .precision = QKV_PRECISION_AUTO};
    assert_ok(ctx, qkv_context_create(&ctx, &options));
    return ctx;
}

/* ---- axes ------------------------------------------------------------------------------------------------------- */

static void axes_are_read(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_axis axis;
    (void)state;
    assert_ok(ctx, qkv_axis_parse(ctx, "kv=mha,gqa:2,mqa", &axis));
    assert_string_equal(axis.name, "kv");
    assert_int_equal(axis.values.count, 3);
    assert_string_equal(axis.values.items[1], "gqa:2");
    qkv_axis_free(&axis);
    assert_ok(ctx, qkv_axis_parse(ctx, "weight-decay=0,0.1", &axis));
    assert_string_equal(axis.name, "weight_decay");
    qkv_axis_free(&axis);
    assert_ok(ctx, qkv_axis_parse(ctx, "decoder.layers=1", &axis));
    qkv_axis_free(&axis);
    const char *const good[] = {
        "position=none,sinusoidal,learned,rope,alibi,rope:half,rope:interleaved,rope:0.25",
        "norm=pre,post,sandwich,output,parallel,parallel_two,pre-layer,pre-rms,parallel_two-rms",
        "ffn=relu,gelu,gelu_tanh,silu,swiglu,geglu",
        "precision=fp32,bf16",
        "warmup=0,100",
        "min_rate=1e-5,0.5",
        "accumulate=1,64",
        "checkpoint_activations=true,false",
        "embed_scale=1,8",
        "d_model=32,64"};
    for (size_t i = 0; i < TEST_COUNT(good); i++) {
        assert_ok(ctx, qkv_axis_parse(ctx, good[i], &axis));
        qkv_axis_free(&axis);
    }
    qkv_context_free(ctx);
}

static void what_is_no_axis_is_refused(void **state) {
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"colour=red", "there is no axis \"colour\"; there are kv, share, position, norm, ffn"},
        {"steps=1,2", "there is no axis \"steps\""},
        {"data=a,b", "there is no axis \"data\""},
        {"kv=mha,foo", "axis kv has no value \"foo\"; it has mha, gqa:N"},
        {"kv=gqa", "axis kv has no value \"gqa\""},
        {"kv=gqa:0", "axis kv has no value \"gqa:0\""},
        {"kv=gqa:2x", "axis kv has no value \"gqa:2x\""},
        {"kv=gqa:1.5", "axis kv has no value"},
        {"kv=mla:0", "axis kv has no value \"mla:0\""},
        {"kv=mlax", "axis kv has no value \"mlax\""},
        {"share=-1", "axis share has no value \"-1\""},
        {"kv=mh", "axis kv has no value \"mh\""},
        {"position=rope:0", "axis position has no value"},
        {"position=rope:2", "axis position has no value"},
        {"position=rope:X", "axis position has no value"},
        {"position=absolute", "learned, rope, alibi, buckets, relative, rope:half"},
        {"norm=rms", "it has pre, post, sandwich, output, parallel, parallel_two, pre-layer"},
        {"ffn=moe:8", "axis ffn has no value \"moe:8\""},
        {"ffn=moe:2:4", "axis ffn has no value \"moe:2:4\""},
        {"ffn=moe:8:0", "axis ffn has no value \"moe:8:0\""},
        {"ffn=moe:8:2:1:1", "axis ffn has no value \"moe:8:2:1:1\""},
        {"ffn=moe:8:2x", "axis ffn has no value \"moe:8:2x\""},
        {"ffn=moe:E:k", "axis ffn has no value \"moe:E:k\""},
        {"ffn=moe:99999999999999999999:2", "axis ffn has no value"},
        {"ffn=sine", "it has relu, gelu, gelu_tanh, silu, tanh, swiglu, geglu"},
        {"kv", "axis kv has no values"},
        {"kv=", "empty value"},
        {"kv=mha,,mqa", "empty value"},
        {"kv=mha,", "empty value"},
        {"kv=mha,mha", "the value mha twice"},
        {"warmup=soon", "warmup is \"soon\"; it must be a whole number"},
        {"precision=fp8", "it must be fp32, bf16 or auto"},
        {"optimizer=lyon", "it must be adamw, adam, sgd, lion, muon or adafactor"},
        {"beta2=1.5", "beta2 is 1.5"},
    };
    struct qkv_context *ctx = make_context();
    struct qkv_axis axis;
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        assert_fails(ctx, qkv_axis_parse(ctx, bad[i].text, &axis), QKV_ARGUMENT, bad[i].part);
    qkv_context_free(ctx);
}

/* The specs of the variants of a test, which are freed at its end. */
static struct qkv_spec varied[64];
static size_t varied_count;

static void varied_free(void) {
    while (varied_count) qkv_spec_free(&varied[--varied_count]);
}

/* The spec that a value of an axis makes of a preset. */
static struct qkv_spec vary(struct qkv_context *ctx, const char *preset, const char *text) {
    struct qkv_axis axis;
    struct qkv_texts settings = {0}, training = {0};
    OWNED_SPEC struct qkv_spec base = {0};
    struct qkv_spec *spec = &varied[varied_count++];
    assert_true(varied_count <= TEST_COUNT(varied));
    assert_ok(ctx, qkv_spec_preset(ctx, &base, preset, NULL, 0));
    assert_ok(ctx, qkv_axis_parse(ctx, text, &axis));
    assert_ok(ctx, qkv_axis_apply(ctx, &axis, axis.values.items[0], &base, &settings, &training));
    assert_int_equal(training.count, 0);
    assert_ok(ctx, qkv_spec_preset(ctx, spec, preset, (const char *const *)settings.items, settings.count));
    qkv_texts_free(&settings);
    qkv_axis_free(&axis);
    return *spec;
}

static void values_change_the_spec(void **state) {
    struct qkv_context *ctx = make_context();
    (void)state;
    assert_int_equal(vary(ctx, "nano-gpt", "kv=gqa:2").decoder.kinds[0].attention.kv_heads, 2);
    assert_int_equal(vary(ctx, "nano-gpt", "kv=mqa").decoder.kinds[0].attention.kv_heads, 1);
    const struct qkv_spec mla = vary(ctx, "nano-gpt", "kv=mla"), plain = vary(ctx, "mla-tiny", "kv=mqa");
    assert_true(mla.decoder.kinds[0].attention.latent.given);
    assert_int_equal(mla.decoder.kinds[0].attention.latent.rank, 64);
    assert_int_equal(vary(ctx, "nano-gpt", "kv=mla:24").decoder.kinds[0].attention.latent.rank, 24);
    assert_int_equal(vary(ctx, "llama-style", "kv=mla").decoder.kinds[0].attention.kv_heads, 16);
    assert_int_equal(vary(ctx, "mla-tiny", "kv=mla").decoder.kinds[0].attention.latent.query_rank, 96);
    assert_false(plain.decoder.kinds[0].attention.latent.given);
    assert_int_equal(plain.decoder.kinds[0].attention.kv_heads, 1);
    assert_int_equal(vary(ctx, "llama-style", "kv=mha").decoder.kinds[0].attention.kv_heads, 16);
    const struct qkv_spec taking_turns = vary(ctx, "nano-gpt", "share=1");
    for (size_t i = 0; i < (size_t)taking_turns.decoder.layers; i++)
        assert_int_equal(qkv_stack_keys_of(&taking_turns.decoder, i), i - i % 2);
    assert_int_equal(vary(ctx, "nano-gpt", "share=0").decoder.kind_count, 1);
    assert_int_equal(vary(ctx, "nano-gpt", "position=alibi").decoder.kinds[0].attention.position.kind,
                     QKV_POSITION_ALIBI);
    const struct qkv_spec rope = vary(ctx, "nano-gpt", "position=rope:0.5");
    assert_int_equal(rope.decoder.kinds[0].attention.position.kind, QKV_POSITION_ROPE);
    assert_true(rope.decoder.kinds[0].attention.position.fraction == 0.5);
    assert_int_equal(vary(ctx, "nano-gpt", "position=rope:interleaved").decoder.kinds[0].attention.position.pairing,
                     QKV_PAIRING_INTERLEAVED);
    const struct qkv_spec post = vary(ctx, "nano-gpt", "norm=post");
    assert_int_equal(post.decoder.kinds[0].norm.placement, QKV_PLACEMENT_POST);
    assert_int_equal(post.decoder.kinds[0].norm.kind, QKV_NORM_LAYERNORM);
    assert_false(post.decoder.kinds[0].norm.final);
    const struct qkv_spec rms = vary(ctx, "gpt2-small", "norm=pre-rms");
    assert_int_equal(rms.decoder.kinds[0].norm.kind, QKV_NORM_RMSNORM);
    assert_true(rms.decoder.kinds[0].norm.final);
    assert_int_equal(vary(ctx, "llama-style", "norm=post-layer").decoder.kinds[0].norm.kind, QKV_NORM_LAYERNORM);
    const struct qkv_spec side = vary(ctx, "nano-gpt", "norm=parallel_two-rms");
    assert_int_equal(side.decoder.kinds[0].norm.placement, QKV_PLACEMENT_PARALLEL_TWO);
    assert_true(side.decoder.kinds[0].norm.kind == QKV_NORM_RMSNORM && side.decoder.kinds[0].norm.final);
    const struct qkv_spec gated = vary(ctx, "nano-gpt", "ffn=swiglu"); /* 512 · 2/3, to a multiple of 8 */
    assert_int_equal(gated.decoder.kinds[0].ffn.kind, QKV_FFN_SWIGLU);
    assert_int_equal(gated.decoder.kinds[0].ffn.d_ff, 344);
    assert_int_equal(vary(ctx, "nano-gpt", "ffn=relu").decoder.kinds[0].ffn.d_ff, 512);
    assert_int_equal(vary(ctx, "llama-style", "ffn=gelu").decoder.kinds[0].ffn.d_ff, 4096); /* 4 · d_model */
    assert_int_equal(vary(ctx, "llama-style", "ffn=geglu").decoder.kinds[0].ffn.d_ff, 2816);
    const struct qkv_ffn_spec moe = vary(ctx, "nano-gpt", "ffn=moe:8:2").decoder.kinds[0].ffn; /* two of 344/2 */
    assert_true(moe.experts.given && moe.kind == QKV_FFN_SWIGLU && !moe.experts.shared);
    assert_true(moe.experts.count == 8 && moe.experts.top_k == 2 && moe.d_ff == 172);
    assert_true(moe.experts.normalize && moe.experts.scale == 2); /* their weights sum to k */
    const struct qkv_ffn_spec shared = vary(ctx, "llama-style", "ffn=moe:16:3:1").decoder.kinds[0].ffn;
    assert_true(shared.experts.count == 16 && shared.experts.top_k == 3 && shared.experts.scale == 3);
    assert_true(shared.d_ff == 2816 / 4 && shared.experts.shared == 2816 / 4);
    const struct qkv_ffn_spec dense = vary(ctx, "moe-tiny", "ffn=swiglu").decoder.kinds[0].ffn;
    assert_true(!dense.experts.given && dense.d_ff == 2 * 168);
    assert_int_equal(vary(ctx, "moe-tiny", "ffn=gelu").decoder.kinds[0].ffn.d_ff, 3 * 168);
    assert_int_equal(vary(ctx, "moe-tiny", "ffn=moe:4:1").decoder.kinds[0].ffn.d_ff, 2 * 168);
    assert_int_equal(vary(ctx, "nano-gpt", "decoder.layers=3").decoder.layers, 3);
    varied_free();
    qkv_context_free(ctx);
}

static void values_change_the_training(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_axis axis;
    struct qkv_texts settings = {0}, training = {0};
    OWNED_SPEC struct qkv_spec base = {0};
    (void)state;
    assert_ok(ctx, qkv_spec_preset(ctx, &base, "nano-gpt", NULL, 0));
    assert_ok(ctx, qkv_axis_parse(ctx, "warmup=0,100", &axis));
    assert_ok(ctx, qkv_axis_apply(ctx, &axis, "100", &base, &settings, &training));
    assert_int_equal(settings.count, 0);
    assert_string_equal(training.items[0], "warmup=100");
    qkv_texts_free(&training);
    qkv_axis_free(&axis);
    qkv_context_free(ctx);
}

/* ---- variants --------------------------------------------------------------------------------------------------- */

static void write_text(const char *path) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 200; i++) fputs("na\xC3\xAFve \xE2\x82\xAC ", file);
    fclose(file);
}

static void several_axes_are_multiplied(void **state) {
    static const char *const names[] = {"mha pre", "mha post", "gqa:3 pre", "gqa:3 post", "mqa pre", "mqa post"};
    static const char *const axes[] = {"kv=mha,gqa:3,mqa", "norm=pre,post"};
    struct qkv_context *ctx = make_context();
    const char *text = test_path("text.txt"), *out = test_path("out");
    char data[1100];
    struct qkv_comparison *c;
    (void)state;
    snprintf(data, sizeof data, "data=%s", text);
    write_text(text);
    const char *training[] = {data, "seed=7"};
    struct qkv_compare_options o = {
        .axes = axes, .axis_count = 2, .training = training, .training_count = 2, .seeds = 2};
    assert_ok(ctx, qkv_comparison_create(ctx, &o, out, &c));
    assert_int_equal(qkv_comparison_count(c), 6);
    for (size_t i = 0; i < 6; i++) {
        const struct qkv_variant *v = qkv_comparison_variant(c, i);
        assert_string_equal(v->name, names[i]);
        bool impossible = i / 2 == 1; /* 4 heads are not divided by 3 */
        assert_int_equal(v->failure != NULL, impossible);
        if (impossible) assert_non_null(strstr(v->failure, "kv_heads"));
    }
    assert_null(qkv_comparison_variant(c, 6));
    assert_string_equal(qkv_comparison_variant(c, 2)->folder, "gqa-3-pre-seed7");
    /* Cut at the begin of a character. */
    struct qkv_map whole, train, valid;
    assert_ok(ctx, qkv_read_file(ctx, text, &whole));
    assert_ok(ctx, qkv_read_file(ctx, test_path("out/train.txt"), &train));
    assert_ok(ctx, qkv_read_file(ctx, qkv_comparison_valid(c), &valid));
    assert_int_equal(train.size + valid.size, whole.size);
    assert_memory_equal(train.data, whole.data, train.size);
    assert_memory_equal(valid.data, whole.data + train.size, valid.size);
    assert_true((valid.data[0] & 0xC0) != 0x80);
    assert_in_range(valid.size, whole.size / 10, whole.size / 10 + 3);
    qkv_unmap_file(&whole);
    qkv_unmap_file(&train);
    qkv_unmap_file(&valid);
    qkv_comparison_free(c);
    /* The same goes on; another does not. */
    assert_ok(ctx, qkv_comparison_create(ctx, &o, out, &c));
    qkv_comparison_free(c);
    o.seeds = 3;
    assert_fails(ctx, qkv_comparison_create(ctx, &o, out, &c), QKV_ARGUMENT, "seeds was 2 and is now 3");
    assert_null(c);
    o.seeds = 2;
    o.axis_count = 1;
    assert_fails(ctx, qkv_comparison_create(ctx, &o, out, &c), QKV_ARGUMENT, "axis was kv=mha,gqa:3,mqa norm=pre,post");
    qkv_context_free(ctx);
}

/* Changes the text while the first variant is trained. */
static bool change_text(void *user, size_t variant, size_t seed, const struct qkv_train_report *report) {
    (void)seed, (void)report;
    if (variant == 0) test_write_file(user, "another text, of another size", 29);
    return true;
}

static void variants_that_would_learn_from_another_text_are_not_trained(void **state) {
    static const char *const axes[] = {"rate=1e-3,1e-4"}, *const settings[] = {"d_model=16", "decoder.layers=1",
                                                                               "decoder.attention.heads=2",
                                                                               "context=8"};
    struct qkv_context *ctx = make_context();
    const char *text = test_path("changes.txt"), *valid = test_path("valid.txt"), *out = test_path("changing");
    char data[1100], other[1100];
    struct qkv_comparison *c;
    (void)state;
    test_remove_tree(out);
    snprintf(data, sizeof data, "data=%s", text);
    snprintf(other, sizeof other, "valid=%s", valid);
    write_text(text);
    write_text(valid);
    const char *training[] = {data, other, "steps=2", "batch=2", "warmup=0"};
    struct qkv_compare_options o = {.axes = axes,
                                    .axis_count = 1,
                                    .settings = settings,
                                    .setting_count = 4,
                                    .training = training,
                                    .training_count = 5};
    assert_ok(ctx, qkv_comparison_create(ctx, &o, out, &c));
    const struct qkv_compare_listener listener = {.step = change_text, .user = (void *)(uintptr_t)text};
    assert_ok(ctx, qkv_comparison_train(c, &listener));
    const char *first = qkv_comparison_variant(c, 0)->failure, *second = qkv_comparison_variant(c, 1)->failure;
    if (first) fail_msg("the first variant: %s", first);
    assert_non_null(second);
    assert_non_null(strstr(second, "changes.txt has other bytes than when the comparison in"));
    qkv_comparison_free(c);
    assert_fails(ctx, qkv_comparison_create(ctx, &o, out, &c), QKV_ARGUMENT, "changes.txt has other bytes than when");
    write_text(text); /* the same bytes, written at another time */
    assert_ok(ctx, qkv_comparison_create(ctx, &o, out, &c));
    assert_ok(ctx, qkv_comparison_train(c, NULL));
    if (qkv_comparison_variant(c, 1)->failure) fail_msg("%s", qkv_comparison_variant(c, 1)->failure);
    qkv_comparison_free(c);
    test_write_file(text, "another text, of another size", 29); /* all runs have ended: none reads it */
    assert_ok(ctx, qkv_comparison_create(ctx, &o, out, &c));
    assert_ok(ctx, qkv_comparison_train(c, NULL));
    assert_null(qkv_comparison_variant(c, 0)->failure);
    qkv_comparison_free(c);
    qkv_context_free(ctx);
}

static void what_makes_no_sense_is_refused(void **state) {
    struct qkv_context *ctx = make_context();
    struct qkv_comparison *c;
    const char *axis = "kv=mha,mqa", *data = "data=/nowhere", *specs[] = {"a.json"};
    struct qkv_compare_options o = {.axes = &axis, .axis_count = 1};
    (void)state;
    assert_fails(ctx, qkv_comparison_create(ctx, &o, "never", &c), QKV_ARGUMENT, "name a text to train on");
    o.training = &data;
    o.training_count = 1;
    assert_fails(ctx, qkv_comparison_create(ctx, &o, "never", &c), QKV_FILE, "/nowhere");
    const char *pairs = "pairs=x";
    o.training = &pairs;
    assert_fails(ctx, qkv_comparison_create(ctx, &o, "never", &c), QKV_ARGUMENT, "a comparison cannot use pairs");
    o.preset = "nano-gtp";
    assert_fails(ctx, qkv_comparison_create(ctx, &o, "never", &c), QKV_ARGUMENT, "nano-gtp");
    o = (struct qkv_compare_options){.specs = specs, .spec_count = 1};
    assert_fails(ctx, qkv_comparison_create(ctx, &o, "never", &c), QKV_ARGUMENT, "nothing varies");
    const char *twice[] = {"kv=mha", "kv=mqa"};
    o = (struct qkv_compare_options){.axes = twice, .axis_count = 2};
    assert_fails(ctx, qkv_comparison_create(ctx, &o, "never", &c), QKV_ARGUMENT, "the axis kv is given twice");
    const size_t falling[] = {64, 64};
    o = (struct qkv_compare_options){.axes = &axis, .axis_count = 1, .caches = falling, .cache_count = 2};
    assert_fails(ctx, qkv_comparison_create(ctx, &o, "never", &c), QKV_ARGUMENT, "must rise");
    assert_false(qkv_file_exists("never"));
    qkv_context_free(ctx);
}

/* ---- statistics ------------------------------------------------------------------------------------------------- */

static void numbers_are_summed_up(void **state) {
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {5};
    (void)state;
    assert_true(qkv_median(odd, 3) == 2);
    assert_true(qkv_median(even, 4) == 2.5);
    assert_true(qkv_median(one, 1) == 5);
    assert_true(isnan(qkv_median(one, 0)));
    const double x[] = {2, 4, 4, 4, 5, 5, 7, 9}; /* squares of the differences from 5 add up to 32 */
    assert_true(qkv_mean(x, 8) == 5);
    assert_true(fabs(qkv_deviation(x, 8) - sqrt(32.0 / 7)) < 1e-12);
    assert_true(isnan(qkv_deviation(x, 1)));
    assert_true(isnan(qkv_mean(x, 0)));
}

static void losses_within_the_noise_have_no_best(void **state) {
    static const struct {
        double mean[3], deviation[3];
        size_t best;
    } cases[] = {
        {{2.06, 2.10, 2.20}, {0.01, 0.01, 0.01}, 0},  {{2.10, 2.06, 2.20}, {0.01, 0.01, 0.01}, 1},
        {{2.06, 2.075, 2.20}, {0.01, 0.01, 0.01}, 3}, {{2.06, 2.20, 2.10}, {0.01, 0.01, 0.05}, 3},
        {{2.06, 2.10, 2.20}, {NAN, NAN, NAN}, 3},     {{2.06, NAN, NAN}, {0.01, NAN, NAN}, 3},
        {{2.06, NAN, 2.20}, {0.01, NAN, 0.01}, 0},    {{NAN, NAN, NAN}, {NAN, NAN, NAN}, 3},
        {{2.06, 2.06, 2.20}, {0, 0, 0}, 3},           {{2.5, 2.25, 2.75}, {0, 0.25, 0}, 3},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        assert_int_equal(qkv_lowest_mean(cases[i].mean, cases[i].deviation, 3),
                         cases[i].best == 3 ? SIZE_MAX : cases[i].best);
}

/* Two variants between which the gap is no larger than the spread of either have no fastest one; nor does a single
 * variant. */
static void speeds_within_what_measurements_differ_by_have_no_fastest(void **state) {
    (void)state;
    static const struct {
        double slowest[3], fastest[3];
        size_t count, best; /* 3: none */
    } cases[] = {
        {{90, 95}, {110, 112}, 2, 3},
        {{90, 131}, {110, 140}, 2, 1},
        {{90, 130}, {110, 140}, 2, 3}, /* the gap is as large as the spread of the slower one */
        {{90, 111}, {110, 120}, 2, 3},
        {{90, 131}, {110, 151}, 2, 1},
        {{90, 131}, {110, 152}, 2, 3}, /* the gap is less than the spread of the faster one */
        {{41000, 41400}, {41200, 41600}, 2, 3},
        {{200, 90, 110}, {210, 95, 160}, 3, 3},
        {{200, 90, 110}, {210, 95, 150}, 3, 0},
        {{200, 90, 110}, {210, 95, 201}, 3, 3},
        {{200}, {210}, 1, 3},
        {{NAN, 90}, {NAN, 95}, 2, 3},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_variant_state variants[3] = {0};
        struct qkv_comparison c = {.variants = variants, .count = cases[i].count, .cache_count = 1};
        for (size_t k = 0; k < cases[i].count; k++)
            variants[k].shown = (struct qkv_variant){.measured = true,
                                                     .prompt_slowest = cases[i].slowest[k],
                                                     .prompt_fastest = cases[i].fastest[k],
                                                     .decode_slowest = &cases[i].slowest[k],
                                                     .decode_fastest = &cases[i].fastest[k]};
        const struct qkv_variant *expected = cases[i].best == 3 ? NULL : &variants[cases[i].best].shown;
        assert_ptr_equal(qkv_comparison_fastest(&c, SIZE_MAX), expected);
        assert_ptr_equal(qkv_comparison_fastest(&c, 0), expected);
        assert_null(qkv_comparison_fastest(&c, 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_within_the_noise_have_no_best),
        cmocka_unit_test(speeds_within_what_measurements_differ_by_have_no_fastest),
        cmocka_unit_test(axes_are_read),
        cmocka_unit_test(what_is_no_axis_is_refused),
        cmocka_unit_test(values_change_the_spec),
        cmocka_unit_test(values_change_the_training),
        cmocka_unit_test(several_axes_are_multiplied),
        cmocka_unit_test(variants_that_would_learn_from_another_text_are_not_trained),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(numbers_are_summed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
