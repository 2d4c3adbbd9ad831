/* plan: the variants of a comparison: each model with each value of each axis; a variant has a spec, options of
 * training and a folder. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/compare/compare_room.h"

enum { MAX_VARIANTS = 64, MAX_SEEDS = 100, PROMPT = 512 };

/* ---- variants ---------------------------------------------------------------------------------------------------- */

/* Appends the last part of a path without ".json". */
static enum qkv_status name_file(struct qkv_context *ctx, const char *path, struct qkv_buffer *name) {
    const char *slash = strrchr(path, '/'), *begin = slash ? slash + 1 : path;
    size_t n = strlen(begin);
    if (n > 5 && !strcmp(begin + n - 5, ".json")) n -= 5;
    return qkv_buffer_append(ctx, name, begin, n);
}

static enum qkv_status name_variant(struct qkv_comparison *c, const struct qkv_compare_options *o, size_t i) {
    struct qkv_variant_state *v = &c->variants[i];
    struct qkv_buffer name = {0};
    enum qkv_status status = QKV_OK;
    if (o->spec_count) status = name_file(c->ctx, o->specs[v->model], &name);
    for (size_t a = 0; a < c->axis_count && !status; a++)
        status = qkv_axis_name(c->ctx, &c->axes[a], c->axes[a].values.items[v->values[a]], &name);
    if (!status && !name.size) status = name_file(c->ctx, o->spec ? o->spec : c->preset, &name);
    v->name = name.data;
    v->shown.name = name.data;
    return status;
}

/* Makes the name a folder's name: characters that a shell or a file system may read otherwise become '-', and equal
 * names get numbers. */
static enum qkv_status name_folders(struct qkv_comparison *c, size_t i) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._=+-";
    struct qkv_variant_state *v = &c->variants[i];
    char base[160];
    size_t n = strlen(v->name) < 100 ? strlen(v->name) : 100;
    for (size_t k = 0; k < n; k++) base[k] = strchr(plain, v->name[k]) && (k || v->name[k] != '.') ? v->name[k] : '-';
    base[n] = 0;
    for (size_t k = 0, same = 1; k < i; k++)
        if (!strcmp(c->variants[k].base, base)) {
            snprintf(base + n, sizeof base - n, "-%zu", ++same);
            k = SIZE_MAX; /* starts again with the new name */
        }
    v->base = qkv_copy_string(c->ctx, base);
    enum qkv_status status = v->base ? QKV_OK : QKV_MEMORY;
    for (size_t s = 0; s < c->seeds && !status; s++)
        status = c->seeds == 1
                     ? qkv_texts_add(c->ctx, &v->folders, "%s", base)
                     : qkv_texts_add(c->ctx, &v->folders, "%s-seed%lld", base, (long long)c->seed + (long long)s);
    if (!status) v->shown.folder = v->folders.items[0];
    return status;
}

static enum qkv_status read_spec(struct qkv_comparison *c, const struct qkv_compare_options *o, size_t model,
                                 const struct qkv_texts *settings, bool *idle, struct qkv_spec *spec) {
    struct qkv_settings changes = {(const char *const *)settings->items, settings->count, idle};
    return qkv_spec_vary(c->ctx, spec, c->preset, o->spec_count ? o->specs[model] : o->spec, &changes);
}

/* Marks the settings that have an effect: first the shared ones, then those of each axis, up to ends[axis]. */
static void note_used(struct qkv_comparison *c, size_t shared, const size_t *ends, const bool *idle) {
    for (size_t i = 0; i < shared; i++) c->used[i] = c->used[i] || !idle[i];
    for (size_t a = 0, i = shared; a < c->axis_count; a++) {
        bool trains = i == ends[a]; /* the axis is an option of training, which adds no setting */
        c->used[shared + a] = c->used[shared + a] || trains;
        for (; i < ends[a]; i++) c->used[shared + a] = c->used[shared + a] || !idle[i];
    }
}

