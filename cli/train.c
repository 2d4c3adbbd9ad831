/* train.c: "qkv train" starts or resumes a run, shows its progress, and saves it when a signal stops it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_ranks.h"
#include "cli_train.h"

static const struct cli_option own_options[] = {
    {CLI_TEXT, 0, "preset", "NAME", offsetof(struct cli_train_arguments, preset), .choice = cli_choose_preset,
     .help = "named model, with its own defaults for the options of training", .subject = "model"},
    {CLI_READ, 0, "spec", "FILE", offsetof(struct cli_train_arguments, spec),
     .help = "model described as JSON (config.json)", .subject = "model"},
    {CLI_TEXTS, 0, "set", "KEY=VALUE", offsetof(struct cli_train_arguments, set),
     .help = "setting of the model: decoder.attention.kv_heads=2, position.kind=rope", .subject = "model"},
    {CLI_READ, 0, "config", "FILE", offsetof(struct cli_train_arguments, config),
     .help = "JSON file with options: an object of options by name, or the train.json of a run; options of the command "
             "line override it",
     .subject = "model"},
    {CLI_FOLDER, 0, "out", "RUN", offsetof(struct cli_train_arguments, out),
     .help = "folder of the run, which training makes", .subject = "saving"},
    {CLI_MODEL_READ, 0, "resume", "RUN", offsetof(struct cli_train_arguments, resume),
     .help = "continue the run in this folder, or from RUN/checkpoint-STEP.safetensors; --steps or --epochs may set a "
             "new end",
     .subject = "saving"},
    {CLI_TEXT, 0, "extend", "HOW", offsetof(struct cli_train_arguments, extend), .choice = cli_choose_extend,
     .help = "learning rate from the one reached to the new end, for --resume with --steps or --epochs: decay (falls "
             "to min-rate), flat (stays), rewarm (rises to rate again, then follows the schedule)",
     .before = "decay", .subject = "saving"},
    {CLI_WRITE, 0, "find-rate", "FILE.svg", offsetof(struct cli_train_arguments, find_rate),
     .help = "test learning rates in place of training: the rate grows from 1e-7 to 10 over --steps steps (100), "
             "until the loss is four times its lowest value; prints the losses and a rate to train with, and draws "
             "them in FILE.svg; no run is made",
     .subject = "optimizer"},
    {CLI_COUNT, 0, "sample", "N", offsetof(struct cli_train_arguments, sample),
     .help = "number of tokens of a sample, which is shown after each evaluation and saved in samples.jsonl: a text, "
             "or for pairs the targets of a few sources",
     .high = 1000000, .subject = "output"},
    {CLI_COUNT, 0, "log-every", "N", offsetof(struct cli_train_arguments, log_every),
     .help = "show a line every N steps instead of the progress bar (log.jsonl has each step)", .low = 1,
     .high = INT64_MAX, .before = "none", .subject = "output"},
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct cli_train_arguments, quiet), .help = "show errors only",
     .subject = "output"},
    {CLI_FLAG, 0, "plain", NULL, offsetof(struct cli_train_arguments, plain),
     .help = "show plain lines instead of a progress bar", .subject = "output"},
    {CLI_FLAG, 0, "profile", NULL, offsetof(struct cli_train_arguments, profile),
     .help = "show at the end the time that the steps spent in each operator", .subject = "output"},
    CLI_JSON(struct cli_train_arguments, "the result of the run, at its end,"),
    CLI_COMMON(struct cli_train_arguments),
    CLI_IGNORE_MEMORY(struct cli_train_arguments),
    CLI_IGNORE_DIGEST(struct cli_train_arguments),
};

/* The value of an option of training; NULL if it is not given. */
static const char *training_value(const struct cli_train_arguments *a, const char *option) {
    const char *name, *value, *help;
    for (size_t i = 0; qkv_train_option_at(i, &name, &value, &help); i++)
        if (!strcmp(name, option)) return cli_train_value(&a->training, i);
    return NULL;
}

/* `config` counts as a model: the file may name one to begin with. */
CLI_CONDITION(reads_no_model, struct cli_train_arguments, !a->resume && !a->config && !training_value(a, "from"))
CLI_CONDITION(finds_rate, struct cli_train_arguments, a->find_rate != NULL)
CLI_CONDITION(is_quiet, struct cli_train_arguments, a->quiet)
CLI_CONDITION(prints_json, struct cli_train_arguments, a->json)

