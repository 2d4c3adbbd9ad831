/* Which type each tensor of a GGUF file has: one type for all matrices, or a mix, the choice of llama.cpp
 * (src/llama-quant.cpp) under its names; rules by our names of weights come first. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io/gguf_export.h"
#include "io/io.h"
#include "model/spec.h"

/* ---- mixes ------------------------------------------------------------------------------------------------------- */

/* Mixes by name: the type that most matrices have, the number in general.file_type, another name. */
enum {
    MIX_F32,
    MIX_F16,
    MIX_BF16,
    MIX_Q4_0,
    MIX_Q4_1,
    MIX_Q5_0,
    MIX_Q5_1,
    MIX_Q8_0,
    MIX_Q2_K,
    MIX_Q2_K_S,
    MIX_Q3_K_S,
    MIX_Q3_K_M,
    MIX_Q3_K_L,
    MIX_Q4_K_S,
    MIX_Q4_K_M,
    MIX_Q5_K_S,
    MIX_Q5_K_M,
    MIX_Q6_K,
    MIX_IQ4_NL,
    MIX_IQ4_XS,
    MIX_MXFP4_MOE,
    MIX_COUNT,
    MIX_NONE = MIX_COUNT
};
static const struct {
    const char *name, *other;
    const struct qkv_type *base;
    uint32_t number;
    const char *help;
} mixes[MIX_COUNT] = {
    [MIX_F32] = {"F32", NULL, &qkv_type_f32, 0, "all matrices f32"},
    [MIX_F16] = {"F16", NULL, &qkv_type_f16, 1, "all matrices f16"},
    [MIX_BF16] = {"BF16", NULL, &qkv_type_bf16, 32, "all matrices bf16"},
    [MIX_Q4_0] = {"Q4_0", NULL, &qkv_type_q4_0, 2, "q4_0, the head q6_K"},
    [MIX_Q4_1] = {"Q4_1", NULL, &qkv_type_q4_1, 3, "q4_1, the head q6_K"},
    [MIX_Q5_0] = {"Q5_0", NULL, &qkv_type_q5_0, 8, "q5_0, the head q6_K"},
    [MIX_Q5_1] = {"Q5_1", NULL, &qkv_type_q5_1, 9, "q5_1, the head q6_K"},
    [MIX_Q8_0] = {"Q8_0", NULL, &qkv_type_q8_0, 7, "all matrices q8_0"},
    [MIX_Q2_K] = {"Q2_K", NULL, &qkv_type_q2_K, 10, "q2_K, values and the last matrices of layers q3_K or q4_K"},
    [MIX_Q2_K_S] = {"Q2_K_S", NULL, &qkv_type_q2_K, 21, "q2_K, few matrices q4_K"},
    [MIX_Q3_K_S] = {"Q3_K_S", NULL, &qkv_type_q3_K, 11, "q3_K, the head q6_K"},
    [MIX_Q3_K_M] = {"Q3_K_M", "Q3_K", &qkv_type_q3_K, 12, "q3_K, half of the matrices q4_K or q5_K"},
    [MIX_Q3_K_L] = {"Q3_K_L", NULL, &qkv_type_q3_K, 13, "q3_K, half of the matrices q5_K"},
    [MIX_Q4_K_S] = {"Q4_K_S", NULL, &qkv_type_q4_K, 14, "q4_K, matrices of the first layers q5_K"},
    [MIX_Q4_K_M] = {"Q4_K_M", "Q4_K", &qkv_type_q4_K, 15, "q4_K, half of the values and of the last matrices q6_K"},
    [MIX_Q5_K_S] = {"Q5_K_S", NULL, &qkv_type_q5_K, 16, "q5_K, the head q6_K"},
    [MIX_Q5_K_M] = {"Q5_K_M", "Q5_K", &qkv_type_q5_K, 17, "q5_K, half of the values and of the last matrices q6_K"},
    [MIX_Q6_K] = {"Q6_K", NULL, &qkv_type_q6_K, 18, "all matrices q6_K"},
    [MIX_IQ4_NL] = {"IQ4_NL", NULL, &qkv_type_iq4_nl, 25, "iq4_nl, matrices of the first layers q5_K, the head q6_K"},
    [MIX_IQ4_XS] = {"IQ4_XS", NULL, &qkv_type_iq4_xs, 30, "iq4_xs, matrices of the first layers q5_K, the head q6_K"},
    [MIX_MXFP4_MOE] = {"MXFP4_MOE", NULL, &qkv_type_mxfp4, 38, "experts mxfp4, other matrices q8_0"},
};

