/* fill.c: "qkv fill" prints the likeliest tokens for each mask of a text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct arguments {
    const char *long_lines;
    int64_t top;
    bool json;
    struct cli_common common;
};

static const struct arguments defaults = {.long_lines = "error", .top = 5};

static const struct cli_option options[] = {
    {CLI_COUNT, 0, "top", "N", offsetof(struct arguments, top),
     .help = "number of tokens to print for each mask, likeliest first", .low = 1, .high = 1 << 30},
    CLI_JSON(struct arguments, "the masks and their tokens"),
    CLI_LONG(struct arguments, "a text"),
    CLI_ADAPTER(struct arguments),
    CLI_MODEL(struct arguments),
};

/* Replaces control characters, which would break the lines or act on the terminal. */
static void print_plain(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) putchar((unsigned char)text[i] < 32 || text[i] == 127 ? ' ' : text[i]);
}

/* Prints the text with one mask filled. A token that brings its own space replaces the space before the mask. */
static void print_filled(const char *text, const struct qkv_filling *f, const char *token, size_t size) {
    if (size > 1 && token[0] == ' ' && (f->begin == 0 || text[f->begin - 1] == ' ')) {
        token++;
        size--;
    }
    print_plain(text, f->begin);
    print_plain(token, size);
    print_plain(text + f->end, strlen(text + f->end));
}

/* What fills one mask. */
struct candidate {
    const struct qkv_filling *filling;
    const char *token;
    size_t size;
};

static void fill_print(const char *text, size_t mask, const struct candidate *c) {
    printf("%zu\t%.4f\t", mask + 1, c->filling->probability);
    cli_print_quoted(c->token, c->size);
    putchar('\t');
    print_filled(text, c->filling, c->token, c->size);
    putchar('\n');
}

static void fill_put(struct qkv_json *out, const struct candidate *c) {
    qkv_json_begin(out, '{');
    qkv_json_put_integer(out, "id", c->filling->id);
    cli_json_put_token(out, "text", c->token, c->size);
    qkv_json_put_number(out, "probability", c->filling->probability, 9);
    qkv_json_end(out, '}');
}

/* The fillings of a mask, likeliest first. A mask that was cut away has none. */
static void fill_mask(const struct qkv_tokenizer *tokenizer, const char *text, size_t mask,
                      const struct qkv_filling *fillings, size_t top, struct qkv_json *out) {
    if (out && fillings[0].id >= 0) {
        qkv_json_begin(out, '{');
        qkv_json_put_count(out, "begin", fillings[0].begin);
        qkv_json_put_count(out, "end", fillings[0].end);
        qkv_json_key(out, "tokens");
        qkv_json_begin(out, '[');
    }
    for (size_t i = 0; i < top; i++) {
        struct candidate c = {.filling = &fillings[i]};
        if (c.filling->id < 0) continue;
        c.token = qkv_tokenizer_token(tokenizer, c.filling->id, &c.size);
        if (!c.token) c = (struct candidate){c.filling, "", 0};
        if (out)
            fill_put(out, &c);
        else
            fill_print(text, mask, &c);
    }
    if (out && fillings[0].id >= 0) {
        qkv_json_end(out, ']');
        qkv_json_end(out, '}');
    }
}

static int fill_all(struct qkv_model *model, const char *text, size_t top, enum qkv_long kind, bool json) {
    struct qkv_filling *fillings;
    size_t masks, found = 0;
    struct qkv_line_options reading = qkv_line_defaults();
    struct qkv_json out = cli_json();
    reading.long_lines = kind;
    reading.long_count = &found;
    const struct qkv_tokenizer *tokenizer = qkv_model_source_tokenizer(model);
    if (tokenizer && top > (size_t)qkv_tokenizer_vocab(tokenizer)) top = (size_t)qkv_tokenizer_vocab(tokenizer);
    if (qkv_fill(model, text, top, &reading, &fillings, &masks)) return cli_broken(qkv_model_context(model));
    if (json) {
        qkv_json_begin(&out, '{');
        qkv_json_put_text(&out, "text", text);
        qkv_json_key(&out, "masks");
        qkv_json_begin(&out, '[');
    }
    for (size_t m = 0; m < masks; m++) fill_mask(tokenizer, text, m, &fillings[m * top], top, json ? &out : NULL);
    qkv_free(fillings);
    if (found)
        cli_say("the text has more tokens than the model's context of %d and was %s%s", qkv_model_spec(model)->context,
                qkv_long_done(kind), kind == QKV_LONG_SKIP ? "" : "; masks in the rest are not filled");
    if (!json) return CLI_DONE;
    qkv_json_end(&out, ']');
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

static int fill_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    if (count < 2)
        return cli_usage("fill: name a %s: %s fill MODEL \"the <mask> of England\"", count ? "text" : "model folder",
                         cli_program);
    enum qkv_long kind = QKV_LONG_ERROR;
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) code = cli_read_long(ctx, a->long_lines, &kind);
    if (code == CLI_DONE) code = cli_load(&a->common, ctx, words[0], &model);
    if (code == CLI_DONE) code = fill_all(model, words[1], (size_t)a->top, kind, a->json);
    qkv_model_free(model);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_fill(void) {
    static const struct cli_command command = {
        .name = "fill",
        .words = CLI_WORD_MODEL,
        .summary = "print the likeliest tokens for each mask of a text",
        .usage = "MODEL TEXT [options]",
        .description = "Predicts the tokens that <mask> hides in the text, with a model that was trained with --task "
                       "mlm. The mask token of the model's own tokenizer, such as [MASK], means the same. A line of "
                       "the output has four fields, separated by tabs: the number of the mask (from 1), the "
                       "probability, the token in quotes, and the text with this mask filled. If the tokens of words "
                       "include the space before the word, the space before a mask belongs to the hidden token.",
        .examples = "qkv fill enc/ \"the <mask> of England\"\n"
                    "qkv fill enc/ \"to be or <mask> to <mask>\" --top 3",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 2,
        .run = fill_run,
    };
    return &command;
}
