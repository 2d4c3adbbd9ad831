/* gemm_bf16: the driver of the matrix product in bf16: how C is cut, what is packed when, and the threads.
 *
 * An item is a block of rows × columns. It packs its rows of A over all terms. But if several items share rows, all of
 * A is packed before the items; and if A is bf16 and the kernels can read it without packing, it is not packed. The
 * item then goes over the panels of B one after the other: a panel and its sums stay in the first cache, A in the
 * second. K is cut into runs by K alone, which are added in order, so that no bit depends on the cuts of rows and
 * columns, nor on the number of threads.
 *
 * Packed B is stored run by run, panel by panel: for each run, panels of words [pair][column]. */
#include "kernel/isa/bf16.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "kernel/epilogue.h"

enum {
    ITEMS_A_THREAD = 4,
    FEW_CYCLES = 6000, /* minimum of the work of an item of a product of few rows */
    FEW_SUMS = 8192,   /* maximum of sums of such an item: those of one run stay in the first cache until the next */
    ROWS_MIN = 96,     /* minimum of rows of a block: unpacking and reading B is paid once for them */
    ROWS_MAX = 512,
    PART_TERMS = 2048,         /* terms at a time if C can hold the sums in between */
    PACKED_WORDS = 1024 * 1024 /* maximum of words of B packed at a time */
};
#define ITEM_FLOPS 2e5 /* minimum of an item's work */

struct product {
    const struct qkv_bf16_kernels *kernels;
    const struct qkv_kernels *table;
    char *c;
    size_t ldc, c_size;
    struct qkv_operand a, b;
    size_t M, N, K;
    const struct qkv_product_call *call;
    struct qkv_stored_operand stored;
    size_t run, transposed_run;      /* terms a run of B, and of Bᵀ */
    size_t stored_block;             /* numbers in the largest block of stored weights; 1 without them */
    size_t rows, row_blocks;         /* rows of a block: a multiple of the kernels' group */
    size_t columns, column_blocks;   /* columns of a block of the part: a multiple of a panel */
    size_t part_columns, part_terms; /* B packed at a time */
    size_t n_begin, n_end, k_begin, k_end;
    bool share_a, in_place, sums_apart;
    const uint32_t *packed; /* of the part, or of all of B */
    uint32_t *packed_b;
    char *packed_a;        /* one for each thread, or for each block of rows */
    float *sums, *staging; /* one for each thread */
    size_t a_bytes, sums_floats, staging_floats;
    qkv_epilogue_count *counts; /* one for each block of rows; NULL without an epilogue */
};

/* Terms a run: as even as possible, and at most as many as fit in the first cache next to a panel. */
static size_t run_length(const struct qkv_context *ctx, size_t K) {
    const struct qkv_bf16_kernels *kernels = ctx->kernels->bf16;
    const size_t l1d = ctx->l1d ? ctx->l1d : 32 * 1024;
    const size_t unit = kernels->step > 16 ? kernels->step : 16;
    const size_t fits = l1d * 2 / 3 / (kernels->nr * sizeof(uint16_t)) / unit * unit;
    const size_t max_terms = qkv_max(qkv_min(kernels->run, fits), unit);
    return K ? qkv_min(qkv_round_up(qkv_pieces(K, qkv_pieces(K, max_terms)), unit), kernels->run) : 0;
}

/* Words of packed B before term k, for panels of `width` columns in total. */
static size_t words_before(size_t k, size_t width) {
    return k / 2 * width;
}
static size_t pairs_of(const struct qkv_bf16_kernels *kernels, size_t terms) {
    return qkv_round_up(terms, kernels->step) / 2;
}

/* ---- B packed ahead --------------------------------------------------------------------------------------------- */

static void pack_piece(void *user, const struct qkv_stored_piece *piece) {
    const struct product *p = user;
    const size_t nr = p->kernels->nr, width = qkv_round_up(p->n_end - p->n_begin, nr);
    const size_t run = piece->k / p->run * p->run, terms = qkv_min(p->run, p->k_end - run);
    uint32_t *out =
        p->packed_b + words_before(run - p->k_begin, width) + (piece->n - p->n_begin) * pairs_of(p->kernels, terms);
    const struct qkv_operand data = {piece->data.data, QKV_F32, piece->data.row_stride, piece->data.column_stride};
    p->kernels->pack_b(out + (piece->k - run) / 2 * nr, data, piece->terms, piece->columns);
}