bool qkv_mix_at(size_t i, const char **name, const char **help) {
    if (i >= MIX_COUNT) return false;
    if (name) *name = mixes[i].name;
    if (help) *help = mixes[i].help;
    return true;
}

/* ---- what a mix asks about a tensor ------------------------------------------------------------------------------ */

enum part { PART_OTHER, PART_TOKEN, PART_HEAD, PART_VALUE, PART_KEY, PART_OUT, PART_DOWN };
/* The tensor whose type is chosen, and its model. */
struct choice {
    const struct qkv_gguf_export *e;
    int mix;
    enum part part;
    int layer, layers;
    size_t columns;
    int experts;       /* of the model's layers; 0: none */
    int shared;        /* query heads of a head of keys and values */
    bool tied;         /* the head is the table of tokens */
    bool stacked;      /* the tensor has all experts of a layer */
    bool falcon, wide; /* wide: a model of 70 billion weights with 80 layers */
};

static bool choice_always(const struct choice *c) {
    (void)c;
    return true;
}
static bool choice_shared(const struct choice *c) {
    return c->shared >= 4;
}
/* The first eighth of the layers, the last one, and every third between them. */
static bool choice_more(const struct choice *c) {
    const int eighth = c->layers / 8;
    return c->layer < eighth || c->layer >= 7 * c->layers / 8 || (c->layer - eighth) % 3 == 2;
}
static bool choice_eighth(const struct choice *c) {
    return c->layer < c->layers / 8;
}
static bool choice_sixteenth(const struct choice *c) {
    return c->layer < c->layers / 16;
}
static bool choice_two(const struct choice *c) {
    return c->layer < 2;
}
static bool choice_four(const struct choice *c) {
    return c->layer < 4;
}
static bool choice_not_falcon(const struct choice *c) {
    return !c->falcon;
}
static bool choice_falcon_more(const struct choice *c) {
    return c->falcon && choice_more(c);
}
static bool choice_falcon_sixteenth(const struct choice *c) {
    return c->falcon && choice_sixteenth(c);
}
static bool choice_falcon(const struct choice *c) {
    return c->falcon;
}
static bool choice_more_not_falcon(const struct choice *c) {
    return !c->falcon && choice_more(c);
}
static bool choice_eighth_not_falcon(const struct choice *c) {
    return !c->falcon && choice_eighth(c);
}
static bool choice_eighth_blind(const struct choice *c) {
    return choice_eighth(c) && !qkv_importance_given(c->e->options);
}
static bool choice_eighth_seen(const struct choice *c) {
    return choice_eighth(c) && qkv_importance_given(c->e->options);
}
static bool choice_8_experts(const struct choice *c) {
    return c->experts == 8;
}
static bool choice_out(const struct choice *c) {
    return !c->falcon && c->experts != 8;
}
static bool choice_wide(const struct choice *c) {
    return c->wide;
}

#define BIT(mix)  ((uint32_t)1 << MIX_##mix)
#define ALL_MIXES UINT32_MAX

