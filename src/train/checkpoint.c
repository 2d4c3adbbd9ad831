/* checkpoint.safetensors: everything that going on needs, in one file that is replaced atomically. The weights under
 * their names, the moments as "optimizer.m.NAME" and "optimizer.v.NAME", and in the metadata the step, the numbers of
 * that step, and the spec and tokenizer that the weights belong to. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "io/safetensors.h"
#include "kernel/kernel.h"
#include "model/model.h"
#include "model/spec.h"
#include "train/train.h"

/* Numbers of the report that go on; they are stored under their field's name. */
#define REPORT_NUMBERS(X)                                                                                              \
    X(loss) X(norm) X(rate) X(tokens_per_second) X(flops_share) X(valid_loss) X(best_loss) X(seconds)

/* ---- metadata --------------------------------------------------------------------------------------------------- */

#define METADATA_MOST 32
struct metadata {
    const char *pairs[2 * METADATA_MOST];
    char numbers[METADATA_MOST][QKV_REAL_TEXT];
    size_t count;
    struct qkv_ties ties;
};

static void checkpoint_put(struct metadata *m, const char *key, const char *value) {
    m->pairs[2 * m->count] = key;
    m->pairs[2 * m->count + 1] = value;
    m->count++;
}

static void put_count(struct metadata *m, const char *key, unsigned long long n, const char *format) {
    snprintf(m->numbers[m->count], QKV_REAL_TEXT, format, n);
    checkpoint_put(m, key, m->numbers[m->count]);
}

static void put_real(struct metadata *m, const char *key, double x) {
    if (isnan(x))
        snprintf(m->numbers[m->count], QKV_REAL_TEXT, "nan");
    else
        qkv_real_text(m->numbers[m->count], x);
    checkpoint_put(m, key, m->numbers[m->count]);
}

static void fill_metadata(const struct qkv_trainer *t, const char *spec, const char *options, const char *loads,
                          struct metadata *m) {
    struct qkv_train_report report = t->report;
    report.seconds = t->earlier + qkv_clock() - t->started;
    m->count = 0;
    checkpoint_put(m, "format", QKV_CHECKPOINT_FORMAT);
    checkpoint_put(m, "version", "1");
    checkpoint_put(m, "spec", spec);
    checkpoint_put(m, "options_digest", options);
    checkpoint_put(m, "optimizer", t->options.optimizer);
    put_count(m, "tokenizer", t->facts.texts.data.tokenizer, "%016llx");
    put_count(m, "step", (unsigned long long)t->report.step, "%llu");
    put_count(m, "optimizer_steps", qkv_optimizer_steps(t->optimizer), "%llu");
    put_count(m, "pending", t->pending, "%llu");
    put_count(m, "stale", (unsigned long long)t->stale, "%llu");
    put_count(m, "end", (unsigned long long)t->options.steps, "%llu");
    if (!strcmp(t->options.gradients, "bf16")) /* the numbers depend on it */
        put_count(m, "ranks", (unsigned long long)qkv_context_ranks(t->ctx), "%llu");
    if (t->options.lora) {
        checkpoint_put(m, QKV_TENSORS_BASE, t->options.from);
        put_count(m, "base_digest", (unsigned long long)t->facts.from_hash, "%016llx");
    }
    put_real(m, "metric", report.metric);
    put_real(m, "best_metric", report.best_metric);
    if (loads) {
        checkpoint_put(m, "expert_loads", loads);
        put_count(m, "experts_unused", (unsigned long long)t->report.experts_unused, "%llu");
    }
    for (size_t i = 0; i < m->ties.count; i++) checkpoint_put(m, m->ties.pairs[2 * i], m->ties.pairs[2 * i + 1]);
#define PUT(name) put_real(m, #name, report.name);
    REPORT_NUMBERS(PUT)
#undef PUT
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static enum qkv_status check_numbers(const struct qkv_trainer *t, const struct qkv_weight *w, const float *x,
                                     size_t count) {
    if (isfinite(t->ctx->kernels->sum_squares(x, count))) return QKV_OK;
    return qkv_fail(t->ctx, QKV_NUMBER,
                    "step %lld: %s holds numbers that are not finite, so nothing was saved; the checkpoint of step "
                    "%lld in %s is whole: try a lower rate (now %g) or a longer warmup (now %lld)",
                    (long long)t->report.step, w->array.name, (long long)t->saved_step, t->folder, t->options.rate,
                    (long long)t->options.warmup);
}

/* A checkpoint of broken weights would replace one that can still be used. */
static enum qkv_status check_weights(const struct qkv_trainer *t) {
    const struct qkv_weight *list = t->model->weights.list;
    enum qkv_status status = QKV_OK;
    size_t runs;
    const struct qkv_moment_run *run = qkv_optimizer_runs(t->optimizer, &runs), *end = run + runs;
    for (size_t i = 0; i < t->model->weights.count && !status; i++)
        if (list[i].data) status = check_numbers(t, &list[i], list[i].data, list[i].rows * list[i].columns);
    for (; run < end && !status; run++)
        if (run->master) status = check_numbers(t, &list[run->weight], run->master, run->end - run->begin);
    return status;
}

/* Weights, then each moment of those that have some, as *count arrays without data. The moments' names are printed
 * into *names. */
static enum qkv_status list_arrays(const struct qkv_trainer *t, struct qkv_array *arrays, size_t *count,
                                   struct qkv_buffer *names) {
    const struct qkv_weights *weights = &t->model->weights;
    size_t P = weights->count, at = 0, n = P;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < P; i++) arrays[i] = weights->list[i].array;
    for (int k = 0; k < QKV_MOMENT_COUNT; k++) {
        for (size_t i = 0; i < P && !status; i++) {
            if (!qkv_optimizer_keeps(t->optimizer, (enum qkv_moment)k, i)) continue;
            arrays[n++] = qkv_moment_array((enum qkv_moment)k, &weights->list[i]);
            status = qkv_buffer_print(t->ctx, names, "%s.%s", qkv_moment_name((enum qkv_moment)k), arrays[i].name);
            if (!status) status = qkv_buffer_append(t->ctx, names, "", 1);
        }
    }
    if (status) return status;
    *count = n;
    for (size_t i = P; i < n; i++) { /* only now that the names stay where they are */
        arrays[i].name = names->data + at;
        at += strlen(arrays[i].name) + 1;
    }
    return QKV_OK;
}

