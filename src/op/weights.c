/* weights: the builder of the list of weights, and functions over the whole list. */
#include "op/weights.h"
#include "op/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- roles ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum qkv_start start;
    bool decays;
} roles_of_weights[] = {
#define ROLE_ROW(role, name, rows, columns, start, decays) {name, QKV_START_##start, decays},
    QKV_ROLE_LIST(ROLE_ROW)
#undef ROLE_ROW
};

/* The shape of a role's matrix; a vector has 0 columns. */
static void role_shape(enum qkv_role role, const struct qkv_dimensions *d, size_t *rows, size_t *columns) {
    switch (role) {
#define ROLE_SHAPE(role, name, rows_, columns_, start, decays)                                                         \
    case QKV_ROLE_##role:                                                                                              \
        *rows = rows_;                                                                                                 \
        *columns = columns_;                                                                                           \
        return;
        QKV_ROLE_LIST(ROLE_SHAPE)
#undef ROLE_SHAPE
    case QKV_ROLE_COUNT:
        break;
    }
    *rows = *columns = 0;
}

static bool role_of_expert(enum qkv_role role) {
    return role == QKV_ROLE_EXPERT_GATE || role == QKV_ROLE_EXPERT_UP || role == QKV_ROLE_EXPERT_DOWN;
}

/* "decoder.layers.3.attn.q.weight"; of an expert "decoder.layers.3.ffn.experts.5.up.weight". */
static char *role_name(struct qkv_context *ctx, const struct qkv_weight_place *place, enum qkv_role role, bool bias) {
    char layer[32] = "", text[128], expert[32];
    const char *name = roles_of_weights[role].name;
    if (role_of_expert(role)) {
        const char *dot = strrchr(name, '.');
        snprintf(expert, sizeof expert, "%.*s.%d%s", (int)(dot - name), name, place->expert, dot);
        name = expert;
    }
    if (place->layer >= 0) snprintf(layer, sizeof layer, "layers.%d.", place->layer);
    snprintf(text, sizeof text, "%s%s%s%s.%s", place->stack ? place->stack : "", place->stack ? "." : "", layer, name,
             bias ? "bias" : "weight");
    return qkv_copy_string(ctx, text);
}

/* ---- builder ----------------------------------------------------------------------------------------------------- */

/* Adds an operand to the list of tensors; weights_take gives it memory later. */
static void weights_operand(struct qkv_weights *w, const struct qkv_weight_place *place, struct qkv_tensor *tensor,
                            size_t rows, size_t columns) {
    if (w->status) return;
    struct qkv_tensor **grown =
        qkv_list_room(w->ctx, w->tensors, &w->tensor_capacity, w->tensor_count, 1, sizeof *grown);
    if (!grown) {
        w->status = QKV_MEMORY;
        return;
    }
    w->tensors = grown;
    *tensor = (struct qkv_tensor){.rows = rows, .columns = columns, .learning.times = place->times};
    w->tensors[w->tensor_count++] = tensor;
}

static struct qkv_weight *weights_append(struct qkv_weights *w) {
    struct qkv_weight *grown = qkv_list_room(w->ctx, w->list, &w->capacity, w->count, 1, sizeof *grown);
    if (!grown) return NULL;
    w->list = grown;
    struct qkv_weight *weight = &w->list[w->count++];
    *weight = (struct qkv_weight){.version = 1};
    return weight;
}

static bool weight_is_matrix(enum qkv_start start) {
    return start == QKV_START_EMBEDDING || start == QKV_START_LINEAR || start == QKV_START_RESIDUAL;
}

bool qkv_weight_has_formats(const struct qkv_weight *weight) {
    return weight->array.rank == 2 && weight_is_matrix(roles_of_weights[weight->role].start);
}

bool qkv_weight_only_multiplied(const struct qkv_weight *weight) {
    const enum qkv_start start = roles_of_weights[weight->role].start;
    return !weight->bias && !weight->head_wise && (start == QKV_START_LINEAR || start == QKV_START_RESIDUAL);
}

/* The start of GPT-2 (Radford et al. 2019): a residual stream that `branches` matrices add to keeps its variance. */
static void start_gpt2(struct qkv_weight *weight, enum qkv_start start, double std, size_t branches) {
    const float all = std > 0 ? (float)std : 0.02F;
    if (weight_is_matrix(start)) weight->std = start == QKV_START_RESIDUAL ? all / sqrtf((float)branches) : all;
}

