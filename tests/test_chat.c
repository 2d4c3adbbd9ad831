/* Chat templates. Outside oracles: texts that jinja2 made of small templates (chat_cases.json, by chat_cases.py), and
 * texts that transformers made of published templates, if ../shared/data has them. */
/* labels: quick */
#include "test_text.h"

#include <pthread.h>

#include <sys/stat.h>

#include "base/json_load.h"
#include "chat/chat_nodes.h"

static json_t *read_json(struct qkv_context *ctx, const char *name, const void *data, size_t size) {
    const struct qkv_json_text text = {.name = name, .data = data, .size = size, .max_size = SIZE_MAX};
    json_t *root;
    assert_ok(ctx, qkv_json_load(ctx, &text, &root));
    return root;
}

/* Renders a talk; the text or the sentence of the failure, to be freed. */
static char *render(struct qkv_context *ctx, const struct qkv_chat_template *t, const json_t *talk,
                    const json_t *variables, int64_t now, size_t *size) {
    struct qkv_chat_template_options options = qkv_chat_template_defaults();
    struct qkv_rendered out;
    char *text = json_dumps(talk, 0), *more = variables ? json_dumps(variables, 0) : NULL;
    assert_non_null(text);
    options.variables = more;
    options.now = now;
    const enum qkv_status status = qkv_chat_template_render(ctx, t, &options, text, strlen(text), &out);
    free(text);
    free(more);
    *size = out.size;
    if (status) {
        assert_int_equal(status, QKV_FORMAT);
        assert_null(out.text);
        return NULL;
    }
    free(out.spans);
    return out.text;
}

/* Compares a rendering with a case that has a "text" or the "error" of another program. */
static void check_case(struct qkv_context *ctx, const char *source, const json_t *talk, const json_t *variables,
                       int64_t now, const json_t *expected) {
    const json_t *text = json_object_get(expected, "text");
    const char *error = json_string_value(json_object_get(expected, "error"));
    struct qkv_chat_template *t = NULL;
    char *got = NULL;
    size_t size = 0;
    const enum qkv_status status = qkv_chat_template_parse(ctx, "T", source, strlen(source), &t);
    if (!status) got = render(ctx, t, talk, variables, now, &size);
    if (text && !got) fail_msg("%s\nfails: %s", source, qkv_message(ctx));
    if (text && (size != json_string_length(text) || memcmp(got, json_string_value(text), size)))
        fail_msg("%s\ngives\n%s\nand not\n%s", source, got, json_string_value(text));
    if (error && got) fail_msg("%s\ngives\n%s\nand should fail with %s", source, got, error);
    if (error && !strstr(qkv_message(ctx), error))
        fail_msg("%s\nfails with %s\nand not with %s", source, qkv_message(ctx), error);
    if (error && strncmp(qkv_message(ctx), "T, line ", 8)) fail_msg("no line: %s", qkv_message(ctx));
    free(got);
    qkv_chat_template_free(t);
}

static void constructs_are_those_of_jinja2(void **state) {
    size_t size = 0;
    char *data = test_read_file(TEST_SOURCE_DIR "/tests/chat_cases.json", &size);
    assert_non_null(data);
    assert_int_equal(setenv("TZ", "UTC", 1), 0);
    json_t *root = read_json(*state, "chat_cases.json", data, size), *cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) > 150);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        check_case(*state, json_string_value(json_object_get(one, "template")), json_object_get(root, "talk"),
                   json_object_get(root, "variables"), json_integer_value(json_object_get(root, "now")), one);
    }
    json_decref(root);
    free(data);
}