/* Rank 0 begins the new file beside the old one. */
static enum qkv_status checkpoint_begin(struct qkv_trainer *t, const char *path, struct qkv_replace *replace,
                                        size_t *data) {
    struct metadata *metadata = NULL;
    struct qkv_array *arrays = NULL;
    struct qkv_buffer names = {0}, loads = {0};
    char *spec = NULL, options[QKV_DIGEST_TEXT];
    size_t count = 0, most = qkv_model_parameters(t->model) * (1 + QKV_MOMENT_COUNT);
    enum qkv_status status = qkv_spec_print(t->ctx, qkv_model_spec(t->model), &spec);
    if (!status) status = qkv_train_digest(t->ctx, &t->options, options);
    if (!status) {
        metadata = qkv_allocate(t->ctx, 1, sizeof *metadata);
        arrays = qkv_allocate(t->ctx, most, sizeof *arrays);
        status = metadata && arrays ? list_arrays(t, arrays, &count, &names) : QKV_MEMORY;
        if (!status) status = qkv_ties_make(t->ctx, t->folder, &metadata->ties);
    }
    if (!status && t->pending) status = qkv_loads_print(t, &loads); /* of a line of the log that is still due */
    if (!status) status = qkv_checkpoint_keep(t, path);
    if (!status) {
        fill_metadata(t, spec, options, loads.data, metadata);
        status = qkv_tensors_frame(t->ctx, path, arrays, count, metadata->pairs, metadata->count, replace, data);
    }
    qkv_free(spec);
    qkv_buffer_free(&names);
    qkv_buffer_free(&loads);
    free(metadata);
    free(arrays);
    return status;
}

/* All have written their shares: it becomes the checkpoint. */
static enum qkv_status checkpoint_end(struct qkv_trainer *t, const char *path, struct qkv_replace *replace) {
    enum qkv_status status = qkv_replace_commit(replace);
    if (!status) {
        t->saved_step = t->report.step;
        status = qkv_checkpoint_keep_best(t, path);
    }
    return status ? status : qkv_checkpoint_prune(t);
}

enum qkv_status qkv_checkpoint_write(struct qkv_trainer *t) {
    const bool leads = !qkv_context_rank(t->ctx);
    struct qkv_replace replace = {.ctx = t->ctx};
    size_t data = 0;
    char *path = qkv_join_path(t->ctx, t->folder, QKV_CHECKPOINT_FILE);
    enum qkv_status status = qkv_rank_agree(t->ctx, path ? check_weights(t) : QKV_MEMORY);
    if (!status && leads) status = checkpoint_begin(t, path, &replace, &data);
    status = qkv_rank_agree(t->ctx, status);
    if (!status) status = qkv_checkpoint_write_shares(t, replace.temporary, data);
    if (!status && leads) status = checkpoint_end(t, path, &replace);
    qkv_replace_cancel(&replace);
    free(path);
    return qkv_rank_agree(t->ctx, status);
}

