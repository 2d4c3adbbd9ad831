/* new.c: "qkv new" writes a model folder with the weights that training begins with. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <dirent.h>

#include "cli.h"

struct arguments {
    const char *out;
    bool quiet, json;
    struct cli_fresh fresh;
    struct cli_common common;
};

static const struct arguments defaults = {.fresh = CLI_FRESH_DEFAULTS, .common = {.threads = 1, .precision = "fp32"}};

static const struct cli_option options[] = {
    {CLI_FOLDER, 0, "out", "FOLDER", offsetof(struct arguments, out),
     .help = "folder to write; an existing folder must be empty"},
    CLI_FRESH(struct arguments),
    CLI_JSON(struct arguments, "the number of parameters, the seed and the number of tokens"),
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), .help = "show errors only"},
    CLI_IGNORE_MEMORY(struct arguments),
};

/* A new model replaces nothing: the folder must be missing or empty. */
static int new_check_folder(const char *folder) {
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    bool empty = true;
    if (!listing && errno == ENOENT) return CLI_DONE;
    if (!listing && errno == ENOTDIR) return cli_failed("%s is a file; choose another name for the folder", folder);
    if (!listing) return cli_failed("cannot look into %s: %s", folder, cli_error_text(errno));
    while ((entry = readdir(listing)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) empty = false;
    closedir(listing);
    return empty ? CLI_DONE
                 : cli_failed("%s is not empty, and a new model replaces nothing; choose another folder", folder);
}

static int new_json(const struct arguments *a, const struct qkv_model *model) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(model);
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "folder", a->out);
    qkv_json_put_count(&out, "parameters", cli_parameters(model));
    qkv_json_put_integer(&out, "seed", a->fresh.seed);
    qkv_json_key(&out, "tokens");
    if (tokenizer)
        qkv_json_integer(&out, qkv_tokenizer_vocab(tokenizer));
    else
        qkv_json_raw(&out, "null");
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

static void new_tell(const struct arguments *a, const struct qkv_model *model) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    const char *slash = a->out[strlen(a->out) - 1] == '/' ? "" : "/";
    char count[CLI_NUMBER], vocab[CLI_NUMBER];
    const size_t numbers = cli_parameters(model);
    cli_print_name(a->out, SIZE_MAX);
    printf("%s: %s parameters as seed %lld draws them; ", slash, cli_grouped(count, numbers), (long long)a->fresh.seed);
    const bool tokens = qkv_spec_has_tokens(spec);
    if (!tokens)
        printf("no tokenizer, as the model reads no tokens\n");
    else if (!tokenizer)
        printf("no tokenizer, as the vocabulary of %d has no room for the 256 bytes (--tokenizer FILE): give --ids\n",
               spec->vocab);
    else
        printf("%s of %s tokens\n", a->fresh.tokenizer ? "the tokenizer" : "a tokenizer by bytes",
               cli_grouped(vocab, (size_t)qkv_tokenizer_vocab(tokenizer)));
    printf("try: %s inspect %s %s\n", cli_program, a->out,
           !tokens     ? "--examples FILE"
           : tokenizer ? "--prompt \"a text\""
                       : "--ids --prompt \"1 2 3\"");
}

static int new_run(const void *values, const char *const *words, size_t count) {
    struct arguments given = *(const struct arguments *)values, *a = &given;
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    if (count && cli_fresh_given(&a->fresh))
        return cli_usage("new: the file of a spec and --%s exclude each other; name one model",
                         a->fresh.preset ? "preset" : "spec");
    if (count) a->fresh.spec = words[0];
    if (!cli_fresh_given(&a->fresh))
        return cli_usage("new: name a model: the file of a spec, or --preset NAME (\"%s help new\" lists the presets)",
                         cli_program);
    int code = cli_fresh_check(&a->fresh, "new", 0);
    if (code) return code;
    if (!a->out || !*a->out) return cli_usage("new: name a folder for the model: --out FOLDER");
    code = cli_open(&a->common, &ctx);
    if (!code) code = new_check_folder(a->out);
    if (!code) code = cli_fresh_create(&a->fresh, ctx, &model);
    if (!code && qkv_model_save(model, a->out)) code = cli_broken(ctx);
    if (!code && a->json)
        code = new_json(a, model);
    else if (!code && !a->quiet)
        new_tell(a, model);
    qkv_model_free(model);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_new(void) {
    static const char *const files[] = {QKV_MODEL_FILES, NULL};
    static const struct cli_command command = {
        .name = "new",
        .words = CLI_WORDS_FILES,
        .writes = files,
        .summary = "make a model folder with the weights that training begins with",
        .usage = "SPEC --out FOLDER [--set KEY=VALUE] [--seed N]\n"
                 "--preset NAME --out FOLDER [--set KEY=VALUE] [--seed N]",
        .description = "Writes a model folder that every command opens: config.json, model.safetensors and, if the "
                       "vocabulary has room for it, tokenizer.json. The weights are those that training with the same "
                       "seed and vocabulary begins with. Without --tokenizer the vocabulary is the one of the spec, or "
                       "the 256 bytes and the special tokens that the model needs (<s> and </s>, or <mask>). An "
                       "existing folder must be empty. train --from FOLDER trains the model.",
        .examples = "qkv new --preset nano-gpt --out fresh/\n"
                    "qkv new --preset nano-gpt --set decoder.norm.placement=post --seed 7 --out post/\n"
                    "qkv new my.json --tokenizer tokenizer.json --out fresh/\n"
                    "qkv train --from fresh/ --data text.txt --out run/",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .presets = true,
        .run = new_run,
    };
    return &command;
}
