/* export.c: "qkv export" writes a copy of a model folder with its weights in another number format. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

struct arguments {
    const char *dtype, *out, *to, *family;
    bool force, json;
    struct cli_common common;
};

static const struct arguments defaults = {.common = {.threads = 1, .precision = "fp32"}};

static const struct cli_option options[] = {
    {CLI_TEXT, 0, "dtype", "NAME", offsetof(struct arguments, dtype), .choice = cli_choose_format,
     .help = "number format of the matrices: {}; biases and norms keep their format"},
    {CLI_TEXT, 0, "to", "WHAT", offsetof(struct arguments, to), .choice = cli_choose_export,
     .help = "kind of folder: qkv, or huggingface, which transformers opens", .before = "qkv"},
    {CLI_TEXT, 0, "family", "TYPE", offsetof(struct arguments, family),
     .help = "with --to huggingface: model_type to write, such as llama",
     .before = "the family that the model came from, else the first that can express it"},
    {CLI_FOLDER, 'o', "out", "FOLDER", offsetof(struct arguments, out), .help = "model folder to write"},
    {CLI_FOLDER, 0, "output", "FOLDER", offsetof(struct arguments, out), .help = "older name of --out"},
    CLI_JSON(struct arguments, "what was written"),
    CLI_FORCE(struct arguments),
    CLI_IGNORE_MEMORY(struct arguments),
    CLI_IGNORE_DIGEST(struct arguments),
};

CLI_CONDITION(is_ours, struct arguments, !a->to || strcmp(a->to, "huggingface") != 0)

static const struct cli_rule rules[] = {
    {"family", is_ours, "only Hugging Face folders have families; add --to huggingface"},
};

static int export_write(struct qkv_context *ctx, const struct arguments *a, struct qkv_model *model) {
    const enum qkv_status status = !a->to || strcmp(a->to, "huggingface")
                                       ? qkv_model_export(model, a->dtype, a->out)
                                       : qkv_model_export_published(model, a->family, a->dtype, a->out);
    return status ? cli_broken(ctx) : CLI_DONE;
}

/* Whether the tensors that the model does not use are written too. */
static bool export_writes_unused(const struct arguments *a, const struct qkv_model *model) {
    const char *own = qkv_model_family(model);
    return a->to && !strcmp(a->to, "huggingface") && (!a->family || (own && !strcmp(a->family, own)));
}

static void export_say_unused(const struct arguments *a, const struct qkv_model *model) {
    char names[400] = "";
    const char *name;
    if (export_writes_unused(a, model) || !qkv_model_unused_tensor(model, 0)) return;
    for (size_t i = 0, used = 0; (name = qkv_model_unused_tensor(model, i)) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", name);
    cli_say(
        "%s has no %s, which the model does not use; export it with --to huggingface in its own family to keep them",
        a->out, names);
}

static int export_json(const struct arguments *a, const struct qkv_model *model) {
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "folder", a->out);
    qkv_json_put_text(&out, "to", a->to ? a->to : "qkv");
    qkv_json_put_text(&out, "dtype", a->dtype);
    qkv_json_put_text(&out, "warning", qkv_model_warning(model));
    qkv_json_put_text(&out, "tokenizer_problem", qkv_model_tokenizer_problem(model));
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

static void export_tell(const struct arguments *a, const struct qkv_model *model) {
    char count[CLI_NUMBER];
    size_t numbers = 0;
    for (size_t i = 0; i < qkv_model_parameters(model); i++)
        numbers += qkv_array_elements(qkv_model_parameter(model, i));
    cli_wrote(a->out, "%s parameters, %s in %s", cli_grouped(count, numbers),
              a->to && !strcmp(a->to, "huggingface") ? "a Hugging Face folder with all numbers" : "the matrices",
              a->dtype);
}

static int export_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct qkv_opening *opening = NULL;
    struct qkv_model *model = NULL;
    char names[160];
    if (count != 1)
        return cli_usage("export: name one model folder: %s export RUN --dtype bf16 --out FOLDER", cli_program);
    if (!a->dtype)
        return cli_usage("export: name a number format: --dtype NAME (%s)",
                         cli_choices_text(&options[0], names, sizeof names));
    if (!a->out) return cli_usage("export: name a folder to write: --out FOLDER");
    int code = cli_open(&a->common, &ctx);
    const struct qkv_use_options use = {
        .size = sizeof use, .use = a->to && !strcmp(a->to, "huggingface") ? QKV_USE_PUBLISH : QKV_USE_EXPORT};
    if (!code && (qkv_model_open(ctx, words[0], NULL, &opening) || qkv_opening_check_use(opening, &use) ||
                  qkv_model_fill(opening, &model)))
        code = cli_broken(ctx);
    qkv_opening_free(opening);
    if (!code) code = export_write(ctx, a, model);
    if (!code && qkv_model_warning(model)) cli_say("warning: %s", qkv_model_warning(model));
    if (!code && qkv_model_tokenizer_problem(model))
        cli_say("%s has no tokenizer: %s", a->out, qkv_model_tokenizer_problem(model));
    if (!code) export_say_unused(a, model);
    if (!code && a->json)
        code = export_json(a, model);
    else if (!code)
        export_tell(a, model);
    qkv_model_free(model);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_export(void) {
    static const char *const files[] = {QKV_MODEL_FILES, NULL};
    static const struct cli_command command = {
        .name = "export",
        .words = CLI_WORD_MODEL,
        .writes = files,
        .replaces = true,
        .summary = "write a model in f16 or bf16, or as a Hugging Face folder",
        .usage = "RUN --dtype bf16 --out FOLDER [--force]\n"
                 "RUN --to huggingface [--family TYPE] --dtype bf16 --out FOLDER [--force]",
        .description =
            "Writes config.json, the tokenizers, the labels and model.safetensors of a model or run into a folder, "
            "with all matrices rounded to another number format. Commands that run this model map the file into memory "
            "and convert parts of a matrix when they multiply it, so f16 and bf16 need half the memory. The results "
            "are, bit for bit, those of the rounded numbers in fp32. Training from the folder (train --from) begins "
            "with copies in fp32.\n\n"
            "With --to huggingface the folder is one that transformers opens: it has the configuration and the tensors "
            "of a published family, with all numbers in the format of --dtype. If the family has a bias that the model "
            "does not have, the bias is written as zeros. A model that no family can express is refused, with the "
            "settings (--set) that make a new model one of the nearest family.",
        .examples = "qkv export run/ --dtype bf16 --out small/\n"
                    "qkv generate small/ --prompt \"Once\"\n"
                    "qkv export run/ --to huggingface --dtype bf16 --out run-hf/",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .run = export_run,
    };
    return &command;
}