/* One line of expected.jsonl. */
static void check_published(struct qkv_context *ctx, const char *line, size_t size) {
    static const char *const talks[] = {"messages", "tools"}, *const variables[] = {"add_generation_prompt",
                                                                                    "bos_token", "eos_token"};
    json_t *one = read_json(ctx, "expected.jsonl", line, size), *talk = json_object(), *more = json_object();
    const char *error = json_string_value(json_object_get(one, "error"));
    const char *colon = error ? strstr(error, ": ") : NULL;
    char path[200];
    for (size_t i = 0; i < TEST_COUNT(talks); i++) json_object_set(talk, talks[i], json_object_get(one, talks[i]));
    for (size_t i = 0; i < TEST_COUNT(variables); i++)
        json_object_set(more, variables[i], json_object_get(one, variables[i]));
    if (colon) json_object_set_new(one, "error", json_string(colon + 2)); /* without Python's name of it */
    snprintf(path, sizeof path, "chat-templates/%s", json_string_value(json_object_get(one, "template")));
    char *source = test_shared_file(path, &size);
    assert_non_null(source);
    check_case(ctx, source, talk, more, 0, one);
    free(source);
    json_decref(one);
    json_decref(talk);
    json_decref(more);
}

static void published_templates_write_what_transformers_writes(void **state) {
    size_t size = 0, lines = 0;
    char *data = test_shared_file("chat-templates/expected.jsonl", &size);
    if (!data) {
        printf("../shared/data has no chat templates: skipped\n");
        skip();
    }
    for (const char *at = data, *end; (end = strchr(at, '\n')); at = end + 1, lines++)
        check_published(*state, at, (size_t)(end - at));
    assert_int_equal(lines, 254);
    free(data);
}

/* ---- talks ------------------------------------------------------------------------------------------------------- */

static struct qkv_chat_template *parse(struct qkv_context *ctx, const char *source) {
    struct qkv_chat_template *t;
    assert_ok(ctx, qkv_chat_template_parse(ctx, "T", source, strlen(source), &t));
    return t;
}

static void talks_that_are_none_are_refused_by_message(void **state) {
    static const char *const cases[][2] = {
        {"", "the talk is empty"},
        {"5", "the talk is not valid JSON"},
        {"{}", "neither a list of messages nor an object with a list \"messages\""},
        {"{\"messages\": {}}", "neither a list of messages"},
        {"[1]", "message 1 is no object"},
        {"[{\"role\": \"user\", \"content\": \"a\"}, {\"content\": \"b\"}]", "message 2 has no \"role\""},
        {"[{\"role\": 5}]", "message 1 has no \"role\""},
        {"[{\"role\": \"user\", \"content\": 5}]", "the content of message 1 is neither a text nor a list of parts"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"url\": \"x\"}]}]",
         "message 1 has a part of type image; models here read parts of type text only"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]", "part 1 of message 1 has no \"text\""},
        {"[{\"role\": \"user\", \"content\": [\"a\"]}]", "part 1 of message 1 has no \"type\""},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}]",
         "the content of message 1 is a list of parts, but this template reads contents that are one text"},
        {"[{\"role\": \"user\", \"role\": \"user\"}]", "duplicate"},
    };
    struct qkv_chat_template *t = parse(*state, "{{ messages[0].content }}");
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_rendered out;
        assert_int_equal(qkv_chat_template_render(*state, t, NULL, cases[i][0], strlen(cases[i][0]), &out), QKV_FORMAT);
        if (!strstr(qkv_message(*state), cases[i][1])) fail_msg("%s: %s", cases[i][0], qkv_message(*state));
    }
    qkv_chat_template_free(t);
}

static void check_text(struct qkv_context *ctx, const struct qkv_chat_template *t,
                       const struct qkv_chat_template_options *options, const char *talk, const char *expected) {
    struct qkv_rendered out;
    assert_ok(ctx, qkv_chat_template_render(ctx, t, options, talk, strlen(talk), &out));
    assert_string_equal(out.text, expected);
    assert_int_equal(out.size, strlen(expected));
    qkv_rendered_free(&out);
    assert_null(out.text);
}

static void contents_that_are_parts_of_text_reach_templates_that_read_them(void **state) {
    struct qkv_chat_template *t = parse(*state, "{% for p in messages[0].content %}{{ p.text }};{% endfor %}");
    check_text(*state, t, NULL,
               "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"text\", "
               "\"text\": \"b\"}]}]",
               "a;b;");
    qkv_chat_template_free(t);
}