static enum qkv_status check_kind(struct qkv_context *ctx, const struct qkv_spec *spec) {
    if (spec->decoder.layers > 0 && spec->encoder.layers == 0 && spec->head.kind == QKV_HEAD_LM &&
        !qkv_stack_find_causal(&spec->decoder, false))
        return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC, "only decoders that predict the next token of a text can be compared; this model %s",
                    spec->encoder.layers             ? "has an encoder"
                    : spec->head.kind != QKV_HEAD_LM ? "has another head than lm"
                                                     : "has attention that is not causal");
}

enum { AXIS_SETTINGS = 4 * QKV_KINDS_MAX }; /* limit of the settings of one value of an axis */

/* Builds the spec of a variant. `idle` and `ends` have room for every setting and every axis. */
static enum qkv_status build_spec(struct qkv_comparison *c, const struct qkv_compare_options *o,
                                  struct qkv_variant_state *v, bool *idle, size_t *ends) {
    struct qkv_texts settings = {0};
    struct qkv_spec base = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < o->setting_count && !status; i++)
        status = qkv_texts_add(c->ctx, &settings, "%s", o->settings[i]);
    if (!status) status = read_spec(c, o, v->model, &settings, idle, &base);
    if (!status) status = check_kind(c->ctx, &base);
    for (size_t a = 0; a < c->axis_count && !status; a++) {
        const char *value = c->axes[a].values.items[v->values[a]];
        status = qkv_axis_apply(c->ctx, &c->axes[a], value, &base, &settings, &v->training);
        ends[a] = settings.count;
    }
    qkv_spec_free(&base);
    if (!status) status = read_spec(c, o, v->model, &settings, idle, &v->shown.spec);
    if (!status) status = check_kind(c->ctx, &v->shown.spec);
    if (!status) note_used(c, o->setting_count, ends, idle);
    qkv_texts_free(&settings);
    return status;
}

/* Builds the spec and the options of a variant; an error in them is its failure. */
static enum qkv_status plan_build(struct qkv_comparison *c, const struct qkv_compare_options *o,
                                  struct qkv_variant_state *v) {
    struct qkv_train_options options;
    bool *idle = qkv_allocate(c->ctx, o->setting_count + AXIS_SETTINGS * c->axis_count + 1, sizeof *idle);
    size_t *ends = qkv_allocate(c->ctx, c->axis_count + 1, sizeof *ends);
    enum qkv_status status = idle && ends ? build_spec(c, o, v, idle, ends) : QKV_MEMORY;
    if (!status) status = qkv_variant_options(c, v, 0, &options);
    if (!status) status = qkv_train_check(c->ctx, &options);
    free(idle);
    free(ends);
    if (status == QKV_MEMORY) return status;
    if (status) qkv_variant_fail(c, v);
    return QKV_OK;
}

static enum qkv_status make_variants(struct qkv_comparison *c, const struct qkv_compare_options *o) {
    size_t count = o->spec_count ? o->spec_count : 1;
    for (size_t a = 0; a < c->axis_count && count <= MAX_VARIANTS; a++) count *= c->axes[a].values.count;
    if (count > MAX_VARIANTS)
        return qkv_fail(c->ctx, QKV_ARGUMENT,
                        "the axes make %zu variants or more; at most %d can be compared, so leave out values", count,
                        MAX_VARIANTS);
    c->variants = qkv_allocate(c->ctx, count, sizeof *c->variants);
    c->used = qkv_allocate(c->ctx, o->setting_count + c->axis_count + 1, sizeof *c->used);
    if (!c->variants || !c->used) return QKV_MEMORY;
    c->count = count;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        struct qkv_variant_state *v = &c->variants[i];
        size_t rest = i;
        v->values = qkv_allocate(c->ctx, c->axis_count + 1, sizeof *v->values);
        v->losses = qkv_allocate(c->ctx, c->seeds, sizeof *v->losses);
        v->decode = qkv_allocate(c->ctx, 3 * c->cache_count, sizeof *v->decode); /* and their bounds */
        if (!v->values || !v->losses || !v->decode) return QKV_MEMORY;
        for (size_t a = c->axis_count; a-- > 0;) { /* the last axis varies fastest */
            v->values[a] = rest % c->axes[a].values.count;
            rest /= c->axes[a].values.count;
        }
        v->model = rest;
        v->shown.losses = v->losses;
        v->shown.decode_speeds = v->decode;
        v->shown.decode_slowest = v->decode + c->cache_count;
        v->shown.decode_fastest = v->decode + 2 * c->cache_count;
        status = name_variant(c, o, i);
        if (!status) status = name_folders(c, i);
        if (!status) status = plan_build(c, o, v);
    }
    return status;
}

