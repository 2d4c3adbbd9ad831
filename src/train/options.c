/* The options of a training run: one table, made from QKV_TRAIN_LIST, of names, types, places, defaults and help; the
 * ranges of the numbers beside it. */
#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "base/sized_options.h"
#include "model/spec.h"
#include "kernel/order.h"
#include "train/train.h"

/* The default as text: a text itself, a number as it is written in the list. */
#define SHOW_TEXT(value)     value
#define SHOW_DATA(value)     value
#define SHOW_FILES(value)    value
#define SHOW_PATTERNS(value) value
#define SHOW_REAL(value)     #value
#define SHOW_COUNT(value)    #value
#define SHOW_FLAG(value)     ((value) ? "true" : "false")

/* The name of an option is that of its field, but where RENAMED_field says another. */
#define RENAMED_long_lines     , "long"
#define RENAMED_chat_template  , "template"
#define NAME_SECOND(a, b, ...) b
#define NAME_PICK(...)         NAME_SECOND(__VA_ARGS__)
#define NAME_OF(name)          NAME_PICK(RENAMED_##name, #name, "")
#define OPTION(type, name, value, subject, help)                                                                       \
    {NAME_OF(name), QKV_TRAIN_##type, offsetof(struct qkv_train_options, name), SHOW_##type(value), subject, help},
static const struct qkv_train_option table[] = {QKV_TRAIN_LIST(OPTION)};
#define OPTION_COUNT (sizeof table / sizeof *table)

#define DEFAULT_TEXT(name, value)                 .name = value,
#define DEFAULT_DATA(name, value)                 .name##_files = {value},
#define DEFAULT_FILES(name, value)                .name##_files = {value},
#define DEFAULT_PATTERNS(name, value)             .name = {value},
#define DEFAULT_REAL(name, value)                 .name = value,
#define DEFAULT_COUNT(name, value)                .name = value,
#define DEFAULT_FLAG(name, value)                 .name = value,
#define DEFAULT(type, name, value, subject, help) DEFAULT_##type(name, value)
_Static_assert(OPTION_COUNT <= 128, "origin.given has a bit for each option");
static const struct qkv_train_options defaults = {.size = sizeof defaults, QKV_TRAIN_LIST(DEFAULT)};

const struct qkv_train_option *qkv_train_option(size_t i) {
    return i < OPTION_COUNT ? &table[i] : NULL;
}

bool qkv_train_option_at(size_t i, const char **name, const char **value, const char **help) {
    if (i >= OPTION_COUNT) return false;
    if (name) *name = table[i].name;
    if (value) *value = table[i].value ? table[i].value : "";
    if (help) *help = table[i].help;
    return true;
}

const char *qkv_train_option_choice(size_t i, size_t k) {
    const struct qkv_train_option *option = qkv_train_option(i);
    return option ? qkv_train_choice_at(option->name, k) : NULL;
}

const char *qkv_train_option_subject(size_t i) {
    return i < OPTION_COUNT ? table[i].subject : NULL;
}

bool qkv_train_option_many(const struct qkv_train_option *option) {
    return option->type == QKV_TRAIN_DATA || option->type == QKV_TRAIN_FILES || option->type == QKV_TRAIN_PATTERNS;
}

bool qkv_train_option_data(size_t i) {
    return i < OPTION_COUNT && table[i].type == QKV_TRAIN_DATA;
}

const char *qkv_train_data(const struct qkv_train_options *options) {
    struct qkv_train_options own;
    if (!options || qkv_train_take(NULL, &own, options)) return NULL;
    const struct qkv_dataset *dataset = qkv_dataset_of(&own);
    return dataset ? dataset->option : NULL;
}

bool qkv_train_option_lists(size_t i) {
    return i < OPTION_COUNT && qkv_train_option_many(&table[i]);
}

static const struct qkv_train_option *find_option(const char *name) {
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}

static void *options_field(const struct qkv_train_option *option, const struct qkv_train_options *options) {
    return (char *)(uintptr_t)options + option->offset;
}

static size_t option_bytes(const struct qkv_train_option *option) {
    static const size_t sizes[] = {[QKV_TRAIN_TEXT] = sizeof(const char *),
                                   [QKV_TRAIN_DATA] = QKV_FILES_MAX * sizeof(const char *),
                                   [QKV_TRAIN_FILES] = QKV_FILES_MAX * sizeof(const char *),
                                   [QKV_TRAIN_PATTERNS] = QKV_FILES_MAX * sizeof(const char *),
                                   [QKV_TRAIN_REAL] = sizeof(double),
                                   [QKV_TRAIN_COUNT] = sizeof(int64_t),
                                   [QKV_TRAIN_FLAG] = sizeof(bool)};
    return sizes[option->type];
}

bool qkv_train_option_fits(const struct qkv_train_option *option, size_t size) {
    return option->offset + option_bytes(option) <= size;
}

enum qkv_status qkv_train_fail_size(struct qkv_context *ctx, const struct qkv_train_option *option) {
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "struct qkv_train_options of this program, which was built with an older version, has no option "
                    "\"%s\"; build the program again",
                    option->name);
}

