/* Languages of models that translate: the token of a source, and that of a target, are where M2M100, NLLB, mBART and
 * Marian have them (facts of their tokenizers and generation settings). A translation with languages is the search over
 * ids that are made by hand, by qkv_translate and by engines. */
/* labels: numeric quick */
#include "search_fixture.h"

#include "generate/engine.h"
#include "text/text.h"

enum { VOCAB = 40, TOKENS = 24, RESULTS = 2, TEXT = 400, FIRST_LANGUAGE = 30, END = 2, BEGIN = 0, SOURCE = 4 };

static const char model_json[] =
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 40, \"d_model\": 32, \"context\": 60, \"encoder\": "
    "{\"layers\": 1, \"attention\": {\"heads\": 2, \"position\": {\"kind\": \"rope\"}}, \"ffn\": {\"d_ff\": 32}}, "
    "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 2, \"position\": {\"kind\": \"rope\"}}, \"ffn\": "
    "{\"d_ff\": 32}}}";

/* How the families place languages. A letter is id 4 and up; languages have the ids from 30. */
enum place { NOWHERE, BEFORE, AFTER };
static const struct family {
    const char *name, *languages[5];
    enum place place; /* of the source's language; that of the template is languages[0] */
    bool starts;      /* targets begin with the language; else it is their first token */
    bool prefixed;    /* the token before a source is that of its target */
} families[] = {
    {"M2M100", {"__en__", "__de__", "__fr__", "__ceb__"}, BEFORE, false, false},
    {"NLLB", {"eng_Latn", "deu_Latn", "zho_Hans", "zho_Hant"}, BEFORE, false, false},
    {"older NLLB", {"eng_Latn", "deu_Latn", "fra_Latn"}, AFTER, false, false},
    {"mBART-50", {"en_XX", "de_DE", "pt_XX", "fr_XX"}, BEFORE, false, false},
    {"mBART", {"en_XX", "de_DE", "ro_RO"}, AFTER, true, false},
    {"Marian", {">>fra<<", ">>pt_BR<<", ">>zho_Hans<<", ">>zh-TW<<"}, NOWHERE, false, true},
};

static struct qkv_context *ctx;

static int setup(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .precision = QKV_PRECISION_AUTO));
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static size_t language_count(const struct family *f) {
    size_t n = 0;
    while (f->languages[n]) n++;
    return n;
}

/* A tokenizer of letters whose template places the first language next to a source. */
static struct qkv_tokenizer *make_tokenizer(const struct family *f) {
    struct qkv_buffer json = {0};
    struct qkv_tokenizer *t;
    const char *lang = f->languages[0];
    enum qkv_status status = qkv_buffer_print(
        ctx, &json,
        "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [{\"id\": 0, \"content\": "
        "\"<s>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": "
        "true}, {\"id\": 2, \"content\": \"</s>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": true}");
    for (size_t i = 0; f->languages[i] && !status; i++)
        status = qkv_buffer_print(ctx, &json,
                                  ", {\"id\": %zu, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, "
                                  "\"rstrip\": false, \"normalized\": false, \"special\": true}",
                                  FIRST_LANGUAGE + i, f->languages[i]);
    const char *special = "{\"SpecialToken\": {\"id\": \"%s\", \"type_id\": 0}}";
    char sides[2][100] = {""};
    if (f->place != NOWHERE) snprintf(sides[0], sizeof sides[0], special, lang);
    snprintf(sides[1], sizeof sides[1], special, "</s>");
    if (!status)
        status = qkv_buffer_print(
            ctx, &json,
            "], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"\"}, "
            "\"behavior\": \"Isolated\", \"invert\": false}, \"post_processor\": {\"type\": \"TemplateProcessing\", "
            "\"single\": [%s%s{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, %s%s%s], \"pair\": [{\"Sequence\": "
            "{\"id\": \"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], \"special_tokens\": "
            "{\"</s>\": {\"id\": \"</s>\", \"ids\": [2], \"tokens\": [\"</s>\"]}, \"%s\": {\"id\": \"%s\", \"ids\": "
            "[30], \"tokens\": [\"%s\"]}}}, \"decoder\": null, \"model\": {\"type\": \"WordLevel\", \"unk_token\": "
            "\"<unk>\", \"vocab\": {\"<s>\": 0, \"<pad>\": 1, \"</s>\": 2, \"<unk>\": 3",
            f->place == BEFORE ? sides[0] : "", f->place == BEFORE ? ", " : "", sides[1], f->place == AFTER ? ", " : "",
            f->place == AFTER ? sides[0] : "", lang, lang, lang);
    for (int i = 0; i < 26 && !status; i++) status = qkv_buffer_print(ctx, &json, ", \"%c\": %d", 'a' + i, 4 + i);
    if (!status) status = qkv_buffer_print(ctx, &json, "}}}");
    assert_ok(ctx, status);
    assert_ok(ctx, qkv_tokenizer_parse(ctx, json.data, json.size, f->name, &t));
    qkv_buffer_free(&json);
    return t;
}

