/* adapter_gguf_write: an adapter as a GGUF file, for --lora of llama.cpp: under the names, and with the order of rows,
 * that GGUF files of the model have. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/adapter_files.h"
#include "io/gguf_export.h"

/* One weight of a part of the adapter, and its first row in b of the part. */
struct adapter_member {
    size_t part, weight, first;
};
/* The weights of one matrix of GGUF files, such as q, k and v. */
struct adapter_matrix {
    struct qkv_adapter_module module;
    size_t first, count; /* of adapter_gguf.members */
    bool same;           /* all of them have the same a */
    size_t rank, rows, columns;
};
struct adapter_gguf {
    struct qkv_gguf_export *e;
    const struct qkv_model_adapter *adapter;
    const struct qkv_type *type;
    double alpha;
    struct adapter_matrix *matrices;
    size_t matrix_count;
    struct adapter_member *weights; /* of all parts */
    size_t weight_count;
    struct adapter_member *members; /* the same, matrix by matrix */
};

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

static const struct qkv_weight *member_weight(const struct adapter_gguf *g, const struct adapter_member *x) {
    return &g->adapter->base.list[x->weight];
}

static const struct qkv_adapter_part *member_part(const struct adapter_gguf *g, const struct adapter_member *x) {
    return &g->adapter->parts[x->part];
}

static enum qkv_status member_module(const struct adapter_gguf *g, const struct adapter_member *x,
                                     struct qkv_adapter_module *module) {
    const struct qkv_family_config *names = g->e->config.family ? &g->e->config : NULL;
    const struct qkv_weight *weight = member_weight(g, x);
    const unsigned other = QKV_FAMILY_TRANSPOSED | QKV_FAMILY_STACKED | QKV_FAMILY_BY_HEAD;
    qkv_adapter_module_in(names, g->e->model, weight, module);
    if (!names || (module->published && !(module->view.flags & other) && module->view.slices == 1)) return QKV_OK;
    return qkv_fail(g->e->ctx, QKV_SPEC, "GGUF files of architecture %s have no matrix for an adapter of %s",
                    names->gguf->architecture, weight->array.name);
}

static bool parts_share(const struct qkv_adapter_part *p, const struct qkv_adapter_part *q) {
    const struct qkv_tensor *x = &p->a, *y = &q->a;
    return p == q || (x->rows == y->rows && x->columns == y->columns && p->scale == q->scale &&
                      !memcmp(x->data, y->data, x->rows * x->columns * sizeof(float)));
}

/* Lists the weights of all parts. */
static enum qkv_status members_list(struct adapter_gguf *g) {
    const struct qkv_model_adapter *a = g->adapter;
    size_t count = 0;
    for (size_t i = 0; i < a->part_count; i++) count += a->adapted[i].count;
    g->matrices = qkv_allocate(g->e->ctx, count, sizeof *g->matrices);
    g->weights = qkv_allocate(g->e->ctx, count, sizeof *g->weights);
    g->members = qkv_allocate(g->e->ctx, count, sizeof *g->members);
    if (!g->matrices || !g->weights || !g->members) return QKV_MEMORY;
    for (size_t i = 0; i < a->part_count; i++)
        for (size_t k = 0, first = 0; k < a->adapted[i].count; k++) {
            const size_t weight = a->adapted[i].weight + k;
            g->weights[g->weight_count++] = (struct adapter_member){i, weight, first};
            first += a->base.list[weight].rows;
        }
    return QKV_OK;
}

/* Adds the matrix of weight i of the list, and all weights of that matrix. */
static enum qkv_status matrix_add(struct adapter_gguf *g, size_t i, const struct qkv_adapter_module *module,
                                  size_t *taken) {
    struct adapter_matrix *x = &g->matrices[g->matrix_count++];
    const struct qkv_adapter_part *first = member_part(g, &g->weights[i]);
    size_t ranks = 0;
    *x = (struct adapter_matrix){.module = *module, .first = *taken, .same = true};
    for (size_t k = i; k < g->weight_count; k++) {
        struct qkv_adapter_module other;
        const enum qkv_status status = member_module(g, &g->weights[k], &other);
        if (status) return status;
        if (strcmp(other.name, module->name) != 0) continue;
        g->members[(*taken)++] = g->weights[k];
        x->count++;
        x->same = x->same && parts_share(first, member_part(g, &g->weights[k]));
        ranks += member_part(g, &g->weights[k])->a.rows;
    }
    x->rank = x->same ? first->a.rows : ranks;
    x->rows = module->published ? module->view.total : member_weight(g, &g->weights[i])->rows;
    x->columns = first->a.columns;
    return QKV_OK;
}

