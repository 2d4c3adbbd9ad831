/* Which options of training mean something beside each other: two tables that checking and starting are driven by.
 *
 * An option that was set has to have an effect: that is a mistake which nothing else would show. A default, of the
 * list or of a preset's recipe, gives way to what was set where the two contradict each other, and a note tells what
 * it became. */
#include <string.h>

#include "model/spec.h"
#include "train/train.h"

static bool is_file(const char *text) {
    return text && *text;
}

static bool is_name(const char *text, const char *name) {
    return text && !strcmp(text, name);
}

static bool learns_from(const struct qkv_train_options *o, enum qkv_data_reads reads) {
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    return dataset && dataset->reads == reads;
}

static bool learns_tasks(const struct qkv_train_options *o, enum qkv_data_tasks tasks) {
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    return dataset && dataset->tasks == tasks;
}

static bool needs_validates(const struct qkv_train_options *o) {
    return is_file(o->valid) || o->valid_fraction > 0;
}

/* ---- options without effect ------------------------------------------------------------------------------------- */

static bool need_lines(const struct qkv_train_options *o) {
    return learns_from(o, QKV_READS_LINES) || o->batch_tokens == 0;
}

static bool need_long(const struct qkv_train_options *o) {
    return learns_from(o, QKV_READS_LINES) || is_name(o->long_lines, "error");
}

static bool need_sources(const struct qkv_train_options *o) {
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    return dataset && dataset->tokenizers == 2;
}

static bool need_masks(const struct qkv_train_options *o) {
    return qkv_task_masks(o);
}

static bool need_each(const struct qkv_train_options *o) {
    return learns_from(o, QKV_READS_LINES) && learns_tasks(o, QKV_TASKS_TEXT) && qkv_task_masks(o);
}

static bool need_chance(const struct qkv_train_options *o) {
    return !o->mask_each;
}

static bool need_text(const struct qkv_train_options *o) {
    return learns_from(o, QKV_READS_TEXT) && !qkv_task_masks(o);
}

static bool need_tokenizer(const struct qkv_train_options *o) {
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    return !dataset || dataset->tokenizers > 0;
}

static bool need_mixture(const struct qkv_train_options *o) {
    return qkv_dataset_of(o) == &qkv_dataset_mixture;
}

static bool need_examples(const struct qkv_train_options *o) {
    return learns_from(o, QKV_READS_ARRAYS);
}

static bool need_talks(const struct qkv_train_options *o) {
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    return dataset && dataset->talks;
}

static bool need_preferences(const struct qkv_train_options *o) {
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    return dataset && dataset->prefers;
}

static bool need_smoothing(const struct qkv_train_options *o) {
    return !need_preferences(o) || !is_name(o->preference_loss, "ipo") || o->label_smoothing == 0;
}

static bool need_teacher(const struct qkv_train_options *o) {
    return o->teacher != NULL;
}

static bool need_targets(const struct qkv_train_options *o) {
    return !need_teacher(o) || o->teacher_share < 1 || o->label_smoothing == 0;
}

static bool need_dropout(const struct qkv_train_options *o) {
    return !need_preferences(o) || o->dropout <= 0;
}

static bool need_tokens(const struct qkv_train_options *o) {
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    return dataset && !qkv_task_masks(o) && (dataset->tasks == QKV_TASKS_TEXT || dataset->talks) && !dataset->prefers;
}

static bool need_fraction(const struct qkv_train_options *o) {
    return !is_file(o->valid) || o->valid_fraction == 0;
}

static bool need_evaluations(const struct qkv_train_options *o) {
    return needs_validates(o) || o->eval_every == 0;
}

static bool need_validation(const struct qkv_train_options *o) {
    return needs_validates(o);
}

static bool need_fall(const struct qkv_train_options *o) {
    const enum qkv_schedule_kind kind = qkv_train_schedule(o);
    return o->min_rate < 0 || (kind != QKV_SCHEDULE_CONSTANT && kind != QKV_SCHEDULE_INVERSE_SQRT);
}

static bool need_stable(const struct qkv_train_options *o) {
    return qkv_train_schedule(o) == QKV_SCHEDULE_WSD;
}

static bool need_betas(const struct qkv_train_options *o) {
    return qkv_optimizer_reads(qkv_train_optimizer(o), "beta1");
}

