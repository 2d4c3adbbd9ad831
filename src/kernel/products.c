/* The table of products. */
#include "kernel/product.h"

#define ROW(name) &qkv_product_##name,
static const struct qkv_product *const rows[] = {QKV_PRODUCT_LIST(ROW)};
enum { ROWS = sizeof rows / sizeof *rows };

const struct qkv_product *qkv_product_at(size_t i) {
    return i < ROWS ? rows[i] : NULL;
}

const struct qkv_product *qkv_product_of_precision(enum qkv_precision precision) {
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i]->precision == (int)precision) return rows[i];
    return &qkv_product_f32;
}

const struct qkv_product *qkv_product_of(const struct qkv_context *ctx) {
    return qkv_product_of_precision(ctx->precision);
}

enum qkv_status qkv_product_run(const struct qkv_product *product, struct qkv_context *ctx, struct qkv_arena *scratch,
                                const struct qkv_product_call *call) {
    enum qkv_status status = QKV_OK;
    struct qkv_product_call fewer = *call;
    /* where no row chooses an adapter, what follows the product is a part of it */
    if (fewer.epilogue.kind == QKV_EPILOGUE_none) fewer.epilogue.kind = QKV_EPILOGUE_residual;
    for (fewer.M = 1; ctx->at_most && fewer.M <= call->M && !status; fewer.M++)
        status = product->multiply(ctx, scratch, &fewer);
    return status ? status : product->multiply(ctx, scratch, call);
}

static bool product_serves(const struct qkv_product *row, const struct qkv_stored *stored) {
    for (size_t i = 0; i < stored->count; i++)
        if (!row->serves(stored->parts[i].dtype)) return false;
    return stored->columns % qkv_types[row->form]->block == 0;
}

const struct qkv_product *qkv_product_choose(const struct qkv_product *general, const struct qkv_stored *stored) {
    for (size_t i = 0; i < ROWS && stored && stored->count; i++)
        if (rows[i]->serves && product_serves(rows[i], stored)) return rows[i];
    return general;
}
