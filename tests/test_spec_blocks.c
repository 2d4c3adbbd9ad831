/* test_spec_blocks: blocks that do not fit together: each is refused by key and value, and the message says what
 * would fit. */
/* labels: quick */
#include "model/spec.h"
#include "context_fixture.h"

struct misfit {
    const char *setting, *sentence;
    const char *fit; /* a setting that the sentence names; NULL: none alone */
};

static enum qkv_status read_all(const char *json, const char *const *settings, size_t count) {
    OWNED_SPEC struct qkv_spec spec = {0};
    return qkv_spec_parse(ctx, &spec, "my.json", json, strlen(json), settings, count);
}

/* Each setting is refused with its sentence; beside the one that fits it is read. */
static void refuse_all(const char *json, const struct misfit *misfits, size_t count) {
    assert_ok(ctx, read_all(json, NULL, 0));
    for (size_t i = 0; i < count; i++) {
        const char *const settings[] = {misfits[i].setting, misfits[i].fit};
        if (read_all(json, settings, 1) == QKV_OK) fail_msg("%s was accepted", misfits[i].setting);
        assert_message(ctx, "my.json");
        assert_message(ctx, misfits[i].sentence);
        if (misfits[i].fit && read_all(json, settings, 2))
            fail_msg("%s and %s do not fit: %s", settings[0], settings[1], qkv_message(ctx));
    }
}

#define START "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 50, \"d_model\": 32, \"context\": 64, "

static void layers_that_share_weights_are_of_one_kind(void **state) {
    (void)state;
    static const char kinds[] = START "\"encoder\": {\"layers\": 6, \"attention\": {\"heads\": 4}, \"kinds\": "
                                      "{\"near\": {\"attention\": {\"window\": "
                                      "3}}, \"far\": {}}, \"pattern\": [\"near\", \"near\", \"far\"]}}";
    static const struct misfit misfits[] = {
        {"encoder.share=1",
         "encoder.share is 1, so layer 2 has the weights of layer 0, but is of the kind \"far\" and that one of "
         "\"near\" (choose 4, or 0)",
         NULL},
        {"encoder.share=3", "encoder.share is 3, so layer 3 has the weights of layer 2, but is of the kind \"near\"",
         NULL},
        {"encoder.share=7",
         "encoder.share is 7, but there are 6 layers; it must be a number of groups from 1 to 6, or 0", NULL},
    };
    refuse_all(kinds, misfits, TEST_COUNT(misfits));
    assert_ok(ctx, read_all(kinds, &(const char *){"encoder.share=4"}, 1));
}

static void buckets_need_distances_to_hold(void **state) {
    (void)state;
    static const char one[] =
        START "\"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4, \"position\": {\"kind\": \"buckets\"}}}}";
    static const struct misfit misfits[] = {
        {"encoder.attention.position.buckets=1",
         "encoder.attention.position.buckets is 1; it must be a whole number from 2 to 1048576", NULL},
        {"encoder.attention.position.buckets=7",
         "encoder.attention.position.buckets is 7; where attention is not causal half of them are of later keys, so it "
         "must be an even number from 4 on",
         "encoder.attention.causal=true"},
        {"encoder.attention.position.buckets=2", "encoder.attention.position.buckets is 2;",
         "encoder.attention.causal=true"},
        {"encoder.attention.position.max_distance=0",
         "encoder.attention.position.max_distance is 0; it must be a whole number from 1 to 1048576", NULL},
        {"encoder.attention.position.max_distance=8",
         "encoder.attention.position.max_distance is 8, but of 32 buckets the first 8 hold a distance each; it must be "
         "at least 9, or there must be fewer buckets",
         "encoder.attention.position.buckets=16"},
        {"encoder.attention.position.kind=relative", NULL, NULL},
        {"encoder.attention.position.kind=rope", NULL, NULL},
    };
    refuse_all(one, misfits, TEST_COUNT(misfits) - 2);
    for (size_t i = TEST_COUNT(misfits) - 2; i < TEST_COUNT(misfits); i++) /* buckets of what has none */
        assert_status(
            ctx, read_all(one, (const char *const[]){misfits[i].setting, "encoder.attention.position.buckets=8"}, 2),
            QKV_SPEC);
    assert_message(ctx, "encoder.attention.position.buckets is 8, but only position.kind buckets has one");
}