static bool need_eps(const struct qkv_train_options *o) {
    return qkv_optimizer_reads(qkv_train_optimizer(o), "eps");
}

static bool need_momentum(const struct qkv_train_options *o) {
    return qkv_optimizer_reads(qkv_train_optimizer(o), "momentum");
}

/* An option, when it has an effect (or says that there shall be none), and why it has none otherwise; NULL: the
 * optimizer has none. */
static const struct need {
    const char *option;
    bool (*holds)(const struct qkv_train_options *options);
    const char *why, *way_out;
} needs[] = {
    {"valid_fraction", need_fraction, "valid_fraction has no place beside a file to validate on (valid)", NULL},
    {"mask_probability", need_masks, "only the task mlm masks tokens", "leave it out, or choose task mlm"},
    {"mask_probability", need_chance, "mask_each hides each token once", NULL},
    {"mask_each", need_each, "only lines (lines) with task mlm are repeated for each token",
     "leave it out, or choose task mlm"},
    {"documents", need_text, "only rows of a text whose next token is learnt have documents", NULL},
    {"prefix", need_text, "only rows of a text whose next token is learnt have a prefix", NULL},
    {"tokenizer", need_tokenizer, "examples are arrays of numbers", NULL},
    {"context", need_tokenizer, "examples say how many positions they have", NULL},
    {"in_order", need_examples, "only examples (examples) are shuffled as a whole", NULL},
    {"text_key", need_mixture, "only texts (data) may be JSON lines", NULL},
    {"skip_bad", need_mixture, "only mixtures of texts leave files and lines out",
     "leave it out, or give the texts a weight, as in books/:1"},
    {"shards", need_mixture, "only mixtures of texts have shards",
     "leave it out, or give the texts a weight, as in books/:1"},
    {"source_tokenizer", need_sources, "only pairs have sources", NULL},
    {"template", need_talks, "only talks (chat, preferences) are written by a template", NULL},
    {"teacher", need_tokens, "only the next tokens of a text, of lines or of talks are learnt from one", NULL},
    {"teacher_temperature", need_teacher, "there is no teacher (teacher)", NULL},
    {"teacher_share", need_teacher, "there is no teacher (teacher)", NULL},
    {"preference_loss", need_preferences, "only preferences (preferences) have one", NULL},
    {"preference_beta", need_preferences, "only preferences (preferences) have one", NULL},
    {"label_smoothing", need_smoothing, "the preference_loss ipo has none", NULL},
    {"label_smoothing", need_targets, "with teacher_share 1 the loss is the divergence from the teacher alone", NULL},
    {"dropout", need_dropout, "preferences are learnt without dropout", NULL},
    {"batch_tokens", need_lines, "the windows of a text are all as long", "leave it out, and set batch instead"},
    {"long", need_long, "the windows of a text are all as long as the context", NULL},
    {"min_rate", need_fall, "only the schedules cosine, linear and wsd fall to it",
     "leave it out, or choose one of these schedules"},
    {"decay_share", need_stable, "only the schedule wsd has one", "leave it out, or choose wsd"},
    {"beta1", need_betas, NULL, "leave it out, or choose adamw or adam"},
    {"beta2", need_betas, NULL, "leave it out, or choose adamw or adam"},
    {"eps", need_eps, NULL, "leave it out, or choose adamw or adam"},
    {"momentum", need_momentum, "only the optimizers sgd and muon have one",
     "leave it out, or choose one of these optimizers"},
    {"eval_every", need_evaluations, "nothing is kept for validation (valid_fraction 0)", NULL},
    {"eval_batches", need_validation, "nothing is kept for validation (valid_fraction 0)", NULL},
};
enum { NEEDS = sizeof needs / sizeof *needs };

/* Whether the value is the caller's: set by qkv_train_set, or written into the struct by hand and another one than the
 * default. What a file recorded is nobody's. */
static bool need_is_own(const struct qkv_train_options *o, const struct qkv_train_options *base, size_t i) {
    const struct qkv_train_option *option = qkv_train_option(i);
    if (qkv_train_marked(o->origin.given, i)) return true;
    if (o->origin.recorded || qkv_train_marked(o->origin.settled, i)) return false;
    return !qkv_train_same(option, o, base);
}