/* ---- what all variants share ------------------------------------------------------------------------------------- */

static enum qkv_status read_axes(struct qkv_comparison *c, const struct qkv_compare_options *o) {
    enum qkv_status status = QKV_OK;
    c->axes = qkv_allocate(c->ctx, o->axis_count + 1, sizeof *c->axes);
    if (!c->axes) return QKV_MEMORY;
    for (size_t i = 0; i < o->axis_count && !status; i++) {
        status = qkv_axis_parse(c->ctx, o->axes[i], &c->axes[i]);
        if (status) break;
        c->axis_count++;
        for (size_t k = 0; k < i && !status; k++)
            if (!strcmp(c->axes[k].name, c->axes[i].name))
                status = qkv_fail(c->ctx, QKV_ARGUMENT, "the axis %s is given twice; write its values in one list",
                                  c->axes[i].name);
    }
    return status;
}

static enum qkv_status read_caches(struct qkv_comparison *c, const struct qkv_compare_options *o) {
    static const size_t usual[] = {64, 256, 1024, 4096};
    const size_t *from = o->caches ? o->caches : usual;
    c->cache_count = o->caches ? o->cache_count : sizeof usual / sizeof *usual;
    c->caches = qkv_allocate(c->ctx, c->cache_count, sizeof *c->caches);
    if (!c->caches) return QKV_MEMORY;
    for (size_t i = 0; i < c->cache_count; i++) {
        c->caches[i] = from[i];
        if (from[i] < 1 || from[i] > (size_t)1 << 24 || (i && from[i] <= from[i - 1]))
            return qkv_fail(c->ctx, QKV_ARGUMENT,
                            "the lengths of the cache must rise, each from 1 to %d; %zu does not fit", 1 << 24,
                            from[i]);
    }
    c->prompt = PROMPT;
    return QKV_OK;
}

