/* Talks and prompts as ids and marks: those of transformers (tests/golden/talks, which make/talk_cases.py made), and
 * the lines that are refused. */
/* labels: quick */
#include "context_fixture.h"

#include <sys/stat.h>

#include "chat/chat_template.h"
#include "data/talk.h"

#define CASES TEST_SOURCE_DIR "/tests/golden/talks/"

static struct qkv_tokenizer *tokenizer;

static struct qkv_chat_template *templates_of(const char *name) {
    struct qkv_chat_template *t;
    char path[1024];
    snprintf(path, sizeof path, CASES "%s.jinja", name);
    assert_ok(ctx, qkv_chat_template_open(ctx, TEST_SOURCE_DIR "/tests/golden/talks", path, &t));
    return t;
}

static enum qkv_status encode(const char *template, const json_t *line, struct qkv_talk *talk) {
    struct qkv_chat_template *t = template ? templates_of(template) : NULL;
    const struct qkv_talk_coder coder = {.ctx = ctx, .tokenizer = tokenizer, .templates = t};
    const enum qkv_status status = qkv_talk_encode(&coder, line, talk);
    qkv_chat_template_free(t);
    return status;
}

/* ---- beside transformers ----------------------------------------------------------------------------------------- */

static void check_case(const json_t *made, size_t i) {
    const json_t *ids = json_object_get(made, "ids"), *marks = json_object_get(made, "marks");
    struct qkv_talk talk;
    assert_ok(ctx, encode(json_string_value(json_object_get(made, "template")), json_object_get(made, "line"), &talk));
    if (talk.count != json_array_size(ids)) fail_msg("case %zu: %zu ids, not %zu", i, talk.count, json_array_size(ids));
    for (size_t k = 0; k < talk.count; k++) {
        const json_int_t id = json_integer_value(json_array_get(ids, k)),
                         mark = json_integer_value(json_array_get(marks, k));
        if (talk.ids[k] != id || talk.marks[k] != (mark ? QKV_MARK_COUNTS : 0))
            fail_msg("case %zu: token %zu is %d, %d, not %d, %d", i, k, talk.ids[k], talk.marks[k], (int)id, (int)mark);
    }
    qkv_talk_free(&talk);
}

static void ids_and_marks_are_those_of_transformers(void **state) {
    (void)state;
    size_t size = 0, count = 0;
    char *text = test_read_file(CASES "cases.jsonl", &size);
    for (char *line = text; line < text + size; line = strchr(line, '\n') + 1) {
        json_t *made = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        assert_non_null(made);
        check_case(made, count++);
        json_decref(made);
    }
    assert_int_equal(count, 21);
    free(text);
}

/* ---- lines that are refused -------------------------------------------------------------------------------------- */

#define USER  "{\"role\":\"user\",\"content\":\"a\"}"
#define REPLY "{\"role\":\"assistant\",\"content\":\"b\"}"

static void lines_without_an_answer_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *template, *line, *message;
    } bad[] = {
        {"plain", "{}", "no key \"messages\" or \"conversations\", and no \"prompt\" with a \"completion\""},
        {"plain", "{\"messages\": []}", "\"messages\" is no list with messages"},
        {"plain", "{\"conversations\": \"a\"}", "\"conversations\" is no list with messages"},
        {"plain", "{\"messages\": [" USER "]}", "no turn of the assistant counts"},
        {"plain", "{\"messages\": [" USER ",{\"role\":\"assistant\",\"content\":\"b\",\"weight\":0}]}",
         "no turn of the assistant counts"},
        {"plain", "{\"conversations\": [" USER ",{\"from\":\"gpt\",\"value\":\"b\",\"weight\":0}]}",
         "no turn of the assistant counts"},
        {"plain", "{\"messages\": [" USER ",7]}", "message 2 is no object"},
        {"plain", "{\"conversations\": [{\"from\":\"human\"}]}", "message 1 has \"from\", but no text \"value\""},
        {"plain", "{\"messages\": [" USER "," REPLY "],\"chat_template_kwargs\":\"{}\"}",
         "\"chat_template_kwargs\" is no object"},
        {"plain", "{\"messages\": [{\"content\":\"a\"}," REPLY "]}", "message 1 has no \"role\""},
        {NULL, "{\"messages\": [" USER "," REPLY "]}", "a talk needs a chat template, and the model has none"},
        {NULL, "{\"prompt\": \"a\"}", "\"prompt\" and \"completion\" must be two texts, or two lists of messages"},
        {"plain", "{\"prompt\": [" USER "], \"completion\": \"b\"}", "must be two texts, or two lists of messages"},
        {"plain", "{\"prompt\": [" REPLY "], \"completion\": [" USER "]}", "with the role assistant behind the prompt"},
        {"blocks", "{\"messages\": [" USER ",{\"role\":\"assistant\",\"content\":\"b\",\"weight\":0}]}",
         "no turn of the assistant counts"},
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        struct qkv_talk talk;
        json_t *line = json_loads(bad[i].line, 0, NULL);
        assert_non_null(line);
        assert_status(ctx, encode(bad[i].template, line, &talk), QKV_FORMAT);
        assert_message(ctx, bad[i].message);
        assert_null(talk.ids);
        json_decref(line);
    }
}

