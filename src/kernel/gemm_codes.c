/* gemm_codes: the driver of products of integers (isa/codes.h): what is packed when, and the threads.
 *
 * Weights lie in parts, one under the other, each of one type. Packed, each part is panels of its rows; a panel never
 * has rows of two parts. An item is a block of rows of x times some panels: its rows of x stay in the second cache, a
 * panel and its sums in the first. Weights that are not packed are packed a panel at a time by the item that needs it:
 * the bits are the same. */
#include "kernel/isa/codes.h"

#include <assert.h>
#include <string.h>

#include "kernel/epilogue.h"
#include "type/type_form.h"

enum {
    ITEMS_A_THREAD = 4,
    PANEL_ROWS_MAX = 16,
    ROWS_MIN = 32, /* of x in a block: a panel is read, or packed, once for them */
    ROWS_MAX = 256
};
#define ITEM_PRODUCTS 3e4 /* minimum of the multiplications of an item: waking a thread costs as much */

struct product {
    const struct qkv_kernels *table;
    const struct qkv_codes_kernels *kernels;
    const struct qkv_product_call *call;
    const struct qkv_stored *weights;
    size_t ldx;                  /* bytes of a row of x */
    uint32_t *x;                 /* packed */
    size_t rows, row_blocks;     /* rows of x of a block */
    size_t panels, panel_blocks; /* panels of an item; items of a block of rows */
    size_t panel_bytes;          /* of the largest panel, if items pack */
    float *sums;                 /* (rows, nr) for each thread */
    char *own;                   /* a panel for each thread, if items pack */
    qkv_epilogue_count *counts;
};

/* ---- panels ------------------------------------------------------------------------------------------------------ */

/* A panel: some rows of one part. */
struct panel {
    const struct qkv_stored_part *part;
    size_t first, rows; /* of the part */
    size_t column;      /* of C */
    size_t at, bytes;   /* in packed weights */
};

/* Rows of part i that belong to the matrix of N rows, the first of them, and the column of C that it is. */
static size_t part_rows(const struct qkv_stored *weights, size_t N, size_t i, size_t *first, size_t *column) {
    const size_t begin = weights->first_row, end = begin + N;
    size_t before = 0;
    for (size_t p = 0; p < i; p++) before += weights->parts[p].rows;
    const size_t from = qkv_max(before, begin), to = qkv_min(before + weights->parts[i].rows, end);
    *first = from - before;
    *column = from - begin;
    return to > from ? to - from : 0;
}

static size_t panel_count(const struct qkv_codes_kernels *kernels, const struct qkv_stored *weights, size_t N) {
    size_t count = 0, first, column;
    for (size_t i = 0; i < weights->count; i++)
        count += qkv_pieces(part_rows(weights, N, i, &first, &column), kernels->nr);
    return count;
}

/* The panel with a number. */
static struct panel panel_at(const struct qkv_codes_kernels *kernels, const struct qkv_stored *weights, size_t N,
                             size_t number) {
    struct panel panel = {0};
    for (size_t i = 0, rows; i < weights->count; i++) {
        const struct qkv_stored_part *part = &weights->parts[i];
        rows = part_rows(weights, N, i, &panel.first, &panel.column);
        const size_t own = qkv_pieces(rows, kernels->nr);
        panel.bytes = qkv_codes_row_bytes(qkv_types[part->dtype], weights->columns) * kernels->nr;
        if (number >= own) {
            number -= own;
            panel.at += own * panel.bytes;
            continue;
        }
        panel.part = part;
        panel.first += number * kernels->nr;
        panel.column += number * kernels->nr;
        panel.at += number * panel.bytes;
        panel.rows = qkv_min(kernels->nr, rows - number * kernels->nr);
        break;
    }
    return panel;
}

static void panel_pack(const struct qkv_codes_kernels *kernels, const struct panel *panel, size_t K, void *out) {
    const struct qkv_type *type = qkv_types[panel->part->dtype];
    const size_t bytes = K / type->block * type->bytes;
    kernels->pack(out, &(struct qkv_codes_rows){.type = type,
                                                .data = (const unsigned char *)panel->part->data + panel->first * bytes,
                                                .bytes = bytes,
                                                .rows = panel->rows,
                                                .K = K});
}

