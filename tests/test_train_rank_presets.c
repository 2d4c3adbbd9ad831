/* Every preset, task, tie, kind of data and form of batch, with vocabularies from 65 to 50,000, on 1 to 4 ranks
 * (threads of one process): 20 steps have the losses, norms, weights and moments of one rank, or, if gradients are
 * sent as bf16, losses and norms close to them. Without an argument, each case of a fixed list runs with one number
 * of ranks; with the argument N, with all of them, and N random cases run, too. */
#include "rank_fixture.h"

#include "base/utf8.h"

enum { STEPS = 20, CONTEXT = 17, SETTINGS = 24, EXAMPLES = 40, SIDE = 28 };

static struct qkv_context *ctx;
static size_t random_first, random_end; /* numbers of random cases */

/* ---- models: presets made small --------------------------------------------------------------------------------- */

#define SMALL(stack) stack ".layers=2", stack ".attention.heads=4", stack ".ffn.d_ff=48"
#define LATENT                                                                                                         \
    "decoder.attention.head_dim=16", "decoder.attention.value_dim=8", "decoder.attention.latent.rank=24",              \
        "decoder.attention.latent.query_rank=16", "decoder.attention.latent.rope_dim=8"

static const struct small {
    const char *preset, *settings[SETTINGS];
} small[] = {
    {"nano-gpt", {SMALL("decoder")}},
    {"baby-gpt", {SMALL("decoder")}},
    {"gpt2-small", {SMALL("decoder")}},
    {"llama-style", {SMALL("decoder")}},
    {"bloom-style", {SMALL("decoder")}},
    {"mqa-style", {SMALL("decoder")}},
    {"mla-tiny", {SMALL("decoder"), LATENT}},
    {"deepseek-style",
     {"decoder.layers=2", "decoder.pattern=[\"dense\",\"experts\"]", "decoder.attention.heads=4", LATENT,
      "decoder.kinds.dense.ffn.d_ff=48", "decoder.kinds.experts.ffn.d_ff=16",
      "decoder.kinds.experts.ffn.experts.count=8", "decoder.kinds.experts.ffn.experts.shared=16"}},
    {"moe-tiny", {SMALL("decoder"), "decoder.ffn.experts.count=5"}},
    {"gemma-style", {"decoder.layers=6", "decoder.attention.heads=4", "decoder.ffn.d_ff=48"}},
    {"neox-style", {SMALL("decoder")}},
    {"qwen3-style", {SMALL("decoder"), "decoder.attention.head_dim=8"}},
    {"mixtral-style", {SMALL("decoder"), "decoder.ffn.experts.count=4"}},
    {"gpt-oss-style", {SMALL("decoder"), "decoder.ffn.experts.count=6"}},
    {"transformer-base", {SMALL("encoder"), SMALL("decoder")}},
    {"t5-style", {SMALL("encoder"), SMALL("decoder")}},
    {"g2p", {SMALL("encoder"), SMALL("decoder")}},
    {"tiny-seq2seq", {SMALL("encoder"), SMALL("decoder")}},
    {"tiny-lm", {SMALL("decoder")}},
    {"tiny-encoder", {SMALL("encoder")}},
    {"tiny-translator", {SMALL("encoder"), SMALL("decoder")}},
    {"bert-base", {SMALL("encoder")}},
    {"bert-tiny", {SMALL("encoder")}},
    {"text-classifier", {SMALL("encoder")}},
    {"vit-tiny", {SMALL("encoder")}},
};

/* ---- data ------------------------------------------------------------------------------------------------------- */

enum data { TEXT, DOCUMENTS, PREFIX, MASKED, LINES, HIDDEN, EACH, PAIRS, SHARED, LABELS, WORDS, IDS, PIXELS, DATA };
/* The name of a kind, the options for its file and task, and a setting for the model's head. */
static const struct data_kind {
    const char *name, *option, *more, *head;
} kinds[DATA] = {
    [TEXT] = {"text", "data", NULL, NULL},
    [DOCUMENTS] = {"documents", "data", "documents=true", NULL},
    [PREFIX] = {"prefix", "data", "prefix=random", NULL},
    [MASKED] = {"masked text", "data", "task=mlm", NULL},
    [LINES] = {"lines", "lines", NULL, NULL},
    [HIDDEN] = {"masked lines", "lines", "task=mlm", NULL},
    [EACH] = {"lines with each token masked", "lines", "task=mlm", NULL},
    [PAIRS] = {"pairs", "pairs", NULL, NULL},
    [SHARED] = {"pairs of one vocabulary", "pairs", "source_tokenizer=shared", NULL},
    [LABELS] = {"labels", "labeled", NULL, "head.kind=classify"},
    [WORDS] = {"words", "labeled", NULL, "head.kind=classify_tokens"},
    [IDS] = {"ids", "examples", NULL, NULL},
    [PIXELS] = {"pixels", "examples", NULL, NULL},
};