static const struct cli_rule rules[] = {
    {"out resume extend sample log-every profile json", finds_rate, "--find-rate makes no run; leave one of them out"},
    {"rate min-rate warmup schedule decay-share average epochs eval-every eval-batches patience save-every keep",
     finds_rate, "the test of --find-rate has its own; leave one of them out"},
    {"plain log-every", is_quiet, CLI_WHY_QUIET},
    {"profile", prints_json, "--json is all that standard output gets; leave one of them out"},
    {"ignore-digest", reads_no_model, "a new run has no model to check; it is for --resume and --from"},
};

/* ---- running ----------------------------------------------------------------------------------------------------- */

struct running {
    struct cli_progress *progress;
    double began, speed; /* tokens a second, smoothed */
    size_t notes;        /* number of the trainer's notes shown so far */
    int64_t first;       /* steps done before this process */
    bool told;           /* when the run ends has been told */
};

/* Seconds until the end at the mean speed of the steps so far. */
static double seconds_left(const struct running *run, const struct qkv_train_report *r) {
    const int64_t done = r->step - run->first;
    return done > 0 ? (qkv_clock() - run->began) / (double)done * (double)(r->steps - r->step) : 0;
}

/* Tells once when a run of hours will end, after enough steps: the first step is slower than the others. */
static void tell_end(struct running *run, const struct qkv_train_report *r) {
    enum { HOUR = 3600, DAY = 24 * HOUR, SURE_STEPS = 10, SURE_SECONDS = 20 };
    const int64_t done = r->step - run->first;
    const double elapsed = qkv_clock() - run->began, left = seconds_left(run, r);
    if (run->told || done < 2 || (done < SURE_STEPS && elapsed < SURE_SECONDS)) return;
    run->told = true;
    if (left < HOUR) return;
    char length[64], each[64];
    const double amount = left < 2 * DAY ? left / HOUR : left / DAY, step = elapsed / (double)done;
    snprintf(length, sizeof length, "%.3g %s", amount, left < 2 * DAY ? "hours" : "days");
    snprintf(each, sizeof each, step < 1 ? "%.3g ms" : "%.3g s", step < 1 ? 1000 * step : step);
    cli_progress_line(run->progress,
                      "ends    in about %s, at %s a step; fewer --steps, a smaller --batch or --context, and a "
                      "smaller model end sooner",
                      length, each);
}

static void show_step(struct running *run, const struct qkv_train_report *r) {
    char step[64], loss[32], valid[32] = "", left[64], speed[48], share[32], number[2][CLI_NUMBER];
    const char *fields[6] = {step, loss};
    size_t count = 2;
    snprintf(step, sizeof step, "step %lld/%lld", (long long)r->step, (long long)r->steps);
    snprintf(loss, sizeof loss, "loss %.4f", r->loss);
    if (isfinite(r->valid_loss)) {
        snprintf(valid, sizeof valid, "valid %.4f", r->valid_loss);
        fields[count++] = valid;
    }
    snprintf(left, sizeof left, "%s left", cli_seconds(number[0], seconds_left(run, r)));
    fields[count++] = left;
    snprintf(speed, sizeof speed, "%s tokens/s", cli_short(number[1], run->speed));
    fields[count++] = speed;
    if (isfinite(r->flops_share) && r->flops_share > 0 && r->tokens_per_second > 0) {
        /* the share that belongs to the smoothed speed shown before it */
        snprintf(share, sizeof share, "%.0f%% of peak", 100 * r->flops_share * run->speed / r->tokens_per_second);
        fields[count++] = share;
    }
    cli_progress_show(run->progress, r->steps > 0 ? (double)r->step / (double)r->steps : -1, fields, count);
}

static int train_interrupted(struct qkv_trainer *trainer, struct cli_progress *progress,
                             const struct cli_train_arguments *a, const struct qkv_train_report *r) {
    const char *folder = a->resume ? a->resume : a->out;
    cli_progress_clear(progress);
    if (!r->saved && qkv_trainer_save(trainer)) return cli_broken(qkv_model_context(qkv_trainer_model(trainer)));
    cli_say("interrupted and saved after step %lld of %lld; go on with: %s train --resume %s", (long long)r->step,
            (long long)r->steps, cli_program, folder);
    return CLI_INTERRUPTED;
}

