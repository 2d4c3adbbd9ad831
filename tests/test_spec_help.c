/* test_spec_help: the keys of a spec in words. Every key is described, its example is accepted and changes the spec,
 * and the values next to its range are refused. The reader of specs is the oracle. */
/* labels: quick */
#include "base/json_load.h"
#include "spec_fixture.h"

enum { NEEDS = 16, LONG = 4096 };

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* What a key needs, and one more setting, as a list. */
struct settings {
    char text[LONG], last[LONG];
    const char *items[NEEDS + 1];
    size_t count;
};

static void settings_make(struct settings *s, const struct qkv_spec_key *key, const char *value) {
    s->count = 0;
    snprintf(s->text, sizeof s->text, "%s", key->needs);
    for (char *word = strtok(s->text, " "); word; word = strtok(NULL, " ")) {
        assert_true(s->count < NEEDS);
        s->items[s->count++] = word;
    }
    if (!value) return;
    snprintf(s->last, sizeof s->last, "%s=%s", key->path, value);
    s->items[s->count++] = s->last;
}

/* A spec whose other keys have their defaults. */
static const char plain[] = "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 65, \"d_model\": 128, \"context\": 64, "
                            "\"decoder\": {\"layers\": 4, \"attention\": {\"heads\": 4}}}";