/* The first row of a tensor's part whose mix and condition hold is its type; without one it has the mix's own type. */
static const struct {
    enum part part;
    uint32_t mixes;
    bool (*when)(const struct choice *c);
    const struct qkv_type *type;
} rules[] = {
    {PART_VALUE, ALL_MIXES, choice_8_experts, &qkv_type_q8_0},
    {PART_VALUE, BIT(Q2_K) | BIT(Q2_K_S), choice_wide, &qkv_type_q5_K},
    {PART_VALUE, BIT(Q2_K) | BIT(Q2_K_S), choice_shared, &qkv_type_q4_K},
    {PART_VALUE, BIT(Q2_K), choice_always, &qkv_type_q3_K},
    {PART_VALUE, BIT(Q3_K_M), choice_two, &qkv_type_q5_K},
    {PART_VALUE, BIT(Q3_K_L), choice_always, &qkv_type_q5_K},
    {PART_VALUE, BIT(IQ4_NL) | BIT(IQ4_XS), choice_shared, &qkv_type_q5_K},
    {PART_VALUE, BIT(Q4_K_M) | BIT(Q5_K_M), choice_more, &qkv_type_q6_K},
    {PART_VALUE, BIT(Q4_K_S), choice_four, &qkv_type_q5_K},
    {PART_VALUE, BIT(Q3_K_S) | BIT(Q3_K_M) | BIT(Q4_K_S) | BIT(Q4_K_M), choice_wide, &qkv_type_q5_K},
    {PART_VALUE, BIT(Q3_K_M), choice_always, &qkv_type_q4_K},
    {PART_KEY, ALL_MIXES, choice_8_experts, &qkv_type_q8_0},
    {PART_OUT, BIT(Q2_K) | BIT(Q3_K_S) | BIT(Q3_K_M) | BIT(IQ4_NL) | BIT(IQ4_XS) | BIT(Q4_K_S) | BIT(Q4_K_M),
     choice_8_experts, &qkv_type_q5_K},
    {PART_OUT, BIT(Q2_K), choice_out, &qkv_type_q3_K},
    {PART_OUT, BIT(Q3_K_M), choice_out, &qkv_type_q4_K},
    {PART_OUT, BIT(Q3_K_L), choice_out, &qkv_type_q5_K},
    {PART_OUT, BIT(Q3_K_L), choice_falcon, &qkv_type_q4_K},
    {PART_DOWN, BIT(Q2_K), choice_always, &qkv_type_q3_K},
    {PART_DOWN, BIT(Q2_K_S), choice_eighth, &qkv_type_q4_K},
    {PART_DOWN, BIT(Q3_K_M), choice_sixteenth, &qkv_type_q5_K},
    {PART_DOWN, BIT(Q3_K_M), choice_not_falcon, &qkv_type_q4_K},
    {PART_DOWN, BIT(Q3_K_M), choice_falcon_more, &qkv_type_q4_K},
    {PART_DOWN, BIT(Q3_K_L), choice_falcon, &qkv_type_q4_K},
    {PART_DOWN, BIT(Q3_K_L), choice_always, &qkv_type_q5_K},
    {PART_DOWN, BIT(Q4_K_M), choice_falcon_sixteenth, &qkv_type_q6_K},
    {PART_DOWN, BIT(Q4_K_M), choice_falcon_more, &qkv_type_q5_K},
    {PART_DOWN, BIT(Q4_K_M), choice_more_not_falcon, &qkv_type_q6_K},
    {PART_DOWN, BIT(IQ4_NL) | BIT(IQ4_XS), choice_eighth_blind, &qkv_type_q5_K},
    {PART_DOWN, BIT(Q5_K_M), choice_more, &qkv_type_q6_K},
    {PART_DOWN, BIT(Q4_K_S), choice_eighth_not_falcon, &qkv_type_q5_K},
    {PART_DOWN, BIT(Q4_0), choice_eighth_seen, &qkv_type_q4_1},
    {PART_DOWN, BIT(Q5_0), choice_eighth_seen, &qkv_type_q5_1},
};

static const struct qkv_type *mix_type(const struct choice *c) {
    const struct qkv_type *base = mixes[c->mix].base;
    if (base->kind != QKV_CLASS_BLOCKS) return base;
    if (c->part == PART_HEAD || (c->part == PART_TOKEN && c->tied)) {
        const bool whole = c->columns % base->block == 0;
        return c->falcon || !whole || c->mix == MIX_Q8_0 || c->mix == MIX_MXFP4_MOE ? &qkv_type_q8_0 : &qkv_type_q6_K;
    }
    if (c->mix == MIX_MXFP4_MOE) return c->stacked ? base : &qkv_type_q8_0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].part == c->part && rules[i].mixes >> c->mix & 1 && rules[i].when(c)) return rules[i].type;
    return base;
}

/* ---- the tensor -------------------------------------------------------------------------------------------------- */

static enum part part_of(enum qkv_role role) {
    switch (role) {
    case QKV_ROLE_TOKEN:
        return PART_TOKEN;
    case QKV_ROLE_HEAD:
        return PART_HEAD;
    case QKV_ROLE_ATTN_V:
    case QKV_ROLE_CROSS_V:
    case QKV_ROLE_ATTN_V_B:
        return PART_VALUE;
    case QKV_ROLE_ATTN_K:
    case QKV_ROLE_CROSS_K:
        return PART_KEY;
    case QKV_ROLE_ATTN_O:
    case QKV_ROLE_CROSS_O:
        return PART_OUT;
    case QKV_ROLE_FFN_DOWN:
    case QKV_ROLE_EXPERT_DOWN:
    case QKV_ROLE_SHARED_DOWN:
        return PART_DOWN;
    default:
        return PART_OTHER;
    }
}

