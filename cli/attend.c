/* attend.c: "qkv attend": where a model looks when it reads a text: a page of all heads, numbers for other programs, or a picture in
 * the terminal (attend_picture.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli_lab.h"

struct arguments {
    const char *prompt, *file, *target, *kind, *output, *json;
    int64_t layer, head;
    bool force;
    struct cli_common common;
};

static const struct arguments defaults = {.layer = -1, .head = -1};

static const struct cli_option options[] = {
    {CLI_TEXT, 'p', "prompt", "TEXT", offsetof(struct arguments, prompt),
     "what the model reads; an encoder-decoder translates it", 0, 0, NULL},
    {CLI_TEXT, 0, "file", "FILE", offsetof(struct arguments, file),
     "the same from a file of at most 64 MiB; - is standard input", 0, 0, NULL},
    {CLI_TEXT, 0, "target", "TEXT", offsetof(struct arguments, target),
     "encoder-decoders: what the decoder reads, in place of what greedy search finds", 0, 0, NULL},
    {CLI_COUNT, 0, "layer", "N", offsetof(struct arguments, layer), "only this layer, counted from 0", 0, INT32_MAX,
     "all; in the terminal the last"},
    {CLI_COUNT, 0, "head", "N", offsetof(struct arguments, head), "only this head, counted from 0", 0, INT32_MAX,
     "all; in the terminal their mean"},
    {CLI_TEXT, 0, "kind", "NAME", offsetof(struct arguments, kind),
     "which attention the terminal shows: encoder, decoder or cross", 0, 0, "cross where there is one"},
    {CLI_TEXT, 'o', "output", "FILE", offsetof(struct arguments, output), "write a page (HTML, one file)", 0, 0, NULL},
    {CLI_TEXT, 0, "json", "FILE", offsetof(struct arguments, json), "write all weights as JSON", 0, 0, NULL},
    CLI_FORCE(struct arguments),
    CLI_MODEL(struct arguments),
};

CLI_CONDITION(writes_no_file, struct arguments, !a->output && !a->json)
CLI_CONDITION(writes_files, struct arguments, a->output || a->json)

static const struct cli_rule rules[] = {
    {"kind", writes_files, "only the terminal shows one kind; files hold all: leave it out"},
    {"force", writes_no_file, "no file is written; name one with -o FILE or --json FILE"},
};

static int attend_check(const struct arguments *a) {
    if (!a->prompt && !a->file) return cli_usage("attend: say what the model shall read: --prompt TEXT or --file FILE");
    if (a->prompt && a->file) return cli_usage("attend: --prompt and --file exclude each other");
    if (a->kind && strcmp(a->kind, "encoder") && strcmp(a->kind, "decoder") && strcmp(a->kind, "cross"))
        return cli_usage("attend: --kind is encoder, decoder or cross, not \"%s\"", a->kind);
    if (a->output && a->json && !strcmp(a->output, a->json))
        return cli_usage("attend: -o and --json write different things; name two files");
    return CLI_DONE;
}

int cli_read_prompt(const char *prompt, const char *path, char **text, size_t *size) {
    if (path) {
        int code = cli_read_all(path, CLI_PROMPT_MOST, text, size);
        if (!code && *size && (*text)[*size - 1] == '\n') --*size;
        if (!code && *size && (*text)[*size - 1] == '\r') --*size;
        return code;
    }
    *size = strlen(prompt);
    *text = malloc(*size + 1);
    if (!*text) return cli_failed("out of memory");
    memcpy(*text, prompt, *size + 1);
    return CLI_DONE;
}

static void tell_written(const struct qkv_attention_view *look, const char *path) {
    struct qkv_attention_view_head attention;
    struct stat info;
    char text[2][CLI_NUMBER];
    size_t tokens = qkv_look_tokens(look, true) + qkv_look_tokens(look, false), attentions = 0;
    while (qkv_attention_view_head(look, attentions, &attention)) attentions++;
    fprintf(stderr, "%s: %zu attention%s on %s token%s, %s\n", path, attentions, attentions == 1 ? "" : "s",
            cli_grouped(text[0], tokens), tokens == 1 ? ": it attends to itself only" : "s",
            cli_bytes(text[1], stat(path, &info) == 0 ? (size_t)info.st_size : 0));
}

static const char *last_part(const char *folder, char *name, size_t size) {
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') n--;
    size_t begin = n;
    while (begin > 0 && folder[begin - 1] != '/') begin--;
    snprintf(name, size, "%.*s", (int)(n - begin < size ? n - begin : size - 1), folder + begin);
    return name;
}

static int write_all(struct qkv_context *ctx, struct qkv_attention_view *look, const struct arguments *a,
                     const char *folder) {
    char name[256];
    struct qkv_look_selection selection = {
        .title = last_part(folder, name, sizeof name), .layer = (int)a->layer, .head = (int)a->head};
    if (qkv_look_check(look, &selection)) return cli_broken(ctx);
    if (a->output) {
        if (qkv_look_write_page(look, &selection, a->output)) return cli_broken(ctx);
        tell_written(look, a->output);
    }
    if (a->json) {
        if (qkv_look_write_json(look, &selection, a->json)) return cli_broken(ctx);
        tell_written(look, a->json);
    }
    return a->output || a->json ? CLI_DONE : cli_attend_picture(ctx, look, a->kind, a->layer, a->head);
}

static int attend_all(struct qkv_context *ctx, const char *folder, const struct arguments *a) {
    struct qkv_model *model = NULL;
    struct qkv_attention_view *look = NULL;
    char *text = NULL;
    size_t size = 0;
    int code = cli_read_prompt(a->prompt, a->file, &text, &size);
    if (!code) code = cli_load(&a->common, ctx, folder, &model);
    struct qkv_look_options o = {
        .text = text, .text_size = size, .target = a->target, .target_size = a->target ? strlen(a->target) : 0};
    if (!code && qkv_look_create(model, &o, &look)) code = cli_broken(ctx);
    if (!code) code = write_all(ctx, look, a, folder);
    qkv_look_free(look);
    qkv_model_free(model);
    free(text);
    return code;
}

static int attend_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    if (!count) return cli_usage("attend: say which model folder: %s attend MODEL --prompt \"a text\"", cli_program);
    struct cli_reads reads = {words, count, a->file};
    int code = attend_check(a);
    if (code == CLI_DONE) code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) code = cli_output_check(ctx, a->output, a->force, &reads);
    if (code == CLI_DONE) code = cli_output_check(ctx, a->json, a->force, &reads);
    if (code == CLI_DONE) code = attend_all(ctx, words[0], a);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_attend(void) {
    static const struct cli_command command = {
        .name = "attend",
        .summary = "where a model looks: its attention weights as a page, a picture or JSON",
        .usage = "MODEL --prompt TEXT [-o FILE] [options]\nMODEL --file FILE [-o FILE] [options]",
        .description =
            "Runs the model over a text and shows what each token attends to. With -o it writes a page, one HTML file "
            "that loads nothing from anywhere: every head of every layer as a small picture, and of each the tokens "
            "joined by lines and the matrix of weights. Without, it draws one head, or the mean of a layer's heads, "
            "in the terminal, and lists the heads.\n"
            "entropy: of the weights of a token in bits, the mean over the tokens; 2^entropy is how many tokens it "
            "looks at. distance: how many tokens away what it looks at is, in the mean.\n"
            "An encoder-decoder translates the text by greedy search, unless --target says what the decoder reads; "
            "the page has the attention of the encoder, of the decoder, and from the decoder to the encoder.",
        .examples = "qkv attend run/ --prompt \"To be, or not to be\" -o attention.html\n"
                    "qkv attend run/ --prompt \"To be, or not to be\" --layer 3 --head 2\n"
                    "qkv attend g2p/ --prompt \"hello\" --kind cross\n"
                    "qkv attend run/ --file text.txt --json attention.json",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .run = attend_run,
    };
    return &command;
}
