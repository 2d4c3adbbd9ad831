/* gemm: the driver of the matrix product: how C is cut, what is packed when, and the threads.
 *
 * C is cut into blocks of rows × columns, which are the items; K is cut into runs of about KC terms, so that the panels
 * being read stay in cache. B is packed once by all threads for all threads, a part of at most PACKED_FLOATS at a time.
 * If C is only one block high, each item instead packs its own columns just before it uses them, and B streams from
 * memory once. A run of K starts from zero, and its sums are added to C at its end: errors grow with the length of a
 * run and the number of runs, not with K. Where the second cache has room for A in several runs, these follow each
 * other in each panel of B, so that C comes from memory once for all of them. Runs are cut by K alone, so no bit
 * depends on the other cuts, nor on the number of threads. */
#include <assert.h>
#include <string.h>

#include "kernel/epilogue.h"
#include "kernel/isa/gemm.h"

enum {
    KC = QKV_GEMM_RUN_MAX,       /* terms a run */
    BLOCK_ROWS = 256,            /* a block has at most so many rows, */
    ROW_PANELS = 8,              /* and at most max(ROW_PANELS, what L2 allows) panels of A; */
    ROW_COST = 16,               /* packing a number of A again takes so many times the time of reading one of B */
    L2_SHARES = 10,              /* panels of A in a block may fill 3/L2_SHARES of L2 */
    B_SHARES = 4,                /* 1/B_SHARES of L2 holds B while panels of A pass by */
    ACROSS_QUARTERS = 3,         /* a run of A and B that is not packed may fill ACROSS_QUARTERS/4 of L2 */
    ACROSS_BYTES = 768 * 1024,   /* and no more than this, whose pages the processor still finds quickly */
    ONE_BLOCK_PANELS = 16,       /* C of at most so many row panels is one block high */
    COLUMN_PANELS = 16,          /* maximum of panels of B that an item packs for itself */
    PACK_PANELS = 4,             /* panels of B packed by one item */
    ITEM_CYCLES = 8000,          /* minimum of an item's work: a few times the cost of waking a thread */
    ITEMS_A_THREAD = 4,          /* so that the wait for the last thread is short */
    PACKED_FLOATS = 1024 * 1024, /* maximum of floats of B packed at a time */
    STORED_COLUMNS = 16          /* columns of stored weights converted at a time for a run of K, without packing */
};

struct product {
    const struct qkv_gemm_kernels *kernels;
    const struct qkv_kernels *table;
    float *c;
    size_t ldc;
    struct qkv_matrix a, b;
    size_t M, N, K;
    const struct qkv_product_call *call;
    const struct qkv_stored *weights; /* of B, or NULL */
    size_t kc;                        /* terms a run */
    size_t stored_block;              /* numbers in the largest block of stored weights; 1 without them */
    size_t row_panels, column_panels; /* numbers of panels of `height` rows, and of nr columns */
    size_t height;                    /* rows of a panel of A */
    size_t row_blocks, column_blocks; /* the items */
    bool shared;                      /* all threads pack B before the items */
    bool in_place;                    /* A is read without packing */
    bool across;                      /* A and B are read without packing; both are contiguous across the terms */
    bool row_by_row;                  /* B stays in the second cache while panels of A pass by in the first */
    size_t runs;                      /* runs of A that are packed together */
    size_t part_columns, part_terms;  /* B packed at a time, if shared */
    size_t n_begin, n_end;            /* the current part of B */
    size_t k_begin, k_end;
    float *packed_b;            /* one if shared, else one for each thread */
    float *packed_a;            /* one for each thread */
    size_t b_floats, a_floats;  /* floats for each thread */
    qkv_epilogue_count *counts; /* one for each block of rows; NULL without an epilogue */
};

/* The beginning of the i-th of `count` nearly equal shares of n. */
static size_t gemm_share(size_t n, size_t count, size_t i) {
    return n / count * i + qkv_min(i, n % count);
}

size_t qkv_gemm_run_length(size_t K) {
    return K ? qkv_round_up(qkv_pieces(K, qkv_pieces(K, KC)), 16) : 0;
}

/* ---- plan ------------------------------------------------------------------------------------------------------- */

/* The number of items to cut the work into: several a thread, but none so small that handing it out costs more. */
static size_t wanted_items(const struct product *p, size_t threads) {
    const double M = (double)p->M, N = (double)p->N, K = (double)p->K;
    const double cycles = K * (M * N / 16 + (M + N) / 3), items = cycles / ITEM_CYCLES;
    if (threads == 1 || items < 2) return 1;
    const size_t count = items < (double)(threads * ITEMS_A_THREAD) ? (size_t)items : threads * ITEMS_A_THREAD;
    return count < threads ? count : count / threads * threads;
}