/* Its generation settings are those of a published folder. */
static struct qkv_model *make_model(const struct family *f) {
    struct qkv_model *m = fixture_model(ctx, model_json, NULL, 0, 7, 0.3);
    assert_ok(ctx, qkv_model_set_tokenizer(m, make_tokenizer(f)));
    m->generation.given = true;
    m->generation.start = f->starts ? FIRST_LANGUAGE : END;
    m->generation.ends[0] = END, m->generation.end_count = 1;
    return m;
}

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

struct found {
    int32_t ids[RESULTS][TOKENS];
    size_t counts[RESULTS], sizes[RESULTS], count;
    char texts[RESULTS][TEXT];
    double scores[RESULTS];
};

static bool take(void *user, size_t source, const struct qkv_hypothesis *h, size_t count) {
    struct found *f = user;
    assert_true(source == 0 && count <= RESULTS);
    for (f->count = 0; f->count < count; f->count++) {
        memcpy(f->ids[f->count], h[f->count].ids, h[f->count].count * sizeof *h->ids);
        f->counts[f->count] = h[f->count].count;
        f->scores[f->count] = h[f->count].score;
    }
    return true;
}

static bool take_text(void *user, size_t line, size_t rank, const char *text, size_t size, double score) {
    struct found *f = user;
    assert_true(line == 0 && rank < RESULTS && size < TEXT);
    memcpy(f->texts[rank], text, size);
    f->sizes[rank] = size;
    f->scores[rank] = score;
    f->count = rank + 1;
    return true;
}

static struct qkv_search_options search_options(void) {
    struct qkv_search_options o = qkv_search_defaults();
    o.beam = o.n_best = RESULTS;
    o.max_tokens = TOKENS - 1;
    return o;
}

/* The ids of "abc" with languages by number, −1: that of the template or none, and the search over them. */
static void search_by_hand(struct qkv_model *m, const struct family *f, int source, int target, struct found *found) {
    struct qkv_search_options o = search_options();
    struct qkv_token_rules rules = qkv_token_rules_defaults();
    const int32_t language = FIRST_LANGUAGE + (source < 0 ? 0 : source), start = m->generation.start;
    int32_t ids[8];
    size_t n = 0;
    if (f->place == BEFORE) ids[n++] = language;
    if (f->prefixed && target >= 0) ids[n++] = FIRST_LANGUAGE + target;
    for (int i = 0; i < 3; i++) ids[n++] = SOURCE + i;
    ids[n++] = END;
    if (f->place == AFTER) ids[n++] = language;
    if (target >= 0 && f->starts) m->generation.start = FIRST_LANGUAGE + target;
    if (target >= 0 && !f->starts && !f->prefixed) rules.first = FIRST_LANGUAGE + target;
    o.rules = &rules;
    assert_ok(ctx, qkv_search(m, &(const int32_t *){ids}, &n, 1, &o, take, found));
    m->generation.start = start;
    assert_int_equal(found->count, RESULTS);
    for (size_t r = 0; r < found->count; r++) { /* the text of all tokens but the language that leads */
        const size_t lead = rules.first >= 0;
        found->sizes[r] = 0;
        if (lead) assert_int_equal(found->ids[r][0], rules.first);
        for (size_t i = lead; i < found->counts[r]; i++) {
            size_t size = 0;
            const char *text = qkv_tokenizer_token(qkv_model_tokenizer(m), found->ids[r][i], &size);
            const size_t skip = text && i == lead && size > 1 && *text == ' ';
            if (text) memcpy(found->texts[r] + found->sizes[r], text + skip, size - skip);
            found->sizes[r] += text ? size - skip : 0;
        }
    }
}