/* How many texts an option of this type has room for; 0 of numbers. */
static size_t option_texts(const struct qkv_train_option *option) {
    return qkv_train_option_many(option) ? QKV_FILES_MAX : option->type == QKV_TRAIN_TEXT;
}

/* ---- numbers as text -------------------------------------------------------------------------------------------- */

static bool parse_count(const char *text, int64_t *n) {
    const char *digits = text + (*text == '-');
    if (!*digits || strspn(digits, "0123456789") != strlen(digits)) return false;
    errno = 0;
    *n = strtoll(text, NULL, 10);
    return errno == 0;
}

/* ---- defaults, setting ------------------------------------------------------------------------------------------ */

static enum qkv_status option_add_text(struct qkv_context *ctx, const struct qkv_train_option *option,
                                       const char **texts, const char *value) {
    for (size_t i = 0; i < QKV_FILES_MAX; i++) {
        if (texts[i]) continue;
        texts[i] = value;
        return QKV_OK;
    }
    if (option->type == QKV_TRAIN_PATTERNS)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s has more than %d patterns; join some with *", option->name,
                        QKV_FILES_MAX);
    return qkv_fail(ctx, QKV_ARGUMENT, "%s names more than %d files; put them into a folder and name that",
                    option->name, QKV_FILES_MAX);
}

struct range;
static const struct range *find_range(const char *name);
static enum qkv_status range_check(struct qkv_context *ctx, const struct range *range, double x, const char *shown);

enum qkv_status qkv_train_set(struct qkv_context *ctx, struct qkv_train_options *options, const char *name,
                              const char *value) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, options);
    QKV_NEED(ctx, name);
    const struct qkv_train_option *option = find_option(name);
    if (!option) {
        char known[900] = "";
        for (size_t i = 0; i < OPTION_COUNT; i++) {
            size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", table[i].name);
        }
        return qkv_fail(ctx, QKV_ARGUMENT, "there is no training option \"%s\"; known: %s", name, known);
    }
    struct qkv_train_options own;
    enum qkv_status status = qkv_train_take(ctx, &own, options);
    if (status) return status;
    if (!qkv_train_option_fits(option, options->size)) return qkv_train_fail_size(ctx, option);
    void *place = options_field(option, &own);
    double x;
    int64_t n;
    switch (option->type) {
    case QKV_TRAIN_TEXT:
        memcpy(place, &value, sizeof value);
        break;
    case QKV_TRAIN_DATA:
    case QKV_TRAIN_FILES:
    case QKV_TRAIN_PATTERNS:
        status = option_add_text(ctx, option, place, value);
        break;
    case QKV_TRAIN_REAL:
        if (!qkv_real_parse(value, &x))
            return qkv_fail(ctx, QKV_ARGUMENT, "%s is \"%s\"; it must be a number", name, value);
        status = range_check(ctx, find_range(name), x, value);
        memcpy(place, &x, sizeof x);
        break;
    case QKV_TRAIN_COUNT:
        if (!parse_count(value, &n))
            return qkv_fail(ctx, QKV_ARGUMENT, "%s is \"%s\"; it must be a whole number", name, value);
        status = range_check(ctx, find_range(name), (double)n, value);
        memcpy(place, &n, sizeof n);
        break;
    case QKV_TRAIN_FLAG:
        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return qkv_fail(ctx, QKV_ARGUMENT, "%s is \"%s\"; it must be true or false", name, value);
        *(bool *)place = strcmp(value, "true") == 0;
        break;
    }
    qkv_train_mark(own.origin.given, (size_t)(option - table), true);
    qkv_options_give(options, &own, sizeof own);
    return status;
}