/* Numbers of A that may be packed for a block. */
static size_t packed_a_limit(const struct qkv_context *ctx) {
    return (ctx->l2 ? ctx->l2 : 512 * 1024) * 3 / L2_SHARES / sizeof(float);
}

/* Blocks of rows: with `items` items, each row of A is packed items/blocks times, and each column of B is read `blocks`
 * times. The blocks divide the items, and are no higher than `max_panels`. */
static size_t choose_row_blocks(const struct product *p, size_t items, size_t threads, size_t max_panels) {
    const double limit = (double)items * ROW_COST * (double)p->M / (double)p->N;
    size_t blocks = 1;
    for (size_t b = 2; b <= items && (double)(b * b) <= limit; b++)
        if (items % b == 0) blocks = b;
    const size_t least = qkv_pieces(p->row_panels, max_panels);
    if (blocks < least) blocks = items > 1 ? qkv_round_up(least, threads) : least;
    return qkv_min(blocks, p->row_panels);
}

static void plan_blocks(const struct qkv_context *ctx, struct product *p) {
    const size_t threads = (size_t)ctx->threads, fit = packed_a_limit(ctx) / KC;
    const size_t max_panels = qkv_max(qkv_min(fit, BLOCK_ROWS) / p->kernels->mr, ROW_PANELS);
    const size_t mr = p->kernels->mr, nr = p->kernels->nr, items = wanted_items(p, threads);
    p->row_panels = qkv_pieces(p->M, mr);
    p->height = qkv_pieces(p->M, p->row_panels);
    p->row_panels = qkv_pieces(p->M, p->height);
    p->column_panels = qkv_pieces(p->N, nr);
    p->shared = p->row_panels > ONE_BLOCK_PANELS || p->stored_block > 1; /* blocks span items */
    if (p->shared) {
        p->row_blocks = choose_row_blocks(p, items, threads, max_panels);
        p->column_blocks = qkv_min(qkv_pieces(items, p->row_blocks), qkv_max(p->column_panels / 4, 1));
    } else {
        p->row_blocks = 1;
        p->column_blocks = qkv_min(qkv_max(qkv_pieces(p->column_panels, COLUMN_PANELS), items), p->column_panels);
    }
}

bool qkv_gemm_across(const struct qkv_context *ctx, size_t a_stride, size_t b_stride, size_t N) {
    const struct qkv_gemm_kernels *kernels = ctx->kernels->gemm;
    const size_t l2 = ctx->l2 ? ctx->l2 : 512 * 1024;
    return kernels->row_by_row && N % kernels->nr == 0 &&
           a_stride + b_stride <= qkv_min(l2 / 4 * ACROSS_QUARTERS, ACROSS_BYTES) / (KC * sizeof(float));
}

static void gemm_plan(const struct qkv_context *ctx, struct product *p) {
    const size_t nr = p->kernels->nr, l2 = ctx->l2 ? ctx->l2 : 512 * 1024;
    p->kc = qkv_gemm_run_length(p->K);
    plan_blocks(ctx, p);
    p->part_columns = p->column_panels * nr;
    p->part_terms = qkv_max(p->K, 1);
    const size_t terms = qkv_max(p->kc, 1);
    if (p->shared) {
        const bool along_terms = p->stored_block > 1 && p->call->stored.transposed;
        const size_t unit = along_terms ? nr : qkv_max(nr, p->stored_block), deep = along_terms ? p->K : terms;
        p->part_columns = qkv_min(p->part_columns, qkv_max(PACKED_FLOATS / deep / unit * unit, unit));
        if (!along_terms) p->part_terms = qkv_min(p->part_terms, PACKED_FLOATS / p->part_columns / terms * terms);
        p->b_floats = qkv_min(p->part_terms, p->K) * p->part_columns;
    } else {
        p->b_floats = p->kc * qkv_pieces(p->column_panels, p->column_blocks) * nr;
    }
    const size_t columns = qkv_pieces(p->part_columns, p->column_blocks);
    const bool along = p->a.column_stride == 1;
    p->across = !along && p->b.column_stride == 1 && !p->weights &&
                qkv_gemm_across(ctx, p->a.column_stride, p->b.row_stride, p->N);
    p->row_by_row = p->across || (p->kernels->row_by_row && along && columns > nr &&
                                  columns * p->kc <= l2 / sizeof(float) / B_SHARES);
    p->in_place = along && (p->row_by_row || columns <= 4 * nr);
    const size_t rows = qkv_pieces(p->row_panels, p->row_blocks) * p->height;
    p->runs = 1;
    if (p->shared && !p->in_place && !p->across && p->kc)
        p->runs = qkv_max(qkv_min(packed_a_limit(ctx) / (rows * p->kc), qkv_pieces(p->part_terms, p->kc)), 1);
    p->a_floats = p->in_place ? 0 : p->runs * qkv_round_up(rows * p->kc, 16);
    p->b_floats = qkv_round_up(p->b_floats, 16);
    if (p->across) p->a_floats = p->b_floats = 0;
}