static void expect_refused(const char *source, const char *line, const char *message) {
    struct qkv_chat_template *t;
    struct qkv_talk talk;
    json_t *root = json_loads(line, 0, NULL);
    assert_non_null(root);
    assert_ok(ctx, qkv_chat_template_parse(ctx, "test", source, strlen(source), &t));
    const struct qkv_talk_coder coder = {.ctx = ctx, .tokenizer = tokenizer, .templates = t};
    assert_status(ctx, qkv_talk_encode(&coder, root, &talk), QKV_FORMAT);
    assert_message(ctx, message);
    qkv_chat_template_free(t);
    json_decref(root);
}

/* A talk ends with its last turn, whatever its variables are. */
static void no_answer_is_begun_behind_a_talk(void **state) {
    (void)state;
    static const char *const lines[] = {
        "{\"messages\": [" USER "," REPLY "]}", "{\"messages\": [" USER "," REPLY "],\"chat_template_kwargs\":null}",
        "{\"messages\": [" USER "," REPLY "],\"chat_template_kwargs\":{\"add_generation_prompt\":true}}"};
    struct qkv_talk talks[TEST_COUNT(lines)];
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        json_t *line = json_loads(lines[i], 0, NULL);
        assert_ok(ctx, encode("plain", line, &talks[i]));
        json_decref(line);
        assert_int_equal(talks[i].count, talks[0].count);
        assert_memory_equal(talks[i].ids, talks[0].ids, talks[0].count * sizeof(int32_t));
        assert_memory_equal(talks[i].marks, talks[0].marks, talks[0].count * sizeof(int32_t));
    }
    for (size_t i = 0; i < TEST_COUNT(lines); i++) qkv_talk_free(&talks[i]);
}

/* What a turn adds is unknown where a template writes the past, or the beginning of an answer, differently. */
static void templates_that_do_not_tell_the_turns_are_refused(void **state) {
    (void)state;
    static const char two[] = "{\"messages\": [" USER "," REPLY "," USER "," REPLY "]}";
    expect_refused(
        "{% for m in messages %}{{ m.content }}{% if loop.last and m.role == 'assistant' %}!{% endif %};{% endfor %}",
        two, "message 2: the chat template writes this turn, or one before it, differently when others follow");
    expect_refused("{% for m in messages %}{{ m.content }};{% endfor %}{% if add_generation_prompt %}>{% endif %}", two,
                   "message 2: the chat template begins an answer with other text");
    expect_refused("{% for m in messages %}{{ m.content }}{% generation %}.{% endgeneration %}{% endfor %}",
                   "{\"messages\": [" USER "," REPLY "," USER
                   ",{\"role\":\"assistant\",\"content\":\"b\",\"weight\":0}]}",
                   "4 generation blocks for 2 turns of the assistant");
    expect_refused("{% for m in messages %}{{ raise_exception('no ' + m.content) }}{% endfor %}", two, "no a");
    expect_refused("{{ messages[0].content }}{% generation %}{% endgeneration %}", two,
                   "no token of the answer counts: it is empty");
}

/* ---- the tokenizer's template ------------------------------------------------------------------------------------ */

