/* form: activations in the type in which products read them.
 *
 * A product that does not read x as it is stored reads its form: x in bf16, or, for weights whose products are fp32,
 * bf16 widened. The first product that needs the form makes it, in the memory of the tape, and all later ones share it,
 * those of backward too. It lives as long as the memory that it was made in. */
#include "op/steps.h"

enum { NUMBERS_A_PIECE = 4096 }; /* whole blocks of every type */

/* Gradients of products of integers are 0 almost everywhere: a tape that records multiplies as backward does. */
const struct qkv_product *qkv_operand_product(const struct qkv_tape *tape, const struct qkv_tensor *weight) {
    return weight->operand.product && !tape->recording ? weight->operand.product
                                                       : qkv_operand_product_back(tape, weight);
}

const struct qkv_product *qkv_operand_product_back(const struct qkv_tape *tape, const struct qkv_tensor *weight) {
    if (weight->operand.product_back) return weight->operand.product_back;
    return weight->operand.fp32 ? &qkv_product_f32 : tape->product;
}

bool qkv_product_reads(const struct qkv_product *product, enum qkv_dtype dtype) {
    return dtype == product->form || (product->rounds && dtype == QKV_F32);
}

struct forming {
    const struct qkv_context *ctx;
    const struct qkv_product *product;
    struct qkv_linear_rows from;
    char *to;
};

/* A piece of numbers that are not fp32. */
static void form_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct forming *f = argument;
    const enum qkv_dtype type = f->from.dtype;
    const char *from = (const char *)f->from.data + begin * qkv_type_size(type);
    char *to = f->to + qkv_type_span(f->product->form, begin);
    const bool floats = f->product->form == QKV_F32;
    float wide[NUMBERS_A_PIECE];
    qkv_to_float(floats ? (float *)(void *)to : wide, from, type, end - begin);
    if (!floats) f->product->round(f->ctx, to, wide, end - begin);
}

static struct qkv_linear_rows form_make(struct qkv_tape *tape, const struct qkv_product *product,
                                        struct qkv_linear_rows x, size_t count) {
    const struct qkv_type *type = qkv_types[product->form];
    struct forming f = {tape->ctx, product, x, qkv_tape_take(tape, count / type->block, type->bytes)};
    if (f.to && x.dtype == QKV_F32)
        qkv_tape_failed(tape,
                        QKV_STEP(tape->ctx, round, .to = f.to, .from = x.data, .count = count, .product = product));
    else if (f.to)
        qkv_parallel_range(tape->ctx, count, NUMBERS_A_PIECE, form_piece, &f);
    return (struct qkv_linear_rows){f.to, product->form};
}

struct qkv_linear_rows qkv_tape_convert(struct qkv_tape *tape, const struct qkv_product *product,
                                        struct qkv_linear_rows x, size_t count) {
    return qkv_product_reads(product, x.dtype) ? x : form_make(tape, product, x, count);
}

const struct qkv_form *qkv_tape_formed(const struct qkv_tape *tape, const struct qkv_tensor *x, enum qkv_dtype dtype) {
    const struct qkv_form *form = tape->forms;
    while (form && (form->of != x || form->dtype != dtype)) form = form->previous;
    return form;
}

/* A tensor that is fp32 gets a form even where the product could round it while it packs: others share it. */
struct qkv_linear_rows qkv_tape_form(struct qkv_tape *tape, const struct qkv_product *product,
                                     const struct qkv_tensor *x) {
    const struct qkv_linear_rows own = {x->data, x->dtype};
    if (x->dtype == product->form) return own;
    const struct qkv_form *made = qkv_tape_formed(tape, x, product->form);
    if (made) return (struct qkv_linear_rows){made->data, made->dtype};
    const size_t mark = qkv_arena_mark(tape->arena);
    struct qkv_form *form = qkv_tape_take_graph(tape, sizeof *form);
    const struct qkv_linear_rows rows = form_make(tape, product, own, x->rows * x->columns);
    if (!form || !rows.data) return (struct qkv_linear_rows){NULL, product->form};
    *form = (struct qkv_form){rows.data, rows.dtype, mark, x, tape->forms};
    tape->forms = form;
    return rows;
}