/* ---- work items ------------------------------------------------------------------------------------------------- */

static struct qkv_matrix gemm_at(struct qkv_matrix m, size_t row, size_t column) {
    m.data += row * m.row_stride + column * m.column_stride;
    return m;
}

/* Where pieces of stored weights are packed: runs from `k` on, panels from `n` on, `width` columns in all. */
struct stored_panels {
    const struct product *p;
    float *out;
    size_t k, k_end, n, width;
};

static void pack_piece(void *user, const struct qkv_stored_piece *piece) {
    const struct stored_panels *to = user;
    const struct product *p = to->p;
    const size_t run = piece->k / p->kc * p->kc, terms = qkv_min(p->kc, to->k_end - run);
    float *out = to->out + (run - to->k) * to->width + (piece->n - to->n) * terms;
    p->kernels->pack_b(out + (piece->k - run) * p->kernels->nr, piece->data, piece->terms, piece->columns);
}

/* Terms [k, k + terms) of columns [n, n + columns) of B, of one run, into panels. */
static void gemm_pack_b(const struct product *p, float *out, size_t k, size_t n, size_t terms, size_t columns) {
    const struct qkv_stored_cut cut = {k, terms, n, columns, p->kc, p->kernels->nr};
    struct stored_panels to = {p, out, k, k + terms, n, qkv_round_up(columns, p->kernels->nr)};
    if (p->weights)
        qkv_stored_pieces(p->table, p->call->stored, &cut, pack_piece, &to);
    else
        p->kernels->pack_b(out, gemm_at(p->b, k, n), terms, columns);
}

/* Columns that an item packs: some panels, and whole blocks where blocks lie along the columns. */
static size_t pack_columns(const struct product *p) {
    const size_t panels = PACK_PANELS * p->kernels->nr;
    return p->call->stored.transposed ? panels : qkv_max(panels, p->stored_block);
}

/* Packs a few panels of B over one run of K. The part is laid out run by run, panel by panel. */
static void pack_item(void *argument, size_t item, int thread) {
    (void)thread;
    const struct product *p = argument;
    const size_t nr = p->kernels->nr, width = qkv_round_up(p->n_end - p->n_begin, nr), columns = pack_columns(p);
    const size_t groups = qkv_pieces(p->n_end - p->n_begin, columns);
    const size_t k = p->k_begin + item / groups * p->kc, n = item % groups * columns;
    const size_t terms = qkv_min(p->kc, p->k_end - k);
    gemm_pack_b(p, p->packed_b + (k - p->k_begin) * width + n * terms, k, p->n_begin + n, terms,
                qkv_min(columns, p->n_end - p->n_begin - n));
}

/* The same over all runs of the part, for blocks that lie in two runs. */
static void pack_blocks_item(void *argument, size_t item, int thread) {
    (void)thread;
    const struct product *p = argument;
    const size_t columns = pack_columns(p), n = p->n_begin + item * columns;
    const struct qkv_stored_cut cut = {.k = p->k_begin,
                                       .terms = p->k_end - p->k_begin,
                                       .n = n,
                                       .columns = qkv_min(columns, p->n_end - n),
                                       .run = p->kc,
                                       .nr = p->kernels->nr};
    struct stored_panels to = {p,        p->packed_b, p->k_begin,
                               p->k_end, p->n_begin,  qkv_round_up(p->n_end - p->n_begin, p->kernels->nr)};
    qkv_stored_pieces(p->table, p->call->stored, &cut, pack_piece, &to);
}

/* A corner of C: rows and columns, of the current part of B, of an item. */
struct corner {
    size_t m, m_end, n, n_end;
    int thread;
};

