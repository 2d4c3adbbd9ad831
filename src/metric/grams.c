/* n-grams of a hypothesis, and how many of them a reference has too, clipped: each counts at most as often as it occurs
 * in either (Papineni et al. 2002). */
#include <stdlib.h>

#include "metric/metric.h"

size_t qkv_gram_count(size_t units, size_t n) {
    return units < n ? 0 : units - n + 1;
}

static enum qkv_status grams_add(struct qkv_context *ctx, struct qkv_grams *g, const uint32_t *units, size_t n) {
    struct qkv_string *key = qkv_strings_add(ctx, &g->keys, (const char *)units, n * sizeof *units);
    if (!key) return QKV_MEMORY;
    size_t i = (size_t)(key - g->keys.entries);
    struct qkv_gram *list = qkv_list_room(ctx, g->list, &g->capacity, i, 1, sizeof *list);
    if (!list) return QKV_MEMORY;
    g->list = list;
    if (key->value == 0) g->list[i] = (struct qkv_gram){0};
    key->value = 1;
    g->list[i].own++;
    return QKV_OK;
}

enum qkv_status qkv_grams_start(struct qkv_context *ctx, struct qkv_grams *g, const uint32_t *units, size_t count) {
    enum qkv_status status = QKV_OK;
    qkv_strings_free(&g->keys);
    g->references = 0;
    for (size_t n = 1; n <= g->order; n++)
        for (size_t i = 0; i < qkv_gram_count(count, n) && !status; i++) status = grams_add(ctx, g, units + i, n);
    return status;
}

void qkv_grams_match(struct qkv_grams *g, const uint32_t *units, size_t count, size_t here[QKV_GRAM_MAX],
                     size_t more[QKV_GRAM_MAX]) {
    g->references++;
    for (size_t n = 1; n <= g->order; n++)
        for (size_t i = 0; i < qkv_gram_count(count, n); i++) {
            const struct qkv_string *key = qkv_strings_find(&g->keys, (const char *)(units + i), n * sizeof *units);
            if (!key) continue;
            struct qkv_gram *gram = &g->list[key - g->keys.entries];
            if (gram->reference != g->references) gram->here = 0;
            gram->reference = g->references;
            if (++gram->here > gram->own) continue;
            here[n - 1]++;
            if (gram->here <= gram->most) continue;
            gram->most = gram->here;
            more[n - 1]++;
        }
}

void qkv_grams_free(struct qkv_grams *g) {
    qkv_strings_free(&g->keys);
    free(g->list);
    *g = (struct qkv_grams){0};
}
