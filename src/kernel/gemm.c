/* gemm: the driver of the matrix product: how C is cut, what is packed when, and the threads.
 *
 * C is cut into blocks of rows × columns, which are the items; K is cut into runs of about KC terms, so that the panels
 * being read stay in cache. B is packed once by all threads for all threads, part by part: a thread that finds no block
 * of C left to multiply by one part packs a piece of the next one, so threads seldom wait. If C is only one block high,
 * each item instead packs its own columns just before it uses them, and B streams from memory once. A run of K starts
 * from zero, and its sums are added to C at its end: errors grow with the length of a run and the number of runs, not
 * with K. Where the second cache has room for A in several runs, these follow each other in each panel of B, so that C
 * comes from memory once for all of them. Runs are cut by K alone, so no bit depends on the other cuts, nor on the
 * number of threads. A few rows, as in decoding, go through gemm_few.c. */
#include <assert.h>

#include "kernel/epilogue.h"
#include "kernel/gemm_driver.h"

enum {
    KC = QKV_GEMM_RUN_MAX,     /* terms a run */
    BLOCK_ROWS = 256,          /* a block has at most so many rows, */
    ROW_PANELS = 8,            /* and at most max(ROW_PANELS, what L2 allows) panels of A; */
    ROW_COST = 16,             /* packing a number of A again takes so many times the time of reading one of B */
    L2_SHARES = 10,            /* panels of A in a block may fill 3/L2_SHARES of L2 */
    B_SHARES = 4,              /* 1/B_SHARES of L2 holds B while panels of A pass by */
    ACROSS_QUARTERS = 3,       /* a run of A and B that is not packed may fill ACROSS_QUARTERS/4 of L2 */
    ACROSS_BYTES = 768 * 1024, /* and no more than this, whose pages the processor still finds quickly */
    ONE_BLOCK_PANELS = 16,     /* C of at most so many row panels is one block high */
    COLUMN_PANELS = 16,        /* maximum of panels of B that an item packs for itself */
    PACK_PANELS = 4,           /* panels of B packed by one item */
    PART_FLOATS = 1024 * 1024  /* maximum of floats of a part of B, unless the smallest part has more */
};

/* A part of B: columns [n, n_end) over the terms [k, k_end). */
struct part {
    size_t n, n_end, k, k_end;
    float *b; /* where it is packed, if that is for all threads: run by run, panel by panel */
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
    bool shared;                      /* all threads pack B for all threads, part by part */
    bool in_place;                    /* A is read without packing */
    bool across;                      /* A and B are read without packing; both are contiguous across the terms */
    bool row_by_row;                  /* B stays in the second cache while panels of A pass by in the first */
    size_t runs;                      /* runs of A that are packed together */
    size_t part_columns, part_terms;  /* of the largest part */
    struct part now, next;            /* the part that is multiplied, and the one that is packed; n == n_end: none */
    float *packed_b;                  /* one or two parts if shared, else one buffer for each thread */
    float *packed_a;                  /* one for each thread */
    size_t b_floats, a_floats;        /* of one part or thread, and of one thread */
    size_t b_count;                   /* number of parts or threads that have a buffer */
    qkv_epilogue_count *counts;       /* one for each block of rows; NULL without an epilogue */
};

/* ---- plan ------------------------------------------------------------------------------------------------------- */

/* Numbers of A that may be packed for a block. */
static size_t packed_a_limit(const struct qkv_context *ctx) {
    return (ctx->l2 ? ctx->l2 : 512 * 1024) * 3 / L2_SHARES / sizeof(float);
}

/* Blocks of rows: with `items` items, each row of A is packed items/blocks times, and each column of B is read `blocks`
 * times. The blocks divide the items, unless there must be more so that none is higher than `max_panels`. */
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
    const size_t mr = p->kernels->mr, nr = p->kernels->nr, items = qkv_gemm_items(p->call, threads);
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

/* Parts of a shared B: as few as possible, of whole runs, as wide as each other. A part that lies along the terms of
 * blocks has all of them. */
static void plan_parts(struct product *p) {
    const size_t nr = p->kernels->nr, terms = qkv_max(p->kc, 1), width = p->column_panels * nr;
    p->part_columns = width;
    p->part_terms = qkv_max(p->K, 1);
    if (!p->across && p->part_terms > PART_FLOATS / width) {
        const bool along_terms = p->stored_block > 1 && p->call->stored.transposed;
        const size_t unit = along_terms ? nr : qkv_max(nr, p->stored_block), deep = along_terms ? p->K : terms;
        const size_t most = qkv_max(PART_FLOATS / deep / unit * unit, unit);
        p->part_columns = qkv_min(width, qkv_round_up(qkv_pieces(width, qkv_pieces(width, most)), unit));
        if (!along_terms)
            p->part_terms = qkv_min(p->part_terms, qkv_max(PART_FLOATS / p->part_columns / terms, 1) * terms);
    }
    p->b_floats = qkv_min(p->part_terms, p->K) * p->part_columns;
    p->b_count = p->part_columns < p->N || p->part_terms < p->K ? 2 : 1;
}