/* The code of a language that its token has; NULL for −1. */
static const char *code_of(const struct family *f, int i) {
    static char codes[2][QKV_LANGUAGE_TEXT];
    static size_t next;
    if (i < 0) return NULL;
    const char *token = f->languages[i];
    const bool marked = *token == '_' || *token == '>';
    return snprintf(codes[next ^= 1], QKV_LANGUAGE_TEXT, "%.*s", (int)strlen(token) - (marked ? 4 : 0),
                    token + (marked ? 2 : 0)) > 0
               ? codes[next]
               : NULL;
}

static void compare(const struct found *a, const struct found *b, const char *what, int source, int target) {
    assert_int_equal(a->count, b->count);
    for (size_t r = 0; r < a->count; r++)
        if (a->sizes[r] != b->sizes[r] || memcmp(a->texts[r], b->texts[r], a->sizes[r]) || a->scores[r] != b->scores[r])
            fail_msg("%s, %d to %d, result %zu: \"%.*s\" of %g instead of \"%.*s\" of %g", what, source, target, r,
                     (int)b->sizes[r], b->texts[r], b->scores[r], (int)a->sizes[r], a->texts[r], a->scores[r]);
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void languages_are_those_of_the_tokens(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(families); i++) {
        const struct family *f = &families[i];
        struct qkv_model *m = make_model(f);
        char code[QKV_LANGUAGE_TEXT];
        for (int target = 0; target < 2; target++) {
            size_t n = 0;
            for (; qkv_model_language(m, target, n, code); n++) assert_string_equal(code, code_of(f, (int)n));
            assert_int_equal(n, target || !f->prefixed ? language_count(f) : 0);
        }
        qkv_model_free(m);
    }
}

static void engine_run(struct qkv_model *m, const struct qkv_engine_request *request, struct found *found) {
    struct qkv_engine *e;
    struct qkv_engine_event event;
    uint64_t id;
    *found = (struct found){.count = 0};
    assert_ok(ctx, qkv_engine_create(m, &QKV_OPTIONS(qkv_engine_options, .rows = RESULTS), &e));
    assert_ok(ctx, qkv_engine_submit(e, request, &id));
    for (bool busy = true; busy;) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        while (qkv_engine_poll(e, &event)) {
            memcpy(found->texts[event.answer] + found->sizes[event.answer], event.text ? event.text : "", event.size);
            found->sizes[event.answer] += event.size;
            if (event.hypothesis) found->scores[event.answer] = event.hypothesis->score;
            if (event.finish == QKV_FINISH_FAILED) fail_msg("%s", event.message);
            if (event.finish) found->count++;
        }
    }
    qkv_engine_free(e);
}