/* Prints a command that uses what was trained. */
static void train_suggest(struct cli_progress *progress, const char *folder, const struct qkv_train_options *options,
                          bool words) {
    const bool lora = options->lora != NULL;
    const char *model = lora ? options->from : folder, *with = lora ? " --adapter " : "", *adapter = lora ? folder : "";
    if (options->pairs)
        cli_progress_line(progress, "try: %s translate %s%s%s \"a source\"", cli_program, model, with, adapter);
    else if (options->labeled)
        cli_progress_line(progress, "try: %s classify %s%s%s \"a %s\"", cli_program, model, with, adapter,
                          words ? "sentence" : "text");
    else if (options->examples)
        cli_progress_line(progress, "try: %s eval %s%s%s --examples FILE", cli_program, model, with, adapter);
    else if (options->chat || options->preferences)
        cli_progress_line(progress, "try: %s chat %s%s%s%s%s", cli_program, model, with, adapter,
                          lora && options->chat_template ? " --template " : "",
                          lora && options->chat_template ? options->chat_template : "");
    else if (options->task && !strcmp(options->task, "mlm"))
        cli_progress_line(progress, "try: %s fill %s%s%s \"a text with a <mask> in it\"", cli_program, model, with,
                          adapter);
    else if (options->lines)
        cli_progress_line(progress, "try: %s generate %s%s%s --temp 0", cli_program, model, with, adapter);
    else
        cli_progress_line(progress, "try: %s generate %s%s%s -n 300", cli_program, model, with, adapter);
}

/* `before`: seconds before the first step. */
static void train_conclude(struct cli_progress *progress, const struct cli_train_arguments *a,
                           struct qkv_trainer *trainer, const struct qkv_train_report *r, double before) {
    const char *folder = a->resume ? a->resume : a->out, *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    const struct qkv_train_options *options = qkv_trainer_options(trainer);
    bool loss = strcmp(r->metric_name, "loss") == 0;
    char time[CLI_NUMBER], best[96] = "", early[96] = "", start[CLI_NUMBER + 64] = "";
    if (before >= 1)
        snprintf(start, sizeof start, " (after %s for tokenizer, tokens and memory)", cli_seconds(time, before));
    if (!options->valid && options->valid_fraction == 0) snprintf(best, sizeof best, ", loss %.4f", r->loss);
    if (isfinite(r->best_metric))
        snprintf(best, sizeof best, ", best %s %.4f", loss ? "validation loss" : r->metric_name, r->best_metric);
    if (r->ended)
        snprintf(early, sizeof early, " (of %lld: the last %lld evaluations brought no better %s)",
                 (long long)options->steps, (long long)options->patience, r->metric_name);
    cli_progress_line(progress, "\n%lld steps done in %s%s%s%s", (long long)r->steps,
                      cli_seconds(time, r->seconds > before ? r->seconds - before : 0), start, best, early);
    const bool tokenizer = qkv_model_tokenizer(qkv_trainer_model(trainer)) != NULL;
    if (options->lora)
        cli_progress_line(progress, "  adapter     %s%s" QKV_ADAPTER_WEIGHTS_FILE " (with " QKV_ADAPTER_CONFIG_FILE ")",
                          folder, slash);
    else
        cli_progress_line(progress, "  model       %s%s" QKV_WEIGHTS_FILE " (with " QKV_CONFIG_FILE "%s)", folder,
                          slash, tokenizer ? " and " QKV_TOKENIZER_FILE : "");
    cli_progress_line(progress, "  log         %s%s" QKV_LOG_FILE, folder, slash);
    cli_progress_line(progress, "  checkpoint  %s%s" QKV_CHECKPOINT_FILE, folder, slash);
    train_suggest(progress, folder, options,
                  qkv_model_spec(qkv_trainer_model(trainer))->head.kind == QKV_HEAD_CLASSIFY_TOKENS);
}

/* Prints the result with --json, of a run that is done or interrupted; returns the exit code. */
static int train_finish(struct qkv_trainer *trainer, const struct cli_train_arguments *a,
                        const struct qkv_train_report *r, int code) {
    if (!a->json || cli_ranks_follow() || (code != CLI_DONE && code != CLI_INTERRUPTED)) return code;
    const int written = cli_train_json(trainer, a, r, code == CLI_DONE ? "done" : "interrupted");
    return written ? written : code;
}

