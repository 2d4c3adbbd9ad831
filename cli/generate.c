/* generate.c: "qkv generate" continues a prompt and writes each character to standard output as soon as it is known. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli_chat.h"

struct arguments {
    const char *prompt, *prompt_file, *chat, *system, *end, *long_lines, *answer;
    int64_t tokens, samples, count, context;
    struct cli_sampling sampling;
    struct cli_rules rules;
    struct cli_texts stop;
    bool quiet, ids, json;
    struct cli_common common;
};

static const struct arguments defaults = {
    .long_lines = "error", .tokens = -1, .samples = 1, .sampling = CLI_SAMPLING_DEFAULTS, .rules = CLI_RULES_DEFAULTS};

static const struct cli_option options[] = {
    {CLI_TEXT, 'p', "prompt", "TEXT", offsetof(struct arguments, prompt),
     .help = "text to continue; \"\" means no prompt", .before = "standard input if it is a pipe or a file",
     .subject = "input"},
    {CLI_READ, 0, "prompt-file", "FILE", offsetof(struct arguments, prompt_file),
     .help = "file with the text to continue, at most 64 MiB, whose last line end is left out; - is standard input",
     .subject = "input"},
    {CLI_TEXT, 0, "chat", "TEXT", offsetof(struct arguments, chat),
     .help = "message to answer, in the chat template of the model; only the answer is written", .subject = "input"},
    {CLI_TEXT, 0, "system", "TEXT", offsetof(struct arguments, system),
     .help = "with --chat: text of the system, before the message", .subject = "input"},
    {CLI_FLAG, 0, "ids", NULL, offsetof(struct arguments, ids),
     .help = "read the prompt as token ids, separated by spaces or commas, and write ids, as \"qkv tokenize\" does",
     .subject = "input"},
    CLI_LONG(struct arguments, "a prompt"),
    {CLI_COUNT, 'n', "tokens", "N", offsetof(struct arguments, tokens), .help = "maximum number of tokens to generate",
     .high = INT64_MAX, .before = "200", .subject = "length"},
    {CLI_COUNT, 0, "context", "N", offsetof(struct arguments, context),
     .help = "maximum number of positions; rotations that depend on the length of a text (scaling dynamic, longrope) "
             "use N as the length",
     .low = 1, .high = 1 << 24, .before = "the model's; rotations use the tokens of the prompt and -n",
     .subject = "input"},
    {CLI_COUNT, 0, "samples", "N", offsetof(struct arguments, samples),
     .help = "number of continuations of the prompt, which is computed and stored once; continuation I has the seed "
             "plus I - 1",
     .low = 1, .high = 1 << 20, .subject = "length"},
    {CLI_COUNT, 0, "count", "N", offsetof(struct arguments, count), .help = "older name of --samples", .low = 1,
     .high = 1 << 20, .before = "1", .subject = "length"},
    {CLI_FLAG, 0, "json", NULL, offsetof(struct arguments, json),
     .help = "write one JSON document at the end: the text of each sample, and the id, the text and the natural "
             "log-probability of each token",
     .subject = "output"},
    CLI_SAMPLING(struct arguments),
    CLI_RULES(struct arguments, rules),
    CLI_ANSWER(struct arguments),
    {CLI_TEXTS, 0, "stop", "TEXT", offsetof(struct arguments, stop),
     .help = "text that ends the continuation; it is not written", .subject = "length"},
    {CLI_TEXT, 0, "end", "TOKEN", offsetof(struct arguments, end), .help = "special token that ends the continuation",
     .before = "the end tokens that the model's folder names; else <|endoftext|> if the tokenizer has it, or </s> if "
               "texts begin with <s>",
     .subject = "length"},
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet),
     .help = "write only the continuation: no prompt, no statistics", .subject = "output"},
    CLI_ADAPTER(struct arguments),
    CLI_MODEL(struct arguments),
    CLI_CACHE(struct arguments),
};

CLI_CONDITION(makes_nothing, struct arguments, a->tokens == 0)
CLI_CONDITION(answers, struct arguments, a->chat != NULL)
CLI_CONDITION(answers_nothing, struct arguments, !a->chat)
CLI_CONDITION(is_greedy, struct arguments, a->sampling.temperature == 0)
CLI_CONDITION(always_likeliest, struct arguments, a->sampling.top_k == 1)
CLI_CONDITION(has_no_penalty, struct arguments, a->sampling.repeat_penalty < 0 || a->sampling.repeat_penalty == 1)

static const struct cli_rule rules[] = {
    {"prompt prompt-file ids", answers, "the prompt is the talk of --chat"},
    {"system", answers_nothing, "the system speaks in talks; add --chat TEXT"},
    {"samples count temp top-k top-p min-p repeat-penalty repeat-last seed stop end answer " CLI_RULES_NAMES,
     makes_nothing, "-n 0 makes no tokens"},
    {"samples count top-k top-p min-p seed", is_greedy, "--temp 0 always takes the likeliest token"},
    {"samples count temp top-p min-p seed", always_likeliest, "--top-k 1 always takes the likeliest token"},
    {"repeat-last", has_no_penalty, "there is no penalty; add --repeat-penalty X"},
};

struct output {
    bool terminal; /* control characters would act on it: they are shown as U+FFFD */
    bool broken;
};

