/* chat.c: "qkv chat" talks with a model, on a terminal, from a pipe, or over a file of talks. */
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli_adapters.h"
#include "cli_chat.h"

enum {
    CHAT_CONTEXT = 8192, /* positions of a talk, if neither the model nor the command line asks for fewer */
    CHAT_TOKENS = 1024   /* of an answer, if neither the model's folder nor the command line says how many */
};

struct arguments {
    const char *system, *template, *input, *thinking, *when_full, *answer;
    int64_t tokens, context;
    struct cli_texts stop, set;
    struct cli_sampling sampling;
    struct cli_rules rules;
    bool json;
    struct cli_common common;
};

static const struct arguments defaults = {
    .tokens = -1, .when_full = CLI_FULL_STOP, .sampling = CLI_SAMPLING_DEFAULTS, .rules = CLI_RULES_DEFAULTS};

static const struct cli_option options[] = {
    {CLI_TEXT, 0, "system", "TEXT", offsetof(struct arguments, system),
     .help = "text of the system, before the talk: \"You are brief.\"", .subject = "input"},
    {CLI_READ, 0, "input", "FILE", offsetof(struct arguments, input),
     .help =
         "file with a talk in JSON in each line, a list of messages or {\"messages\": [...]}; each is answered; - is "
         "standard input",
     .subject = "input"},
    {CLI_READ, 0, "template", "FILE", offsetof(struct arguments, template), .help = "template of talks, in Jinja",
     .before = "that of the model; else plain text", .subject = "input"},
    {CLI_TEXTS, 0, "set", "KEY=VALUE", offsetof(struct arguments, set),
     .help = "variable of the template: enable_thinking=false", .subject = "input"},
    {CLI_COUNT, 0, "context", "N", offsetof(struct arguments, context), .help = "maximum number of positions of a talk",
     .low = 1, .high = 1 << 24, .before = "the model's, at most 8192", .subject = "input"},
    {CLI_TEXT, 0, "when-full", "NAME", offsetof(struct arguments, when_full), .choice = cli_choose_full,
     .help = "what happens when the context is full: {}", .subject = "length"},
    {CLI_COUNT, 'n', "tokens", "N", offsetof(struct arguments, tokens), .help = "maximum number of tokens of an answer",
     .low = 1, .high = INT32_MAX, .before = "1024", .subject = "length"},
    {CLI_TEXTS, 0, "stop", "TEXT", offsetof(struct arguments, stop),
     .help = "text that ends an answer; it is not written", .subject = "length"},
    {CLI_TEXT, 0, "thinking", "NAME", offsetof(struct arguments, thinking), .choice = cli_choose_thinking,
     .help = "thoughts before an answer: {}", .before = "dim on a terminal, else hide", .subject = "output"},
    CLI_JSON(struct arguments, "a line for each answer,"),
    CLI_SAMPLING(struct arguments),
    CLI_RULES(struct arguments, rules),
    CLI_ANSWER(struct arguments),
    CLI_ADAPTER_LIST(struct arguments, "/adapter NAME chooses one"),
    CLI_MODEL(struct arguments),
    CLI_CACHE(struct arguments),
};

CLI_CONDITION(is_greedy, struct arguments, a->sampling.temperature == 0)
CLI_CONDITION(always_likeliest, struct arguments, a->sampling.top_k == 1)
CLI_CONDITION(has_no_penalty, struct arguments, a->sampling.repeat_penalty < 0 || a->sampling.repeat_penalty == 1)
CLI_CONDITION(writes_json, struct arguments, a->json)