/* That spec with settings, as text; NULL if they are refused. The caller frees it. */
static char *print_with(const struct settings *s) {
    OWNED_SPEC struct qkv_spec spec = {0};
    char *json;
    if (parse(&spec, plain, s->items, s->count)) return NULL;
    assert_ok(ctx, qkv_spec_print(ctx, &spec, &json));
    return json;
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

static const struct qkv_key *key_at(const char *path) {
    const bool first = !strncmp(path, "position", 8) || !strcmp(path, "embed_scale");
    const struct qkv_key *keys = first ? qkv_version1_keys : qkv_spec_keys, *key = NULL;
    for (size_t n; keys; path += n + (path[n] == '.')) {
        n = strcspn(path, ".");
        for (key = keys; key->name && (strlen(key->name) != n || strncmp(key->name, path, n));) key++;
        assert_non_null(key->name);
        if (!path[n]) return key;
        keys = key->keys;
    }
    return NULL;
}

/* Whether the part of a key lists a key of that name. */
static bool is_listed(const struct qkv_spec_key *key, const char *name) {
    struct qkv_spec_key listed;
    for (size_t i = 0; qkv_spec_describe_at(i, &listed); i++) {
        const char *dot = strrchr(listed.path, '.');
        if (!strcmp(listed.part, key->part) && !strcmp(dot ? dot + 1 : listed.path, name)) return true;
    }
    return false;
}

/* Every key that the reader knows, wherever it is. */
static size_t check_table(const struct qkv_key *keys, const char *prefix) {
    size_t count = 0;
    for (const struct qkv_key *key = keys; key->name; key++, count++) {
        struct qkv_spec_key described;
        char path[LONG], inner[LONG + 8];
        snprintf(path, sizeof path, "%s%s", prefix, key->name);
        if (!qkv_spec_describe(path, &described)) fail_msg("%s is not described", path);
        if (!key->help) fail_msg("%s has no help", path);
        if (!is_listed(&described, key->name)) fail_msg("no part lists %s", path);
        if (key->rule && !key->standard) fail_msg("%s has a rule for its default, but no words for it", path);
        if (key->keys && !described.inside[0]) fail_msg("no part has the keys of %s", path);
        snprintf(inner, sizeof inner, "%s%s.", path, key->type == QKV_KEY_KINDS ? ".local" : "");
        if (key->keys) count += check_table(key->keys, inner);
    }
    return count;
}

static void every_key_of_the_reader_is_described_and_listed(void **state) {
    (void)state;
    assert_true(check_table(qkv_spec_keys, "") > 600);
    assert_true(check_table(qkv_version1_keys, "") > 10);
}

static void assert_sentences(const char *path, const char *text) {
    const size_t n = text ? strlen(text) : 0;
    if (n < 10 || text[n - 1] != '.' || strstr(text, "  ")) fail_msg("%s: \"%s\" is no sentence", path, text);
}

static void every_description_is_complete(void **state) {
    (void)state;
    struct qkv_spec_key key, other;
    struct qkv_spec_part part;
    size_t count = 0, parts = 0;
    for (; qkv_spec_part_at(parts, &part); parts++) {
        assert_sentences(part.path, part.help);
        assert_true(part.title[0]);
    }
    for (; qkv_spec_describe_at(count, &key); count++) {
        assert_sentences(key.path, key.help);
        if (!key.range[0] || !key.example[0] || !key.json[0]) fail_msg("%s is not complete", key.path);
        if (strlen(key.json) + 1 == sizeof key.json || strlen(key.needs) + 1 == sizeof key.needs)
            fail_msg("%s is cut", key.path);
        for (size_t i = 0; i < key.choice_count; i++)
            if (!key.choices[i].help[0]) fail_msg("%s: %s has no help", key.path, key.choices[i].text);
        for (size_t i = 0; i < count; i++)
            if (qkv_spec_describe_at(i, &other) && !strcmp(other.path, key.path)) fail_msg("%s comes twice", key.path);
    }
    assert_true(parts > 15 && count > 130);
    assert_false(qkv_spec_part_at(parts, &part));
}

/* ---- examples ---------------------------------------------------------------------------------------------------- */

/* Says what every file must say, so that an example does not change it. */
static bool is_said(const struct qkv_key *key) {
    return key->type == QKV_KEY_CONSTANT || key->type == QKV_KEY_VERSION;
}

static void examples_are_accepted_as_settings_and_change_the_spec(void **state) {
    (void)state;
    struct qkv_spec_key key;
    for (size_t i = 0; qkv_spec_describe_at(i, &key); i++) {
        struct settings s;
        if (key_at(key.path)->type == QKV_KEY_VERSION) continue; /* a setting cannot change the version of a file */
        settings_make(&s, &key, NULL);
        char *without = print_with(&s); /* NULL: the example is needed */
        settings_make(&s, &key, key.example);
        char *with = print_with(&s);
        if (!with) fail_msg("%s: the example %s is refused: %s", key.path, key.example, qkv_message(ctx));
        if (without && !is_said(key_at(key.path)) && !strcmp(with, without))
            fail_msg("%s: the example %s changes nothing", key.path, key.example);
        qkv_free(with);
        qkv_free(without);
    }
}

static void examples_are_accepted_in_a_file(void **state) {
    (void)state;
    struct qkv_spec_key key;
    for (size_t i = 0; qkv_spec_describe_at(i, &key); i++) {
        const bool first = !strncmp(key.path, "position", 8) || !strcmp(key.path, "embed_scale");
        OWNED_SPEC struct qkv_spec spec = {0};
        json_t *root = qkv_json_value(plain), *more = qkv_json_value(key.json);
        assert_int_equal(json_object_update_recursive(root, more), 0);
        if (first) json_object_set_new(root, "version", json_integer(1));
        char *text = json_dumps(root, 0);
        const enum qkv_status status = qkv_spec_parse(ctx, &spec, key.path, text, strlen(text), NULL, 0);
        if (status) fail_msg("%s: %s is refused: %s", key.path, key.json, qkv_message(ctx));
        free(text);
        json_decref(root);
        json_decref(more);
    }
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void refuse(const struct qkv_spec_key *key, const char *value) {
    struct settings s;
    settings_make(&s, key, value);
    char *json = print_with(&s);
    if (json) fail_msg("%s=%s is accepted", key->path, value);
    if (!strstr(qkv_message(ctx), key->path)) fail_msg("%s=%s: \"%s\"", key->path, value, qkv_message(ctx));
    if (!qkv_message_key(ctx) || strcmp(qkv_message_key(ctx), key->path) != 0)
        fail_msg("%s=%s: the failure is about the key %s", key->path, value, qkv_message_key(ctx));
}

static void refuse_number(const struct qkv_spec_key *key, double value) {
    char text[QKV_REAL_TEXT];
    refuse(key, qkv_real_text(text, value));
}

static void values_outside_the_range_are_refused(void **state) {
    (void)state;
    struct qkv_spec_key key;
    size_t numbers = 0;
    for (size_t i = 0; qkv_spec_describe_at(i, &key); i++) {
        const struct qkv_key *table = key_at(key.path);
        const bool whole = table->type == QKV_KEY_WHOLE || table->type == QKV_KEY_VERSION;
        refuse(&key, "no-such-value");
        if (table->type == QKV_KEY_LIST) refuse(&key, "[]");
        if (table->type == QKV_KEY_LIST) refuse(&key, "[0]");
        if (!whole && table->type != QKV_KEY_REAL) continue;
        numbers++;
        refuse(&key, "true");
        refuse_number(&key,
                      table->flags & QKV_KEY_ABOVE_LOW ? table->low : table->low - (whole ? 1 : fabs(table->low) + 1));
        refuse_number(&key, table->flags & QKV_KEY_BELOW_HIGH ? table->high
                            : whole                           ? table->high + 1
                                                              : 2 * table->high);
        if (table->flags & QKV_KEY_NOT_ZERO) refuse(&key, "0");
    }
    assert_true(numbers > 60);
}

static void the_nearest_value_and_key_are_named(void **state) {
    (void)state;
    static const char file[] = "{\"format\": \"qkv\", \"version\": 2, \"d_model\": 128, \"context\": 64, \"theta\": 1, "
                               "\"decoder\": {\"layers\": 4, \"attention\": {\"heads\": 4}}}";
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_status(ctx, qkv_spec_preset(ctx, &spec, "nano-gpt", SETTINGS("decoder.ffn.kind=swiglue")), QKV_SPEC);
    assert_message(ctx, "; did you mean swiglu?");
    assert_string_equal(qkv_message_key(ctx), "decoder.ffn.kind");
    qkv_spec_free(&spec);
    assert_status(ctx, qkv_spec_preset(ctx, &spec, "nano-gpt", SETTINGS("decoder.ffn.kind=xyzzy")), QKV_SPEC);
    assert_null(strstr(qkv_message(ctx), "did you mean"));
    qkv_spec_free(&spec);
    assert_status(ctx, qkv_spec_preset(ctx, &spec, "nano-gpt", SETTINGS("decoder.attention.windw=4")), QKV_SPEC);
    assert_message(ctx, "did you mean window?");
    assert_string_equal(qkv_message_key(ctx), "decoder.attention");
    qkv_spec_free(&spec);
    assert_status(ctx, qkv_spec_preset(ctx, &spec, "nano-gpt", SETTINGS("nothing=4")), QKV_SPEC);
    assert_string_equal(qkv_message_key(ctx), "");
    /* in the words of the file's version */
    qkv_spec_free(&spec);
    assert_status(ctx, qkv_spec_parse(ctx, &spec, "my.json", file, strlen(file), NULL, 0), QKV_SPEC);
    assert_message(ctx, "unknown key theta; did you mean decoder.attention.position.theta?");
    /* what keys say about each other */
    qkv_spec_free(&spec);
    assert_status(ctx, qkv_spec_preset(ctx, &spec, "nano-gpt", SETTINGS("decoder.attention.kv_heads=3")), QKV_SPEC);
    assert_string_equal(qkv_message_key(ctx), "decoder.attention");
    qkv_spec_free(&spec);
    assert_ok(ctx, qkv_spec_preset(ctx, &spec, "nano-gpt", NULL, 0));
    assert_null(qkv_message_key(ctx));
    qkv_spec_free(&spec);
    assert_status(ctx, qkv_spec_preset(ctx, &spec, "no-preset", NULL, 0), QKV_ARGUMENT);
    assert_null(qkv_message_key(ctx));
}

/* ---- paths ------------------------------------------------------------------------------------------------------- */

static void keys_are_found_under_all_their_paths(void **state) {
    (void)state;
    static const struct {
        const char *path, *part;
    } found[] = {
        {"d_model", ""},
        {"encoder.attention.heads", "decoder.attention"},
        {"decoder.cross.heads", "decoder.attention"},
        {"decoder.embed.scale", "embed"},
        {"decoder.kinds.local.attention.window", "decoder.attention"},
        {"decoder.kinds.local.norm", "decoder"},
        {"head.transform.norm.eps", "embed.norm"},
        {"decoder.attention.position.scaling.factor", "decoder.attention.position.scaling"},
    };
    static const char *const none[] = {"",         "decoder.",  "decoder.kinds.local", "decoder.kinds..norm",
                                       ".decoder", "d_model.x", "decoder.nothing",     "decoder.kinds.a b.norm"};
    struct qkv_spec_key key;
    char longest[LONG];
    for (size_t i = 0; i < TEST_COUNT(found); i++) {
        struct settings s;
        assert_true(qkv_spec_describe(found[i].path, &key));
        assert_string_equal(key.path, found[i].path);
        assert_string_equal(key.part, found[i].part);
        settings_make(&s, &key, key.example);
        char *json = print_with(&s);
        if (!json && strncmp(key.path, "head", 4)) fail_msg("%s: %s", key.path, qkv_message(ctx));
        qkv_free(json);
    }
    for (size_t i = 0; i < TEST_COUNT(none); i++)
        if (qkv_spec_describe(none[i], &key)) fail_msg("\"%s\" is described", none[i]);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_false(qkv_spec_describe(longest, &key));
    assert_false(key.path[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_the_reader_is_described_and_listed),
        cmocka_unit_test(every_description_is_complete),
        cmocka_unit_test(examples_are_accepted_as_settings_and_change_the_spec),
        cmocka_unit_test(examples_are_accepted_in_a_file),
        cmocka_unit_test(values_outside_the_range_are_refused),
        cmocka_unit_test(the_nearest_value_and_key_are_named),
        cmocka_unit_test(keys_are_found_under_all_their_paths),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