static float *corner_packed_a(const struct product *p, const struct corner *c, size_t run) {
    return p->packed_a + (size_t)c->thread * p->a_floats + run * (p->a_floats / p->runs);
}

/* The run from k on of columns [n, …) of the shared part of B. */
static const float *shared_panel(const struct product *p, size_t k, size_t n) {
    const size_t width = qkv_round_up(p->n_end - p->n_begin, p->kernels->nr);
    return p->packed_b + (k - p->k_begin) * width + n * qkv_min(p->kc, p->k_end - k);
}

/* Columns [n, n + columns) of a corner, over the run from k on. `run`: which of those of A that are packed. */
static struct qkv_gemm_block corner_block(const struct product *p, const struct corner *c, size_t k, size_t run,
                                          size_t n, size_t columns) {
    struct qkv_gemm_block block = {.rows = c->m_end - c->m,
                                   .columns = columns,
                                   .K = qkv_min(p->kc, p->k_end - k),
                                   .height = p->height,
                                   .row_by_row = p->row_by_row,
                                   .c = p->c + c->m * p->ldc + p->n_begin + n,
                                   .ldc = p->ldc,
                                   .resume = k > 0 || p->call->accumulate};
    if (p->across) {
        block.a = gemm_at(p->a, c->m, k).data;
        block.a_across = p->a.column_stride;
    } else if (p->in_place) {
        block.a = gemm_at(p->a, c->m, k).data;
        block.a_stride = p->a.row_stride;
    } else {
        block.a = corner_packed_a(p, c, run);
    }
    if (p->across) {
        block.b = gemm_at(p->b, k, p->n_begin + n).data;
        block.b_across = p->b.row_stride;
    } else if (p->shared) {
        block.b = shared_panel(p, k, n);
    } else {
        float *own = p->packed_b + (size_t)c->thread * p->b_floats;
        gemm_pack_b(p, own, k, p->n_begin + n, block.K, columns);
        block.b = own;
    }
    block.bias = p->call->bias && k + block.K == p->K ? p->call->bias + p->n_begin + n : NULL;
    return block;
}

/* Runs [k, end) of a corner, panel by panel: the runs of a panel follow each other. */
static void corner_panels(const struct product *p, const struct corner *c, size_t k, size_t end) {
    const size_t nr = p->kernels->nr;
    for (size_t n = c->n; n < c->n_end; n += nr) {
        for (size_t r = k, run = 0; r < end; r += p->kc, run++) {
            struct qkv_gemm_block block = corner_block(p, c, r, run, n, qkv_min(nr, c->n_end - n));
            if (r + p->kc < end)
                block.next_panel = shared_panel(p, r + p->kc, n);
            else if (n + nr < c->n_end)
                block.next_panel = shared_panel(p, k, n + nr);
            p->kernels->block(&block);
        }
    }
}

/* Multiplies a corner by the whole part of B. */
static void corner_multiply(const struct product *p, const struct corner *c) {
    size_t k = p->k_begin, end;
    do {
        end = qkv_min(p->k_end, k + p->runs * p->kc);
        for (size_t r = k, run = 0; p->a_floats && r < end; r += p->kc, run++)
            p->kernels->pack_a(corner_packed_a(p, c, run), gemm_at(p->a, c->m, r), c->m_end - c->m,
                               qkv_min(p->kc, end - r), p->height);
        if (p->runs > 1) {
            corner_panels(p, c, k, end);
        } else {
            const struct qkv_gemm_block block = corner_block(p, c, k, 0, c->n, c->n_end - c->n);
            p->kernels->block(&block);
        }
        k = end;
    } while (k < p->k_end);
}

static void block_item(void *argument, size_t item, int thread) {
    const struct product *p = argument;
    const size_t nr = p->kernels->nr, panels = qkv_pieces(p->n_end - p->n_begin, nr);
    const size_t row_block = item % p->row_blocks, column_block = item / p->row_blocks;
    const size_t m = gemm_share(p->row_panels, p->row_blocks, row_block) * p->height;
    const size_t m_end = qkv_min(gemm_share(p->row_panels, p->row_blocks, row_block + 1) * p->height, p->M);
    const size_t n = gemm_share(panels, p->column_blocks, column_block) * nr;
    const size_t n_end = qkv_min(gemm_share(panels, p->column_blocks, column_block + 1) * nr, p->n_end - p->n_begin);
    const struct corner corner = {m, m_end, n, n_end, thread};
    if (m < m_end && n < n_end) corner_multiply(p, &corner);
    if (p->k_end == p->K)
        qkv_epilogue_block(p->table, p->call, p->counts, row_block, m, m_end > m ? m_end - m : 0, p->n_begin + n,
                           n_end > n ? n_end - n : 0);
}

