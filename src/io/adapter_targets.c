/* adapter_targets: the weights that get an adapter, by the last parts of their names: ours ("q", "attn.q"), those of
 * the model's family ("q_proj", "query", "c_proj"), or those of the most usual families, for every model. */
#include "io/adapter_files.h"

#include <stdlib.h>
#include <string.h>

#define ALL_LINEAR "all-linear"

/* Usual names of published models, for models of no family too. */
static const char *const usual_names[][2] = {{"q_proj", "q"},      {"k_proj", "k"},       {"v_proj", "v"},
                                             {"o_proj", "o"},      {"gate_proj", "gate"}, {"up_proj", "up"},
                                             {"down_proj", "down"}};

bool qkv_adapter_name_ends(const char *name, const char *end) {
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end) && (n == m || name[n - m - 1] == '.');
}

/* The name of a weight of ours without ".weight". */
static void target_own_name(const struct qkv_weight *weight, char name[QKV_FAMILY_NAME]) {
    const char *of = weight->array.name, *dot = strrchr(of, '.');
    snprintf(name, QKV_FAMILY_NAME, "%.*s", (int)(dot ? (size_t)(dot - of) : strlen(of)), of);
}

void qkv_adapter_module_name(const char *weight, char name[QKV_FAMILY_NAME]) {
    const size_t n = strlen(weight), end = strlen(".weight");
    snprintf(name, QKV_FAMILY_NAME, "%.*s", (int)(n > end && !strcmp(weight + n - end, ".weight") ? n - end : n),
             weight);
}

void qkv_adapter_module_in(const struct qkv_family_config *names, const struct qkv_model *m,
                           const struct qkv_weight *weight, struct qkv_adapter_module *module) {
    const struct qkv_spec *spec = names && names->whole ? names->whole : &m->spec;
    *module = (struct qkv_adapter_module){.published = names != NULL};
    if (module->published)
        module->published = qkv_family_view(names, spec, weight->array.name, weight->array.shape[0], &module->view);
    target_own_name(weight, module->name);
    if (!module->published) return;
    qkv_adapter_module_name(module->view.name, module->name);
}

void qkv_adapter_module(const struct qkv_model *m, const struct qkv_weight *weight, struct qkv_adapter_module *module) {
    qkv_adapter_module_in(m->origin.family, m, weight, module);
}

/* Whether a name of ours ends so: of an expert also without its number ("experts.gate"). */
static bool target_ends_own(const struct qkv_weight *weight, const char *end) {
    char own[QKV_FAMILY_NAME];
    target_own_name(weight, own);
    if (qkv_adapter_name_ends(own, end)) return true;
    char *last = weight->expert >= 0 ? strrchr(own, '.') : NULL, *number = last;
    while (number && number > own && number[-1] != '.') number--;
    if (!last || number == own) return false;
    memmove(number, last + 1, strlen(last));
    return qkv_adapter_name_ends(own, end);
}

/* Whether a target is a name of ours or a usual one of a weight. */
static bool target_means_own(const struct qkv_weight *weight, const char *target) {
    if (target_ends_own(weight, target)) return true;
    for (size_t i = 0; i < sizeof usual_names / sizeof *usual_names; i++)
        if (!strcmp(usual_names[i][0], target) && target_ends_own(weight, usual_names[i][1])) return true;
    return false;
}

/* The experts of a layer follow its router in the list. */
bool qkv_adapter_is_parameter(const struct qkv_model *m, const struct qkv_weight *weight) {
    const struct qkv_weights *w = qkv_model_base(m);
    struct qkv_adapter_module module;
    if (weight->role != QKV_ROLE_ROUTER || weight->bias) return false;
    qkv_adapter_module(m, weight, &module);
    if (module.published && module.view.flags & QKV_FAMILY_PARAMETER) return true;
    while (weight < w->list + w->count && weight->expert < 0) weight++;
    if (weight == w->list + w->count) return false;
    qkv_adapter_module(m, weight, &module);
    return module.published && module.view.flags & QKV_FAMILY_STACKED;
}

/* all: the target is all-linear, which leaves out experts that are one tensor in the family, and their router, as PEFT
 * does. own: names of ours and usual ones count, else those of the family. */
static bool target_means(const struct qkv_model *m, const struct qkv_weight *weight, const char *target, bool all,
                         bool own) {
    struct qkv_adapter_module module;
    if (weight->bias || weight->array.rank != 2) return false;
    if (own && !all) return target_means_own(weight, target);
    qkv_adapter_module(m, weight, &module);
    if (all)
        return !(module.published && module.view.flags & QKV_FAMILY_STACKED) && !qkv_adapter_is_parameter(m, weight);
    return module.published && qkv_adapter_name_ends(module.name, target);
}

bool qkv_adapter_joins(const struct qkv_model *m, const struct qkv_weight *first, const struct qkv_weight *other) {
    struct qkv_adapter_module a, b;
    qkv_adapter_module(m, first, &a);
    qkv_adapter_module(m, other, &b);
    return a.published && a.view.parts > 1 && first->part_of == other->part_of && !strcmp(a.name, b.name);
}

