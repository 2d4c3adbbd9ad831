/* export.c: "qkv export" writes a copy of a model with its weights in another number format: a folder of qkv, a folder
 * of a published family, or a GGUF file. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli_adapters.h"

struct arguments {
    const char *dtype, *out, *to, *family;
    bool force, json, quiet;
    struct cli_common common;
};

static const struct arguments defaults = {.common = {.threads = 1, .precision = "fp32"}};

static const struct cli_option options[] = {
    {CLI_TEXT, 0, "dtype", "NAME", offsetof(struct arguments, dtype), .choice = cli_choose_format, .open = true,
     .help = "number format of the matrices: {}, and in GGUF files their types, such as q8_0; biases and norms keep "
             "their format"},
    {CLI_TEXT, 0, "to", "WHAT", offsetof(struct arguments, to), .choice = cli_choose_export,
     .help = "kind of model: qkv, huggingface, a folder that transformers opens, or gguf, a file that llama.cpp opens; "
             "or the adapter alone: peft, a folder of PEFT, or gguf-adapter, a file for --lora of llama.cpp",
     .before = "qkv"},
    {CLI_TEXT, 0, "family", "TYPE", offsetof(struct arguments, family),
     .help = "with --to huggingface, gguf or gguf-adapter: model_type to write, such as llama",
     .before = "the family that the model came from, else the first that can express it"},
    {CLI_FOLDER, 'o', "out", "FOLDER", offsetof(struct arguments, out),
     .help = "folder to write; with --to gguf or gguf-adapter, the file"},
    {CLI_FOLDER, 0, "output", "FOLDER", offsetof(struct arguments, out), .help = "older name of --out"},
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), .help = "show no progress", .subject = "output"},
    CLI_ADAPTER(struct arguments),
    CLI_JSON(struct arguments, "what was written"),
    CLI_FORCE(struct arguments),
    CLI_IGNORE_MEMORY(struct arguments),
    CLI_IGNORE_DIGEST(struct arguments),
};

static bool export_to(const struct arguments *a, const char *what) {
    return a->to && !strcmp(a->to, what);
}

/* Whether the adapter alone is written. */
static bool export_is_adapter(const struct arguments *a) {
    return export_to(a, "peft") || export_to(a, "gguf-adapter");
}

CLI_CONDITION(is_ours, struct arguments, !a->to || export_to(a, "qkv"))
CLI_CONDITION(is_folder, struct arguments, !export_to(a, "gguf"))
CLI_CONDITION(is_peft, struct arguments, export_to(a, "peft"))

static const struct cli_rule rules[] = {
    {"family", is_peft, "an adapter of PEFT has the names of the model's own family; leave it out"},
    {"family", is_ours, "only Hugging Face folders and GGUF files have families; add --to huggingface"},
    {"quiet", is_folder, "folders and adapters are written without progress; it is for --to gguf"},
    {"dtype", is_peft, "folders of PEFT have f32; leave it out"},
};

static bool export_writes_file(const void *values) {
    return export_to(values, "gguf") || export_to(values, "gguf-adapter");
}

/* Checks the number format before the model is read. */
static int export_check_format(const struct arguments *a) {
    char names[160], near[48] = "";
    const char *closest;
    if (export_is_adapter(a) && !a->common.adapter)
        return cli_usage("export: --to %s writes an adapter; say which one with --adapter", a->to);
    if (export_to(a, "gguf-adapter") && a->dtype && strcasecmp(a->dtype, "f32") && strcasecmp(a->dtype, "f16") &&
        strcasecmp(a->dtype, "bf16"))
        return cli_usage("--dtype is \"%s\"; adapters have f32, f16 or bf16", a->dtype);
    if (export_is_adapter(a)) return CLI_DONE;
    if (!a->dtype && !export_to(a, "gguf"))
        return cli_usage("export: name a number format: --dtype NAME (%s)",
                         cli_choices_text(&options[0], names, sizeof names));
    if (export_to(a, "gguf") || cli_choices_have(&options[0], a->dtype, &closest)) return CLI_DONE;
    if (closest) snprintf(near, sizeof near, "; did you mean %s?", closest);
    return cli_usage("--dtype is \"%s\"; it must be %s, or with --to gguf any type of weights%s (\"%s help export\" "
                     "explains it)",
                     a->dtype, cli_choices_text(&options[0], names, sizeof names), near, cli_program);
}

