/* example_files: arrays of safetensors files as examples of a model: opened, checked whole, read row by row. Numbers
 * are read and not mapped, so a file that somebody shortens meanwhile is QKV_FILE. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/spec.h"
#include "io/io.h"
#include "io/safetensors.h"
#include "data/example_files.h"

enum { NUMBERS_A_PIECE = 1024 };

/* The stack that the head belongs to. */
static const struct qkv_stack_spec *example_stack(const struct qkv_spec *spec) {
    return spec->decoder.layers ? &spec->decoder : &spec->encoder;
}

static bool example_both(const struct qkv_spec *spec) {
    return qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
}

static const char *example_name(enum qkv_input_kind kind) {
    static const char *const names[] = {[QKV_INPUT_TOKENS] = "in.ids",
                                        [QKV_INPUT_PATCHES] = "in.pixels",
                                        [QKV_INPUT_FRAMES] = "in.features",
                                        [QKV_INPUT_VECTORS] = "in.vectors"};
    return names[kind];
}

enum qkv_status qkv_example_files_check(struct qkv_context *ctx, const struct qkv_spec *spec) {
    if (spec->head.kind == QKV_HEAD_NONE)
        return qkv_fail(
            ctx, QKV_SPEC,
            "examples have targets, which a model without a head has no scores for; set head.kind=classify");
    if (spec->vocab || !qkv_spec_has_tokens(spec)) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC, "examples bring no tokenizer, which the vocabulary would come from; set vocab");
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

struct opening {
    struct qkv_context *ctx;
    const struct qkv_spec *spec;
    const char *path;
    struct qkv_example_files *files;
    struct qkv_example_file *file;
};

static enum qkv_status wrong_array(const struct opening *o, const struct qkv_array *array, const char *expected) {
    char shape[QKV_RANK_MAX * 24] = "";
    for (int i = 0; i < array->rank; i++) {
        const size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, i ? ",%zu" : "%zu", array->shape[i]);
    }
    return qkv_fail(o->ctx, QKV_FORMAT, "%s: %s is %s of the shape (%s); it must be %s", o->path, array->name,
                    qkv_types[array->dtype]->safetensors, shape, expected);
}

static enum qkv_status find_array(const struct opening *o, const char *name, const char *expected,
                                  const struct qkv_array **out) {
    char held[200] = "";
    *out = qkv_tensors_find(o->file->tensors, name);
    if (*out) return QKV_OK;
    for (size_t i = 0; i < qkv_tensors_count(o->file->tensors) && strlen(held) < sizeof held - 48; i++) {
        const size_t used = strlen(held);
        snprintf(held + used, sizeof held - used, "%s%.40s", i ? ", " : "", qkv_tensors_at(o->file->tensors, i)->name);
    }
    return qkv_fail(o->ctx, QKV_FORMAT, "%s has no %s, %s; it holds %s", o->path, name, expected,
                    *held ? held : "nothing");
}

static bool is_floats(const struct qkv_array *array) {
    return array->dtype == QKV_F32 || array->dtype == QKV_F16 || array->dtype == QKV_BF16;
}

static bool is_integers(const struct qkv_array *array) {
    return array->dtype == QKV_I32 || array->dtype == QKV_I64;
}

/* Integers [first, first + n) of an array, n at most NUMBERS_A_PIECE. */
static enum qkv_status read_integers(const struct qkv_example_file *file, const struct qkv_array *array, size_t first,
                                     size_t n, int64_t *out) {
    int32_t narrow[NUMBERS_A_PIECE];
    if (array->dtype == QKV_I64) return qkv_tensors_read(file->tensors, array, first, n, out);
    enum qkv_status status = qkv_tensors_read(file->tensors, array, first, n, narrow);
    for (size_t i = 0; i < n && !status; i++) out[i] = narrow[i];
    return status;
}

/* Any number of them, which all were in range when the file was opened. */
static enum qkv_status read_ids(const struct qkv_example_file *file, const struct qkv_array *array, size_t first,
                                size_t n, int32_t *out) {
    int64_t part[NUMBERS_A_PIECE];
    enum qkv_status status = QKV_OK;
    for (size_t at = 0, count; at < n && !status; at += count) {
        count = qkv_min(n - at, NUMBERS_A_PIECE);
        status = read_integers(file, array, first + at, count, part);
        for (size_t i = 0; i < count && !status; i++) out[at + i] = (int32_t)part[i];
    }
    return status;
}