/* Sets how to go on if a rank dies. */
static void train_hint(const struct cli_train_arguments *a, int64_t step) {
    if (cli_ranks_count() > 1)
        cli_ranks_hint("the checkpoint of step %lld is whole; go on with: %s train --resume %s", (long long)step,
                       cli_program, a->resume ? a->resume : a->out);
}

static int train_loop(struct qkv_trainer *trainer, struct cli_progress *progress, const struct cli_train_arguments *a,
                      double before) {
    struct running run = {.progress = progress, .began = qkv_clock(), .first = -1};
    cli_train_notes(progress, trainer, &run.notes);
    struct qkv_context *ctx = qkv_model_context(qkv_trainer_model(trainer));
    for (;;) {
        struct qkv_train_report r = {0};
        if (qkv_trainer_step(trainer, &r)) {
            cli_progress_clear(progress);
            return cli_broken(ctx);
        }
        if (run.first < 0) {
            run.first = r.step - 1;
            train_hint(a, run.first);
            if (r.step >= r.steps && !r.saved) {
                cli_progress_line(progress, "all %lld steps were done before; --steps N sets a later end",
                                  (long long)r.steps);
                r.loss = r.tokens_per_second = NAN; /* of no step */
                return train_finish(trainer, a, &r, CLI_DONE);
            }
        }
        if (r.saved) train_hint(a, r.step);
        cli_train_notes(progress, trainer, &run.notes);
        run.speed = run.speed > 0 ? 0.9 * run.speed + 0.1 * r.tokens_per_second : r.tokens_per_second;
        cli_train_evaluated(progress, &r);
        if (r.evaluated && a->sample > 0 && !cli_ranks_follow()) {
            int code = cli_train_show(progress, trainer, a->sample);
            if (code) return code;
        }
        if (r.step >= r.steps) {
            train_conclude(progress, a, trainer, &r, before);
            return train_finish(trainer, a, &r, CLI_DONE);
        }
        bool stopping = cli_stopping;
        if (qkv_context_any(ctx, &stopping)) return cli_broken(ctx);
        if (stopping) return train_finish(trainer, a, &r, train_interrupted(trainer, progress, a, &r));
        tell_end(&run, &r);
        if (a->log_every ? r.step % a->log_every == 0 && progress->kind != CLI_SILENT : cli_progress_due(progress))
            show_step(&run, &r);
    }
}

static int train_run(const struct cli_train_arguments *a) {
    struct qkv_context *ctx = NULL;
    struct qkv_trainer *trainer = NULL;
    struct cli_progress progress;
    struct cli_task task = {.progress = &progress};
    double before = 0;
    size_t own = 0;
    cli_progress_start(&progress, a->quiet || cli_ranks_follow(), a->plain || a->log_every);
    int code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) {
        cli_catch_signals();
        before = qkv_clock();
        own = cli_memory_peak();
        code = a->resume ? cli_train_resume(ctx, a, &task, &trainer) : cli_train_start(ctx, a, &task, &trainer);
    }
    before = qkv_clock() - before;
    if (code == CLI_DONE && a->resume && cli_train_sample_idle(a, qkv_trainer_options(trainer))) code = CLI_FAILED;
    if (code == CLI_DONE) {
        task.finish = true;
        if (!a->find_rate) cli_train_introduce(&progress, trainer, a, own);
        progress.latest = 0; /* shows the first step at once */
        if (a->profile && qkv_trainer_profile_start(trainer)) code = cli_broken(ctx);
    }
    if (code == CLI_DONE && a->find_rate)
        code = cli_train_find_rate(trainer, &progress, a);
    else if (code == CLI_DONE) {
        code = train_loop(trainer, &progress, a, before);
        if (a->profile) cli_print_profile(qkv_trainer_profile(trainer));
    }
    qkv_trainer_free(trainer);
    qkv_context_free(ctx);
    return code;
}