/* ---- few rows -------------------------------------------------------------------------------------------------- */

/* Columns [n, end) over all terms; the caller sets B. */
static struct qkv_gemm_few few_of(const struct product *p, size_t n, size_t end) {
    return (struct qkv_gemm_few){.rows = p->M,
                                 .columns = end - n,
                                 .K = p->K,
                                 .run = p->kc,
                                 .a = p->a,
                                 .across = p->packed_a,
                                 .c = p->c + n,
                                 .ldc = p->ldc,
                                 .accumulate = p->call->accumulate,
                                 .bias = p->call->bias ? p->call->bias + n : NULL};
}

/* Columns of stored weights: converts one run at a time into the first cache. If a block continues in the next run, its
 * rest is kept behind the run. */
static void few_converted(const struct product *p, size_t n, size_t end) {
    float floats[STORED_COLUMNS * (KC + QKV_TYPE_BLOCK_MAX)];
    const size_t block = p->stored_block, stride = p->kc + block;
    for (; n < end; n += STORED_COLUMNS) {
        const size_t columns = qkv_min(STORED_COLUMNS, end - n);
        size_t have = 0; /* terms that are converted */
        for (size_t k = 0; k < p->K; k += p->kc) {
            const size_t terms = qkv_min(p->kc, p->K - k), want = qkv_min(qkv_round_up(k + terms, block), p->K);
            for (size_t i = 0; i < columns; i++) {
                float *row = floats + i * stride;
                if (have > k) memmove(row, row + p->kc, (have - k) * sizeof *row);
                if (want > have) qkv_stored_floats(p->table, p->weights, n + i, have, want - have, row + (have - k));
            }
            have = want;
            struct qkv_gemm_few few = few_of(p, n, n + columns);
            few.K = terms;
            few.a = gemm_at(p->a, 0, k);
            if (few.across) few.across += k * QKV_FEW_ROWS;
            few.b = floats;
            few.b_stride = stride;
            few.accumulate = p->call->accumulate || k > 0;
            if (k + terms < p->K) few.bias = NULL;
            p->kernels->few(&few);
        }
    }
}

/* Columns of stored weights, part by part: by the type's own product, where it has one. */
static void few_stored(const struct product *p, size_t n, size_t end) {
    const struct qkv_stored *weights = p->weights;
    for (size_t stop; n < end; n = stop) {
        size_t row = n;
        const struct qkv_stored_part *part = qkv_stored_part_of(weights, &row);
        stop = qkv_min(end, n + part->rows - row);
        void (*own)(const struct qkv_gemm_few *few) = p->table->types[part->dtype].few;
        if (!own) {
            few_converted(p, n, stop);
            continue;
        }
        struct qkv_gemm_few few = few_of(p, n, stop);
        few.b = (const char *)part->data + row * qkv_type_span(part->dtype, weights->columns);
        few.b_stride = weights->columns;
        own(&few);
    }
}

static void few_floats(const struct product *p, size_t n, size_t end) {
    struct qkv_gemm_few few = few_of(p, n, end);
    few.b = gemm_at(p->b, 0, n).data;
    few.b_stride = p->b.column_stride;
    p->kernels->few(&few);
}

static void few_item(void *argument, size_t item, int thread) {
    (void)thread;
    const struct product *p = argument;
    const size_t nr = p->kernels->nr;
    const size_t n = gemm_share(p->column_panels, p->column_blocks, item) * nr;
    const size_t end = qkv_min(gemm_share(p->column_panels, p->column_blocks, item + 1) * nr, p->N);
    if (p->weights)
        few_stored(p, n, end);
    else
        few_floats(p, n, end);
    qkv_epilogue_block(p->table, p->call, p->counts, 0, 0, p->M, n, end - n);
}

/* Rows of A side by side: rows that lie far apart would often share a set of the first cache, also with columns of B. */
static void few_across(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    const struct product *p = argument;
    memset(p->packed_a, 0, p->K * QKV_FEW_ROWS * sizeof *p->packed_a);
    for (size_t m = 0; m < p->M; m++) {
        const float *row = p->a.data + m * p->a.row_stride;
        for (size_t k = 0; k < p->K; k++) p->packed_a[k * QKV_FEW_ROWS + m] = row[k];
    }
}