static const struct cli_rule rules[] = {
    {"top-k top-p min-p seed", is_greedy, "--temp 0 always takes the likeliest token"},
    {"temp top-p min-p seed", always_likeliest, "--top-k 1 always takes the likeliest token"},
    {"repeat-last", has_no_penalty, "there is no penalty; add --repeat-penalty X"},
    {"thinking", writes_json, "--json has thoughts apart from what is said"},
};

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static int chat_print_json(const struct cli_chat *chat) {
    char *message = json_dumps(json_array_get(chat->messages, json_array_size(chat->messages) - 1), JSON_COMPACT);
    if (!message) return cli_failed("out of memory");
    struct qkv_json json = cli_json_stream(stdout);
    qkv_json_begin(&json, '{');
    qkv_json_put_raw(&json, "message", message);
    qkv_json_put_text(&json, "ended_by", chat->ended);
    qkv_json_put_count(&json, "prompt_tokens", chat->talk_tokens);
    qkv_json_put_count(&json, "cached_tokens", chat->kept);
    qkv_json_put_count(&json, "tokens", chat->report.tokens);
    qkv_json_put_count(&json, "seed", chat->options.sampling.seed + chat->answers - 1);
    qkv_json_end(&json, '}');
    free(message);
    const int code = cli_json_end(&json);
    return fflush(stdout) ? CLI_FAILED : code;
}

