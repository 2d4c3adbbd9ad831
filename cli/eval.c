/* eval.c: "qkv eval" measures how well a model predicts a text, finds the targets of pairs, or classifies labelled
 * lines. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli_ranks.h"
#include "cli_text.h"

struct arguments {
    struct cli_texts data, chat;
    const char *text_key, *pairs, *labeled, *examples, *template, *long_lines, *against;
    int64_t batch, context;
    struct cli_search search;
    bool json, quiet, documents, no_documents;
    struct cli_common common;
};

static const struct arguments defaults = {.search = CLI_SEARCH_DEFAULTS};

static const struct cli_option options[] = {
    {CLI_READS, 0, "data", "FILE", offsetof(struct arguments, data),
     .help = "text to predict token by token, or a folder of texts; several are read as one text, as in training; JSON "
             "lines (.jsonl), packed files (.gz, .zst) and patterns of names are documents, as in training",
     .subject = "data"},
    {CLI_TEXT, 0, "text-key", "KEY", offsetof(struct arguments, text_key),
     .help = "text: the key of the texts in JSON lines", .before = "text", .subject = "data"},
    {CLI_READ, 0, "pairs", "FILE", offsetof(struct arguments, pairs),
     .help = "file of pairs: each line has a source, a tab and a target", .subject = "data"},
    {CLI_READ, 0, "examples", "FILE", offsetof(struct arguments, examples),
     .help = "safetensors file of examples: in.pixels, in.features, in.vectors or in.ids, and in.targets; for an "
             "encoder-decoder, the input of the encoder (in.source for ids), in.ids and in.targets",
     .subject = "data"},
    {CLI_READ, 0, "labeled", "FILE", offsetof(struct arguments, labeled),
     .help = "file of labelled lines: each line has a label, a tab and a text; for a head that classifies tokens, a "
             "word, a tab and its label, with an empty line between sentences",
     .subject = "data"},
    {CLI_READS, 0, "chat", "FILE", offsetof(struct arguments, chat),
     .help = "talks, JSON lines: each has messages, conversations, or a prompt with its completion; a file, plain or "
             "packed (.gz, .zst), a folder or a pattern of names",
     .subject = "data"},
    {CLI_READ, 0, "template", "FILE", offsetof(struct arguments, template),
     .help = "talks: chat template to use in place of the model's", .subject = "data"},
    {CLI_TEXT, 0, "long", "NAME", offsetof(struct arguments, long_lines), .choice = cli_choose_long,
     .help = "talks: treatment of lines with more tokens than the context", .before = "error", .subject = "data"},
    {CLI_MODEL_READ, 0, "against", "OTHER", offsetof(struct arguments, against),
     .help = "text: another model with the same vocabulary, to compare the predictions with: a run, a published folder "
             "or a GGUF file; talks: the losses of both",
     .subject = "data"},
    {CLI_COUNT, 0, "batch", "N", offsetof(struct arguments, batch),
     .help = "text: number of windows in a batch; pairs: number of sources that are searched together", .high = 1 << 20,
     .before = "8; 32", .subject = "windows"},
    {CLI_COUNT, 0, "context", "N", offsetof(struct arguments, context), .help = "text: tokens in a window",
     .high = 1 << 24, .before = "the model's", .subject = "windows"},
    {CLI_FLAG, 0, "documents", NULL, offsetof(struct arguments, documents),
     .help = "text: documents end with the end token, and attention stays inside of a document; a run that was trained "
             "with --documents is evaluated so by default",
     .subject = "windows"},
    {CLI_FLAG, 0, "no-documents", NULL, offsetof(struct arguments, no_documents),
     .help = "text: evaluate a run that was trained with --documents without them, each window as one text",
     .subject = "windows"},
    CLI_SEARCH(struct arguments, "pairs: "),
    {CLI_FLAG, 0, "json", NULL, offsetof(struct arguments, json), .help = "print the results as JSON",
     .subject = "output"},
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), .help = "show no progress", .subject = "output"},
    CLI_ADAPTER(struct arguments),
    CLI_MODEL(struct arguments),
    CLI_CACHE(struct arguments),
};

CLI_CONDITION(has_no_text, struct arguments, !a->data.count)
CLI_CONDITION(has_no_pairs, struct arguments, !a->pairs)
CLI_CONDITION(has_no_talks, struct arguments, !a->chat.count)
CLI_CONDITION(compares_nothing, struct arguments, !a->data.count && !a->chat.count)
CLI_CONDITION(has_labels, struct arguments, a->labeled || a->chat.count)
CLI_CONDITION(has_other, struct arguments, a->against)
CLI_CONDITION(is_greedy, struct arguments, a->search.beam == 1)

static const struct cli_rule rules[] = {
    {"context", has_no_text, "only a text is cut into windows (--data)"},
    {"text-key", has_no_text, "only a text may be JSON lines (--data)"},
    {"documents no-documents", has_no_text, "only a text has documents (--data)"},
    {"against", compares_nothing,
     "only the predictions of a text (--data) and the losses of talks (--chat) are compared"},
    {"template long", has_no_talks, "only talks are written by a template, and cut (--chat)"},
    {"batch", has_other, "two models are compared one window at a time"},
    {CLI_SEARCH_NAMES, has_no_pairs, "only the targets of pairs are searched for (--pairs)"},
    {"cache", has_no_pairs, "only a search has a cache (--pairs)"},
    {"batch", has_labels, "labelled lines and talks are batched by their lengths"},
    {"length-penalty early-stopping", is_greedy, "a greedy search has one result; add --beam N"},
};

/* ---- a text ------------------------------------------------------------------------------------------------------ */