/* The start of torch.nn.Linear (kaiming_uniform_ with a = sqrt(5), He et al. 2015) and of torch.nn.Embedding. */
static void start_torch(struct qkv_weight *weight, enum qkv_start start, double std, size_t inputs) {
    if (start == QKV_START_EMBEDDING)
        weight->std = std > 0 ? (float)std : 1;
    else if (inputs)
        weight->bound = (float)(1 / sqrt((double)inputs));
}

/* inputs: columns of the matrix that the weight is, or is the bias of; 0: the weight is of a norm. */
static void weight_init(const struct qkv_weights *w, struct qkv_weight *weight, enum qkv_start start, size_t inputs,
                        size_t branches) {
    weight->constant = start == QKV_START_NORM ? 1 : 0;
    if (start == QKV_START_GIVEN) return;
    if (!w->init) {
        if (weight_is_matrix(start)) weight->std = 1 / sqrtf((float)weight->columns);
        return;
    }
    switch (w->init->kind) {
    case QKV_INIT_GPT2:
        start_gpt2(weight, start, w->init->std, branches);
        return;
    case QKV_INIT_TORCH:
        start_torch(weight, start, w->init->std, inputs);
        return;
    case QKV_INIT_XAVIER:
        if (weight_is_matrix(start)) weight->bound = (float)sqrt(6 / ((double)weight->rows + (double)weight->columns));
        return;
    }
}

/* Adds a weight to the list: rows [first, first + rows) of an operand, or, for a vector, its columns. */
static void weights_list(struct qkv_weights *w, const struct qkv_weight_place *place, struct qkv_tensor *tensor,
                         enum qkv_role role, bool bias, size_t first, size_t rows, size_t columns) {
    if (w->status) return;
    struct qkv_weight *weight = weights_append(w);
    char *name = weight ? role_name(w->ctx, place, role, bias) : NULL;
    if (!name) {
        w->count -= weight != NULL;
        w->status = QKV_MEMORY;
        return;
    }
    const bool vector = columns == 0;
    weight->role = role;
    weight->head_wise = place->head_wise;
    weight->bias = bias;
    weight->stack = place->stack;
    weight->layer = place->layer;
    weight->expert = role_of_expert(role) ? place->expert : -1;
    weight->rows = vector ? 1 : rows;
    weight->columns = vector ? rows : columns;
    weight->decays = !bias && roles_of_weights[role].decays;
    weight->trainable = true;
    weight->rate = 1;
    weight->part_of = tensor;
    weight->first_row = first;
    weight->array = (struct qkv_array){.name = name, .rank = vector ? 1 : 2, .shape = {rows, columns}};
    if (!vector && (role == QKV_ROLE_CONV1 || role == QKV_ROLE_CONV2)) { /* (out, in, kernel) */
        weight->array.rank = 3;
        weight->array.shape[1] = columns / place->sizes->kernel;
        weight->array.shape[2] = place->sizes->kernel;
    }
    size_t outputs, inputs;
    role_shape(role, place->sizes, &outputs, &inputs);
    const enum qkv_start start = roles_of_weights[role].start;
    if (!bias && start == QKV_START_GIVEN) weight->start = place->start;
    weight_init(w, weight, bias ? QKV_START_BIAS : start, start == QKV_START_NORM ? 0 : inputs, place->branches);
    if (!tensor->operand.name) tensor->operand.name = name;
}

/* The file's tensor that holds this matrix unchanged, in a type of weights; NULL: there is none. */
static const struct qkv_array *weight_in_file(const struct qkv_weights *w, const struct qkv_weight *weight) {
    const struct qkv_array *want = &weight->array, *have = NULL;
    if (w->source.find && qkv_weight_has_formats(weight)) have = w->source.find(w->source.file, want->name);
    if (!have || have->rank != 2 || have->shape[0] != want->shape[0] || have->shape[1] != want->shape[1]) return NULL;
    const struct qkv_type *type = qkv_types[have->dtype];
    size_t bytes;
    const bool whole = type->weights && qkv_type_bytes(type, weight->rows, weight->columns, &bytes);
    return whole && bytes == have->bytes ? have : NULL;
}

static void weight_stays(const struct qkv_weights *w, struct qkv_weight *weight, const struct qkv_array *in_file) {
    weight->stored = true;
    weight->array.dtype = in_file->dtype;
    weight->array.bytes = in_file->bytes;
    weight->array.data = w->arena->measuring ? NULL : in_file->data;
}