/* Answers the talk and shows the answer; Ctrl-C ends the answer alone. */
static int chat_answer(struct cli_chat *chat, bool json) {
    cli_catch_signals();
    cli_cancels(chat->ctx);
    signal(SIGPIPE, SIG_DFL);
    int code = cli_chat_answer(chat);
    cli_cancels(NULL);
    qkv_context_cancel(chat->ctx, false);
    const bool answered = code == CLI_DONE || code == CLI_INTERRUPTED;
    if (answered && json && chat_print_json(chat)) code = CLI_FAILED;
    if (answered && !json) putchar('\n');
    if (answered && !json && chat->ended && !strcmp(chat->ended, "full"))
        cli_say("the context of %zu tokens is full", qkv_session_capacity(chat->session));
    if (answered && !json && chat->ended && !strcmp(chat->ended, "length"))
        cli_say("the answer was cut after %zu tokens (--tokens, /set tokens=N)", chat->report.tokens);
    fflush(stdout);
    return code == CLI_DONE && cli_stopping ? CLI_INTERRUPTED : code;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* What a line asks for; a text becomes a message of the user. */
static enum cli_chat_next chat_take(struct cli_chat *chat, const char *line, int *code) {
    if (*line == '/' && line[1] != '/') return cli_chat_command(chat, line);
    line += *line == '/';
    if (cli_is_blank(line)) return CLI_CHAT_READ;
    *code = cli_chat_add(chat, "user", line, strlen(line));
    return *code ? CLI_CHAT_READ : CLI_CHAT_ANSWER;
}

/* Talks line by line; on a terminal a failure ends no more than the answer. */
static int chat_lines(struct cli_chat *chat, bool terminal, bool json) {
    char *line;
    int code = CLI_DONE;
    while (code == CLI_DONE && (line = cli_chat_line(terminal))) {
        const enum cli_chat_next next = chat_take(chat, line, &code);
        free(line);
        if (next == CLI_CHAT_END) return chat->session ? CLI_DONE : CLI_FAILED; /* or no memory for a new one */
        if (next == CLI_CHAT_ANSWER) {
            code = chat_answer(chat, json);
            if (code == CLI_FAILED) cli_chat_drop(chat, "user");
        }
        fflush(stdout);
        cli_release_signals(); /* a signal that comes while a line is awaited ends the talk at once */
        if (code == CLI_DONE && cli_stopping) code = CLI_INTERRUPTED;
        if (!terminal) continue;
        if (!ferror(stdout) && (!cli_stopping || cli_stopping == SIGINT)) code = CLI_DONE;
        if (code == CLI_DONE) cli_stopping = 0;
    }
    if (terminal) putchar('\n');
    return code;
}

/* Answers the talk of each line of a file. */
static int chat_talks(struct cli_chat *chat, const struct arguments *a, char *data, size_t size) {
    char *next, *line;
    size_t number = 0;
    int code = CLI_DONE;
    for (line = data; code == CLI_DONE && line && line < data + size; line = next) {
        char name[64], *end = memchr(line, '\n', (size_t)(data + size - line));
        next = end ? end + 1 : data + size;
        if (end) *end = 0;
        snprintf(name, sizeof name, "line %zu", ++number);
        if (cli_is_blank(line)) continue;
        code = cli_chat_read(chat, name, line, (size_t)((end ? end : data + size) - line));
        if (code == CLI_DONE && a->system) code = cli_chat_system(chat, a->system);
        if (code == CLI_DONE) code = chat_answer(chat, a->json);
        if (code == CLI_FAILED) cli_say("%s of %s was not answered", name, a->input);
    }
    return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static size_t chat_context(const struct arguments *a, const struct qkv_spec *spec) {
    const size_t most = (size_t)spec->context;
    return a->context ? (size_t)a->context : most < CHAT_CONTEXT ? most : CHAT_CONTEXT;
}

static int chat_load(const struct arguments *a, struct qkv_context *ctx, const char *path, struct qkv_model **model) {
    struct qkv_opening *opening = NULL;
    int code = cli_open_model(&a->common, ctx, path, &opening);
    if (code == CLI_DONE) {
        struct qkv_model *plan = qkv_opening_plan(opening);
        if (qkv_generate_check_memory(plan, chat_context(a, qkv_model_spec(plan)))) code = cli_broken(ctx);
    }
    if (code == CLI_DONE) code = cli_load_opened(&a->common, ctx, path, opening, model);
    qkv_opening_free(opening);
    if (code == CLI_DONE && !qkv_model_tokenizer(*model))
        code = cli_failed("%s has no tokenizer, so it reads and writes no text", path);
    return code;
}

/* Begins the talk with the options of the command line. */
static int chat_begin(struct cli_chat *chat, const struct arguments *a, struct qkv_constraint *constraint,
                      bool terminal) {
    const size_t context = chat_context(a, qkv_model_spec(chat->model));
    chat->options = qkv_generate_defaults();
    chat->options.tokens = CHAT_TOKENS;
    chat->options.constraint = constraint;
    cli_sampling_settle(&a->sampling, chat->model, false, &chat->options);
    cli_length_settle(a->tokens, chat->model, &chat->options);
    if (cli_rules_settle(&a->rules, &chat->rules, chat->model, &chat->options.rules)) return CLI_FAILED;
    chat->stops = cli_talk_stops(&chat->style, &a->stop);
    chat->forgets = !strcmp(a->when_full, CLI_FULL_FORGET);
    chat->messages = json_array();
    chat->answer.kind = terminal ? CLI_THINKING_DIM : CLI_THINKING_HIDE;
    if (a->thinking) cli_thinking_find(a->thinking, &chat->answer.kind);
    chat->answer.file = a->json ? NULL : stdout;
    chat->answer.descriptor = STDOUT_FILENO;
    chat->answer.terminal = isatty(STDOUT_FILENO) != 0;
    if (!chat->messages || !chat->stops.items) return cli_failed("out of memory");
    const struct qkv_session_options session = {.size = sizeof session, .capacity = context};
    chat->adapter = qkv_adapter_name(chat->model, 0); /* the first one answers */
    if (qkv_adapter_use(chat->model, chat->adapter) || qkv_session_create(chat->model, &session, &chat->session))
        return cli_broken(chat->ctx);
    return a->system ? cli_chat_system(chat, a->system) : CLI_DONE;
}

static int chat_run(const void *values, const char *const *words, size_t count) {
    struct arguments a = *(const struct arguments *)values;
    struct cli_chat chat = {0};
    struct qkv_constraint *constraint = NULL; /* of each answer */
    char *talks = NULL;                       /* of --input */
    size_t size = 0;
    const bool terminal = !a.input && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (!count) return cli_usage("chat: name a model: %s chat MODEL", cli_program);
    setlocale(LC_CTYPE, "");
    int code = cli_adapters_check(&a.common, "chat");
    if (!code) code = cli_adapters_apart(&a.common, "chat", CLI_CHAT_NO_ADAPTER, "no adapter");
    if (code == CLI_DONE) code = cli_talk_begin(&a.set, &chat.style);
    if (code == CLI_DONE) code = cli_rules_read(&a.rules, &chat.rules);
    if (code == CLI_DONE && a.input) code = cli_read_all(a.input, CLI_LINES_MAX, &talks, &size);
    if (code == CLI_DONE) code = cli_open(&a.common, &chat.ctx);
    if (code == CLI_DONE) code = cli_form_read(chat.ctx, a.answer, &constraint);
    if (code == CLI_DONE) code = chat_load(&a, chat.ctx, words[0], &chat.model);
    if (code == CLI_DONE) code = cli_talk_open(chat.ctx, words[0], a.template, &chat.style);
    if (code == CLI_DONE) code = chat_begin(&chat, &a, constraint, terminal);
    if (code == CLI_DONE && terminal)
        printf("%s, a context of %zu tokens; /help lists commands, Ctrl-D ends\n", words[0],
               qkv_session_capacity(chat.session));
    if (code == CLI_DONE) code = a.input ? chat_talks(&chat, &a, talks, size) : chat_lines(&chat, terminal, a.json);
    cli_chat_close(&chat);
    cli_rules_free(&chat.rules);
    free(talks);
    qkv_constraint_free(constraint);
    qkv_model_free(chat.model);
    qkv_context_free(chat.ctx);
    return code;
}

const struct cli_command *cli_chat(void) {
    static const struct cli_command command = {
        .name = "chat",
        .words = CLI_WORD_MODEL,
        .summary = "talk with a model",
        .usage = "MODEL [options]",
        .description =
            "Talks with a model that was trained on talks: a folder, or a GGUF file. Its template turns the talk into "
            "the text that the model reads. A model without a template reads plain text, and the command says so.\n\n"
            "On a terminal, answers appear while they are made. Ctrl-C stops an answer, and the talk goes on; Ctrl-D "
            "ends the talk. A line that begins with a slash is a command: /help lists them. Lines between two lines of "
            "\"\"\" are one text. From a pipe each line is a text or a command, and the answers are written one after "
            "the other.\n\n"
            "Each answer is to the whole talk, rendered again: templates leave out old thoughts, and move headers. The "
            "cache keeps what has not changed, and /stats prints how many tokens were computed.\n\n"
            "Thoughts are what some models write before an answer, between marks. They are kept apart from what is "
            "said.\n\n"
            "An answer ends with an end token of the model, as generation_config.json, the tokenizer's configuration "
            "and the GGUF file name them. When the context is full, stop ends the talk there, and forget-oldest leaves "
            "the oldest messages out of what the model reads. max_new_tokens or max_length of generation_config.json "
            "replace the default of --tokens.\n\n"
            "--adapter may be given several times, as NAME=FOLDER: the first adapter answers until /adapter NAME "
            "chooses another, which then reads the whole talk again.\n\n"
            "With --json each answer is a line {\"message\": {\"role\", \"content\", for thoughts "
            "\"reasoning_content\"}, \"ended_by\": end, stop, length, full or interrupted, \"prompt_tokens\", "
            "\"cached_tokens\", \"tokens\", \"seed\"}. Answer I has the seed plus I - 1.",
        .examples = "qkv chat instruct.gguf\n"
                    "qkv chat run/ --system \"You are brief.\" --temp 0\n"
                    "echo \"What is the capital of France?\" | qkv chat instruct.gguf\n"
                    "qkv chat instruct.gguf --input talks.jsonl --json",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .run = chat_run,
    };
    return &command;
}