/* The shape that the model wants, behind the number of examples; 0: any. */
static enum qkv_status check_input(const struct opening *o, const struct qkv_stack_spec *stack,
                                   const struct qkv_array *array, struct qkv_example_side *side) {
    const struct qkv_input_spec *in = &stack->embed.input;
    const size_t channels = (size_t)in->channels, context = (size_t)qkv_stack_context(o->spec, stack);
    const size_t wants[][3] = {
        [QKV_INPUT_TOKENS] = {0},
        [QKV_INPUT_PATCHES] = {channels, (size_t)in->height, (size_t)in->width},
        [QKV_INPUT_FRAMES] = {channels, 0},
        [QKV_INPUT_VECTORS] = {0, channels},
    };
    static const int ranks[] = {
        [QKV_INPUT_TOKENS] = 2, [QKV_INPUT_PATCHES] = 4, [QKV_INPUT_FRAMES] = 3, [QKV_INPUT_VECTORS] = 3};
    char expected[200];
    const bool tokens = in->kind == QKV_INPUT_TOKENS;
    switch (in->kind) {
    case QKV_INPUT_TOKENS:
        snprintf(expected, sizeof expected, "I32 or I64 of the shape (examples,positions)");
        break;
    case QKV_INPUT_PATCHES:
        snprintf(expected, sizeof expected,
                 "F32, F16 or BF16 of the shape (examples,%d,%d,%d): channels, height, width", in->channels, in->height,
                 in->width);
        break;
    case QKV_INPUT_FRAMES:
        snprintf(expected, sizeof expected, "F32, F16 or BF16 of the shape (examples,%d,frames)", in->channels);
        break;
    case QKV_INPUT_VECTORS:
        snprintf(expected, sizeof expected, "F32, F16 or BF16 of the shape (examples,positions,%d)", in->channels);
    }
    bool right = array->rank == ranks[in->kind] && (tokens ? is_integers(array) : is_floats(array));
    for (int i = 1; right && i < array->rank; i++) {
        const size_t want = wants[in->kind][i - 1];
        right = array->shape[i] > 0 && (!want || array->shape[i] == want);
    }
    if (!right || !array->shape[0]) return wrong_array(o, array, expected);
    size_t T = in->kind == QKV_INPUT_PATCHES ? qkv_stack_patches(stack) : array->shape[1];
    if (in->kind == QKV_INPUT_FRAMES) T = (array->shape[2] - 1) / (size_t)in->stride + 1;
    if (T > context)
        return qkv_fail(o->ctx, QKV_FORMAT, "%s: an example of %s has %zu positions, more than the context of %zu",
                        o->path, array->name, T, context);
    for (int i = 1; o->files->file_count > 1 && i < array->rank; i++)
        if (array->shape[i] != side->shape[i - 1])
            return wrong_array(o, array, "of the shape of the files before it, but for the number of examples");
    side->rank = array->rank - 1;
    for (int i = 0; i < side->rank; i++) side->shape[i] = array->shape[i + 1];
    side->T = T, side->frames = in->kind == QKV_INPUT_FRAMES ? array->shape[2] : 0, side->tokens = tokens;
    return QKV_OK;
}

static enum qkv_status check_numbers(const struct opening *o, const struct qkv_array *array) {
    float part[NUMBERS_A_PIECE];
    const size_t all = qkv_array_elements(array);
    enum qkv_status status = QKV_OK;
    for (size_t at = 0, n; at < all && !status; at += n) {
        n = qkv_min(all - at, NUMBERS_A_PIECE);
        status = qkv_tensors_part(o->file->tensors, array, at, n, part);
        for (size_t i = 0; i < n && !status; i++)
            if (!isfinite(part[i]))
                return qkv_fail(o->ctx, QKV_FORMAT, "%s: a number of example %zu of %s is not finite", o->path,
                                (at + i) / (all / array->shape[0]), array->name);
    }
    return status;
}

/* What integers have to be: in [low, high), or QKV_IGNORE. */
struct integer_range {
    int64_t low, high;
    bool ignore;
    const char *what; /* ends the sentence of one that is not */
    int64_t largest;  /* found so far */
};