/* Packs the panel of columns n … from Bᵀ that is packed ahead. A word there holds two terms of a column of Bᵀ, which
 * are two columns here: two words next to each other have the four numbers of two words here. `out` gets `pairs` words
 * from term k on, and zeros after the last ones. */
static void transpose_panel(const struct product *p, uint32_t *out, size_t k, size_t n, size_t pairs) {
    const size_t nr = p->kernels->nr, width = qkv_round_up(p->K, nr), end = k + 2 * pairs;
    for (size_t o = k, next; o < end; o = next) {
        next = qkv_min(o / nr * nr + nr, end);
        for (size_t i = n; i < n + nr; i += 2) {
            uint32_t *to = out + (o - k) / 2 * nr + (i - n);
            const size_t first = i / p->transposed_run * p->transposed_run;
            if (i >= p->N || o >= width) {
                for (size_t at = o; at < next; at += 2, to += nr) to[0] = to[1] = 0;
                continue;
            }
            const size_t own =
                pairs_of(p->kernels, qkv_min(p->transposed_run, p->N - first)); /* of the run that i is in */
            const uint32_t *from = (const uint32_t *)p->stored.turned + words_before(first, width) + o / nr * nr * own +
                                   (i - first) / 2 * nr + o % nr;
            for (size_t at = o; at < next; at += 2, to += nr, from += 2) {
                to[0] = (from[0] & 0xffff) | from[1] << 16;
                to[1] = from[0] >> 16 | (from[1] & 0xffff0000u);
            }
        }
    }
}

/* Columns that an item packs: some panels, and whole blocks where blocks of stored weights lie along the columns. */
static size_t pack_columns(const struct product *p) {
    const size_t panels = 4 * p->kernels->nr;
    return p->stored.transposed ? panels : qkv_max(panels, p->stored_block);
}

/* Packs a few panels of the part over one run; of blocks, which may lie in two runs, over all of them. */
static void pack_b_item(void *argument, size_t item, int thread) {
    (void)thread;
    const struct product *p = argument;
    const size_t nr = p->kernels->nr, width = qkv_round_up(p->n_end - p->n_begin, nr), most = pack_columns(p);
    const size_t groups = qkv_pieces(p->n_end - p->n_begin, most), n = p->n_begin + item % groups * most;
    const size_t k = p->k_begin + item / groups * p->run, columns = qkv_min(most, p->n_end - n);
    const size_t terms = qkv_min(p->stored_block > 1 ? p->k_end : p->run, p->k_end - k);
    if (p->stored.weights) {
        const struct qkv_stored_cut cut = {.k = k, .terms = terms, .n = n, .columns = columns, .run = p->run, .nr = nr};
        qkv_stored_pieces(p->table, p->stored, &cut, pack_piece, argument);
        return;
    }
    uint32_t *out = p->packed_b + words_before(k - p->k_begin, width) + (n - p->n_begin) * pairs_of(p->kernels, terms);
    for (size_t j = 0; p->stored.turned && j < columns; j += nr)
        transpose_panel(p, out + j * pairs_of(p->kernels, terms), k, n + j, pairs_of(p->kernels, terms));
    if (p->stored.turned) return;
    struct qkv_operand b = p->b;
    b.data = (const char *)b.data + (k * b.row_stride + n * b.column_stride) * qkv_type_size(b.dtype);
    p->kernels->pack_b(out, b, terms, columns);
}

static void pack_b_part(struct qkv_context *ctx, struct product *p) {
    const size_t groups = qkv_pieces(p->n_end - p->n_begin, pack_columns(p));
    const size_t runs = p->run ? qkv_pieces(p->k_end - p->k_begin, p->run) : 0;
    qkv_parallel(ctx, p->stored_block > 1 ? groups : runs * groups, pack_b_item, p);
}