/* --resume names a folder, or a checkpoint in one. */
static int run_train(const void *values, const char *const *words, size_t count) {
    struct cli_train_arguments a = *(const struct cli_train_arguments *)values;
    char *folder = a.resume ? cli_model_folder(a.resume, &a.checkpoint) : NULL;
    (void)words, (void)count;
    if (a.resume && !folder) return CLI_FAILED;
    if (a.find_rate && cli_ranks_count() > 1)
        return cli_usage("train: --find-rate is for one process; leave mpirun out");
    if (folder) a.resume = folder;
    char *tests = a.find_rate ? cli_train_rate_folder(a.find_rate) : NULL;
    if (a.find_rate) a.out = tests;
    const int code = a.find_rate && !tests ? CLI_FAILED : train_run(&a);
    if (tests) cli_train_rate_clear(tests);
    free(tests);
    free(folder);
    return code;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

const struct cli_command *cli_train(void) {
    static const struct cli_train_arguments defaults = {0};
    static struct cli_option options[CLI_COUNT_OF(own_options) + CLI_TRAIN_OPTIONS];
    static const char *const files[] = {QKV_MODEL_FILES, QKV_RUN_FILES, NULL};
    static const struct cli_use most_used[] = {
        {"preset", "qkv train --preset nano-gpt --data book.txt --out run/"},
        {"data", "qkv train --preset nano-gpt --data books/ --out run/"},
        {"out", "qkv train --preset nano-gpt --data book.txt --out nano/"},
        {"steps", "qkv train --preset nano-gpt --data book.txt --out run/ --steps 500"},
        {"resume", "qkv train --resume run/ --steps 4000"},
    };
    static struct cli_command command = {
        .name = "train",
        .writes = files,
        .appends = true, /* --find-rate itself refuses a picture that exists */
        .summary = "train a model on texts, pairs, labels or talks, or continue a run",
        .usage = "--preset NAME --data FILE --out RUN [options]\n"
                 "--preset NAME --lines FILE --out RUN [options]\n"
                 "--preset NAME --pairs FILE --out RUN [options]\n"
                 "--preset NAME --labeled FILE --out RUN [options]\n"
                 "--preset NAME --examples FILE --out RUN [options]\n"
                 "--spec FILE --data FILE --out RUN [options]\n"
                 "--from MODEL --data FILE --out RUN [options]\n"
                 "--from MODEL --chat FILE --out RUN [options]\n"
                 "--spec FILE --config FILE --out RUN [options]\n"
                 "--preset NAME --data FILE --find-rate FILE.svg [options]\n"
                 "--resume RUN [--steps N [--extend HOW]]",
        .description =
            "Training makes a folder RUN: the model with the best validation loss (config.json, model.safetensors, "
            "tokenizer.json), the latest state (checkpoint.safetensors), the options (train.json) and a log with a "
            "line of JSON for each step (log.jsonl). A preset brings its own defaults for the options above.\n\n"
            "--data trains on the next token of a text, or with --task mlm on its masked tokens. --lines does the same "
            "with lines, each a sequence between <s> and </s>. --pairs trains on the target of a source, --labeled on "
            "the label of a line, or with head.kind classify_tokens on that of a word.\n\n"
            "--chat trains on what the assistant says in talks, which the model's chat template writes: a line of the "
            "file is JSON with \"messages\" or \"conversations\"; or it has \"prompt\" and \"completion\", and only "
            "the completion has a loss. --preferences trains on \"prompt\", \"chosen\" and \"rejected\"; the model of "
            "--from is the reference. docs/do/talks.md describes the lines.\n\n"
            "--data A:3 --data B:1 mixes texts: docs/do/data.md.\n\n"
            "--data, --lines, --pairs, --labeled, --chat, --preferences and --valid may be repeated. A folder stands "
            "for the files in it, sorted by name, without hidden files and inner folders. Several texts are read as "
            "one text, with an end token between them if the tokenizer has one; the validation part is the last part "
            "of this text. train.json records each file.\n\n"
            "--from MODEL begins with the weights, spec and tokenizers of a model folder or run instead of --preset or "
            "--spec; the optimizer and the schedule are new. --new-head gives the model a new head if its own does not "
            "fit the task or the labels: one that classifies lines for labelled lines, or words with --task "
            "classify_tokens. --freeze PATTERN does not train the weights whose names match (qkv info --json lists the "
            "names); * stands for any characters. --rates PATTERN=X trains the weights whose names match with X times "
            "the learning rate.\n\n"
            "--resume continues from the checkpoint as if training had never stopped: the losses are the same, bit for "
            "bit. With --steps the run gets a new end; from there on the learning rate follows --extend, and both "
            "rates are printed. By default it decays: it never jumps, and a finished run continues at min-rate. "
            "Options that do not change the results of a step may change too: --eval-every (which decides the steps "
            "that may be the best one, and that --patience counts), --save-every, --keep, --patience, "
            "--checkpoint-activations.\n\n"
            "With --keep N of more than 1 the run also has earlier checkpoints, checkpoint-STEP.safetensors, and the "
            "checkpoint of the best evaluation, checkpoint-best.safetensors. --resume RUN/checkpoint-500.safetensors "
            "continues from an earlier one; the latest checkpoint then gets the name checkpoint-STEP.safetensors. "
            "Commands that take a model take RUN/checkpoint-500.safetensors as well.\n\n"
            "Ctrl-C finishes the step, saves and exits with 130. SIGUSR1, SIGUSR2 and SIGXCPU, with which batch "
            "systems warn before they end a job, do the same. A second Ctrl-C stops at once; the last checkpoint "
            "remains complete.\n\n"
            "--config FILE takes options from a file: an object such as {\"steps\": 500, \"rate\": 3e-4, \"data\": "
            "[\"a.txt\", \"b.txt\"]}, with the names above and underscores instead of hyphens, or the train.json of a "
            "run, whose options then replace the defaults. The model is not in that file: the spec of a run is its "
            "config.json. The command line overrides the file.\n\n"
            "Under mpirun of Open MPI several processes train one model, on one machine or on many that share the "
            "folder RUN. Each computes the gradients of whole groups of a batch (--groups), so the losses and weights "
            "are those of one process, bit for bit, and any number of processes can continue the run with --resume. "
            "QKV_RANK_SECONDS is the number of seconds after which a silent process counts as hung (600).\n\n"
            "--profile prints a table of the time of a step, at the end or after an interruption: for each operator "
            "the calls, the time and its share, the FLOP/s of products and attention with their share of the measured "
            "peak, and the bytes/s of operators that memory limits.",
        .examples =
            "qkv train --preset nano-gpt --data shakespeare.txt --out run/\n"
            "qkv train --preset nano-gpt --tokenizer bpe:512 --data texts.jsonl:0.7 --data books/:0.3 --out mix/\n"
            "qkv train --preset baby-gpt --set decoder.attention.kv_heads=2 --data shakespeare.txt --out run/\n"
            "qkv train --spec my.json --tokenizer bpe:4096 --batch 32 --rate 6e-4 --data book.txt --out run/\n"
            "qkv train --preset g2p --pairs train.tsv --valid valid.tsv --out g2p/\n"
            "qkv train --preset text-classifier --labeled train.tsv --valid test.tsv --out topic/\n"
            "qkv train --preset bert-tiny --set head.kind=classify_tokens --labeled train.conll --out tagger/\n"
            "qkv train --preset bert-tiny --data text.txt --out enc/\n"
            "qkv train --preset tiny-lm --lines toy.txt --out lm/\n"
            "qkv train --from run/ --data other.txt --rate 1e-4 --out tuned/\n"
            "qkv train --from gpt2/ --data book.txt --freeze '*embed*' --rates '*.layers.?.*=0.1' --out mine/\n"
            "qkv train --from run/ --lora rank=8,targets=q,v --data other.txt --out adapter/\n"
            "qkv train --from run/ --chat answers.jsonl --template chat.jinja --long skip --out talker/\n"
            "qkv train --from run/ --lora rank=8 --preferences pairs.jsonl --preference-beta 0.2 --out better/\n"
            "qkv train --from enc/ --new-head --labeled train.tsv --out topic/\n"
            "qkv train --from enc/ --new-head --task classify_tokens --labeled train.conll --out tagger/\n"
            "qkv train --spec run/config.json --config run/train.json --seed 2 --out second/\n"
            "mpirun -n 4 qkv train --preset gpt2-small --data book.txt --out run/\n"
            "qkv train --preset nano-gpt --data shakespeare.txt --find-rate rates.svg\n"
            "qkv train --preset g2p --pairs train.tsv --epochs 3 --out g2p/\n"
            "qkv train --resume run/ --steps 10000\n"
            "qkv train --resume run/ --steps 10000 --extend rewarm",
        .options = options,
        .most_used = most_used,
        .most_used_count = CLI_COUNT_OF(most_used),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .presets = true,
        .ranks = CLI_RANKS_TOGETHER,
        .run = run_train,
    };
    if (!command.option_count) {
        memcpy(options, own_options, sizeof own_options);
        command.option_count =
            CLI_COUNT_OF(own_options) + cli_train_options(options + CLI_COUNT_OF(own_options),
                                                          offsetof(struct cli_train_arguments, training), false);
    }
    return &command;
}
