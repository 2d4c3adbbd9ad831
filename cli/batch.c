/* batch.c: "qkv batch" answers a file of requests with an engine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli_adapters.h"
#include "cli_batch.h"

struct arguments {
    const char *input, *output, *template, *draft;
    struct cli_texts set;
    int64_t rows, context, tokens, memory, drafts;
    struct cli_sampling sampling;
    bool force, quiet, json;
    struct cli_common common;
};

static const struct arguments defaults = {.tokens = 200, .sampling = CLI_SAMPLING_DEFAULTS};

static const struct cli_option options[] = {
    {CLI_READ, 0, "input", "FILE", offsetof(struct arguments, input),
     .help = "file of requests: each line is one, as JSON", .subject = "input"},
    {CLI_WRITE, 'o', "output", "FILE", offsetof(struct arguments, output),
     .help = "file of answers, a line for each request as it is answered; answers that it has already are kept",
     .subject = "output"},
    {CLI_FLAG, 0, "force", NULL, offsetof(struct arguments, force),
     .help = "replace the file of answers, and answer all requests", .subject = "output"},
    {CLI_COUNT, 'n', "tokens", "N", offsetof(struct arguments, tokens),
     .help = "largest number of tokens of an answer, if the request does not say it", .high = INT32_MAX,
     .subject = "sampling"},
    {CLI_READ, 0, "template", "FILE", offsetof(struct arguments, template),
     .help = "chat template to use in place of the model's", .subject = "input"},
    {CLI_TEXTS, 0, "set", "KEY=VALUE", offsetof(struct arguments, set),
     .help = "variable of the chat template, such as enable_thinking=false; a request's chat_template_kwargs win",
     .subject = "input"},
    {CLI_COUNT, 0, "rows", "N", offsetof(struct arguments, rows),
     .help = "number of answers that are made together; no answer depends on it", .low = 1, .high = 16384,
     .before = "16", .subject = "batches"},
    {CLI_COUNT, 0, "context", "N", offsetof(struct arguments, context),
     .help = "largest number of tokens of a prompt and its answer", .high = INT32_MAX,
     .before = "the model's, at most 4096", .subject = "batches"},
    {CLI_MEMORY, 0, "memory", "SIZE", offsetof(struct arguments, memory),
     .help = "memory of the cache and of steps, as 512M or 8G; no answer depends on it", .low = 1, .high = 1 << 24,
     .before = "half of what is free", .subject = "batches"},
    {CLI_COUNT, 0, "drafts", "N", offsetof(struct arguments, drafts),
     .help = "number of tokens that are guessed for an answer in a step, by --draft, or where its latest tokens "
             "occurred before (0: none); no answer depends on it",
     .high = 32, .before = "0; 4 with --draft", .subject = "batches"},
    {CLI_MODEL_READ, 0, "draft", "MODEL", offsetof(struct arguments, draft),
     .help = "a smaller model with the same tokens that guesses; no answer depends on it", .subject = "batches"},
    CLI_SAMPLING_WITHOUT_SEED(struct arguments),
    CLI_SAMPLING_ROW(CLI_COUNT, struct arguments, 's', "seed", "N", seed,
                     .help = "seed of the random choices of the first line; each line after it has one more",
                     .high = INT64_MAX, .before = "0"),
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), .help = "show no progress", .subject = "output"},
    CLI_JSON(struct arguments, "what was done"),
    CLI_ADAPTER_LIST(struct arguments, "each answers the requests whose \"model\" is its name"),
    CLI_MODEL(struct arguments),
    CLI_CACHE(struct arguments),
};

enum { BATCH_CONTEXT = 4096, BATCH_AHEAD = 2 }; /* requests that wait in the engine, for each row */

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void item_free(struct cli_batch_item *item) {
    if (!item) return;
    cli_api_close(&item->request);
    free(item->name);
    free(item);
}

/* The body of a line, and whether it is a chat; a line of OpenAI's batches has url and body. */
static bool line_body(const json_t *request, const json_t **body, bool *chat, struct cli_api_error *error) {
    const json_t *inner = json_object_get(request, "body"), *url = json_object_get(request, "url");
    *chat = cli_batch_is_chat(request);
    *body = inner ? inner : request;
    const char *wanted = *chat ? "/v1/chat/completions" : "/v1/completions";
    if (json_is_string(url) && strcmp(json_string_value(url), wanted) != 0)
        return cli_api_refuse(error, "url", "url is \"%.60s\"; this request is one of %s", json_string_value(url),
                              wanted);
    return true;
}