/* By lines, by a search in an engine, and without a search, where the likeliest tokens are a greedy search. */
static void translations_are_searches_over_ids_by_hand(void **state) {
    (void)state;
    const char *line = "abc";
    for (size_t i = 0; i < TEST_COUNT(families); i++) {
        const struct family *f = &families[i];
        struct qkv_model *m = make_model(f);
        const int sources = f->prefixed ? 0 : 3;
        size_t differ = 0;
        for (int source = -1; source < sources; source++)
            for (int target = -1; target < 3; target++) {
                static struct found hand, lines, engine, other;
                struct qkv_search_options o = search_options();
                struct qkv_engine_request r = qkv_engine_request_defaults();
                struct qkv_generate_options g = qkv_generate_defaults();
                search_by_hand(m, f, source, target, &hand);
                o.source_language = code_of(f, source), o.target_language = code_of(f, target);
                assert_ok(ctx, qkv_translate(m, &line, 1, &o, take_text, &lines));
                compare(&hand, &lines, f->name, source, target);
                r.search = &o, r.prompt = line, r.prompt_size = 3;
                engine_run(m, &r, &engine);
                compare(&hand, &engine, f->name, source, target);
                r.source_language = o.source_language, r.target_language = o.target_language;
                o.source_language = o.target_language = NULL;
                engine_run(m, &r, &engine);
                compare(&hand, &engine, f->name, source, target);
                g.sampling.temperature = 0, g.tokens = TOKENS - 1;
                r.search = NULL, r.options = &g;
                engine_run(m, &r, &engine);
                o.beam = o.n_best = 1;
                o.source_language = r.source_language, o.target_language = r.target_language;
                assert_ok(ctx, qkv_translate(m, &line, 1, &o, take_text, &lines));
                engine.scores[0] = lines.scores[0];
                compare(&lines, &engine, f->name, source, target);
                search_by_hand(m, f, source, target == 1 ? 2 : 1, &other);
                differ += hand.scores[0] != other.scores[0];
            }
        assert_int_equal(differ, (size_t)(sources + 1) * 4); /* languages matter */
        qkv_model_free(m);
    }
}

static void codes_may_be_written_in_other_ways(void **state) {
    (void)state;
    struct qkv_model *nllb = make_model(&families[1]), *mbart = make_model(&families[3]);
    struct qkv_model *m2m = make_model(&families[0]), *marian = make_model(&families[5]);
    static const char *const good[] = {"eng_Latn", "ENG-latn", "eng", "Auto", "", "zho_Hans"};
    for (size_t i = 0; i < TEST_COUNT(good); i++)
        assert_ok(ctx, qkv_model_check_languages(nllb, good[i], good[TEST_COUNT(good) - 1 - i]));
    assert_fails(ctx, qkv_model_check_languages(nllb, "zho", NULL), QKV_ARGUMENT,
                 "the source language is \"zho\", which is zho_Hans or zho_Hant; choose one");
    assert_fails(ctx, qkv_model_check_languages(nllb, "zho_Latn", NULL), QKV_ARGUMENT,
                 "the source language is \"zho_Latn\", but the model has zho_Hans, zho_Hant, eng_Latn, deu_Latn");
    assert_fails(ctx, qkv_model_check_languages(nllb, NULL, "en"), QKV_ARGUMENT, "the target language is \"en\"");
    assert_ok(ctx, qkv_model_check_languages(mbart, "en", "pt"));
    assert_fails(ctx, qkv_model_check_languages(mbart, "en_US", NULL), QKV_ARGUMENT, "en_US");
    assert_fails(ctx, qkv_model_check_languages(mbart, "en\x7fXX", NULL), QKV_ARGUMENT, "but the model has");
    static const char *const targets[] = {"zh-TW", "zh_tw", ">>zh-TW<<", "pt-br", "pt", ">>FRA<<"};
    for (size_t i = 0; i < TEST_COUNT(targets); i++)
        assert_ok(ctx, qkv_model_check_languages(marian, NULL, targets[i]));
    assert_ok(ctx, qkv_model_check_languages(m2m, "__de__", "__ceb__"));
    char longest[50]; /* a message shows whole characters */
    snprintf(longest, sizeof longest, "%039d\xc3\xa9\xc3\xa9", 0);
    assert_fails(ctx, qkv_model_check_languages(m2m, longest, NULL), QKV_ARGUMENT, "0\", but the model has en, ");
    qkv_model_free(nllb);
    qkv_model_free(mbart);
    qkv_model_free(marian);
    qkv_model_free(m2m);
}

