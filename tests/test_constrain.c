/* Constraints: regular expressions against PCRE2's match of the whole text, schemas against the cases of
 * tests/golden/constraints, which the jsonschema package has judged, and masks against each token tried alone. */
/* labels: quick */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "test.h"

#include "base/json_load.h"
#include "constrain/constrain.h"
#include "text/chain.h"
#include "text/token_trie.h"

static struct qkv_context *open_context(void) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 1)), QKV_OK);
    return ctx;
}

static enum qkv_status make(struct qkv_context *ctx, enum qkv_constraint_kind kind, const char *text,
                            struct qkv_constraint **out) {
    return qkv_constraint_create(ctx, &QKV_OPTIONS(qkv_constraint_options, .kind = kind, .text = text), out);
}

/* ---- regular expressions ----------------------------------------------------------------------------------------- */

/* A random expression of what both have. */
static void random_regex(struct qkv_random *r, struct qkv_context *ctx, struct qkv_buffer *out, int depth) {
    static const char *const atoms[] = {"a",
                                        "b",
                                        "c",
                                        "\\d",
                                        "\\w",
                                        "\\s",
                                        ".",
                                        "[ab]",
                                        "[^a]",
                                        "[b-y]",
                                        "[^\\d_]",
                                        "\xc3\xa9",
                                        "[\xc3\xa0-\xc3\xbf]",
                                        "\\.",
                                        "[\\w-]",
                                        "\\D",
                                        "\\x{20ac}",
                                        "[^\\x{20}-\\x{2000}]"};
    static const char *const repeats[] = {"*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "{3,7}", "{0}"};
    const size_t pieces = test_between(r, depth ? 1 : 0, 3);
    for (size_t i = 0; i < pieces; i++) {
        const bool group = depth && qkv_random_below(r, 3) == 0;
        if (group) {
            assert_ok(ctx, qkv_buffer_append(ctx, out, "(", 1));
            if (qkv_random_below(r, 2)) assert_ok(ctx, qkv_buffer_append(ctx, out, "?:", 2));
            random_regex(r, ctx, out, depth - 1);
            assert_ok(ctx, qkv_buffer_append(ctx, out, ")", 1));
        } else {
            const char *atom = atoms[qkv_random_below(r, TEST_COUNT(atoms))];
            assert_ok(ctx, qkv_buffer_append(ctx, out, atom, strlen(atom)));
        }
        if (qkv_random_below(r, 3) == 0) {
            const char *repeat = repeats[qkv_random_below(r, TEST_COUNT(repeats))];
            assert_ok(ctx, qkv_buffer_append(ctx, out, repeat, strlen(repeat)));
        }
    }
    if (depth && qkv_random_below(r, 3) == 0) {
        assert_ok(ctx, qkv_buffer_append(ctx, out, "|", 1));
        random_regex(r, ctx, out, depth - 1);
    }
}

static void random_text(struct qkv_random *r, char text[64]) {
    static const char *const pieces[] = {
        "a", "b", "c", "z", "1", "9", "_", " ", "\n", ".", "-", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    *text = 0;
    for (size_t i = qkv_random_below(r, 9); i-- > 0;) strcat(text, pieces[qkv_random_below(r, TEST_COUNT(pieces))]);
}

static void expressions_match_what_pcre2_matches(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context();
    struct qkv_random r = test_random(1);
    size_t matches = 0, others = 0, given_up = 0;
    for (size_t i = 0; i < 1500; i++) {
        struct qkv_buffer source = {0};
        struct qkv_constraint *c;
        int error;
        PCRE2_SIZE at;
        random_regex(&r, ctx, &source, 3);
        assert_ok(ctx, qkv_buffer_append(ctx, &source, "", 0));
        const char *text = source.data ? source.data : "";
        pcre2_code *code =
            pcre2_compile((PCRE2_SPTR)text, source.size,
                          PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY, &error, &at, NULL);
        assert_non_null(code);
        if (make(ctx, QKV_CONSTRAINT_REGEX, text, &c)) fail_msg("%s: %s", text, qkv_message(ctx));
        pcre2_match_data *data = pcre2_match_data_create(1, NULL);
        for (size_t k = 0; k < 60; k++) {
            char subject[64];
            bool whole, begins;
            random_text(&r, subject);
            const int found = pcre2_match(code, (PCRE2_SPTR)subject, strlen(subject), 0, 0, data, NULL);
            if (found == PCRE2_ERROR_MATCHLIMIT) { /* it tries too many ways */
                given_up++;
                continue;
            }
            if (found < 0 && found != PCRE2_ERROR_NOMATCH) fail_msg("expression \"%s\": PCRE2 says %d", text, found);
            assert_ok(ctx, qkv_constraint_check(ctx, c, subject, strlen(subject), &whole, &begins));
            if (whole != (found >= 0)) fail_msg("expression \"%s\", text \"%s\": %d", text, subject, whole);
            assert_true(begins || !whole);
            matches += whole;
            others += !whole;
        }
        pcre2_match_data_free(data);
        pcre2_code_free(code);
        qkv_constraint_free(c);
        qkv_buffer_free(&source);
    }
    assert_true(matches > 3000 && others > 10000 && given_up < 500);
    qkv_context_free(ctx);
}

/* A prefix is one of an allowed text exactly where some continuation of it is allowed. */
static void prefixes_can_be_completed(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context();
    struct qkv_constraint *c;
    bool whole, begins;
    static const struct {
        const char *regex, *text;
        bool whole, begins;
    } cases[] = {{"(ab)+", "", false, true},
                 {"(ab)+", "aba", false, true},
                 {"(ab)+", "abb", false, false},
                 {"a{3,5}", "aa", false, true},
                 {"a{3,5}", "aaaaa", true, true},
                 {"a{3,5}", "aaaaaa", false, false},
                 {"[^a]", "\xe2\x82", false, true},
                 {"[^a]", "\xe2\x28", false, false},
                 {"(x{100,200}y){1,1000}", "x", false, true},
                 {"^yes|no$", "no", true, true}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_ok(ctx, make(ctx, QKV_CONSTRAINT_REGEX, cases[i].regex, &c));
        assert_ok(ctx, qkv_constraint_check(ctx, c, cases[i].text, strlen(cases[i].text), &whole, &begins));
        assert_int_equal(whole, cases[i].whole);
        assert_int_equal(begins, cases[i].begins);
        qkv_constraint_free(c);
    }
    qkv_context_free(ctx);
}

static void large_counts_are_exact(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context();
    struct qkv_constraint *c;
    char text[1100];
    memset(text, 'x', sizeof text);
    assert_ok(ctx, make(ctx, QKV_CONSTRAINT_REGEX, "x{700,1000}", &c));
    for (size_t n = 690; n < 1010; n++) {
        bool whole, begins;
        assert_ok(ctx, qkv_constraint_check(ctx, c, text, n, &whole, &begins));
        assert_int_equal(whole, n >= 700 && n <= 1000);
        assert_int_equal(begins, n <= 1000);
    }
    qkv_constraint_free(c);
    qkv_context_free(ctx);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refusals_name_the_place(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context();
    struct qkv_constraint *c;
    static const struct {
        enum qkv_constraint_kind kind;
        const char *text, *says;
    } cases[] = {
        {QKV_CONSTRAINT_REGEX, "a(?=b)", "byte 2: look-around"},
        {QKV_CONSTRAINT_REGEX, "(a)\\1", "byte 4: back-references"},
        {QKV_CONSTRAINT_REGEX, "\\bword", "word boundaries"},
        {QKV_CONSTRAINT_REGEX, "[[:alpha:]]", "named classes"},
        {QKV_CONSTRAINT_REGEX, "(ab", "the group has no end"},
        {QKV_CONSTRAINT_REGEX, "ab)", "ends no group"},
        {QKV_CONSTRAINT_REGEX, "[ab", "the class has no end"},
        {QKV_CONSTRAINT_REGEX, "a{3,2}", "below the smallest"},
        {QKV_CONSTRAINT_REGEX, "*a", "nothing to repeat"},
        {QKV_CONSTRAINT_REGEX, "a**", "nothing to repeat"},
        {QKV_CONSTRAINT_REGEX, "a*+", "possessive"},
        {QKV_CONSTRAINT_REGEX, "\\p{L}", "Unicode properties"},
        {QKV_CONSTRAINT_REGEX, "a\\", "a backslash ends it"},
        {QKV_CONSTRAINT_REGEX, "a^b", "anchors"},
        {QKV_CONSTRAINT_REGEX, "\xff", "not UTF-8"},
        {QKV_CONSTRAINT_REGEX, "[z-a]", "ends before it begins"},
        {QKV_CONSTRAINT_REGEX, "\\x{d800}", "no character with this number"},
        {QKV_CONSTRAINT_REGEX, "[^\\x{0}-\\x{10ffff}]", "no text can meet it"},
        {QKV_CONSTRAINT_CHOICES, "[]", "1 to 8192 texts"},
        {QKV_CONSTRAINT_CHOICES, "[\"a\", 1]", "choices[1] is no text"},
        {QKV_CONSTRAINT_CHOICES, "{\"a\": 1}", "1 to 8192 texts"},
        {QKV_CONSTRAINT_SCHEMA, "{", "the schema"},
        {QKV_CONSTRAINT_SCHEMA, "{\"type\": \"strin\"}", "$: type must be"},
        {QKV_CONSTRAINT_SCHEMA, "{\"$ref\": \"#\"}", "$: it leads back to itself"},
        {QKV_CONSTRAINT_SCHEMA,
         "{\"type\": \"object\", \"properties\": {\"next\": {\"$ref\": \"#\"}}, \"required\": [\"next\"]}",
         "$: it leads back to itself"},
        {QKV_CONSTRAINT_SCHEMA,
         "{\"properties\": {\"age\": {\"type\": \"integer\", \"minimum\": 5, \"maximum\": 3}}, \"required\": "
         "[\"age\"]}",
         "$.properties.age: no text can meet it: no integer"},
        {QKV_CONSTRAINT_SCHEMA, "{\"properties\": {\"a\": {\"items\": {\"multipleOf\": 3}}}}",
         "$.properties.a.items: \"multipleOf\""},
        {QKV_CONSTRAINT_SCHEMA, "{\"properties\": {\"a\": {\"not\": {}}}}", "$.properties.a: \"not\" is not supported"},
        {QKV_CONSTRAINT_SCHEMA, "{\"patternProperties\": {\"a\": {}}}", "$: \"patternProperties\""},
        {QKV_CONSTRAINT_SCHEMA, "{\"pattern\": \"a(?!b)\"}", "$.pattern, at byte 2: look-around"},
        {QKV_CONSTRAINT_SCHEMA, "{\"format\": \"iri\"}", "$: format \"iri\""},
        {QKV_CONSTRAINT_SCHEMA, "{\"$ref\": \"http://example.com/a\"}", "same schema"},
        {QKV_CONSTRAINT_SCHEMA, "{\"$ref\": \"#/$defs/none\"}", "names no schema"},
        {QKV_CONSTRAINT_SCHEMA, "{\"required\": \"a\"}", "$: required must be a list of texts"},
        {QKV_CONSTRAINT_SCHEMA, "{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]}",
         "both oneOf[0] and oneOf[1]"},
        {QKV_CONSTRAINT_SCHEMA, "{\"allOf\": [{\"pattern\": \"a\"}, {\"pattern\": \"b\"}]}",
         "two different \"pattern\""},
        {QKV_CONSTRAINT_SCHEMA, "{\"allOf\": [{\"$ref\": \"#\"}]}", "leads back to itself"},
        {QKV_CONSTRAINT_SCHEMA, "false", "$: no text can meet it: the schema is false"},
        {QKV_CONSTRAINT_SCHEMA, "{\"enum\": [1, 2], \"type\": \"string\"}", "none of its constants"},
        {QKV_CONSTRAINT_SCHEMA, "{\"minLength\": 3, \"maxLength\": 2}", "minLength 3 is greater than maxLength 2"},
        {QKV_CONSTRAINT_SCHEMA, "{\"minItems\": 2, \"prefixItems\": [true], \"items\": false}",
         "at least 2 and at most 1"},
        {QKV_CONSTRAINT_SCHEMA, "{\"uniqueItems\": true}", "\"uniqueItems\""},
        {QKV_CONSTRAINT_SCHEMA,
         "{\"required\": [\"b\"], \"properties\": {\"a\": true}, \"additionalProperties\": false}",
         "properties does not name"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const enum qkv_status status = make(ctx, cases[i].kind, cases[i].text, &c);
        if (!status) fail_msg("%s was taken", cases[i].text);
        if (!strstr(qkv_message(ctx), cases[i].says)) fail_msg("%s: %s", cases[i].text, qkv_message(ctx));
        assert_null(c);
    }
    qkv_context_free(ctx);
}

/* ---- schemas ----------------------------------------------------------------------------------------------------- */

/* What the constraint says of a text must follow from what a validator says: a valid text need not be one that the
 * constraint writes, but each that it writes is valid; `written` ones it must write. */
static void schemas_allow_what_a_validator_accepts(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context();
    struct qkv_map file;
    json_t *root, *one, *text;
    size_t i, k, written = 0, wrong = 0;
    assert_ok(ctx, qkv_read_file(ctx, TEST_SOURCE_DIR "/tests/golden/constraints/schemas.json", &file));
    const struct qkv_json_text source = {.name = "schemas", .data = file.data, .size = file.size, .max_size = SIZE_MAX};
    assert_ok(ctx, qkv_json_load(ctx, &source, &root));
    json_array_foreach(json_object_get(root, "cases"), i, one) {
        struct qkv_constraint *c;
        char *schema = json_dumps(json_object_get(one, "schema"), JSON_ENCODE_ANY);
        const struct qkv_constraint_options options = {.size = sizeof options,
                                                       .kind = QKV_CONSTRAINT_SCHEMA,
                                                       .text = schema,
                                                       .open = json_is_true(json_object_get(one, "open"))};
        if (qkv_constraint_create(ctx, &options, &c)) fail_msg("%s: %s", schema, qkv_message(ctx));
        for (int valid = 0; valid < 2; valid++)
            json_array_foreach(json_object_get(one, valid ? "written" : "invalid"), k, text) {
                bool whole;
                assert_ok(
                    ctx, qkv_constraint_check(ctx, c, json_string_value(text), json_string_length(text), &whole, NULL));
                if (whole != valid)
                    fail_msg("%s: %s is %s", schema, json_string_value(text), whole ? "allowed" : "refused");
                *(valid ? &written : &wrong) += 1;
            }
        qkv_constraint_free(c);
        free(schema);
    }
    assert_true(written > 150 && wrong > 300);
    json_decref(root);
    qkv_unmap_file(&file);
    qkv_context_free(ctx);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* A vocabulary of random words; the first 256 tokens are the bytes. */
static struct qkv_tokenizer *random_vocabulary(struct qkv_context *ctx, struct qkv_random *r, size_t count) {
    struct qkv_tokenizer *t;
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_BYTES};
    static const char *const parts[] = {"a", "b",  "\"",   "{",    "}",    ":",    ",",           "[",
                                        "]", " ",  "\n",   "x",    "12",   "0",    "-",           "\\",
                                        "u", "te", "true", "null", "\xc3", "\xa9", "\xe2\x82\xac"};
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, NULL, 0, &t));
    while (t->count < count) {
        char text[256] = "";
        for (size_t n = qkv_random_below(r, 20) ? 1 + qkv_random_below(r, 5) : 20 + qkv_random_below(r, 30); n-- > 0;)
            strcat(text, parts[qkv_random_below(r, TEST_COUNT(parts))]);
        assert_ok(ctx, qkv_tokenizer_set(ctx, t, t->count, text, strlen(text), QKV_TOKEN_RAW));
    }
    return t;
}

/* Whether a token is one that no text has: it is special, unknown, or has no text. */
static bool is_left_out(const struct qkv_tokenizer *t, size_t id) {
    size_t size;
    const char *bytes = qkv_tokenizer_token(t, (int)id, &size);
    bool left_out = !bytes || !size || size > QKV_TRIE_LONGEST || (int)id == qkv_tokenizer_unknown(t);
    for (size_t i = 0; i < t->chain->added_count; i++)
        left_out |= t->chain->added[i].special && (size_t)t->chain->added[i].id == id;
    return left_out;
}

/* Walks a random allowed text, and compares each mask with all tokens tried alone. */
static void compare_masks(struct qkv_context *ctx, struct qkv_random *r, struct qkv_constraint *c,
                          const struct qkv_tokenizer *t, size_t steps, bool unspaced) {
    int32_t ids[256];
    struct qkv_buffer text = {0};
    struct qkv_constraint_place place = {0};
    for (size_t n = 0; n < steps; n++) {
        struct qkv_constrained_text made = {.tokenizer = t, .ids = ids, .count = n, .unspaced = unspaced};
        struct qkv_allowed allowed;
        size_t choices = 0;
        bool whole;
        assert_ok(ctx, qkv_constraint_allowed(ctx, c, &made, &place, &allowed));
        assert_ok(ctx, qkv_constraint_check(ctx, c, text.data, text.size, &whole, NULL));
        assert_int_equal(whole, allowed.ends);
        for (size_t id = 0; id < t->count; id++) {
            size_t size;
            const char *bytes = qkv_tokenizer_token(t, (int)id, &size);
            const bool bare = unspaced && !n && size > 1 && *bytes == ' ';
            const size_t before = text.size;
            bool begins;
            if (is_left_out(t, id)) {
                assert_false(allowed.bits[id / 64] >> id % 64 & 1);
                continue;
            }
            assert_ok(ctx, qkv_buffer_append(ctx, &text, bytes + bare, size - bare));
            assert_ok(ctx, qkv_constraint_check(ctx, c, text.data, text.size, NULL, &begins));
            text.size = before;
            const bool bit = allowed.bits[id / 64] >> id % 64 & 1;
            if (bit != begins)
                fail_msg("after \"%.*s\", token %zu \"%s\": %d", (int)text.size, text.data, id, bytes, bit);
            if (bit && qkv_random_below(r, ++choices) == 0) ids[n] = (int32_t)id;
        }
        if (!choices) break;
        size_t size;
        const char *bytes = qkv_tokenizer_token(t, ids[n], &size);
        const bool bare = unspaced && !n && size > 1 && *bytes == ' ';
        assert_ok(ctx, qkv_buffer_append(ctx, &text, bytes + bare, size - bare));
    }
    qkv_buffer_free(&text);
}

static const struct {
    enum qkv_constraint_kind kind;
    const char *text;
} masked[] = {
    {QKV_CONSTRAINT_REGEX, "[a-c]{0,3}x*"},
    {QKV_CONSTRAINT_REGEX, "(a|b){3,40}(12)+"},
    {QKV_CONSTRAINT_REGEX, "[^a]{5,60}"},
    {QKV_CONSTRAINT_REGEX, ".{30,90}"},
    {QKV_CONSTRAINT_CHOICES, "[\"ab\", \"abc\", \" x12\", \"te\"]"},
    {QKV_CONSTRAINT_JSON, NULL},
    {QKV_CONSTRAINT_SCHEMA, "{\"type\": \"string\", \"maxLength\": 50}"},
    {QKV_CONSTRAINT_SCHEMA,
     "{\"type\": \"array\", \"items\": {\"type\": \"string\", \"minLength\": 30}, \"maxItems\": 40}"},
    {QKV_CONSTRAINT_SCHEMA, "{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"$ref\": \"#\"}}}"},
};

static void masks_are_those_of_each_token_alone(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context();
    struct qkv_random r = test_random(2);
    for (size_t round = 0; round < 2; round++) {
        struct qkv_tokenizer *t = random_vocabulary(ctx, &r, 600);
        for (size_t i = 0; i < TEST_COUNT(masked); i++) {
            struct qkv_constraint *c;
            assert_ok(ctx, make(ctx, masked[i].kind, masked[i].text, &c));
            for (size_t k = 0; k < 3; k++) compare_masks(ctx, &r, c, t, 12, k == 2);
            qkv_constraint_free(c);
        }
        qkv_tokenizer_free(t);
    }
    qkv_context_free(ctx);
}

static void published_vocabularies_have_the_masks_of_each_token_alone(void **state) {
    (void)state;
    static const char *const names[] = {"falcon.json",      "llama-2.model", "bert-base-cased.json",
                                        "mistral-v3.model", "chatglm.json",  "cohere-command.json"};
    struct qkv_context *ctx = open_context();
    struct qkv_random r = test_random(4);
    const char *data = getenv("QKV_DATA");
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char path[512];
        struct qkv_tokenizer *t;
        snprintf(path, sizeof path, "%s/tokenizers/%s", data ? data : TEST_SOURCE_DIR "/../shared/data", names[i]);
        if (access(path, R_OK)) {
            printf("there is no %s: skipped\n", path);
            continue;
        }
        assert_ok(ctx, qkv_tokenizer_load(ctx, path, &t));
        for (size_t k = 4; k < TEST_COUNT(masked); k++) {
            struct qkv_constraint *c;
            assert_ok(ctx, make(ctx, masked[k].kind, masked[k].text, &c));
            compare_masks(ctx, &r, c, t, 5, k == 6);
            qkv_constraint_free(c);
        }
        qkv_tokenizer_free(t);
    }
    qkv_context_free(ctx);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int order_seconds(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* With 128,000 tokens: tells the time of the processor that half of the tokens take, and the longest, which is that of
 * a state at its first sight. */
static void a_mask_of_many_tokens_is_made_at_each_place(void **state) {
    (void)state;
    enum { TOKENS = 4000, TEXT = 100 };
    struct qkv_context *ctx = open_context();
    struct qkv_random r = test_random(5);
    struct qkv_tokenizer *t = random_vocabulary(ctx, &r, 128000);
    const struct qkv_token_trie *trie;
    assert_ok(ctx, qkv_tokenizer_trie(ctx, t, &trie));
    assert_true(trie->bytes < 16 << 20);
    for (size_t i = 0; i < TEST_COUNT(masked); i++) {
        static double seconds[TOKENS];
        struct qkv_constraint *c;
        struct qkv_constraint_place place = {0};
        int32_t ids[TEXT];
        size_t n = 0;
        assert_ok(ctx, make(ctx, masked[i].kind, masked[i].text, &c));
        for (size_t k = 0; k < TOKENS; k++) {
            const struct qkv_constrained_text made = {.tokenizer = t, .ids = ids, .count = n};
            struct qkv_allowed allowed;
            size_t choices = 0;
            const double before = processor_seconds();
            assert_ok(ctx, qkv_constraint_allowed(ctx, c, &made, &place, &allowed));
            seconds[k] = processor_seconds() - before;
            for (size_t at = qkv_random_below(&r, t->count), id = 0; id < t->count && !choices; id++, at++)
                if (allowed.bits[at % t->count / 64] >> at % t->count % 64 & 1)
                    ids[n] = (int32_t)(at % t->count), choices = 1;
            n = choices && n + 1 < TEXT ? n + 1 : 0;
        }
        qsort(seconds, TOKENS, sizeof *seconds, order_seconds);
        printf("%s: %.4f ms, at most %.2f ms, %zu KiB of states\n", masked[i].text ? masked[i].text : "json",
               1e3 * seconds[TOKENS / 2], 1e3 * seconds[TOKENS - 1], qkv_machine_bytes(&c->machine) >> 10);
        qkv_constraint_free(c);
    }
    qkv_tokenizer_free(t);
    qkv_context_free(ctx);
}

/* Masks and states are made again after their memory was full, and are the same. */
static void little_memory_changes_nothing(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context();
    struct qkv_random r = test_random(3);
    struct qkv_tokenizer *t = random_vocabulary(ctx, &r, 3000);
    struct qkv_constraint *small, *large;
    const char *schema = "{\"type\": \"array\", \"items\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": "
                         "\"string\", \"maxLength\": 300}, \"b\": {}}}, \"maxItems\": 60}";
    struct qkv_constraint_options o = {
        .size = sizeof o, .kind = QKV_CONSTRAINT_SCHEMA, .text = schema, .memory = 1 << 20};
    assert_ok(ctx, qkv_constraint_create(ctx, &o, &small));
    o.memory = 0;
    assert_ok(ctx, qkv_constraint_create(ctx, &o, &large));
    for (size_t round = 0; round < 12; round++) {
        int32_t ids[300];
        struct qkv_constraint_place places[2] = {{0}};
        for (size_t n = 0; n < 300; n++) {
            const struct qkv_constrained_text made = {.tokenizer = t, .ids = ids, .count = n};
            struct qkv_allowed a, b;
            size_t choices = 0;
            assert_ok(ctx, qkv_constraint_allowed(ctx, small, &made, &places[0], &a));
            assert_ok(ctx, qkv_constraint_allowed(ctx, large, &made, &places[1], &b));
            assert_memory_equal(a.bits, b.bits, qkv_pieces(t->count, 64) * sizeof *a.bits);
            assert_int_equal(a.ends, b.ends);
            for (size_t id = 0; id < t->count; id++)
                if (a.bits[id / 64] >> id % 64 & 1 && qkv_random_below(&r, ++choices) == 0) ids[n] = (int32_t)id;
            if (!choices) break;
        }
    }
    assert_true(small->machine.age > 1);
    assert_true(qkv_machine_bytes(&small->machine) <= 1 << 19);
    qkv_constraint_free(small);
    qkv_constraint_free(large);
    qkv_tokenizer_free(t);
    qkv_context_free(ctx);
}

/* A mask that needs more states than the memory holds fails each time, and the next text has its masks. */
static void a_mask_that_needs_too_much_fails_alone(void **state) {
    (void)state;
    struct qkv_context *ctx = open_context();
    struct qkv_random r = test_random(6);
    struct qkv_tokenizer *t = random_vocabulary(ctx, &r, 20000);
    struct qkv_constraint *c;
    const struct qkv_constraint_options o = {
        .size = sizeof o, .kind = QKV_CONSTRAINT_REGEX, .text = "x+|y[^z]*[ab10x{,:][^z]{20}z", .memory = 1 << 20};
    const int32_t hard[] = {'y', 'a', ',', 'b'}, easy[] = {'x', 'x'};
    assert_ok(ctx, qkv_constraint_create(ctx, &o, &c));
    for (size_t i = 0; i < 6; i++) {
        const bool is_hard = i % 2 == 0;
        const struct qkv_constrained_text made = {
            .tokenizer = t, .ids = is_hard ? hard : easy, .count = is_hard ? TEST_COUNT(hard) : 2};
        struct qkv_constraint_place place = {0};
        struct qkv_allowed allowed;
        assert_int_equal(qkv_constraint_allowed(ctx, c, &made, &place, &allowed), is_hard ? QKV_ARGUMENT : QKV_OK);
        if (is_hard) assert_non_null(strstr(qkv_message(ctx), "needs more than its"));
        for (size_t id = 0; id < 256 && !is_hard; id++)
            assert_int_equal(allowed.bits[id / 64] >> id % 64 & 1, id == 'x');
    }
    qkv_constraint_free(c);
    qkv_tokenizer_free(t);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_match_what_pcre2_matches),
        cmocka_unit_test(prefixes_can_be_completed),
        cmocka_unit_test(large_counts_are_exact),
        cmocka_unit_test(refusals_name_the_place),
        cmocka_unit_test(schemas_allow_what_a_validator_accepts),
        cmocka_unit_test(masks_are_those_of_each_token_alone),
        cmocka_unit_test(published_vocabularies_have_the_masks_of_each_token_alone),
        cmocka_unit_test(little_memory_changes_nothing),
        cmocka_unit_test(a_mask_that_needs_too_much_fails_alone),
        cmocka_unit_test(a_mask_of_many_tokens_is_made_at_each_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