/* The i-th name in requests: the model, its adapters, and the path of the model. */
static const char *batch_name(const void *batch, size_t i) {
    const struct cli_batch *b = batch;
    const char *adapter = i ? qkv_adapter_name(b->api.model, i - 1) : NULL;
    if (!i || adapter) return i ? adapter : b->model_name;
    return i > 1 && qkv_adapter_name(b->api.model, i - 2) ? b->api.name : NULL;
}

/* Finds the adapter that a body names; NULL: the model itself. Without adapters "model" may be anything. */
static bool batch_adapter(const struct cli_batch *b, const json_t *body, const char **adapter,
                          struct cli_api_error *error) {
    size_t found = 0;
    *adapter = NULL;
    if (!b->model_name) return true;
    const bool fine = cli_api_find_model(
        body, batch_name, b, "\"model\" is the name of the model or of an adapter (--adapter)", &found, error);
    if (fine && found) *adapter = qkv_adapter_name(b->api.model, found - 1);
    return fine;
}

/* Reads a request and gives it to the engine; what is wrong with it becomes its answer. */
static int batch_begin(struct cli_batch *b, struct cli_batch_line *line, uint64_t seed) {
    struct cli_batch_item *item = calloc(1, sizeof *item);
    struct cli_api_error error = {0};
    const json_t *body = NULL;
    bool chat = false;
    if (!item) return cli_failed("out of memory");
    json_t *own = NULL;
    bool fine = line->request ? line_body(line->request, &body, &chat, &error)
                              : cli_api_refuse(&error, "", "line %zu: %s", line->number, line->fault);
    if (fine && body == line->request) { /* a bare body: its name is no field of it */
        own = json_copy(line->request);
        json_object_del(own, "custom_id");
        body = own;
    }
    const char *adapter = NULL;
    fine = fine && batch_adapter(b, body, &adapter, &error) &&
           cli_api_read(&b->api, body, chat, seed + line->number - 1, &item->request, &error);
    if (fine) item->request.adapter = adapter;
    fine = fine && cli_api_submit(&b->api, &item->request, &error);
    json_decref(own);
    if (!fine) {
        const int code = cli_batch_write(b, line->name, line->number, NULL, &error);
        item_free(item);
        return code;
    }
    item->name = line->name;
    item->number = line->number;
    line->name = NULL;
    item->next = b->items;
    b->items = item;
    b->open += item->request.open;
    return CLI_DONE;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* Writes the answer of a request that has ended. */
static int batch_end(struct cli_batch *b, struct cli_batch_item *item) {
    const bool failed = item->request.error.status != 0;
    struct cli_batch_item **at = &b->items;
    const int code = cli_batch_write(b, item->name, item->number, &item->request, failed ? &item->request.error : NULL);
    while (*at != item) at = &(*at)->next;
    *at = item->next;
    item_free(item);
    return code;
}

static int batch_hear(struct cli_batch *b) {
    struct qkv_engine_event event;
    while (qkv_engine_poll(b->api.engine, &event)) {
        struct cli_batch_item *item = b->items;
        while (item && !cli_api_owns(&item->request, &event)) item = item->next;
        if (!item) continue;
        if (!cli_api_take(&b->api, &item->request, &event)) return cli_failed("out of memory");
        b->open -= event.finish != QKV_FINISH_NONE;
        const int code = item->request.open ? CLI_DONE : batch_end(b, item);
        if (code) return code;
    }
    return CLI_DONE;
}

static int batch_answer(struct cli_batch *b, size_t ahead, uint64_t seed, struct cli_task *task) {
    const size_t total = json_object_size(b->names);
    struct cli_batch_line line = {0};
    bool more = true;
    int code = CLI_DONE;
    while (!code && (more || b->items)) {
        while (!code && more && b->open < ahead) {
            code = cli_batch_line(b, &line);
            more = line.name != NULL;
            if (!code && more && json_is_false(json_object_get(b->names, line.name)))
                code = batch_begin(b, &line, seed);
        }
        const enum qkv_status status = code ? QKV_OK : qkv_engine_step(b->api.engine, NULL);
        if (status) code = status == QKV_STOPPED && cli_stopping ? CLI_INTERRUPTED : cli_broken(b->api.ctx);
        if (!code) code = batch_hear(b);
        if (!cli_task_progress(task, "answering", (double)(b->had + b->answered + b->refused), (double)total) && !code)
            code = CLI_INTERRUPTED;
    }
    free(line.name);
    json_decref(line.request);
    return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int batch_engine(struct cli_batch *b, const struct arguments *a, const char *path) {
    const size_t most = (size_t)qkv_model_spec(b->api.model)->context;
    struct qkv_engine_options o = qkv_engine_defaults();
    struct cli_sampling sampling = a->sampling;
    if (sampling.seed < 0) sampling.seed = 0;
    b->api.name = path;
    b->api.usual = qkv_generate_defaults();
    cli_sampling_settle(&sampling, b->api.model, false, &b->api.usual);
    b->api.usual.tokens = (size_t)a->tokens;
    b->api.forms = cli_api_forms_open();
    o.rows = (size_t)a->rows;
    o.context = a->context ? (size_t)a->context : most < BATCH_CONTEXT ? most : BATCH_CONTEXT;
    o.memory = (size_t)a->memory << 20;
    o.drafts = (size_t)a->drafts;
    o.draft = b->draft;
    o.cache = a->common.cache;
    int code = CLI_DONE;
    if (b->chats) code = cli_talk_open(b->api.ctx, path, a->template, &b->api.style);
    b->api.tools = cli_tools_find(b->api.style.template);
    if (!code && qkv_engine_create(b->api.model, &o, &b->api.engine)) code = cli_broken(b->api.ctx);
    return code;
}

static int batch_tell(const struct cli_batch *b, const struct arguments *a, double seconds) {
    const struct qkv_engine_state s = qkv_engine_state(b->api.engine);
    const double rate = seconds > 0 ? (double)s.tokens / seconds : 0;
    char number[2][CLI_NUMBER];
    if (a->json) {
        struct qkv_json out = cli_json();
        qkv_json_begin(&out, '{');
        qkv_json_put_text(&out, "file", b->output);
        qkv_json_put_count(&out, "requests", json_object_size(b->names));
        qkv_json_put_count(&out, "answered", b->answered);
        qkv_json_put_count(&out, "refused", b->refused);
        qkv_json_put_count(&out, "kept", b->had);
        qkv_json_put_count(&out, "tokens", s.tokens);
        qkv_json_put_count(&out, "prompt_tokens", s.prompt_tokens);
        qkv_json_put_count(&out, "cached_tokens", s.cached_tokens);
        qkv_json_put_count(&out, "put_off", s.put_off);
        qkv_json_put_count(&out, "drafted", s.drafted);
        qkv_json_put_count(&out, "accepted", s.accepted);
        qkv_json_put_count(&out, "memory", s.memory);
        qkv_json_put_fixed(&out, "seconds", seconds, 3);
        qkv_json_end(&out, '}');
        return cli_json_end(&out);
    }
    cli_wrote(b->output, "%zu answer%s, %s tokens, %.1f tokens/s; %s tokens of prompts were in the cache", b->answered,
              b->answered == 1 ? "" : "s", cli_grouped(number[0], s.tokens), rate,
              cli_grouped(number[1], s.cached_tokens));
    return CLI_DONE;
}

static int batch_work(struct cli_batch *b, const struct arguments *a) {
    struct cli_progress progress;
    struct cli_task task = {.progress = &progress};
    const double started = qkv_clock();
    const size_t rows = qkv_engine_state(b->api.engine).rows;
    const uint64_t seed = a->sampling.seed < 0 ? 0 : (uint64_t)a->sampling.seed;
    cli_progress_start(&progress, a->quiet, false);
    if (progress.kind == CLI_LINES) progress.latest = started; /* work of a few seconds shows no line */
    cli_catch_signals();
    cli_cancels(b->api.ctx);
    int code = batch_answer(b, BATCH_AHEAD * rows, seed, &task);
    cli_cancels(NULL);
    cli_progress_clear(&progress);
    if (cli_stopping) {
        cli_say("%s has %zu of %zu answers; the same command goes on", b->output, b->had + b->answered + b->refused,
                json_object_size(b->names));
        return CLI_INTERRUPTED;
    }
    if (!code) code = batch_tell(b, a, qkv_clock() - started);
    if (!code && b->refused)
        code = cli_failed("%zu request%s refused; %s says why", b->refused, b->refused == 1 ? " was" : "s were",
                          b->output);
    return code;
}

/* Answers what is not answered yet. */
static int batch_model(struct cli_batch *b, const struct arguments *a, const char *path) {
    int code = cli_open(&a->common, &b->api.ctx);
    if (!code) code = cli_load(&a->common, b->api.ctx, path, &b->api.model);
    if (!code && a->draft) code = cli_load_second(&a->common, b->api.ctx, a->draft, &b->draft);
    if (!code) code = batch_engine(b, a, path);
    if (!code) code = cli_batch_output(b, a->force);
    return code ? code : batch_work(b, a);
}

/* With adapters that have names, "model" chooses one of them, or the model. */
static int batch_names(struct cli_batch *b, const struct arguments *a, const char *path) {
    const struct cli_texts *given = &a->common.adapters;
    const int code = cli_adapters_check(&a->common, "batch");
    if (code || !given->count || cli_adapter_folder(given->items[0]) == given->items[0]) return code;
    b->model_name = cli_model_name(path);
    return b->model_name ? cli_adapters_apart(&a->common, "batch", b->model_name, "the model")
                         : cli_failed("out of memory");
}

static int batch_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct cli_batch b = {.input = a->input, .output = a->output};
    if (!count) return cli_usage("batch: name a model: %s batch MODEL --input FILE --output FILE", cli_program);
    if (!a->input) return cli_usage("batch: name a file of requests: --input requests.jsonl");
    if (!a->output) return cli_usage("batch: name a file for the answers: --output answers.jsonl");
    int code = batch_names(&b, a, words[0]);
    if (!code) code = cli_talk_begin(&a->set, &b.api.style);
    b.names = json_object();
    if (!code) b.in = fopen(a->input, "r");
    if (!code && !b.in) code = cli_failed("cannot read %s: %s", a->input, strerror(errno));
    if (!code) code = b.names ? cli_batch_scan(&b) : cli_failed("out of memory");
    if (!code && !a->force) code = cli_batch_kept(&b);
    if (!code && b.had < json_object_size(b.names))
        code = batch_model(&b, a, words[0]);
    else if (!code && a->json)
        code = batch_tell(&b, a, 0);
    for (struct cli_batch_item *item = b.items, *next; item; item = next) {
        next = item->next;
        item_free(item);
    }
    if (b.in) fclose(b.in);
    if (b.out) fclose(b.out);
    qkv_engine_free(b.api.engine);
    cli_api_forms_close(b.api.forms);
    cli_talk_close(&b.api.style);
    qkv_model_free(b.api.model);
    qkv_model_free(b.draft);
    qkv_context_free(b.api.ctx);
    json_decref(b.names);
    free(b.text);
    free(b.model_name);
    return code;
}

const struct cli_command *cli_batch(void) {
    static const struct cli_command command = {
        .name = "batch",
        .words = CLI_WORD_MODEL,
        .summary = "answer a file of requests, many at a time",
        .usage = "MODEL --input requests.jsonl --output answers.jsonl [options]",
        .description =
            "Each line of the input is a request as programs send it to OpenAI's interface: {\"prompt\": …} or "
            "{\"messages\": […]} with max_tokens, temperature, top_p, n, stop, seed, logprobs, echo, logit_bias, "
            "response_format, guided_regex, use_beam_search (with best_of, length_penalty and early_stopping) and "
            "more; an encoder-decoder reads the "
            "prompt as its source. Or such an object is the \"body\" of a line, beside \"custom_id\", as in files of "
            "OpenAI's batches. Each line of the output is {\"custom_id\", \"response\": {\"status_code\", \"body\"}, "
            "\"error\"}, in the order in which answers are complete.\n\n"
            "Answers are made together, and prompts that begin alike are read once. An answer has the bytes that the "
            "request gets alone: nothing depends on other requests, on --rows, --memory or --threads. Sampling options "
            "are for requests that do not say them; a request without a seed has --seed (0) plus its line - 1.\n\n"
            "With adapters that have names (--adapter NAME=FOLDER, any number of times) \"model\" in a request is the "
            "name of one of them, or of the model.\n\n"
            "A request that makes no sense is answered with status 400 and the name of the field, and the command ends "
            "with exit code 1. Interrupted, the same command goes on where it stopped.",
        .examples = "qkv batch instruct.gguf --input requests.jsonl --output answers.jsonl",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .appends = true,
        .run = batch_run,
    };
    return &command;
}