/* A model of one pair has the languages of its folder, and no others. */
static void a_pair_has_the_languages_of_its_folder(void **state) {
    (void)state;
    static const struct family none = {"a pair", {NULL}, NOWHERE, false, false};
    static const char config[] = "{\"source_lang\": \"en\", \"target_lang\": \"de\"}";
    static const char other[] = "{\"src_lang\": \"en_XX\", \"tgt_lang\": null}";
    struct family pair = none;
    struct qkv_search_options o = search_options();
    struct found found[2];
    const char *line = "abc";
    char code[QKV_LANGUAGE_TEXT], path[1100], again[1024];
    pair.languages[0] = "<any>"; /* no language */
    struct qkv_model *m = make_model(&pair), *read;
    assert_false(qkv_model_language(m, false, 0, code));
    assert_ok(ctx, qkv_model_check_languages(m, "auto", NULL));
    assert_fails(ctx, qkv_model_check_languages(m, "en", NULL), QKV_ARGUMENT,
                 "does not say what language it translates");
    snprintf(again, sizeof again, "%s", test_path("pair"));
    assert_ok(ctx, qkv_model_save(m, again));
    qkv_model_free(m);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", again);
    for (int turn = 0; turn < 2; turn++) { /* the second time as qkv has written it */
        if (!turn) test_write_file(path, config, strlen(config));
        assert_ok(ctx, qkv_model_load(ctx, again, &read));
        assert_true(qkv_model_language(read, false, 0, code) && !strcmp(code, "en"));
        assert_true(qkv_model_language(read, true, 0, code) && !strcmp(code, "de"));
        assert_false(qkv_model_language(read, true, 1, code));
        assert_fails(ctx, qkv_model_check_languages(read, "fr", NULL), QKV_ARGUMENT,
                     "the source language is \"fr\", but the model has en");
        assert_fails(ctx, qkv_model_check_languages(read, "en", "en"), QKV_ARGUMENT, "but the model has de");
        for (int named = 0; named < 2; named++) {
            o.source_language = named ? "EN" : NULL, o.target_language = named ? "de" : "auto";
            assert_ok(ctx, qkv_translate(read, &line, 1, &o, take_text, &found[named]));
        }
        compare(&found[0], &found[1], "a pair", 0, 0);
        snprintf(again, sizeof again, "%s", test_path("pair_again"));
        assert_ok(ctx, qkv_model_save(read, again));
        struct qkv_gguf_options gguf = qkv_gguf_defaults();
        gguf.family = "qkv";
        assert_ok(ctx, qkv_model_export_gguf(read, &gguf, test_path("pair.gguf"), NULL));
        qkv_model_free(read);
        assert_ok(ctx, qkv_model_load(ctx, test_path("pair.gguf"), &read));
        assert_ok(ctx, qkv_model_check_languages(read, "en", "de"));
        qkv_model_free(read);
    }
    test_write_file(path, other, strlen(other));
    assert_ok(ctx, qkv_model_load(ctx, test_path("pair"), &read));
    assert_true(qkv_model_language(read, false, 0, code) && !strcmp(code, "en_XX"));
    assert_false(qkv_model_language(read, true, 0, code));
    qkv_model_free(read);
}

/* The language of sources that the folder names takes the place of that in the tokenizer.json, as in transformers. */
static void a_folder_names_the_language_of_sources(void **state) {
    (void)state;
    static const char config[] = "{\"src_lang\": \"deu_Latn\", \"tgt_lang\": \"fra_Latn\"}";
    struct qkv_model *m = make_model(&families[1]), *read;
    struct qkv_search_options o = search_options();
    const char *line = "abc";
    static struct found found[3];
    char path[1100];
    for (size_t i = 0; i < 2; i++) {
        o.source_language = i ? "deu" : NULL;
        assert_ok(ctx, qkv_translate(m, &line, 1, &o, take_text, &found[i]));
    }
    assert_true(found[0].scores[0] != found[1].scores[0]);
    assert_ok(ctx, qkv_model_save(m, test_path("several")));
    qkv_model_free(m);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", test_path("several"));
    test_write_file(path, config, strlen(config));
    for (int turn = 0; turn < 2; turn++) { /* the second time as qkv has written it */
        assert_ok(ctx, qkv_model_load(ctx, test_path(turn ? "several_again" : "several"), &read));
        o.source_language = NULL;
        assert_ok(ctx, qkv_translate(read, &line, 1, &o, take_text, &found[2]));
        compare(&found[1], &found[2], "src_lang", turn, 0);
        o.source_language = "eng_Latn";
        assert_ok(ctx, qkv_translate(read, &line, 1, &o, take_text, &found[2]));
        compare(&found[0], &found[2], "another source", turn, 0);
        assert_string_equal(qkv_model_tokenizer(read)->languages[1], "fra_Latn");
        assert_true(qkv_model_tokenizer(read)->short_keys[0] && qkv_model_tokenizer(read)->short_keys[1]);
        assert_ok(ctx, qkv_model_save(read, test_path("several_again")));
        qkv_model_free(read);
    }
}