static void kinds_share_the_same_distances(void **state) {
    (void)state;
    static const char kinds[] = START
        "\"encoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, \"position\": {\"kind\": \"buckets\"}}, \"kinds\": "
        "{\"a\": {}, \"b\": {\"attention\": {\"window\": 3}}}, \"pattern\": [\"a\", \"b\"]}}";
    static const char sentence[] = "encoder.kinds a and b both learn biases by distance, but not the same: layers of a "
                                   "stack share them, so heads, causal, all of attention.position and, for slopes of "
                                   "form falcon, head_dim must be alike";
    static const struct misfit misfits[] = {
        {"encoder.kinds.b.attention.heads=2", sentence, "encoder.kinds.a.attention.heads=2"},
        {"encoder.kinds.b.attention.heads=2", sentence, "encoder.kinds.b.attention.position.per_layer=true"},
        {"encoder.kinds.b.attention.position.buckets=16", sentence,
         "encoder.kinds.a.attention.position.per_layer=true"},
        {"encoder.kinds.b.attention.causal=true", sentence, "encoder.kinds.b.attention.position.kind=relative"},
        {"encoder.kinds.b.attention.position.buckets=16", sentence, "encoder.kinds.a.attention.position.buckets=16"},
        {"encoder.kinds.b.attention.position.max_distance=64", sentence,
         "encoder.kinds.a.attention.position.max_distance=64"},
    };
    refuse_all(kinds, misfits, TEST_COUNT(misfits));
}

static void masks_are_tokens_of_attention_that_is_not_causal(void **state) {
    (void)state;
    static const char encoder[] =
        START "\"embed\": {\"masked\": {\"token\": 49}}, \"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}}";
    static const struct misfit misfits[] = {
        {"encoder.attention.causal=true",
         "encoder.embed.masked counts the masks of whole sequences, but encoder.attention.causal is true: a token must "
         "not see those after it (leave embed.masked out, or set causal to false)",
         "embed.masked=null"},
        {"embed.masked.token=50", "encoder.embed.masked.token is 50, but the ids of 50 tokens end at 49", "vocab=51"},
        {"vocab=49", "encoder.embed.masked.token is 49, but the ids of 49 tokens end at 48", "embed.masked.token=3"},
    };
    refuse_all(encoder, misfits, TEST_COUNT(misfits));
    static const char untied[] = START "\"tie\": \"none\", \"embed\": {\"masked\": {\"token\": 49}}, \"encoder\": "
                                       "{\"layers\": 1, \"attention\": {\"heads\": 4}}}";
    static const struct misfit vectors = {
        "embed.input={\"kind\":\"vectors\",\"channels\":4}",
        "encoder.embed.masked is of embeddings of tokens, but encoder.embed.input.kind is vectors (leave embed.masked "
        "out)",
        "embed.masked=null"};
    refuse_all(untied, &vectors, 1);
}

static void patches_divide_the_image(void **state) {
    (void)state;
    static const char images[] =
        "{\"format\": \"qkv\", \"version\": 2, \"d_model\": 32, \"context\": 17, \"head\": {\"kind\": \"classify\", "
        "\"classes\": 3}, \"embed\": {\"input\": {\"kind\": \"patches\", \"height\": 28, \"width\": 28, \"patch\": "
        "7}}, \"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}}";
    static const struct misfit misfits[] = {
        {"embed.input.patch=5",
         "the patch of encoder.embed.input is 5, which does not divide its height of 28 (choose 4 or 7)", NULL},
        {"embed.input.patch=40", "is 40, which does not divide its height of 28 (choose 28)", NULL},
        {"embed.input.width=30",
         "the patch of encoder.embed.input is 7, which does not divide its width of 30 (choose 6 or 10)",
         "embed.input.patch=2"},
        {"embed.input.patch=4", "has 50 positions with its class token, more than the context of 17 (set context=50)",
         "context=50"},
        {"embed.input.patch=0", "embed.input.patch is 0; it must be a whole number from 1", NULL},
    };
    for (size_t i = 0; i < TEST_COUNT(misfits); i++)
        if (misfits[i].fit && strstr(misfits[i].fit, "patch")) /* more patches need more context */
            assert_status(ctx,
                          read_all(images, (const char *const[]){misfits[i].setting, misfits[i].fit, "context=400"}, 3),
                          QKV_OK);
    refuse_all(images, misfits, 2);
    refuse_all(images, misfits + 3, 2);
    assert_status(ctx, read_all(images, &misfits[2].setting, 1), QKV_SPEC);
    assert_message(ctx, misfits[2].sentence);
}

static void factors_are_one_for_each_pair(void **state) {
    (void)state;
    static const char turned[] = START
        "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4, \"position\": {\"kind\": \"rope\", \"scaling\": "
        "{\"kind\": \"longrope\", \"factor\": 4, \"original_context\": 8, \"short\": [1, 1, 1, 1], \"long\": [1, 2, 3, "
        "4]}}}}}";
    static const struct misfit misfits[] = {
        {"decoder.attention.position.scaling.long=[1,2,3]",
         "decoder.attention.position.scaling.long has 3 numbers; it must have 4, one for each pair of the 8 rotated "
         "channels",
         NULL},
        {"decoder.attention.position.scaling.short=[1,2,3,4,5]",
         "decoder.attention.position.scaling.short has 5 numbers; it must have 4", NULL},
        {"decoder.attention.head_dim=16", "scaling.short has 4 numbers; it must have 8",
         "decoder.attention.position.fraction=0.5"},
    };
    refuse_all(turned, misfits, TEST_COUNT(misfits));
}