/* Whether all weights of an operand are used from the mapped file without a copy; marks them if so. */
static bool weights_stay(struct qkv_weights *w, struct qkv_weight *list, size_t count) {
    bool other = false;
    for (size_t i = 0; i < count; i++) {
        const struct qkv_array *in_file = weight_in_file(w, &list[i]);
        if (!in_file) return false;
        other = other || in_file->dtype != QKV_F32;
    }
    for (size_t i = 0; i < count && other; i++) weight_stays(w, &list[i], weight_in_file(w, &list[i]));
    return other;
}

/* Sets where a weight is in the memory of its operand. */
static void weight_lies(struct qkv_weight *weight, bool planned) {
    const struct qkv_tensor *tensor = weight->part_of;
    float *data = (float *)tensor->data + weight->first_row * (weight->array.rank == 1 ? 1 : tensor->columns);
    weight->stored = false;
    weight->data = planned ? NULL : data;
    weight->array.dtype = QKV_F32;
    weight->array.data = weight->data;
    weight->array.bytes = weight->rows * weight->columns * sizeof(float);
}

/* Takes memory for an operand and for its weights, `count` of the list. */
static void weights_take(struct qkv_weights *w, struct qkv_tensor *tensor, struct qkv_weight *list, size_t count) {
    size_t floats;
    if (!qkv_multiply(tensor->rows, tensor->columns, &floats)) {
        w->status =
            qkv_fail(w->ctx, QKV_SPEC, "a weight of %zu x %zu numbers is too large", tensor->rows, tensor->columns);
        return;
    }
    for (size_t i = 0; i < count && !w->status; i++)
        if (list[i].start.table) list[i].starts = list[i].start.table(w, list[i].start.of);
    if (w->status) return;
    if (weights_stay(w, list, count)) {
        tensor->data = list; /* not NULL: the operand exists. weights_join sets its parts */
        return;
    }
    tensor->data = qkv_arena_take(w->arena, floats, sizeof(float));
    if (!tensor->data) w->status = QKV_MEMORY;
    for (size_t i = 0; i < count && !w->status; i++) weight_lies(&list[i], w->arena->measuring);
}

/* The rows of all these roles together; *columns: the columns of each. */
static size_t roles_rows(const struct qkv_weight_place *place, const enum qkv_role *roles, size_t count,
                         size_t *columns) {
    size_t all = 0, rows;
    *columns = 0;
    for (size_t i = 0; i < count; i++) {
        role_shape(roles[i], place->sizes, &rows, columns);
        if (!qkv_add_size(all, rows, &all)) all = SIZE_MAX;
    }
    return all;
}

void qkv_weights_matrix(struct qkv_weights *w, const struct qkv_weight_place *place, struct qkv_tensor *tensor,
                        const enum qkv_role *roles, size_t count) {
    size_t columns, first = 0, rows;
    const size_t all = roles_rows(place, roles, count, &columns);
    weights_operand(w, place, tensor, all, columns);
    for (size_t i = 0; i < count; i++, first += rows) {
        role_shape(roles[i], place->sizes, &rows, &columns);
        weights_list(w, place, tensor, roles[i], false, first, rows, columns);
    }
}

void qkv_weights_bias(struct qkv_weights *w, const struct qkv_weight_place *place, struct qkv_tensor *tensor,
                      const enum qkv_role *roles, const bool *has, size_t count) {
    size_t columns, first = 0, rows, listed = 0;
    for (size_t i = 0; i < count; i++) listed += !has || has[i];
    if (!listed) return;
    weights_operand(w, place, tensor, 1, roles_rows(place, roles, count, &columns));
    for (size_t i = 0; i < count; i++, first += rows) {
        role_shape(roles[i], place->sizes, &rows, &columns);
        if (!has || has[i]) weights_list(w, place, tensor, roles[i], true, first, rows, 0);
    }
}

void qkv_weights_linear(struct qkv_weights *w, const struct qkv_weight_place *place, struct qkv_linear *linear,
                        const enum qkv_role *roles, size_t count, bool bias) {
    qkv_weights_matrix(w, place, &linear->weight, roles, count);
    if (bias) qkv_weights_bias(w, place, &linear->bias, roles, NULL, count);
}

static void weights_vector(struct qkv_weights *w, const struct qkv_weight_place *place, struct qkv_tensor *tensor,
                           enum qkv_role role, bool bias) {
    size_t rows, columns;
    role_shape(role, place->sizes, &rows, &columns);
    weights_operand(w, place, tensor, columns ? rows : 1, columns ? columns : rows);
    weights_list(w, place, tensor, role, bias, 0, rows, columns);
}

