/* generate.c: "qkv generate": continues a prompt, each character on standard output as soon as it is known. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

struct arguments {
    const char *prompt, *prompt_file, *end;
    int64_t tokens, count, top_k, repeat_last, seed;
    double temperature, top_p, min_p, repeat_penalty;
    struct cli_texts stop;
    bool quiet;
    struct cli_common common;
};

static const struct arguments defaults = {
    .tokens = 200, .count = 1, .seed = -1, .temperature = 0.8, .top_p = 1, .repeat_penalty = 1, .repeat_last = 64};

static const struct cli_option options[] = {
    {CLI_TEXT, 'p', "prompt", "TEXT", offsetof(struct arguments, prompt), "the text to continue", 0, 0, NULL},
    {CLI_TEXT, 0, "prompt-file", "FILE", offsetof(struct arguments, prompt_file),
     "read the text to continue from a file of at most 64 MiB; - is standard input", 0, 0, NULL},
    {CLI_COUNT, 'n', "tokens", "N", offsetof(struct arguments, tokens), "how many tokens to make at most", 0, INT64_MAX,
     NULL},
    {CLI_COUNT, 0, "count", "N", offsetof(struct arguments, count),
     "write N continuations of the prompt, which is run and stored once; number I has the seed plus I - 1", 1, 1 << 20,
     NULL},
    {CLI_REAL, 0, "temp", "X", offsetof(struct arguments, temperature),
     "temperature: 0 takes the likeliest token, 1 is the model's own distribution", 0, CLI_ENDLESS, NULL},
    {CLI_COUNT, 0, "top-k", "N", offsetof(struct arguments, top_k), "choose among the N likeliest tokens (0: all)", 0,
     INT32_MAX, NULL},
    {CLI_ABOVE, 0, "top-p", "X", offsetof(struct arguments, top_p),
     "choose among the fewest likeliest tokens that hold this probability (1: all)", 0, 1, NULL},
    {CLI_REAL, 0, "min-p", "X", offsetof(struct arguments, min_p),
     "leave out tokens below X times the likeliest one's probability", 0, 1, NULL},
    {CLI_ABOVE, 0, "repeat-penalty", "X", offsetof(struct arguments, repeat_penalty),
     "make recent tokens less likely (1: off)", 0, CLI_ENDLESS, NULL},
    {CLI_COUNT, 0, "repeat-last", "N", offsetof(struct arguments, repeat_last),
     "with --repeat-penalty: how many tokens are recent to it (0: all)", 0, INT32_MAX, NULL},
    {CLI_COUNT, 's', "seed", "N", offsetof(struct arguments, seed), "names the random choices", 0, INT64_MAX,
     "from the clock; shown at the end"},
    {CLI_TEXTS, 0, "stop", "TEXT", offsetof(struct arguments, stop), "end before this text", 0, 0, NULL},
    {CLI_TEXT, 0, "end", "TOKEN", offsetof(struct arguments, end), "end at this special token", 0, 0,
     "<|endoftext|> if the tokenizer has it, or </s> where texts begin with <s>"},
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), "only the continuation: no prompt, no statistics",
     0, 0, NULL},
    CLI_MODEL(struct arguments),
};

CLI_CONDITION(makes_nothing, struct arguments, a->tokens == 0)
CLI_CONDITION(is_greedy, struct arguments, a->temperature == 0)
CLI_CONDITION(keeps_one, struct arguments, a->top_k == 1)
CLI_CONDITION(has_no_penalty, struct arguments, a->repeat_penalty == 1)

static const struct cli_rule rules[] = {
    {"count temp top-k top-p min-p repeat-penalty repeat-last seed stop end", makes_nothing, "-n 0 makes no tokens"},
    {"count top-k top-p min-p seed", is_greedy, "--temp 0 always takes the likeliest token"},
    {"count temp top-p min-p seed", keeps_one, "--top-k 1 always takes the likeliest token"},
    {"repeat-last", has_no_penalty, "there is no penalty; add --repeat-penalty X"},
};

struct output {
    bool terminal; /* control characters would act on it: show them as U+FFFD */
    bool broken;
};

