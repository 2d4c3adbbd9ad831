/* run: reads the folder of a training run: log.jsonl, train.json, config.json, machine.jsonl, samples.jsonl. All
 * files except the log may be missing. Any file may be damaged or half written: unreadable parts are skipped. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/json_load.h"
#include "lab/report/run.h"

enum { MAX_LINE = 1 << 16, SMALL_FILE = 1 << 20, MAX_SAMPLES = 1000 };

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Opens a file of the folder for reading, not mapped, because the training may truncate it meanwhile; NULL if there
 * is none. */
static enum qkv_status open_file(struct qkv_run *run, const char *name, FILE **file) {
    struct stat info;
    char *path = qkv_join_path(run->ctx, run->folder, name);
    *file = NULL;
    if (!path) return QKV_MEMORY;
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    enum qkv_status status = QKV_OK;
    if (descriptor < 0 && errno != ENOENT) status = qkv_fail_file(run->ctx, "read", path, errno);
    if (descriptor >= 0 && (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)))
        status = qkv_fail(run->ctx, QKV_FILE, "%s is no file; name the folder of a run", path);
    if (!status && descriptor >= 0) *file = fdopen(descriptor, "rb");
    if (!*file && descriptor >= 0) close(descriptor);
    free(path);
    return status;
}

/* Reads the whole lines of a file, each as JSON; `take` gets NULL for a line that is too long or no JSON. A last
 * line without a line end is still being written, or was cut off. */
typedef enum qkv_status take_line(struct qkv_run *run, const json_t *line);

static enum qkv_status read_lines(struct qkv_run *run, const char *name, take_line *take) {
    FILE *file;
    enum qkv_status status = open_file(run, name, &file);
    char *text = file ? qkv_allocate(run->ctx, MAX_LINE, 1) : NULL;
    size_t size = 0;
    if (file && !text) status = QKV_MEMORY;
    for (int c; file && !status && (c = getc_unlocked(file)) != EOF;) {
        if (c != '\n') {
            if (size < MAX_LINE) text[size] = (char)c;
            size++;
            continue;
        }
        json_t *line; /* without a context: unreadable lines are skipped */
        qkv_json_load(NULL, &(struct qkv_json_text){.name = name, .data = text, .size = size, .max_size = MAX_LINE},
                      &line);
        status = take(run, line);
        json_decref(line);
        size = 0;
    }
    if (file && !status && ferror(file)) status = qkv_fail_file(run->ctx, "read", name, errno);
    if (file) fclose(file);
    free(text);
    return status;
}

static double run_number(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    double x = json_is_number(value) ? json_number_value(value) : NAN;
    return isfinite(x) ? x : NAN;
}

static int64_t step_of(const json_t *line) {
    const json_t *step = json_object_get(line, "step");
    return json_is_integer(step) && json_integer_value(step) > 0 ? json_integer_value(step) : 0;
}

/* Takes a step's loads of experts, one number for each layer. The first list sets the number of layers; after a step
 * without a list, or with one of another length, loads are skipped. */
static enum qkv_status take_loads(struct qkv_run *run, const json_t *list) {
    const size_t n = json_array_size(list);
    if (!run->load_layers && n && n <= 2 * QKV_LAYERS_MAX) run->load_layers = n, run->load_first = run->count;
    if (!n || n != run->load_layers || run->load_first + run->load_count != run->count) return QKV_OK;
    float *loads = qkv_list_room(run->ctx, run->loads, &run->load_capacity, run->load_count * n, n, sizeof *loads);
    if (!loads) return QKV_MEMORY;
    run->loads = loads;
    loads += n * run->load_count++;
    for (size_t i = 0; i < n; i++) {
        const json_t *load = json_array_get(list, i);
        loads[i] = json_is_number(load) ? (float)json_number_value(load) : NAN;
    }
    return QKV_OK;
}

static enum qkv_status take_step(struct qkv_run *run, const json_t *line) {
    int64_t step = step_of(line);
    if (!step || (run->count && step <= run->steps[run->count - 1].step)) {
        run->damaged++;
        return QKV_OK;
    }
    struct qkv_run_step *steps = qkv_list_room(run->ctx, run->steps, &run->capacity, run->count, 1, sizeof *steps);
    if (!steps) return QKV_MEMORY;
    run->steps = steps;
    enum qkv_status status = take_loads(run, json_object_get(line, "expert_loads"));
    if (status) return status;
    run->steps[run->count++] = (struct qkv_run_step){.step = step,
                                                     .seconds = run_number(line, "seconds"),
                                                     .loss = run_number(line, "loss"),
                                                     .norm = run_number(line, "norm"),
                                                     .rate = run_number(line, "rate"),
                                                     .tokens = run_number(line, "tokens"),
                                                     .tokens_per_second = run_number(line, "tokens_per_second"),
                                                     .expert_load = run_number(line, "expert_load"),
                                                     .experts_unused = run_number(line, "experts_unused"),
                                                     .valid_loss = run_number(line, "valid_loss"),
                                                     .metric = run->metric ? run_number(line, run->metric) : NAN};
    return QKV_OK;
}