static void plan_own_columns(const struct qkv_context *ctx, struct product *p) {
    p->part_columns = p->column_panels * p->kernels->nr;
    p->part_terms = qkv_max(p->K, 1);
    p->b_floats = p->kc * qkv_pieces(p->column_panels, p->column_blocks) * p->kernels->nr;
    p->b_count = (size_t)ctx->threads;
}

static void gemm_plan(const struct qkv_context *ctx, struct product *p) {
    const size_t nr = p->kernels->nr, l2 = ctx->l2 ? ctx->l2 : 512 * 1024;
    const bool along = p->a.column_stride == 1;
    p->kc = qkv_gemm_run_length(p->K);
    p->across = !along && p->b.column_stride == 1 && !p->weights &&
                qkv_gemm_across(ctx, p->a.column_stride, p->b.row_stride, p->N);
    plan_blocks(ctx, p);
    if (p->shared)
        plan_parts(p);
    else
        plan_own_columns(ctx, p);
    const size_t columns = qkv_pieces(p->part_columns, p->column_blocks);
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
        p->kernels->pack_b(out, qkv_gemm_at(p->b, k, n), terms, columns);
}

/* Columns that an item packs: some panels, or one where it converts blocks along all terms, and whole blocks where
 * they lie along the columns. */
static size_t pack_columns(const struct product *p) {
    const size_t nr = p->kernels->nr;
    if (p->call->stored.transposed) return p->stored_block > 1 ? nr : PACK_PANELS * nr;
    return qkv_max(PACK_PANELS * nr, p->stored_block);
}

/* The groups of columns of a part that are packed together. */
static size_t pack_groups(const struct product *p, const struct part *part) {
    return qkv_pieces(part->n_end - part->n, pack_columns(p));
}

/* Packs some columns of the next part: over one run of K, or over all runs, for blocks that lie in two. */
static void pack_item(const struct product *p, size_t item) {
    const struct part *to = &p->next;
    const size_t nr = p->kernels->nr, width = qkv_round_up(to->n_end - to->n, nr), groups = pack_groups(p, to);
    const size_t n = item % groups * pack_columns(p), columns = qkv_min(pack_columns(p), to->n_end - to->n - n);
    if (p->stored_block > 1) {
        const struct qkv_stored_cut cut = {to->k, to->k_end - to->k, to->n + n, columns, p->kc, nr};
        struct stored_panels panels = {p, to->b, to->k, to->k_end, to->n, width};
        qkv_stored_pieces(p->table, p->call->stored, &cut, pack_piece, &panels);
        return;
    }
    const size_t k = item / groups * p->kc, terms = qkv_min(p->kc, to->k_end - to->k - k);
    gemm_pack_b(p, to->b + k * width + n * terms, to->k + k, to->n + n, terms, columns);
}

/* The items that pack the next part; 0: there is none. */
static size_t pack_items(const struct product *p) {
    const struct part *part = &p->next;
    if (!p->shared || p->across || part->n == part->n_end || !p->kc) return 0;
    return pack_groups(p, part) * (p->stored_block > 1 ? 1 : qkv_pieces(part->k_end - part->k, p->kc));
}

/* A corner of C: rows and columns, of the part that is multiplied, of an item. */
struct corner {
    size_t m, m_end, n, n_end;
    int thread;
};

static float *corner_packed_a(const struct product *p, const struct corner *c, size_t run) {
    return p->packed_a + (size_t)c->thread * p->a_floats + run * (p->a_floats / p->runs);
}

/* The run from k on of columns [n, …) of the part. */
static const float *shared_panel(const struct product *p, size_t k, size_t n) {
    const struct part *part = &p->now;
    return part->b + (k - part->k) * qkv_round_up(part->n_end - part->n, p->kernels->nr) +
           n * qkv_min(p->kc, part->k_end - k);
}

/* Columns [n, n + columns) of a corner, over the run from k on, which is number `run` of the packed runs of A. Packs
 * these columns of B if that is not shared. */