/* Tokens before a source are those of the tokenizer of sources, and tokens of targets those of the other. */
static void each_tokenizer_has_the_languages_of_its_side(void **state) {
    (void)state;
    const struct family none = {"none", {"<any>"}, NOWHERE, false, false};
    struct qkv_model *m = make_model(&families[5]), *other = make_model(&none);
    char code[QKV_LANGUAGE_TEXT];
    assert_ok(ctx, qkv_model_set_source_tokenizer(m, make_tokenizer(&none)));
    assert_false(qkv_model_language(m, true, 0, code));
    assert_fails(ctx, qkv_model_check_languages(m, NULL, "fra"), QKV_ARGUMENT,
                 "does not say what language it translates");
    assert_ok(ctx, qkv_model_set_source_tokenizer(other, make_tokenizer(&families[5])));
    assert_ok(ctx, qkv_model_check_languages(other, NULL, "fra"));
    assert_ok(ctx, qkv_model_set_source_tokenizer(other, make_tokenizer(&families[0])));
    assert_ok(ctx, qkv_model_check_languages(other, "de", NULL));
    assert_fails(ctx, qkv_model_check_languages(other, "de", "de"), QKV_ARGUMENT, "the target language is");
    qkv_model_free(m);
    qkv_model_free(other);
}

/* Rules that would exclude the language of a target are refused, or are not about it; its token has no text. */
static void rules_do_not_lose_a_language(void **state) {
    (void)state;
    struct qkv_model *m = make_model(&families[0]), *begins = make_model(&families[4]);
    struct qkv_search_options o = search_options();
    struct qkv_token_rules rules = qkv_token_rules_defaults();
    const int32_t german = FIRST_LANGUAGE + 1, word[] = {german, -1};
    const char *lines[] = {"abc", ""};
    static struct found plain, found;
    bool blank = false;
    o.target_language = "de", o.blank = &blank;
    assert_ok(ctx, qkv_translate(m, lines, 1, &o, take_text, &plain));
    assert_false(blank);
    assert_true(qkv_translate(m, &lines[1], 1, &o, take_text, &found) == QKV_OK && blank);
    o.rules = &rules;
    rules.suppressed = (struct qkv_token_list){&german, 1};
    assert_fails(ctx, qkv_translate(m, lines, 1, &o, take_text, &found), QKV_ARGUMENT, "but the rules suppress it");
    assert_ok(ctx, qkv_translate(begins, lines, 1, &o, take_text, &found));
    rules = qkv_token_rules_defaults();
    rules.first = SOURCE;
    assert_fails(ctx, qkv_translate(m, lines, 1, &o, take_text, &found), QKV_ARGUMENT, "both choose the first token");
    assert_ok(ctx, qkv_translate(begins, lines, 1, &o, take_text, &found));
    rules = qkv_token_rules_defaults();
    rules.suppressed_first = (struct qkv_token_list){&german, 1};
    rules.bad_words = (struct qkv_token_list){word, 2};
    assert_ok(ctx, qkv_translate(m, lines, 1, &o, take_text, &found));
    compare(&plain, &found, "rules about the language's token", 0, 1);
    rules = qkv_token_rules_defaults(); /* a target of one token that is not the language has its text */
    const int32_t letter = SOURCE;
    rules.last = (struct qkv_token_list){&letter, 1};
    o.max_tokens = 1, o.beam = o.n_best = 1;
    assert_ok(ctx, qkv_translate(m, lines, 1, &o, take_text, &found));
    assert_true(found.sizes[0] == 1 && found.texts[0][0] == 'a');
    qkv_model_free(m);
    qkv_model_free(begins);
}