/* A run that was resumed from a checkpoint writes later samples again: the earlier ones are dropped. */
static enum qkv_status take_sample(struct qkv_run *run, const json_t *line) {
    int64_t step = step_of(line);
    const json_t *text = json_object_get(line, "text");
    if (!step || !json_is_string(text)) return QKV_OK;
    while (run->sample_count && run->samples[run->sample_count - 1].step >= step)
        free(run->samples[--run->sample_count].text);
    if (run->sample_count == MAX_SAMPLES) { /* drops the oldest */
        free(run->samples[0].text);
        memmove(run->samples, run->samples + 1, --run->sample_count * sizeof *run->samples);
    }
    struct qkv_run_sample *samples =
        qkv_list_room(run->ctx, run->samples, &run->sample_capacity, run->sample_count, 1, sizeof *samples);
    if (!samples) return QKV_MEMORY;
    run->samples = samples;
    char *copy = qkv_copy_bytes(run->ctx, json_string_value(text), json_string_length(text));
    if (!copy) return QKV_MEMORY;
    run->samples[run->sample_count++] = (struct qkv_run_sample){step, copy, json_string_length(text)};
    return QKV_OK;
}

static enum qkv_status take_machine(struct qkv_run *run, const json_t *line) {
    if (json_is_object(line) && json_array_size(run->machines) < MAX_SAMPLES)
        json_array_append(run->machines, (json_t *)(uintptr_t)line);
    return QKV_OK;
}

/* ---- small files ------------------------------------------------------------------------------------------------- */

static enum qkv_status read_object(struct qkv_run *run, const char *name, json_t **out) {
    FILE *file;
    enum qkv_status status = open_file(run, name, &file);
    char *text = file ? qkv_allocate(run->ctx, SMALL_FILE + 1, 1) : NULL;
    size_t size = text ? fread(text, 1, SMALL_FILE + 1, file) : 0;
    *out = NULL;
    if (text)
        qkv_json_load(NULL, &(struct qkv_json_text){.name = name, .data = text, .size = size, .max_size = SMALL_FILE},
                      out);
    if (file && !text) status = QKV_MEMORY;
    if (*out && !json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
    }
    if (file) fclose(file);
    free(text);
    return status;
}

static enum qkv_status read_options(struct qkv_run *run) {
    json_t *root;
    enum qkv_status status = read_object(run, QKV_TRAIN_FILE, &root);
    if (status) return status;
    run->options = json_incref(json_object_get(root, "options"));
    json_decref(root);
    if (!json_is_object(run->options)) {
        json_decref(run->options);
        run->options = NULL;
    }
    const char *metric = json_string_value(json_object_get(run->options, "metric"));
    run->planned = json_integer_value(json_object_get(run->options, "steps"));
    run->patience = json_integer_value(json_object_get(run->options, "patience"));
    if (run->planned < 0) run->planned = 0;
    if (!metric || !strcmp(metric, "loss")) return QKV_OK;
    run->metric = qkv_copy_string(run->ctx, metric);
    return run->metric ? QKV_OK : QKV_MEMORY;
}

/* Counts the parameters of the model that config.json describes, without allocating them. */
static void count_parameters(struct qkv_run *run) {
    struct qkv_spec spec = {0};
    struct qkv_model *model = NULL;
    char *path = qkv_join_path(run->ctx, run->folder, QKV_CONFIG_FILE);
    if (path && run->spec && !qkv_spec_read(run->ctx, &spec, path, NULL, 0) && !qkv_model_plan(run->ctx, &spec, &model))
        for (size_t i = 0; i < qkv_model_parameters(model); i++)
            run->parameters += qkv_array_elements(qkv_model_parameter(model, i));
    if (model) run->encoder_layers = (size_t)spec.encoder.layers;
    qkv_model_free(model);
    qkv_spec_free(&spec);
    free(path);
    qkv_forgive(run->ctx); /* a run can be reported without them */
}

static enum qkv_status describe_machine(struct qkv_run *run) {
    const json_t *last = json_array_get(run->machines, json_array_size(run->machines) - 1);
    const char *cpu = json_string_value(json_object_get(last, "cpu"));
    const char *isa = json_string_value(json_object_get(last, "isa"));
    const char *precision = json_string_value(json_object_get(last, "precision"));
    const json_int_t threads = json_integer_value(json_object_get(last, "threads"));
    struct qkv_buffer text = {0};
    if (!cpu || !isa) return QKV_OK;
    enum qkv_status status = qkv_buffer_print(run->ctx, &text, "%s, %lld thread%s, %s, %s", cpu, (long long)threads,
                                              threads == 1 ? "" : "s", isa, precision ? precision : "fp32");
    run->machine = text.data;
    return status;
}