static int export_write(struct qkv_context *ctx, const struct arguments *a, struct qkv_model *model) {
    const enum qkv_status status = export_to(a, "huggingface")
                                       ? qkv_model_export_published(model, a->family, a->dtype, a->out)
                                       : qkv_model_export(model, a->dtype, a->out);
    return status ? cli_broken(ctx) : CLI_DONE;
}

/* Whether the tensors that the model does not use are written too. */
static bool export_writes_unused(const struct arguments *a, const struct qkv_model *model) {
    const char *own = qkv_model_family(model);
    return export_to(a, "huggingface") && (!a->family || (own && !strcmp(a->family, own)));
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

/* Says what transformers reads differently in a tokenizer that comes from a model of SentencePiece. */
static int export_say_tokenizers(struct qkv_context *ctx, const struct arguments *a, const struct qkv_model *model) {
    const struct qkv_tokenizer *both[] = {qkv_model_tokenizer(model), qkv_model_source_tokenizer(model)};
    for (size_t i = 0; i < 2 && export_to(a, "huggingface"); i++) {
        char *sentence = NULL;
        if (i && both[1] == both[0]) break;
        if (both[i] && qkv_tokenizer_differences(ctx, both[i], &sentence)) return cli_broken(ctx);
        if (sentence)
            cli_say("%s/%s: its standard parts, which other readers use, read these differently than the model of "
                    "SentencePiece: %s",
                    a->out, i ? QKV_SOURCE_FILE : QKV_TOKENIZER_FILE, sentence);
        qkv_free(sentence);
    }
    return CLI_DONE;
}

static int export_json(const struct arguments *a, const struct qkv_model *model) {
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "folder", a->out);
    qkv_json_put_text(&out, "to", a->to ? a->to : "qkv");
    qkv_json_put_text(&out, "dtype", a->dtype);
    qkv_json_put_text(&out, "warning", qkv_model_warning(model));
    qkv_json_put_text(&out, "tokenizer_problem", qkv_model_tokenizer_problem(model));
    cli_put_merge(&out, model);
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

static void export_tell(const struct arguments *a, const struct qkv_model *model) {
    char count[CLI_NUMBER];
    cli_wrote(a->out, "%s parameters, %s in %s", cli_grouped(count, cli_parameters(model)),
              export_to(a, "huggingface") ? "a Hugging Face folder with all numbers" : "the matrices", a->dtype);
}

/* Writes a folder, and says what it does not have. */
static int export_folder(struct qkv_context *ctx, const struct arguments *a, struct qkv_model *model) {
    int code = export_write(ctx, a, model);
    if (!code && qkv_model_warning(model)) cli_say("warning: %s", qkv_model_warning(model));
    if (!code && qkv_model_tokenizer_problem(model))
        cli_say("%s has no tokenizer: %s", a->out, qkv_model_tokenizer_problem(model));
    if (!code) export_say_unused(a, model);
    if (!code) cli_say_merge(model);
    if (!code) code = export_say_tokenizers(ctx, a, model);
    if (!code && a->json)
        code = export_json(a, model);
    else if (!code)
        export_tell(a, model);
    return code;
}

static int export_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct qkv_opening *opening = NULL;
    struct qkv_model *model = NULL;
    struct qkv_gguf_options options_of_file = qkv_gguf_defaults();
    if (count != 1)
        return cli_usage("export: name one model folder: %s export RUN --dtype bf16 --out FOLDER", cli_program);
    int code = export_check_format(a);
    if (code) return code;
    if (!a->out)
        return cli_usage(export_writes_file(a) ? "export: name a file to write: --out FILE.gguf"
                                               : "export: name a folder to write: --out FOLDER");
    if (a->dtype) options_of_file.format = a->dtype;
    options_of_file.pure = true;
    options_of_file.family = a->family;
    struct cli_common common = a->common;
    if (export_to(a, "gguf")) common.threads = 0; /* types of blocks are searched for by all threads */
    code = cli_open(&common, &ctx);
    if (!code && export_writes_file(a) && qkv_gguf_options_check(ctx, &options_of_file)) code = cli_misused(ctx);
    const struct qkv_use_options use = {.size = sizeof use,
                                        .use = export_to(a, "huggingface") ? QKV_USE_PUBLISH : QKV_USE_EXPORT};
    struct qkv_model_open_options opens = qkv_model_open_defaults();
    opens.adapter = common.adapter;
    if (!code &&
        (qkv_model_open(ctx, words[0], &opens, &opening) || qkv_opening_check_use(opening, &use) ||
         qkv_model_fill(opening, &model) || (common.adapter && !export_is_adapter(a) && qkv_adapter_merge(model))))
        code = cli_broken(ctx);
    qkv_opening_free(opening);
    if (!code && export_is_adapter(a))
        code = cli_adapter_write(&(struct cli_adapter_file){.out = a->out,
                                                            .base = words[0],
                                                            .dtype = a->dtype ? a->dtype : "f32",
                                                            .family = a->family,
                                                            .gguf = export_to(a, "gguf-adapter"),
                                                            .json = a->json},
                                 model);
    else if (!code && export_to(a, "gguf"))
        code = cli_gguf_write(
            &(struct cli_gguf){.options = &options_of_file, .out = a->out, .quiet = a->quiet, .json = a->json}, model);
    else if (!code)
        code = export_folder(ctx, a, model);
    qkv_model_free(model);
    qkv_context_free(ctx);
    return code;
}