void qkv_train_unset(struct qkv_train_options *options, const char *name) {
    if (!options || !name) return;
    const struct qkv_train_option *option = find_option(name);
    struct qkv_train_options own, base;
    if (!option || qkv_train_take(NULL, &own, options)) return;
    qkv_train_base(&own, &base);
    memcpy(options_field(option, &own), options_field(option, &base), option_bytes(option));
    qkv_train_mark(own.origin.given, (size_t)(option - table), false);
    qkv_train_mark(own.origin.settled, (size_t)(option - table), false);
    qkv_options_give(options, &own, sizeof own);
}

/* One "name=value" of a recipe; the texts of recipes live as long as the program. */
static enum qkv_status apply_line(struct qkv_context *ctx, struct qkv_train_options *options, const char *line) {
    const char *equal = strchr(line, '=');
    char name[64];
    if (!equal || (size_t)(equal - line) >= sizeof name)
        return qkv_fail(ctx, QKV_ARGUMENT, "a recipe's line \"%s\" is not name=value", line);
    memcpy(name, line, (size_t)(equal - line));
    name[equal - line] = 0;
    return qkv_train_set(ctx, options, name, equal + 1);
}

static enum qkv_status options_recipe(struct qkv_context *ctx, const char *preset, struct qkv_train_options *options) {
    enum qkv_status status = qkv_preset_check(ctx, preset);
    const char *const *recipe = status ? NULL : qkv_preset_recipe(preset);
    for (; recipe && *recipe && !status; recipe++) status = apply_line(ctx, options, *recipe);
    memset(options->origin.given, 0, sizeof options->origin.given); /* a recipe makes defaults */
    for (size_t i = 0; !options->origin.preset && qkv_preset_at(i, &options->origin.preset, NULL); i++)
        if (strcmp(options->origin.preset, preset) != 0) options->origin.preset = NULL;
    return status;
}

enum qkv_status qkv_train_options_init(struct qkv_context *ctx, const char *preset, struct qkv_train_options *options,
                                       size_t size) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, options);
    struct qkv_train_options all = defaults;
    const enum qkv_status status = preset ? options_recipe(ctx, preset, &all) : QKV_OK;
    qkv_options_init(options, size, &all, sizeof all);
    return status;
}

enum qkv_status qkv_train_take(struct qkv_context *ctx, struct qkv_train_options *own,
                               const struct qkv_train_options *options) {
    *own = defaults;
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_train_options, own, options);
    if (status || options->size >= sizeof *own || !own->origin.preset) return status;
    status = qkv_train_defaults(NULL, own->origin.preset, own); /* the recipe's for what the program does not know */
    return status ? status : QKV_TAKE_OPTIONS(ctx, qkv_train_options, own, options);
}

void qkv_train_base(const struct qkv_train_options *options, struct qkv_train_options *base) {
    qkv_train_defaults(NULL, options->origin.preset, base);
}