static bool data_suits(enum data data, size_t preset, enum qkv_topology topology, bool classifies) {
    if (data == PIXELS || !strcmp(small[preset].preset, "vit-tiny"))
        return data == PIXELS && !strcmp(small[preset].preset, "vit-tiny");
    if (topology == QKV_ENCODER_DECODER) return data == PAIRS || data == SHARED;
    if (data == WORDS && classifies) return false; /* its head pools */
    if (data == LABELS || data == WORDS) return topology == QKV_ENCODER_ALONE;
    if (classifies) return false;
    if (data == IDS) return true;
    if (data == MASKED || data == HIDDEN || data == EACH) return topology == QKV_ENCODER_ALONE;
    return topology == QKV_DECODER_ALONE && data != PAIRS && data != SHARED;
}

/* The n-th character of a vocabulary: letters and digits, then Chinese ones. */
static void add_character(struct qkv_buffer *text, size_t n) {
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const size_t letters = sizeof first - 1,
                 basic = 0x9fff - 0x3400; /* characters of the first plane; then of the second */
    char bytes[4] = {first[n % letters]};
    size_t size = 1;
    if (n >= letters)
        size = qkv_utf8_write((uint32_t)(n - letters < basic ? 0x3400 + n - letters : 0x20000 + n - letters - basic),
                              bytes);
    assert_ok(ctx, qkv_buffer_append(ctx, text, bytes, size));
}

/* Characters, each of the vocabulary once and most of them more often: few do most of the work. */
struct characters {
    struct qkv_random random;
    size_t vocabulary, next;
};

static void add_some(struct characters *c, struct qkv_buffer *text, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const bool one = qkv_random_below(&c->random, 3) > 0 && c->next < c->vocabulary;
        const size_t common = (size_t)qkv_random_below(&c->random, qkv_min(c->vocabulary, 40));
        add_character(text, one ? c->next++ : common);
    }
}

/* Until each character has come, and for at least so many lines. */
static void write_data(const char *path, enum data data, size_t vocabulary, size_t least) {
    struct characters c = {qkv_random_start(7, (uint64_t)data), vocabulary, 0};
    struct qkv_buffer text = {0};
    for (size_t line = 0; line < least || c.next < vocabulary; line++) {
        const size_t n = 1 + (size_t)qkv_random_below(&c.random, CONTEXT - 4);
        if (data == LABELS) assert_ok(ctx, qkv_buffer_print(ctx, &text, "%s\t", n % 3 ? "even" : "odd"));
        for (size_t k = 0; data == WORDS && k <= n % 4; k++) {
            add_some(&c, &text, 3);
            assert_ok(ctx, qkv_buffer_print(ctx, &text, "\t%s\n", k % 2 ? "verb" : "noun"));
        }
        if (data != WORDS) add_some(&c, &text, n);
        if (data == PAIRS || data == SHARED) {
            assert_ok(ctx, qkv_buffer_append(ctx, &text, "\t", 1));
            add_some(&c, &text, 1 + (n * 5) % (CONTEXT - 4));
        }
        if (data == DOCUMENTS && line % 4 == 3) assert_ok(ctx, qkv_buffer_print(ctx, &text, "<|endoftext|>"));
        assert_ok(ctx, qkv_buffer_append(ctx, &text, "\n", 1));
    }
    test_write_file(path, text.data, text.size);
    qkv_buffer_free(&text);
}