static const char *const *export_files(const void *values) {
    static const char *const model[] = {QKV_MODEL_FILES, NULL};
    static const char *const adapter[] = {QKV_ADAPTER_CONFIG_FILE, QKV_ADAPTER_WEIGHTS_FILE, NULL};
    return export_to(values, "peft") ? adapter : model;
}

const struct cli_command *cli_export(void) {
    static const struct cli_command command = {
        .name = "export",
        .words = CLI_WORD_MODEL,
        .writes_of = export_files,
        .replaces = true,
        .writes_file = export_writes_file,
        .summary = "write a model in f16 or bf16, as a Hugging Face folder, or as GGUF",
        .usage = "RUN --dtype bf16 --out FOLDER [--force]\n"
                 "RUN --to huggingface [--family TYPE] --dtype bf16 --out FOLDER [--force]\n"
                 "RUN --to gguf [--family TYPE] [--dtype f16] --out FILE.gguf [--force]\n"
                 "RUN --adapter FOLDER --dtype f32 --out FOLDER [--force]\n"
                 "RUN --adapter FOLDER --to gguf-adapter [--family TYPE] [--dtype f16] --out FILE.gguf [--force]\n"
                 "RUN --adapter FILE.gguf --to peft --out FOLDER [--force]",
        .description =
            "Writes config.json, the tokenizers, the labels and model.safetensors of a model or run into a folder, "
            "with all matrices rounded to another number format. Commands that run this model map the file into memory "
            "and convert parts of a matrix when they multiply it, so f16 and bf16 need half the memory. The results "
            "are, bit for bit, those of the rounded numbers in fp32. Training from the folder (train --from) begins "
            "with copies in fp32.\n\n"
            "With --to huggingface the folder is one that transformers opens: it has the configuration and the tensors "
            "of a published family, with all numbers in the format of --dtype. If the family has a bias that the model "
            "does not have, the bias is written as zeros. A model that no family can express is refused, with the "
            "settings (--set) that make a new model one of the nearest family.\n\n"
            "With --to gguf it is one file, which llama.cpp opens: the tensors and the tokenizer under the names of "
            "the "
            "family's architecture, all matrices in the type of --dtype (f32 without it), vectors and small tables in "
            "f32. A model that no architecture can express is written as architecture qkv, which only qkv opens. qkv "
            "quantize mixes types.\n\n"
            "With --adapter the adapter is merged: the product of its two matrices is added to each matrix that it "
            "adapts, in fp32, each row of the sum gets the length of its magnitude if the adapter has these (DoRA), "
            "and the results are rounded to the format of --dtype, whatever format they had. A line says what that "
            "costs: the part of the exact sums that rounding changes, and the part that the adapter changes. The other "
            "matrices are converted from the format that they have. With --to gguf-adapter or peft it is not merged, "
            "but "
            "written alone: as a file for --lora of llama.cpp, whose model is the one that --to gguf writes, or as a "
            "folder of PEFT. Both are read with --adapter.",
        .examples = "qkv export run/ --dtype bf16 --out small/\n"
                    "qkv generate small/ --prompt \"Once\"\n"
                    "qkv export run/ --to huggingface --dtype bf16 --out run-hf/\n"
                    "qkv export run/ --to gguf --dtype f16 --out run.gguf\n"
                    "qkv export run/ --adapter adapter/ --dtype f32 --out merged/\n"
                    "qkv export run/ --adapter adapter/ --to gguf-adapter --out adapter.gguf",
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
