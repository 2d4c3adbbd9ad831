/* decoder_adapters: the adapters of a decoder's rows. The tokens of a pass are ordered by adapter, so that each adapter
 * is one product of consecutive rows; the order of rows changes no bit. */
#include "model/decode.h"

#include <string.h>

bool qkv_decoder_take_groups(struct qkv_decoder *d) {
    const size_t count = d->model->named.count, most = qkv_decoder_pass_most(d);
    if (!count) return true;
    d->grouped = qkv_arena_take(&d->kept, d->most, sizeof *d->grouped);
    d->grouped_more = qkv_arena_take(&d->kept, d->most, sizeof *d->grouped_more);
    d->places = qkv_arena_take(&d->kept, d->most, sizeof *d->places);
    d->grouped_ids = qkv_arena_take(&d->kept, most, sizeof *d->grouped_ids);
    struct qkv_adapter_run **runs[] = {&d->runs, &d->planned_runs[0], &d->planned_runs[1]};
    bool taken = d->grouped && d->grouped_more && d->places && d->grouped_ids;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        taken = (*runs[i] = qkv_arena_take(&d->kept, count, sizeof **runs[i])) != NULL && taken;
    return taken;
}

bool qkv_decoder_same_runs(const struct qkv_adapter_runs *a, const struct qkv_adapter_runs *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct qkv_adapter_run *x = &a->list[i], *y = &b->list[i];
        if (x->number != y->number || x->first != y->first || x->count != y->count) return false;
    }
    return true;
}

static int32_t adapter_of(const struct qkv_decoder *d, size_t i) {
    return d->adapters[d->active[i]];
}

struct qkv_adapter_runs qkv_decoder_runs(struct qkv_decoder *d, size_t rows) {
    size_t count = 0, token = 0;
    for (size_t i = 0; i < rows && d->model->named.count; token += d->more[i++]) {
        const int32_t adapter = adapter_of(d, i);
        if (adapter < 0) continue;
        if (!i || adapter_of(d, i - 1) != adapter)
            d->runs[count++] = (struct qkv_adapter_run){.number = (size_t)adapter, .first = token};
        d->runs[count - 1].count += d->more[i];
    }
    return (struct qkv_adapter_runs){d->runs, count};
}

static bool is_grouped(const struct qkv_decoder *d, size_t rows) {
    for (size_t i = 1; i < rows; i++)
        if (adapter_of(d, i) < adapter_of(d, i - 1)) return false;
    return true;
}

/* Lists the rows by adapter, and the first token of each in its new place. */
static void group_rows(struct qkv_decoder *d, const struct qkv_decoder_pass *p) {
    const int32_t count = (int32_t)d->model->named.count;
    size_t to = 0, token = 0;
    for (int32_t adapter = -1; adapter < count && to < p->rows; adapter++)
        for (size_t i = 0; i < p->rows; i++) {
            if (adapter_of(d, i) != adapter) continue;
            d->grouped[to] = d->active[i];
            d->grouped_more[to++] = d->more[i];
            d->places[i] = (int32_t)token;
            token += d->more[i];
        }
}

void qkv_decoder_group(struct qkv_decoder *d, struct qkv_decoder_pass *p) {
    if (!d->model->named.count || is_grouped(d, p->rows)) return;
    group_rows(d, p);
    for (size_t i = 0, first = 0, n = 0; i < p->rows; first += d->more[i++]) {
        const size_t end = first + d->more[i], place = (size_t)d->places[i];
        memcpy(d->grouped_ids + place, p->ids + first, d->more[i] * sizeof *p->ids);
        for (; n < p->scored && (size_t)d->chosen[n] < end; n++)
            d->chosen[n] = (int32_t)((size_t)d->chosen[n] - first + place);
    }
    memcpy(d->active, d->grouped, p->rows * sizeof *d->active);
    memcpy(d->more, d->grouped_more, p->rows * sizeof *d->more);
    p->ids = d->grouped_ids;
}