/* Ids with a target for each, or images with a class. */
static void write_examples(const char *path, enum data data, size_t vocabulary) {
    struct qkv_random random = qkv_random_start(8, (uint64_t)data);
    const size_t width = data == IDS ? CONTEXT : SIDE * SIDE, targets = data == IDS ? CONTEXT : 1;
    int32_t *ids = calloc(EXAMPLES * width, sizeof *ids), *to = calloc(EXAMPLES * targets, sizeof *to);
    float *x = calloc(EXAMPLES * width, sizeof *x);
    for (size_t i = 0; i < EXAMPLES * width; i++) {
        ids[i] = (int32_t)qkv_random_below(&random, qkv_random_below(&random, 2) ? vocabulary : 40);
        x[i] = (float)qkv_random_normal(&random);
    }
    for (size_t i = 0; i < EXAMPLES * targets; i++)
        to[i] = (int32_t)qkv_random_below(&random, data == IDS ? vocabulary : 3);
    struct qkv_array arrays[] = {{.name = "in.ids",
                                  .dtype = QKV_I32,
                                  .rank = 2,
                                  .shape = {EXAMPLES, width},
                                  .data = ids,
                                  .bytes = EXAMPLES * width * sizeof *ids},
                                 {.name = "in.targets",
                                  .dtype = QKV_I32,
                                  .rank = data == IDS ? 2 : 1,
                                  .shape = {EXAMPLES, targets},
                                  .data = to,
                                  .bytes = EXAMPLES * targets * sizeof *to}};
    if (data == PIXELS) {
        arrays[0].name = "in.pixels", arrays[0].dtype = QKV_F32, arrays[0].rank = 4, arrays[0].data = x;
        arrays[0].shape[1] = 1, arrays[0].shape[2] = arrays[0].shape[3] = SIDE;
    }
    assert_ok(ctx, qkv_tensors_write(ctx, path, arrays, 2, NULL, 0));
    free(ids);
    free(to);
    free(x);
}

/* ---- a case ----------------------------------------------------------------------------------------------------- */

struct rank_case {
    size_t preset, vocabulary, width;
    enum data data;
    const char *settings[SETTINGS], *options[SETTINGS]; /* besides; NAME=VALUE */
};

static const char *case_text(const struct rank_case *c) {
    static char text[1024];
    int n = snprintf(text, sizeof text, "%s, %s, vocabulary of %zu, width %zu:", small[c->preset].preset,
                     kinds[c->data].name, c->vocabulary, c->width);
    for (size_t i = 0; c->settings[i]; i++) n += snprintf(text + n, sizeof text - (size_t)n, " %s", c->settings[i]);
    for (size_t i = 0; c->options[i]; i++) n += snprintf(text + n, sizeof text - (size_t)n, " --%s", c->options[i]);
    return text;
}

static struct qkv_spec case_spec(const struct rank_case *c) {
    const char *settings[3 * SETTINGS];
    char ids[32], width[32];
    struct qkv_spec spec = {0};
    size_t n = 0;
    snprintf(width, sizeof width, "d_model=%zu", c->width);
    settings[n++] = width;
    settings[n++] = "context=17"; /* positions of an image */
    for (size_t i = 0; small[c->preset].settings[i]; i++) settings[n++] = small[c->preset].settings[i];
    if (kinds[c->data].head) settings[n++] = kinds[c->data].head;
    snprintf(ids, sizeof ids, "vocab=%zu", c->vocabulary);
    if (c->data == IDS) settings[n++] = ids;
    if (c->data == PIXELS) settings[n++] = "head.classes=3";
    for (size_t i = 0; c->settings[i]; i++) settings[n++] = c->settings[i];
    assert_ok(ctx, qkv_spec_preset(ctx, &spec, small[c->preset].preset, settings, n));
    if (c->data != IDS) spec.vocab = 0; /* that of the tokenizer */
    return spec;
}

static void case_option(struct qkv_train_options *o, const char *text) {
    static char kept[64][64]; /* values live as long as the options */
    static size_t next;
    const char *equal = strchr(text, '=');
    char *name = kept[next++ % TEST_COUNT(kept)];
    snprintf(name, sizeof kept[0], "%s", text);
    name[equal - text] = 0;
    assert_ok(ctx, qkv_train_set(ctx, o, name, name + (equal - text) + 1));
}

static struct run case_run(const struct rank_case *c, struct qkv_spec *spec) {
    static char path[1024];
    struct run run = {.spec = spec, .until = STEPS};
    const struct data_kind *kind = &kinds[c->data];
    snprintf(path, sizeof path, "%s", test_path("data"));
    if (c->data >= IDS)
        write_examples(path, c->data, c->vocabulary);
    else
        write_data(path, c->data, c->data == DOCUMENTS ? 60 : c->vocabulary, 60);
    assert_ok(ctx, qkv_train_defaults(ctx, NULL, &run.options));
    assert_ok(ctx, qkv_train_set(ctx, &run.options, kind->option, path));
    case_option(&run.options, "steps=20");
    case_option(&run.options, "warmup=4");
    case_option(&run.options, "rate=3e-3");
    case_option(&run.options, "valid_fraction=0");
    if (c->data < IDS) case_option(&run.options, c->data == DOCUMENTS ? "tokenizer=bpe:300" : "tokenizer=chars");
    if (c->data == EACH) case_option(&run.options, "mask_each=true");
    if (kind->more) case_option(&run.options, kind->more);
    for (size_t i = 0; c->options[i]; i++) case_option(&run.options, c->options[i]);
    return run;
}