static void later_variables_win_over_earlier_ones(void **state) {
    struct qkv_chat_template_options options = qkv_chat_template_defaults();
    struct qkv_chat_template *t = parse(*state, "{{ tools }}{{ documents }}{{ a }}{{ b }}{{ add_generation_prompt }}");
    check_text(*state, t, NULL, "[]", "NoneNoneFalse");
    check_text(*state, t, NULL, "{\"messages\": [], \"a\": 1, \"b\": \"x\", \"tools\": []}", "[]None1xFalse");
    options.variables = "{\"a\": 2}";
    options.add_generation_prompt = true;
    check_text(*state, t, &options, "{\"messages\": [], \"a\": 1, \"b\": 2, \"add_generation_prompt\": false}",
               "NoneNone22True");
    options.variables = "[1]";
    struct qkv_rendered out;
    assert_fails(*state, qkv_chat_template_render(*state, t, &options, "[]", 2, &out), QKV_FORMAT,
                 "the object of variables is no JSON object");
    options.variables = NULL;
    options.name = "rag";
    assert_fails(*state, qkv_chat_template_render(*state, t, &options, "[]", 2, &out), QKV_ARGUMENT,
                 "T has no chat template rag; it has default");
    qkv_chat_template_free(t);
}

static void spans_are_the_bytes_of_generation_blocks(void **state) {
    static const char source[] =
        "é{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content }}!{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n{% endfor %}";
    static const char talk[] =
        "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"ü\"}, "
        "{\"role\": \"assistant\", \"content\": \"\"}]";
    struct qkv_chat_template *t = parse(*state, source);
    struct qkv_rendered out;
    assert_ok(*state, qkv_chat_template_render(*state, t, NULL, talk, strlen(talk), &out));
    assert_int_equal(out.span_count, 2);
    assert_int_equal(out.spans[1] - out.spans[0], 3);
    assert_memory_equal(out.text + out.spans[0], "ü!", 3);
    assert_int_equal(out.spans[3] - out.spans[2], 1);
    assert_memory_equal(out.text + out.spans[2], "!", 1);
    qkv_rendered_free(&out);
    qkv_chat_template_free(t);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* Renders with small limits, and expects a failure that says `wanted`. */
static void check_limit(struct qkv_context *ctx, const char *source, const char *wanted) {
    static const struct chat_limits limits = {.steps = 200000, .memory = 4 << 20, .output = 1 << 20};
    struct chat_program *program = NULL;
    struct chat_rendered out = {0};
    enum qkv_status status = qkv_chat_parse(ctx, "T", source, strlen(source), &program);
    if (!status) status = qkv_chat_render(ctx, program, NULL, 0, &limits, 0, &out);
    if ((status != QKV_FORMAT && status != QKV_MEMORY) || !strstr(qkv_message(ctx), wanted))
        fail_msg("%.200s: %d, %s, and not %s", source, (int)status, qkv_message(ctx), wanted);
    qkv_forgive(ctx);
    qkv_chat_program_free(program);
}

static char *repeat(const char *before, const char *part, size_t times, const char *after) {
    const size_t n = strlen(part), begin = strlen(before);
    char *text = malloc(begin + n * times + strlen(after) + 1);
    assert_non_null(text);
    memcpy(text, before, begin);
    for (size_t i = 0; i < times; i++) memcpy(text + begin + i * n, part, n);
    strcpy(text + begin + n * times, after);
    return text;
}

static void hostile_templates_end_with_a_sentence(void **state) {
    static const char *const cases[][2] = {
        {"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "does not end"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested more than"},
        {"{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nested more than"},
        {"{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}", ""},
        {"{% set n = namespace(l=[]) %}{% for i in range(900) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}",
         "nested more than"},
        {"{% set n = namespace(l=[]) %}{% for i in range(900) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l|tojson }}",
         "nested more than"},
        {"{% set n = namespace(l=[], k=[]) %}{% for i in range(900) %}{% set n.l = [n.l] %}{% set n.k = [n.k] %}"
         "{% endfor %}{{ n.l == n.k }}",
         "nested more than"},
        {"{% set n = namespace() %}{% set n.self = n %}{{ n }}", "nested more than"},
        {"{{ 'x' * 100000000 }}", "which is the limit"},
        {"{{ [1] * 100000000000000 }}", "which is the limit"},
        {"{{ 'ab' * 9223372036854775807 }}", "which is the limit"},
        {"{{ 'x'.center(999999999999) }}", "which is the limit"},
        {"{{ '%999999999d' % 5 }}", "too large"},
        {"{{ '{:>99999999999}'.format(5) }}", ""},
        {"{{ 'a'|indent(1000000000, true) }}", "which is the limit"},
        {"{% set n = namespace(s='x') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
         "which is the limit"},
        {"{% set n = namespace(s='x') %}{% for i in range(60) %}{% set n.s = n.s.replace('x', 'xx') %}{% endfor %}",
         "which is the limit"},
        {"{{ range(1000000) }}", "Range too big"},
        {"{{ 9223372036854775807 + 1 }}", "does not fit in 64 bits"},
        {"{{ -9223372036854775807 - 2 }}", "does not fit in 64 bits"},
        {"{{ 3 ** 100 }}", "does not fit in 64 bits"},
        {"{{ 99999999999999999999 }}", "does not fit in 64 bits"},
        {"{{ ''.__class__.__mro__[1].__subclasses__() }}", "is unsafe"},
        {"{{ [].append(1) }}", "access to attribute 'append' of 'list' object is unsafe."},
        {"{{ (''|attr('__class__')).x }}", "is unsafe"},
        {"{{ ''.format.__globals__.x }}", "is unsafe"},
        {"{{ '{0.__class__.__mro__}'.format('') }}", "is unsafe"},
        {"{% include 'x' %}", "a chat template is alone"},
        {"{{ [1, 2, 3]|map('zzz')|list }}", "No filter named 'zzz'."},
        {"{{ '\\ud800' }}", "wrong escape"},
    };
    static const char *const deep[] = {"(", "[", "{1:", "-", "not (", "x[", "f(", "1 if (", "'a' ~ (", "{0:[("};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) check_limit(*state, cases[i][0], cases[i][1]);
    for (size_t i = 0; i < TEST_COUNT(deep); i++) {
        char *source = repeat("{{ ", deep[i], 50000, " }}");
        check_limit(*state, source, "");
        free(source);
    }
    static const char *const blocks[] = {"{% if 1 %}", "{% for i in [1] %}", "{% macro a() %}", "{% filter upper %}"};
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
        char *source = repeat("", blocks[i], 20000, "");
        check_limit(*state, source, "nested too deeply");
        free(source);
    }
    char *sums = repeat("{{ 1", " + 1", 50000, " }}");
    check_limit(*state, sums, "nested more than");
    free(sums);
    char *large = repeat("", "0123456789abcdef", 70000, "");
    check_limit(*state, large, "a chat template has at most");
    free(large);
}