bool qkv_bf16_packed_bytes(const struct qkv_context *ctx, const struct qkv_stored *stored, size_t K, size_t N,
                           size_t *bytes) {
    (void)stored;
    const struct qkv_bf16_kernels *kernels = ctx->kernels->bf16;
    size_t terms, columns, padded;
    return qkv_add_size(K, kernels->step, &terms) && qkv_add_size(N, kernels->nr, &columns) &&
           qkv_multiply(terms / kernels->step * kernels->step + kernels->step, columns, &padded) &&
           qkv_multiply(padded, sizeof(uint16_t), bytes);
}

void qkv_bf16_pack(struct qkv_context *ctx, void *packed, struct qkv_operand b, struct qkv_stored_operand stored,
                   size_t K, size_t N) {
    struct product p = {
        .kernels = ctx->kernels->bf16, .table = ctx->kernels, .b = b, .K = K, .N = N, .n_end = N, .k_end = K};
    p.stored = stored;
    p.stored_block = stored.weights ? qkv_stored_block(stored.weights) : 1;
    p.run = run_length(ctx, K);
    p.transposed_run = run_length(ctx, N);
    p.packed_b = packed;
    if (N) pack_b_part(ctx, &p);
}

/* Tables with bf16 instructions read subnormal numbers as 0, before they are rounded. */
void qkv_bf16_round(const struct qkv_context *ctx, uint16_t *out, const float *x, size_t n) {
    const struct qkv_kernels *kernels = ctx->kernels;
    kernels->narrow(out, x, n);
    for (size_t i = 0; kernels->bf16->native && i < n; i++)
        if (fabsf(x[i]) < FLT_MIN) out[i] &= 0x8000;
}

/* ---- plan ------------------------------------------------------------------------------------------------------- */

static void plan_blocks(const struct qkv_context *ctx, struct product *p) {
    const struct qkv_bf16_kernels *kernels = p->kernels;
    const size_t group = kernels->group, threads = (size_t)ctx->threads, l2 = ctx->l2 ? ctx->l2 : 512 * 1024;
    const double work = 2.0 * (double)p->M * (double)p->N * (double)p->K / ITEM_FLOPS;
    size_t wanted = threads == 1 ? 1 : threads * ITEMS_A_THREAD;
    if (work < (double)wanted) wanted = work < 2 ? 1 : (size_t)work;
    size_t max_rows = l2 / 2 / (qkv_max(p->part_terms, 1) * kernels->a_size);
    max_rows = max_rows < ROWS_MIN ? ROWS_MIN : qkv_min(max_rows, ROWS_MAX);
    size_t blocks = qkv_max(qkv_pieces(p->M, max_rows), qkv_min(wanted, p->M / ROWS_MIN));
    if (blocks > 1) blocks = qkv_round_up(blocks, qkv_min(threads, blocks));
    p->rows = qkv_round_up(qkv_pieces(p->M, blocks), group);
    p->row_blocks = qkv_pieces(p->M, p->rows);
    const size_t panels = qkv_pieces(p->part_columns, kernels->nr);
    p->column_blocks = qkv_min(qkv_pieces(wanted, p->row_blocks), panels);
    p->columns = qkv_pieces(panels, p->column_blocks) * kernels->nr;
    p->column_blocks = qkv_pieces(panels * kernels->nr, p->columns);
}

static void gemm_bf16_plan(const struct qkv_context *ctx, struct product *p) {
    const struct qkv_bf16_kernels *kernels = p->kernels;
    p->run = run_length(ctx, p->K);
    p->transposed_run = run_length(ctx, p->N);
    const size_t run = qkv_max(p->run, 1);
    p->sums_apart = p->call->dtype == QKV_BF16;
    const bool along_terms = p->stored_block > 1 && p->stored.transposed; /* blocks may lie in two parts */
    p->part_terms =
        p->sums_apart || along_terms ? qkv_max(p->K, 1) : qkv_min(qkv_max(p->K, 1), qkv_round_up(PART_TERMS, run));
    p->part_columns = qkv_max(qkv_round_up(p->N, kernels->nr), 1);
    if (!p->packed) {
        const size_t unit = along_terms ? kernels->nr : qkv_max(kernels->nr, p->stored_block);
        const size_t fit = PACKED_WORDS / pairs_of(kernels, p->part_terms) / unit * unit;
        p->part_columns = qkv_min(p->part_columns, qkv_max(fit, unit));
    }
    plan_blocks(ctx, p);
    p->in_place = kernels->in_place && p->a.dtype == QKV_BF16 && p->a.column_stride == 1 && p->K % kernels->step == 0;
    p->share_a = p->column_blocks > 1 && !p->in_place;
    const size_t rows = p->in_place ? kernels->mr : p->rows;
    p->a_bytes = rows * qkv_round_up(qkv_min(p->part_terms, p->K), kernels->step) * kernels->a_size;
    p->sums_floats = p->sums_apart ? p->rows * kernels->nr : 0;
    p->staging_floats = !kernels->native && p->a.dtype == QKV_BF16 ? p->rows * run : 0;
}