/* If gradients are sent as bf16: the first loss is that of one rank, as nothing has been sent before it; norms and
 * losses differ by no more than 8-bit mantissas can cause in so few steps. */
static void assert_near_one(const struct run *run) {
    char *one = log_numbers(test_path("one")), *several = log_numbers(run->folder);
    const char *a = one, *b = several;
    bool same = true;
    for (int step = 0; step < STEPS; step++) {
        double loss[2], norm[2];
        assert_int_equal(sscanf(a, "%la %la", &loss[0], &norm[0]), 2);
        assert_int_equal(sscanf(b, "%la %la", &loss[1], &norm[1]), 2);
        if (step == 0) assert_true(loss[0] == loss[1] && fabs(norm[1] / norm[0] - 1) < 0.004);
        if (fabs(loss[1] / loss[0] - 1) > 0.01 || fabs(norm[1] / norm[0] - 1) > 0.05)
            fail_msg("step %d: loss %g and norm %g, of one rank %g and %g", step + 1, loss[1], norm[1], loss[0],
                     norm[0]);
        same = same && loss[0] == loss[1] && norm[0] == norm[1];
        a = strchr(a, '\n') + 1, b = strchr(b, '\n') + 1;
    }
    assert_false(same);
    free(one);
    free(several);
}

/* Whether it has begun on one rank; then several have made the same of it. */
static bool case_runs(const struct rank_case *c, int least, int most) {
    char message[1024];
    OWNED_SPEC struct qkv_spec spec = case_spec(c);
    struct run run = case_run(c, &spec);
    print_message("%s\n", case_text(c));
    run.folder = fixture_run("one");
    const enum qkv_status status = run_ranks(&run, 1, message);
    if (status) print_message("    refused: %s\n", message);
    for (int ranks = least; ranks <= most && !status; ranks++) {
        run.folder = fixture_run("several");
        if (run.options.groups && ranks > run.options.groups) continue;
        expect_run(&run, ranks);
        print_message("    %d ranks\n", ranks);
        if (strcmp(run.options.gradients, "bf16"))
            assert_as_one(ctx, &run);
        else
            assert_near_one(&run);
    }
    return !status;
}

/* ---- the fixed list --------------------------------------------------------------------------------------------- */

#define IN(...)                                                                                                        \
    { __VA_ARGS__ }
#define BF16      "precision=bf16"
#define FP32      "precision=fp32"
#define NARROW    "gradients=bf16"
#define RAGGED(n) "batch=0", "batch_tokens=" #n
/* Every preset, kind of data and tie; batches of one row, of fewer rows than ranks, and of any number. Ranks own 65,536
 * weights at a time: tables that several of them own are wide. */