static bool generate_show(void *user, const char *text, size_t size) {
    struct output *output = user;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (output->terminal && (c < 32 || c == 127) && c != '\n' && c != '\t')
            fputs(cli_locale_utf8() ? "\xEF\xBF\xBD" : "?", stdout);
        else
            putchar(c);
    }
    output->broken = fflush(stdout) != 0 || ferror(stdout);
    return !output->broken && !cli_stopping;
}

/* The texts of several continuations, kept until they are shown in order. */
struct texts {
    struct kept_text {
        char *data;
        size_t size, capacity;
    } * items;
    size_t count;
    bool broken; /* no memory */
};

static bool generate_keep(void *user, size_t index, const char *text, size_t size) {
    struct texts *texts = user;
    struct kept_text *kept = &texts->items[index];
    if (size > kept->capacity - kept->size) {
        const size_t capacity = 2 * (kept->capacity + size);
        char *data = realloc(kept->data, capacity);
        texts->broken = !data;
        if (!data) return false;
        kept->data = data;
        kept->capacity = capacity;
    }
    memcpy(kept->data + kept->size, text, size);
    kept->size += size;
    return !cli_stopping;
}

/* Each after a line that numbers it. */
static void show_texts(const struct texts *texts, const char *prompt, size_t size, uint64_t seed,
                       struct output *output) {
    for (size_t i = 0; i < texts->count; i++) {
        printf("--- %zu of %zu, seed %llu ---\n", i + 1, texts->count, (unsigned long long)(seed + i));
        generate_show(output, prompt, size);
        generate_show(output, texts->items[i].data ? texts->items[i].data : "", texts->items[i].size);
        putchar('\n');
    }
    output->broken = fflush(stdout) != 0 || ferror(stdout);
}

/* The token that ends the text, -1 if there is none; CLI_FAILED if one was asked for that the tokenizer has not. */
static int find_end(struct qkv_model *model, const char *end, int32_t *id) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(model);
    const int32_t *before, *after;
    size_t before_count = 0, after_count = 0;
    *id = tokenizer ? qkv_tokenizer_special(tokenizer, end ? end : "<|endoftext|>") : -1;
    if (!end && *id < 0 && tokenizer && qkv_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count))
        if (before_count && !after_count && before[0] == qkv_tokenizer_special(tokenizer, QKV_TOKEN_BEGIN))
            *id = qkv_tokenizer_special(tokenizer, QKV_TOKEN_END); /* learnt from lines */
    if (end && *id < 0) return cli_failed("the tokenizer has no special token \"%s\" (--end)", end);
    return CLI_DONE;
}

static void print_statistics(const struct qkv_generate_report *r, uint64_t seed, const char *cause) {
    fprintf(stderr,
            "\nprompt: %zu tokens in %.2f s (%.0f tokens/s); made: %zu tokens in %.2f s (%.0f tokens/s)%s; seed %llu\n",
            r->prompt_tokens, r->prompt_seconds,
            r->prompt_seconds > 0 ? (double)r->prompt_tokens / r->prompt_seconds : 0, r->tokens, r->seconds,
            r->seconds > 0 ? (double)r->tokens / r->seconds : 0, cause, (unsigned long long)seed);
}

static int generate_several(struct qkv_model *model, const struct arguments *a, const struct qkv_generate_options *o,
                            const char *prompt, size_t size, struct output *output) {
    struct qkv_generate_report report = {0};
    struct texts texts = {.count = (size_t)a->count};
    texts.items = calloc(texts.count, sizeof *texts.items);
    if (!texts.items) return cli_failed("out of memory");
    const enum qkv_status status =
        qkv_generate_several(model, prompt, size, o, texts.count, generate_keep, &texts, &report);
    const bool failed = status && (status != QKV_STOPPED || texts.broken);
    if (!failed) show_texts(&texts, a->quiet ? "" : prompt, a->quiet ? 0 : size, o->sampling.seed, output);
    for (size_t i = 0; i < texts.count; i++) free(texts.items[i].data);
    free(texts.items);
    if (texts.broken) return cli_failed("out of memory");
    if (failed) return cli_broken(qkv_model_context(model));
    if (!a->quiet && !output->broken)
        print_statistics(&report, o->sampling.seed,
                         cli_stopping     ? ", interrupted"
                         : report.stopped ? ", then the texts ended"
                                          : "");
    return cli_stopping ? CLI_INTERRUPTED : CLI_DONE;
}