/* Whether a weight is a matrix that products read, and large: small tables, and the matrix that chooses experts, stay
 * f32. */
static bool weight_is_large(const struct qkv_weight *w) {
    static const enum qkv_role small[] = {QKV_ROLE_POSITION, QKV_ROLE_TYPE,      QKV_ROLE_BUCKETS, QKV_ROLE_RELATIVE,
                                          QKV_ROLE_ROUTER,   QKV_ROLE_CLASS,     QKV_ROLE_PATCH,   QKV_ROLE_CONV1,
                                          QKV_ROLE_CONV2,    QKV_ROLE_SHARED_MIX};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (w->role == small[i]) return false;
    return qkv_weight_has_formats(w) && !w->bias;
}

/* The weight whose place decides about tensor i: of a joined one that of the values; NULL: it stays f32. */
static const struct qkv_weight *tensor_weight(const struct qkv_gguf_export *e, size_t i) {
    const struct qkv_weight *list = e->model->weights.list, *found = NULL;
    for (size_t at = 0; (at = qkv_family_array_weight(&e->arrays, i, at));) {
        if (!weight_is_large(&list[at - 1])) return NULL;
        if (!found || part_of(list[at - 1].role) == PART_VALUE) found = &list[at - 1];
    }
    return e->arrays.list[i].array.rank < 2 ? NULL : found;
}

static bool model_has_head(const struct qkv_gguf_export *e) {
    for (size_t i = 0; i < e->model->weights.count; i++)
        if (e->model->weights.list[i].role == QKV_ROLE_HEAD && !e->model->weights.list[i].bias) return true;
    for (size_t i = 0; i < e->arrays.count; i++)
        if (!strcmp(e->arrays.list[i].array.name, "output.weight")) return true;
    return false;
}

static struct choice choice_make(const struct qkv_gguf_export *e, int mix, const struct qkv_weight *w,
                                 const struct qkv_array *array) {
    const struct qkv_spec *spec = &e->model->spec;
    const bool encodes = w->stack && !strcmp(w->stack, "encoder");
    const struct qkv_stack_spec *stack = encodes || !spec->decoder.layers ? &spec->encoder : &spec->decoder;
    const struct qkv_layer_spec *kind = qkv_stack_layer(stack, w->layer < 0 ? 0 : (size_t)w->layer);
    const char *type = e->config.family ? e->config.family->type : "";
    struct choice c = {.e = e,
                       .mix = mix,
                       .part = part_of(w->role),
                       .layer = w->layer,
                       .layers = stack->layers,
                       .columns = array->shape[array->rank - 1],
                       .shared = kind->attention.heads / (kind->attention.kv_heads ? kind->attention.kv_heads : 1),
                       .tied = !model_has_head(e),
                       .stacked = w->expert >= 0,
                       .falcon = !strncmp(type, "falcon", 6)};
    for (int k = 0; k < stack->kind_count; k++)
        if (stack->kinds[k].ffn.experts.given) c.experts = stack->kinds[k].ffn.experts.count;
    c.wide = stack->layers == 80 && c.shared > 1 && (!strcmp(type, "llama") || !strcmp(type, "qwen2"));
    return c;
}

/* ---- rules by name ----------------------------------------------------------------------------------------------- */

struct keep {
    char *pattern;
    const struct qkv_type *type;
    bool used;
};

static const struct qkv_type *type_named(const char *name) {
    for (int i = 0; i < QKV_DTYPE_COUNT; i++)
        if (qkv_types[i]->weights && qkv_types[i]->gguf >= 0 && !strcasecmp(qkv_types[i]->name, name))
            return qkv_types[i];
    return NULL;
}

static int mix_named(const char *name) {
    for (int i = 0; i < MIX_COUNT; i++)
        if (!strcasecmp(mixes[i].name, name) || (mixes[i].other && !strcasecmp(mixes[i].other, name))) return i;
    return MIX_NONE;
}

