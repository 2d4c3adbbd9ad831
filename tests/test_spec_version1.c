/* test_spec_version1: files of version 1 mean what version 2 says in its own words, and are refused in the words of the
 * file. The pairs are written from the description of the two versions (docs/spec.md, docs/positions.md). */
/* labels: quick */
#include "spec_fixture.h"

#define FIRST  "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 40, \"d_model\": 32, \"context\": 64, "
#define SECOND "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 40, \"d_model\": 32, \"context\": 64, "
/* What follows is the position of the attention, with a comma before it, or nothing. */
#define DECODER(position) "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 2" position "}}}"
#define PAIR(position)                                                                                                 \
    "\"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4" position "}}, "                                        \
    "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 2" position "}, \"cross\": {\"heads\": 4}}}"
#define ROPE(more) "\"position\": {\"kind\": \"rope\"" more "}"
#define EIGHT(x)   "[" x ", " x ", " x ", " x ", " x ", " x ", " x ", " x "]"

/* A position of all attentions: the same object, in another place. */
#define INSIDE(position)                                                                                               \
    {FIRST position ", " DECODER(""), SECOND DECODER(", " position)}, {                                                \
        FIRST position ", " PAIR(""), SECOND PAIR(", " position)                                                       \
    }
/* A position of the embedding. */
#define ADDED(kind)                                                                                                    \
    {FIRST "\"position\": {\"kind\": \"" kind "\"}, " DECODER(""),                                                     \
     SECOND "\"embed\": {\"position\": {\"kind\": \"" kind "\"}}, " DECODER("")},                                      \
    {                                                                                                                  \
        FIRST "\"position\": {\"kind\": \"" kind "\"}, " PAIR(""),                                                     \
            SECOND "\"embed\": {\"position\": {\"kind\": \"" kind "\"}}, " PAIR("")                                    \
    }

static const struct {
    const char *first, *second;
} same[] = {
    {FIRST DECODER(""), SECOND "\"embed\": {\"position\": {\"kind\": \"learned\"}}, " DECODER("")},
    {FIRST "\"position\": {}, " DECODER(""), SECOND "\"embed\": {\"position\": {\"kind\": \"learned\"}}, " DECODER("")},
    ADDED("none"),
    ADDED("sinusoidal"),
    ADDED("learned"),
    INSIDE(ROPE("")),
    INSIDE(ROPE(", \"theta\": 500000")),
    INSIDE(ROPE(", \"theta\": 1e6, \"pairing\": \"interleaved\"")),
    INSIDE(ROPE(", \"fraction\": 0.5")),
    INSIDE(ROPE(", \"scaling\": null")),
    INSIDE(ROPE(", \"scaling\": {\"kind\": \"linear\", \"factor\": 4, \"attention_factor\": 1.5}")),
    INSIDE(ROPE(", \"scaling\": {\"kind\": \"ntk\", \"factor\": 2}")),
    INSIDE(ROPE(", \"scaling\": {\"kind\": \"dynamic\", \"factor\": 2, \"original_context\": 32}")),
    INSIDE(ROPE(", \"scaling\": {\"kind\": \"yarn\", \"factor\": 2, \"original_context\": 32, \"beta_fast\": 16, "
                "\"beta_slow\": 2, \"truncate\": false, \"mscale\": 0.7, \"mscale_all_dim\": 0.6}")),
    INSIDE(ROPE(", \"scaling\": {\"kind\": \"llama3\", \"factor\": 8, \"original_context\": 32, \"low_freq\": 2, "
                "\"high_freq\": 8}")),
    {FIRST ROPE(", \"scaling\": {\"kind\": \"longrope\", \"original_context\": 32, \"short\": " EIGHT(
         "1.5") ", "
                "\"long\": " EIGHT("3.5") "}") ", " DECODER(""),
     SECOND DECODER(", " ROPE(", \"scaling\": {\"kind\": \"longrope\", \"original_context\": 32, "
                              "\"short\": " EIGHT("1.5") ", \"long\": " EIGHT("3.5") "}"))},
    INSIDE("\"position\": {\"kind\": \"alibi\"}"),
    INSIDE("\"position\": {\"kind\": \"alibi\", \"form\": \"mpt\", \"max\": 6}"),
    INSIDE("\"position\": {\"kind\": \"alibi\", \"learn\": true}"),
    INSIDE("\"position\": {\"kind\": \"buckets\", \"buckets\": 16, \"max_distance\": 64}"),
    INSIDE("\"position\": {\"kind\": \"relative\", \"max_distance\": 24}"),
    {FIRST "\"embed_scale\": 8, " DECODER(""),
     SECOND "\"embed\": {\"scale\": 8, \"position\": {\"kind\": \"learned\"}}, " DECODER("")},
    {FIRST "\"embed_scale\": -0.5, " ROPE("") ", " PAIR(""),
     SECOND "\"embed\": {\"scale\": -0.5}, " PAIR(", " ROPE(""))},
    {FIRST "\"embed_scale\": 1, \"position\": {\"kind\": \"sinusoidal\"}, " DECODER(""),
     SECOND "\"embed\": {\"scale\": 1, \"position\": {\"kind\": \"sinusoidal\"}}, " DECODER("")},
    /* keys that the kind has no use for are read and dropped */
    {FIRST "\"position\": {\"kind\": \"learned\", \"theta\": 5, \"buckets\": 8, \"learn\": true, \"scaling\": "
           "null}, " DECODER(""),
     SECOND "\"embed\": {\"position\": {\"kind\": \"learned\"}}, " DECODER("")},
    {FIRST "\"position\": {\"kind\": \"alibi\", \"fraction\": 0.25, \"max\": 3}, " DECODER(""),
     SECOND DECODER(", \"position\": {\"kind\": \"alibi\"}")},
};