/* What a result is about. */
static void print_over(const struct qkv_evaluation *e, bool documents) {
    char number[2][CLI_NUMBER];
    printf("over             %s tokens (%s bytes), in %.1f s\n", cli_grouped(number[0], e->tokens),
           cli_grouped(number[1], e->bytes), e->seconds);
    if (e->unknown)
        printf("unknown          %s of the tokens: what they stand for is not in the vocabulary\n",
               cli_grouped(number[0], e->unknown));
    if (documents) printf("documents        apart: each predicted from its own tokens, its first not at all\n");
}

static int print_text(const struct qkv_evaluation *e, bool documents, bool json) {
    if (json) {
        struct qkv_json out = cli_json();
        qkv_json_begin(&out, '{');
        qkv_json_put_number(&out, "loss", e->loss, 9);
        qkv_json_put_number(&out, "perplexity", e->perplexity, 9);
        qkv_json_put_number(&out, "bits_per_byte", e->bits_per_byte, 9);
        qkv_json_put_count(&out, "tokens", e->tokens);
        qkv_json_put_count(&out, "bytes", e->bytes);
        qkv_json_put_count(&out, "unknown", e->unknown);
        qkv_json_put_bool(&out, "documents", documents);
        qkv_json_put_fixed(&out, "seconds", e->seconds, 3);
        qkv_json_end(&out, '}');
        return cli_json_end(&out);
    }
    printf("loss             %.4f nats a token\n", e->loss);
    printf("perplexity       %.4g\n", e->perplexity);
    printf("bits per byte    %.4f\n", e->bits_per_byte);
    print_over(e, documents);
    return CLI_DONE;
}

/* ---- a text and two models --------------------------------------------------------------------------------------- */

