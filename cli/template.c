/* template.c: "qkv template": the text that a model sees of a talk, or its token ids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_chat.h"

struct arguments {
    const char *messages, *template, *name, *bos, *eos;
    struct cli_texts set;
    bool prompt, ids, json;
    struct cli_common common;
};

static const struct arguments defaults = {.common = {.threads = 1}};

static const struct cli_option options[] = {
    {CLI_READ, 0, "messages", "FILE", offsetof(struct arguments, messages),
     .help = "talk as JSON: a list of messages, or an object with messages, tools, documents and further variables; -: "
             "standard input",
     .before = "standard input"},
    {CLI_FLAG, 0, "add-generation-prompt", NULL, offsetof(struct arguments, prompt),
     .help = "end with what begins an answer of the model"},
    {CLI_FLAG, 0, "ids", NULL, offsetof(struct arguments, ids),
     .help = "print the token ids of the text, with its special tokens recognized and none added"},
    {CLI_READ, 0, "template", "FILE", offsetof(struct arguments, template),
     .help = "template to use in place of the model's; then a model is only needed for its special tokens and --ids"},
    {CLI_TEXT, 0, "name", "NAME", offsetof(struct arguments, name), .help = "template to use, if the model has several",
     .before = "tool_use if the talk has tools and the model has that template, else default"},
    {CLI_TEXT, 0, "bos", "TEXT", offsetof(struct arguments, bos), .help = "variable bos_token",
     .before = "that of the model"},
    {CLI_TEXT, 0, "eos", "TEXT", offsetof(struct arguments, eos), .help = "variable eos_token",
     .before = "that of the model"},
    {CLI_TEXTS, 0, "set", "KEY=VALUE", offsetof(struct arguments, set),
     .help = "further variable of the template: true, false, null, a number, a JSON list, object or string in quotes, "
             "else a text; it wins over the talk's"},
    CLI_JSON(struct arguments, "{\"text\", \"generation\"} (the bytes [begin, end) of generation blocks), with --ids "
                               "also {\"ids\"},"),
};

CLI_CONDITION(has_no_model, struct arguments, arguments == 0)
CLI_CONDITION(has_template, struct arguments, a->template != NULL)

static const struct cli_rule rules[] = {
    {"ids", has_no_model, "token ids need the tokenizer of a model; name one"},
    {"name", has_template, "the file of --template has one template; leave one of them out"},
};

/* The variables of the options, in the style. */
static int template_variables(const struct arguments *a, struct cli_talk_style *style) {
    int code = CLI_DONE;
    if (a->bos) code = cli_talk_set_text(style, "bos_token", a->bos);
    if (a->eos && !code) code = cli_talk_set_text(style, "eos_token", a->eos);
    for (size_t i = 0; i < a->set.count && !code; i++) code = cli_talk_set(style, a->set.items[i]);
    return code;
}

static void template_put_json(const struct qkv_rendered *rendered, const int32_t *ids, size_t count,
                              struct qkv_json *out) {
    qkv_json_begin(out, '{');
    qkv_json_key(out, "text");
    qkv_json_string(out, rendered->text, rendered->size);
    qkv_json_key(out, "generation");
    qkv_json_begin(out, '[');
    for (size_t i = 0; i < rendered->span_count; i++) {
        qkv_json_begin(out, '[');
        qkv_json_count(out, rendered->spans[2 * i]);
        qkv_json_count(out, rendered->spans[2 * i + 1]);
        qkv_json_end(out, ']');
    }
    qkv_json_end(out, ']');
    if (ids) {
        qkv_json_key(out, "ids");
        qkv_json_begin(out, '[');
        for (size_t i = 0; i < count; i++) qkv_json_integer(out, ids[i]);
        qkv_json_end(out, ']');
    }
    qkv_json_end(out, '}');
}

static int template_print(struct qkv_context *ctx, const struct arguments *a, const char *model,
                          const struct qkv_rendered *rendered) {
    struct qkv_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    int code = CLI_DONE;
    if (a->ids && (qkv_folder_tokenizer(ctx, model, &tokenizer) ||
                   qkv_tokenizer_encode(ctx, tokenizer, rendered->text, rendered->size, true, &ids, &count)))
        code = cli_broken(ctx);
    if (code == CLI_DONE && a->json) {
        struct qkv_json out = cli_json();
        template_put_json(rendered, ids, count, &out);
        code = cli_json_end(&out);
    } else if (code == CLI_DONE && a->ids) {
        for (size_t i = 0; i < count; i++) printf(i ? " %d" : "%d", ids[i]);
        putchar('\n');
    } else if (code == CLI_DONE) {
        fwrite(rendered->text, 1, rendered->size, stdout);
    }
    qkv_free(ids);
    qkv_tokenizer_free(tokenizer);
    return code;
}

static int template_render(struct qkv_context *ctx, const struct arguments *a, const char *model,
                           const char *variables) {
    struct qkv_chat_template_options o = qkv_chat_template_defaults();
    struct qkv_chat_template *t = NULL;
    struct qkv_rendered rendered = {0};
    char *talk = NULL;
    size_t size = 0;
    o.name = a->name;
    o.variables = variables;
    o.add_generation_prompt = a->prompt;
    if (qkv_chat_template_open(ctx, model ? model : a->template, model ? a->template : NULL, &t))
        return cli_broken(ctx);
    int code = cli_read_all(a->messages ? a->messages : "-", QKV_CHAT_TALK, &talk, &size);
    if (code == CLI_DONE && qkv_chat_template_render(ctx, t, &o, talk, size, &rendered)) code = cli_broken(ctx);
    if (code == CLI_DONE) code = template_print(ctx, a, model, &rendered);
    free(talk);
    qkv_rendered_free(&rendered);
    qkv_chat_template_free(t);
    return code;
}

static int template_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct cli_talk_style style = {0};
    if (!count && !a->template)
        return cli_usage("template: name a model: a folder or a GGUF file; or a template: --template FILE");
    int code = template_variables(a, &style);
    if (code == CLI_DONE) code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) code = template_render(ctx, a, count ? words[0] : NULL, style.variables);
    cli_talk_close(&style);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_template(void) {
    static const struct cli_command command = {
        .name = "template",
        .words = CLI_WORD_MODEL,
        .summary = "print the text that a model sees of a talk, by its chat template",
        .usage = "MODEL --messages talk.json [--add-generation-prompt] [--ids]\n"
                 "--template FILE --messages talk.json [--bos TEXT] [--eos TEXT]",
        .description =
            "MODEL is a folder, published or a run, or a GGUF file. The talk is JSON: a list of messages "
            "{\"role\": \"user\", \"content\": \"Hello\"}, or an object with \"messages\" and what else the template "
            "reads, such as \"tools\". The template is run as Hugging Face's transformers runs it, and the text is "
            "printed byte for byte, without a line end of its own. A template is chat_template.jinja in the folder, or "
            "the key chat_template of tokenizer_config.json, or the key tokenizer.chat_template of a GGUF file.",
        .examples = "qkv template run/ --messages talk.json --add-generation-prompt\n"
                    "qkv template run/ --ids --set enable_thinking=false < talk.json\n"
                    "qkv template --template chat.jinja --bos \"<s>\" --messages talk.json",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .run = template_run,
    };
    return &command;
}
