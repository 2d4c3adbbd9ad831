/* bench: the list of the groups; chooses the rows, measures each, and passes on the results. */
#include "lab/bench/bench_room.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5 };
#define SECONDS 0.4

/* ---- rows -------------------------------------------------------------------------------------------------------- */

struct group {
    const char *name, *what;
    size_t precisions; /* from the first of the list on */
    bool (*describe)(size_t i, struct qkv_bench_row *row);
    enum qkv_status (*measure)(struct qkv_bench *b, size_t i, struct qkv_bench_row *row);
};
#define GROUP_ENTRY(name, precisions, what) {#name, what, precisions, qkv_bench_##name##_case, qkv_bench_##name},
static const struct group groups[] = {QKV_BENCH_GROUPS(GROUP_ENTRY)};
enum { GROUP_COUNT = sizeof groups / sizeof *groups };

/* The place of a row: its group, its case, and its precision, which varies fastest. */
struct place {
    const struct group *group;
    size_t index;
    const struct qkv_bench_precision *precision;
};

static bool find_row(size_t i, struct place *place, struct qkv_bench_row *row) {
    for (size_t g = 0; g < GROUP_COUNT; g++) {
        const size_t precisions = groups[g].precisions, index = i / precisions;
        *row = (struct qkv_bench_row){.group = groups[g].name, .loss = NAN};
        if (groups[g].describe(index, row)) {
            *place = (struct place){&groups[g], index, qkv_bench_precision_at(i % precisions)};
            row->precision = place->precision->name;
            return true;
        }
        size_t count = 0;
        while (groups[g].describe(count, row)) count++;
        i -= count * precisions;
    }
    return false;
}

bool qkv_bench_row_at(size_t i, struct qkv_bench_row *row) {
    struct place place;
    return find_row(i, &place, row);
}