/* ---- items ------------------------------------------------------------------------------------------------------ */

/* Packs rows of A from m on, over the terms of the part, run by run. If A is read without packing, only the rows that
 * fill no group. */
static void pack_rows(const struct product *p, size_t m, size_t rows, char *out, int thread) {
    const size_t size = qkv_type_size(p->a.dtype), group = p->kernels->mr, height = qkv_round_up(rows, group);
    float *staging = p->staging + (size_t)thread * p->staging_floats;
    for (size_t k = p->k_begin; k < p->k_end; k += p->run) {
        struct qkv_operand a = p->a;
        const size_t terms = qkv_min(p->run, p->k_end - k);
        a.data = (const char *)a.data + (m * a.row_stride + k * a.column_stride) * size;
        p->kernels->pack_a(out + height * (k - p->k_begin) * p->kernels->a_size, a, rows, terms, staging);
    }
}

static void pack_a_item(void *argument, size_t item, int thread) {
    const struct product *p = argument;
    const size_t m = item * p->rows;
    pack_rows(p, m, qkv_min(p->rows, p->M - m), p->packed_a + item * p->a_bytes, thread);
}

static struct qkv_bf16_out gemm_bf16_out(const struct product *p, char *c, const float *bias) {
    return (struct qkv_bf16_out){.data = c,
                                 .ld = p->ldc,
                                 .dtype = p->call->dtype,
                                 .accumulate = p->call->accumulate && p->sums_apart,
                                 .bias = bias};
}

/* One panel of columns, one run after the other. */
static void gemm_bf16_panel(const struct product *p, size_t m, size_t rows, size_t n, const char *a, int thread) {
    const struct qkv_bf16_kernels *kernels = p->kernels;
    const size_t width = qkv_round_up(p->n_end - p->n_begin, kernels->nr), column = p->n_begin + n;
    const size_t loose = p->in_place ? rows % kernels->mr : rows, height = qkv_round_up(loose, kernels->mr);
    char *c = p->c + (m * p->ldc + column) * p->c_size;
    struct qkv_bf16_block block = {
        .rows = rows, .columns = qkv_min(kernels->nr, p->n_end - column), .lda = p->a.row_stride};
    block.c = p->sums_apart ? p->sums + (size_t)thread * p->sums_floats : (float *)(void *)c;
    block.ldc = p->sums_apart ? kernels->nr : p->ldc;
    const float *bias = p->call->bias ? p->call->bias + column : NULL;
    for (size_t k = p->k_begin; k < p->k_end; k += p->run) {
        block.K = qkv_min(p->run, p->k_end - k);
        block.a = a + height * (k - p->k_begin) * kernels->a_size;
        if (p->in_place) block.rows_in_place = (const uint16_t *)p->a.data + m * p->a.row_stride + k;
        block.b = p->packed + words_before(k - p->k_begin, width) + n * pairs_of(kernels, block.K);
        block.resume = k > 0 || (p->call->accumulate && !p->sums_apart);
        if (k + block.K == p->K && (p->sums_apart || bias)) block.out = gemm_bf16_out(p, c, bias);
        kernels->block(&block);
    }
}

