/* test_beam_golden: texts that transformers makes with small random models (tests/golden/beams, made by beam_cases.py):
 * beams of T5, BART, Marian and Llama under the rules of generation_config.json, and greedy choices under the same
 * rules. Ids and scores are theirs, alone, in a batch and in an engine. Lines in which two numbers of the reference
 * are within 1e-5 of each other are counted apart: there, rounding chooses. */
/* labels: numeric quick */
#include "test.h"

#include <jansson.h>
#include <math.h>

#include "generate/generate.h"
#include "io/generation.h"
#include "model/model.h"

#define CLOSE 1e-5

enum { LINES = 10, TOKENS = 64, BEAM_LINES = 240 };

static struct qkv_context *ctx;
static size_t lines_read, lines_near; /* of beams */

/* Ids are those of fp32, whatever the precision of the other tests. */
static int setup(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 2, .precision = QKV_FP32));
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

struct line {
    int32_t source[TOKENS], ids[TOKENS];
    size_t length, count;
    double score, gap;
};

static size_t read_ids(const json_t *list, int32_t ids[TOKENS]) {
    const size_t count = json_array_size(list);
    assert_true(count <= TOKENS);
    for (size_t i = 0; i < count; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return count;
}

static size_t read_lines(const json_t *list, struct line lines[LINES]) {
    const size_t count = json_array_size(list);
    assert_in_range(count, 1, LINES);
    for (size_t i = 0; i < count; i++) {
        const json_t *from = json_array_get(list, i);
        lines[i].length = read_ids(json_object_get(from, "source"), lines[i].source);
        lines[i].count = read_ids(json_object_get(from, "ids"), lines[i].ids);
        lines[i].score = json_number_value(json_object_get(from, "score"));
        lines[i].gap = json_number_value(json_object_get(from, "gap"));
    }
    return count;
}

/* Gives a model the settings of a case, as if its folder had them. */
static void take_settings(struct qkv_model *m, const json_t *settings) {
    char *text = json_dumps(settings, JSON_COMPACT);
    assert_non_null(text);
    assert_ok(ctx, qkv_generation_parse(ctx, "settings", text, strlen(text), qkv_model_spec(m), &m->generation));
    free(text);
}

/* Calls `check` with each settings of a model and their lines. */
static void each_case(const char *name, bool beams,
                      void (*check)(struct qkv_model *m, const struct line *lines, size_t n)) {
    char path[512];
    json_error_t error;
    struct qkv_model *m;
    snprintf(path, sizeof path, "%s/tests/golden/beams/%s", TEST_SOURCE_DIR, name);
    assert_ok(ctx, qkv_model_load(ctx, path, &m));
    snprintf(path, sizeof path, "%s/tests/golden/beams/%s/cases.json", TEST_SOURCE_DIR, name);
    json_t *cases = json_load_file(path, 0, &error);
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        static struct line lines[LINES];
        const json_t *at = json_array_get(cases, i), *settings = json_object_get(at, "settings");
        if ((json_integer_value(json_object_get(settings, "num_beams")) > 1) != beams) continue;
        take_settings(m, settings);
        check(m, lines, read_lines(json_object_get(at, "lines"), lines));
    }
    json_decref(cases);
    qkv_model_free(m);
}

/* ---- encoder-decoders -------------------------------------------------------------------------------------------- */

struct results {
    const struct line *lines;
    size_t first, sources;
    bool scored; /* they have scores */
};

static bool take(void *user, size_t source, const struct qkv_hypothesis *h, size_t count) {
    struct results *r = user;
    const struct line *line = &r->lines[r->first + source];
    r->sources++;
    assert_int_equal(count, 1);
    if (line->gap < CLOSE) return true;
    assert_int_equal(h->count, line->count);
    assert_memory_equal(h->ids, line->ids, line->count * sizeof *line->ids);
    if (r->scored) assert_true(fabs(h->score - line->score) < 2e-5 * (1 + fabs(line->score)));
    return true;
}

static void search_lines(struct qkv_model *m, const struct line *lines, size_t first, size_t count, bool scored) {
    struct qkv_search_options o = qkv_search_defaults();
    const int32_t *sources[LINES];
    size_t lengths[LINES];
    struct results r = {.lines = lines, .first = first, .scored = scored};
    for (size_t i = 0; i < count; i++) sources[i] = lines[first + i].source, lengths[i] = lines[first + i].length;
    assert_true(qkv_search_settings(m, &o));
    o.batch = 4;
    assert_ok(ctx, qkv_search(m, sources, lengths, count, &o, take, &r));
    assert_int_equal(r.sources, count);
}

/* ---- in an engine ------------------------------------------------------------------------------------------------ */

static void submit_line(struct qkv_engine *e, struct qkv_model *m, const struct line *line, uint64_t *id) {
    struct qkv_engine_request r = qkv_engine_request_defaults();
    struct qkv_generate_options o = qkv_generate_defaults();
    struct qkv_search_options search = qkv_search_defaults();
    assert_true(qkv_generate_settings(m, &o) && qkv_search_settings(m, &search));
    if (!qkv_model_spec(m)->encoder.layers) search.max_tokens = 0; /* max_length counts the prompt */
    o.ids = line->source, o.id_count = line->length;
    r.options = &o;
    r.search = &search;
    assert_ok(ctx, qkv_engine_submit(e, &r, id));
}