static void each_key_of_version_1_has_its_place_in_version_2(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(same); i++) {
        OWNED_SPEC struct qkv_spec first = {0}, second = {0};
        char digests[2][QKV_DIGEST_TEXT], *texts[2];
        if (parse(&first, same[i].first, NULL, 0)) fail_msg("%s: %s", same[i].first, qkv_message(ctx));
        if (parse(&second, same[i].second, NULL, 0)) fail_msg("%s: %s", same[i].second, qkv_message(ctx));
        if (!same_spec(&first, &second)) fail_msg("%s\nis not\n%s", same[i].first, same[i].second);
        assert_ok(ctx, qkv_spec_digest(ctx, &first, digests[0]));
        assert_ok(ctx, qkv_spec_digest(ctx, &second, digests[1]));
        assert_string_equal(digests[0], digests[1]);
        assert_ok(ctx, qkv_spec_print(ctx, &first, &texts[0]));
        assert_ok(ctx, qkv_spec_print(ctx, &second, &texts[1]));
        assert_string_equal(texts[0], texts[1]);
        assert_non_null(strstr(texts[0], "\"version\": 1,"));
        qkv_free(texts[0]);
        qkv_free(texts[1]);
    }
}

/* Each key of version 1 makes a difference: no two of the pairs above that say different things are the same. */
static void a_changed_value_changes_the_spec(void **state) {
    (void)state;
    static const char *const other[] = {
        FIRST DECODER(""),
        FIRST "\"position\": {\"kind\": \"none\"}, " DECODER(""),
        FIRST "\"position\": {\"kind\": \"sinusoidal\"}, " DECODER(""),
        FIRST ROPE("") ", " DECODER(""),
        FIRST ROPE(", \"theta\": 5") ", " DECODER(""),
        FIRST ROPE(", \"pairing\": \"interleaved\"") ", " DECODER(""),
        FIRST ROPE(", \"fraction\": 0.5") ", " DECODER(""),
        FIRST ROPE(", \"scaling\": {\"kind\": \"linear\", \"factor\": 2}") ", " DECODER(""),
        FIRST "\"position\": {\"kind\": \"alibi\"}, " DECODER(""),
        FIRST "\"position\": {\"kind\": \"alibi\", \"form\": \"mpt\"}, " DECODER(""),
        FIRST "\"position\": {\"kind\": \"alibi\", \"form\": \"mpt\", \"max\": 4}, " DECODER(""),
        FIRST "\"position\": {\"kind\": \"alibi\", \"learn\": true}, " DECODER(""),
        FIRST "\"position\": {\"kind\": \"buckets\"}, " DECODER(""),
        FIRST "\"position\": {\"kind\": \"buckets\", \"buckets\": 8}, " DECODER(""),
        FIRST "\"position\": {\"kind\": \"buckets\", \"max_distance\": 40}, " DECODER(""),
        FIRST "\"position\": {\"kind\": \"relative\"}, " DECODER(""),
        FIRST "\"position\": {\"kind\": \"relative\", \"max_distance\": 8}, " DECODER(""),
        FIRST "\"embed_scale\": 3, " DECODER(""),
    };
    char digests[TEST_COUNT(other)][QKV_DIGEST_TEXT];
    for (size_t i = 0; i < TEST_COUNT(other); i++) {
        OWNED_SPEC struct qkv_spec spec = {0};
        assert_ok(ctx, parse(&spec, other[i], NULL, 0));
        assert_ok(ctx, qkv_spec_digest(ctx, &spec, digests[i]));
        for (size_t k = 0; k < i; k++)
            if (!strcmp(digests[i], digests[k])) fail_msg("%s\nis\n%s", other[i], other[k]);
    }
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *json, *sentence, *key;
} refusals[] = {
    /* values of another type, out of range, or too long */
    {FIRST "\"position\": \"rope\", " DECODER(""), "position is \"rope\"; it must be an object", "position"},
    {FIRST "\"position\": null, " DECODER(""), "position is null; it must be an object", "position"},
    {FIRST "\"position\": [], " DECODER(""), "position is []; it must be an object", "position"},
    {FIRST "\"position\": {\"kind\": \"rotary\"}, " DECODER(""),
     "position.kind is \"rotary\"; it must be one of none, sinusoidal, learned, rope, alibi, buckets, relative",
     "position.kind"},
    {FIRST "\"position\": {\"kind\": {}}, " DECODER(""), "position.kind is {};", "position.kind"},
    {FIRST "\"position\": {\"kind\": \"learned\", \"theta\": \"x\"}, " DECODER(""),
     "position.theta is \"x\"; it must be a number greater than 0", "position.theta"},
    {FIRST ROPE(", \"theta\": 0") ", " DECODER(""), "position.theta is 0;", "position.theta"},
    {FIRST ROPE(", \"theta\": 1e999") ", " DECODER(""), "", NULL},
    {FIRST ROPE(", \"fraction\": 2") ", " DECODER(""), "position.fraction is 2;", "position.fraction"},
    {FIRST ROPE(", \"scaling\": 3") ", " DECODER(""), "position.scaling is 3; it must be an object",
     "position.scaling"},
    {FIRST ROPE(", \"scaling\": {\"kind\": \"linear\", \"factor\": 0.5}") ", " DECODER(""),
     "position.scaling.factor is 0.5; it must be a number of at least 1", "position.scaling.factor"},
    {FIRST "\"position\": {\"kind\": \"buckets\", \"buckets\": 1.5}, " DECODER(""), "position.buckets is 1.5;",
     "position.buckets"},
    {FIRST "\"embed_scale\": 0, " DECODER(""), "embed_scale is 0; it must be a number other than 0", "embed_scale"},
    {FIRST "\"embed_scale\": null, " DECODER(""), "embed_scale is null;", "embed_scale"},
    {FIRST "\"embed_scale\": {\"position\": {}}, " DECODER(""), "embed_scale is {\"position\":{}};", "embed_scale"},
    /* values that fit no such model, which only the whole spec knows */
    {FIRST ROPE(", \"fraction\": 0.05") ", " DECODER(""),
     ": position.fraction is 0.05, which rotates none of the 16 channels of decoder.attention.head_dim",
     "decoder.attention"},
    {FIRST ROPE(", \"scaling\": {\"kind\": \"yarn\", \"factor\": 2}") ", " DECODER(""),
     ": position.scaling.original_context is missing", NULL},
    {FIRST ROPE(", \"scaling\": {\"kind\": \"linear\"}") ", " PAIR(""), ": position.scaling.factor is missing", NULL},
    /* unknown keys */
    {FIRST "\"position\": {\"kind\": \"rope\", \"base\": 5}, " DECODER(""), "unknown key position.base;", "position"},
    {FIRST "\"embed_scal\": 5, " DECODER(""), "unknown key embed_scal; did you mean embed_scale?", NULL},
    {FIRST "\"positoin\": {}, " DECODER(""), "unknown key positoin; did you mean position?", NULL},
    {FIRST "\"theta\": 5, " DECODER(""), "unknown key theta; did you mean position.theta?", NULL},
    {FIRST "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 2, \"pairing\": \"half\"}}}",
     "unknown key decoder.attention.pairing; did you mean position.pairing?", NULL},
    /* keys of the other version, alone and beside those of this one */
    {FIRST "\"embed\": {}, " DECODER(""), "embed is a key of version 2, but version is 1; write \"version\": 2", NULL},
    {FIRST "\"embed_scale\": 2, \"embed\": {\"scale\": 2}, " DECODER(""), "embed is a key of version 2", NULL},
    {FIRST "\"embed\": null, " DECODER(""), "embed is a key of version 2", NULL},
    {FIRST ROPE("") ", " DECODER(", " ROPE("")), "decoder.attention.position is a key of version 2", NULL},
    {FIRST ROPE("") ", " PAIR(", \"position\": null"), "encoder.attention.position is a key of version 2", NULL},
    {FIRST "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}, \"embed\": {}}}",
     "decoder.embed is a key of version 2", NULL},
    {FIRST "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}, \"pattern\": []}}",
     "decoder.pattern is a key of version 2", NULL},
    {FIRST "\"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 2}, \"kinds\": 3}}",
     "encoder.kinds is a key of version 2", NULL},
    {SECOND ROPE("") ", " DECODER(""),
     "position is a key of version 1, but version is 2, which has embed.position or the attention's position instead",
     "position"},
    {SECOND "\"embed_scale\": 2, \"embed\": {\"scale\": 2}, " DECODER(""),
     "embed_scale is a key of version 1, but version is 2, which has embed.scale instead", "embed_scale"},
    /* the version itself */
    {"{\"format\": \"qkv\", \"version\": 3, \"vocab\": 40, \"d_model\": 32, \"context\": 64, " ROPE("") ", " DECODER(
         ""),
     "version is 3; a spec that this program reads has \"version\": 1 or 2", NULL},
    {"{\"format\": \"qkv\", \"version\": \"1\", \"vocab\": 40, \"d_model\": 32, \"context\": 64, " DECODER(""),
     "version is \"1\";", NULL},
    {"{\"format\": \"qkv\", \"version\": 1.0, \"vocab\": 40, \"d_model\": 32, \"context\": 64, " DECODER(""),
     "version is 1.0;", NULL},
    {"{\"format\": \"qkv\", \"version\": 18446744073709551617, \"d_model\": 32, \"context\": 64, " DECODER(""), "",
     NULL},
    {"{\"format\": \"qkv\", \"vocab\": 40, \"d_model\": 32, \"context\": 64, " ROPE("") ", " DECODER(""),
     "version is missing;", NULL},
    {"{\"format\": \"other\", \"version\": 1, \"vocab\": 40, \"d_model\": 32, \"context\": 64, " DECODER(""),
     "format is \"other\";", NULL},
    /* the same key twice */
    {FIRST "\"embed_scale\": 2, \"embed_scale\": 2, " DECODER(""), "embed_scale", NULL},
    {FIRST ROPE("") ", " ROPE("") ", " DECODER(""), "position", NULL},
    {FIRST ROPE(", \"theta\": 5, \"theta\": 6") ", " DECODER(""), "theta", NULL},
    {"{\"format\": \"qkv\", \"version\": 1, \"version\": 2, \"vocab\": 40, \"d_model\": 32, \"context\": 64, " DECODER(
         ""),
     "version", NULL},
    /* stacks that are no stacks */
    {FIRST ROPE("") ", \"decoder\": 3}", "decoder is 3;", NULL},
    {FIRST ROPE("") ", \"decoder\": {\"layers\": 1, \"attention\": 3}}", "decoder.attention is 3;", NULL},
    {FIRST ROPE("") ", \"decoder\": {\"layers\": 1}}", "decoder.attention.heads is missing;", NULL},
    {FIRST ROPE("") ", \"decoder\": null}", "", NULL},
};