bool qkv_codes_packed_bytes(const struct qkv_context *ctx, const struct qkv_stored *stored, size_t K, size_t N,
                            size_t *bytes) {
    const struct qkv_codes_kernels *kernels = ctx->kernels->codes;
    size_t first, column, own;
    *bytes = 0;
    for (size_t i = 0; i < stored->count; i++) {
        const size_t rows = qkv_pieces(part_rows(stored, N, i, &first, &column), kernels->nr) * kernels->nr;
        if (!qkv_multiply(qkv_codes_row_bytes(qkv_types[stored->parts[i].dtype], K), rows, &own) ||
            !qkv_add_size(*bytes, own, bytes))
            return false;
    }
    return true;
}

void qkv_codes_round(const struct qkv_context *ctx, enum qkv_dtype form, void *out, const float *x, size_t n) {
    const struct qkv_type_kernels *own = &ctx->kernels->types[form];
    (own->from_float ? own->from_float : qkv_types[form]->from_float)(out, x, n);
}

struct packing {
    const struct qkv_codes_kernels *kernels;
    const struct qkv_stored *weights;
    size_t K, N;
    char *out;
};

static void pack_item(void *argument, size_t item, int thread) {
    (void)thread;
    const struct packing *p = argument;
    const struct panel panel = panel_at(p->kernels, p->weights, p->N, item);
    panel_pack(p->kernels, &panel, p->K, p->out + panel.at);
}