static bool generate_show(void *user, const char *text, size_t size) {
    struct output *output = user;
    cli_put_text(stdout, output->terminal, text, size);
    output->broken = fflush(stdout) != 0 || ferror(stdout);
    return !output->broken && !cli_stopping;
}

/* Writes ids as they are chosen, with a space before each but the first. The ids of the prompt come first, once the
 * model has accepted them. */
struct id_writer {
    const struct cli_prompt *prompt; /* NULL: not shown, or already written */
    struct output *output;
    bool more;
};

static void ids_put(struct id_writer *writer, int32_t id) {
    printf(writer->more ? " %d" : "%d", (int)id);
    writer->more = true;
}

static void ids_begin(struct id_writer *writer) {
    for (size_t i = 0; writer->prompt && i < writer->prompt->id_count; i++) ids_put(writer, writer->prompt->ids[i]);
    writer->prompt = NULL;
}

static bool ids_show(void *user, const struct qkv_made_token *token) {
    struct id_writer *writer = user;
    ids_begin(writer);
    if (!token->end) ids_put(writer, token->id);
    writer->output->broken = fflush(stdout) != 0 || ferror(stdout);
    return !writer->output->broken && !cli_stopping;
}

/* Prints each continuation after a line with its number. */
static void show_samples(const struct arguments *a, const struct cli_samples *samples, const struct cli_prompt *prompt,
                         uint64_t seed, struct output *output) {
    for (size_t i = 0; i < samples->count; i++) {
        const struct cli_sample *s = &samples->items[i];
        const bool shown = !a->quiet && !prompt->hidden;
        struct id_writer ids = {.prompt = shown ? prompt : NULL, .output = output};
        printf("--- %zu of %zu, seed %llu ---\n", i + 1, samples->count, (unsigned long long)(seed + i));
        if (shown && !a->ids) generate_show(output, prompt->text, prompt->size);
        ids_begin(&ids);
        for (size_t k = 0; a->ids && k < s->count; k++)
            if (!s->tokens[k].end) ids_put(&ids, s->tokens[k].id);
        if (!a->ids) generate_show(output, s->text ? s->text : "", s->size);
        putchar('\n');
    }
    output->broken = fflush(stdout) != 0 || ferror(stdout);
}

/* Replaces the model's end tokens by the one of --end. */
static int find_end(struct qkv_model *model, const char *end, struct qkv_generate_options *o) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(model);
    if (!end) return CLI_DONE;
    o->end_count = 0;
    o->end_id = tokenizer ? qkv_tokenizer_special(tokenizer, end) : -1;
    return o->end_id < 0 ? cli_failed("the tokenizer has no special token \"%s\" (--end)", end) : CLI_DONE;
}

static void print_statistics(const struct qkv_generate_report *r, uint64_t seed, const char *cause) {
    fprintf(stderr,
            "\nprompt: %zu tokens in %.2f s (%.0f tokens/s); made: %zu tokens in %.2f s (%.0f tokens/s)%s; seed %llu\n",
            r->prompt_tokens, r->prompt_seconds,
            r->prompt_seconds > 0 ? (double)r->prompt_tokens / r->prompt_seconds : 0, r->tokens, r->seconds,
            r->seconds > 0 ? (double)r->tokens / r->seconds : 0, cause, (unsigned long long)seed);
}

/* Prints the speed, and that the prompt was too long. */
static void generate_report(const struct arguments *a, const struct qkv_model *model,
                            const struct qkv_generate_options *o, const struct qkv_generate_report *report) {
    if (!a->quiet)
        print_statistics(report, o->sampling.seed,
                         cli_stopping                        ? ", interrupted"
                         : report->stopped && a->samples > 1 ? ", then the texts ended"
                         : report->stopped                   ? ", then the text ended"
                                                             : "");
    if (report->long_prompt)
        cli_say("the prompt has %zu tokens, more than %s context of %zu, and was %s (--long %s)", report->long_prompt,
                o->context ? "the" : "the model's", o->context ? o->context : (size_t)qkv_model_spec(model)->context,
                qkv_long_done(o->long_prompt), a->long_lines);
}