const char *qkv_bench_group_at(size_t i, const char **what) {
    if (i >= GROUP_COUNT) return NULL;
    if (what) *what = groups[i].what;
    return groups[i].name;
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */

/* Whether the label contains the filter; *named: a part of the filter is in the row's name. */
static bool bench_matches(const struct qkv_bench_row *row, const char *filter, bool *named) {
    char label[QKV_BENCH_LABEL];
    qkv_bench_label(row, label);
    const char *begin = label + strlen(row->group) + 1, *end = begin + strlen(row->name);
    bool found = false;
    *named = false;
    for (const char *at = label; (at = strcasestr(at, filter)); at++) {
        found = true;
        if (at < end && at + strlen(filter) > begin) *named = true;
        if (!*at) break;
    }
    return found;
}

/* Big rows are measured only on request: with `big`, or if a filter names them. */
bool qkv_bench_chooses(const struct qkv_bench_options *o, const struct qkv_bench_row *row) {
    if (o->precision && strcmp(o->precision, row->precision) != 0) return false;
    bool found = o->filter_count == 0, named = false;
    for (size_t i = 0; i < o->filter_count; i++) {
        bool by_name;
        if (!bench_matches(row, o->filters[i], &by_name)) continue;
        found = true;
        named = named || by_name;
    }
    return found && (o->big || named || !row->big);
}

/* Also leaves out a precision that this machine emulates, unless the options name it. */
static bool bench_wanted(const struct qkv_bench *b, const struct place *place, const struct qkv_bench_row *row) {
    const struct qkv_bench_options *o = b->options;
    bool precise = o->precision != NULL, named;
    for (size_t i = 0; i < o->filter_count; i++)
        precise = precise || (bench_matches(row, o->filters[i], &named) && strcasestr(o->filters[i], row->precision));
    bool native = place->precision->dtype == QKV_F32 || b->machine.bf16_flops > 0;
    return qkv_bench_chooses(o, row) && (native || precise);
}

static enum qkv_status check_filters(struct qkv_context *ctx, const struct qkv_bench_options *o) {
    struct qkv_bench_row row;
    char names[256] = "";
    for (size_t g = 0; g < GROUP_COUNT; g++) {
        if (g) strcat(names, ", ");
        strcat(names, groups[g].name);
    }
    for (size_t f = 0; f < o->filter_count; f++) {
        bool found = false, named;
        for (size_t i = 0; !found && qkv_bench_row_at(i, &row); i++) found = bench_matches(&row, o->filters[f], &named);
        if (!found)
            return qkv_fail(ctx, QKV_ARGUMENT, "no row of the benchmark has \"%.60s\" in it; its groups are: %s",
                            o->filters[f], names);
    }
    return QKV_OK;
}

static enum qkv_status check_options(struct qkv_context *ctx, const struct qkv_bench_options *o) {
    char known[64], shown[QKV_REAL_TEXT];
    bool found = !o->precision;
    if (!(o->seconds >= 0) || o->seconds > 1e6)
        return qkv_fail(ctx, QKV_ARGUMENT, "seconds is %s; it must be from 0 to 1000000",
                        qkv_real_text(shown, o->seconds));
    if (o->rounds < 0 || o->rounds > QKV_BENCH_MAX_ROUNDS)
        return qkv_fail(ctx, QKV_ARGUMENT, "rounds is %d; it must be from 0 (as many as needed) to %d", o->rounds,
                        QKV_BENCH_MAX_ROUNDS);
    if (o->peer_count > QKV_BENCH_MAX_PEERS)
        return qkv_fail(ctx, QKV_ARGUMENT, "there are %zu peers; at most %d can take part", o->peer_count,
                        QKV_BENCH_MAX_PEERS);
    for (size_t i = 0; !found && qkv_bench_precision_at(i); i++)
        found = strcmp(o->precision, qkv_bench_precision_at(i)->name) == 0;
    qkv_bench_list_precisions(known, sizeof known);
    if (!found)
        return qkv_fail(ctx, QKV_ARGUMENT, "no rows have the precision \"%.40s\"; known: %s", o->precision, known);
    return check_filters(ctx, o);
}

enum qkv_status qkv_bench_check(struct qkv_context *ctx, const struct qkv_bench_options *options) {
    QKV_CALL(ctx);
    return check_options(ctx, options);
}

/* ---- the benchmark ----------------------------------------------------------------------------------------------- */

/* Measures a row; a row without enough memory is left out. */
static enum qkv_status measure_row(struct qkv_bench *b, const struct place *place, struct qkv_bench_row *row) {
    b->precision = place->precision;
    b->ctx->precision = place->precision->precision;
    if (b->ranks.rank && place->group->measure != qkv_bench_reduce) return QKV_OK;
    enum qkv_status status = qkv_bench_goes_on(b, row) ? place->group->measure(b, place->index, row) : QKV_STOPPED;
    if (status == QKV_MEMORY) {
        snprintf(row->left_out, sizeof row->left_out, "%s", qkv_status_text(status));
        return QKV_OK;
    }
    if (status == QKV_STOPPED) return qkv_fail(b->ctx, status, "the benchmark was stopped by the caller");
    if (status) {
        char label[QKV_BENCH_LABEL];
        qkv_fail_at(b->ctx, "row \"%s\" of the benchmark", qkv_bench_label(row, label));
    }
    return status;
}

static enum qkv_status measure_rows(struct qkv_bench *b, struct qkv_json *json) {
    const struct qkv_bench_options *o = b->options;
    struct qkv_bench_row row;
    struct place place;
    enum qkv_status status = QKV_OK;
    const enum qkv_precision before = b->ctx->precision;
    for (size_t i = 0; find_row(i, &place, &row); i++) b->rows += bench_wanted(b, &place, &row);
    for (size_t i = 0; status == QKV_OK && find_row(i, &place, &row); i++) {
        if (!bench_wanted(b, &place, &row)) continue;
        status = measure_row(b, &place, &row);
        if (status == QKV_OK && o->json) {
            qkv_bench_json_row(json, &row);
            status = json->status;
        }
        if (status == QKV_OK && o->row && !b->ranks.rank) o->row(o->user, &row);
        b->row += status == QKV_OK;
    }
    b->ctx->precision = before;
    return status;
}

/* The file is begun before anything is measured, so that a file that cannot be written is reported at once. */
static enum qkv_status bench_run(struct qkv_bench *b, struct qkv_replace *file, struct qkv_json *json) {
    const struct qkv_bench_options *o = b->options;
    const bool to_file = o->json && strcmp(o->json, "-") != 0;
    enum qkv_status status = to_file ? qkv_replace_begin(b->ctx, o->json, file) : QKV_OK;
    if (status == QKV_OK && !b->ranks.rank) status = qkv_bench_measure_machine(b->ctx, &b->machine, &b->reading);
    if (status) return status;
    if (o->json) qkv_bench_json_begin(json, &b->machine);
    if (o->begin) o->begin(o->user, &b->machine);
    status = measure_rows(b, json);
    if (!o->json || (status && (status != QKV_STOPPED || b->row == 0))) return status;
    qkv_bench_json_end(json, status == QKV_OK);
    enum qkv_status written = json->status;
    if (!written && to_file) written = qkv_replace_write(file, json->text.data, json->text.size);
    if (!written && to_file) written = qkv_replace_commit(file);
    if (!written && !to_file && fwrite(json->text.data, 1, json->text.size, stdout) != json->text.size)
        written = qkv_fail_file(b->ctx, "write", "standard output", errno);
    return written ? written : status;
}

enum qkv_status qkv_bench(struct qkv_context *ctx, const struct qkv_bench_options *options) {
    QKV_CALL(ctx);
    struct qkv_bench b = {.ctx = ctx, .options = options};
    struct qkv_replace file = {.ctx = ctx};
    struct qkv_json json = {.ctx = ctx, .style = QKV_JSON_SPACED};
    enum qkv_status status = check_options(ctx, options);
    if (status) return status;
    b.rounds = options->rounds ? options->rounds : ROUNDS;
    b.seconds = (options->seconds > 0 ? options->seconds : SECONDS) / b.rounds;
    b.ranks = ctx->ranks;
    ctx->ranks = qkv_communicator_defaults();
    status = bench_run(&b, &file, &json);
    ctx->ranks = b.ranks;
    qkv_reading_end(&b.reading);
    qkv_replace_cancel(&file);
    qkv_json_free(&json);
    return status;
}