void qkv_weights_norm(struct qkv_weights *w, const struct qkv_weight_place *place, struct qkv_norm *norm,
                      enum qkv_role role, const struct qkv_norm_spec *spec) {
    if (!spec->weight) return;
    weights_vector(w, place, &norm->weight, role, false);
    if (!w->status && qkv_norm_plus_one(spec->kind)) w->list[w->count - 1].constant = 0;
    if (spec->bias) weights_vector(w, place, &norm->bias, role, true);
}

/* The name of an operand of an adapter: the last parts of the names of the adapted weights are joined. */
static char *adapter_name(struct qkv_context *ctx, const struct qkv_weight *like, size_t count, const char *letter) {
    char text[192];
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof text; i++) {
        const char *of = like[i].array.name, *dot = strrchr(of, '.'), *at = of;
        for (const char *c = of; i && c < dot; c++)
            if (*c == '.') at = c + 1;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", i ? "_" : "", (int)(dot - at), at);
    }
    if (used < sizeof text) snprintf(text + used, sizeof text - used, ".lora_%s.weight", letter);
    return qkv_copy_string(ctx, text);
}

void qkv_weights_adapter(struct qkv_weights *w, struct qkv_tensor *tensor, const struct qkv_weight *like, size_t count,
                         const char *letter, size_t rows, size_t columns, float bound) {
    const struct qkv_weight_place place = {.times = like->part_of->learning.times};
    const bool vector = columns == 0;
    weights_operand(w, &place, tensor, vector ? 1 : rows, vector ? rows : columns);
    struct qkv_weight *weight = w->status ? NULL : weights_append(w);
    char *name = weight ? adapter_name(w->ctx, like, count, letter) : NULL;
    if (!name) {
        w->count -= weight != NULL;
        if (!w->status) w->status = QKV_MEMORY;
        return;
    }
    *weight = (struct qkv_weight){.role = like->role,
                                  .stack = like->stack,
                                  .layer = like->layer,
                                  .expert = like->expert,
                                  .trainable = true,
                                  .rows = vector ? 1 : rows,
                                  .columns = vector ? rows : columns,
                                  .decays = true,
                                  .rate = 1,
                                  .version = 1,
                                  .array = {.name = name, .rank = vector ? 1 : 2, .shape = {rows, columns}},
                                  .part_of = tensor,
                                  .bound = bound};
    tensor->operand.name = name;
    tensor->operand.fp32 = like->part_of->operand.fp32;
}

/* Sets the parts of each operand. */
static void weights_join(struct qkv_weights *w) {
    for (size_t i = 0; i < w->count; i++) {
        struct qkv_weight *weight = &w->list[i];
        struct qkv_tensor *tensor = weight->part_of;
        w->parts[i] =
            (struct qkv_stored_part){.dtype = weight->array.dtype, .data = weight->array.data, .rows = weight->rows};
        if (!tensor->operand.weights) tensor->operand.weights = weight;
        tensor->operand.weight_count++;
        if (!weight->stored) continue;
        if (!tensor->operand.stored.count)
            tensor->operand.stored = (struct qkv_stored){.parts = &w->parts[i], .columns = tensor->columns};
        tensor->operand.stored.count++;
        tensor->data = &w->parts[i]; /* not NULL: the operand exists, but must not be read as floats */
    }
}

/* The weights of an operand are consecutive in the list. */
enum qkv_status qkv_weights_place(struct qkv_weights *w) {
    if (!w->status && !w->parts) w->parts = qkv_allocate(w->ctx, w->count, sizeof *w->parts);
    if (!w->status && !w->parts) w->status = QKV_MEMORY;
    for (size_t i = 0, count; i < w->count && !w->status; i += count) {
        struct qkv_tensor *tensor = w->list[i].part_of;
        for (count = 1; i + count < w->count && w->list[i + count].part_of == tensor;) count++;
        tensor->operand.weights = NULL;
        tensor->operand.weight_count = 0;
        tensor->operand.stored = (struct qkv_stored){0};
        weights_take(w, tensor, &w->list[i], count); /* memory is zeroed: so are biases of roles without one */
    }
    if (w->status) return w->status;
    weights_join(w);
    return qkv_weights_choose(w, w->product ? w->product : qkv_product_of(w->ctx));
}