static enum qkv_status run_few(struct qkv_context *ctx, struct qkv_arena *scratch, struct product *p) {
    const size_t mark = qkv_arena_mark(scratch);
    if (p->M > QKV_FEW_PAIR) {
        p->packed_a = qkv_arena_take(scratch, p->K, QKV_FEW_ROWS * sizeof(float));
        if (!p->packed_a) return QKV_MEMORY;
        qkv_parallel(ctx, 1, few_across, p);
    }
    p->kc = qkv_gemm_run_length(p->K);
    p->column_panels = qkv_pieces(p->N, p->kernels->nr);
    p->column_blocks = qkv_min(wanted_items(p, (size_t)ctx->threads), p->column_panels);
    qkv_epilogue_count count;
    p->counts = &count;
    qkv_epilogue_begin(ctx, p->call, p->counts, 1, p->column_blocks);
    qkv_parallel(ctx, p->column_blocks, few_item, p);
    qkv_arena_release(scratch, mark);
    return QKV_OK;
}

/* ---- product ---------------------------------------------------------------------------------------------------- */

static void gemm_run(struct qkv_context *ctx, struct product *p) {
    qkv_epilogue_begin(ctx, p->call, p->counts, p->row_blocks, p->column_blocks * qkv_pieces(p->N, p->part_columns));
    for (p->n_begin = 0; p->n_begin < p->N; p->n_begin = p->n_end) {
        p->n_end = qkv_min(p->N, p->n_begin + p->part_columns);
        p->k_begin = 0;
        do {
            p->k_end = qkv_min(p->K, p->k_begin + p->part_terms);
            if (p->shared && !p->across) {
                const size_t runs = p->kc ? qkv_pieces(p->k_end - p->k_begin, p->kc) : 0;
                const size_t groups = qkv_pieces(p->n_end - p->n_begin, pack_columns(p));
                if (p->stored_block > 1)
                    qkv_parallel(ctx, groups, pack_blocks_item, p);
                else
                    qkv_parallel(ctx, runs * groups, pack_item, p);
            }
            qkv_parallel(ctx, p->row_blocks * p->column_blocks, block_item, p);
            p->k_begin = p->k_end;
        } while (p->k_begin < p->K);
    }
}

static struct qkv_matrix gemm_matrix(const struct qkv_operand *x) {
    return (struct qkv_matrix){x->data, x->row_stride, x->column_stride};
}

enum qkv_status qkv_gemm(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_product_call *call) {
    if (call->M == 0 || call->N == 0) return QKV_OK;
    const bool reads = call->K > 0; /* else nothing is read, but the kernels need an address */
    const struct qkv_stored *weights = reads ? call->stored.weights : NULL;
    const struct qkv_matrix none = {.data = call->c};
    struct product p = {.kernels = ctx->kernels->gemm,
                        .table = ctx->kernels,
                        .call = call,
                        .weights = weights,
                        .c = call->c,
                        .ldc = call->ldc,
                        .a = reads ? gemm_matrix(&call->a) : none,
                        .b = reads ? gemm_matrix(&call->b) : none,
                        .M = call->M,
                        .N = call->N,
                        .K = call->K,
                        .stored_block = weights ? qkv_stored_block(weights) : 1};
    assert(!reads || p.a.row_stride == 1 || p.a.column_stride == 1);
    assert(!reads || p.b.row_stride == 1 || p.b.column_stride == 1);
    assert(call->dtype == QKV_F32 && (!reads || call->a.dtype == QKV_F32));
    if (p.M <= QKV_FEW_ROWS && p.a.column_stride == 1 && (weights ? call->stored.transposed : p.b.row_stride == 1))
        return run_few(ctx, scratch, &p);
    gemm_plan(ctx, &p);
    const size_t mark = qkv_arena_mark(scratch), threads = (size_t)ctx->threads;
    p.packed_b = qkv_arena_take(scratch, p.shared ? 1 : threads, p.b_floats * sizeof(float));
    p.packed_a = p.packed_b ? qkv_arena_take(scratch, threads, p.a_floats * sizeof(float)) : NULL;
    bool taken = p.packed_a != NULL;
    if (taken && call->epilogue.kind != QKV_EPILOGUE_none) {
        p.counts = qkv_arena_take(scratch, p.row_blocks, sizeof *p.counts);
        taken = p.counts != NULL;
    }
    if (taken) gemm_run(ctx, &p);
    qkv_arena_release(scratch, mark);
    return taken ? QKV_OK : QKV_MEMORY;
}
