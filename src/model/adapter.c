/* adapter: an adapter of a model (LoRA, Hu et al. 2021): to the product of each adapted weight w it adds
 * scale·(x·aᵀ)·bᵀ. While a model has one, its list of weights is the adapter's, so that training, optimizers and
 * checkpoints see what learns; the model's own weights are frozen, and stay as their file has them. */
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/linear.h"

struct qkv_weights *qkv_model_base(const struct qkv_model *m) {
    return m->adapter ? &m->adapter->base : (struct qkv_weights *)(uintptr_t)&m->weights;
}

enum qkv_status qkv_model_check_plain(const struct qkv_model *m, const char *what) {
    if (m->named.count)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "the model has adapters with names; open it without them before %s",
                        what);
    if (!m->adapter) return QKV_OK;
    return qkv_fail(m->ctx, QKV_ARGUMENT, "the model has an adapter; merge it or remove it before %s", what);
}

/* Embeddings and heads of scores have products of their own; those of a patch and a convolution are not layers of a
 * transformer. */
bool qkv_adapter_fits(const struct qkv_weight *weight) {
    static const enum qkv_role roles[] = {
        QKV_ROLE_ATTN_Q,    QKV_ROLE_ATTN_K,      QKV_ROLE_ATTN_V,      QKV_ROLE_ATTN_O,    QKV_ROLE_ATTN_Q_A,
        QKV_ROLE_ATTN_Q_B,  QKV_ROLE_CROSS_Q,     QKV_ROLE_CROSS_K,     QKV_ROLE_CROSS_V,   QKV_ROLE_CROSS_O,
        QKV_ROLE_FFN_GATE,  QKV_ROLE_FFN_UP,      QKV_ROLE_FFN_DOWN,    QKV_ROLE_ROUTER,    QKV_ROLE_EXPERT_GATE,
        QKV_ROLE_EXPERT_UP, QKV_ROLE_EXPERT_DOWN, QKV_ROLE_SHARED_GATE, QKV_ROLE_SHARED_UP, QKV_ROLE_SHARED_DOWN,
        QKV_ROLE_SHARED_MIX};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (weight->role == roles[i]) return qkv_weight_only_multiplied(weight);
    return false;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* Takes the memory of the lists. */
static enum qkv_status adapter_take(struct qkv_context *ctx, const struct qkv_adapted *adapted, size_t count,
                                    const struct qkv_adapter_settings *settings, size_t weights,
                                    struct qkv_model_adapter *a) {
    a->settings = *settings;
    a->settings.base = NULL;
    a->settings.targets = qkv_copy_string(ctx, settings->targets ? settings->targets : "");
    a->learned = qkv_allocate(ctx, weights, sizeof *a->learned);
    a->list = qkv_allocate(ctx, count, sizeof *a->list); /* at most one operand for each weight */
    a->parts = qkv_allocate(ctx, count, sizeof *a->parts);
    a->operands = qkv_allocate(ctx, 3 * count, sizeof(struct qkv_tensor *)); /* at most three of each part */
    a->adapted = qkv_allocate(ctx, count, sizeof *a->adapted);
    a->part_count = count;
    if (!a->settings.targets || !a->learned || !a->list || !a->parts || !a->operands || !a->adapted) return QKV_MEMORY;
    memcpy(a->adapted, adapted, count * sizeof *adapted);
    return QKV_OK;
}

/* Lists the weights of a part. */
static void adapter_list_part(const struct qkv_weight *weight, const struct qkv_adapted *adapted, bool magnitudes,
                              struct qkv_adapter_part *part, struct qkv_weights *list) {
    const size_t count = adapted->count;
    size_t rows = 0;
    for (size_t i = 0; i < count; i++) rows += weight[i].rows;
    part->first = weight->first_row;
    part->scale = adapted->scale;
    /* torch's kaiming_uniform_ with a = sqrt(5) */
    qkv_weights_adapter(list, &part->a, weight, count, "A", adapted->rank, weight->columns,
                        (float)(1 / sqrt((double)weight->columns)));
    qkv_weights_adapter(list, &part->b, weight, count, "B", rows, adapted->rank, 0);
    if (magnitudes) qkv_weights_adapter(list, &part->m, weight, count, "magnitude", rows, 0, 0);
}

/* Lists the weights of the adapter, and groups the parts by operand. */
static enum qkv_status adapter_list(const struct qkv_weights *base, struct qkv_model_adapter *a,
                                    struct qkv_weights *list) {
    const struct qkv_tensor *before = NULL;
    const size_t each = a->settings.dora ? 3 : 2;
    for (size_t i = 0; i < a->part_count; i++) {
        const struct qkv_weight *weight = &base->list[a->adapted[i].weight];
        struct qkv_adapter_part *part = &a->parts[i];
        adapter_list_part(weight, &a->adapted[i], a->settings.dora, part, list);
        struct qkv_tensor **operands = a->operands + each * i;
        operands[0] = &part->a;
        operands[1] = &part->b;
        if (a->settings.dora) operands[2] = &part->m;
        if (weight->part_of != before)
            a->list[a->count++] = (struct qkv_adapter){.parts = part,
                                                       .operands = operands,
                                                       .magnitudes = a->settings.dora,
                                                       .dropout = (float)a->settings.dropout};
        a->list[a->count - 1].count++;
        a->list[a->count - 1].operand_count += each;
        before = weight->part_of;
    }
    return list->status;
}

/* Gives the list and the norms their memory. */
static enum qkv_status adapter_place_numbers(struct qkv_model_adapter *a, struct qkv_weights *list) {
    const enum qkv_status status = qkv_weights_place(list);
    for (size_t i = 0; i < a->part_count && a->settings.dora && !status; i++) {
        a->parts[i].norm = qkv_arena_take(&a->arena, a->parts[i].m.columns, sizeof(float));
        if (!a->parts[i].norm) return QKV_MEMORY;
    }
    return status;
}

static enum qkv_status adapter_place(struct qkv_model *m, struct qkv_model_adapter *a, struct qkv_weights *list,
                                     uint64_t seed) {
    qkv_arena_measure(m->ctx, &a->arena, "adapter");
    list->arena = &a->arena;
    enum qkv_status status = adapter_place_numbers(a, list);
    if (status || m->planned) return status;
    status = qkv_arena_create_numbers(m->ctx, &a->arena, a->arena.peak, "adapter");
    if (!status) status = adapter_place_numbers(a, list);
    return status ? status : qkv_weights_start(list, seed);
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* base: of the weights that the adapter adapts; list: of its own. */
static void adapter_norm(struct qkv_model *m, struct qkv_model_adapter *a, const struct qkv_weights *base,
                         const struct qkv_weights *list) {
    const uint64_t now = base->changes + list->changes + 1; /* both only rise */
    if (!a->settings.dora || m->planned || a->normed == now) return;
    for (size_t i = 0; i < a->part_count; i++)
        qkv_adapter_norm(m->ctx, &base->list[a->adapted[i].weight], &a->parts[i]);
    a->normed = now;
}

void qkv_model_norm_adapters(struct qkv_model *m) {
    if (m->adapter) adapter_norm(m, m->adapter, &m->adapter->base, &m->weights);
    for (size_t i = 0; i < m->named.count; i++) adapter_norm(m, m->named.list[i], &m->weights, &m->named.list[i]->base);
}

/* Magnitudes begin as the lengths of the rows, so that the adapter changes nothing. */
static void adapter_start_magnitudes(struct qkv_model *m, const struct qkv_model_adapter *a) {
    if (!a->settings.dora || m->planned) return;
    qkv_model_norm_adapters(m);
    for (size_t i = 0; i < a->part_count; i++)
        memcpy(a->parts[i].m.data, a->parts[i].norm, a->parts[i].m.columns * sizeof(float));
}

/* Makes room for one more name. */
static enum qkv_status named_reserve(struct qkv_model *m) {
    struct qkv_model_named *n = &m->named;
    struct qkv_model_adapter **list = qkv_allocate(m->ctx, n->count + 1, sizeof(struct qkv_model_adapter *));
    struct qkv_adapter_run *every = qkv_allocate(m->ctx, n->count + 1, sizeof *every);
    if (!list || !every) {
        free(list);
        free(every);
        return QKV_MEMORY;
    }
    for (size_t i = 0; i < n->count; i++) list[i] = n->list[i];
    for (size_t i = 0; i <= n->count; i++) every[i] = (struct qkv_adapter_run){.number = i, .count = SIZE_MAX};
    free(n->list);
    free(n->every);
    n->list = list;
    n->every = every;
    return QKV_OK;
}

/* Adds the finished adapter to the lists of the operands. */
static void named_attach(struct qkv_model *m, struct qkv_model_adapter *a, const struct qkv_weights *list) {
    const struct qkv_adapted *first = a->adapted;
    for (size_t i = 0; i < a->count; first += a->list[i++].count) {
        struct qkv_operand_part *operand = &m->weights.list[first->weight].part_of->operand;
        a->list[i].number = m->named.count;
        a->list[i].next = operand->named;
        operand->named = &a->list[i];
    }
    a->base = *list;
    m->named.list[m->named.count++] = a;
}

/* Adds the finished adapter to the operands; the model's own weights become the frozen ones. */
static void adapter_attach(struct qkv_model *m, struct qkv_model_adapter *a, struct qkv_weights *list) {
    struct qkv_weights *base = &m->weights;
    qkv_weights_drop_gradients(base);
    qkv_arena_free(&m->gradients);
    m->dirty = false;
    for (size_t i = 0; i < base->count; i++) {
        a->learned[i] = base->list[i].trainable;
        base->list[i].trainable = false;
    }
    const struct qkv_adapted *first = a->adapted;
    for (size_t i = 0; i < a->count; first += a->list[i++].count)
        base->list[first->weight].part_of->operand.adapter = &a->list[i];
    list->chosen = base->chosen + 1;
    a->base = *base;
    m->weights = *list;
    m->adapter = a;
}

static void adapter_free(struct qkv_model_adapter *a) {
    free(a->name);
    free(a->settings.targets);
    free(a->settings.base);
    free(a->learned);
    free(a->list);
    free(a->parts);
    free(a->operands);
    free(a->adapted);
    qkv_arena_free(&a->arena);
    free(a);
}

static enum qkv_status adapter_check(struct qkv_model *m, const char *name) {
    enum qkv_status status = qkv_model_check_own(m, "it cannot get an adapter");
    if (!status && (!name || m->adapter)) status = qkv_model_check_plain(m, "it gets another one");
    if (!status && name) status = qkv_adapter_check_name(m->ctx, name);
    for (size_t i = 0; name && !status && i < m->named.count; i++)
        if (!strcmp(m->named.list[i]->name, name))
            status = qkv_fail(m->ctx, QKV_ARGUMENT, "two adapters have the name %s; each needs its own", name);
    if (status || !m->sharing.users) return status;
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "the model is in use; free its sessions, passes and optimizers before it gets an adapter");
}

/* Products of experts read no magnitudes. */
static enum qkv_status adapter_check_magnitudes(const struct qkv_model *m, const struct qkv_adapted *adapted,
                                                size_t count, const struct qkv_adapter_settings *settings) {
    for (size_t i = 0; i < count && settings->dora; i++) {
        const struct qkv_weight *weight = &m->weights.list[adapted[i].weight];
        if (weight->expert >= 0)
            return qkv_fail(m->ctx, QKV_SPEC,
                            "%s is a matrix of an expert, which cannot have an adapter with magnitudes (DoRA); name "
                            "targets without experts, or leave dora out",
                            weight->array.name);
    }
    return QKV_OK;
}

enum qkv_status qkv_model_adapt(struct qkv_model *m, const char *name, const struct qkv_adapted *adapted, size_t count,
                                const struct qkv_adapter_settings *settings, uint64_t seed) {
    enum qkv_status status = adapter_check(m, name);
    if (!status) status = adapter_check_magnitudes(m, adapted, count, settings);
    if (status) return status;
    struct qkv_model_adapter *a = qkv_allocate(m->ctx, 1, sizeof *a);
    struct qkv_weights list = {.ctx = m->ctx, .product = m->weights.product};
    if (!a) return QKV_MEMORY;
    status = adapter_take(m->ctx, adapted, count, settings, m->weights.count, a);
    if (!status && name && !(a->name = qkv_copy_string(m->ctx, name))) status = QKV_MEMORY;
    if (!status && name) status = named_reserve(m);
    if (!status) status = adapter_list(&m->weights, a, &list);
    if (!status && settings->dora && !m->planned) status = qkv_model_check_file(m); /* its rows have lengths */
    if (!status) status = adapter_place(m, a, &list, seed);
    if (!status) {
        if (name)
            named_attach(m, a, &list);
        else
            adapter_attach(m, a, &list);
        adapter_start_magnitudes(m, a);
        return QKV_OK;
    }
    qkv_weights_free(&list);
    adapter_free(a);
    return status;
}

/* The newest one is the first in the lists of its operands. */
static void named_drop(struct qkv_model *m) {
    struct qkv_model_adapter *a = m->named.list[--m->named.count];
    const struct qkv_adapted *first = a->adapted;
    for (size_t i = 0; i < a->count; first += a->list[i++].count)
        m->weights.list[first->weight].part_of->operand.named = a->list[i].next;
    if (m->chosen.number == m->named.count) m->chosen = (struct qkv_adapter_run){0};
    qkv_weights_free(&a->base);
    adapter_free(a);
    if (m->named.count) return;
    free(m->named.list);
    free(m->named.every);
    m->named = (struct qkv_model_named){0};
}

void qkv_model_drop_adapters(struct qkv_model *m) {
    qkv_model_drop_adapter(m);
    while (m->named.count) named_drop(m);
}

struct qkv_model_adapter *qkv_model_newest_adapter(const struct qkv_model *m) {
    return m->named.count ? m->named.list[m->named.count - 1] : m->adapter;
}

size_t qkv_model_adapter_bytes(const struct qkv_model *m) {
    size_t bytes = m->adapter ? m->adapter->arena.peak : 0;
    for (size_t i = 0; i < m->named.count; i++) bytes += m->named.list[i]->arena.peak;
    return bytes;
}

void qkv_model_drop_adapter(struct qkv_model *m) {
    struct qkv_model_adapter *a = m->adapter;
    if (!a && m->named.count) named_drop(m);
    if (!a) return;
    const uint64_t chosen = m->weights.chosen;
    qkv_weights_drop_gradients(&m->weights);
    qkv_arena_free(&m->gradients);
    m->dirty = false;
    qkv_weights_free(&m->weights);
    m->weights = a->base;
    m->weights.chosen = chosen + 1;
    for (size_t i = 0; i < m->weights.count; i++) m->weights.list[i].trainable = a->learned[i];
    for (size_t i = 0; i < m->weights.tensor_count; i++) m->weights.tensors[i]->operand.adapter = NULL;
    m->adapter = NULL;
    adapter_free(a);
}