/* Fails with the names of all mixes or of all types; `hint` ends the sentence. */
static enum qkv_status type_unknown(struct qkv_context *ctx, const char *name, bool with_mixes, const char *hint) {
    struct qkv_buffer names = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < MIX_COUNT && with_mixes && !status; i++)
        status = qkv_buffer_print(ctx, &names, "%s%s", i ? ", " : "", mixes[i].name);
    for (int i = 0; i < QKV_DTYPE_COUNT && !status && !with_mixes; i++)
        if (qkv_types[i]->weights && qkv_types[i]->gguf >= 0)
            status = qkv_buffer_print(ctx, &names, "%s%s", names.size ? ", " : "", qkv_types[i]->name);
    if (!status)
        status = qkv_fail(ctx, QKV_ARGUMENT, "the type \"%.40s\" is not known; there are %s%s", name, names.data, hint);
    qkv_buffer_free(&names);
    return status;
}

/* Reads "GLOB=TYPE". */
static enum qkv_status keep_read(struct qkv_context *ctx, const char *text, struct keep *keep) {
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return qkv_fail(ctx, QKV_ARGUMENT, "the rule \"%.80s\" is not PATTERN=TYPE, such as head*=q8_0", text);
    keep->type = type_named(equals + 1);
    if (!keep->type) return type_unknown(ctx, equals + 1, false, "");
    keep->pattern = qkv_copy_bytes(ctx, text, (size_t)(equals - text));
    return keep->pattern ? QKV_OK : QKV_MEMORY;
}

/* The type of the last rule that matches a weight of tensor i; NULL: none does. */
static const struct qkv_type *keep_type(const struct qkv_gguf_export *e, struct keep *keep, size_t count, size_t i) {
    const struct qkv_type *type = NULL;
    for (size_t k = 0; k < count; k++)
        for (size_t at = 0; (at = qkv_family_array_weight(&e->arrays, i, at));) {
            if (!qkv_text_matches(e->model->weights.list[at - 1].array.name, keep[k].pattern)) continue;
            keep[k].used = true;
            type = keep[k].type;
        }
    return type;
}

static enum qkv_status keep_check(const struct qkv_gguf_export *e, const struct keep *keep, size_t count) {
    for (size_t k = 0; k < count; k++)
        if (!keep[k].used)
            return qkv_fail(e->ctx, QKV_ARGUMENT,
                            "no matrix has a name like \"%.80s\"; names are those that \"qkv info\" shows, such as %s",
                            keep[k].pattern, e->model->weights.count ? e->model->weights.list[0].array.name : "none");
    return QKV_OK;
}

/* ---- rows that are no whole blocks ------------------------------------------------------------------------------- */

static const struct {
    const struct qkv_type *type, *other;
} smaller[] = {
    {&qkv_type_iq4_xs, &qkv_type_iq4_nl}, {&qkv_type_q2_K, &qkv_type_q4_0}, {&qkv_type_q3_K, &qkv_type_q4_0},
    {&qkv_type_q4_K, &qkv_type_q5_0},     {&qkv_type_q5_K, &qkv_type_q5_1}, {&qkv_type_q6_K, &qkv_type_q8_0},
};

static const struct qkv_type *type_that_fits(const struct qkv_type *type, size_t columns) {
    if (columns % type->block == 0) return type;
    for (size_t i = 0; i < sizeof smaller / sizeof *smaller; i++)
        if (smaller[i].type == type && columns % smaller[i].other->block == 0) return smaller[i].other;
    return &qkv_type_f16;
}

static enum qkv_status unfit_tell(struct qkv_gguf_export *e, struct qkv_gguf_names *unfit) {
    const bool several = unfit->count > 1;
    if (!unfit->count) return QKV_OK;
    const enum qkv_status status = qkv_gguf_names_end(e->ctx, unfit);
    if (status) return status;
    return qkv_gguf_note(e->ctx, e->notes, "%zu %s another type, as %s rows are no whole blocks: %s", unfit->count,
                         several ? "tensors have" : "tensor has", several ? "their" : "its", unfit->text.data);
}

/* ---- all tensors ------------------------------------------------------------------------------------------------- */

static enum qkv_status format_find(struct qkv_context *ctx, const struct qkv_gguf_options *o, int *mix,
                                   const struct qkv_type **type) {
    const char *name = o->format;
    *mix = o->pure ? MIX_NONE : mix_named(name);
    *type = NULL;
    if (*mix == MIX_NONE) *type = type_named(name);
    if (*mix == MIX_NONE && !*type)
        return type_unknown(ctx, name, !o->pure, mix_named(name) == MIX_NONE ? "" : "; qkv quantize writes mixes");
    return QKV_OK;
}

