/* adapter_stacked: adapters of experts that the family's present code has in one tensor, as PEFT writes them for
 * `target_parameters`: the a of all experts, one below the other, and b (out, rank·experts), whose columns have the
 * experts innermost. Gate and up are one tensor there and have one adapter. Files name only the module of the experts;
 * where both of its tensors have adapters, one is named as the base layer of the other, so the shapes tell which. */
#include "io/adapter_stacked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "model/spec.h"

#define EXPERTS        ".experts."
#define STACKED_INSIDE ".base_layer" /* of the tensor that another one wraps */

/* ---- names ------------------------------------------------------------------------------------------------------- */

bool qkv_adapter_newer_name(const char *name, char out[QKV_FAMILY_NAME]) {
    static const char *const renamed[][2] = {{".router.layer", ".router"}, {".block_sparse_moe.", ".mlp."}};
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        const char *at = strstr(name, renamed[i][0]);
        if (!at) continue;
        snprintf(out, QKV_FAMILY_NAME, "%.*s%s%s", (int)(at - name), name, renamed[i][1], at + strlen(renamed[i][0]));
        return true;
    }
    return false;
}

/* Tensors that are in a module of all experts now. */
static const struct {
    const char *before, *module, *parameter;
} stacked_renamed[] = {{".input_linear", ".experts", "gate_up_proj"}, {".output_linear", ".experts", "down_proj"}};

static bool stacked_rename(char name[QKV_FAMILY_NAME], const char **parameter) {
    for (size_t i = 0; i < sizeof stacked_renamed / sizeof *stacked_renamed; i++) {
        const size_t n = strlen(name), end = strlen(stacked_renamed[i].before);
        if (n < end || strcmp(name + n - end, stacked_renamed[i].before) != 0) continue;
        snprintf(name + n - end, QKV_FAMILY_NAME - (n - end), "%s", stacked_renamed[i].module);
        *parameter = stacked_renamed[i].parameter;
        return true;
    }
    return false;
}

bool qkv_adapter_stacked_module(const struct qkv_weight *weight, const struct qkv_adapter_module *module,
                                char name[QKV_FAMILY_NAME], const char **parameter) {
    snprintf(name, QKV_FAMILY_NAME, "%s", module->name);
    if (module->view.flags & QKV_FAMILY_EXCHANGED) return false;
    if (module->view.flags & QKV_FAMILY_STACKED) {
        char *dot = strrchr(name, '.');
        if (stacked_rename(name, parameter)) return true;
        if (!dot) return false;
        *dot = 0;
        *parameter = module->name + (dot - name) + 1;
        return true;
    }
    char newer[QKV_FAMILY_NAME], *at = strstr(name, EXPERTS);
    if (!at) return false;
    at[strlen(EXPERTS) - 1] = 0;
    *parameter = weight->role == QKV_ROLE_EXPERT_DOWN ? "down_proj" : "gate_up_proj";
    if (qkv_adapter_newer_name(name, newer)) snprintf(name, QKV_FAMILY_NAME, "%s", newer);
    return true;
}