static bool weights_head_wise(const struct qkv_tensor *tensor) {
    return tensor->operand.weight_count && tensor->operand.weights->head_wise;
}

/* Products of a router are fp32, and those of single heads have no rows of their own. */
enum qkv_status qkv_weights_choose(struct qkv_weights *w, const struct qkv_product *product) {
    for (size_t i = 0; i < w->tensor_count; i++) {
        struct qkv_tensor *tensor = w->tensors[i];
        const struct qkv_product *back = tensor->operand.fp32 ? &qkv_product_f32 : product;
        if (tensor->operand.divided && back != tensor->operand.product_back)
            return qkv_fail(w->ctx, QKV_ARGUMENT,
                            "%s is divided among ranks, and this rank has it in bf16 only; leave the context's "
                            "precision as it was trained with",
                            tensor->operand.name);
        tensor->operand.product_back = back;
        const bool own = !tensor->operand.fp32 && !weights_head_wise(tensor);
        tensor->operand.product = own ? qkv_product_choose(back, &tensor->operand.stored) : back;
    }
    w->product = product;
    return QKV_OK;
}

enum qkv_status qkv_weights_to_fp32(struct qkv_weights *w, bool adapted, struct qkv_arena *arena) {
    for (size_t i = 0; i < w->tensor_count; i++) {
        struct qkv_tensor *tensor = w->tensors[i];
        if (!tensor->operand.stored.count || (adapted && !tensor->operand.adapter)) continue;
        float *data = qkv_arena_take(arena, tensor->rows * tensor->columns, sizeof(float));
        if (!data) return QKV_MEMORY;
        if (arena->measuring) continue;
        const enum qkv_status status = QKV_STEP(w->ctx, unpack, .out = data, .stored = &tensor->operand.stored,
                                                .rows = tensor->rows, .columns = tensor->columns);
        if (status) return status;
        tensor->data = data;
        tensor->operand.stored = (struct qkv_stored){0};
        for (size_t k = 0; k < tensor->operand.weight_count; k++)
            weight_lies(&w->list[tensor->operand.weights - w->list + (ptrdiff_t)k], false);
    }
    return qkv_weights_choose(w, w->product);
}

const struct qkv_weight *qkv_weights_stored(const struct qkv_weights *w) {
    for (size_t i = 0; i < w->count; i++)
        if (w->list[i].stored) return &w->list[i];
    return NULL;
}

size_t qkv_weights_stored_bytes(const struct qkv_weights *w) {
    size_t bytes = 0;
    for (size_t i = 0; i < w->count; i++) bytes += w->list[i].stored ? w->list[i].array.bytes : 0;
    return bytes;
}

void qkv_weights_free(struct qkv_weights *w) {
    for (size_t i = 0; i < w->count; i++) free((void *)(uintptr_t)w->list[i].array.name);
    free(w->list);
    free(w->tensors);
    free(w->parts);
    free(w->gradient_sums);
    *w = (struct qkv_weights){.ctx = w->ctx};
}