static enum qkv_status matrices_list(struct adapter_gguf *g) {
    enum qkv_status status = members_list(g);
    size_t taken = 0;
    for (size_t i = 0; i < g->weight_count && !status; i++) {
        struct qkv_adapter_module module;
        bool listed = false;
        status = member_module(g, &g->weights[i], &module);
        for (size_t k = 0; k < g->matrix_count && !listed; k++)
            listed = !strcmp(g->matrices[k].module.name, module.name);
        if (!status && !listed) status = matrix_add(g, i, &module, &taken);
    }
    return status;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* The rows of a: one matrix, or those of all members. */
static void matrix_down(const struct adapter_gguf *g, const struct adapter_matrix *x, float *out) {
    for (size_t i = 0; i < (x->same ? 1 : x->count); i++) {
        const struct qkv_tensor *a = &member_part(g, &g->members[x->first + i])->a;
        memcpy(out, a->data, a->rows * a->columns * sizeof *out);
        out += a->rows * a->columns;
    }
}

/* The rows of b in the order of the file. Its readers scale by alpha / rank; b has what differs from it. Columns of
 * other members, and rows of weights without an adapter, are zeros. */
static void matrix_up(const struct adapter_gguf *g, const struct adapter_matrix *x, float *out) {
    const float scale = (float)(g->alpha / (double)x->rank);
    size_t first = 0;
    memset(out, 0, x->rows * x->rank * sizeof *out);
    for (size_t i = 0; i < x->count; i++) {
        const struct adapter_member *member = &g->members[x->first + i];
        const struct qkv_adapter_part *part = member_part(g, member);
        struct qkv_adapter_module module;
        if (member_module(g, member, &module)) return; /* listing has found it */
        const float factor = part->scale / scale;
        const size_t rank = part->b.columns;
        for (size_t r = 0; r < member_weight(g, member)->rows; r++) {
            const size_t row = module.published ? qkv_family_row(&module.view, r) : r;
            const float *from = (const float *)part->b.data + (member->first + r) * rank;
            for (size_t c = 0; c < rank; c++) out[row * x->rank + first + c] = factor * from[c];
        }
        if (!x->same) first += rank;
    }
}

static enum qkv_status matrix_write(const struct adapter_gguf *g, const struct adapter_matrix *x, bool up) {
    const size_t count = up ? x->rows * x->rank : x->rank * x->columns;
    const enum qkv_dtype dtype = qkv_type_number(g->type);
    struct qkv_context *ctx = g->e->ctx;
    float *numbers = qkv_allocate(ctx, count, sizeof *numbers);
    unsigned char *stored = qkv_allocate(ctx, count, g->type->bytes);
    enum qkv_status status = numbers && stored ? QKV_OK : QKV_MEMORY;
    if (!status) {
        if (up)
            matrix_up(g, x, numbers);
        else
            matrix_down(g, x, numbers);
        qkv_from_float(stored, numbers, dtype, count);
        qkv_to_float(numbers, stored, dtype, count);
    }
    for (size_t i = 0; i < count && !status; i++)
        if (!isfinite(numbers[i]))
            status = qkv_fail(ctx, QKV_NUMBER,
                              "the adapter of %s holds numbers that are not finite or too large for %s, so nothing was "
                              "written",
                              x->module.name, g->type->name);
    if (!status) status = qkv_gguf_write_data(&g->e->writer, stored, count * g->type->bytes);
    if (!status) status = qkv_gguf_end_tensor(&g->e->writer);
    free(numbers);
    free(stored);
    return status;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static enum qkv_status file_put_tensor(const struct adapter_gguf *g, const struct adapter_matrix *x, bool up) {
    struct qkv_buffer name = {0};
    enum qkv_status status = qkv_buffer_print(g->e->ctx, &name, "%s.weight.lora_%c", x->module.name, up ? 'b' : 'a');
    const struct qkv_array array = {.name = name.data,
                                    .dtype = qkv_type_number(g->type),
                                    .rank = 2,
                                    .shape = {up ? x->rows : x->rank, up ? x->rank : x->columns}};
    if (!status) qkv_gguf_put_tensor(&g->e->writer, &array);
    qkv_buffer_free(&name);
    return status ? status : g->e->writer.status;
}

/* An alpha of 0 means a scale of 1 to readers, so that b says it. */
static void file_choose_alpha(struct adapter_gguf *g) {
    const struct qkv_adapter_settings *s = &g->adapter->settings;
    g->alpha = (double)(float)(qkv_adapter_scale(s, s->alpha, s->rank) * (double)s->rank);
    if (g->alpha == 0) g->alpha = (double)s->rank;
}

static enum qkv_status file_put_keys(const struct adapter_gguf *g) {
    struct qkv_gguf_writer *w = &g->e->writer;
    json_t *alpha = json_real(g->alpha);
    if (!alpha) return qkv_fail_memory(g->e->ctx, 0, "the keys of a file");
    const char *architecture = g->e->config.gguf ? g->e->config.gguf->architecture : QKV_GGUF_OWN;
    qkv_gguf_put_text(w, "general.architecture", architecture, strlen(architecture));
    qkv_gguf_put_text(w, "general.type", "adapter", strlen("adapter"));
    qkv_gguf_put_text(w, "adapter.type", "lora", strlen("lora"));
    qkv_gguf_put_json(w, "adapter.lora.alpha", alpha);
    json_decref(alpha);
    g->e->notes->architecture = architecture;
    g->e->notes->format = g->type->name;
    return w->status;
}

static enum qkv_status file_write(struct adapter_gguf *g) {
    enum qkv_status status = matrices_list(g);
    file_choose_alpha(g);
    if (!status) status = file_put_keys(g);
    for (size_t i = 0; i < 2 * g->matrix_count && !status; i++)
        status = file_put_tensor(g, &g->matrices[i / 2], i % 2 != 0);
    if (!status) status = qkv_gguf_begin_data(&g->e->writer);
    for (size_t i = 0; i < 2 * g->matrix_count && !status; i++)
        status = matrix_write(g, &g->matrices[i / 2], i % 2 != 0);
    if (!status) status = qkv_gguf_commit(&g->e->writer);
    free(g->matrices);
    free(g->weights);
    free(g->members);
    return status;
}

/* The family is that of a GGUF file of the model, which has no adapter there. */
static enum qkv_status export_adapter(struct qkv_model *m, const struct qkv_gguf_options *options,
                                      const struct qkv_type *type, const char *path, struct qkv_gguf_notes *notes) {
    struct qkv_model base = *m;
    base.weights = m->adapter->base;
    base.adapter = NULL;
    struct qkv_gguf_export e = {
        .ctx = m->ctx, .model = &base, .options = options, .notes = notes, .writer = {.ctx = m->ctx, .path = path}};
    struct adapter_gguf g = {.e = &e, .adapter = m->adapter, .type = type};
    enum qkv_status status = qkv_gguf_choose_family(&e);
    if (!status) status = file_write(&g);
    qkv_gguf_writer_free(&e.writer);
    qkv_gguf_drop_family(&e);
    return status;
}

/* A type of adapters, in letters of either case; NULL: there is none of this name. */
static const struct qkv_type *type_named(const char *name) {
    for (size_t i = 0; i < QKV_DTYPE_COUNT; i++) {
        const struct qkv_type *type = qkv_types[i];
        if (type->weights && type->gguf >= 0 && type->block == 1 && !strcasecmp(type->name, name)) return type;
    }
    return NULL;
}

enum qkv_status qkv_adapter_export_gguf(struct qkv_model *model, const char *family, const char *format,
                                        const char *path, struct qkv_gguf_notes **notes) {
    QKV_CALL(qkv_model_context(model));
    if (notes) *notes = NULL;
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, format);
    QKV_NEED(qkv_call, path);
    struct qkv_gguf_options options = qkv_gguf_defaults();
    options.family = family;
    const struct qkv_type *type = type_named(format);
    enum qkv_status status = qkv_adapter_need(model);
    if (!status) status = qkv_gguf_options_check(model->ctx, &options);
    if (status) return status;
    if (!type)
        return qkv_fail(model->ctx, QKV_ARGUMENT, "adapters have no type \"%.40s\"; there are f32, f16 and bf16",
                        format);
    if (model->adapter->settings.dora)
        return qkv_fail(
            model->ctx, QKV_SPEC,
            "the adapter has magnitudes (DoRA), which GGUF files of adapters cannot have; merge it into the "
            "model, or save it as a folder");
    struct qkv_gguf_notes *made = qkv_allocate(model->ctx, 1, sizeof *made);
    status = made ? export_adapter(model, &options, type, path, made) : QKV_MEMORY;
    if (status || !notes)
        qkv_gguf_notes_free(made);
    else
        *notes = made;
    return status;
}