bool qkv_train_same(const struct qkv_train_option *option, const struct qkv_train_options *a,
                    const struct qkv_train_options *b) {
    const void *x = options_field(option, a), *y = options_field(option, b);
    for (size_t k = 0; qkv_train_option_many(option) && k < QKV_FILES_MAX; k++)
        if (((const char *const *)x)[k] != ((const char *const *)y)[k]) return false;
    if (qkv_train_option_many(option)) return true;
    if (option->type == QKV_TRAIN_TEXT) {
        const char *left = *(const char *const *)x, *right = *(const char *const *)y;
        return left && right ? !strcmp(left, right) : left == right;
    }
    if (option->type == QKV_TRAIN_REAL) return *(const double *)x == *(const double *)y;
    if (option->type == QKV_TRAIN_FLAG) return *(const bool *)x == *(const bool *)y;
    return *(const int64_t *)x == *(const int64_t *)y;
}

void qkv_train_value_text(const struct qkv_train_option *option, const struct qkv_train_options *options,
                          char text[QKV_OPTION_TEXT]) {
    const void *place = options_field(option, options);
    bool is_text = option->type == QKV_TRAIN_TEXT || qkv_train_option_many(option);
    const char *value = is_text ? *(const char *const *)place : NULL;
    char real[QKV_REAL_TEXT];
    if (is_text) {
        snprintf(text, QKV_OPTION_TEXT, "%s", value ? value : "none");
    } else if (option->type == QKV_TRAIN_REAL) {
        qkv_real_text(real, *(const double *)place);
        snprintf(text, QKV_OPTION_TEXT, "%s", real);
    } else if (option->type == QKV_TRAIN_FLAG) {
        snprintf(text, QKV_OPTION_TEXT, "%s", *(const bool *)place ? "true" : "false");
    } else {
        snprintf(text, QKV_OPTION_TEXT, "%lld", (long long)*(const int64_t *)place);
    }
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

enum { OPEN_LOW = 1, OPEN_HIGH = 2, OR_MINUS_ONE = 4 };
static const struct range {
    const char *name;
    double low, high;
    int ends;
    const char *remark; /* what a value that stands out means */
} ranges[] = {
    {"valid_fraction", 0, 1, OPEN_HIGH, NULL},
    {"steps", 1, 1e15, 0, NULL},
    {"epochs", 0, 1e9, OPEN_LOW | OR_MINUS_ONE, "-1: steps sets the number"},
    {"mask_probability", 0, 1, OPEN_LOW | OPEN_HIGH, NULL},
    {"batch", 0, 1 << 24, 0, "0: no limit, with batch_tokens"},
    {"batch_tokens", 0, 1 << 24, 0, "0: no limit"},
    {"label_smoothing", 0, 1, OPEN_HIGH, NULL},
    {"accumulate", 1, 1 << 24, 0, NULL},
    {"groups", 0, QKV_GROUPS_MAX, 0, "0: 8, or as many as a batch has rows"},
    {"context", 0, 1 << 24, 0, "0: the spec's"},
    {"rate", 0, FLT_MAX, OPEN_LOW, NULL},
    {"min_rate", 0, FLT_MAX, OR_MINUS_ONE, "-1: a tenth of rate"},
    {"warmup", 0, 1e15, 0, NULL},
    {"beta1", 0, 1, OPEN_HIGH, NULL},
    {"beta2", 0, 1, OPEN_HIGH, NULL},
    {"eps", FLT_MIN, FLT_MAX, 0, NULL},
    {"momentum", 0, 1, OPEN_HIGH, NULL},
    {"weight_decay", 0, FLT_MAX, 0, NULL},
    {"clip", 0, FLT_MAX, 0, "0: none"},
    {"dropout", 0, 1, OPEN_HIGH | OR_MINUS_ONE, "-1: the spec's"},
    {"seed", 0, 9e18, 0, NULL},
    {"eval_every", 0, 1e15, 0, "0: only at the end"},
    {"eval_batches", 0, 1e15, 0, "0: the whole validation text"},
    {"patience", 0, 1e15, 0, "0: never"},
    {"save_every", 0, 1e15, 0, "0: only at the end"},
    {"keep", 1, 1e6, 0, NULL},
    {"decay_share", 0, 1, OPEN_LOW, NULL},
    {"preference_beta", 0, 1e6, OPEN_LOW, NULL},
    {"teacher_temperature", 0.01, 100, 0, NULL},
    {"teacher_share", 0, 1, OPEN_LOW, NULL},
    {"average", 0, 1, OPEN_HIGH, "0: none"},
};
enum { RANGES = sizeof ranges / sizeof *ranges };

static const struct range *find_range(const char *name) {
    for (size_t i = 0; i < RANGES; i++)
        if (!strcmp(ranges[i].name, name)) return &ranges[i];
    return NULL;
}

/* "16777216", "3.4e38": counts in full, the ends of a float in short. */
static void range_end(char text[QKV_REAL_TEXT], double x) {
    snprintf(text, QKV_REAL_TEXT, x == qkv_floor(x) && fabs(x) < 1e19 ? "%.0f" : "%.2g", x);
}

/* The name of an option is followed by its value as the caller wrote it. A range may be NULL: there is none. */
static enum qkv_status range_check(struct qkv_context *ctx, const struct range *range, double x, const char *shown) {
    char low[QKV_REAL_TEXT], high[QKV_REAL_TEXT];
    if (!range) return QKV_OK;
    bool above = range->ends & OPEN_LOW ? x > range->low : x >= range->low;
    bool below = range->ends & OPEN_HIGH ? x < range->high : x <= range->high;
    if ((above && below) || (range->ends & OR_MINUS_ONE && x == -1)) return QKV_OK;
    range_end(low, range->low);
    range_end(high, range->high);
    const char *from = range->ends & OPEN_LOW ? "greater than" : range->ends & OPEN_HIGH ? "at least" : "from";
    const char *to = range->ends & OPEN_HIGH ? "and less than" : range->ends & OPEN_LOW ? "and at most" : "to";
    const char *remark = range->remark ? range->remark : "";
    return qkv_fail(ctx, QKV_ARGUMENT,
                    *remark ? "%s is %s; it must be %s %s %s %s (%s)" : "%s is %s; it must be %s %s %s %s%s",
                    range->name, shown, from, low, to, high, remark);
}

static enum qkv_status check_range(struct qkv_context *ctx, const struct qkv_train_options *options,
                                   const struct range *range) {
    const struct qkv_train_option *option = find_option(range->name);
    double x = option->type == QKV_TRAIN_REAL ? *(const double *)options_field(option, options)
                                              : (double)*(const int64_t *)options_field(option, options);
    char text[QKV_OPTION_TEXT];
    qkv_train_value_text(option, options, text);
    return range_check(ctx, range, x, text);
}

static bool options_given(const char *text) {
    return text && *text;
}

/* Behind the first name of a file, whose want the sentences below are about. */
static enum qkv_status check_names(struct qkv_context *ctx, const struct qkv_train_options *o) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *const *files = options_field(&table[i], o);
        const bool names = table[i].type == QKV_TRAIN_DATA || table[i].type == QKV_TRAIN_FILES;
        for (size_t k = 1; names && k < QKV_FILES_MAX && files[k]; k++)
            if (!files[k][0])
                return qkv_fail(ctx, QKV_ARGUMENT, "%s has an empty name in it; name a file or leave it out",
                                table[i].name);
    }
    return QKV_OK;
}