void qkv_codes_pack(struct qkv_context *ctx, void *packed, struct qkv_operand b, struct qkv_stored_operand stored,
                    size_t K, size_t N) {
    (void)b;
    struct packing p = {ctx->kernels->codes, stored.weights, K, N, packed};
    qkv_parallel(ctx, panel_count(p.kernels, p.weights, N), pack_item, &p);
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

/* C = sums [+ C] [+ bias], some columns of some rows. */
static void put_sums(const struct product *p, const float *sums, size_t row, size_t rows, const struct panel *panel) {
    const struct qkv_product_call *call = p->call;
    const float *bias = call->bias ? call->bias + panel->column : NULL;
    const size_t size = qkv_type_size(call->dtype);
    for (size_t r = 0; r < rows; r++, sums += p->kernels->nr) {
        const size_t at = (row + r) * call->ldc + panel->column;
        char *c = (char *)call->c + at * size;
        float out[PANEL_ROWS_MAX], before[PANEL_ROWS_MAX];
        memcpy(out, sums, p->kernels->nr * sizeof *out);
        if (call->accumulate) qkv_to_float(before, c, call->dtype, panel->rows);
        for (size_t j = 0; call->accumulate && j < panel->rows; j++) out[j] += before[j];
        for (size_t j = 0; bias && j < panel->rows; j++) out[j] += bias[j];
        if (call->dtype == QKV_F32)
            memcpy(c, out, panel->rows * sizeof *out);
        else
            qkv_from_float(c, out, call->dtype, panel->rows);
    }
}

/* A tile of x. */
static void x_pack_tile(const struct product *p, size_t row, size_t rows) {
    const size_t form = p->call->a.dtype == QKV_I8_256 ? 256 : 32, K = p->call->K;
    uint32_t *out = p->x + row * (K / 32 * QKV_CODES_X_WORDS);
    for (size_t k = 0; k < K; k += 32, out += QKV_CODES_X_WORDS * rows) {
        for (size_t r = 0; r < rows; r++) {
            const unsigned char *block =
                (const unsigned char *)p->call->a.data + (row + r) * p->ldx + k / form * TYPE_FORM_BYTES(form);
            uint32_t words[QKV_CODES_X_WORDS];
            memcpy(words, block + TYPE_FORM_CODES(form) + k % form, 32);
            memcpy(words + QKV_CODES_X_PAIRS, block + TYPE_FORM_PAIRS + k % form / 4, 8);
            memcpy(words + QKV_CODES_X_SUMS, block + TYPE_FORM_SUMS(form) + k % form / 8, 4);
            memcpy(words + QKV_CODES_X_SCALE, block, 4);
            for (size_t i = 0; i < QKV_CODES_X_WORDS; i++) out[i * rows + r] = words[i];
        }
    }
}

/* Rows of a block, in tiles. */
static void x_pack_block(void *argument, size_t item, int thread) {
    (void)thread;
    const struct product *p = argument;
    const size_t begin = item * p->rows, end = qkv_min(begin + p->rows, p->call->M);
    for (size_t row = begin, rows; row < end; row += rows) {
        rows = end - row >= p->kernels->tile ? p->kernels->tile : end - row >= 2 ? 2 : 1;
        x_pack_tile(p, row, rows);
    }
}

static void product_item(void *argument, size_t item, int thread) {
    const struct product *p = argument;
    const struct qkv_product_call *call = p->call;
    const size_t row_block = item % p->row_blocks, row = row_block * p->rows;
    const size_t rows = qkv_min(p->rows, call->M - row), begin = item / p->row_blocks * p->panels;
    const size_t all = panel_count(p->kernels, p->weights, call->N), end = qkv_min(begin + p->panels, all);
    float *sums = p->sums + (size_t)thread * p->rows * p->kernels->nr;
    char *own = p->own ? p->own + (size_t)thread * p->panel_bytes : NULL;
    size_t column = call->N, columns = 0;
    for (size_t i = begin; i < end; i++) {
        const struct panel panel = panel_at(p->kernels, p->weights, call->N, i);
        if (!call->packed) panel_pack(p->kernels, &panel, call->K, own);
        const struct qkv_codes_work work = {.type = qkv_types[panel.part->dtype],
                                            .panel = call->packed ? (const char *)call->packed + panel.at : own,
                                            .x = p->x + row * (call->K / 32 * QKV_CODES_X_WORDS),
                                            .rows = rows,
                                            .K = call->K,
                                            .sums = sums};
        p->kernels->multiply(work.type)(&work);
        put_sums(p, sums, row, rows, &panel);
        column = qkv_min(column, panel.column);
        columns += panel.rows;
    }
    qkv_epilogue_block(p->table, call, p->counts, row_block, row, rows, column, columns);
}

static void product_plan(const struct qkv_context *ctx, struct product *p) {
    const size_t threads = (size_t)ctx->threads, l2 = ctx->l2 ? ctx->l2 : 512 * 1024, M = p->call->M;
    const size_t all = panel_count(p->kernels, p->weights, p->call->N);
    const double work = (double)M * (double)p->call->N * (double)p->call->K / ITEM_PRODUCTS;
    size_t wanted = threads == 1 ? 1 : threads * ITEMS_A_THREAD;
    if (work < (double)wanted) wanted = work < 2 ? 1 : (size_t)work;
    const size_t most = qkv_min(qkv_max(l2 / 2 / p->ldx, ROWS_MIN), ROWS_MAX);
    p->row_blocks = qkv_pieces(M, most);
    p->rows = qkv_round_up(qkv_pieces(M, p->row_blocks), p->kernels->tile);
    p->row_blocks = qkv_pieces(M, p->rows);
    p->panels = qkv_pieces(all, qkv_min(qkv_pieces(wanted, p->row_blocks), all));
    p->panel_blocks = qkv_pieces(all, p->panels);
    for (size_t i = 0; i < p->weights->count && !p->call->packed; i++)
        p->panel_bytes = qkv_max(
            p->panel_bytes, qkv_codes_row_bytes(qkv_types[p->weights->parts[i].dtype], p->call->K) * p->kernels->nr);
}

enum qkv_status qkv_gemm_codes(struct qkv_context *ctx, struct qkv_arena *scratch,
                               const struct qkv_product_call *call) {
    if (call->M == 0 || call->N == 0) return QKV_OK;
    assert(call->stored.weights && call->stored.transposed && call->a.column_stride == 1);
    assert(call->a.dtype == QKV_I8_32 || call->a.dtype == QKV_I8_256);
    assert(ctx->kernels->codes->nr <= PANEL_ROWS_MAX);
    struct product p = {.table = ctx->kernels,
                        .kernels = ctx->kernels->codes,
                        .call = call,
                        .weights = call->stored.weights,
                        .ldx = qkv_type_span(call->a.dtype, call->a.row_stride)};
    product_plan(ctx, &p);
    const size_t mark = qkv_arena_mark(scratch), threads = (size_t)ctx->threads;
    const bool counts = call->epilogue.kind != QKV_EPILOGUE_none;
    p.sums = qkv_arena_take(scratch, threads * p.rows * p.kernels->nr, sizeof *p.sums);
    if (p.sums) p.x = qkv_arena_take(scratch, call->M * (call->K / 32), QKV_CODES_X_WORDS * sizeof *p.x);
    if (p.x && p.panel_bytes) p.own = qkv_arena_take(scratch, threads, p.panel_bytes);
    if (p.x && counts) p.counts = qkv_arena_take(scratch, p.row_blocks, sizeof *p.counts);
    const bool taken = p.x && (p.own || !p.panel_bytes) && (p.counts || !counts);
    if (taken) {
        qkv_epilogue_begin(ctx, call, p.counts, p.row_blocks, p.panel_blocks);
        qkv_parallel(ctx, p.row_blocks, x_pack_block, &p);
        qkv_parallel(ctx, p.row_blocks * p.panel_blocks, product_item, &p);
    }
    qkv_arena_release(scratch, mark);
    return taken ? QKV_OK : QKV_MEMORY;
}