static enum qkv_status check_integer_part(const struct opening *o, const struct qkv_array *array, size_t at, size_t n,
                                          const int64_t *part, struct integer_range *range) {
    for (size_t i = 0; i < n; i++) {
        const int64_t x = part[i];
        if (x > range->largest) range->largest = x;
        if ((x >= range->low && x < range->high) || (range->ignore && x == QKV_IGNORE)) continue;
        return qkv_fail(o->ctx, QKV_FORMAT, "%s: %s of example %zu is %lld; it must be from %lld to %lld%s", o->path,
                        array->name, (at + i) / (qkv_array_elements(array) / array->shape[0]), (long long)x,
                        (long long)range->low, (long long)range->high - 1, range->what);
    }
    return QKV_OK;
}

static enum qkv_status check_integers(const struct opening *o, const struct qkv_array *array,
                                      struct integer_range *range) {
    int64_t part[NUMBERS_A_PIECE];
    const size_t all = qkv_array_elements(array);
    enum qkv_status status = QKV_OK;
    for (size_t at = 0, n; at < all && !status; at += n) {
        n = qkv_min(all - at, NUMBERS_A_PIECE);
        status = read_integers(o->file, array, at, n, part);
        if (!status) status = check_integer_part(o, array, at, n, part, range);
    }
    return status;
}

static enum qkv_status check_targets(const struct opening *o, const struct qkv_array *array) {
    const struct qkv_spec *s = o->spec;
    struct qkv_example_files *f = o->files;
    const bool each = s->head.kind != QKV_HEAD_CLASSIFY;
    const size_t N = o->file->input->shape[0];
    const int outputs = s->head.kind == QKV_HEAD_LM ? s->vocab : s->head.classes;
    char expected[120], known[64] = "";
    snprintf(expected, sizeof expected,
             each ? "I32 or I64 of the shape (%zu,%zu): one for each position"
                  : "I32 or I64 of the shape (%zu): one for each example",
             N, f->T);
    const bool right = is_integers(array) && array->shape[0] == N && array->rank == (each ? 2 : 1);
    if (!right || (each && array->shape[1] != f->T)) return wrong_array(o, array, expected);
    f->by_position = each;
    if (outputs > 0)
        snprintf(known, sizeof known, ", as the model has %d %s", outputs,
                 s->head.kind == QKV_HEAD_LM ? "tokens" : "classes");
    struct integer_range range = {
        .high = outputs > 0 ? outputs : 1 << 20, .ignore = true, .what = known, .largest = -1};
    enum qkv_status status = check_integers(o, array, &range);
    if (!status && range.largest >= 0) f->classes = qkv_max(f->classes, (size_t)range.largest + 1);
    return status;
}

/* Of sequences of ids or vectors. */
static enum qkv_status check_lengths(const struct opening *o, const char *name, enum qkv_input_kind kind, size_t T,
                                     size_t examples, const struct qkv_array **out) {
    const struct qkv_array *lengths = qkv_tensors_find(o->file->tensors, name);
    char expected[64];
    if (!lengths) return QKV_OK;
    if (kind == QKV_INPUT_PATCHES || kind == QKV_INPUT_FRAMES)
        return qkv_fail(o->ctx, QKV_FORMAT, "%s has %s, but all examples of %s are as long; leave it out", o->path,
                        name, example_name(kind));
    snprintf(expected, sizeof expected, "I32 or I64 of the shape (%zu)", examples);
    if (!is_integers(lengths) || lengths->rank != 1 || lengths->shape[0] != examples)
        return wrong_array(o, lengths, expected);
    *out = lengths;
    return check_integers(o, lengths, &(struct integer_range){.low = 1, .high = (int64_t)T + 1, .what = ""});
}

/* What a stack reads: found under its name, checked, with its lengths. */
static enum qkv_status open_side(const struct opening *o, bool source, const struct qkv_array **array,
                                 const struct qkv_array **lengths, struct qkv_example_side *side) {
    static const char *const what[] = {
        [QKV_INPUT_TOKENS] = "the ids that this model reads, (examples,positions)",
        [QKV_INPUT_PATCHES] = "the images that this model reads, (examples,channels,height,"
                              "width)",
        [QKV_INPUT_FRAMES] = "the frames that this model reads, (examples,channels,frames)",
        [QKV_INPUT_VECTORS] = "the vectors that this model reads, (examples,positions,"
                              "channels)"};
    const struct qkv_stack_spec *stack = source ? &o->spec->encoder : example_stack(o->spec);
    const enum qkv_input_kind kind = stack->embed.input.kind;
    const char *name = source && kind == QKV_INPUT_TOKENS ? "in.source" : example_name(kind);
    const int vocab = source ? o->spec->source_vocab : o->spec->vocab;
    enum qkv_status status = find_array(o, name, what[kind], array);
    if (!status) status = check_input(o, stack, *array, side);
    if (!status)
        status = side->tokens
                     ? check_integers(o, *array,
                                      &(struct integer_range){.high = vocab, .what = ", as those of the vocabulary"})
                     : check_numbers(o, *array);
    return status ? status
                  : check_lengths(o, source ? "in.source_lengths" : "in.lengths", kind, side->T, (*array)->shape[0],
                                  lengths);
}