static int generate_all(struct qkv_model *model, const struct arguments *a, const char *prompt, size_t size) {
    struct output output = {.terminal = isatty(STDOUT_FILENO) != 0};
    struct qkv_generate_report report = {0};
    struct qkv_generate_options o = {
        .sampling = {.temperature = a->temperature,
                     .top_k = (int)a->top_k,
                     .top_p = a->top_p,
                     .min_p = a->min_p,
                     .repeat_penalty = a->repeat_penalty,
                     .repeat_last = (int)a->repeat_last,
                     .seed = a->seed >= 0 ? (uint64_t)a->seed : (uint64_t)time(NULL)},
        .tokens = (size_t)a->tokens,
        .stops = a->stop.items,
        .stop_count = a->stop.count,
    };
    int code = find_end(model, a->end, &o.end_id);
    if (code) return code;
    if (a->count > 1) return generate_several(model, a, &o, prompt, size, &output);
    if (!a->quiet) generate_show(&output, prompt, size);
    enum qkv_status status = qkv_generate(model, prompt, size, &o, generate_show, &output, &report);
    if (report.tokens > 0 && output.terminal) putchar('\n');
    if (status && status != QKV_STOPPED) {
        if (size && !a->quiet && !report.tokens) putchar('\n');
        return cli_broken(qkv_model_context(model));
    }
    if (output.broken) return CLI_DONE; /* cli_finish says why */
    if (!a->quiet)
        print_statistics(&report, o.sampling.seed,
                         cli_stopping     ? ", interrupted"
                         : report.stopped ? ", then the text ended"
                                          : "");
    return cli_stopping ? CLI_INTERRUPTED : CLI_DONE;
}

/* Weights and cache together, before the weights are read. */
static int generate_check(struct qkv_context *ctx, const char *folder) {
    struct qkv_model *plan;
    enum qkv_status status = qkv_model_plan_load(ctx, folder, &plan);
    if (!status) status = qkv_generate_check_memory(plan);
    const int code = status ? cli_broken(ctx) : CLI_DONE;
    qkv_model_free(plan);
    return code;
}

static int generate_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    char *text = NULL;
    const char *prompt = a->prompt ? a->prompt : "";
    size_t size = strlen(prompt);
    if (!count) return cli_usage("generate: say which model folder: %s generate RUN", cli_program);
    if (a->prompt && a->prompt_file) return cli_usage("generate: --prompt and --prompt-file exclude each other");
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE && a->prompt_file) code = cli_read_all(a->prompt_file, CLI_PROMPT_MOST, &text, &size);
    if (text) prompt = text;
    if (code == CLI_DONE) code = cli_set_precision(&a->common, ctx, words[0]);
    if (code == CLI_DONE) code = generate_check(ctx, words[0]);
    if (code == CLI_DONE) code = cli_load(&a->common, ctx, words[0], &model);
    if (code == CLI_DONE) {
        cli_catch_signals();
        signal(SIGPIPE, SIG_DFL);
        code = generate_all(model, a, prompt, size);
    }
    qkv_model_free(model);
    qkv_context_free(ctx);
    free(text);
    return code;
}

const struct cli_command *cli_generate(void) {
    static const struct cli_command command = {
        .name = "generate",
        .summary = "continue a text with a trained model",
        .usage = "RUN [--prompt TEXT] [options]",
        .description =
            "Writes the prompt and its continuation to standard output as it comes, then the speed to standard error. "
            "Without a prompt it begins at the start of a line. When the context is full the older half of the text is "
            "forgotten. Tokens are chosen after the repeat penalty, the temperature, top-k, top-p and min-p, in that "
            "order; "
            "the same seed gives the same text. With --count each continuation comes when all are made, after a line "
            "that says "
            "its number and its seed; it is what that seed gives alone. --temp 0 and --top-k 1 leave nothing to "
            "choose: the other options of "
            "choosing, but for the repeat penalty, are errors beside them.",
        .examples = "qkv generate run/ --prompt \"ROMEO:\" -n 200 --temp 0.8 --top-k 40\n"
                    "qkv generate run/ --prompt-file letter.txt --stop \"\\n\\n\" --seed 7 -q\n"
                    "echo \"Once upon a time\" | qkv generate run/ --prompt-file -",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .run = generate_run,
    };
    return &command;
}
