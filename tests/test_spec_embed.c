/* test_spec_embed: the embedding of each stack: the shared keys at the top of a spec, the keys of a stack that
 * override them, printing, digests, settings and refusals. The golden cases (test_golden) anchor the numbers. */
/* labels: quick */
#include "model/spec.h"
#include "test.h"

#include <stdlib.h>

static struct qkv_context *ctx;

static int setup(void **state) {
    (void)state;
    return qkv_context_create(&ctx, NULL) == QKV_OK ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

#define HEAD                                                                                                           \
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 40, \"d_model\": 32, \"context\": 64, \"tie\": \"none\", "
#define STACK                         "\"layers\": 1, \"attention\": {\"heads\": 4}"
#define BOTH(embed, encoder, decoder) HEAD embed "\"encoder\": {" STACK encoder "}, \"decoder\": {" STACK decoder "}}"
#define ALONE(embed, own)             HEAD embed "\"decoder\": {" STACK own "}}"

static enum qkv_status parse(struct qkv_spec *spec, const char *json, const char *const *settings, size_t count) {
    qkv_spec_free(spec);
    return qkv_spec_parse(ctx, spec, "my.json", json, strlen(json), settings, count);
}

#define SETTINGS(...)                                                                                                  \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static void a_stack_has_its_own_embedding_over_what_both_have(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s,
                         BOTH("\"embed\": {\"position\": {\"kind\": \"sinusoidal\"}, \"scale\": 2}, ",
                              ", \"embed\": {\"scale\": 3}", ", \"embed\": {\"position\": {\"kind\": \"learned\"}}"),
                         NULL, 0));
    assert_true(s.encoder.embed.scale == 3 && s.decoder.embed.scale == 2);
    assert_int_equal(s.encoder.embed.position.kind, QKV_POSITION_SINUSOIDAL);
    assert_int_equal(s.decoder.embed.position.kind, QKV_POSITION_LEARNED);
    assert_ok(ctx, parse(&s, BOTH("", ", \"embed\": {\"position\": {\"kind\": \"sinusoidal\"}}", ""), NULL, 0));
    assert_true(s.encoder.embed.scale == sqrt(32) && s.decoder.embed.scale == 1); /* each beside its own positions */
    assert_ok(ctx, parse(&s, ALONE("\"embed\": {\"types\": 2}, ", ", \"embed\": {\"scale\": 5}"), NULL, 0));
    assert_true(s.decoder.embed.scale == 5 && s.decoder.embed.types == 2);
    /* with a single stack, the shared embedding would not be read */
    assert_status(ctx, parse(&s, ALONE("\"embed\": {\"scale\": 2}, ", ", \"embed\": {\"scale\": 5}"), NULL, 0),
                  QKV_SPEC);
    assert_message(ctx, "embed.scale is 2, but no stack reads it, as decoder.embed.scale is given");
}

static void settings_reach_one_embedding_or_both(void **state) {
    (void)state;
    static const char plain[] = BOTH("", "", ""), own[] = BOTH("", ", \"embed\": {\"scale\": 3}", "");
    static const char old[] = "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 40, \"d_model\": 32, \"context\": 64, "
                              "\"encoder\": {" STACK "}, \"decoder\": {" STACK "}}";
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, plain, SETTINGS("embed.scale=7")));
    assert_true(s.encoder.embed.scale == 7 && s.decoder.embed.scale == 7);
    assert_ok(ctx, parse(&s, old, SETTINGS("encoder.embed.position.kind=sinusoidal", "embed_scale=4")));
    assert_int_equal(s.encoder.embed.position.kind, QKV_POSITION_SINUSOIDAL);
    assert_int_equal(s.decoder.embed.position.kind, QKV_POSITION_LEARNED);
    assert_true(s.encoder.embed.scale == 4 && s.decoder.embed.scale == 4);
    assert_ok(ctx, parse(&s, own, SETTINGS("embed.scale=7")));
    assert_true(s.encoder.embed.scale == 3 && s.decoder.embed.scale == 7);
    assert_ok(ctx, parse(&s, own, SETTINGS("embed_scale=7", "position.kind=none"))); /* of the whole model */
    assert_true(s.encoder.embed.scale == 7 && s.decoder.embed.scale == 7);
    assert_int_equal(s.encoder.embed.position.kind, QKV_POSITION_NONE);
}