static size_t stacked_experts(const struct qkv_model *m, const struct qkv_weight *weight) {
    const struct qkv_stack_spec *s = strcmp(weight->stack, "encoder") ? &m->spec.decoder : &m->spec.encoder;
    return (size_t)qkv_stack_layer(s, (size_t)weight->layer)->ffn.experts.count;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static const struct qkv_array *stacked_tensor(const struct qkv_adapter_reading *r, const char *module,
                                              const char *level, const char *end) {
    char name[QKV_FAMILY_NAME + 64];
    snprintf(name, sizeof name, QKV_ADAPTER_PREFIX "%s%s.%s", module, level, end);
    return qkv_tensors_find(r->file, name);
}

/* Which way a and b are: PEFT before 0.19.1 took the tensors of experts (E,out,in) for (E,in,out), unless transformers
 * told it better, and 0.19.0 also those that are (E,in,out) the other way. */
enum stacked_way { STACKED_OTHER, STACKED_RIGHT, STACKED_EXCHANGED, STACKED_SQUARE };

static enum stacked_way stacked_way_of(const struct qkv_array *a, const struct qkv_array *b, size_t rows,
                                       size_t columns) {
    const bool right = a->shape[1] == columns && b->shape[0] == rows;
    const bool exchanged = a->shape[1] == rows && b->shape[0] == columns;
    if (right && exchanged) return STACKED_SQUARE;
    return right ? STACKED_RIGHT : exchanged ? STACKED_EXCHANGED : STACKED_OTHER;
}

/* Of square shapes the version tells, or the other tensor of the module, of which `width`, the model's, is the rows of
 * b or the columns of a. Files of qkv say no version, and lack what PEFT's have always said. */
static bool stacked_square_is_right(const struct qkv_adapter_reading *r, const struct qkv_adapter_module *view,
                                    const char *module, const char *level, bool down, size_t width) {
    if (!json_object_get(r->root, "auto_mapping") || qkv_adapter_config_since(r, 0, 19, 1)) return true;
    if (view->view.flags & QKV_FAMILY_TRANSPOSED && !qkv_adapter_config_since(r, 0, 19, 0)) return true;
    const char *other = *level ? "" : STACKED_INSIDE;
    const struct qkv_array *a = stacked_tensor(r, module, other, QKV_ADAPTER_A),
                           *b = stacked_tensor(r, module, other, QKV_ADAPTER_B);
    if (!a || !b || a->rank != 2 || b->rank != 2 || a->shape[1] == b->shape[0]) return false;
    return (down ? a->shape[1] : b->shape[0]) == width;
}

static enum qkv_status stacked_refuse(const struct qkv_adapter_reading *r, const struct qkv_adapter_stacked *found,
                                      bool may) {
    const char *version = json_string_value(json_object_get(r->root, "peft_version"));
    return qkv_fail(r->ctx, QKV_FORMAT,
                    "%s: lora_A and lora_B of %s %s exchanged, as PEFT before 0.19.1 wrote them for tensors of experts "
                    "(this file is of %.40s); merge the adapter with the PEFT that wrote it, or train it again",
                    r->weights, found->name, may ? "may be" : "are", version ? version : "0.17 or before");
}

enum qkv_status qkv_adapter_stacked_find(const struct qkv_adapter_reading *r, const struct qkv_weight *weight,
                                         const struct qkv_adapter_module *module, struct qkv_adapter_stacked *found) {
    static const char *const levels[] = {STACKED_INSIDE, ""};
    const bool down = weight->role == QKV_ROLE_EXPERT_DOWN;
    char name[QKV_FAMILY_NAME];
    const char *parameter;
    *found = (struct qkv_adapter_stacked){0};
    if (r->keys || weight->expert < 0 || !module->published ||
        !qkv_adapter_stacked_module(weight, module, name, &parameter))
        return QKV_OK;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const struct qkv_array *a = stacked_tensor(r, name, levels[i], QKV_ADAPTER_A),
                               *b = stacked_tensor(r, name, levels[i], QKV_ADAPTER_B);
        if (!a && !b) continue;
        if (!a || !b)
            return qkv_fail(r->ctx, QKV_FORMAT, "%s has lora_%s of %s%s, but not lora_%s; restore the file", r->weights,
                            a ? "A" : "B", name, levels[i], a ? "B" : "A");
        if (a->rank != 2 || b->rank != 2) continue;
        const size_t rows = weight->part_of->rows, width = down ? rows : weight->columns;
        const enum stacked_way way = stacked_way_of(a, b, rows, weight->columns);
        if (way == STACKED_OTHER) continue;
        *found = (struct qkv_adapter_stacked){.a = a, .b = b, .experts = stacked_experts(r->model, weight)};
        snprintf(found->name, sizeof found->name, "%s.%.60s", name, parameter);
        if (way == STACKED_EXCHANGED) return stacked_refuse(r, found, false);
        if (way == STACKED_SQUARE && !stacked_square_is_right(r, module, name, levels[i], down, width))
            return stacked_refuse(r, found, true);
        return QKV_OK;
    }
    return QKV_OK;
}

enum qkv_status qkv_adapter_stacked_check(const struct qkv_adapter_reading *r, const struct qkv_adapter_stacked *found,
                                          size_t rank) {
    const size_t rows = rank * found->experts;
    if (found->a->shape[0] == rows && found->b->shape[1] == rows && qkv_type_is_real(found->a->dtype) &&
        qkv_type_is_real(found->b->dtype))
        return QKV_OK;
    return qkv_fail(r->ctx, QKV_SHAPE,
                    "%s: the adapter of %s has %zu rows in lora_A and %zu columns in lora_B, not %zu experts of rank "
                    "%zu: it is for another model",
                    r->weights, found->name, found->a->shape[0], found->b->shape[1], found->experts, rank);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static enum qkv_status stacked_finite(const struct qkv_adapter_reading *r, const struct qkv_array *x,
                                      const float *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(numbers[i]))
            return qkv_fail(r->ctx, QKV_NUMBER, "%s: %s holds numbers that are not finite; restore the file",
                            r->weights, x->name);
    return QKV_OK;
}

/* The row of b that row k of a weight has. */
static size_t stacked_row(const struct qkv_adapter_module *module, const struct qkv_weight *weight, size_t k) {
    return module->view.flags & QKV_FAMILY_STACKED ? qkv_family_row(&module->view, k) : weight->first_row + k;
}

