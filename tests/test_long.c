/* Sequences longer than the context: the cut against one made by hand, and cut lines, texts and prompts against
 * those that were written short. One byte is one token here, so the remaining text is known. test_train_long.c tests
 * training. */
/* labels: quick */
#include "context_fixture.h"
#include "weights.h"

#include "text/sequence.h"

enum { CONTEXT = 24, WIDTH = 16, CLASSES = 3, LINES = 60 };

#define START "{\"format\":\"qkv\",\"version\":1,\"vocab\":260,\"d_model\":16,\"context\":24,"
#define STACK "{\"layers\":1,\"attention\":{\"heads\":2}}"
static const char classifier[] = START "\"head\":{\"kind\":\"classify\",\"classes\":3},\"encoder\":" STACK "}";
static const char tagger[] = START "\"head\":{\"kind\":\"classify_tokens\",\"classes\":3},\"encoder\":" STACK "}";
static const char encoder[] = START "\"encoder\":" STACK "}";
static const char pairs[] = START "\"source_vocab\":260,\"encoder\":" STACK ",\"decoder\":" STACK "}";

static struct qkv_model *long_model(const char *json) {
    static const char *const names[] = {QKV_TOKEN_BEGIN, QKV_TOKEN_END, QKV_TOKEN_MASK};
    const struct qkv_tokenizer_options o = {
        .size = sizeof o, .kind = QKV_TOKENIZER_BYTES, .specials = names, .special_count = 3};
    struct qkv_tokenizer *tokenizer;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    struct qkv_random random = test_random(31);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", json, strlen(json), NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, test_seed(), &model));
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        test_fill(&random, test_weights_mutable(model, i), qkv_array_elements(qkv_model_parameter(model, i)), 0.3);
    assert_ok(ctx, qkv_tokenizer_train(ctx, &o, NULL, 0, &tokenizer));
    assert_ok(ctx, qkv_model_set_tokenizer(model, tokenizer));
    return model;
}

/* ---- the cut ---------------------------------------------------------------------------------------------------- */

static void kinds_are_found_by_their_names(void **state) {
    enum qkv_long kind;
    (void)state;
#define FIND(name, text, done, help)                                                                                   \
    assert_ok(ctx, qkv_long_find(ctx, text, &kind));                                                                   \
    assert_int_equal(kind, QKV_LONG_##name);                                                                           \
    assert_string_equal(qkv_long_done(kind), done);
    QKV_LONG_LIST(FIND)
    static const char *const wrong[] = {"", "Skip", "keep", "keep_start", "error ", NULL};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        assert_status(ctx, qkv_long_find(ctx, wrong[i], &kind), QKV_ARGUMENT);
        assert_message(ctx, "it must be error, skip, keep-start or keep-end");
    }
    assert_null(qkv_long_done((enum qkv_long)4));
}