static void what_is_wrong_is_named_as_the_file_has_it(void **state) {
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        OWNED_SPEC struct qkv_spec spec = {0};
        const enum qkv_status status = parse(&spec, refusals[i].json, NULL, 0);
        if (status != QKV_SPEC && status != QKV_FORMAT) fail_msg("%s: %d", refusals[i].json, (int)status);
        assert_message(ctx, refusals[i].sentence);
        assert_message(ctx, "my.json");
        if (strstr(qkv_message(ctx), "attention.position") && !strstr(refusals[i].sentence, "attention.position"))
            fail_msg("%s: \"%s\"", refusals[i].json, qkv_message(ctx));
        if (refusals[i].key) assert_string_equal(qkv_message_key(ctx), refusals[i].key);
    }
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void settings_in_the_words_of_version_1_work_with_both_versions(void **state) {
    (void)state;
    static const char *const files[] = {FIRST PAIR(""), SECOND PAIR(""),
                                        SECOND
                                        "\"embed\": {\"scale\": 2}, " PAIR(", \"position\": {\"kind\": \"alibi\"}")};
    static const struct {
        const char *settings[3];
        size_t count;
        const char *second;
    } cases[] = {
        {{"position.kind=rope", "position.theta=7", "embed_scale=3"},
         3,
         SECOND "\"embed\": {\"scale\": 3}, " PAIR(", " ROPE(", \"theta\": 7"))},
        {{"position={\"kind\": \"relative\", \"max_distance\": 9}", "embed_scale=3"},
         2,
         SECOND "\"embed\": {\"scale\": 3}, " PAIR(", \"position\": {\"kind\": \"relative\", \"max_distance\": 9}")},
        {{"position.kind=sinusoidal", "embed_scale=3"},
         2,
         SECOND "\"embed\": {\"scale\": 3, \"position\": {\"kind\": \"sinusoidal\"}}, " PAIR("")},
        {{"position.kind=none", "embed.scale=3", "embed.position.kind=learned"},
         3,
         SECOND "\"embed\": {\"scale\": 3, \"position\": {\"kind\": \"learned\"}}, " PAIR("")},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        for (size_t k = 0; k < TEST_COUNT(files); k++) {
            OWNED_SPEC struct qkv_spec set = {0}, expected = {0};
            assert_ok(ctx, parse(&expected, cases[i].second, NULL, 0));
            if (parse(&set, files[k], cases[i].settings, cases[i].count))
                fail_msg("%s over %s: %s", cases[i].settings[0], files[k], qkv_message(ctx));
            if (!same_spec(&set, &expected)) fail_msg("%s over %s", cases[i].settings[0], files[k]);
        }
}

/* A setting of a position says where it is said: the name that was typed is in the sentence. */
static void a_setting_is_named_as_it_was_typed(void **state) {
    (void)state;
    static const struct {
        const char *settings[2], *sentence;
    } cases[] = {
        {{"position.kind=rope", "position.fraction=0.05"}, "position.fraction is 0.05, which rotates none"},
        {{"position.kind=rope", "decoder.attention.position.fraction=0.05"},
         "decoder.attention.position.fraction is 0.05, which rotates none"},
        {{"position.kind=alibi", "position.theta=5"}, "position.theta is 5, but only position.kind rope has one"},
        {{"embed_scale=2", "embed.scale=\"x\""}, "embed.scale is \"x\""},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        OWNED_SPEC struct qkv_spec spec = {0};
        assert_status(ctx, parse(&spec, FIRST DECODER(""), cases[i].settings, 2), QKV_SPEC);
        assert_message(ctx, cases[i].sentence);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_of_version_1_has_its_place_in_version_2),
        cmocka_unit_test(a_changed_value_changes_the_spec),
        cmocka_unit_test(what_is_wrong_is_named_as_the_file_has_it),
        cmocka_unit_test(settings_in_the_words_of_version_1_work_with_both_versions),
        cmocka_unit_test(a_setting_is_named_as_it_was_typed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