/* All lines together, in so many rows and pages, against the texts of the reference. */
static void engine_lines(struct qkv_model *m, const struct line *lines, size_t count, size_t rows, size_t step) {
    struct qkv_engine *e;
    struct qkv_engine_event event;
    uint64_t ids[LINES];
    size_t ended = 0;
    bool busy = true;
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = rows, .step = step), &e));
    for (size_t i = 0; i < count; i++) submit_line(e, m, &lines[i], &ids[i]);
    while (busy) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        for (; qkv_engine_poll(e, &event); ended++) {
            const struct qkv_hypothesis *h = event.hypothesis;
            const struct line *line = lines;
            for (size_t i = 0; ids[i] != event.request; i++) line++;
            assert_true(event.finish == QKV_FINISH_STOP || event.finish == QKV_FINISH_LENGTH);
            assert_non_null(h);
            if (line->gap < CLOSE) continue;
            assert_int_equal(h->count, line->count);
            assert_memory_equal(h->ids, line->ids, line->count * sizeof *line->ids);
            assert_true(fabs(h->score - line->score) < 2e-5 * (1 + fabs(line->score)));
        }
    }
    assert_int_equal(ended, count);
    qkv_engine_free(e);
}

static void check_beams_of_a_decoder(struct qkv_model *m, const struct line *lines, size_t count) {
    engine_lines(m, lines, count, 20, 0);
    engine_lines(m, lines, count, 5, 3);
    lines_read += count;
    for (size_t i = 0; i < count; i++) lines_near += lines[i].gap < CLOSE;
}

static void check_beams(struct qkv_model *m, const struct line *lines, size_t count) {
    engine_lines(m, lines, count, 30, 0);
    engine_lines(m, lines, count, 12, 3);
    search_lines(m, lines, 0, count, true);
    for (size_t i = 0; i < count; i++) {
        search_lines(m, lines, i, 1, true);
        lines_read++;
        lines_near += lines[i].gap < CLOSE;
    }
}

static void check_greedy(struct qkv_model *m, const struct line *lines, size_t count) {
    search_lines(m, lines, 0, count, false);
    for (size_t i = 0; i < count; i++) search_lines(m, lines, i, 1, false);
}

static void beams_are_those_of_transformers(void **state) {
    (void)state;
    each_case("t5", true, check_beams);
    each_case("bart", true, check_beams);
    each_case("marian", true, check_beams);
    each_case("llama", true, check_beams_of_a_decoder);
    printf("%zu lines of beams, %zu of them with a gap below %g\n", lines_read, lines_near, CLOSE);
    assert_int_equal(lines_read, BEAM_LINES);
    assert_true(lines_near * 10 < lines_read);
}

static void greedy_targets_are_those_of_transformers(void **state) {
    (void)state;
    each_case("t5", false, check_greedy);
    each_case("bart", false, check_greedy);
    each_case("marian", false, check_greedy);
}

/* ---- a decoder --------------------------------------------------------------------------------------------------- */

struct made {
    int32_t ids[2][TOKENS];
    size_t count[2];
};

static bool take_token(void *user, const struct qkv_made_token *token) {
    struct made *made = user;
    const size_t at = token->index < 2 ? token->index : 0;
    if (!token->end) made->ids[at][made->count[at]++] = token->id;
    return true;
}

static bool take_token_of_one(void *user, const struct qkv_made_token *token) {
    struct made *made = user;
    if (!token->end) made->ids[0][made->count[0]++] = token->id;
    return true;
}

static void check_decoder(struct qkv_model *m, const struct line *lines, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct qkv_generate_options o = qkv_generate_defaults();
        struct qkv_session *session;
        assert_true(qkv_generate_settings(m, &o));
        o.ids = lines[i].source, o.id_count = lines[i].length;
        for (int way = 0; way < 3; way++) {
            struct made made = {0};
            o.take_user = &made;
            o.take_token = way == 1 ? take_token : take_token_of_one;
            if (way == 0) assert_ok(ctx, qkv_generate(m, NULL, 0, &o, NULL, NULL, NULL));
            if (way == 1) assert_ok(ctx, qkv_generate_several(m, NULL, 0, &o, 2, NULL, NULL, NULL));
            if (way == 2) {
                assert_ok(ctx, qkv_session_create(m, NULL, &session));
                assert_ok(ctx, qkv_session_generate(session, 0, &o, NULL, NULL, NULL));
                qkv_session_free(session);
            }
            for (size_t k = 0; k < (way == 1 ? 2 : 1) && lines[i].gap >= CLOSE; k++) {
                assert_int_equal(made.count[k], lines[i].count);
                assert_memory_equal(made.ids[k], lines[i].ids, lines[i].count * sizeof *made.ids[k]);
            }
        }
    }
}

static void greedy_texts_of_a_decoder_are_those_of_transformers(void **state) {
    (void)state;
    each_case("llama", false, check_decoder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(beams_are_those_of_transformers),
                                       cmocka_unit_test(greedy_targets_are_those_of_transformers),
                                       cmocka_unit_test(greedy_texts_of_a_decoder_are_those_of_transformers)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