static const struct fixed_case {
    const char *preset;
    enum data data;
    size_t vocabulary, width;
    const char *settings[4], *options[6];
} fixed[] = {
    {"nano-gpt", TEXT, 4000, 96, IN("tie=head"), IN(FP32, "batch=12")},
    {"nano-gpt", TEXT, 2000, 96, IN("tie=head"), IN(BF16, "batch=8", "accumulate=2", "optimizer=sgd")},
    {"nano-gpt", TEXT, 2000, 96, IN("tie=head"), IN(FP32, "batch=1", "groups=4")},
    {"nano-gpt", LINES, 300, 32, IN("tie=none"), IN(BF16, "batch=1", "groups=4")},
    {"baby-gpt", PREFIX, 65, 32, IN(NULL), IN(BF16, "batch=5")},
    {"gpt2-small", TEXT, 50000, 32, IN("tie=head"), IN(FP32, "batch=4")},
    {"llama-style", TEXT, 2000, 96, IN("tie=none"), IN(BF16, "batch=16", "groups=16")},
    {"bloom-style", IDS, 2000, 96, IN("tie=head"), IN(FP32, "batch=5", "accumulate=2")},
    {"mqa-style", DOCUMENTS, 300, 32, IN(NULL), IN(FP32, "batch=8", "freeze=*attn*")},
    {"mla-tiny", TEXT, 300, 32, IN(NULL), IN(BF16, "batch=3", "groups=4")},
    {"deepseek-style", TEXT, 300, 32, IN(NULL), IN(FP32, "batch=7", "clip=0.1")},
    {"moe-tiny", LINES, 2000, 96, IN("tie=head", "decoder.share=1"), IN(BF16, "batch=11", "groups=5")},
    {"gemma-style", TEXT, 300, 32, IN("tie=head"), IN(FP32, "batch=8", "checkpoint_activations=true")},
    {"neox-style", TEXT, 65, 32, IN("tie=none"), IN(FP32, "batch=2", "groups=4")},
    {"qwen3-style", TEXT, 3000, 96, IN("tie=head"), IN(BF16, "batch=8", "freeze=*embed*")},
    {"mixtral-style", TEXT, 300, 32, IN("tie=none"), IN(FP32, "batch=11", "accumulate=3")},
    {"gpt-oss-style", TEXT, 300, 32, IN("tie=head"), IN(BF16, "batch=8", "rates=*attn*=0.5")},
    {"transformer-base", PAIRS, 4000, 96, IN("tie=all"), IN(FP32, RAGGED(100), "label_smoothing=0.1")},
    {"transformer-base", PAIRS, 300, 32, IN("tie=all", "dropout=0.1"), IN(BF16, RAGGED(40), "groups=4")},
    {"t5-style", PAIRS, 300, 32, IN("tie=all"), IN(FP32, "batch=5", "accumulate=3", "checkpoint_activations=true")},
    {"g2p", SHARED, 2000, 96, IN("tie=head"), IN(FP32, RAGGED(40), "accumulate=2")},
    {"tiny-seq2seq", PAIRS, 3000, 96, IN("tie=head"), IN(BF16, "batch=8", "checkpoint_activations=true")},
    {"tiny-lm", LINES, 65, 32, IN("tie=none"), IN(FP32, "batch=3", "groups=4")},
    {"tiny-encoder", EACH, 300, 32, IN("tie=head"), IN(FP32, "batch=9")},
    {"tiny-translator", SHARED, 65, 32, IN("tie=none"), IN(FP32, "batch=1", "groups=4")},
    {"bert-base", MASKED, 2000, 96, IN("tie=head", "encoder.share=1"), IN(BF16, "batch=8")},
    {"bert-tiny", MASKED, 4000, 96, IN("tie=head"), IN(FP32, "batch=8", "optimizer=adam")},
    {"bert-tiny", HIDDEN, 300, 32, IN("tie=none"), IN(FP32, "batch=6")},
    {"bert-tiny", WORDS, 300, 32, IN(NULL), IN(FP32, "batch=0", "batch_tokens=60")},
    {"text-classifier", LABELS, 1000, 32, IN(NULL), IN(BF16, "batch=9", "accumulate=2")},
    {"vit-tiny", PIXELS, 0, 32, IN(NULL), IN(FP32, "batch=6")},
    {"nano-gpt", TEXT, 2000, 96, IN("tie=head"), IN(FP32, "batch=8", NARROW)},
    {"tiny-seq2seq", PAIRS, 300, 32, IN("tie=all"), IN(BF16, "batch=9", "accumulate=2", NARROW)},
    {"bert-tiny", MASKED, 4000, 96, IN("tie=head"), IN(FP32, "batch=8", "optimizer=sgd", NARROW)},
};

static size_t small_of(const char *preset) {
    for (size_t i = 0; i < TEST_COUNT(small); i++)
        if (!strcmp(small[i].preset, preset)) return i;
    fail_msg("there is no small form of preset %s", preset);
    return 0;
}

static void any_number_of_ranks_trains_every_preset_as_one(void **state) {
    const char *name;
    bool all[TEST_COUNT(small)] = {false}, data[DATA] = {false};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(fixed); i++) {
        const struct fixed_case *f = &fixed[i];
        struct rank_case c = {small_of(f->preset), f->vocabulary, f->width, f->data, {NULL}, {NULL}};
        memcpy(c.settings, f->settings, sizeof f->settings);
        memcpy(c.options, f->options, sizeof f->options);
        all[c.preset] = data[c.data] = true;
        const int ranks = 2 + (int)(i % 3);
        assert_true(case_runs(&c, random_end ? 2 : ranks, random_end ? 4 : ranks));
    }
    for (size_t i = 0; i < DATA; i++) assert_true(data[i]);
    for (size_t i = 0; qkv_preset_at(i, &name, NULL); i++) assert_true(all[small_of(name)]);
}