static bool needs_idle(const struct qkv_train_options *options, size_t i, const char **why) {
    const struct qkv_train_option *option = qkv_train_option(i);
    struct qkv_train_options base;
    qkv_train_base(options, &base);
    for (size_t k = 0; k < NEEDS && option; k++) {
        if (strcmp(needs[k].option, option->name) != 0 || needs[k].holds(options)) continue;
        if (!need_is_own(options, &base, i)) continue;
        if (why) *why = needs[k].why ? needs[k].why : qkv_optimizer_lacks(qkv_train_optimizer(options));
        return true;
    }
    return false;
}

bool qkv_train_idle(const struct qkv_train_options *options, size_t i, const char **why) {
    struct qkv_train_options own;
    return options && !qkv_train_take(NULL, &own, options) && needs_idle(&own, i, why);
}

static bool needs_chosen(const struct qkv_train_options *o, const char *name) {
    struct qkv_train_options base;
    size_t i = 0;
    qkv_train_base(o, &base);
    while (strcmp(qkv_train_option(i)->name, name) != 0) i++;
    return need_is_own(o, &base, i);
}

static enum qkv_status check_epochs(struct qkv_context *ctx, const struct qkv_train_options *o) {
    if (o->epochs <= 0 || !needs_chosen(o, "steps") || !needs_chosen(o, "epochs")) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "steps and epochs exclude each other: epochs set the number of steps; leave one of them out");
}

/* A default would have given way. Epochs are no steps yet (qkv_epochs_begin). */
static enum qkv_status check_warmup(struct qkv_context *ctx, const struct qkv_train_options *o) {
    if (o->origin.recorded || o->warmup == 0 || o->warmup < o->steps || o->epochs > 0) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "warmup is %lld, but steps is %lld: the rate would never be reached; choose a warmup of less than "
                    "%lld, or more steps",
                    (long long)o->warmup, (long long)o->steps, (long long)o->steps);
}

enum qkv_status qkv_train_check_needs(struct qkv_context *ctx, const struct qkv_train_options *options) {
    const struct qkv_train_option *option;
    for (size_t i = 0; (option = qkv_train_option(i)); i++) {
        const char *why;
        if (!needs_idle(options, i, &why)) continue;
        const struct need *need = needs;
        while (strcmp(need->option, option->name) != 0 || need->holds(options)) need++;
        if (!strncmp(why, option->name, strlen(option->name)))
            return qkv_fail(ctx, QKV_ARGUMENT, "%s; leave it out", why);
        return qkv_fail(ctx, QKV_ARGUMENT, "%s is given, but %s; %s", option->name, why,
                        need->way_out ? need->way_out : "leave it out");
    }
    const enum qkv_status status = check_epochs(ctx, options);
    return status ? status : check_warmup(ctx, options);
}

static const double MUON_MOMENTUM = 0.95; /* as published */

/* ---- defaults that give way ------------------------------------------------------------------------------------- */

static bool above_rate(const struct qkv_train_options *o, const struct qkv_spec *spec) {
    (void)spec;
    return o->min_rate > o->rate;
}

static void follow_rate(struct qkv_train_options *o) {
    o->min_rate = o->rate / 10; /* what the default of the list is */
}

static bool other_momentum(const struct qkv_train_options *o, const struct qkv_spec *spec) {
    (void)spec;
    return qkv_train_optimizer(o) == QKV_OPTIMIZER_MUON && o->momentum != MUON_MOMENTUM;
}

static void follow_muon(struct qkv_train_options *o) {
    o->momentum = MUON_MOMENTUM;
}

static bool chosen_steps(const struct qkv_train_options *o, const struct qkv_spec *spec) {
    (void)spec;
    return o->epochs > 0 && needs_chosen(o, "steps");
}

static void follow_chosen(struct qkv_train_options *o) {
    o->epochs = -1;
}

static bool all_warmup(const struct qkv_train_options *o, const struct qkv_spec *spec) {
    (void)spec;
    return o->warmup > 0 && o->warmup >= o->steps && o->epochs <= 0;
}

static void follow_steps(struct qkv_train_options *o) {
    o->warmup = o->steps / 10;
}

static bool too_many_parts(const struct qkv_train_options *o, const struct qkv_spec *spec) {
    (void)spec;
    return o->batch > 0 && o->accumulate > o->batch;
}