/* Sets the name to the last part of the folder's real path. */
static enum qkv_status find_name(struct qkv_run *run) {
    char *path = realpath(run->folder, NULL);
    const char *slash = path ? strrchr(path, '/') : NULL;
    run->name = qkv_copy_string(run->ctx, slash && slash[1] ? slash + 1 : run->folder);
    free(path);
    return run->name ? QKV_OK : QKV_MEMORY;
}

/* ---- reading a run ----------------------------------------------------------------------------------------------- */

static enum qkv_status check_folder(struct qkv_run *run) {
    char *log = qkv_join_path(run->ctx, run->folder, QKV_LOG_FILE);
    if (!log) return QKV_MEMORY;
    bool found;
    enum qkv_status status = qkv_file_find(run->ctx, log, &found);
    free(log);
    if (status || found) return status;
    return qkv_fail(run->ctx, QKV_FILE, "%s holds no training run: there is no log.jsonl; name the folder of a run",
                    run->folder);
}

static enum qkv_status read_run(struct qkv_run *run) {
    run->machines = json_array();
    enum qkv_status status = run->machines ? check_folder(run) : QKV_MEMORY;
    if (!status) status = find_name(run);
    if (!status) status = read_options(run);
    /* before the log: a run that has ended by now has written its whole log */
    if (!status) status = qkv_run_condition_read(run->ctx, run->folder, &run->condition);
    if (!status) status = read_lines(run, QKV_LOG_FILE, take_step);
    if (!status) status = read_lines(run, QKV_SAMPLES_FILE, take_sample);
    if (!status) status = read_lines(run, QKV_MACHINE_FILE, take_machine);
    if (!status) status = read_object(run, QKV_CONFIG_FILE, &run->spec);
    if (status) return status;
    count_parameters(run);
    if (run->condition.state == QKV_RUN_UNKNOWN)
        run->condition.state = qkv_run_ended(run) ? QKV_RUN_DONE : QKV_RUN_INTERRUPTED;
    return describe_machine(run);
}

enum qkv_status qkv_run_read(struct qkv_context *ctx, const char *folder, struct qkv_run **out) {
    QKV_CALL(ctx);
    struct qkv_run *run = *out = qkv_allocate(ctx, 1, sizeof *run);
    if (!run) return QKV_MEMORY;
    run->ctx = ctx;
    run->folder = qkv_copy_string(ctx, folder);
    enum qkv_status status = run->folder ? read_run(run) : QKV_MEMORY;
    if (!status) return QKV_OK;
    qkv_run_free(run);
    *out = NULL;
    return status;
}

void qkv_run_free(struct qkv_run *run) {
    if (!run) return;
    for (size_t i = 0; i < run->sample_count; i++) free(run->samples[i].text);
    json_decref(run->options);
    json_decref(run->spec);
    json_decref(run->machines);
    free(run->samples);
    free(run->steps);
    free(run->loads);
    free(run->folder);
    free(run->name);
    free(run->metric);
    free(run->machine);
    free(run);
}

size_t qkv_run_steps(const struct qkv_run *run) {
    return run->count;
}

const struct qkv_run_step *qkv_run_step(const struct qkv_run *run, size_t i) {
    return i < run->count ? &run->steps[i] : NULL;
}

size_t qkv_run_load_layers(const struct qkv_run *run) {
    return run->load_layers;
}

double qkv_run_load(const struct qkv_run *run, size_t i, size_t layer) {
    if (i < run->load_first || i - run->load_first >= run->load_count || layer >= run->load_layers) return NAN;
    return (double)run->loads[(i - run->load_first) * run->load_layers + layer];
}

size_t qkv_run_damaged(const struct qkv_run *run) {
    return run->damaged;
}

int64_t qkv_run_planned(const struct qkv_run *run) {
    return run->planned;
}

const char *qkv_run_name(const struct qkv_run *run) {
    return run->name;
}

const char *qkv_run_metric(const struct qkv_run *run) {
    return run->metric;
}

const char *qkv_run_machine(const struct qkv_run *run) {
    return run->machine;
}

const struct qkv_run_condition *qkv_run_condition(const struct qkv_run *run) {
    return &run->condition;
}

enum qkv_status qkv_run_names(struct qkv_context *ctx, struct qkv_run *const *runs, size_t count, char ***names) {
    const char **folders = qkv_allocate(ctx, count, sizeof *folders);
    *names = NULL;
    if (!folders) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++) folders[i] = runs[i]->folder;
    const enum qkv_status status = qkv_short_names(ctx, folders, count, names);
    free(folders);
    return status;
}