/* Opens the tokenizer with a post-processor that writes <s> $A </s>. */
static struct qkv_tokenizer *open_framed(void) {
    static const char *const names[] = {"<s>", "</s>"};
    static const char config[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";
    const char *folder = test_path("framed");
    char path[1100];
    struct qkv_tokenizer *framed;
    json_t *root = json_load_file(CASES "tokenizer.json", 0, NULL), *specials = json_object();
    for (int id = 0; id < 2; id++) {
        json_t *special = json_pack("{s:s, s:[i], s:[s]}", "id", names[id], "ids", id, "tokens", names[id]);
        json_object_set_new(specials, names[id], special);
    }
    json_t *single =
        json_pack("[{s:{s:s, s:i}}, {s:{s:s, s:i}}, {s:{s:s, s:i}}]", "SpecialToken", "id", "<s>", "type_id", 0,
                  "Sequence", "id", "A", "type_id", 0, "SpecialToken", "id", "</s>", "type_id", 0);
    json_t *processor = json_object_get(root, "post_processor");
    assert_int_equal(json_object_set_new(processor, "single", single), 0);
    assert_int_equal(json_object_set_new(processor, "special_tokens", specials), 0);
    assert_int_equal(mkdir(folder, 0777), 0);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    test_write_file(path, config, sizeof config - 1);
    assert_ok(ctx, qkv_tokenizer_open(ctx, folder, &framed));
    return framed;
}

/* Texts may have <s> and </s> already. */
static void begin_and_end_are_written_once(void **state) {
    (void)state;
    static const char *const lines[] = {
        "{\"prompt\": \"a\", \"completion\": \"b\"}", "{\"prompt\": \"<s>a\", \"completion\": \"b\"}",
        "{\"prompt\": \"a\", \"completion\": \"b</s>\"}", "{\"prompt\": \"<s>a\", \"completion\": \"b</s>\"}"};
    struct qkv_tokenizer *framed = open_framed();
    const struct qkv_talk_coder coder = {.ctx = ctx, .tokenizer = framed};
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        struct qkv_talk talk;
        json_t *line = json_loads(lines[i], 0, NULL);
        assert_ok(ctx, qkv_talk_encode(&coder, line, &talk));
        assert_int_equal(talk.count, 4);
        assert_int_equal(talk.ids[0], 0);
        assert_int_equal(talk.ids[3], 1);
        for (size_t k = 0; k < 4; k++) assert_int_equal(talk.marks[k], k < 2 ? 0 : QKV_MARK_COUNTS);
        qkv_talk_free(&talk);
        json_decref(line);
    }
    qkv_tokenizer_free(framed);
}

/* ---- templates in another process -------------------------------------------------------------------------------- */

static void packed_templates_write_the_same_text(void **state) {
    (void)state;
    static const char talk[] = "[" USER "," REPLY "]";
    struct qkv_chat_template *t = templates_of("blocks"), *other;
    struct qkv_buffer packed = {0};
    struct qkv_rendered a, b;
    assert_ok(ctx, qkv_chat_template_pack(ctx, t, &packed));
    assert_ok(ctx, qkv_chat_template_unpack(ctx, packed.data, packed.size, &other));
    assert_ok(ctx, qkv_chat_template_render(ctx, t, NULL, talk, sizeof talk - 1, &a));
    assert_ok(ctx, qkv_chat_template_render(ctx, other, NULL, talk, sizeof talk - 1, &b));
    assert_string_equal(a.text, b.text);
    assert_int_equal(strncmp(a.text, "<s>", 3), 0); /* a special token of the folder */
    assert_int_equal(qkv_chat_template_hash(t), qkv_chat_template_hash(other));
    qkv_chat_template_free(other);
    other = templates_of("plain");
    assert_int_not_equal(qkv_chat_template_hash(t), qkv_chat_template_hash(other));
    for (size_t cut = 0; cut < packed.size; cut += 7) {
        struct qkv_chat_template *none;
        assert_status(ctx, qkv_chat_template_unpack(ctx, packed.data, cut, &none), QKV_FORMAT);
        assert_null(none);
    }
    qkv_rendered_free(&a);
    qkv_rendered_free(&b);
    qkv_chat_template_free(t);
    qkv_chat_template_free(other);
    qkv_buffer_free(&packed);
}

static int begin_all(void **state) {
    const int failed = setup(state);
    return failed ? failed : (int)qkv_tokenizer_open(ctx, TEST_SOURCE_DIR "/tests/golden/talks", &tokenizer);
}

static int end_all(void **state) {
    qkv_tokenizer_free(tokenizer);
    return teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_marks_are_those_of_transformers),
        cmocka_unit_test(lines_without_an_answer_are_refused),
        cmocka_unit_test(no_answer_is_begun_behind_a_talk),
        cmocka_unit_test(templates_that_do_not_tell_the_turns_are_refused),
        cmocka_unit_test(begin_and_end_are_written_once),
        cmocka_unit_test(packed_templates_write_the_same_text),
    };
    return cmocka_run_group_tests(tests, begin_all, end_all);
}