/* A language takes the place of the first token that the model forces, but not of one that was asked for. */
static void a_language_stands_above_the_first_token_of_the_model(void **state) {
    (void)state;
    struct qkv_model *m = make_model(&families[0]);
    struct qkv_search_options o = search_options();
    struct qkv_token_rules rules = qkv_token_rules_defaults();
    const char *line = "abc";
    static struct found plain, found;
    o.target_language = "de";
    assert_ok(ctx, qkv_translate(m, &line, 1, &o, take_text, &plain));
    m->generation.first = FIRST_LANGUAGE + 2;
    assert_ok(ctx, qkv_translate(m, &line, 1, &o, take_text, &found));
    compare(&plain, &found, "the model forces another language", 0, 1);
    o.rules = &rules;
    rules.first = FIRST_LANGUAGE + 2;
    assert_fails(ctx, qkv_translate(m, &line, 1, &o, take_text, &found), QKV_ARGUMENT, "both choose the first token");
    qkv_model_free(m);
}

/* Only tokens with a short code and no role are languages. */
static void other_tokens_are_no_languages(void **state) {
    (void)state;
    static const struct family odd = {
        "odd", {">>fra<<", ">>abcdefghijklmnopqrstuvwxyzabcdefghijklmn<<"}, NOWHERE, false, true};
    struct qkv_model *m = make_model(&families[0]), *marian = make_model(&odd);
    char code[QKV_LANGUAGE_TEXT];
    assert_true(qkv_model_language(marian, true, 0, code) && !strcmp(code, "fra"));
    assert_false(qkv_model_language(marian, true, 1, code));
    struct qkv_tokenizer *t = make_tokenizer(&families[0]); /* a name like those of languages, but of an end */
    assert_ok(ctx, qkv_tokenizer_set_role(ctx, t, QKV_TOKEN_ROLE_END, FIRST_LANGUAGE + 3));
    assert_ok(ctx, qkv_model_set_tokenizer(m, t));
    assert_true(qkv_model_language(m, true, 2, code) && !strcmp(code, "fr"));
    assert_false(qkv_model_language(m, true, 3, code));
    qkv_model_free(m);
    qkv_model_free(marian);
}

static void tokens_tell_their_bytes_in_the_text(void **state) {
    (void)state;
    struct qkv_model *m = make_model(&families[0]);
    struct qkv_engine_request r = qkv_engine_request_defaults();
    struct qkv_generate_options g = qkv_generate_defaults();
    const struct qkv_token_bias bias = {FIRST_LANGUAGE + 1, -100};
    struct qkv_engine *e;
    struct qkv_engine_event event;
    uint64_t id;
    size_t sizes = 0, size = 0, tokens = 0;
    g.tokens = 6;
    r.options = &g, r.prompt = "abc", r.prompt_size = 3, r.target_language = "de", r.log_probabilities = true;
    r.biases = &bias, r.bias_count = 1;
    assert_ok(ctx, qkv_engine_create(m, NULL, &e));
    assert_ok(ctx, qkv_engine_submit(e, &r, &id));
    for (bool busy = true; busy;) {
        assert_ok(ctx, qkv_engine_step(e, &busy));
        for (; qkv_engine_poll(e, &event); sizes += event.token_size, size += event.size) {
            if (!tokens++) assert_true(event.token.id == FIRST_LANGUAGE + 1 && event.token_size == 0);
        }
    }
    assert_true(tokens > 1 && size > 0);
    assert_int_equal(sizes, size);
    qkv_engine_free(e);
    qkv_model_free(m);
}