/* The task, which is given, is one of those that there are with the files. */
static enum qkv_status check_task(struct qkv_context *ctx, const struct qkv_train_options *o) {
    enum { OF_TEXTS = 2 }; /* text, mlm */
    const int task = qkv_train_choice("task", o->task);
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    if (task < 0)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "task is \"%s\"; it must be text or mlm (of a text or lines), or classify or classify_tokens (of "
            "labelled lines or examples)",
            o->task);
    if (dataset->tasks == (task < OF_TEXTS ? QKV_TASKS_TEXT : QKV_TASKS_CLASSES)) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT, "task %s learns from %s, not from %s", o->task,
                    task < OF_TEXTS ? "a text (data) or lines" : "labelled lines (labeled) or examples", dataset->noun);
}

/* One kind of files to learn from, and options that belong to it. */
static enum qkv_status check_files(struct qkv_context *ctx, const struct qkv_train_options *o) {
    const struct qkv_dataset *first = NULL, *last = NULL, *empty = NULL, *dataset;
    for (size_t i = 0; (dataset = qkv_dataset_at(i)); i++) {
        if (!qkv_dataset_given(dataset, o)) {
            if (qkv_dataset_names(dataset, o)[0]) empty = dataset;
            continue;
        }
        if (!first) first = dataset;
        last = dataset;
    }
    if (!first) return qkv_dataset_missing(ctx);
    if (empty)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s has an empty name in it; name a file, or leave it out, as there is %s",
                        empty->option, first->option);
    if (first != last)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s and %s exclude each other: a run learns from one kind of files",
                        first->option, last->option);
    return options_given(o->task) ? check_task(ctx, o) : QKV_OK;
}