/* ---- random cases ----------------------------------------------------------------------------------------------- */

struct choices {
    struct qkv_random *random;
    const char **list;
    size_t count;
};

/* One of the texts, or none where that is "". */
static void choose(struct choices *c, size_t count, const char *const *texts) {
    const char *text = texts[qkv_random_below(c->random, count)];
    if (*text) c->list[c->count++] = text;
}
#define CHOOSE(c, ...) choose(c, TEST_COUNT(((const char *const[]){__VA_ARGS__})), (const char *const[]){__VA_ARGS__})

static struct rank_case random_case(struct qkv_random *random, size_t number) {
    static const size_t vocabularies[] = {65, 65, 300, 1000, 1000, 4000, 50000};
    struct rank_case c = {.preset = number % TEST_COUNT(small)};
    struct choices settings = {random, c.settings, 0}, options = {random, c.options, 0};
    OWNED_SPEC struct qkv_spec spec = case_spec(&(struct rank_case){.preset = c.preset, .width = 32});
    const enum qkv_topology topology = qkv_spec_topology(&spec);
    do c.data = (enum data)qkv_random_below(random, DATA);
    while (!data_suits(c.data, c.preset, topology, spec.head.kind != QKV_HEAD_LM));
    c.vocabulary = vocabularies[qkv_random_below(random, TEST_COUNT(vocabularies))];
    const bool lines = c.data >= LINES && c.data <= WORDS, text = c.data < LINES;
    if (c.data != LABELS && c.data != WORDS && c.data != PIXELS)
        CHOOSE(&settings, "", "tie=none", "tie=head", "tie=head");
    if (c.data == PAIRS && !qkv_random_below(random, 2)) c.settings[0] = "tie=all", settings.count = 1;
    if (spec.decoder.kind_count < 2)
        CHOOSE(&settings, "", "", topology == QKV_ENCODER_ALONE ? "encoder.share=1" : "decoder.share=1");
    CHOOSE(&settings, "", "", "dropout=0.1");
    c.width = qkv_random_below(random, 2) ? 32 : 96;
    if (lines && qkv_random_below(random, 3) == 0) {
        CHOOSE(&options, "batch=0", "batch=9");
        CHOOSE(&options, "batch_tokens=17", "batch_tokens=40", "batch_tokens=100");
    } else {
        CHOOSE(&options, "batch=1", "batch=2", "batch=3", "batch=5", "batch=8", "batch=11", "batch=16");
    }
    if (strcmp(options.list[0], "batch=1") && strcmp(options.list[0], "batch=2"))
        CHOOSE(&options, "", "", "accumulate=2", "accumulate=3");
    CHOOSE(&options, "", "groups=4", "groups=5", "groups=7", "groups=16");
    CHOOSE(&options, "precision=fp32", "precision=bf16");
    CHOOSE(&options, "", "", "optimizer=sgd", "optimizer=adam", "optimizer=lion", "optimizer=muon",
           "optimizer=adafactor");
    CHOOSE(&options, "", "", "average=0.9");
    CHOOSE(&options, "", "", "freeze=*embed*", "freeze=*ffn*", "rates=*attn*=0.5");
    CHOOSE(&options, "", "", "checkpoint_activations=true", "clip=0.1");
    if (text || lines) CHOOSE(&options, "", "label_smoothing=0.1");
    return c;
}

static void random_cases_are_those_of_one_rank(void **state) {
    size_t ran = 0;
    (void)state;
    for (size_t i = random_first; i < random_end; i++) {
        struct qkv_random random = test_random(i);
        const struct rank_case c = random_case(&random, i);
        print_message("%zu: ", i);
        ran += case_runs(&c, 2, 4);
    }
    print_message("%zu of %zu random cases ran\n", ran, random_end - random_first);
    assert_true(ran * 4 >= (random_end - random_first) * 3);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_trains_every_preset_as_one),
        cmocka_unit_test(random_cases_are_those_of_one_rank),
    };
    random_first = count > 2 ? strtoull(words[2], NULL, 10) : 0;
    random_end = count > 1 ? random_first + strtoull(words[1], NULL, 10) : 0;
    ctx = fixture_context(1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qkv_context_free(ctx);
    return failed;
}