/* A language that leads a target is no part of its text, and a constraint is about the text. */
static void a_language_is_no_text_of_a_constraint(void **state) {
    (void)state;
    struct qkv_model *m = make_model(&families[0]);
    struct qkv_engine_request r = qkv_engine_request_defaults();
    struct qkv_generate_options g = qkv_generate_defaults();
    static struct found found;
    assert_ok(ctx,
              qkv_constraint_create(
                  ctx, &QKV_OPTIONS(qkv_constraint_options, .kind = QKV_CONSTRAINT_REGEX, .text = "[xyz]( [xyz]){2}"),
                  &g.constraint));
    g.tokens = TOKENS;
    r.options = &g, r.prompt = "abc", r.prompt_size = 3, r.target_language = "de";
    engine_run(m, &r, &found);
    assert_int_equal(found.sizes[0], 5); /* the letters are words */
    for (size_t i = 0; i < 5; i++)
        assert_true(i % 2 ? found.texts[0][i] == ' ' : found.texts[0][i] >= 'x' && found.texts[0][i] <= 'z');
    qkv_constraint_free(g.constraint);
    qkv_model_free(m);
}

static void misuse_is_refused(void **state) {
    (void)state;
    struct qkv_model *m = make_model(&families[0]), *marian = make_model(&families[5]);
    struct qkv_search_options o = search_options();
    struct qkv_engine_request r = qkv_engine_request_defaults();
    struct qkv_generate_options g = qkv_generate_defaults();
    struct qkv_pairs_evaluation evaluation;
    static struct found found;
    const int32_t ids[] = {SOURCE, END};
    const size_t n = 2;
    struct qkv_engine *e;
    uint64_t id;
    assert_fails(ctx, qkv_model_check_languages(marian, "fra", NULL), QKV_ARGUMENT,
                 "does not say what language it translates");
    o.target_language = "de";
    assert_fails(ctx, qkv_search(m, &(const int32_t *){ids}, &n, 1, &o, take, &found), QKV_ARGUMENT,
                 "let rules.first name the language");
    assert_fails(ctx, qkv_evaluate_pairs(m, "nowhere", &o, NULL, NULL, &evaluation), QKV_ARGUMENT,
                 "in the model's own languages");
    assert_ok(ctx, qkv_engine_create(m, NULL, &e));
    r.options = &g, g.ids = ids, g.id_count = 2, r.source_language = "de";
    assert_fails(ctx, qkv_engine_submit(e, &r, &id), QKV_ARGUMENT, "leave the languages out");
    r.source_language = "xx", g.ids = NULL, r.prompt = "a", r.prompt_size = 1;
    assert_fails(ctx, qkv_engine_submit(e, &r, &id), QKV_ARGUMENT, "but the model has en, de, fr, ceb");
    r.source_language = "de", r.kind = QKV_ENGINE_EMBED;
    assert_fails(ctx, qkv_engine_submit(e, &r, &id), QKV_ARGUMENT, "languages are of translations");
    assert_int_equal(qkv_engine_state(e).waiting, 0);
    qkv_engine_free(e);
    qkv_model_free(m);
    qkv_model_free(marian);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(languages_are_those_of_the_tokens),
        cmocka_unit_test(translations_are_searches_over_ids_by_hand),
        cmocka_unit_test(codes_may_be_written_in_other_ways),
        cmocka_unit_test(a_pair_has_the_languages_of_its_folder),
        cmocka_unit_test(a_folder_names_the_language_of_sources),
        cmocka_unit_test(each_tokenizer_has_the_languages_of_its_side),
        cmocka_unit_test(rules_do_not_lose_a_language),
        cmocka_unit_test(a_language_stands_above_the_first_token_of_the_model),
        cmocka_unit_test(other_tokens_are_no_languages),
        cmocka_unit_test(tokens_tell_their_bytes_in_the_text),
        cmocka_unit_test(a_language_is_no_text_of_a_constraint),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