static int print_divergence_json(const struct qkv_divergence *d, bool documents) {
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_number(&out, "loss", d->model.loss, 9);
    qkv_json_put_number(&out, "perplexity", d->model.perplexity, 9);
    qkv_json_put_number(&out, "bits_per_byte", d->model.bits_per_byte, 9);
    qkv_json_put_number(&out, "other_loss", d->other.loss, 9);
    qkv_json_put_number(&out, "other_perplexity", d->other.perplexity, 9);
    qkv_json_put_number(&out, "other_bits_per_byte", d->other.bits_per_byte, 9);
    qkv_json_put_number(&out, "divergence", d->divergence, 9);
    qkv_json_put_number(&out, "divergence_error", d->divergence_error, 9);
    qkv_json_put_number(&out, "same_likeliest", d->same, 9);
    qkv_json_put_count(&out, "tokens", d->model.tokens);
    qkv_json_put_count(&out, "bytes", d->model.bytes);
    qkv_json_put_count(&out, "unknown", d->model.unknown);
    qkv_json_put_bool(&out, "documents", documents);
    qkv_json_put_fixed(&out, "seconds", d->model.seconds, 3);
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

static int print_divergence(const struct qkv_divergence *d, const char *other, bool documents, bool json) {
    if (json) return print_divergence_json(d, documents);
    printf("loss             %.4f nats a token; %.4f of ", d->model.loss, d->other.loss);
    cli_print_name(other, SIZE_MAX);
    printf("\nperplexity       %.4g; %.4g\n", d->model.perplexity, d->other.perplexity);
    printf("bits per byte    %.4f; %.4f\n", d->model.bits_per_byte, d->other.bits_per_byte);
    printf("divergence       %.4g nats a token from the other's distribution, standard error %.2g\n", d->divergence,
           d->divergence_error);
    printf("likeliest token  the same for %.2f %% of the tokens\n", 100 * d->same);
    print_over(&d->model, documents);
    return CLI_DONE;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static int print_pairs(const struct qkv_pairs_evaluation *e, bool json) {
    if (json) {
        struct qkv_json out = cli_json();
        qkv_json_begin(&out, '{');
        qkv_json_put_number(&out, "loss", e->loss, 9);
        qkv_json_put_number(&out, "exact", e->exact, 9);
        qkv_json_put_number(&out, "token_error", e->token_error, 9);
        qkv_json_put_number(&out, "bleu", e->bleu, 9);
        qkv_json_put_number(&out, "chrf", e->chrf, 9);
        qkv_json_put_count(&out, "sources", e->sources);
        qkv_json_put_count(&out, "pairs", e->pairs);
        qkv_json_put_fixed(&out, "seconds", e->seconds, 3);
        qkv_json_put_fixed(&out, "search_seconds", e->search_seconds, 3);
        qkv_json_end(&out, '}');
        return cli_json_end(&out);
    }
    char number[2][CLI_NUMBER];
    printf("loss         %.4f nats a token\n", e->loss);
    printf("exact        %.2f %%\n", 100 * e->exact);
    printf("token error  %.2f %%\n", 100 * e->token_error);
    printf("BLEU         %.2f\n", e->bleu);
    printf("chrF2        %.2f\n", e->chrf);
    printf("over         %s sources (%s pairs), in %.1f s, of which searching %.1f s (%.0f sources/s)\n",
           cli_grouped(number[0], e->sources), cli_grouped(number[1], e->pairs), e->seconds, e->search_seconds,
           e->search_seconds > 0 ? (double)e->sources / e->search_seconds : 0);
    return CLI_DONE;
}

/* ---- labelled lines ---------------------------------------------------------------------------------------------- */

enum { NAME = 16, CELL = 6, CLASSES = 16, TALK_TOKENS = 4096 }; /* NAME, CELL: columns of a row's name and a cell */

static const char *eval_label(struct qkv_model *model, size_t k, char number[CLI_NUMBER]) {
    const char *name = qkv_model_label(model, k);
    snprintf(number, CLI_NUMBER, "%zu", k);
    return name ? name : number;
}

/* Prints at most `width` columns of a text, the last one "." if it is cut; pads with spaces on one side. */
static void print_cut(const char *text, int width, bool right) {
    size_t size = strlen(text), bytes = 0, cut = 0;
    int shown = 0, all = 0;
    for (size_t i = 0; i < size; all++) {
        size_t n = qkv_utf8_length(text + i, size - i);
        i += n ? n : 1;
        if (all < width - 1) cut = i;
        if (all < width) bytes = i;
    }
    shown = all < width ? all : width;
    if (right) printf("%*s", width - shown, "");
    printf("%.*s%s", (int)(all > width ? cut : bytes), text, all > width ? "." : "");
    if (!right) printf("%*s", width - shown, "");
}

static void print_matrix(struct qkv_model *model, const struct qkv_labels_evaluation *e) {
    char number[CLI_NUMBER];
    printf("\nlabels down, predictions across\n%*s", NAME, "");
    for (size_t k = 0; k < e->classes; k++) {
        putchar(' ');
        print_cut(eval_label(model, k, number), CELL, true);
    }
    putchar('\n');
    for (size_t k = 0; k < e->classes; k++) {
        print_cut(eval_label(model, k, number), NAME, false);
        for (size_t p = 0; p < e->classes; p++) printf(" %*zu", CELL, e->confusion[k * e->classes + p]);
        putchar('\n');
    }
}

/* Too many classes for a matrix: prints the pairs that are confused most often. */
static void print_confusions(struct qkv_model *model, const struct qkv_labels_evaluation *e) {
    char number[CLI_NUMBER];
    size_t limit = SIZE_MAX, from = 0, shown = 0;
    printf("\nconfused most often (label, prediction, times; --json has all)\n");
    while (shown < CLASSES) {
        /* finds the largest entry off the diagonal that comes after the one shown last */
        size_t best = 0, place = 0;
        for (size_t i = 0; i < e->classes * e->classes; i++) {
            size_t n = e->confusion[i];
            bool behind = n < limit || (n == limit && i >= from);
            if (i / e->classes != i % e->classes && behind && n > best) best = n, place = i;
        }
        if (best == 0) break;
        print_cut(eval_label(model, place / e->classes, number), NAME, false);
        putchar(' ');
        print_cut(eval_label(model, place % e->classes, number), NAME, false);
        printf(" %*zu\n", CELL, best);
        limit = best;
        from = place + 1;
        shown++;
    }
    if (!shown) printf("nothing\n");
}

static int print_labels_json(struct qkv_model *model, const struct qkv_labels_evaluation *e) {
    char number[CLI_NUMBER];
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_number(&out, "loss", e->loss, 9);
    qkv_json_put_number(&out, "accuracy", e->accuracy, 9);
    qkv_json_put_number(&out, "macro_f1", e->macro_f1, 9);
    qkv_json_put_count(&out, "lines", e->lines);
    qkv_json_put_count(&out, "classes", e->classes);
    qkv_json_key(&out, "labels");
    qkv_json_begin(&out, '[');
    for (size_t k = 0; k < e->classes; k++) qkv_json_text(&out, eval_label(model, k, number));
    qkv_json_end(&out, ']');
    qkv_json_key(&out, "confusion");
    qkv_json_begin(&out, '[');
    for (size_t k = 0; k < e->classes; k++) {
        qkv_json_begin(&out, '[');
        for (size_t p = 0; p < e->classes; p++) qkv_json_count(&out, e->confusion[k * e->classes + p]);
        qkv_json_end(&out, ']');
    }
    qkv_json_end(&out, ']');
    qkv_json_put_fixed(&out, "seconds", e->seconds, 3);
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

/* unit: of the file, "a line", "a word" or "an example". */
static int print_labels(struct qkv_model *model, const struct qkv_labels_evaluation *e, const char *unit, bool json) {
    if (json) return print_labels_json(model, e);
    char number[2][CLI_NUMBER];
    printf("loss      %.4f nats %s\n", e->loss, e->classes ? unit : "a target");
    printf("accuracy  %.2f %%\n", 100 * e->accuracy);
    if (!e->classes) { /* scores of a vocabulary */
        printf("over      %s targets, in %.1f s\n", cli_grouped(number[0], e->lines), e->seconds);
        return CLI_DONE;
    }
    printf("macro F1  %.2f %%\n", 100 * e->macro_f1);
    printf("over      %s %ss of %s classes, in %.1f s\n", cli_grouped(number[0], e->lines), strchr(unit, ' ') + 1,
           cli_grouped(number[1], e->classes), e->seconds);
    (e->classes > CLASSES ? print_confusions : print_matrix)(model, e);
    return CLI_DONE;
}

/* ---- talks ------------------------------------------------------------------------------------------------------- */

/* other: of the other model; NULL: there is none. */
static int print_talks_json(const struct qkv_talks_evaluation *e, const struct qkv_talks_evaluation *other) {
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_number(&out, "loss", e->loss, 9);
    qkv_json_put_number(&out, "perplexity", e->perplexity, 9);
    if (other) qkv_json_put_number(&out, "other_loss", other->loss, 9);
    if (other) qkv_json_put_number(&out, "other_perplexity", other->perplexity, 9);
    qkv_json_put_count(&out, "tokens", e->tokens);
    qkv_json_put_count(&out, "lines", e->lines);
    qkv_json_put_count(&out, "long_lines", e->long_lines);
    qkv_json_put_fixed(&out, "seconds", e->seconds, 3);
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

static int print_talks(const struct qkv_talks_evaluation *e, const struct qkv_talks_evaluation *other, const char *name,
                       bool json) {
    char number[3][CLI_NUMBER];
    if (json) return print_talks_json(e, other);
    printf("loss        %.4f nats a token", e->loss);
    if (other) {
        printf("; %.4f of ", other->loss);
        cli_print_name(name, SIZE_MAX);
    }
    printf("\nperplexity  %.4g", e->perplexity);
    if (other) printf("; %.4g", other->perplexity);
    printf("\nover        %s tokens of answers in %s lines, in %.1f s\n", cli_grouped(number[0], e->tokens),
           cli_grouped(number[1], e->lines), e->seconds);
    if (e->long_lines)
        printf("long        %s of the lines have more tokens than the context\n",
               cli_grouped(number[2], e->long_lines));
    return CLI_DONE;
}

/* Losses a token are of the same tokens only if both tokenizers have the same text for each id. */
static int eval_same_tokens(const struct qkv_tokenizer *one, const struct qkv_tokenizer *two, const char *name) {
    const int vocab = one && two ? qkv_tokenizer_vocab(one) : 0;
    bool same = !vocab || qkv_tokenizer_vocab(two) == vocab;
    for (int id = 0; id < vocab && same; id++) {
        size_t size[2];
        const char *text[] = {qkv_tokenizer_token(one, id, &size[0]), qkv_tokenizer_token(two, id, &size[1])};
        same = !text[0] == !text[1] && (!text[0] || (size[0] == size[1] && !memcmp(text[0], text[1], size[0])));
    }
    if (same) return CLI_DONE;
    return cli_failed("%s has another tokenizer, so its loss a token is about other tokens and cannot be compared; "
                      "evaluate each model by itself",
                      name);
}

static int eval_same_talks(const struct qkv_talks_evaluation talks[2], const struct arguments *a) {
    if (talks[0].tokens == talks[1].tokens && talks[0].long_lines == talks[1].long_lines) return CLI_DONE;
    return cli_failed("%zu of the lines are longer than the context of the first model, %zu than that of %s, so their "
                      "losses are of other tokens (%zu and %zu); remove long lines",
                      talks[0].long_lines, talks[1].long_lines, a->against, talks[0].tokens, talks[1].tokens);
}

/* Both models read the talks that the first one's template writes. */
static int eval_talks(struct qkv_model *model, struct qkv_model *other, const struct arguments *a, const char *folder,
                      struct cli_task *task) {
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_talks_evaluation talks[2];
    struct qkv_chat_template *templates = NULL;
    enum qkv_long kind = QKV_LONG_ERROR;
    int code = other ? eval_same_tokens(qkv_model_tokenizer(model), qkv_model_tokenizer(other), a->against) : CLI_DONE;
    if (code) return code;
    enum qkv_status status = qkv_chat_template_open(ctx, folder, a->template, &templates);
    if (status == QKV_FILE && !a->template) status = QKV_OK; /* prompts that are texts need none */
    if (!status && a->long_lines) status = qkv_long_find(ctx, a->long_lines, &kind);
    if (!status)
        status = qkv_evaluate_talks(model, templates, a->chat.items, a->chat.count, kind, cli_task_progress, task,
                                    &talks[0]);
    if (!status && other)
        status = qkv_evaluate_talks(other, templates, a->chat.items, a->chat.count, kind, cli_task_progress, task,
                                    &talks[1]);
    qkv_chat_template_free(templates);
    cli_progress_clear(task->progress);
    if (status) return status == QKV_STOPPED ? CLI_INTERRUPTED : cli_broken(ctx);
    if (other && (code = eval_same_talks(talks, a))) return code;
    return print_talks(&talks[0], other ? &talks[1] : NULL, a->against, a->json);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Sets *documents: as the command line says, else as the run was trained. */
static int eval_documents(struct qkv_context *ctx, const struct arguments *a, const char *folder, bool *documents) {
    bool recorded = false;
    *documents = a->documents;
    if (!a->data.count || a->documents) return CLI_DONE;
    /* with --documents or --no-documents, the run's record is not needed */
    if (qkv_model_documents(ctx, folder, &recorded)) {
        if (!a->no_documents)
            cli_say("%s; the text is read as one document (--documents separates its documents)", cli_message(ctx));
        return CLI_DONE;
    }
    if (a->no_documents && !recorded)
        return cli_failed("--no-documents has no effect: %s was not trained with documents apart", folder);
    *documents = recorded && !a->no_documents;
    return CLI_DONE;
}

/* Sets the search for the targets of pairs. */
static int eval_search(struct qkv_model *model, const struct arguments *a, struct cli_rules_read *read,
                       struct qkv_search_options *o) {
    const int code = cli_search_settle(&a->search, read, model, o);
    o->sample = false; /* also where the folder samples: a measurement is no draw */
    o->batch = (size_t)a->batch;
    if (!code && o->beam == 1 && (!isnan(a->search.length_penalty) || a->search.stopping))
        return cli_usage("eval: --%s has no effect: a greedy search has one result; add --beam N",
                         a->search.stopping ? "early-stopping" : "length-penalty");
    return code;
}

/* other: NULL: none. */
static int eval_evaluate(struct qkv_model *model, struct qkv_model *other, const struct arguments *a, bool documents,
                         struct cli_rules_read *read, struct cli_task *task) {
    struct qkv_divergence both;
    struct qkv_evaluation text;
    struct qkv_pairs_evaluation pairs;
    struct qkv_labels_evaluation labels;
    enum qkv_status status;
    if (a->data.count) {
        struct qkv_evaluate_options o = {.size = sizeof o,
                                         .batch = (size_t)a->batch,
                                         .context = (size_t)a->context,
                                         .documents = documents,
                                         .text_key = a->text_key};
        status =
            other ? qkv_evaluate_against(model, other, a->data.items, a->data.count, &o, cli_task_progress, task, &both)
                  : qkv_evaluate_text(model, a->data.items, a->data.count, &o, cli_task_progress, task, &text);
    } else if (a->pairs) {
        struct qkv_search_options o = qkv_search_defaults();
        const int code = eval_search(model, a, read, &o);
        if (code) return code;
        status = qkv_evaluate_pairs(model, a->pairs, &o, cli_task_progress, task, &pairs);
    } else if (a->examples) {
        status = qkv_evaluate_examples(model, a->examples, cli_task_progress, task, &labels);
    } else {
        status = qkv_evaluate_labels(model, a->labeled, cli_task_progress, task, &labels);
    }
    cli_progress_clear(task->progress);
    if (status) return status == QKV_STOPPED ? CLI_INTERRUPTED : cli_broken(qkv_model_context(model));
    if (other) return print_divergence(&both, a->against, documents, a->json);
    if (a->data.count) return print_text(&text, documents, a->json);
    if (a->pairs) return print_pairs(&pairs, a->json);
    const bool words = a->labeled && qkv_model_spec(model)->head.kind == QKV_HEAD_CLASSIFY_TOKENS;
    int code = print_labels(model, &labels, words ? "a word" : a->examples ? "an example" : "a line", a->json);
    qkv_free(labels.confusion);
    return code;
}

static int eval_check(const struct arguments *a) {
    int files =
        (a->data.count > 0) + (a->pairs != NULL) + (a->labeled != NULL) + (a->examples != NULL) + (a->chat.count > 0);
    if (!files)
        return cli_usage("eval: name a text, pairs, labelled lines, examples or talks: --data FILE, --pairs FILE, "
                         "--labeled FILE, --examples FILE or --chat FILE");
    if (files > 1) return cli_usage("eval: --data, --pairs, --labeled, --examples and --chat exclude each other");
    if (a->documents && a->no_documents) return cli_usage("eval: --documents and --no-documents exclude each other");
    return CLI_DONE;
}

/* Checks that an opened model and its largest batch fit into the memory before its weights are read, and fills it. */
static int eval_fill(struct qkv_context *ctx, const struct arguments *a, const struct cli_common *common,
                     const char *folder, struct qkv_opening *opening, const struct qkv_model *against,
                     struct qkv_model **model) {
    struct qkv_use_options use = {.size = sizeof use,
                                  .batch = (size_t)a->batch,
                                  .context = (size_t)a->context,
                                  .width = (size_t)(a->search.beam ? a->search.beam : 1),
                                  .max_tokens = (size_t)a->search.max_tokens,
                                  .against = a->chat.count ? NULL : against};
    /* talks are batched to so many tokens; longer ones are rare */
    if (a->chat.count) use.batch = 1, use.context = TALK_TOKENS;
    use.use = a->data.count || a->chat.count ? QKV_USE_EVALUATE_TEXT
              : a->pairs                     ? QKV_USE_EVALUATE_PAIRS
              : a->labeled                   ? QKV_USE_EVALUATE_LABELS
                                             : QKV_USE_EVALUATE_EXAMPLES;
    use.file = a->pairs ? a->pairs : a->labeled ? a->labeled : a->examples;
    if (qkv_opening_check_use(opening, &use)) return cli_broken(ctx);
    return cli_load_opened(common, ctx, folder, opening, model);
}

/* Opens the model, and the other one if there is one, each in its own precision; then fills them. */
static int eval_load(struct qkv_context *ctx, const struct arguments *a, const char *folder, struct qkv_model **model,
                     struct qkv_model **other) {
    struct qkv_opening *first = NULL, *second = NULL;
    int code = cli_open_model(&a->common, ctx, folder, &first);
    struct cli_common plain = a->common; /* the adapter is the first one's */
    plain.adapter = NULL;
    if (code == CLI_DONE && a->against) code = cli_open_model(&plain, ctx, a->against, &second);
    if (code == CLI_DONE)
        code = eval_fill(ctx, a, &a->common, folder, first, second ? qkv_opening_plan(second) : NULL, model);
    if (code == CLI_DONE && second) code = eval_fill(ctx, a, &plain, a->against, second, *model, other);
    qkv_opening_free(first);
    qkv_opening_free(second);
    return code;
}

static int eval_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL, *other = NULL;
    struct cli_progress progress;
    struct cli_task task = {.progress = &progress};
    if (!count) return cli_usage("eval: name a model folder: %s eval RUN --data FILE", cli_program);
    struct cli_rules_read read = {0};
    int code = eval_check(a);
    if (!code) code = cli_rules_read(&a->search.rules, &read);
    if (code) {
        cli_rules_free(&read);
        return code;
    }
    cli_progress_start(&progress, a->quiet || cli_ranks_follow(), false);
    /* the result is one line, so progress lines would only disturb */
    if (progress.kind == CLI_LINES) progress.kind = CLI_SILENT;
    code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) code = eval_load(ctx, a, words[0], &model, &other);
    bool documents = false;
    if (code == CLI_DONE) code = eval_documents(ctx, a, words[0], &documents);
    if (code == CLI_DONE) {
        cli_catch_signals();
        code = a->chat.count ? eval_talks(model, other, a, words[0], &task)
                             : eval_evaluate(model, other, a, documents, &read, &task);
    }
    cli_rules_free(&read);
    qkv_model_free(model);
    qkv_model_free(other);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_eval(void) {
    static const struct cli_command command = {
        .name = "eval",
        .words = CLI_WORD_MODEL,
        .summary = "measure a model on texts, pairs, labels, examples or talks",
        .usage = "RUN --data FILE [options]\nRUN --data FILE --against OTHER [options]\nRUN --pairs FILE "
                 "[options]\nRUN --labeled FILE [options]\n"
                 "RUN --examples FILE [options]\nRUN --chat FILE [--against OTHER] [options]",
        .description =
            "A text is cut into adjacent windows, and every token except the first is predicted once. The results are "
            "the loss (nats a token), the perplexity and the bits per byte. Bits per byte compare models with "
            "different tokenizers. A run that was trained with --documents is evaluated in the same way: the first "
            "token of each document is not predicted.\n\n"
            "--against OTHER compares the predictions of two models with the same vocabulary on a text: the losses of "
            "both, the divergence of the distribution of RUN from that of OTHER (the mean of KL(OTHER, RUN) over the "
            "tokens, with its standard error), and how often both have the same likeliest token. It measures what "
            "quantisation or pruning changes.\n\n"
            "Pairs have two kinds of results: the loss of their targets, and the quality of a search for the best "
            "target of each source. The quality is the share of sources whose target is exactly a reference, the edits "
            "to the closest reference divided by its tokens (words if targets have spaces, else characters), and BLEU "
            "and chrF2 as sacreBLEU computes them. Lines with the same source are its references.\n\n"
            "Labelled lines and examples have a loss, an accuracy, F1 averaged over the classes that occur, and a "
            "confusion matrix (for many classes, the most frequent confusions).\n\n"
            "Talks have the loss of what the assistant says, and of completions, as in training (qkv train --chat). "
            "--against OTHER shows the loss of another model beside it, for example of the model that a run began "
            "with: what fine-tuning changed. The template of RUN writes the talks for both.\n\n"
            "Under mpirun the ranks share the batches. The numbers are those of one process, bit for bit.",
        .examples = "qkv eval run/ --data other.txt\n"
                    "qkv eval small.gguf --data other.txt --against run/\n"
                    "qkv eval g2p/ --pairs test.tsv --beam 5\n"
                    "qkv eval topic/ --labeled test.tsv --json\n"
                    "qkv eval talker/ --chat held-out.jsonl --against run/",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .ranks = CLI_RANKS_APART,
        .run = eval_run,
    };
    return &command;
}
