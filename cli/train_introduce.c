/* train_introduce.c: prints what a run is before its first step: the model, the data, the machine, and the notes. */
#include <stdio.h>
#include <string.h>

#include "cli_train.h"

/* "a.txt", or "a.txt and 2 more files": the files to train on. */
static const char *name_data(const struct qkv_trainer *trainer, char *text, size_t size) {
    struct qkv_train_file file = {.path = ""}, other;
    size_t count = 1;
    qkv_trainer_file(trainer, 0, &file);
    while (qkv_trainer_file(trainer, count, &other) && !other.valid) count++;
    if (count == 1)
        snprintf(text, size, "%s", file.path);
    else
        snprintf(text, size, "%s and %zu more file%s", file.path, count - 1, count == 2 ? "" : "s");
    return text;
}

/* If there are several files: prints where the part for validation begins and ends. */
static void introduce_held_out(struct cli_progress *progress, const struct qkv_trainer *trainer) {
    struct qkv_train_file file, first = {0}, last = {0};
    size_t count = 0, held = 0;
    for (; qkv_trainer_file(trainer, count, &file) && !file.valid; count++) {
        if (!file.held_out) continue;
        if (held++ == 0) first = file;
        last = file;
    }
    if (count < 2 || held == 0) return;
    bool whole = first.held_out == (first.lines ? first.lines : first.tokens);
    cli_progress_line(progress, "valid   %s %s%s%s", whole ? "all of" : "the end of", first.path,
                      held > 2   ? ", and all up to the end of "
                      : held > 1 ? " and all of "
                                 : "",
                      held > 1 ? last.path : "");
}

/* Prints what the run trains on, and how much of it there is. */
static void introduce_data(struct cli_progress *progress, struct qkv_trainer *trainer,
                           const struct qkv_train_options *options) {
    const struct qkv_spec *spec = qkv_model_spec(qkv_trainer_model(trainer));
    size_t valid_tokens, tokens = qkv_trainer_tokens(trainer, &valid_tokens);
    size_t valid, lines = qkv_trainer_lines(trainer, &valid);
    char text[3][CLI_NUMBER], kind[64] = "lines", file[512];
    name_data(trainer, file, sizeof file);
    if (!lines) {
        cli_progress_line(progress, "data    %s, %s tokens to train on, %s to validate on", file,
                          cli_grouped(text[0], tokens), cli_grouped(text[1], valid_tokens));
        introduce_held_out(progress, trainer);
        return;
    }
    if (options->pairs) snprintf(kind, sizeof kind, "pairs");
    if (options->chat) snprintf(kind, sizeof kind, "talks");
    if (options->preferences) snprintf(kind, sizeof kind, "preferences");
    if (options->labeled)
        snprintf(kind, sizeof kind, "%s of %d classes",
                 spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS ? "sentences of words" : "lines", spec->head.classes);
    if (options->examples && cli_has_classes(spec))
        snprintf(kind, sizeof kind, "examples of %d classes", spec->head.classes);
    else if (options->examples)
        snprintf(kind, sizeof kind, "examples");
    cli_progress_line(progress, "data    %s, %s %s (%s tokens) to train on, %s to validate on", file,
                      cli_grouped(text[0], lines), kind, cli_grouped(text[1], tokens), cli_grouped(text[2], valid));
    introduce_held_out(progress, trainer);
}

/* `lines`: the number of lines to train on; 0 of a text. */
static const char *batch_text(char *text, size_t size, const struct qkv_train_options *options,
                              const struct qkv_spec *spec, size_t lines) {
    char rows[48] = "";
    if (!lines) {
        snprintf(text, size, "%lld x %lld tokens", (long long)options->batch,
                 (long long)(options->context > 0 ? options->context : spec->context));
        return text;
    }
    const bool all = options->batch > 0 && (uint64_t)options->batch >= lines;
    if (options->batch)
        snprintf(rows, sizeof rows, all ? "all %lld lines" : "%lld lines",
                 all ? (long long)lines : (long long)options->batch);
    if (options->batch_tokens)
        snprintf(text, size, "at most %s%s%lld tokens", rows, *rows ? " and " : "", (long long)options->batch_tokens);
    else
        snprintf(text, size, "%s", rows);
    return text;
}

void cli_train_introduce(struct cli_progress *progress, struct qkv_trainer *trainer,
                         const struct cli_train_arguments *a, size_t own) {
    const struct qkv_train_options *options = qkv_trainer_options(trainer);
    struct qkv_model *model = qkv_trainer_model(trainer);
    const struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    char text[2][CLI_NUMBER];
    const size_t parameters = cli_parameters(model);
    char vocabulary[48] = "";
    if (qkv_spec_has_tokens(spec)) snprintf(vocabulary, sizeof vocabulary, "vocabulary %d, ", spec->vocab);
    cli_progress_line(progress, "model   %s%s%s parameters, %scontext %d",
                      a->preset                     ? a->preset
                      : a->spec                     ? a->spec
                      : !a->resume && options->from ? options->from
                                                    : "",
                      a->preset || a->spec || (!a->resume && options->from) ? ", " : "",
                      cli_short(text[0], (double)parameters), vocabulary, spec->context);
    introduce_data(progress, trainer, options);
    const char *precision = qkv_context_precision(ctx) == QKV_FP32 ? "fp32"
                            : qkv_context_native_bf16(ctx)         ? "bf16"
                                                                   : "bf16 (emulated)";
    const size_t bytes = cli_memory_at_work(own, qkv_trainer_bytes(trainer));
    cli_progress_line(progress,
                      "machine %d thread%s, %s, %s, %s of memory for weights, optimizer, a step, data and all",
                      qkv_context_threads(ctx), qkv_context_threads(ctx) == 1 ? "" : "s", qkv_context_isa(ctx),
                      precision, cli_bytes(text[1], bytes));
    if (qkv_context_precision(ctx) != QKV_FP32) cli_say_emulated(ctx, NULL);
    char batch[96];
    cli_progress_line(progress, "run     %s, %lld steps of %s; Ctrl-C saves and stops", a->resume ? a->resume : a->out,
                      (long long)options->steps,
                      batch_text(batch, sizeof batch, options, spec, qkv_trainer_lines(trainer, NULL)));
    if (options->epochs > 0)
        cli_progress_line(progress, "epochs  %.6g epoch%s %s %s step%s, with %.6g an epoch", options->epochs,
                          options->epochs == 1 ? "" : "s", options->epochs == 1 ? "is" : "are",
                          cli_grouped(text[0], (uint64_t)options->steps), options->steps == 1 ? "" : "s",
                          qkv_trainer_epoch(trainer));
}

void cli_train_notes(struct cli_progress *progress, const struct qkv_trainer *trainer, size_t *shown) {
    const char *note;
    for (; (note = qkv_trainer_note(trainer, *shown)); ++*shown) {
        cli_progress_clear(progress);
        cli_say("%s", cli_sentence(note));
    }
}