enum qkv_status qkv_checkpoint_write_alone(struct qkv_trainer *t, const char *from) {
    struct qkv_replace replace = {.ctx = t->ctx};
    size_t data = 0;
    char *path = qkv_join_path(t->ctx, t->folder, QKV_CHECKPOINT_FILE);
    enum qkv_status status = path ? check_weights(t) : QKV_MEMORY;
    if (!status) status = checkpoint_begin(t, path, &replace, &data);
    if (!status) status = qkv_checkpoint_write_all(t, replace.temporary, data, from);
    if (!status) status = checkpoint_end(t, path, &replace);
    qkv_replace_cancel(&replace);
    free(path);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

struct reader {
    struct qkv_trainer *t;
    const char *path;
    struct qkv_tensors *file;
};

static enum qkv_status no_key(const struct reader *r, const char *key) {
    return qkv_fail(r->t->ctx, QKV_FORMAT,
                    "%s: its metadata has no valid \"%s\", so it is no checkpoint of this program; "
                    "restore the file or start a new run",
                    r->path, key);
}

static bool get_count(const struct reader *r, const char *key, uint64_t most, uint64_t *n) {
    const char *text = qkv_tensors_metadata(r->file, key);
    if (!text || !*text || strlen(text) > 18 || strspn(text, "0123456789") != strlen(text)) return false;
    *n = strtoull(text, NULL, 10);
    return *n <= most;
}

static bool get_real(const struct reader *r, const char *key, double *x) {
    const char *text = qkv_tensors_metadata(r->file, key);
    if (!text) return false;
    if (strcmp(text, "nan") != 0) return qkv_real_parse(text, x);
    *x = NAN;
    return true;
}

static size_t line_length(const char *text) {
    return strcspn(text, "\n");
}

static void checkpoint_trim(const char **line, size_t *size) {
    *size = line_length(*line);
    while (*size && **line == ' ') ++*line, --*size;
    while (*size && ((*line)[*size - 1] == ',' || (*line)[*size - 1] == ' ')) --*size;
}

/* Says where the spec of config.json differs from that of the checkpoint; both are printed one key a line. */
static enum qkv_status fail_specs(const struct reader *r, const char *ours, const char *theirs) {
    const char *a = ours, *b = theirs;
    while (*a && line_length(a) == line_length(b) && strncmp(a, b, line_length(a)) == 0) {
        a += line_length(a) + (a[line_length(a)] == '\n');
        b += line_length(b) + (b[line_length(b)] == '\n');
    }
    size_t na, nb;
    checkpoint_trim(&a, &na);
    checkpoint_trim(&b, &nb);
    return qkv_fail(
        r->t->ctx, QKV_SPEC,
        "%s%sconfig.json is not the spec of the checkpoint: it says %.*s where the checkpoint has %.*s; restore "
        "config.json, start a new run in another folder, or go on all the same with option ignore_digest",
        r->t->folder, qkv_path_slash(r->t->folder), (int)(na < 200 ? na : 200), a, (int)(nb < 200 ? nb : 200), b);
}

static enum qkv_status check_spec(const struct reader *r) {
    const char *theirs = qkv_tensors_metadata(r->file, "spec");
    struct qkv_context *ctx = r->t->ctx;
    char digest[QKV_DIGEST_TEXT], saved[QKV_DIGEST_TEXT], *ours;
    if (!theirs) return no_key(r, "spec");
    if (ctx->ignore_digest) return QKV_OK;
    struct qkv_spec *spec = qkv_allocate(ctx, 1, sizeof *spec);
    enum qkv_status status = spec ? qkv_spec_parse(ctx, spec, r->path, theirs, strlen(theirs), NULL, 0) : QKV_MEMORY;
    if (!status) status = qkv_spec_digest(ctx, spec, saved);
    qkv_spec_free(spec);
    free(spec);
    if (!status) status = qkv_spec_digest(ctx, qkv_model_spec(r->t->model), digest);
    if (status || strcmp(saved, digest) == 0) return status;
    status = qkv_spec_print(ctx, qkv_model_spec(r->t->model), &ours);
    if (status) return status;
    status = fail_specs(r, ours, theirs);
    qkv_free(ours);
    return status;
}

/* Options that were changed by hand since would change the numbers of the run. */
static enum qkv_status check_options(const struct reader *r) {
    const char *saved = qkv_tensors_metadata(r->file, "options_digest");
    char digest[QKV_DIGEST_TEXT];
    if (!saved || r->t->ctx->ignore_digest) return QKV_OK; /* older checkpoints have none */
    enum qkv_status status = qkv_train_digest(r->t->ctx, &r->t->options, digest);
    if (status || strcmp(saved, digest) == 0) return status;
    return qkv_fail(
        r->t->ctx, QKV_FORMAT,
        "%s%s%s has other options than the checkpoint was trained with (digest %s, not %.*s), so the run would "
        "go on with other numbers; restore it, or go on all the same with option ignore_digest",
        r->t->folder, qkv_path_slash(r->t->folder), QKV_TRAIN_FILE, digest, QKV_DIGEST_TEXT, saved);
}

static enum qkv_status read_metadata(const struct reader *r) {
    struct qkv_trainer *t = r->t;
    const char *format = qkv_tensors_metadata(r->file, "format"), *version = qkv_tensors_metadata(r->file, "version");
    const char *optimizer = qkv_tensors_metadata(r->file, "optimizer");
    const char *tokenizer = qkv_tensors_metadata(r->file, "tokenizer");
    char expected[17];
    uint64_t step, optimizer_steps, pending, stale, end, unused, ranks;
    if (!format || strcmp(format, QKV_CHECKPOINT_FORMAT) != 0) return no_key(r, "format");
    if (!version || strcmp(version, "1") != 0) return no_key(r, "version");
    if (!optimizer) return no_key(r, "optimizer");
    if (strcmp(optimizer, t->options.optimizer) != 0)
        return qkv_fail(t->ctx, QKV_FORMAT,
                        "%s was written with optimizer %s but train.json says %s; restore train.json", r->path,
                        optimizer, t->options.optimizer);
    snprintf(expected, sizeof expected, "%016llx", (unsigned long long)t->facts.texts.data.tokenizer);
    if (!tokenizer || strcmp(tokenizer, expected) != 0)
        return qkv_fail(t->ctx, QKV_FORMAT,
                        "%s was written with another tokenizer than train.json says; restore the files "
                        "of the run",
                        r->path);
    if (!get_count(r, "step", (uint64_t)1 << 50, &step)) return no_key(r, "step");
    if (!get_count(r, "optimizer_steps", (uint64_t)1 << 50, &optimizer_steps)) return no_key(r, "optimizer_steps");
    if (!get_count(r, "pending", 1, &pending)) return no_key(r, "pending");
#define GET(name)                                                                                                      \
    if (!get_real(r, #name, &t->report.name)) return no_key(r, #name);
    REPORT_NUMBERS(GET)
#undef GET
    /* Checkpoints from before there were other metrics have the loss alone. */
    if (!get_count(r, "stale", (uint64_t)1 << 50, &stale)) stale = 0;
    /* Written before the run got a new end, which gives it patience again. */
    if (get_count(r, "end", (uint64_t)1 << 50, &end) && end != (uint64_t)t->options.steps) stale = 0;
    if (!get_real(r, "metric", &t->report.metric)) t->report.metric = t->report.valid_loss;
    if (!get_real(r, "best_metric", &t->report.best_metric)) t->report.best_metric = t->report.best_loss;
    const char *loads = qkv_tensors_metadata(r->file, "expert_loads");
    if (loads && !get_count(r, "experts_unused", (uint64_t)1 << 50, &unused)) return no_key(r, "experts_unused");
    if (loads && !qkv_loads_read(t, loads, unused)) return no_key(r, "expert_loads");
    if (get_count(r, "ranks", QKV_RANKS_MOST, &ranks) && ranks != (uint64_t)qkv_context_ranks(t->ctx)) {
        enum qkv_status status = qkv_trainer_add_note(
            t,
            "sums of gradients travel as bf16 (gradients), so from step %llu on the numbers are those of %d rank%s, no "
            "longer those of %llu",
            (unsigned long long)step + 1, qkv_context_ranks(t->ctx), qkv_context_ranks(t->ctx) > 1 ? "s" : "",
            (unsigned long long)ranks);
        if (status) return status;
    }
    t->stale = (int64_t)stale;
    t->report.step = (int64_t)step;
    t->saved_step = (int64_t)step;
    t->pending = pending;
    t->earlier = t->report.seconds;
    t->report.seconds = 0;
    qkv_optimizer_set_steps(t->optimizer, optimizer_steps);
    return QKV_OK;
}

/* Copies `count` numbers of a tensor that has the shape of `like`, from number `begin` on. */
static enum qkv_status read_tensor(const struct reader *r, const char *name, const struct qkv_array *like, size_t begin,
                                   size_t count, float *out) {
    const struct qkv_array *array = qkv_tensors_find(r->file, name);
    if (!array)
        return qkv_fail(r->t->ctx, QKV_FORMAT,
                        "%s has no tensor %s, which the spec in config.json asks for; restore the "
                        "files of the run",
                        r->path, name);
    bool same = array->dtype == QKV_F32 && array->rank == like->rank;
    for (int d = 0; same && d < like->rank; d++) same = array->shape[d] == like->shape[d];
    if (!same)
        return qkv_fail(r->t->ctx, QKV_FORMAT,
                        "%s: %s does not have the shape or type that the spec in config.json asks "
                        "for; restore the files of the run",
                        r->path, name);
    const struct qkv_array part = {.dtype = QKV_F32,
                                   .rank = 1,
                                   .shape = {count},
                                   .bytes = count * sizeof *out,
                                   .data = (const float *)array->data + begin};
    return count ? qkv_tensors_floats(r->file, &part, out) : QKV_OK;
}

/* The moments that this rank keeps; of others only that they are there. */
static enum qkv_status read_moments(const struct reader *r, enum qkv_moment k, struct qkv_buffer *name, size_t *count) {
    const struct qkv_trainer *t = r->t;
    const struct qkv_weights *weights = &t->model->weights;
    enum qkv_status status = QKV_OK;
    size_t runs, i = 0;
    const struct qkv_moment_run *run = qkv_optimizer_runs(t->optimizer, &runs), *end = run + runs;
    for (; i < weights->count && !status; i++) {
        const struct qkv_array like = qkv_moment_array(k, &weights->list[i]);
        if (!qkv_optimizer_keeps(t->optimizer, k, i)) continue;
        float *whole = qkv_moment_whole(k) ? qkv_optimizer_moment(t->optimizer, k, i) : NULL;
        ++*count;
        name->size = 0;
        status = qkv_buffer_print(t->ctx, name, "%s.%s", qkv_moment_name(k), weights->list[i].array.name);
        if (!status) status = read_tensor(r, name->data, &like, 0, whole ? qkv_array_elements(&like) : 0, whole);
        if (whole) continue;
        while (run < end && run->weight < i) run++;
        for (; run < end && run->weight == i && !status; run++)
            status = read_tensor(r, name->data, &like, run->begin, run->end - run->begin, run->moments[k]);
    }
    return status;
}

static enum qkv_status read_tensors(const struct reader *r) {
    struct qkv_trainer *t = r->t;
    struct qkv_weights *weights = &t->model->weights;
    size_t P = weights->count, count = P;
    struct qkv_buffer name = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < P && !status; i++) {
        const struct qkv_weight *w = &weights->list[i];
        status = read_tensor(r, w->array.name, &w->array, 0, w->rows * w->columns, w->data);
    }
    for (int k = 0; k < QKV_MOMENT_COUNT && !status; k++) status = read_moments(r, (enum qkv_moment)k, &name, &count);
    qkv_buffer_free(&name);
    qkv_weights_changed(weights);
    if (!status && qkv_tensors_count(r->file) != count)
        return qkv_fail(t->ctx, QKV_FORMAT,
                        "%s has %zu tensors, the spec in config.json %s for %zu; restore the files of the run", r->path,
                        qkv_tensors_count(r->file), t->options.freeze[0] ? "and what is frozen ask" : "asks", count);
    return status ? status : check_weights(t);
}

enum qkv_status qkv_checkpoint_read(struct qkv_trainer *t) {
    struct reader r = {.t = t};
    char *path = qkv_join_path(t->ctx, t->folder, t->checkpoint ? t->checkpoint : QKV_CHECKPOINT_FILE);
    if (!path) return QKV_MEMORY;
    r.path = path;
    bool found;
    enum qkv_status status = qkv_file_find(t->ctx, path, &found);
    if (!status && !found && t->checkpoint)
        status = qkv_fail(t->ctx, QKV_FILE, "%s has no %s; name one that is there, or the folder for the latest",
                          t->folder, t->checkpoint);
    else if (!status && !found)
        status =
            qkv_fail(t->ctx, QKV_FILE,
                     "%s has no %s: the run was stopped before its first; remove the folder and start the run again",
                     t->folder, QKV_CHECKPOINT_FILE);
    if (!status) status = qkv_tensors_open(t->ctx, path, &r.file);
    if (!status) {
        status = check_spec(&r);
        if (!status) status = read_metadata(&r);
        if (!status) status = check_options(&r);
        if (!status) status = qkv_ties_check(t->ctx, r.file);
        if (!status) status = read_tensors(&r);
        qkv_tensors_close(r.file);
    }
    free(path);
    return status;
}