/* The numbers of part i; b: those of the whole tensor. */
static enum qkv_status stacked_part(const struct qkv_adapter_reading *r, size_t i, const float *b) {
    struct qkv_adapter_part *part = &qkv_model_newest_adapter(r->model)->parts[i];
    const struct qkv_weight *weight = &qkv_model_base(r->model)->list[r->adapted[i].weight];
    const size_t rank = part->a.rows, count = rank * part->a.columns, expert = (size_t)weight->expert;
    float *to = part->b.data;
    enum qkv_status status = qkv_tensors_part(r->file, r->a[i], expert * count, count, part->a.data);
    if (!status) status = stacked_finite(r, r->a[i], part->a.data, count);
    for (size_t w = 0; w < r->adapted[i].count && !status; w++, weight++) {
        struct qkv_adapter_module module;
        qkv_adapter_module_in(r->names, r->model, weight, &module);
        for (size_t k = 0; k < weight->rows; k++) {
            const float *row = b + stacked_row(&module, weight, k) * rank * r->experts[i];
            for (size_t c = 0; c < rank; c++) *to++ = row[c * r->experts[i] + expert];
        }
    }
    return status;
}

enum qkv_status qkv_adapter_stacked_numbers(const struct qkv_adapter_reading *r, size_t i) {
    const struct qkv_array *b = r->b[i];
    for (size_t k = 0; k < i; k++)
        if (r->b[k] == b) return QKV_OK; /* that part has read those of all experts */
    float *numbers = qkv_allocate(r->ctx, qkv_array_elements(b), sizeof *numbers);
    enum qkv_status status = numbers ? qkv_tensors_floats(r->file, b, numbers) : QKV_MEMORY;
    if (!status) status = stacked_finite(r, b, numbers, qkv_array_elements(b));
    for (size_t k = i; k < r->count && !status; k++)
        if (r->b[k] == b) status = stacked_part(r, k, numbers);
    free(numbers);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Whether two weights are the same matrix of experts of one layer. */
static bool stacked_alike(const struct qkv_weight *a, const struct qkv_weight *b) {
    return a->layer == b->layer && a->role == b->role && !strcmp(a->stack, b->stack);
}

bool qkv_adapter_stacked_inside(const struct qkv_model *m, const struct qkv_weight *weight) {
    const struct qkv_model_adapter *a = m->adapter;
    struct qkv_weight down = *weight;
    down.role = QKV_ROLE_EXPERT_DOWN;
    if (weight->role == QKV_ROLE_EXPERT_DOWN) return false;
    for (size_t i = 0; i < a->part_count; i++)
        if (stacked_alike(&a->base.list[a->adapted[i].weight], &down)) return true;
    return false;
}

/* The numbers of a part, of expert e of E. */
static void stacked_put(const struct qkv_model *m, size_t i, size_t e, size_t E, float *a, float *b) {
    const struct qkv_model_adapter *adapter = m->adapter;
    const struct qkv_adapter_part *part = &adapter->parts[i];
    const struct qkv_weight *weight = &adapter->base.list[adapter->adapted[i].weight];
    const size_t rank = part->a.rows, count = rank * part->a.columns;
    const float *from = part->b.data;
    memcpy(a + e * count, part->a.data, count * sizeof *a);
    for (size_t w = 0; w < adapter->adapted[i].count; w++, weight++) {
        struct qkv_adapter_module module;
        qkv_adapter_module(m, weight, &module);
        for (size_t k = 0; k < weight->rows; k++) {
            float *row = b + qkv_family_row(&module.view, k) * rank * E;
            for (size_t c = 0; c < rank; c++) row[c * E + e] = *from++;
        }
    }
}

enum qkv_status qkv_adapter_stacked_join(const struct qkv_model *m, size_t part, float **a, float **b) {
    const struct qkv_model_adapter *adapter = m->adapter;
    const struct qkv_adapter_part *first = &adapter->parts[part];
    const struct qkv_weight *list = adapter->base.list, *weight = &list[adapter->adapted[part].weight];
    const size_t E = stacked_experts(m, weight), rank = first->a.rows * E;
    *a = qkv_allocate(m->ctx, rank * first->a.columns, sizeof **a);
    *b = qkv_allocate(m->ctx, rank * first->b.rows, sizeof **b);
    if (!*a || !*b) return QKV_MEMORY;
    for (size_t i = part; i < adapter->part_count; i++) {
        const struct qkv_weight *other = &list[adapter->adapted[i].weight];
        if (stacked_alike(other, weight)) stacked_put(m, i, (size_t)other->expert, E, *a, *b);
    }
    return QKV_OK;
}