static void block_item(void *argument, size_t item, int thread) {
    const struct product *p = argument;
    const size_t row_block = item % p->row_blocks, m = row_block * p->rows, rows = qkv_min(p->rows, p->M - m);
    const size_t n = item / p->row_blocks * p->columns, n_end = qkv_min(n + p->columns, p->n_end - p->n_begin);
    char *a = p->packed_a + (p->share_a ? row_block : (size_t)thread) * p->a_bytes;
    if (p->in_place) {
        const size_t whole = rows / p->kernels->mr * p->kernels->mr;
        if (whole < rows) pack_rows(p, m + whole, rows - whole, a, thread);
    } else if (!p->share_a) {
        pack_rows(p, m, rows, a, thread);
    }
    p->kernels->enter(0);
    for (size_t j = n; j < n_end; j += p->kernels->nr) gemm_bf16_panel(p, m, rows, j, a, thread);
    p->kernels->leave();
    if (p->k_end == p->K)
        qkv_epilogue_block(p->table, p->call, p->counts, row_block, m, rows, p->n_begin + n, n_end - n);
}

/* ---- few rows ---------------------------------------------------------------------------------------------------- */

static void few_item(void *argument, size_t item, int thread) {
    const struct product *p = argument;
    const struct qkv_bf16_kernels *kernels = p->kernels;
    const size_t width = qkv_round_up(p->N, kernels->nr), n = item * p->columns;
    struct qkv_bf16_few few = {.rows = p->M, .columns = qkv_min(p->columns, p->N - n)};
    char *c = p->c + n * p->c_size;
    few.c = p->sums_apart ? p->sums + (size_t)thread * p->sums_floats : (float *)(void *)c;
    few.ldc = p->sums_apart ? p->columns : p->ldc;
    few.lda = p->a_bytes;
    const float *bias = p->call->bias ? p->call->bias + n : NULL;
    for (size_t k = 0; k < p->K; k += p->run) {
        few.K = qkv_min(p->run, p->K - k);
        few.a = p->packed_a + k * kernels->a_size;
        few.b = p->packed + words_before(k, width) + n * pairs_of(kernels, few.K);
        few.resume = k > 0 || (p->call->accumulate && !p->sums_apart);
        if (k + few.K == p->K && (p->sums_apart || bias)) few.out = gemm_bf16_out(p, c, bias);
        kernels->few(&few);
    }
    qkv_epilogue_block(p->table, p->call, p->counts, 0, 0, p->M, n, few.columns);
}

static void few_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct product *p = argument;
    for (size_t m = begin; m < end; m++) {
        struct qkv_operand row = p->a;
        row.data = (const char *)row.data + m * row.row_stride * qkv_type_size(row.dtype);
        p->kernels->few_a(p->packed_a + m * p->a_bytes, row, p->K);
    }
}

/* The number of items of a product of few rows, which reads each number of B once: several a thread, but none so small
 * that waking a thread costs more. */
static size_t few_items(const struct product *p, size_t threads) {
    const double cycles = (double)p->K * (double)p->N * ((double)p->M / 32 + 1.0 / 16), items = cycles / FEW_CYCLES;
    if (threads == 1 || items < 2) return 1;
    return items < (double)(threads * ITEMS_A_THREAD) ? (size_t)items : threads * ITEMS_A_THREAD;
}

static enum qkv_status run_few(struct qkv_context *ctx, struct qkv_arena *scratch, struct product *p) {
    const size_t panels = qkv_pieces(p->N, p->kernels->nr), threads = (size_t)ctx->threads,
                 items = few_items(p, threads), mark = qkv_arena_mark(scratch);
    p->run = run_length(ctx, p->K);
    p->sums_apart = p->call->dtype == QKV_BF16;
    const size_t fit = qkv_max(FEW_SUMS / p->M / p->kernels->nr, 1);
    p->columns = qkv_min(qkv_pieces(panels, qkv_min(panels, items)), fit) * p->kernels->nr;
    p->a_bytes = qkv_round_up(p->K, p->kernels->step) * p->kernels->a_size;
    p->sums_floats = p->sums_apart ? p->M * p->columns : 0;
    p->packed_a = qkv_arena_take(scratch, p->M, p->a_bytes);
    p->sums = p->packed_a ? qkv_arena_take(scratch, threads * p->sums_floats, sizeof(float)) : NULL;
    if (p->sums) {
        qkv_epilogue_count count;
        p->counts = &count;
        qkv_epilogue_begin(ctx, p->call, p->counts, 1, qkv_pieces(p->N, p->columns));
        qkv_parallel_range(ctx, p->M, items > 1 ? 1 : p->M, few_rows, p);
        qkv_parallel(ctx, qkv_pieces(p->N, p->columns), few_item, p);
    }
    qkv_arena_release(scratch, mark);
    return p->sums ? QKV_OK : QKV_MEMORY;
}