/* The number of the mix, or of the first one of that type. */
static uint32_t format_number(int mix, const struct qkv_type *type) {
    for (int i = 0; i < MIX_COUNT && mix == MIX_NONE; i++)
        if (mixes[i].base == type) mix = i;
    return mix == MIX_NONE ? 0 : mixes[mix].number;
}

/* Whether tensor i is in blocks, and in another type than it will be. */
static bool tensor_is_rounded_again(const struct qkv_gguf_export *e, size_t i, const struct qkv_type *type) {
    for (size_t at = 0; (at = qkv_family_array_weight(&e->arrays, i, at));) {
        const struct qkv_weight *w = &e->model->weights.list[at - 1];
        const struct qkv_type *from = w->stored ? qkv_types[w->array.dtype] : &qkv_type_f32;
        if (from->kind == QKV_CLASS_BLOCKS && from != type && type->kind == QKV_CLASS_BLOCKS) return true;
    }
    return false;
}

static enum qkv_status choose_all(struct qkv_gguf_export *e, int mix, const struct qkv_type *pure, struct keep *keep,
                                  struct qkv_gguf_names *unfit) {
    enum qkv_status status = QKV_OK;
    size_t again = 0;
    for (size_t i = 0; i < e->arrays.count && !status; i++) {
        struct qkv_gguf_tensor *t = &e->tensors[i];
        const struct qkv_weight *w = tensor_weight(e, i);
        const struct qkv_type *type = &qkv_type_f32;
        t->array = e->arrays.list[i].array;
        t->slices = t->array.rank == 3 ? t->array.shape[0] : 1;
        if (w) {
            const struct qkv_type *kept = keep_type(e, keep, e->options->keep_count, i);
            const struct choice c = choice_make(e, mix, w, &t->array);
            const struct qkv_type *wanted = kept ? kept : pure ? pure : mix_type(&c);
            type = type_that_fits(wanted, c.columns);
            if (wanted != type)
                status =
                    qkv_gguf_names_add(e->ctx, unfit, "%s %s instead of %s", t->array.name, type->name, wanted->name);
            if (!status && type->kind == QKV_CLASS_BLOCKS) status = qkv_importance_find(e, i, c.columns);
        }
        again += tensor_is_rounded_again(e, i, type);
        t->array.dtype = qkv_type_number(type);
    }
    if (!status && again)
        status = qkv_gguf_note(e->ctx, e->notes,
                               "%zu %s in blocks of few bits already and %s rounded again, which loses more than "
                               "rounding the original model once",
                               again, again > 1 ? "tensors are" : "tensor is", again > 1 ? "are" : "is");
    return status;
}

enum qkv_status qkv_gguf_check_types(struct qkv_context *ctx, const struct qkv_gguf_options *o) {
    const struct qkv_type *pure;
    int mix;
    enum qkv_status status = format_find(ctx, o, &mix, &pure);
    if (!status && !o->keep_count && qkv_importance_given(o) &&
        (pure ? pure : mixes[mix].base)->kind != QKV_CLASS_BLOCKS)
        status = qkv_importance_idle(ctx, o);
    for (size_t k = 0; k < o->keep_count && !status; k++) {
        struct keep keep = {0};
        status = keep_read(ctx, o->keep[k], &keep);
        free(keep.pattern);
    }
    return status;
}

enum qkv_status qkv_gguf_choose_types(struct qkv_gguf_export *e) {
    const size_t count = e->options->keep_count;
    struct keep *keep = qkv_allocate(e->ctx, count + 1, sizeof *keep);
    struct qkv_gguf_names unfit = {0};
    const struct qkv_type *pure = NULL;
    int mix = MIX_NONE;
    e->tensors = qkv_allocate(e->ctx, e->arrays.count + 1, sizeof *e->tensors);
    enum qkv_status status = keep && e->tensors ? format_find(e->ctx, e->options, &mix, &pure) : QKV_MEMORY;
    for (size_t k = 0; k < count && !status; k++) status = keep_read(e->ctx, e->options->keep[k], &keep[k]);
    if (!status) status = choose_all(e, mix, pure, keep, &unfit);
    if (!status) status = keep_check(e, keep, count);
    if (!status) status = qkv_importance_use(e);
    if (!status) status = unfit_tell(e, &unfit);
    if (!status) e->file_type = format_number(mix, pure);
    if (!status) e->notes->format = pure ? pure->name : mixes[mix].name;
    for (size_t k = 0; k < count && keep; k++) free(keep[k].pattern);
    qkv_buffer_free(&unfit.text);
    free(keep);
    return status;
}