static void embeddings_have_types_norms_and_widths(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(
        ctx,
        parse(&s,
              BOTH("\"embed\": {\"norm\": {\"kind\": \"layernorm\", \"eps\": 1e-12}, \"types\": 2, \"width\": 6}, ",
                   ", \"embed\": {\"norm\": null, \"types\": 0}, \"d_model\": 16",
                   ", \"embed\": {\"project\": \"token\", \"bias\": false}"),
              NULL, 0));
    assert_false(s.encoder.embed.norm.given);
    assert_true(s.decoder.embed.norm.given && s.decoder.embed.norm.eps == 1e-12 && s.decoder.embed.norm.weight);
    assert_true(s.encoder.embed.types == 0 && s.decoder.embed.types == 2);
    assert_true(qkv_stack_width(&s, &s.encoder) == 16 && qkv_stack_width(&s, &s.decoder) == 32 &&
                qkv_spec_width(&s) == 32);
    assert_true(s.encoder.kinds[0].attention.head_dim == 4 && s.encoder.kinds[0].ffn.d_ff == 64);
    assert_true(qkv_token_width(&s, &s.encoder) == 6 && qkv_position_width(&s, &s.encoder) == 6);
    assert_true(qkv_token_width(&s, &s.decoder) == 6 && qkv_position_width(&s, &s.decoder) == 32);
    assert_true(s.encoder.embed.bias && !s.decoder.embed.bias);
    assert_ok(ctx, parse(&s, ALONE("\"embed\": {\"position\": {\"kind\": \"learned\"}}, ", ""),
                         SETTINGS("embed.position.offset=2")));
    assert_int_equal(s.decoder.embed.position.offset, 2);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void what_a_stack_has_of_its_own_is_printed_there(void **state) {
    (void)state;
    static const char *const specs[] = {
        BOTH("\"embed\": {\"position\": {\"kind\": \"none\"}, \"scale\": 2}, ", ", \"embed\": {\"scale\": 3}", ""),
        BOTH("", ", \"embed\": {\"position\": {\"kind\": \"sinusoidal\"}, \"scale\": 1}", ""),
        BOTH("\"embed\": {\"norm\": {\"kind\": \"rmsnorm\"}, \"types\": 3, \"width\": 8}, ",
             ", \"embed\": {\"norm\": null, \"types\": 0, \"width\": 0}", ""),
        BOTH("\"embed\": {\"types\": 3}, ", ", \"d_model\": 12, \"embed\": {\"norm\": {\"kind\": \"rmsnorm\"}}",
             ", \"d_model\": 20"),
        BOTH("\"embed\": {\"norm\": {\"kind\": \"layernorm\"}}, ", ", \"embed\": {\"norm\": {\"eps\": 1e-3}}",
             ", \"embed\": {\"position\": {\"kind\": \"sinusoidal\", \"layout\": \"spaced\"}}"),
        BOTH("\"embed\": {\"scale\": 5}, ", "", ", \"embed\": {\"position\": {\"kind\": \"none\"}}"),
    };
    for (size_t i = 0; i < TEST_COUNT(specs); i++) {
        OWNED_SPEC struct qkv_spec s = {0}, back = {0};
        char *json, *again, first[QKV_DIGEST_TEXT], second[QKV_DIGEST_TEXT];
        assert_ok(ctx, parse(&s, specs[i], NULL, 0));
        assert_ok(ctx, qkv_spec_print(ctx, &s, &json));
        assert_ok(ctx, parse(&back, json, NULL, 0));
        assert_ok(ctx, qkv_spec_print(ctx, &back, &again));
        assert_string_equal(json, again);
        assert_non_null(strstr(json, "\"version\": 2"));
        assert_ok(ctx, qkv_spec_digest(ctx, &s, first));
        assert_ok(ctx, qkv_spec_digest(ctx, &back, second));
        assert_string_equal(first, second);
        qkv_free(json);
        qkv_free(again);
    }
}

static void digests_are_of_what_is_meant_and_not_of_where_it_stands(void **state) {
    (void)state;
    static const char *const same[] = {
        BOTH("\"embed\": {\"scale\": 2}, ", "", ""),
        BOTH("", ", \"embed\": {\"scale\": 2}", ", \"embed\": {\"scale\": 2}"),
        BOTH("\"embed\": {\"scale\": 2}, ", "", ", \"embed\": {\"scale\": 2}"),
    };
    char first[QKV_DIGEST_TEXT], digest[QKV_DIGEST_TEXT];
    OWNED_SPEC struct qkv_spec s = {0};
    for (size_t i = 0; i < TEST_COUNT(same); i++) {
        assert_ok(ctx, parse(&s, same[i], NULL, 0));
        assert_ok(ctx, qkv_spec_digest(ctx, &s, i ? digest : first));
        if (i) assert_string_equal(first, digest);
    }
    struct qkv_spec wide = s; /* the same widths said in other places */
    wide.d_model = 7, wide.encoder.d_model = wide.decoder.d_model = 32;
    assert_ok(ctx, qkv_spec_digest(ctx, &wide, digest));
    assert_string_equal(first, digest);
    wide.encoder.d_model = 16;
    assert_ok(ctx, qkv_spec_digest(ctx, &wide, digest));
    assert_string_not_equal(first, digest);
    s.encoder.embed.scale = 3;
    assert_ok(ctx, qkv_spec_digest(ctx, &s, digest));
    assert_string_not_equal(first, digest);
    struct qkv_spec other = s;
    other.encoder.embed.scale = 2;
    other.decoder.embed.scale = 3;
    assert_ok(ctx, qkv_spec_digest(ctx, &other, first));
    assert_string_not_equal(first, digest);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void what_is_wrong_with_an_embedding_is_named(void **state) {
    (void)state;
    static const char plain[] = BOTH("", "", ""),
                      each[] = BOTH("", ", \"embed\": {\"scale\": 2}", ", \"embed\": {\"scale\": 3}");
    static const char
        alone[] = ALONE("", ""),
        sines[] =
            ALONE("\"embed\": {\"position\": {\"kind\": \"sinusoidal\", \"layout\": \"spaced\", \"offset\": 5}}, ",
                  ", \"ffn\": {\"d_ff\": 8}");
    static const char tied[] = "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 40, \"d_model\": 32, \"context\": 64, "
                               "\"decoder\": {" STACK "}}";
    static const char all[] = "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 40, \"d_model\": 32, \"context\": 64, "
                              "\"tie\": \"all\", \"encoder\": {" STACK "}, \"decoder\": {" STACK "}}";
    static const struct {
        const char *json, *setting, *sentence;
    } refusals[] = {
        {plain, "encoder.embed.scale=0", "encoder.embed.scale is 0; it must be a number other than 0"},
        {plain, "embed.scale=0", "embed.scale is 0; it must be a number other than 0"},
        {plain, "encoder.embed.scal=2", "unknown key encoder.embed.scal; did you mean scale?"},
        {plain, "encoder.embed=3", "encoder.embed is 3; it must be an object"},
        {plain, "embed=3", "embed is 3; it must be an object"},
        {plain, "decoder.embed.position.kind=rope", "decoder.embed.position.kind is \"rope\"; it must be one of none,"},
        {plain, "embed.position.layout=halves", "has no effect, as each stack has its own or neither has a use for it"},
        {alone, "embed.position.layout=halves", "only a position of kind sinusoidal has one; leave it out"},
        {alone, "embed.bias=false", "only an embedding with a width of its own has one; leave it out"},
        {alone, "embed.types=-1", "embed.types is -1; it must be a whole number from 0 to"},
        {alone, "decoder.d_model=16",
         "decoder.d_model is 16, but only a stack of an encoder-decoder has one; leave it out"},
        {alone, "embed.norm=3", "embed.norm is 3; it must be an object"},
        {sines, "embed.width=3",
         "embed.position.layout is spaced, whose angles need at least 4 channels, but there are 3"},
        {sines, "context=16777216",
         "embed.position.offset is 5, which with context 16777216 makes a table of more than 16777216 rows"},
        {tied, "embed.width=8", "tie is head, but tokens are 8 wide (embed.width) and the head reads 32 (d_model)"},
        {all, "encoder.embed.width=8", "tie is all, but tokens are 8 wide in the encoder and 32 in the decoder"},
        {all, "encoder.d_model=16", "tie is all, but tokens are 16 wide in the encoder and 32 in the decoder"},
        {each, "embed.scale=4", "setting \"embed.scale=4\" has no effect, as each stack has its own"},
    };
    OWNED_SPEC struct qkv_spec s = {0};
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        assert_status(ctx, parse(&s, refusals[i].json, SETTINGS(refusals[i].setting)), QKV_SPEC);
        assert_message(ctx, refusals[i].sentence);
    }
    assert_ok(ctx, parse(&s, plain, NULL, 0));
    s.encoder.embed.scale = INFINITY;
    assert_status(ctx, qkv_spec_check(ctx, &s), QKV_SPEC);
    assert_message(ctx, "encoder.embed.scale is inf;");
    bool idle[1];
    struct qkv_settings settings = {.items = (const char *const[]){"embed.scale=4"}, .count = 1, .idle = idle};
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_parse_all(ctx, &s, "my.json", each, sizeof each - 1, &settings));
    assert_true(idle[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_has_its_own_embedding_over_what_both_have),
        cmocka_unit_test(embeddings_have_types_norms_and_widths),
        cmocka_unit_test(settings_reach_one_embedding_or_both),
        cmocka_unit_test(what_a_stack_has_of_its_own_is_printed_there),
        cmocka_unit_test(digests_are_of_what_is_meant_and_not_of_where_it_stands),
        cmocka_unit_test(what_is_wrong_with_an_embedding_is_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