static enum qkv_status check_rows(struct qkv_context *ctx, const struct qkv_train_options *o) {
    int64_t tokens;
    if (o->prefix && !qkv_prefix_parse(o->prefix, &tokens))
        return qkv_fail(ctx, QKV_ARGUMENT, "prefix is \"%s\"; it must be random or a number of tokens, 1 to 999999999",
                        o->prefix);
    if (o->prefix && o->documents)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "documents and prefix exclude each other: a prefix is of a whole row, not of a document in it");
    return QKV_OK;
}

/* What a model to begin with brings is not given beside it. */
static enum qkv_status check_from(struct qkv_context *ctx, const struct qkv_train_options *o) {
    const char *beside = options_given(o->tokenizer)          ? "tokenizer"
                         : options_given(o->source_tokenizer) ? "source_tokenizer"
                                                              : NULL;
    if (options_given(o->from) && beside)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s has no place beside from: the weights belong to the tokenizer of %s",
                        beside, o->from);
    if (o->new_head && !options_given(o->from))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "option new_head is set without a model to begin with (from): all of a new model is new");
    return QKV_OK;
}

static enum qkv_status check_metric(struct qkv_context *ctx, const struct qkv_train_options *o) {
    enum qkv_metric metric;
    if (!qkv_metric_find(o->metric, &metric))
        return qkv_fail(ctx, QKV_ARGUMENT, "metric is \"%s\"; it must be loss, accuracy, exact or token_error",
                        o->metric ? o->metric : "");
    if ((metric != QKV_METRIC_LOSS || o->patience > 0) && !options_given(o->valid) && o->valid_fraction == 0)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "%s needs something to validate on; give a file (valid), or a valid_fraction greater than 0%s",
                        metric != QKV_METRIC_LOSS ? "metric" : "patience",
                        metric != QKV_METRIC_LOSS ? ", or set metric to loss" : "");
    if (o->patience > 0 && o->eval_every == 0)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "patience counts evaluations, but eval_every 0 evaluates at the end only; set eval_every");
    if (qkv_dataset_measures(qkv_dataset_of(o), metric)) return QKV_OK;
    if (metric == QKV_METRIC_ACCURACY)
        return qkv_fail(ctx, QKV_ARGUMENT, "metric accuracy needs labelled lines (labeled), examples or preferences");
    return qkv_fail(ctx, QKV_ARGUMENT, "metric %s needs pairs: it compares what is found with the targets", o->metric);
}

static enum qkv_status fail_rates(struct qkv_context *ctx, const struct qkv_train_options *options) {
    char least[QKV_REAL_TEXT], rate[QKV_REAL_TEXT];
    qkv_real_text(least, options->min_rate);
    qkv_real_text(rate, options->rate);
    return qkv_fail(ctx, QKV_ARGUMENT, "min_rate is %s, more than rate, %s: the rate falls towards min_rate", least,
                    rate);
}

/* Options whose value is one of a few names; the others of this kind have checks of their own. */
static enum qkv_status check_choices(struct qkv_context *ctx, const struct qkv_train_options *options) {
    static const char *const checked[] = {"optimizer", "schedule", "precision", "gradients", "preference_loss"};
    for (size_t i = 0; i < sizeof checked / sizeof *checked; i++) {
        const char *value = *(const char *const *)options_field(find_option(checked[i]), options);
        enum qkv_status status = qkv_train_check_choice(ctx, checked[i], value);
        if (status) return status;
    }
    return QKV_OK;
}