/* ---- product ---------------------------------------------------------------------------------------------------- */

/* Blocks of columns in all parts. */
static size_t all_column_blocks(const struct product *p) {
    const size_t whole = p->N / p->part_columns, rest = p->N % p->part_columns;
    return whole * qkv_pieces(p->part_columns, p->columns) + qkv_pieces(rest, p->columns);
}

static void gemm_bf16_run(struct qkv_context *ctx, struct product *p) {
    qkv_epilogue_begin(ctx, p->call, p->counts, p->row_blocks, all_column_blocks(p));
    const bool ahead = p->packed != NULL;
    const size_t nr = p->kernels->nr, all = qkv_round_up(p->N, nr);
    const uint32_t *packed = p->packed;
    for (p->k_begin = 0; p->k_begin < p->K; p->k_begin = p->k_end) {
        p->k_end = qkv_min(p->K, p->k_begin + p->part_terms);
        if (p->share_a) qkv_parallel(ctx, p->row_blocks, pack_a_item, p);
        for (p->n_begin = 0; p->n_begin < p->N; p->n_begin = p->n_end) {
            p->n_end = qkv_min(p->N, p->n_begin + p->part_columns);
            p->packed = ahead ? packed + words_before(p->k_begin, all) : p->packed_b;
            if (!ahead) pack_b_part(ctx, p);
            qkv_parallel(ctx, p->row_blocks * qkv_pieces(p->n_end - p->n_begin, p->columns), block_item, p);
        }
    }
}

static bool gemm_bf16_take(struct qkv_context *ctx, struct qkv_arena *scratch, struct product *p) {
    const size_t threads = (size_t)ctx->threads;
    const bool counts = p->call->epilogue.kind != QKV_EPILOGUE_none;
    p->sums = qkv_arena_take(scratch, threads * p->sums_floats, sizeof(float));
    p->staging = qkv_arena_take(scratch, threads * p->staging_floats, sizeof(float));
    p->packed_a = qkv_arena_take(scratch, p->share_a ? p->row_blocks : threads, p->a_bytes);
    const size_t words =
        p->packed ? 0 : qkv_round_up(p->part_columns, p->kernels->nr) * pairs_of(p->kernels, p->part_terms);
    p->packed_b = qkv_arena_take(scratch, words, sizeof(uint32_t));
    if (counts) p->counts = qkv_arena_take(scratch, p->row_blocks, sizeof *p->counts);
    return p->sums && p->staging && p->packed_a && p->packed_b && (!counts || p->counts);
}

enum qkv_status qkv_gemm_bf16(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_product_call *call) {
    if (call->M == 0 || call->N == 0) return QKV_OK;
    struct product p = {.kernels = ctx->kernels->bf16,
                        .table = ctx->kernels,
                        .call = call,
                        .stored = call->stored,
                        .c = call->c,
                        .ldc = call->ldc,
                        .c_size = qkv_type_size(call->dtype),
                        .a = call->a,
                        .b = call->b,
                        .M = call->M,
                        .N = call->N,
                        .K = call->K,
                        .packed = call->packed,
                        .stored_block = call->stored.weights ? qkv_stored_block(call->stored.weights) : 1};
    assert(p.K > 0);
    assert(p.a.row_stride == 1 || p.a.column_stride == 1);
    assert(p.packed || p.b.row_stride == 1 || p.b.column_stride == 1);
    if (p.M <= p.kernels->few_rows && p.packed && p.a.column_stride == 1) return run_few(ctx, scratch, &p);
    gemm_bf16_plan(ctx, &p);
    const size_t mark = qkv_arena_mark(scratch);
    const bool taken = gemm_bf16_take(ctx, scratch, &p);
    if (taken) gemm_bf16_run(ctx, &p);
    qkv_arena_release(scratch, mark);
    return taken ? QKV_OK : QKV_MEMORY;
}