/* Parts of as many sequences as the recipe's. */
static void follow_batch(struct qkv_train_options *o) {
    struct qkv_train_options base;
    qkv_train_base(o, &base);
    int64_t rows = base.batch > base.accumulate && base.accumulate > 0 ? base.batch / base.accumulate : 1;
    o->accumulate = o->batch > rows ? o->batch / rows : 1;
}

static bool task_of_text(const struct qkv_train_options *o, const struct qkv_spec *spec) {
    (void)spec;
    return is_file(o->task) && !learns_tasks(o, QKV_TASKS_TEXT);
}

static void follow_file(struct qkv_train_options *o) {
    o->task = NULL;
}

static bool metric_of_others(const struct qkv_train_options *o, const struct qkv_spec *spec) {
    (void)spec;
    enum qkv_metric metric;
    if (!qkv_metric_find(o->metric, &metric) || metric == QKV_METRIC_LOSS) return false;
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    return !dataset || !qkv_dataset_measures(dataset, metric) || !needs_validates(o);
}

static void follow_task(struct qkv_train_options *o) {
    o->metric = "loss";
}

static bool one_embedding(const struct qkv_train_options *o, const struct qkv_spec *spec) {
    return o->source_tokenizer && spec && qkv_tie_has_stacks(spec->tie);
}

static void follow_tie(struct qkv_train_options *o) {
    o->source_tokenizer = NULL;
}

static const struct yield {
    const char *option;
    bool (*contradicts)(const struct qkv_train_options *options, const struct qkv_spec *spec);
    void (*follow)(struct qkv_train_options *options);
    const char *why;
} yields[] = {
    {"min_rate", above_rate, follow_rate, "rate is below that"},
    {"momentum", other_momentum, follow_muon, "the optimizer is muon"},
    {"epochs", chosen_steps, follow_chosen, "steps sets the number"},
    {"warmup", all_warmup, follow_steps, "the run has no more steps than that"},
    {"accumulate", too_many_parts, follow_batch, "the batch has fewer sequences than that"},
    {"task", task_of_text, follow_file, "the run learns from no text"},
    {"metric", metric_of_others, follow_task, "the run has no such metric"},
    {"source_tokenizer", one_embedding, follow_tie, "both sides share one embedding (tie)"},
};

enum qkv_status qkv_train_settle(struct qkv_context *ctx, struct qkv_train_options *options,
                                 const struct qkv_spec *spec, struct qkv_texts *notes) {
    const struct qkv_train_option *option;
    struct qkv_train_options base;
    enum qkv_status status = QKV_OK;
    char before[QKV_OPTION_TEXT], after[QKV_OPTION_TEXT];
    double x;
    if (options->origin.recorded) return QKV_OK;
    qkv_train_base(options, &base);
    for (size_t k = 0; k < sizeof yields / sizeof *yields && !status; k++)
        for (size_t i = 0; (option = qkv_train_option(i)) && !status; i++) {
            if (strcmp(yields[k].option, option->name) != 0 || need_is_own(options, &base, i) ||
                !yields[k].contradicts(options, spec))
                continue;
            qkv_train_value_text(option, options, before);
            yields[k].follow(options);
            qkv_train_mark(options->origin.settled, i, true);
            qkv_train_value_text(option, options, after);
            /* A tenth of 1e-5 is 1.0000000000000002e-06. */
            if (option->type == QKV_TRAIN_REAL && qkv_real_parse(after, &x)) snprintf(after, sizeof after, "%.6g", x);
            if (notes)
                status = qkv_texts_add(ctx, notes, "%s is %s in place of the default %s, as %s", option->name, after,
                                       before, yields[k].why);
        }
    return status;
}

enum qkv_status qkv_train_check(struct qkv_context *ctx, const struct qkv_train_options *options) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, options);
    struct qkv_train_options settled;
    enum qkv_status status = qkv_train_take(ctx, &settled, options);
    if (!status) status = qkv_train_settle(ctx, &settled, NULL, NULL);
    if (!status) status = qkv_train_check_values(ctx, &settled);
    if (!status) status = qkv_tokenizer_check_choice(ctx, "tokenizer", settled.tokenizer);
    if (!status) status = qkv_tokenizer_check_choice(ctx, "source_tokenizer", settled.source_tokenizer);
    return status ? status : qkv_train_check_needs(ctx, &settled);
}