enum qkv_status qkv_train_check_values(struct qkv_context *ctx, const struct qkv_train_options *options) {
    for (size_t i = 0; i < RANGES; i++) {
        enum qkv_status status = check_range(ctx, options, &ranges[i]);
        if (status) return status;
    }
    size_t n;
    double rate;
    enum qkv_status status = check_names(ctx, options);
    for (size_t i = 0; i < QKV_FILES_MAX && options->rates[i] && !status; i++)
        status = qkv_rate_parse(ctx, options->rates[i], &n, &rate);
    if (!status) status = check_files(ctx, options);
    if (!status) status = check_rows(ctx, options);
    if (!status) status = check_from(ctx, options);
    if (!status) status = qkv_lora_check(ctx, options);
    if (!status) status = check_metric(ctx, options);
    enum qkv_long kind;
    if (!status) status = qkv_long_find(ctx, options->long_lines, &kind);
    if (status) return status;
    if (options->batch == 0 && options->batch_tokens == 0)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "batch is 0; it must be from 1 to 16777216, unless batch_tokens limits the batch");
    if (options->batch > 0 && options->accumulate > options->batch)
        return qkv_fail(ctx, QKV_ARGUMENT, "accumulate is %lld but a batch of %lld has only %lld sequences to divide",
                        (long long)options->accumulate, (long long)options->batch, (long long)options->batch);
    if (options->min_rate > options->rate) return fail_rates(ctx, options);
    return check_choices(ctx, options);
}

enum qkv_optimizer_kind qkv_train_optimizer(const struct qkv_train_options *options) {
    int i = qkv_train_choice("optimizer", options->optimizer);
    return i < 0 ? QKV_OPTIMIZER_ADAMW : (enum qkv_optimizer_kind)i;
}

struct qkv_optimizer_options qkv_train_optimizer_options(const struct qkv_train_options *o) {
    return (struct qkv_optimizer_options){.size = sizeof(struct qkv_optimizer_options),
                                          .kind = qkv_train_optimizer(o),
                                          .beta1 = o->beta1,
                                          .beta2 = o->beta2,
                                          .eps = o->eps,
                                          .momentum = o->momentum,
                                          .weight_decay = o->weight_decay,
                                          .average = o->average};
}

enum qkv_schedule_kind qkv_train_schedule(const struct qkv_train_options *options) {
    int i = qkv_train_choice("schedule", options->schedule);
    return i < 0 ? QKV_SCHEDULE_COSINE : (enum qkv_schedule_kind)i;
}

/* ---- copies that own their texts -------------------------------------------------------------------------------- */

enum qkv_status qkv_train_copy(struct qkv_context *ctx, struct qkv_train_options *copy,
                               const struct qkv_train_options *options) {
    enum qkv_status status = QKV_OK;
    *copy = *options;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *const *from = options_field(&table[i], options);
        const char **to = options_field(&table[i], copy);
        for (size_t k = 0; k < option_texts(&table[i]); k++) {
            to[k] = from[k] && !status ? qkv_copy_string(ctx, from[k]) : NULL;
            if (from[k] && !to[k]) status = QKV_MEMORY;
        }
    }
    if (status) qkv_train_release(copy);
    return status;
}

enum qkv_status qkv_train_key(struct qkv_context *ctx, struct qkv_train_options *options) {
    if (qkv_dataset_of(options) != &qkv_dataset_mixture || (options->text_key && *options->text_key)) return QKV_OK;
    free((void *)(uintptr_t)options->text_key);
    options->text_key = qkv_copy_string(ctx, QKV_TEXT_KEY);
    return options->text_key ? QKV_OK : QKV_MEMORY;
}

void qkv_train_release(struct qkv_train_options *options) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char **texts = options_field(&table[i], options);
        for (size_t k = 0; k < option_texts(&table[i]); k++) {
            free(texts[k]);
            texts[k] = NULL;
        }
    }
}