struct qkv_tensor *qkv_tensor_or_null(struct qkv_tensor *tensor) {
    return tensor->data ? tensor : NULL;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Each weight has 2^32 streams of random numbers of its own. */
enum qkv_status qkv_weights_start(struct qkv_weights *w, uint64_t seed) {
    enum qkv_status status = QKV_OK;
    qkv_weights_changed(w);
    for (size_t i = 0; i < w->count && !status; i++) {
        const struct qkv_weight *weight = &w->list[i];
        if (weight->stored) continue;
        status = QKV_STEP(w->ctx, start_weights, .out = weight->data, .count = weight->rows * weight->columns,
                          .std = weight->std, .bound = weight->bound, .constant = weight->constant,
                          .starts = weight->starts, .seed = seed, .stream = (uint64_t)i << 32);
    }
    return status;
}

void qkv_weights_changed(struct qkv_weights *w) {
    for (size_t i = 0; i < w->count; i++) qkv_weight_changed(w, i);
}

void qkv_weight_changed(struct qkv_weights *w, size_t i) {
    w->list[i].version++;
    w->changes++;
}

uint64_t qkv_tensor_version(const struct qkv_tensor *tensor) {
    uint64_t version = 0;
    for (size_t i = 0; i < tensor->operand.weight_count; i++) version += tensor->operand.weights[i].version;
    return version;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static size_t padded_floats(size_t floats) {
    const size_t line = QKV_CACHE_LINE / sizeof(float);
    return (floats + line - 1) / line * line;
}

bool qkv_weights_learn(const struct qkv_tensor *tensor, size_t *begin, size_t *end) {
    bool found = false;
    for (size_t i = 0; i < tensor->operand.weight_count; i++) {
        const struct qkv_weight *weight = &tensor->operand.weights[i];
        const size_t first = weight->first_row, size = weight->array.rank == 1 ? weight->columns : weight->rows;
        if (first < *begin) continue;
        if (found && (!weight->trainable || first != *end)) return true;
        if (!weight->trainable) continue;
        if (!found) *begin = first;
        *end = first + size;
        found = true;
    }
    return found;
}

static bool operand_learns(const struct qkv_tensor *tensor) {
    size_t begin = 0, end;
    return qkv_weights_learn(tensor, &begin, &end);
}

enum qkv_status qkv_weights_add_gradients(struct qkv_weights *w, struct qkv_arena *arena) {
    size_t floats = 0;
    for (size_t i = 0; i < w->tensor_count; i++)
        if (operand_learns(w->tensors[i])) floats += padded_floats(w->tensors[i]->rows * w->tensors[i]->columns);
    float *next = qkv_arena_take(arena, floats, sizeof(float)); /* zeroed */
    free(w->gradient_sums);
    w->gradient_sums =
        arena->measuring ? NULL : qkv_allocate(w->ctx, floats / QKV_GRADIENT_PIECE + 1, sizeof *w->gradient_sums);
    if (!next || (!w->gradient_sums && !arena->measuring)) return QKV_MEMORY;
    w->floats = floats;
    w->gradients = arena->measuring ? NULL : next;
    for (size_t i = 0; i < w->tensor_count; i++) {
        struct qkv_tensor *tensor = w->tensors[i];
        if (!operand_learns(tensor)) continue;
        tensor->learning.gradient = next;
        tensor->learning.requires_grad = true;
        next += padded_floats(tensor->rows * tensor->columns);
    }
    for (size_t i = 0; i < w->count && w->gradients; i++) {
        struct qkv_weight *weight = &w->list[i];
        if (!weight->trainable) continue;
        weight->gradient = weight->part_of->learning.gradient +
                           weight->first_row * (weight->array.rank == 1 ? 1 : weight->part_of->columns);
    }
    return QKV_OK;
}

void qkv_weights_drop_gradients(struct qkv_weights *w) {
    for (size_t i = 0; i < w->tensor_count; i++) {
        w->tensors[i]->learning.gradient = NULL;
        w->tensors[i]->learning.requires_grad = false;
        w->tensors[i]->learning.uses = 0;
    }
    for (size_t i = 0; i < w->count; i++) w->list[i].gradient = NULL;
    free(w->gradient_sums);
    w->gradients = NULL;
    w->gradient_sums = NULL;
    w->floats = 0;
}

void qkv_weights_clear_gradients(struct qkv_weights *w) {
    if (!w->gradients || w->status) return;
    w->status = QKV_STEP(w->ctx, clear, .to = w->gradients, .bytes = w->floats * sizeof *w->gradients);
}

enum qkv_status qkv_weights_check(const struct qkv_weights *w) {
    return w->status ? qkv_fail(w->ctx, w->status, "the gradients could not be cleared") : QKV_OK;
}

void qkv_weights_begin(struct qkv_weights *w) {
    for (size_t i = 0; i < w->tensor_count; i++) w->tensors[i]->learning.given = 0;
}

/* The padding between tensors is zero, and so are frozen rows of trainable operands, so one range covers all
 * gradients. */
enum qkv_status qkv_weights_square_gradients(struct qkv_weights *w) {
    if (!w->gradients) return QKV_OK;
    return QKV_STEP(w->ctx, squares, .x = w->gradients, .count = w->floats, .piece = QKV_GRADIENT_PIECE,
                    .sums = w->gradient_sums);
}

double qkv_weights_gradient_norm(const struct qkv_weights *w) {
    if (!w->gradients) return 0;
    const size_t pieces = qkv_pieces(w->floats, QKV_GRADIENT_PIECE);
    double sum = 0;
    for (size_t i = 0; i < pieces; i++) sum += w->gradient_sums[i];
    return sqrt(sum);
}

size_t qkv_weights_moment_bytes(const struct qkv_weights *w) {
    size_t floats = 0;
    for (size_t i = 0; i < w->count; i++)
        if (w->list[i].trainable) floats += padded_floats(w->list[i].rows * w->list[i].columns);
    return floats * sizeof(float);
}