/* ---- folders, threads, speed ------------------------------------------------------------------------------------- */

static const char *folder_file(const char *folder, const char *name, const char *text) {
    static char path[1200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return path;
}

static void check_open(struct qkv_context *ctx, const char *path, const char *talk, const char *expected) {
    struct qkv_chat_template *t;
    assert_ok(ctx, qkv_chat_template_open(ctx, path, NULL, &t));
    check_text(ctx, t, NULL, talk, expected);
    qkv_chat_template_free(t);
}

static void folders_give_their_templates_and_tokens(void **state) {
    static const char tools[] = "{\"messages\": [], \"tools\": [1]}";
    struct qkv_chat_template *t;
    struct qkv_rendered out;
    char folder[1024], more[1100];
    snprintf(folder, sizeof folder, "%s", test_path("chat-model"));
    snprintf(more, sizeof more, "%s/additional_chat_templates", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_fails(*state, qkv_chat_template_open(*state, folder, NULL, &t), QKV_FILE, "has no chat template");
    folder_file(folder, "special_tokens_map.json", "{\"bos_token\": {\"content\": \"<b>\"}, \"unk_token\": \"<u>\"}");
    folder_file(folder, "tokenizer_config.json",
                "{\"chat_template\": \"1{{ bos_token }}{{ eos_token }}{{ unk_token }}\", \"eos_token\": \"</s>\", "
                "\"add_bos_token\": true}");
    check_open(*state, folder, "[]", "1<b></s><u>");
    check_open(*state, folder, tools, "1<b></s><u>");
    folder_file(folder, "tokenizer_config.json",
                "{\"chat_template\": [{\"name\": \"default\", \"template\": \"d\"}, {\"name\": \"tool_use\", "
                "\"template\": \"t\"}, {\"name\": \"bad\", \"template\": \"{% if\"}]}");
    check_open(*state, folder, "[]", "d");
    check_open(*state, folder, tools, "t");
    const char *names[3], *sources[3];
    size_t sizes[3];
    assert_ok(*state, qkv_chat_template_open(*state, folder, NULL, &t));
    for (size_t i = 0; i < 3; i++) assert_true(qkv_chat_template_at(t, i, &names[i], &sources[i], &sizes[i]));
    assert_false(qkv_chat_template_at(t, 3, names, sources, sizes));
    assert_string_equal(names[1], "tool_use");
    assert_string_equal(sources[2], "{% if");
    assert_int_equal(sizes[2], 5);
    qkv_chat_template_free(t);
    const struct qkv_chat_template_options bad = {.size = sizeof bad, .name = "bad"};
    assert_ok(*state, qkv_chat_template_open(*state, folder, NULL, &t));
    assert_fails(*state, qkv_chat_template_render(*state, t, &bad, "[]", 2, &out), QKV_FORMAT, "line 1");
    qkv_chat_template_free(t);
    folder_file(folder, "chat_template.json", "{\"chat_template\": \"j\"}");
    check_open(*state, folder, "[]", "j");
    folder_file(folder, "chat_template.jinja", "file\n");
    check_open(*state, folder, "[]", "file");
    assert_int_equal(mkdir(more, 0700), 0);
    folder_file(more, "tool_use.jinja", "tools");
    check_open(*state, folder, tools, "tools");
    const char *other = folder_file(folder, "other.jinja", "{{ messages|length }}{{ unk_token }}");
    check_open(*state, other, "[]", "0");
    assert_ok(*state, qkv_chat_template_open(*state, folder, other, &t));
    check_text(*state, t, NULL, "[]", "0<u>");
    qkv_chat_template_free(t);
}

static void *render_often(void *argument) {
    const struct qkv_chat_template *t = argument;
    struct qkv_context *ctx = NULL;
    static const char talk[] = "[{\"role\": \"user\", \"content\": \"a\"}]";
    bool right = !qkv_context_create(&ctx, NULL);
    for (size_t i = 0; i < 200 && right; i++) {
        struct qkv_rendered out;
        right = !qkv_chat_template_render(ctx, t, NULL, talk, strlen(talk), &out) && !strcmp(out.text, "0:user=a;1");
        qkv_rendered_free(&out);
    }
    qkv_context_free(ctx);
    return right ? argument : NULL;
}

static void threads_share_a_template(void **state) {
    struct qkv_chat_template *t =
        parse(*state, "{% set ns = namespace(n=0) %}{% for m in messages %}{{ loop.index0 }}:{{ m.role }}={{ m.content "
                      "}};{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}");
    pthread_t threads[4];
    for (size_t i = 0; i < TEST_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, render_often, t), 0);
    for (size_t i = 0; i < TEST_COUNT(threads); i++) {
        void *right;
        assert_int_equal(pthread_join(threads[i], &right), 0);
        assert_ptr_equal(right, t);
    }
    qkv_chat_template_free(t);
}

/* Random programs of pieces of templates, and random talks: nothing but a text or a sentence comes of them. */
static void random_templates_give_a_text_or_a_sentence(void **state) {
    static const char *const leaves[] = {
        "{{ m.content }}",
        "{{ messages|map(attribute='role')|join(',') }}",
        "{% set x = x ~ 'é' %}",
        "{{ x[::-1] }}",
        "{{ messages[-1:] }}",
        "{{ m|tojson(indent=2) }}",
        "{{ f(1) }}",
        "{{ loop.index }}",
        "{% break %}",
        "{{ messages|sort(attribute='content') }}",
        "{{ '%5.1f' % 3 }}",
        "{{ x.split('é')|list }}",
        "text\n",
        "{# c #}",
        "{{ messages|groupby('role') }}",
        "{{ f(f(m)) }}",
        "{% else %}",
        " -%}",
        "{{",
        "{{ 5|zzz }}",
        "{{ {'a': x} }}",
    };
    static const char *const blocks[][2] = {
        {"{% for m in messages %}", "{% endfor %}"},
        {"{% if m.role == 'user' -%} ", "{% endif %}"},
        {"{% macro f(a, b=1) %}", "{%- endmacro %}"},
        {"{% generation %}", "{% endgeneration %}"},
        {"{% filter upper %}", "{% endfilter %}"},
        {"{% set x %}", "{% endset %}"},
        {"{% with y = x %}", "{% endwith %}"},
        {"{% call f(2) %}", "{% endcall %}"},
        {"{% for k, v in m.items() if v %}", "{% endfor %}"},
    };
    static const struct chat_limits limits = {.steps = 100000, .memory = 4 << 20, .output = 1 << 20};
    struct qkv_random random = test_random(1);
    json_t *talk = json_pack("{s:[{s:s, s:s}, {s:s, s:n}]}", "messages", "role", "user", "content", "Grüße", "role",
                             "assistant", "content");
    size_t rendered = 0;
    for (size_t i = 0; i < 20000; i++) {
        char source[2048] = "";
        size_t open[12], depth = 0;
        struct chat_program *program;
        struct chat_rendered out = {0};
        for (size_t k = test_between(&random, 1, 12); k || depth; k -= k > 0) {
            const size_t choice = k ? qkv_random_below(&random, 8) : 0;
            if (choice < 2 && depth)
                strcat(source, blocks[open[--depth]][1]);
            else if (choice < 5 && k)
                strcat(source, blocks[open[depth++] = qkv_random_below(&random, TEST_COUNT(blocks))][0]);
            else
                strcat(source, leaves[qkv_random_below(&random, TEST_COUNT(leaves))]);
        }
        enum qkv_status status = qkv_chat_parse(*state, "T", source, strlen(source), &program);
        if (!status) status = qkv_chat_render(*state, program, &(const json_t *){talk}, 1, &limits, 0, &out);
        if (status && ((status != QKV_FORMAT && status != QKV_MEMORY) || !*qkv_message(*state)))
            fail_msg("%s: %d", source, (int)status);
        if (!status && qkv_utf8_length(out.text, out.size) == 0 && out.size) fail_msg("%s: not UTF-8", source);
        rendered += !status;
        qkv_forgive(*state);
        free(out.text);
        free(out.spans);
        qkv_chat_program_free(program);
    }
    assert_true(rendered > 1000);
    json_decref(talk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructs_are_those_of_jinja2),
        cmocka_unit_test(published_templates_write_what_transformers_writes),
        cmocka_unit_test(talks_that_are_none_are_refused_by_message),
        cmocka_unit_test(contents_that_are_parts_of_text_reach_templates_that_read_them),
        cmocka_unit_test(later_variables_win_over_earlier_ones),
        cmocka_unit_test(spans_are_the_bytes_of_generation_blocks),
        cmocka_unit_test(hostile_templates_end_with_a_sentence),
        cmocka_unit_test(folders_give_their_templates_and_tokens),
        cmocka_unit_test(threads_share_a_template),
        cmocka_unit_test(random_templates_give_a_text_or_a_sentence),
    };
    return cmocka_run_group_tests(tests, test_context, test_context_done);
}