static enum qkv_status open_source(const struct opening *o) {
    struct qkv_example_file *f = o->file;
    enum qkv_status status = open_side(o, true, &f->source, &f->source_lengths, &o->files->source);
    if (status || f->source->shape[0] == f->input->shape[0]) return status;
    return qkv_fail(o->ctx, QKV_FORMAT, "%s has %zu examples in %s, but %zu in %s; each target needs its source",
                    o->path, f->source->shape[0], f->source->name, f->input->shape[0], f->input->name);
}

/* The types of ids. */
static enum qkv_status open_types(const struct opening *o) {
    struct qkv_example_file *f = o->file;
    const int types = example_stack(o->spec)->embed.types;
    char expected[80];
    f->types = qkv_tensors_find(o->file->tensors, "in.token_types");
    if (!f->types) return QKV_OK;
    if (!o->files->input.tokens || types == 0)
        return qkv_fail(o->ctx, QKV_FORMAT, "%s has in.token_types, but the embedding of this model has no types",
                        o->path);
    snprintf(expected, sizeof expected, "I32 or I64 of the shape (%zu,%zu), as in.ids", f->input->shape[0],
             o->files->T);
    const bool right = is_integers(f->types) && f->types->rank == 2 && f->types->shape[0] == f->input->shape[0] &&
                       f->types->shape[1] == o->files->T;
    if (!right) return wrong_array(o, f->types, expected);
    return check_integers(o, f->types, &(struct integer_range){.high = types, .what = ", as those of the embedding"});
}

/* Inputs that are none of what is read; others, as out.logits, are not asked for. */
static enum qkv_status find_other_inputs(const struct opening *o) {
    const struct qkv_example_file *f = o->file;
    const struct qkv_array *const read[] = {f->input,          f->lengths, f->source,
                                            f->source_lengths, f->types,   qkv_tensors_find(f->tensors, "in.targets")};
    for (size_t i = 0; i < qkv_tensors_count(f->tensors); i++) {
        const struct qkv_array *array = qkv_tensors_at(f->tensors, i);
        bool known = strncmp(array->name, "in.", 3) != 0;
        for (size_t k = 0; k < sizeof read / sizeof *read && !known; k++) known = read[k] == array;
        if (!known)
            return qkv_fail(o->ctx, QKV_FORMAT,
                            "%s has %.60s, which examples of this model have no use for; leave it out", o->path,
                            array->name);
    }
    return QKV_OK;
}

static enum qkv_status open_file(const struct opening *o, bool targets) {
    struct qkv_example_file *f = o->file;
    enum qkv_status status = qkv_tensors_open(o->ctx, o->path, &f->tensors);
    if (!status) status = open_side(o, false, &f->input, &f->lengths, &o->files->input);
    o->files->T = o->files->input.T;
    if (!status && example_both(o->spec)) status = open_source(o);
    if (!status) status = open_types(o);
    if (!status) status = find_other_inputs(o);
    if (!status && targets) status = find_array(o, "in.targets", "what is to be learnt of each example", &f->targets);
    return !status && targets ? check_targets(o, f->targets) : status;
}

static enum qkv_status add_file(struct qkv_context *ctx, const struct qkv_spec *spec, const char *path,
                                struct qkv_example_files *files, bool targets) {
    struct qkv_example_file *grown =
        qkv_list_room(ctx, files->items, &files->capacity, files->file_count, 1, sizeof *grown);
    if (!grown) return QKV_MEMORY;
    files->items = grown;
    struct qkv_example_file *file = &grown[files->file_count++];
    *file = (struct qkv_example_file){.first = files->count};
    const struct opening o = {ctx, spec, path, files, file};
    enum qkv_status status = open_file(&o, targets);
    if (!status) files->count += file->input->shape[0];
    return status;
}