/* Reads the ids of the prompt when the library has made them. */
struct prompt_reader {
    struct cli_prompt *prompt;
    const struct qkv_tokenizer *tokenizer;
    size_t context;
    struct output *output; /* NULL: the prompt is not written before its continuation */
    bool taken;
};

/* Makes several continuations, or JSON, and prints them when all are made. */
static int generate_several(struct qkv_model *model, const struct arguments *a, struct qkv_generate_options *o,
                            struct prompt_reader *reader, struct output *output) {
    struct qkv_generate_report report = {0};
    const struct cli_prompt *prompt = reader->prompt;
    struct cli_samples samples;
    int code = CLI_DONE;
    if (!cli_samples_begin(&samples, (size_t)a->samples)) return cli_failed("out of memory");
    if (a->ids || a->json) o->take_token = cli_samples_token, o->take_user = &samples;
    const enum qkv_status status = qkv_generate_several(model, prompt->text, prompt->ids ? 0 : prompt->size, o,
                                                        samples.count, cli_samples_text, &samples, &report);
    if (samples.broken)
        code = cli_failed("out of memory");
    else if (status && status != QKV_STOPPED)
        code = cli_broken(qkv_model_context(model));
    else if (a->json)
        code = cli_samples_json(&samples, prompt, qkv_model_tokenizer(model), &report, o);
    else if (!report.long_prompt || report.prompt_tokens)
        show_samples(a, &samples, prompt, o->sampling.seed, output);
    cli_samples_free(&samples);
    if (code != CLI_DONE) return code;
    if (!output->broken) generate_report(a, model, o, &report);
    return cli_stopping ? CLI_INTERRUPTED : CLI_DONE;
}

static int generate_one(struct qkv_model *model, const struct arguments *a, struct qkv_generate_options *o,
                        struct prompt_reader *reader, struct output *output) {
    struct qkv_generate_report report = {0};
    const struct cli_prompt *prompt = reader->prompt;
    struct id_writer ids = {.prompt = a->quiet || prompt->hidden ? NULL : prompt, .output = output};
    if (!a->quiet && !a->ids) reader->output = output;
    if (a->ids) o->take_token = ids_show, o->take_user = &ids;
    const enum qkv_status status = qkv_generate(model, prompt->text, prompt->ids ? 0 : prompt->size, o,
                                                a->ids ? NULL : generate_show, output, &report);
    const bool failed = status && status != QKV_STOPPED, shown = reader->output && reader->taken && !prompt->hidden;
    if (a->ids && !failed) ids_begin(&ids);
    if (a->ids ? ids.more : report.tokens > 0 && output->terminal) putchar('\n');
    if (failed && shown && prompt->size && !report.tokens) putchar('\n');
    if (failed) return cli_broken(qkv_model_context(model));
    if (output->broken) return CLI_DONE; /* cli_finish prints why */
    generate_report(a, model, o, &report);
    return cli_stopping ? CLI_INTERRUPTED : CLI_DONE;
}

/* ---- the prompt -------------------------------------------------------------------------------------------------- */

static bool generate_is_piped(void) {
    struct stat info;
    return fstat(STDIN_FILENO, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode));
}

/* Reads the prompt before the model is read, so that a missing file is reported at once. */
static int prompt_read(const struct arguments *a, struct cli_prompt *prompt) {
    const char *file = a->prompt_file;
    if (a->chat) return CLI_DONE;
    if (!a->prompt && !file && generate_is_piped()) file = "-";
    return cli_read_prompt(a->prompt ? a->prompt : "", file, &prompt->text, &prompt->size);
}

/* Renders the message of --chat with the template of the model `path`. The style is the caller's to close. */
static int prompt_render(const struct arguments *a, struct qkv_model *model, const char *path,
                         struct cli_talk_style *style, struct cli_prompt *prompt) {
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_rendered text = {0};
    if (!qkv_model_tokenizer(model)) return cli_failed("%s has no tokenizer, so it reads and writes no text", path);
    int code = cli_talk_begin(&(struct cli_texts){0}, style);
    if (!code) code = cli_talk_open(ctx, path, NULL, style);
    if (code) return code;
    json_t *messages = json_array();
    if (a->system) json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", a->system));
    json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user", "content", a->chat));
    if (json_array_size(messages) != 1 + (size_t)(a->system != NULL))
        code = cli_failed("the message is not UTF-8, or there is no memory for it");
    if (!code) code = cli_talk_encode(ctx, style, model, messages, &text, &prompt->ids, &prompt->id_count);
    if (!code && !(prompt->text = strdup(text.text))) code = cli_failed("out of memory");
    prompt->size = text.size;
    prompt->rendered = true;
    qkv_rendered_free(&text);
    json_decref(messages);
    return code;
}