static enum qkv_status check_text(struct qkv_comparison *c, const struct qkv_train_options *options) {
    const char *kind = qkv_train_data(options);
    const char *other = kind && strcmp(kind, "data") != 0 ? kind : options->task ? "task" : NULL;
    if (other)
        return qkv_fail(c->ctx, QKV_ARGUMENT,
                        "a comparison cannot use %s: its models predict the next token of a text (data); leave it out",
                        other);
    if (!options->data) return qkv_fail(c->ctx, QKV_ARGUMENT, "name a text to train on (data)");
    if (!options->valid && !(options->valid_fraction > 0))
        return qkv_fail(c->ctx, QKV_ARGUMENT,
                        "a comparison needs validation data; give a file (valid), or a valid_fraction greater than 0");
    const char *name, *why;
    for (size_t i = 0; qkv_train_option_at(i, &name, NULL, NULL); i++)
        if (!strcmp(name, "valid_fraction") && qkv_train_idle(options, i, &why))
            return qkv_fail(c->ctx, QKV_ARGUMENT, "%s; leave it out", why);
    return QKV_OK;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static enum qkv_status plan_check(struct qkv_comparison *c, const struct qkv_compare_options *o) {
    if ((o->preset != NULL) + (o->spec != NULL) + (o->spec_count > 0) > 1)
        return qkv_fail(c->ctx, QKV_ARGUMENT, "preset, spec and specs exclude each other");
    if (!o->axis_count && o->spec_count < 2)
        return qkv_fail(c->ctx, QKV_ARGUMENT,
                        "nothing varies; give an axis (kv=mha,gqa:2,mqa), or the specs of two models or more");
    if (o->seeds > MAX_SEEDS)
        return qkv_fail(c->ctx, QKV_ARGUMENT, "%zu seeds are too many; at most %d", o->seeds, MAX_SEEDS);
    return QKV_OK;
}

/* Some variants may be impossible, but not all. */
static enum qkv_status check_any(struct qkv_comparison *c) {
    for (size_t i = 0; i < c->count; i++)
        if (!c->variants[i].shown.failure) return QKV_OK;
    const struct qkv_variant_state *first = &c->variants[0];
    qkv_fail(c->ctx, QKV_SPEC, "no variant can be built: %s: %.900s", first->name, first->shown.failure);
    if (first->failed_key) qkv_fail_key(c->ctx, first->failed_key);
    return QKV_SPEC;
}

/* Makes the axes and options, and reads no file. */
static enum qkv_status make_plan(struct qkv_comparison *c, const struct qkv_compare_options *o,
                                 struct qkv_train_options *options) {
    enum qkv_status status = plan_check(c, o);
    c->seeds = o->seeds ? o->seeds : 1;
    if (!status && !o->spec && !o->spec_count) {
        c->preset = qkv_copy_string(c->ctx, o->preset ? o->preset : "nano-gpt");
        if (!c->preset) return QKV_MEMORY;
    }
    for (size_t i = 0; i < o->training_count && !status; i++)
        status = qkv_texts_add(c->ctx, &c->training, "%s", o->training[i]);
    if (!status && !c->preset) status = qkv_spec_check_settings(c->ctx, o->settings, o->setting_count);
    if (!status) status = read_axes(c, o);
    if (!status) status = read_caches(c, o);
    if (!status) status = qkv_comparison_options(c, options);
    if (!status) status = check_text(c, options);
    if (!status) c->seed = options->seed;
    return status;
}

static enum qkv_status make_all_variants(struct qkv_comparison *c, const struct qkv_compare_options *o) {
    enum qkv_status status = make_variants(c, o);
    if (!status) status = check_any(c);
    return status ? status : qkv_comparison_check_idle(c, o);
}

static enum qkv_status plan_begin(struct qkv_context *ctx, const char *folder, struct qkv_comparison **out) {
    *out = qkv_allocate(ctx, 1, sizeof **out);
    if (!*out) return QKV_MEMORY;
    (*out)->ctx = ctx;
    qkv_comparison_set_ranks(*out);
    (*out)->lock = -1;
    (*out)->folder = qkv_copy_string(ctx, folder);
    return (*out)->folder ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_compare_check(struct qkv_context *ctx, const struct qkv_compare_options *options) {
    QKV_CALL(ctx);
    struct qkv_train_options training;
    struct qkv_comparison *c;
    enum qkv_status status = plan_begin(ctx, "", &c);
    if (!status) status = make_plan(c, options, &training);
    if (!status && c->preset) status = make_all_variants(c, options);
    qkv_comparison_free(c);
    return status;
}

/* A folder with the name of a run's may be somebody else's. Runs that are still to begin read the texts. */
static enum qkv_status plan_match(struct qkv_comparison *c) {
    enum qkv_status status = QKV_OK;
    bool begins = false;
    for (size_t k = 0; k < c->count * c->seeds && !status; k++) {
        const struct qkv_variant_state *v = &c->variants[k / c->seeds];
        struct qkv_train_options options;
        if (v->shown.failure) continue;
        char *folder = qkv_join_path(c->ctx, c->folder, v->folders.items[k % c->seeds]);
        char *begun = folder ? qkv_join_path(c->ctx, folder, QKV_TRAIN_FILE) : NULL;
        status = begun ? qkv_variant_options(c, v, k % c->seeds, &options) : QKV_MEMORY;
        const bool there = !status && qkv_file_exists(begun);
        begins = begins || !there;
        if (there) status = qkv_run_match(c->ctx, folder, &v->shown.spec, &options);
        free(folder);
        free(begun);
    }
    return !status && begins ? qkv_comparison_check_files(c) : status;
}

static enum qkv_status plan_open(struct qkv_comparison *c, const struct qkv_compare_options *options,
                                 const struct qkv_train_options *training) {
    enum qkv_status status = qkv_comparison_record(c, options);
    if (status) return status;
    status = qkv_comparison_texts(c, training);
    const bool noted = c->file_count;
    if (!status && !noted && !c->ranks.rank) status = qkv_comparison_note_files(c);
    if (status && !c->begun && !c->ranks.rank) qkv_comparison_record_texts(c, options, true);
    if (!status && !c->ranks.rank && (!c->begun || noted != (c->file_count > 0)))
        status = qkv_comparison_record_texts(c, options, false);
    return status ? status : plan_match(c);
}

enum qkv_status qkv_comparison_create(struct qkv_context *ctx, const struct qkv_compare_options *options,
                                      const char *folder, struct qkv_comparison **out) {
    QKV_CALL(ctx);
    struct qkv_train_options training;
    enum qkv_status status = plan_begin(ctx, folder, out);
    if (!*out) return status;
    if (!status) status = make_plan(*out, options, &training);
    if (!status) status = qkv_train_files(ctx, &training, &(*out)->mixes, NULL); /* before anything is made */
    if (!status) status = make_all_variants(*out, options);
    status = qkv_comparison_agree(*out, status);
    if (!status) status = qkv_comparison_alike(*out);
    /* rank 0 makes the folder and the texts, then the others find them */
    for (int first = 1; first >= 0 && !status; first--) {
        if (first == ((*out)->ranks.rank == 0)) status = plan_open(*out, options, &training);
        status = qkv_comparison_agree(*out, status);
    }
    if (!status) return QKV_OK;
    qkv_comparison_free(*out);
    *out = NULL;
    return status;
}

void qkv_comparison_free(struct qkv_comparison *c) {
    if (!c) return;
    for (size_t i = 0; i < c->count; i++) {
        struct qkv_variant_state *v = &c->variants[i];
        qkv_texts_free(&v->training);
        qkv_texts_free(&v->folders);
        free(v->values);
        free(v->name);
        free(v->base);
        free(v->failure);
        free(v->failed_key);
        free(v->losses);
        qkv_spec_free(&v->shown.spec);
        free(v->decode);
    }
    for (size_t a = 0; a < c->axis_count; a++) qkv_axis_free(&c->axes[a]);
    if (c->lock >= 0) close(c->lock);
    qkv_texts_free(&c->training);
    qkv_texts_free(&c->notes);
    free(c->variants);
    free(c->used);
    free(c->axes);
    free(c->caches);
    free(c->preset);
    free(c->folder);
    free(c->data);
    free(c->valid);
    free(c->shards);
    free(c->files);
    qkv_comparison_reset_ranks(c);
    free(c);
}

size_t qkv_comparison_count(const struct qkv_comparison *c) {
    return c->count;
}

const struct qkv_variant *qkv_comparison_variant(const struct qkv_comparison *c, size_t i) {
    return i < c->count ? &c->variants[i].shown : NULL;
}

size_t qkv_comparison_seeds(const struct qkv_comparison *c) {
    return c->seeds;
}

int64_t qkv_comparison_seed(const struct qkv_comparison *c, size_t i) {
    return c->seed + (int64_t)i;
}

const size_t *qkv_comparison_caches(const struct qkv_comparison *c, size_t *count, size_t *prompt) {
    if (count) *count = c->cache_count;
    if (prompt) *prompt = c->prompt;
    return c->caches;
}

const char *qkv_comparison_valid(const struct qkv_comparison *c) {
    return c->valid;
}
