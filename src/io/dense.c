/* Dense layers of sentence-transformers: act(W·x + b), maybe with a residual, from a folder with config.json and
 * model.safetensors. */
#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "io/pooling.h"
#include "io/safetensors.h"

#define FOLDER(name) name,
const char *const qkv_dense_folders[QKV_DENSE_MAX] = {QKV_DENSE_LIST(FOLDER)};
#undef FOLDER

/* Activations, by the last part of names like "torch.nn.modules.activation.Tanh". The first one is the default. */
static const struct {
    const char *name, *type;
    int kind;
} dense_activations[] = {
    {"Tanh", "torch.nn.modules.activation.Tanh", QKV_FFN_TANH},
    {"Identity", "torch.nn.modules.linear.Identity", -1},
    {"ReLU", "torch.nn.modules.activation.ReLU", QKV_FFN_RELU},
    {"GELU", "torch.nn.modules.activation.GELU", QKV_FFN_GELU},
    {"SiLU", "torch.nn.modules.activation.SiLU", QKV_FFN_SILU},
};

static enum qkv_status dense_read_activation(const struct qkv_pooling_file *f, struct qkv_model_dense *dense) {
    const json_t *value = json_object_get(f->root, "activation_function");
    const char *type = value ? json_string_value(value) : dense_activations[0].type;
    const char *dot = type ? strrchr(type, '.') : NULL;
    for (size_t i = 0; dot && i < sizeof dense_activations / sizeof *dense_activations; i++) {
        dense->activation = dense_activations[i].kind;
        if (!strncmp(type, "torch.", 6) && !strcmp(dot + 1, dense_activations[i].name)) return QKV_OK;
    }
    return qkv_pooling_refuse(f, "activation_function", "Identity, Tanh, ReLU, GELU or SiLU of torch.nn");
}

static enum qkv_status dense_read_flag(const struct qkv_pooling_file *f, const char *key, bool *flag) {
    const json_t *value = json_object_get(f->root, key);
    if (value && !json_is_boolean(value)) return qkv_pooling_refuse(f, key, "true or false");
    if (value) *flag = json_is_true(value);
    return QKV_OK;
}

/* Fails where the layer reads or writes another name than that of the vector: such names mean rows of tokens. */
static enum qkv_status dense_check_name(const struct qkv_pooling_file *f, const char *key) {
    static const char usual[] = "sentence_embedding";
    const json_t *value = json_object_get(f->root, key);
    const char *name = json_string_value(value);
    if (!value || json_is_null(value) || (name && !strcmp(name, usual))) return QKV_OK;
    return qkv_pooling_refuse(f, key, "\"sentence_embedding\"");
}

/* Checks the shape of a tensor, and reads its numbers unless `out` is NULL; columns 0: a vector. */
static enum qkv_status dense_read_tensor(struct qkv_context *ctx, const struct qkv_tensors *tensors, const char *name,
                                         size_t rows, size_t columns, float **out) {
    const struct qkv_array *a = qkv_tensors_find(tensors, name);
    const size_t want[2] = {rows, columns};
    const int rank = columns ? 2 : 1;
    char have_text[QKV_SHAPE_TEXT], want_text[QKV_SHAPE_TEXT];
    if (!a) return qkv_fail(ctx, QKV_FORMAT, "%s has no tensor %s", qkv_tensors_path(tensors), name);
    if (a->rank != rank || memcmp(a->shape, want, (size_t)rank * sizeof *want) != 0)
        return qkv_fail(ctx, QKV_FORMAT, "%s: %s has the shape %s; config.json beside it asks for %s",
                        qkv_tensors_path(tensors), name, qkv_shape_text(a->shape, a->rank, have_text),
                        qkv_shape_text(want, rank, want_text));
    if (!out) return QKV_OK;
    *out = qkv_allocate(ctx, qkv_array_elements(a), sizeof **out);
    return *out ? qkv_tensors_floats(tensors, a, *out) : QKV_MEMORY;
}

static enum qkv_status dense_read_tensors(struct qkv_context *ctx, const struct qkv_tensors *tensors, bool numbers,
                                          struct qkv_model_dense *d) {
    enum qkv_status status =
        dense_read_tensor(ctx, tensors, "linear.weight", d->out, d->in, numbers ? &d->weight : NULL);
    if (!status && d->has_bias)
        status = dense_read_tensor(ctx, tensors, "linear.bias", d->out, 0, numbers ? &d->bias : NULL);
    if (!status && d->has_shortcut)
        status = dense_read_tensor(ctx, tensors, "residual.weight", d->out, d->in, numbers ? &d->shortcut : NULL);
    return status;
}

static void dense_close(void *tensors) {
    qkv_tensors_close(tensors);
}