size_t qkv_adapter_module_weights(const struct qkv_model *m, const struct qkv_weight *first, size_t count,
                                  struct qkv_adapter_module *module, size_t *rows) {
    struct qkv_adapter_module other;
    size_t n = 0;
    *rows = 0;
    qkv_adapter_module(m, first, module);
    for (; n < count; *rows += first[n++].rows) {
        if (n) qkv_adapter_module(m, &first[n], &other);
        if (n && strcmp(other.name, module->name) != 0) break;
    }
    return n;
}

/* Experts that are one tensor in the family are adapted all, or none. */
static enum qkv_status target_check_experts(const struct qkv_model *m, const struct qkv_adapted *adapted, size_t count,
                                            size_t i, size_t experts) {
    const struct qkv_weight *list = qkv_model_base(m)->list, *weight = &list[adapted[i].weight];
    size_t found = 0;
    for (size_t k = 0; k < count; k++) {
        const struct qkv_weight *other = &list[adapted[k].weight];
        found += other->layer == weight->layer && other->role == weight->role && !strcmp(other->stack, weight->stack);
    }
    if (found == experts) return QKV_OK;
    return qkv_fail(m->ctx, QKV_SPEC,
                    "%s is in one tensor of all %zu experts in this family, and %zu of them are targets; name the "
                    "matrices of all experts",
                    weight->array.name, experts, found);
}

static enum qkv_status target_check(const struct qkv_model *m, const struct qkv_adapted *adapted, size_t count,
                                    size_t i) {
    const struct qkv_weight *weight = &qkv_model_base(m)->list[adapted[i].weight];
    struct qkv_adapter_module module;
    for (size_t k = 0, rows; k < adapted[i].count;) {
        const struct qkv_weight *first = &weight[k];
        k += qkv_adapter_module_weights(m, first, adapted[i].count - k, &module, &rows);
        if (!module.published) continue;
        if (rows != module.view.total)
            return qkv_fail(m->ctx, QKV_SPEC,
                            "%s is a part of %s in this family, which holds several weights in one matrix; an adapter "
                            "in files of PEFT is one of the whole matrix",
                            first->array.name, module.name);
        if (module.view.flags & QKV_FAMILY_EXCHANGED)
            return qkv_fail(m->ctx, QKV_SPEC,
                            "%s is in %s, a tensor of all experts whose adapters of PEFT have another form, which is "
                            "not written; name targets without experts",
                            first->array.name, module.name);
        if (!(module.view.flags & QKV_FAMILY_STACKED)) continue;
        const enum qkv_status status = target_check_experts(m, adapted, count, i, module.view.slices);
        if (status) return status;
    }
    return QKV_OK;
}

enum qkv_status qkv_adapter_check_targets(const struct qkv_model *m, const struct qkv_adapted *adapted, size_t count) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) status = target_check(m, adapted, count, i);
    return status;
}

/* Marks the weights of one target. A name of ours means no other weight of the family: "gate" no router. */
static enum qkv_status target_mark(const struct qkv_model *m, const char *target, bool *marked) {
    const struct qkv_weight *other = NULL;
    const bool all = !strcmp(target, ALL_LINEAR);
    size_t found = 0;
    for (int own = 1; own >= 0 && !found && !other; own--)
        for (size_t i = 0; i < m->weights.count; i++) {
            const struct qkv_weight *weight = &m->weights.list[i];
            if (!target_means(m, weight, target, all, own)) continue;
            if (qkv_adapter_fits(weight))
                marked[i] = true, found++;
            else
                other = weight;
        }
    if (found) return QKV_OK;
    if (other && !all)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "lora: %s, the target %.60s, cannot have an adapter; matrices of attention and feed-forward "
                        "layers can",
                        other->array.name, target);
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "lora: no weight of the model has the name %.60s; targets are q, k, v, o, gate, up, down, names of "
                    "the model's family, or " ALL_LINEAR,
                    target);
}

enum qkv_status qkv_adapter_choose(const struct qkv_model *m, const struct qkv_adapter_settings *settings,
                                   struct qkv_adapted **adapted, size_t *count) {
    char *copy = qkv_copy_string(m->ctx, settings->targets), *target = copy, *next;
    bool *marked = qkv_allocate(m->ctx, m->weights.count + 1, sizeof *marked);
    *count = 0;
    *adapted = qkv_allocate(m->ctx, m->weights.count + 1, sizeof **adapted);
    enum qkv_status status = copy && marked && *adapted ? QKV_OK : QKV_MEMORY;
    for (; target && !status; target = next) {
        next = strchr(target, ',');
        if (next) *next++ = 0;
        status = target_mark(m, target, marked);
    }
    for (size_t i = 0; i < m->weights.count && !status; i++) {
        struct qkv_adapted *last = *count ? &(*adapted)[*count - 1] : NULL;
        if (!marked[i]) continue;
        if (last && last->weight + last->count == i &&
            qkv_adapter_joins(m, &m->weights.list[last->weight], &m->weights.list[i]))
            last->count++;
        else
            (*adapted)[(*count)++] = (struct qkv_adapted){
                i, 1, settings->rank, (float)qkv_adapter_scale(settings, settings->alpha, settings->rank)};
    }
    if (!status) {
        status = qkv_adapter_check_targets(m, *adapted, *count);
        if (status) qkv_fail_at(m->ctx, "the targets of lora; name the matrix, or others");
    }
    free(copy);
    free(marked);
    if (!status) return QKV_OK;
    free(*adapted);
    *adapted = NULL;
    return status;
}