/* Ids that say where they stood: what is left of them is written down by the definition. */
static void a_cut_keeps_what_stands_around_the_text(void **state) {
    struct qkv_random random = test_random(1);
    (void)state;
    for (size_t round = 0; round < 2000; round++) {
        const struct qkv_sequence_frame frame = {test_between(&random, 0, 3), test_between(&random, 0, 3)};
        const size_t text = test_between(&random, 0, 40), all = frame.before + text + frame.after;
        const size_t most = test_between(&random, 1, 30);
        const enum qkv_long kind = (enum qkv_long)test_between(&random, 0, 3);
        size_t count = all, found = 7, expected = 0;
        int32_t ids[64], want[64];
        for (size_t i = 0; i < all; i++) ids[i] = (int32_t)i;
        const struct qkv_long_rule rule = {.kind = kind, .most = most, .found = &found};
        const enum qkv_long_fate fate = qkv_long_apply(&rule, frame, ids, &count);
        const bool longer = all > most, keeps = kind == QKV_LONG_KEEP_START || kind == QKV_LONG_KEEP_END;
        const bool room = most > frame.before + frame.after;
        assert_int_equal(found, longer ? 8 : 7);
        assert_int_equal(fate, !longer || (keeps && room) ? QKV_FATE_FITS
                               : kind == QKV_LONG_SKIP    ? QKV_FATE_SKIPPED
                                                          : QKV_FATE_REFUSED);
        if (fate != QKV_FATE_FITS) continue;
        const size_t kept = longer ? most - frame.before - frame.after : text;
        const size_t from = frame.before + (kind == QKV_LONG_KEEP_END ? text - kept : 0);
        for (size_t i = 0; i < frame.before; i++) want[expected++] = (int32_t)i;
        for (size_t i = 0; i < kept; i++) want[expected++] = (int32_t)(from + i);
        for (size_t i = 0; i < frame.after; i++) want[expected++] = (int32_t)(all - frame.after + i);
        assert_int_equal(count, expected);
        assert_memory_equal(ids, want, expected * sizeof *ids);
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

struct long_lines {
    char text[LINES][64], left[LINES][64]; /* as they are, and what `kind` leaves of them; blank where it is skipped */
    const char *lines[LINES], *short_lines[LINES];
    size_t count; /* those that are too long */
};

/* Lines of up to twice what the context holds beside `around` tokens; some are blank. */
static void long_make(struct long_lines *l, struct qkv_random *random, enum qkv_long kind, size_t around) {
    const size_t most = CONTEXT - around;
    l->count = 0;
    for (size_t i = 0; i < LINES; i++) {
        const size_t n = test_between(random, 0, 2 * most);
        for (size_t k = 0; k < n; k++) l->text[i][k] = (char)test_between(random, 'a', 'z');
        l->text[i][n] = 0;
        const size_t kept = n <= most ? n : kind == QKV_LONG_SKIP ? 0 : most;
        memcpy(l->left[i], l->text[i] + (kind == QKV_LONG_KEEP_END ? n - kept : 0), kept);
        l->left[i][kept] = 0;
        l->lines[i] = l->text[i];
        l->short_lines[i] = l->left[i];
        l->count += n > most;
    }
}

static const enum qkv_long long_kinds[] = {QKV_LONG_SKIP, QKV_LONG_KEEP_START, QKV_LONG_KEEP_END};

static void long_lines_are_classified_by_what_is_kept(void **state) {
    static struct long_lines l;
    struct qkv_model *model = long_model(classifier);
    struct qkv_random random = test_random(2);
    float got[LINES * CLASSES], want[LINES * CLASSES];
    (void)state;
    for (size_t k = 0; k < TEST_COUNT(long_kinds); k++) {
        size_t found = 0;
        const struct qkv_line_options o = {.size = sizeof o, .long_lines = long_kinds[k], .long_count = &found};
        long_make(&l, &random, long_kinds[k], 2);
        assert_ok(ctx, qkv_classify(model, l.lines, LINES, &o, got));
        assert_ok(ctx, qkv_classify(model, l.short_lines, LINES, NULL, want));
        assert_memory_equal(got, want, sizeof got);
        assert_int_equal(found, l.count);
        assert_true(found > 0 && found < LINES);
    }
    qkv_model_free(model);
}

static void long_lines_are_embedded_by_what_is_kept(void **state) {
    static const char *const models[] = {classifier, encoder, pairs};
    static struct long_lines l;
    static float got[LINES * WIDTH], want[LINES * WIDTH];
    struct qkv_random random = test_random(3);
    (void)state;
    for (size_t m = 0; m < TEST_COUNT(models); m++) {
        struct qkv_model *model = long_model(models[m]);
        for (size_t k = 0; k < TEST_COUNT(long_kinds); k++) {
            size_t found = 0;
            const struct qkv_embed_options o = {.size = sizeof o,
                                                .pool = QKV_POOL_MEAN,
                                                .normalize = true,
                                                .long_lines = long_kinds[k],
                                                .long_count = &found};
            long_make(&l, &random, long_kinds[k], m == 0 ? 2 : m == 1 ? 0 : 1);
            assert_ok(ctx, qkv_embed(model, l.lines, LINES, &o, got));
            assert_ok(ctx, qkv_embed(model, l.short_lines, LINES,
                                     &QKV_OPTIONS(qkv_embed_options, .pool = QKV_POOL_MEAN, .normalize = true), want));
            assert_memory_equal(got, want, sizeof got);
            assert_int_equal(found, l.count);
        }
        qkv_model_free(model);
    }
}

struct translated {
    char lines[LINES][128];
    size_t count;
};

static bool long_take(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    struct translated *t = user;
    (void)rank;
    t->count++;
    snprintf(t->lines[line], sizeof t->lines[line], "%.*s %.9g", (int)(size < 100 ? size : 100), text, score);
    return true;
}

static void long_lines_are_translated_by_what_is_kept(void **state) {
    static struct long_lines l;
    static struct translated got, want;
    struct qkv_model *model = long_model(pairs);
    struct qkv_random random = test_random(4);
    (void)state;
    for (size_t k = 0; k < TEST_COUNT(long_kinds); k++) {
        size_t found = 0;
        struct qkv_search_options o = qkv_search_defaults();
        o.max_tokens = 6;
        long_make(&l, &random, long_kinds[k], 1);
        memset(&got, 0, sizeof got);
        memset(&want, 0, sizeof want);
        assert_ok(ctx, qkv_translate(model, l.short_lines, LINES, &o, long_take, &want));
        o.long_lines = long_kinds[k];
        o.long_count = &found;
        assert_ok(ctx, qkv_translate(model, l.lines, LINES, &o, long_take, &got));
        assert_int_equal(got.count, LINES);
        assert_memory_equal(&got, &want, sizeof got);
        assert_int_equal(found, l.count);
    }
    qkv_model_free(model);
}

/* Words of one byte, with a space before each but the first: the limit keeps the first `kept`. */
static void words_past_the_limit_of_tokens_have_zeros(void **state) {
    enum { WORDS = 11 };
    static const char *const words[2 * WORDS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k",
                                                 "q", "r", "s", "t", "u", "v", "w", "x", "y", "z", "a"};
    struct qkv_model *model = long_model(tagger);
    (void)state;
    for (size_t kept = 1; kept < WORDS; kept++) {
        const char *some[2 * WORDS];
        const size_t all_counts[] = {WORDS, WORDS}, counts[] = {kept, kept};
        float got[2 * WORDS * CLASSES], want[2 * WORDS * CLASSES], none[CLASSES] = {0};
        size_t found = 0;
        const struct qkv_line_options o = {.size = sizeof o,
                                           .long_lines = QKV_LONG_KEEP_START,
                                           .long_count = &found,
                                           .max_tokens = 2 + 2 * kept - 1};
        for (size_t i = 0; i < 2 * kept; i++) some[i] = words[i < kept ? i : WORDS + i - kept];
        assert_ok(ctx, qkv_classify_words(model, words, all_counts, 2, &o, got));
        assert_ok(ctx, qkv_classify_words(model, some, counts, 2, NULL, want));
        assert_int_equal(found, 2);
        for (size_t i = 0; i < 2 * WORDS; i++) {
            const size_t sentence = i / WORDS, at = i % WORDS;
            assert_memory_equal(got + i * CLASSES, at < kept ? want + (sentence * kept + at) * CLASSES : none,
                                sizeof none);
        }
    }
    qkv_model_free(model);
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

/* Thirty tokens, three of them masks: two in the first 24, two in the last. */
static void masks_that_are_cut_away_have_no_fillings(void **state) {
    static const char text[] = "ab<mask>defghij<mask>lmnopqrstuvwxyz12<mask>4";
    static const struct {
        enum qkv_long kind;
        const char *kept;
        size_t first, count, most;
    } cases[] = {{QKV_LONG_KEEP_START, "ab<mask>defghij<mask>lmnopqrstuvwx", 0, 2, 0},
                 {QKV_LONG_KEEP_END, "ghij<mask>lmnopqrstuvwxyz12<mask>4", 1, 2, 0},
                 {QKV_LONG_KEEP_START, "ab<mask>d", 0, 1, 4},
                 {QKV_LONG_KEEP_END, "2<mask>4", 2, 1, 3}};
    struct qkv_model *model = long_model(encoder);
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_filling *all, *kept;
        size_t masks, kept_masks, found = 0;
        const struct qkv_line_options o = {.size = sizeof o,
                                           .long_lines = cases[i].kind,
                                           .long_count = &found,
                                           .max_tokens = cases[i].most};
        assert_ok(ctx, qkv_fill(model, text, 2, &o, &all, &masks));
        assert_ok(ctx, qkv_fill(model, cases[i].kept, 2, NULL, &kept, &kept_masks));
        assert_true(masks == 3 && kept_masks == cases[i].count && found == 1);
        for (size_t k = 0; k < 2 * kept_masks; k++) {
            const struct qkv_filling *a = &all[2 * cases[i].first + k];
            assert_true(a->id == kept[k].id && a->probability == kept[k].probability);
            assert_memory_equal(text + a->begin, "<mask>", a->end - a->begin);
            assert_memory_equal(cases[i].kept + kept[k].begin, "<mask>", kept[k].end - kept[k].begin);
            assert_true(a->end - a->begin == 6 && kept[k].end - kept[k].begin == 6);
        }
        for (size_t m = 0; m < 3; m++)
            if (m < cases[i].first || m >= cases[i].first + kept_masks)
                assert_true(all[2 * m].id == -1 && all[2 * m + 1].id == -1);
        qkv_free(all);
        qkv_free(kept);
    }
    struct qkv_filling *all;
    size_t masks;
    struct qkv_line_options o = {.size = sizeof o, .long_lines = QKV_LONG_SKIP};
    assert_ok(ctx, qkv_fill(model, text, 2, &o, &all, &masks));
    assert_true(masks == 0 && !all);
    o.long_lines = QKV_LONG_KEEP_END;
    assert_status(ctx, qkv_fill(model, "<mask>bcdefghijklmnopqrstuvwxyz", 1, &o, &all, &masks), QKV_ARGUMENT);
    assert_message(ctx, "the text has 26 tokens, and the 24 that the model's context holds have no <mask> among them");
    qkv_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_found_by_their_names),
        cmocka_unit_test(a_cut_keeps_what_stands_around_the_text),
        cmocka_unit_test(long_lines_are_classified_by_what_is_kept),
        cmocka_unit_test(long_lines_are_embedded_by_what_is_kept),
        cmocka_unit_test(long_lines_are_translated_by_what_is_kept),
        cmocka_unit_test(words_past_the_limit_of_tokens_have_zeros),
        cmocka_unit_test(masks_that_are_cut_away_have_no_fillings),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