static enum qkv_status dense_open_weights(struct qkv_context *ctx, const char *path, struct qkv_model_dense *d) {
    struct qkv_tensors *tensors;
    bool found = false;
    enum qkv_status status = qkv_file_find(ctx, path, &found);
    if (!status && !found)
        status = qkv_fail(ctx, QKV_FILE, "%s is missing, which modules.json names; other formats are not read", path);
    if (!status) status = qkv_tensors_open(ctx, path, &tensors);
    if (status) return status;
    d->file = (struct qkv_model_file){.owner = tensors, .close = dense_close};
    status = dense_read_tensors(ctx, tensors, false, d);
    const size_t names = (size_t)1 + (d->has_bias ? 1 : 0) + (d->has_shortcut ? 1 : 0);
    if (!status && qkv_tensors_count(tensors) != names)
        status = qkv_fail(ctx, QKV_FORMAT, "%s has %zu tensors; config.json beside it asks for %zu", path,
                          qkv_tensors_count(tensors), names);
    return status;
}

enum qkv_status qkv_dense_fill(struct qkv_context *ctx, struct qkv_model_dense *d) {
    if (!d->file.owner) return QKV_OK;
    const enum qkv_status status = dense_read_tensors(ctx, d->file.owner, true, d);
    d->file.close(d->file.owner);
    d->file = (struct qkv_model_file){0};
    return status;
}

enum qkv_status qkv_dense_read(struct qkv_context *ctx, const char *folder, const char *path,
                               struct qkv_model_dense *d) {
    struct qkv_pooling_file f = {.ctx = ctx};
    d->has_bias = true;
    if (!path || !*path)
        return qkv_fail(ctx, QKV_FORMAT, "%s%s" QKV_MODULES_FILE ": a module Dense has no path", folder,
                        qkv_path_slash(folder));
    enum qkv_status status = qkv_pooling_open(&f, folder, path, QKV_CONFIG_FILE);
    if (!status && !f.root) status = qkv_fail(ctx, QKV_FILE, "%s is missing, which modules.json names", f.path);
    const json_int_t in = json_integer_value(json_object_get(f.root, "in_features"));
    const json_int_t out = json_integer_value(json_object_get(f.root, "out_features"));
    if (!status && (in < 1 || (uint64_t)in != d->in)) {
        char width[64];
        snprintf(width, sizeof width, "%zu, the width of what it reads", d->in);
        status = qkv_pooling_refuse(&f, "in_features", width);
    }
    if (!status && (out < 1 || out > INT32_MAX))
        status = qkv_pooling_refuse(&f, "out_features", "a whole number of at least 1");
    if (!status) d->out = (size_t)out;
    if (!status) status = dense_read_activation(&f, d);
    if (!status) status = dense_read_flag(&f, "bias", &d->has_bias);
    if (!status) status = dense_read_flag(&f, "use_residual", &d->residual);
    if (!status) status = dense_check_name(&f, "module_input_name");
    if (!status) status = dense_check_name(&f, "module_output_name");
    qkv_pooling_close(&f);
    d->has_shortcut = d->residual && d->in != d->out;
    char *inner = status ? NULL : qkv_join_path(ctx, folder, path);
    char *weights = inner ? qkv_join_path(ctx, inner, QKV_WEIGHTS_FILE) : NULL;
    if (!status) status = weights ? dense_open_weights(ctx, weights, d) : QKV_MEMORY;
    free(inner);
    free(weights);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *dense_config(const struct qkv_model_dense *d) {
    size_t i = 0;
    while (dense_activations[i].kind != d->activation) i++;
    json_t *root =
        json_pack("{s:I, s:I, s:b, s:s}", "in_features", (json_int_t)d->in, "out_features", (json_int_t)d->out, "bias",
                  d->bias != NULL, "activation_function", dense_activations[i].type);
    if (d->residual) json_object_set_new(root, "use_residual", json_true());
    return root;
}

static struct qkv_array dense_array(const char *name, const float *data, size_t rows, size_t columns) {
    return (struct qkv_array){.name = name,
                              .dtype = QKV_F32,
                              .rank = columns ? 2 : 1,
                              .shape = {rows, columns},
                              .data = data,
                              .bytes = rows * (columns ? columns : 1) * sizeof *data};
}

enum qkv_status qkv_dense_write(struct qkv_context *ctx, const char *folder, const char *path,
                                const struct qkv_model_dense *d) {
    struct qkv_array arrays[3];
    size_t count = 0;
    arrays[count++] = dense_array("linear.weight", d->weight, d->out, d->in);
    if (d->bias) arrays[count++] = dense_array("linear.bias", d->bias, d->out, 0);
    if (d->shortcut) arrays[count++] = dense_array("residual.weight", d->shortcut, d->out, d->in);
    char *inner = qkv_join_path(ctx, folder, path);
    char *weights = inner ? qkv_join_path(ctx, inner, QKV_WEIGHTS_FILE) : NULL;
    enum qkv_status status = weights ? qkv_make_folder(ctx, inner) : QKV_MEMORY;
    if (!status) status = qkv_json_save(ctx, inner, QKV_CONFIG_FILE, dense_config(d));
    if (!status) status = qkv_tensors_write(ctx, weights, arrays, count, (const char *const[]){"format", "pt"}, 1);
    free(inner);
    free(weights);
    return status;
}