enum qkv_status qkv_example_files_add(struct qkv_context *ctx, const struct qkv_spec *spec, const char *path,
                                      struct qkv_example_files *files) {
    return add_file(ctx, spec, path, files, true);
}

enum qkv_status qkv_example_files_add_inputs(struct qkv_context *ctx, const struct qkv_spec *spec, const char *path,
                                             struct qkv_example_files *files) {
    return add_file(ctx, spec, path, files, false);
}

void qkv_example_files_close(struct qkv_example_files *files) {
    for (size_t i = 0; i < files->file_count; i++) qkv_tensors_close(files->items[i].tensors);
    free(files->items);
    *files = (struct qkv_example_files){0};
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static size_t side_elements(const struct qkv_example_side *side) {
    size_t n = 1;
    for (int i = 0; i < side->rank; i++) n *= side->shape[i]; /* the file holds them */
    return n;
}

/* What the first stack reads. */
static const struct qkv_example_side *first_side(const struct qkv_example_files *files) {
    return files->source.T ? &files->source : &files->input;
}

size_t qkv_example_files_floats(const struct qkv_example_files *files) {
    const struct qkv_example_side *first = first_side(files);
    return first->tokens ? 0 : side_elements(first);
}

/* The file of example i, and its number there. */
static const struct qkv_example_file *file_of(const struct qkv_example_files *files, size_t *i) {
    size_t k = files->file_count - 1;
    while (files->items[k].first > *i) k--;
    *i -= files->items[k].first;
    return &files->items[k];
}

static enum qkv_status read_row(const struct qkv_example_file *file, const struct qkv_example_side *side,
                                const struct qkv_array *array, size_t i, size_t r, int32_t *ids, float *features) {
    const size_t n = side_elements(side);
    return side->tokens ? read_ids(file, array, i * n, n, ids + r * n)
                        : qkv_tensors_part(file->tensors, array, i * n, n, features + r * n);
}

/* Of lengths, which may be missing: then all have `whole` positions. */
static enum qkv_status read_length(const struct qkv_example_file *file, const struct qkv_array *lengths, size_t i,
                                   size_t whole, int32_t *out) {
    *out = (int32_t)whole;
    return lengths ? read_ids(file, lengths, i, 1, out) : QKV_OK;
}

/* Targets behind an example's length do not count. */
static enum qkv_status read_targets(const struct qkv_example_files *files, const struct qkv_example_file *f, size_t i,
                                    int32_t length, int32_t *targets) {
    if (!files->by_position) return read_ids(f, f->targets, i, 1, targets);
    for (size_t t = 0; t < files->T; t++) targets[t] = QKV_IGNORE;
    return read_ids(f, f->targets, i * files->T, qkv_min((size_t)length, files->T), targets);
}

enum qkv_status qkv_example_files_row(const struct qkv_example_files *files, size_t i, size_t r,
                                      const struct qkv_example_rows *rows) {
    const struct qkv_example_file *f = file_of(files, &i);
    const size_t T = files->T;
    enum qkv_status status = read_length(f, f->lengths, i, T, &rows->lengths[r]);
    if (!status) status = read_row(f, &files->input, f->input, i, r, rows->ids, rows->features);
    if (!status && f->source) {
        status = read_length(f, f->source_lengths, i, files->source.T, &rows->source_lengths[r]);
        if (!status) status = read_row(f, &files->source, f->source, i, r, rows->source, rows->features);
    }
    if (!status && files->input.tokens) {
        memset(rows->types + r * T, 0, T * sizeof *rows->types);
        if (f->types) status = read_ids(f, f->types, i * T, T, rows->types + r * T);
    }
    if (status || !f->targets) return status;
    return read_targets(files, f, i, rows->lengths[r], rows->targets + (files->by_position ? r * T : r));
}

enum qkv_status qkv_example_rows_make(struct qkv_context *ctx, const struct qkv_example_files *files, size_t B,
                                      struct qkv_example_rows *rows) {
    size_t positions, floats, sources;
    *rows = (struct qkv_example_rows){0};
    if (!qkv_multiply(B, files->T, &positions) || !qkv_multiply(B, files->source.T + 1, &sources) ||
        !qkv_multiply(B, qkv_example_files_floats(files) + 1, &floats))
        return qkv_fail_memory(ctx, SIZE_MAX, "a batch of examples");
    rows->features = qkv_allocate(ctx, floats, sizeof *rows->features);
    rows->ids = qkv_allocate(ctx, positions, sizeof *rows->ids);
    rows->types = qkv_allocate(ctx, positions, sizeof *rows->types);
    rows->lengths = qkv_allocate(ctx, B, sizeof *rows->lengths);
    rows->targets = qkv_allocate(ctx, positions, sizeof *rows->targets);
    rows->source = qkv_allocate(ctx, sources, sizeof *rows->source);
    rows->source_lengths = qkv_allocate(ctx, B, sizeof *rows->source_lengths);
    return rows->features && rows->ids && rows->types && rows->lengths && rows->targets && rows->source &&
                   rows->source_lengths
               ? QKV_OK
               : QKV_MEMORY;
}

void qkv_example_rows_free(struct qkv_example_rows *rows) {
    free(rows->features);
    free(rows->ids);
    free(rows->lengths);
    free(rows->targets);
    free(rows->source);
    free(rows->source_lengths);
    free(rows->types);
    *rows = (struct qkv_example_rows){0};
}

void qkv_example_files_batch(const struct qkv_example_files *files, const struct qkv_example_rows *rows,
                             struct qkv_batch *batch) {
    bool lengths = false, source_lengths = false, types = false;
    for (size_t k = 0; k < files->file_count; k++) {
        lengths = lengths || files->items[k].lengths;
        types = types || files->items[k].types;
        source_lengths = source_lengths || files->items[k].source_lengths;
    }
    batch->T = files->T;
    batch->ids = files->input.tokens ? rows->ids : NULL;
    batch->types = types ? rows->types : NULL;
    batch->features = files->input.tokens ? NULL : rows->features;
    batch->frames = files->input.frames;
    batch->lengths = lengths ? rows->lengths : NULL;
    if (files->source.T) {
        batch->source_T = files->source.T;
        batch->source = files->source.tokens ? rows->source : NULL;
        batch->source_features = files->source.tokens ? NULL : rows->features;
        batch->source_frames = files->source.frames;
        batch->source_lengths = source_lengths ? rows->source_lengths : NULL;
    }
    batch->targets = files->items[0].targets ? rows->targets : NULL;
}

/* Of the targets of an example's first n positions, those that count. */
static enum qkv_status count_targets(const struct qkv_example_files *files, const struct qkv_example_file *f, size_t i,
                                     size_t n, size_t *targets) {
    int32_t part[NUMBERS_A_PIECE];
    enum qkv_status status = QKV_OK;
    const size_t begin = files->by_position ? i * files->T : i, all = files->by_position ? n : 1;
    *targets = 0;
    for (size_t at = 0, count; at < all && !status; at += count) {
        count = qkv_min(all - at, NUMBERS_A_PIECE);
        status = read_ids(f, f->targets, begin + at, count, part);
        for (size_t k = 0; k < count && !status; k++) *targets += part[k] != QKV_IGNORE;
    }
    return status;
}

enum qkv_status qkv_example_files_count(const struct qkv_example_files *files, size_t i, size_t *tokens,
                                        size_t *targets) {
    const struct qkv_example_file *f = file_of(files, &i);
    int32_t length;
    enum qkv_status status = read_length(f, f->lengths, i, files->T, &length);
    if (status) return status;
    *tokens = qkv_min((size_t)length, files->T);
    return count_targets(files, f, i, *tokens, targets);
}

void qkv_example_score(const struct qkv_example_files *files, const struct qkv_pass *pass,
                       const struct qkv_batch *batch, struct qkv_example_score *score, size_t *confusion) {
    const struct qkv_array logits = qkv_pass_output(pass);
    const size_t outputs = logits.shape[logits.rank - 1], rows = files->by_position ? batch->B * batch->T : batch->B;
    size_t counted;
    const double mean = qkv_pass_loss(pass, &counted);
    score->nll += mean * (double)counted;
    score->counted += counted;
    for (size_t r = 0; r < rows; r++) {
        const float *row = (const float *)logits.data + r * outputs;
        size_t best = 0;
        if (batch->targets[r] == QKV_IGNORE) continue;
        for (size_t k = 1; k < outputs; k++) best = row[k] > row[best] ? k : best;
        score->right += best == (size_t)batch->targets[r];
        if (confusion) confusion[(size_t)batch->targets[r] * outputs + best]++;
    }
}