static struct qkv_gemm_block corner_block(const struct product *p, const struct corner *c, size_t k, size_t run,
                                          size_t n, size_t columns) {
    struct qkv_gemm_block block = {.rows = c->m_end - c->m,
                                   .columns = columns,
                                   .K = qkv_min(p->kc, p->now.k_end - k),
                                   .height = p->height,
                                   .row_by_row = p->row_by_row,
                                   .c = p->c + c->m * p->ldc + p->now.n + n,
                                   .ldc = p->ldc,
                                   .resume = k > 0 || p->call->accumulate};
    if (p->across) {
        block.a = qkv_gemm_at(p->a, c->m, k).data;
        block.a_across = p->a.column_stride;
    } else if (p->in_place) {
        block.a = qkv_gemm_at(p->a, c->m, k).data;
        block.a_stride = p->a.row_stride;
    } else {
        block.a = corner_packed_a(p, c, run);
    }
    if (p->across) {
        block.b = qkv_gemm_at(p->b, k, p->now.n + n).data;
        block.b_across = p->b.row_stride;
    } else if (p->shared) {
        block.b = shared_panel(p, k, n);
    } else {
        float *own = p->packed_b + (size_t)c->thread * p->b_floats;
        gemm_pack_b(p, own, k, p->now.n + n, block.K, columns);
        block.b = own;
    }
    block.bias = p->call->bias && k + block.K == p->K ? p->call->bias + p->now.n + n : NULL;
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
    size_t k = p->now.k, end;
    do {
        end = qkv_min(p->now.k_end, k + p->runs * p->kc);
        for (size_t r = k, run = 0; p->a_floats && r < end; r += p->kc, run++)
            p->kernels->pack_a(corner_packed_a(p, c, run), qkv_gemm_at(p->a, c->m, r), c->m_end - c->m,
                               qkv_min(p->kc, end - r), p->height);
        if (p->runs > 1) {
            corner_panels(p, c, k, end);
        } else {
            const struct qkv_gemm_block block = corner_block(p, c, k, 0, c->n, c->n_end - c->n);
            p->kernels->block(&block);
        }
        k = end;
    } while (k < p->now.k_end);
}

static void block_item(const struct product *p, size_t item, int thread) {
    const struct part *part = &p->now;
    const size_t nr = p->kernels->nr, width = part->n_end - part->n, panels = qkv_pieces(width, nr);
    const size_t row_block = item % p->row_blocks, column_block = item / p->row_blocks;
    const size_t m = qkv_gemm_share(p->row_panels, p->row_blocks, row_block) * p->height;
    const size_t m_end = qkv_min(qkv_gemm_share(p->row_panels, p->row_blocks, row_block + 1) * p->height, p->M);
    const size_t n = qkv_gemm_share(panels, p->column_blocks, column_block) * nr;
    const size_t n_end = qkv_min(qkv_gemm_share(panels, p->column_blocks, column_block + 1) * nr, width);
    const struct corner corner = {m, m_end, n, n_end, thread};
    if (m < m_end && n < n_end) corner_multiply(p, &corner);
    if (part->k_end == p->K)
        qkv_epilogue_block(p->table, p->call, p->counts, row_block, m, m_end > m ? m_end - m : 0, part->n + n,
                           n_end > n ? n_end - n : 0);
}

/* The blocks of C come first, the longest items; there are none before the first part is packed. */
static void part_item(void *argument, size_t item, int thread) {
    const struct product *p = argument;
    const size_t blocks = p->now.n < p->now.n_end ? p->row_blocks * p->column_blocks : 0;
    if (item < blocks)
        block_item(p, item, thread);
    else
        pack_item(p, item - blocks);
}

/* ---- product ---------------------------------------------------------------------------------------------------- */

/* The part after `part`: the next terms of the same columns, or the next columns. */
static struct part part_after(const struct product *p, const struct part *part) {
    struct part next = {.n = part->n, .n_end = part->n_end, .k = part->k_end, .b = p->packed_b};
    if (next.k >= p->K) {
        next.n = part->n_end;
        next.n_end = qkv_min(p->N, next.n + p->part_columns);
        next.k = 0;
    }
    next.k_end = qkv_min(p->K, next.k + p->part_terms);
    if (part->b == p->packed_b && p->b_count > 1) next.b += p->b_floats;
    return next;
}

static void gemm_run(struct qkv_context *ctx, struct product *p) {
    const size_t blocks = p->row_blocks * p->column_blocks;
    const struct part none = {.k_end = p->K};
    qkv_epilogue_begin(ctx, p->call, p->counts, p->row_blocks, p->column_blocks * qkv_pieces(p->N, p->part_columns));
    p->next = part_after(p, &none);
    p->now = (struct part){0};
    if (pack_items(p)) qkv_parallel(ctx, pack_items(p), part_item, p);
    while (p->next.n < p->next.n_end) {
        p->now = p->next;
        p->next = part_after(p, &p->now);
        qkv_parallel(ctx, blocks + pack_items(p), part_item, p);
    }
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
                        .a = reads ? qkv_gemm_matrix(&call->a) : none,
                        .b = reads ? qkv_gemm_matrix(&call->b) : none,
                        .M = call->M,
                        .N = call->N,
                        .K = call->K,
                        .stored_block = weights ? qkv_stored_block(weights) : 1};
    assert(!reads || p.a.row_stride == 1 || p.a.column_stride == 1);
    assert(!reads || p.b.row_stride == 1 || p.b.column_stride == 1);
    assert(call->dtype == QKV_F32 && (!reads || call->a.dtype == QKV_F32));
    if (p.M <= QKV_FEW_ROWS && p.a.column_stride == 1 && (weights ? call->stored.transposed : p.b.row_stride == 1))
        return qkv_gemm_few_rows(ctx, scratch, call);
    gemm_plan(ctx, &p);
    const size_t mark = qkv_arena_mark(scratch), threads = (size_t)ctx->threads;
    p.packed_b = qkv_arena_take(scratch, p.b_count, p.b_floats * sizeof(float));
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