/* Says how many tokens of the prompt stand for text that the vocabulary does not have. */
static void prompt_say_unknown(const struct qkv_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    const int unknown = tokenizer ? qkv_tokenizer_unknown(tokenizer) : -1;
    size_t found = 0;
    for (size_t i = 0; i < count && unknown >= 0; i++) found += ids[i] == unknown;
    if (found)
        cli_say("%zu of the %zu tokens of the prompt %s unknown: what %s for is not in the vocabulary", found, count,
                found == 1 ? "is" : "are", found == 1 ? "it stands" : "they stand");
}

/* A prompt that is longer than the context is hidden: what follows would not continue it. */
static void prompt_take(void *user, const int32_t *ids, size_t count) {
    struct prompt_reader *reader = user;
    struct cli_prompt *prompt = reader->prompt;
    reader->taken = true;
    prompt->hidden = prompt->rendered || count > reader->context;
    if (!prompt->ids) prompt_say_unknown(reader->tokenizer, ids, count);
    if (reader->output && !prompt->hidden) generate_show(reader->output, prompt->text, prompt->size);
}

static int prompt_settle(const struct arguments *a, struct qkv_generate_options *o, struct prompt_reader *reader) {
    struct cli_prompt *prompt = reader->prompt;
    if (a->ids && cli_read_ids("the prompt", prompt->text, prompt->size, &prompt->ids, &prompt->id_count))
        return CLI_FAILED;
    prompt->hidden = prompt->rendered || prompt->id_count > reader->context;
    o->ids = prompt->ids;
    o->id_count = prompt->id_count;
    o->take_prompt = prompt_take;
    o->prompt_user = reader;
    return CLI_DONE;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int generate_all(struct qkv_model *model, const struct arguments *a, enum qkv_long kind,
                        const struct cli_texts *stops, struct cli_rules_read *read, struct cli_prompt *prompt,
                        struct qkv_constraint *constraint) {
    struct output output = {.terminal = isatty(STDOUT_FILENO) != 0};
    struct qkv_generate_options o = qkv_generate_defaults();
    cli_sampling_settle(&a->sampling, model, a->samples > 1, &o);
    cli_length_settle(a->tokens, model, &o);
    o.stops = stops->items;
    o.stop_count = stops->count;
    o.long_prompt = kind;
    o.context = (size_t)a->context;
    o.constraint = constraint;
    struct prompt_reader reader = {.prompt = prompt,
                                   .tokenizer = qkv_model_tokenizer(model),
                                   .context = o.context ? o.context : (size_t)qkv_model_spec(model)->context};
    int code = find_end(model, a->end, &o);
    if (code == CLI_DONE) code = cli_rules_settle(&a->rules, read, model, &o.rules);
    if (code == CLI_DONE) code = prompt_settle(a, &o, &reader);
    if (code) return code;
    return (a->samples > 1 || a->json ? generate_several : generate_one)(model, a, &o, &reader, &output);
}

/* Opens the model, and checks the memory for weights and cache together before it reads the weights. */
static int generate_load(const struct arguments *a, struct qkv_context *ctx, const char *folder,
                         struct qkv_model **model) {
    struct qkv_opening *opening = NULL;
    int code = cli_open_model(&a->common, ctx, folder, &opening);
    if (code == CLI_DONE && qkv_generate_check_memory(qkv_opening_plan(opening), (size_t)a->context))
        code = cli_broken(ctx);
    if (code == CLI_DONE) code = cli_load_opened(&a->common, ctx, folder, opening, model);
    qkv_opening_free(opening);
    return code;
}

static int generate_run(const void *values, const char *const *words, size_t count) {
    struct arguments a = *(const struct arguments *)values;
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    struct cli_prompt prompt = {0};
    struct cli_talk_style style = {0};
    struct qkv_constraint *constraint = NULL;
    enum qkv_long kind = QKV_LONG_ERROR;
    if (!count) return cli_usage("generate: name a model folder: %s generate RUN", cli_program);
    if (a.prompt && a.prompt_file) return cli_usage("generate: --prompt and --prompt-file exclude each other");
    if (a.count && a.samples > 1)
        return cli_usage("generate: --samples and --count are the same; leave one of them out");
    if (a.count) a.samples = a.count;
    struct cli_rules_read read = {0};
    int code = cli_open(&a.common, &ctx);
    if (code == CLI_DONE) code = cli_rules_read(&a.rules, &read);
    if (code == CLI_DONE) code = cli_read_long(ctx, a.long_lines, &kind);
    if (code == CLI_DONE) code = cli_form_read(ctx, a.answer, &constraint);
    if (code == CLI_DONE) code = prompt_read(&a, &prompt);
    if (code == CLI_DONE) code = generate_load(&a, ctx, words[0], &model);
    if (code == CLI_DONE && a.chat) code = prompt_render(&a, model, words[0], &style, &prompt);
    struct cli_texts stops = cli_talk_stops(&style, &a.stop);
    if (code == CLI_DONE && !stops.items) code = cli_failed("out of memory");
    if (code == CLI_DONE) {
        cli_catch_signals();
        signal(SIGPIPE, SIG_DFL);
        code = generate_all(model, &a, kind, &stops, &read, &prompt, constraint);
    }
    free(stops.items);
    cli_rules_free(&read);
    cli_talk_close(&style);
    qkv_constraint_free(constraint);
    qkv_model_free(model);
    qkv_context_free(ctx);
    free(prompt.text);
    free(prompt.ids);
    return code;
}

const struct cli_command *cli_generate(void) {
    static const struct cli_command command = {
        .name = "generate",
        .words = CLI_WORD_MODEL,
        .summary = "continue a text",
        .usage = "RUN [--prompt TEXT] [options]",
        .description =
            "Writes the prompt and its continuation to standard output while tokens are generated, then the speed to "
            "standard error. Without a prompt, or with an empty one, the text begins at the start of a line. When the "
            "context is full, the older half of the text is dropped. A token is chosen after the repeat penalty, the "
            "temperature, top-k, top-p and min-p, in that order. The same seed gives the same text.\n\n"
            "The rules of the model's generation_config.json hold unless an option replaces them: -n replaces "
            "max_new_tokens and max_length, which else replace its default.\n\n"
            "--samples N writes all continuations at the end, each after a line with its number and its seed. Each is "
            "the text that its seed gives alone. As many of them run together as memory allows.\n\n"
            "--temp 0 or --top-k 1 always takes the likeliest token. Then --samples and the other sampling options are "
            "errors, except --repeat-penalty and --repeat-last. A published model, or a model that was trained or "
            "exported from one, takes the likeliest token by default, unless its generation_config.json has do_sample "
            "or a sampling option is given.\n\n"
            "--answer makes the text have a form: tokens that no text of the form has next are left out. A text that "
            "the number of tokens ends is the beginning of one.\n\n"
            "--chat TEXT answers one message, as \"qkv chat\" does, which also talks on. The text that the model "
            "reads is that of \"qkv template\".\n\n"
            "With --ids the template of the tokenizer is not added to the prompt, and ids are written instead of text, "
            "without the end token.\n\n"
            "With --json everything is written at the end: {\"prompt\" (with --ids \"prompt_ids\"), \"prompt_tokens\", "
            "\"samples\": [{\"seed\", \"text\", \"ended_by\": length, stop, end or interrupted, \"logprob\": the sum "
            "over the tokens, \"tokens\": [{\"id\", \"text\", \"logprob\"}]}]}. Log-probabilities are those of the "
            "model, before the penalty, the temperature and the filters. If a token begins or ends inside a character, "
            "U+FFFD replaces those bytes in its text, and the key \"bytes\" holds all its bytes. An end token is the "
            "last of the tokens and is not in the text.\n\n"
            "A prompt that --long cuts is not written before its continuation. A prompt that --long skips has no "
            "continuation.",
        .examples = "qkv generate run/ --prompt \"ROMEO:\" -n 200 --temp 0.8 --top-k 40\n"
                    "qkv generate instruct.gguf --chat \"Write a haiku about rain.\" --system \"You are brief.\"\n"
                    "qkv generate run/ --prompt-file letter.txt --stop \"\\n\\n\" --seed 7 -q\n"
                    "echo \"Once upon a time\" | qkv generate run/ --samples 3\n"
                    "qkv tokenize run/ \"ROMEO:\" | qkv generate run/ --ids -q | qkv tokenize run/ --ids",
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