static void a_tied_head_is_as_wide_as_the_tokens(void **state) {
    (void)state;
    static const char plain[] = START "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}}";
    static const struct misfit misfits[] = {
        {"embed.width=8",
         "tie is head, but tokens are 8 wide (embed.width) and the head reads 32 (d_model); set "
         "head.transform.width=8, or tie=none, or leave embed.width out",
         "head.transform.width=8"},
        {"embed.width=8", "or tie=none", "tie=none"},
        {"head.transform.width=16",
         "tie is head, but head.transform.width is 16 and tokens are 32 wide; a head that uses the embedding needs "
         "them "
         "to be equal (set head.transform.width=32, or tie=none)",
         "embed.width=16"},
    };
    refuse_all(plain, misfits, TEST_COUNT(misfits));
}

static void what_both_stacks_have_otherwise_is_not_said_in_common(void **state) {
    (void)state;
    static const char file[] =
        START "\"embed\": {%s}, \"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}, \"embed\": {\"types\": 2, "
              "\"position\": {\"kind\": \"sinusoidal\", \"layout\": \"halves\"}}}, \"decoder\": {\"layers\": 1, "
              "\"attention\": {\"heads\": 4}, \"embed\": {\"types\": 0, \"position\": {\"kind\": \"sinusoidal\"}}}}";
    static const struct {
        const char *common, *sentence;
    } cases[] = {
        {"\"types\": 3", "embed.types is 3, but no stack reads it, as encoder.embed.types and decoder.embed.types are "
                         "given; leave one of the three out"},
        {"\"position\": {\"kind\": \"learned\"}", "embed.position.kind is \"learned\", but no stack reads it"},
        {"\"position\": {\"layout\": \"spaced\"}", NULL}, /* the decoder reads it */
        {"\"scale\": 2.0", NULL},
        {"\"bias\": true", NULL}, /* as nothing is written */
        {"\"bias\": false", "embed.bias is false, but only an embedding with a width of its own has one; leave it out"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char json[800];
        snprintf(json, sizeof json, file, cases[i].common);
        const enum qkv_status status = read_all(json, NULL, 0);
        if (!cases[i].sentence && status) fail_msg("%s: %s", cases[i].common, qkv_message(ctx));
        if (!cases[i].sentence) continue;
        assert_int_equal(status, QKV_SPEC);
        assert_message(ctx, cases[i].sentence);
    }
}

/* A single stack of either kind, with shared keys and its own. */
static void what_a_lone_stack_has_of_its_own_is_not_said_in_common(void **state) {
    (void)state;
    static const char file[] =
        START "\"embed\": {%s}, \"%s\": {\"layers\": 1, \"attention\": {\"heads\": 4}, \"embed\": {%s}}}";
    static const struct {
        const char *common, *own, *key, *value;
    } cases[] = {
        {"\"types\": 3", "\"types\": 2", "types", "3"},
        {"\"types\": 3", "\"types\": 3", "types", "3"},
        {"\"types\": 3", "\"scale\": 2.0", NULL, NULL},
        {"\"position\": {\"kind\": \"learned\"}", "\"position\": {\"kind\": \"sinusoidal\"}", "position.kind",
         "\"learned\""},
        {"\"position\": {\"kind\": \"learned\"}", "\"position\": {\"offset\": 2}", NULL, NULL},
        {"\"norm\": {\"kind\": \"rmsnorm\"}", "\"norm\": null", "norm", "{\"kind\":\"rmsnorm\"}"},
        {"\"norm\": null", "\"norm\": {\"kind\": \"rmsnorm\"}", "norm", "null"},
        {"\"norm\": {\"kind\": \"rmsnorm\"}", "\"norm\": {\"eps\": 1e-6}", NULL, NULL},
    };
    for (size_t i = 0; i < 2 * TEST_COUNT(cases); i++) {
        const char *stack = i % 2 ? "encoder" : "decoder", *key = cases[i / 2].key;
        char json[800], sentence[300];
        snprintf(json, sizeof json, file, cases[i / 2].common, stack, cases[i / 2].own);
        const enum qkv_status status = read_all(json, NULL, 0);
        if (!key && status) fail_msg("%s: %s", json, qkv_message(ctx));
        if (!key) continue;
        snprintf(sentence, sizeof sentence,
                 "embed.%s is %s, but no stack reads it, as %s.embed.%s is given; leave one of the two out", key,
                 cases[i / 2].value, stack, key);
        assert_int_equal(status, QKV_SPEC);
        assert_message(ctx, sentence);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_share_weights_are_of_one_kind),
        cmocka_unit_test(buckets_need_distances_to_hold),
        cmocka_unit_test(kinds_share_the_same_distances),
        cmocka_unit_test(masks_are_tokens_of_attention_that_is_not_causal),
        cmocka_unit_test(patches_divide_the_image),
        cmocka_unit_test(factors_are_one_for_each_pair),
        cmocka_unit_test(a_tied_head_is_as_wide_as_the_tokens),
        cmocka_unit_test(what_both_stacks_have_otherwise_is_not_said_in_common),
        cmocka_unit_test(what_a_lone_stack_has_of_its_own_is_not_said_in_common),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
