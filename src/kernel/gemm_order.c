/* gemm_order: the matrix product whose sums have a defined order: the gradients of weights, which are sums over the
 * rows of a batch.
 *
 * The terms are cut into sections. A section belongs to one group, and is so long that a panel of B stays in the first
 * cache. A section of the bf16 kernels may hold several sequences: each begins at a multiple of order_step (a shorter
 * step if all sequences are short), with zeros before it. An element of C is one chain of additions over its group, so
 * no bit depends on the cuts of sections. The sum of a group is computed in one of a few level buffers as high as an
 * item. When the group is complete, the sums of earlier groups are added on the way to the level above, or to C.
 *
 * Some thousand terms, a part, are packed at a time: B by all threads, A by each item for its rows. In fp32, if a
 * section of both stays in the second cache, A is not packed before: the first tile of each panel of B packs it, so no
 * thread waits for others to pack. */
#include <assert.h>
#include <string.h>

#include "kernel/gemm_driver.h"
#include "kernel/isa/bf16.h"

enum {
    FP32_RUN = 256,    /* maximum of terms of a section in fp32 */
    PART_TERMS = 2048, /* terms packed at a time, if there are more than ONE_PART */
    ONE_PART = 4096,   /* up to so many terms are packed at once: then each thread has its own level buffers */
    NEAR_FLOATS =
        /* level buffers of all threads up to this size stay in L2; parts are then short, so that they do too: */
    512 * 1024,
    NEAR_TERMS = 512,         /* instead of PART_TERMS, */
    NEAR_ONE_PART = 1280,     /* and instead of ONE_PART */
    PACKED_NUMBERS = 2 << 20, /* maximum of numbers of B packed at a time */
    LEVEL_FLOATS = 16 << 20,  /* maximum of floats of all level buffers, if all threads share them */
    ROWS_MIN = 96,            /* rows of an item: reading B is paid once for them */
    ROWS_MAX = 256,
    RUN_COLUMNS = 1536, /* columns of C that are stored together */
    PANELS = 4,         /* panels of B packed by one item */
    STRIP_TILES = 4,    /* rows of tiles in a strip */
    BLOCKS = 8,         /* sections that the kernels get together */
    ITEMS_A_THREAD = 4
};
#define ITEM_FLOPS 2e5 /* minimum of an item's work */

struct piece {                  /* terms that are adjacent, and of one sequence if that matters */
    size_t term, terms, before; /* before: terms of the section before it, with their zeros */
};

struct section {
    size_t piece, pieces, terms; /* terms with zeros */
    size_t group, before;        /* before: terms of the part before it */
    bool begins, ends;           /* its group */
};

struct ordered {
    struct qkv_context *ctx;
    const struct qkv_gemm_kernels *floats;
    const struct qkv_bf16_kernels *kernels; /* the bf16 kernels */
    bool mixed;
    float *c;
    size_t ldc, M, N;
    struct qkv_operand a, b;
    const struct qkv_order *order;
    const struct qkv_order_carry *carry; /* NULL: to C */
    /* unit: of the kernels' tiles; 0: the kernels choose it */
    size_t mr, nr, run, step, order_step, unit, a_size, b_size;
    /* of an item: maximum of its rows, a multiple of group; panels: of the columns of a part */
    size_t group, rows, row_blocks, panels;
    size_t part_terms, part_columns, most_terms; /* most_terms: of one part */
    struct piece *pieces;
    struct section *sections;
    struct qkv_order_step steps[QKV_GROUPS_MAX]; /* of each single group */
    size_t section_count, levels;
    size_t s_begin, s_end, n_begin, n_end; /* the current part */
    char *packed_a, *packed_b;
    size_t a_bytes;
    bool apart; /* the sums of groups are in buffers; else sums continue in C */
    /* for each thread (levels − 1,rows,nr) and (rows,run_columns), or, with several parts, (levels,M,part_columns) */
    float *level;
    size_t level_floats, run_columns;
    bool one_part;
    bool across; /* A is read without packing, and so is B, once for each item */
};

/* ---- sections ---------------------------------------------------------------------------------------------------- */

static void ordered_group(struct ordered *p, size_t group, size_t *piece) {
    const struct qkv_order *o = p->order;
    const bool apart = p->order_step > 1; /* sequences matter */
    const size_t from = o->first[group], to = o->first[group + 1];
    const size_t begin = p->section_count;
    struct section *s = &p->sections[p->section_count++];
    *s = (struct section){.piece = *piece, .group = group, .begins = true};
    for (size_t q = from; q < to; q = apart ? q + 1 : to) {
        const size_t end = apart ? o->start[q + 1] : o->start[to];
        for (size_t k = o->start[q], terms; k < end; k += terms) {
            if (s->terms == p->run) {
                s = &p->sections[p->section_count++];
                *s = (struct section){.piece = *piece, .group = group};
            }
            terms = qkv_min(end - k, p->run - s->terms);
            struct piece *last = s->pieces ? &p->pieces[*piece - 1] : NULL;
            if (last && last->terms % p->order_step == 0) { /* continues where the last one ends */
                last->terms += terms;
            } else {
                p->pieces[(*piece)++] = (struct piece){k, terms, s->terms};
                s->pieces++;
            }
            s->terms += qkv_round_up(terms, p->order_step);
        }
    }
    for (size_t i = begin; i < p->section_count; i++)
        p->sections[i].terms = qkv_round_up(p->sections[i].terms, p->step);
    s->ends = true;
}

static void ordered_sections(struct ordered *p) {
    size_t piece = 0;
    p->section_count = 0;
    for (size_t g = 0; g < p->order->groups; g++) {
        p->steps[g] = qkv_order_step(g, g + 1, p->order->groups);
        ordered_group(p, g, &piece);
    }
}

/* ---- packing --------------------------------------------------------------------------------------------------- */

static const void *ordered_at(const struct qkv_operand *x, size_t at) {
    return (const char *)x->data + at * qkv_type_size(x->dtype);
}

static void pack_b_item(void *argument, size_t item, int thread) {
    (void)thread;
    const struct ordered *p = argument;
    const size_t width = qkv_round_up(p->n_end - p->n_begin, p->nr), groups = qkv_pieces(width / p->nr, PANELS);
    const struct section *s = &p->sections[p->s_begin + item / groups];
    const size_t n = item % groups * PANELS * p->nr, columns = qkv_min(PANELS * p->nr, p->n_end - p->n_begin - n);
    char *out = p->packed_b + (s->before * width + n * s->terms) * p->b_size;
    for (size_t i = 0; i < s->pieces; i++) {
        const struct piece *piece = &p->pieces[s->piece + i];
        struct qkv_operand b = p->b;
        b.data = ordered_at(&b, piece->term * b.row_stride + p->n_begin + n);
        if (p->mixed)
            p->kernels->pack_b_at((uint32_t *)(void *)out, s->terms / 2, piece->before / 2, b, piece->terms, columns,
                                  p->step);
        else
            p->floats->pack_b((float *)(void *)out, qkv_gemm_matrix(&b), piece->terms, columns);
    }
}

/* Packs rows of A from m on, over the sections of the part. */
static void ordered_pack_rows(const struct ordered *p, size_t m, size_t rows, char *out) {
    const size_t height = qkv_round_up(rows, p->mr);
    for (const struct section *s = p->sections + p->s_begin; s < p->sections + p->s_end; s++) {
        char *to = out + height * s->before * p->a_size;
        for (size_t i = 0; i < s->pieces; i++) {
            const struct piece *piece = &p->pieces[s->piece + i];
            struct qkv_operand a = p->a;
            a.data = ordered_at(&a, piece->term * a.column_stride + m);
            if (p->mixed)
                p->kernels->pack_a_at(to, s->terms / 2, piece->before / 2, a, rows, piece->terms, p->step);
            else
                p->floats->pack_a((float *)(void *)to, qkv_gemm_matrix(&a), rows, piece->terms, p->mr);
        }
    }
}

/* ---- items ----------------------------------------------------------------------------------------------------- */

/* The terms that the kernels get: without the zeros if they do not need those. */
static size_t ordered_terms(const struct ordered *p, const struct section *s) {
    return p->order_step > 1 ? s->terms : s->pieces ? p->pieces[s->piece].terms : 0;
}

/* Products of one corner of C, one section after the other, that the bf16 kernels get together. */
struct ordered_blocks {
    struct qkv_bf16_block list[BLOCKS];
    size_t count;
};

static void ordered_flush(const struct ordered *p, struct ordered_blocks *blocks) {
    if (blocks->count) p->kernels->blocks(blocks->list, blocks->count);
    blocks->count = 0;
}

/* The operands of a section: packed; or unpacked, with the next panel of B and room for packing one. */
struct ordered_sides {
    const void *a, *b, *next;
    float *panel;
};

static void ordered_block(const struct ordered *p, struct ordered_blocks *blocks, const struct section *s, size_t rows,
                          size_t columns, const struct ordered_sides *sides, float *sums, size_t ld,
                          const struct qkv_bf16_out *out) {
    const size_t K = ordered_terms(p, s);
    const bool goes_on = !s->begins || !p->apart || (p->carry && p->carry->goes_on);
    if (p->mixed) {
        if (blocks->count == BLOCKS) ordered_flush(p, blocks);
        blocks->list[blocks->count++] = (struct qkv_bf16_block){.rows = rows,
                                                                .columns = columns,
                                                                .K = K,
                                                                .a = sides->a,
                                                                .b = sides->b,
                                                                .c = sums,
                                                                .ldc = ld,
                                                                .resume = goes_on,
                                                                .chain = goes_on,
                                                                .unit = p->unit,
                                                                .out = *out};
        return;
    }
    const struct qkv_gemm_block block = {.rows = rows,
                                         .columns = columns,
                                         .K = K,
                                         .a = sides->a,
                                         .height = p->across ? qkv_pieces(rows, qkv_pieces(rows, p->mr)) : p->mr,
                                         .a_across = p->across ? p->a.column_stride : 0,
                                         .b_across = p->across ? p->b.row_stride : 0,
                                         .panel = sides->panel,
                                         .next_panel = sides->next,
                                         .b = sides->b,
                                         .c = sums,
                                         .ldc = ld,
                                         .chain = goes_on,
                                         .earlier_count = out->earlier_count,
                                         .earlier = out->earlier,
                                         .earlier_ld = out->earlier_ld};
    p->floats->block(&block);
}

/* Rows of an item that go through all sections together. */
struct strip {
    /* m, height: the item's first row, and its height as packed; begin, rows: of the strip */
    size_t m, begin, rows, height;
};

/* The strip's corner at column n of the part, in the buffer of a level. The last level has room for the whole item and
 * all columns of a run of panels, which begins at `run`; the others have room for a strip. */
static float *level_at(const struct ordered *p, size_t level, const struct strip *s, size_t n, size_t run, int thread,
                       size_t *ld) {
    if (p->one_part) {
        float *own = p->level + (size_t)thread * p->level_floats;
        const bool last = level == p->levels - 1;
        *ld = last ? p->run_columns : p->nr;
        return own + level * p->rows * p->nr + (last ? s->begin * *ld + n - run : 0);
    }
    *ld = p->part_columns;
    return p->level + (level * p->M + s->m + s->begin) * p->part_columns + n;
}

/* Where a section of an operand begins, at a row or column. In fp32 a section is one piece, or none. */
static const void *ordered_begin(const struct ordered *p, const struct section *s, const struct qkv_operand *x,
                                 size_t stride, size_t at) {
    return ordered_at(x, (s->pieces ? p->pieces[s->piece].term * stride : 0) + at);
}

static struct ordered_sides ordered_sides(const struct ordered *p, const struct section *s, const struct strip *strip,
                                          size_t n, const char *a, int thread) {
    const size_t width = qkv_round_up(p->n_end - p->n_begin, p->nr);
    const bool last = s + 1 == p->sections + p->s_end;
    const struct section *then = last ? p->sections + p->s_begin : s + 1;
    const size_t behind = last && n + p->nr < width ? n + p->nr : n;
    if (!p->across)
        return (struct ordered_sides){.a = a + (strip->height * s->before + strip->begin * s->terms) * p->a_size,
                                      .b = p->packed_b + (s->before * width + n * s->terms) * p->b_size,
                                      .next = p->packed_b + (then->before * width + behind * then->terms) * p->b_size};
    return (struct ordered_sides){.a = ordered_begin(p, s, &p->a, p->a.column_stride, strip->m + strip->begin),
                                  .b = ordered_begin(p, s, &p->b, p->b.row_stride, p->n_begin + n),
                                  .next = ordered_begin(p, then, &p->b, p->b.row_stride, p->n_begin + behind),
                                  .panel = (float *)(void *)p->packed_b + (size_t)thread * p->run * p->nr};
}

/* One panel of columns, one section after the other. */
static void ordered_strip(const struct ordered *p, const struct strip *strip, size_t n, size_t run, const char *a,
                          int thread) {
    const size_t columns = qkv_min(p->nr, p->n_end - p->n_begin - n);
    struct ordered_blocks blocks;
    blocks.count = 0;
    for (const struct section *s = p->sections + p->s_begin; s < p->sections + p->s_end; s++) {
        float *sums = p->c + (strip->m + strip->begin) * p->ldc + p->n_begin + n;
        size_t ld = p->ldc;
        struct qkv_bf16_out out = {0};
        if (p->apart) {
            const struct qkv_order_step *step = &p->steps[s->group];
            sums = level_at(p, step->last ? p->levels - 1 : step->level, strip, n, run, thread, &ld);
            if (s->ends && step->count)
                out = (struct qkv_bf16_out){.data = sums, .ld = ld, .dtype = QKV_F32, .earlier_count = step->count};
            for (size_t i = 0; i < out.earlier_count; i++)
                out.earlier[i] = level_at(p, step->levels[i], strip, n, run, thread, &out.earlier_ld);
        }
        const struct ordered_sides sides = ordered_sides(p, s, strip, n, a, thread);
        ordered_block(p, &blocks, s, strip->rows, columns, &sides, sums, ld, &out);
    }
    ordered_flush(p, &blocks);
}

/* The rows of a strip: all of them, or few if sections are short, so that the sums of groups stay in the first cache
 * together with the panel of B, which is read once for each strip. */
static size_t ordered_strip_rows(const struct ordered *p, size_t rows) {
    const size_t l1d = p->ctx->l1d ? p->ctx->l1d : 32 * 1024;
    const struct section *last = p->sections + p->s_end - 1;
    const bool small = (last->before + last->terms) * p->nr * p->b_size <= l1d * 2 / 3;
    return p->order_step > 1 && p->apart && p->one_part && small ? STRIP_TILES * p->mr : rows;
}

static void ordered_panel(const struct ordered *p, size_t m, size_t rows, size_t n, size_t run, const char *a,
                          int thread) {
    struct strip strip = {.m = m, .height = qkv_round_up(rows, p->mr)};
    const size_t each = ordered_strip_rows(p, rows);
    for (; strip.begin < rows; strip.begin += strip.rows) {
        strip.rows = qkv_min(each, rows - strip.begin);
        ordered_strip(p, &strip, n, run, a, thread);
    }
}

/* Loads the sums of a group that continues, for the panels from `n` on. */
static void ordered_load(const struct ordered *p, size_t m, size_t rows, size_t n, size_t columns, int thread) {
    size_t ld;
    const struct strip all = {.m = m};
    float *sums = level_at(p, p->levels - 1, &all, n, n, thread, &ld);
    for (size_t i = 0; i < rows; i++)
        memcpy(sums + i * ld, p->carry->to + (m + i) * p->ldc + p->n_begin + n, columns * sizeof *sums);
}

/* Stores the sums of all groups, row by row as C stores them, for the panels from `n` on. */
static void ordered_store(const struct ordered *p, size_t m, size_t rows, size_t n, size_t columns, int thread) {
    const struct qkv_order_carry *carry = p->carry;
    const struct qkv_kernels *kernels = p->ctx->kernels;
    size_t ld;
    const struct strip all = {.m = m};
    const float *sums = level_at(p, p->levels - 1, &all, n, n, thread, &ld);
    for (size_t i = 0; i < rows; i++) {
        const size_t at = (m + i) * p->ldc + p->n_begin + n;
        const float *sum = sums + i * ld;
        const float *others[QKV_ORDER_LEVELS] = {p->c + at};
        for (size_t e = 0; carry && e < carry->count; e++) others[e] = carry->earlier[e] + at;
        if (carry)
            kernels->add_several(carry->to + at, sum, others, carry->count, columns);
        else
            kernels->add(p->c + at, p->c + at, sum, columns);
    }
}

/* Where a block of rows begins. Blocks differ by at most one group of rows. */
static size_t ordered_row(const struct ordered *p, size_t block) {
    const size_t groups = qkv_pieces(p->M, p->group), more = groups % p->row_blocks;
    return qkv_min((groups / p->row_blocks * block + qkv_min(block, more)) * p->group, p->M);
}

static void block_item(void *argument, size_t item, int thread) {
    const struct ordered *p = argument;
    const size_t m = ordered_row(p, item % p->row_blocks), rows = ordered_row(p, item % p->row_blocks + 1) - m;
    const size_t n = item / p->row_blocks * p->panels * p->nr,
                 n_end = qkv_min(n + p->panels * p->nr, p->n_end - p->n_begin);
    char *a = p->across ? NULL : p->packed_a + (size_t)thread * p->a_bytes;
    if (a) ordered_pack_rows(p, m, rows, a);
    for (size_t run = n, end; run < n_end; run = end) {
        end = qkv_min(run + p->run_columns, n_end);
        if (p->carry && p->carry->goes_on) ordered_load(p, m, rows, run, end - run, thread);
        if (p->mixed) p->kernels->enter(p->unit);
        for (size_t j = run; j < end; j += p->nr) ordered_panel(p, m, rows, j, run, a, thread);
        if (p->mixed) p->kernels->leave();
        if (p->apart && p->s_end == p->section_count) ordered_store(p, m, rows, run, end - run, thread);
    }
}

/* ---- product --------------------------------------------------------------------------------------------------- */

static void ordered_tables(struct ordered *p, bool mixed) {
    const struct qkv_context *ctx = p->ctx;
    p->floats = ctx->kernels->gemm;
    p->kernels = ctx->kernels->bf16;
    p->mixed = mixed;
    p->mr = p->mixed ? p->kernels->mr : p->floats->mr;
    p->nr = p->mixed ? p->kernels->nr : p->floats->nr;
    p->group = p->mixed ? p->kernels->group : p->floats->mr;
    p->step = p->mixed ? p->kernels->step : 1;
    p->order_step = p->mixed ? p->kernels->order_step : 1;
    p->a_size = p->mixed ? p->kernels->a_size : sizeof(float);
    p->b_size = p->mixed ? sizeof(uint16_t) : sizeof(float);
    const size_t l1d = ctx->l1d ? ctx->l1d : 32 * 1024, unit = qkv_max(p->step, 16);
    const size_t fits = l1d * 2 / 3 / (p->nr * p->b_size) / unit * unit;
    p->run = qkv_max(qkv_min(p->mixed ? p->kernels->run : FP32_RUN, fits), unit);
}

/* Upper bound of the terms with their zeros. */
static size_t ordered_all(const struct qkv_order *o, size_t order_step, size_t step) {
    return o->terms + o->sequences * (order_step - 1) + o->groups * step * 2;
}

/* Plans by shapes alone: of the sequences it reads only the number. */
static void ordered_plan(struct ordered *p) {
    const struct qkv_order *o = p->order;
    const size_t threads = (size_t)p->ctx->threads, l2 = p->ctx->l2 ? p->ctx->l2 : 512 * 1024;
    const size_t all = ordered_all(o, p->order_step, p->step);
    const bool near = !p->mixed && o->groups > 1 && p->M * p->N * qkv_order_levels(o->groups) <= NEAR_FLOATS;
    p->most_terms = near ? NEAR_ONE_PART : ONE_PART;
    p->one_part = all <= p->most_terms || o->groups == 1;
    p->part_terms = all <= p->most_terms ? qkv_round_up(all, p->step) : near ? NEAR_TERMS : PART_TERMS;
    p->levels = o->groups > 1 || all <= p->most_terms ? qkv_order_levels(o->groups) : 0;
    p->part_columns =
        qkv_max(qkv_min(qkv_round_up(p->N, p->nr), PACKED_NUMBERS / p->part_terms / p->nr * p->nr), p->nr);
    if (!p->one_part)
        p->part_columns = qkv_max(qkv_min(p->part_columns, LEVEL_FLOATS / p->levels / p->M / p->nr * p->nr), p->nr);
    const size_t panels = p->part_columns / p->nr, groups = qkv_pieces(p->M, p->group);
    const double work = 2.0 * (double)p->M * (double)p->part_columns * (double)qkv_min(all, p->part_terms) / ITEM_FLOPS;
    size_t wanted = threads == 1 ? 1 : threads * ITEMS_A_THREAD;
    if (work < (double)wanted) wanted = work < 2 ? 1 : (size_t)work;
    size_t max_rows = l2 / 2 / (p->part_terms * p->a_size);
    max_rows = max_rows < ROWS_MIN ? ROWS_MIN : qkv_min(max_rows, ROWS_MAX);
    size_t blocks = qkv_max(qkv_pieces(p->M, max_rows), qkv_min(wanted, p->M / ROWS_MIN));
    p->across = !p->mixed && qkv_gemm_across(p->ctx, p->a.column_stride, p->b.row_stride, p->N);
    /* Each block of rows packs the panels again, so there are only as many blocks as give every thread an item. */
    if (p->across) {
        p->panels = qkv_pieces(panels, qkv_min(wanted, panels));
        blocks = qkv_pieces(qkv_min(wanted, threads), qkv_pieces(panels, p->panels));
        blocks = qkv_max(qkv_min(blocks, p->M / ROWS_MIN), 1);
    }
    if (blocks > 1) blocks = qkv_round_up(blocks, qkv_min(threads, blocks));
    p->row_blocks = qkv_min(blocks, groups);
    p->rows = qkv_pieces(groups, p->row_blocks) * p->group;
    /* Each run of panels packs the rows again, so there are only as many runs as give every thread an item. */
    if (!p->across)
        p->panels = qkv_pieces(panels, qkv_min(qkv_pieces(qkv_min(wanted, threads), p->row_blocks), panels));
    p->a_bytes = qkv_round_up(p->rows * p->part_terms * p->a_size, QKV_CACHE_LINE);
}

static bool ordered_take(struct ordered *p, struct qkv_arena *scratch) {
    const struct qkv_order *o = p->order;
    const size_t threads = (size_t)p->ctx->threads,
                 pieces = o->sequences + o->groups + 2 * ((o->terms + o->sequences * p->order_step) / p->run + 1);
    p->pieces = qkv_arena_take(scratch, pieces, sizeof *p->pieces);
    p->sections = qkv_arena_take(scratch, pieces + o->groups, sizeof *p->sections);
    p->packed_a = qkv_arena_take(scratch, p->across ? 0 : threads, p->a_bytes);
    p->packed_b =
        qkv_arena_take(scratch, p->across ? threads * p->run * p->nr : p->part_columns * p->part_terms, p->b_size);
    p->run_columns = qkv_min(RUN_COLUMNS / p->nr * p->nr, p->part_columns);
    p->level_floats = p->levels ? p->rows * ((p->levels - 1) * p->nr + p->run_columns) : 0;
    const size_t floats = p->one_part ? threads * p->level_floats : p->levels * p->M * p->part_columns;
    p->level = qkv_arena_take(scratch, floats, sizeof(float));
    return p->pieces && p->sections && p->packed_a && p->packed_b && p->level;
}

/* The next part: sections of together at most part_terms terms. */
static void ordered_part(struct ordered *p) {
    size_t before = 0;
    for (p->s_begin = p->s_end; p->s_end < p->section_count; p->s_end++) {
        struct section *s = &p->sections[p->s_end];
        if (before && before + s->terms > p->part_terms) break;
        s->before = before;
        before += s->terms;
    }
}

/* If all sequences are short, tiles of fewer terms give the same bits, and fewer zeros are packed and read. */
static void ordered_narrow(struct ordered *p) {
    const struct qkv_order *o = p->order;
    size_t longest = 0, unit = p->mixed ? p->kernels->order_unit : p->order_step;
    for (size_t s = 0; s < o->sequences; s++) longest = qkv_max(longest, o->start[s + 1] - o->start[s]);
    while (unit < longest && unit < p->order_step) unit *= 2;
    if (unit >= p->order_step) return;
    p->order_step = p->step = p->unit = unit;
    p->run = p->run / unit * unit;
}

/* If sections are shorter than the plan had to assume, all go in one part, if the buffers have room. */
static void ordered_gather(struct ordered *p) {
    const size_t threads = (size_t)p->ctx->threads;
    size_t all = 0;
    for (size_t s = 0; s < p->section_count; s++) all += p->sections[s].terms;
    if (p->one_part || !all || all > p->most_terms) return;
    const size_t a_row = (p->levels - 1) * p->nr + p->run_columns, floats = p->levels * p->M * p->part_columns;
    size_t columns = qkv_round_up(p->N, p->nr), rows = qkv_min(floats / (threads * a_row), p->rows);
    if (!p->across) {
        columns = qkv_min(p->part_columns * p->part_terms / all / p->nr * p->nr, columns);
        rows = qkv_min(p->a_bytes / (all * p->a_size), rows);
    }
    rows = rows / p->group * p->group;
    if (!rows || !columns) return;
    p->one_part = true;
    p->part_terms = all;
    p->part_columns = columns;
    p->rows = rows;
    p->level_floats = rows * a_row;
    p->row_blocks = qkv_pieces(p->M, rows); /* no item is higher */
    p->panels = qkv_min(p->panels, columns / p->nr);
}

static enum qkv_status ordered_run(void *argument) {
    struct ordered *p = argument;
    ordered_narrow(p);
    ordered_sections(p);
    ordered_gather(p);
    for (p->n_begin = 0; p->n_begin < p->N; p->n_begin = p->n_end) {
        p->n_end = qkv_min(p->N, p->n_begin + p->part_columns);
        const size_t panels = qkv_pieces(p->n_end - p->n_begin, p->nr);
        p->s_end = 0;
        while (p->s_end < p->section_count) {
            ordered_part(p);
            if (!p->across) qkv_parallel(p->ctx, (p->s_end - p->s_begin) * qkv_pieces(panels, PANELS), pack_b_item, p);
            qkv_parallel(p->ctx, p->row_blocks * qkv_pieces(panels, p->panels), block_item, p);
        }
    }
    return QKV_OK;
}

static enum qkv_status ordered_multiply(struct qkv_context *ctx, bool mixed, struct qkv_arena *scratch,
                                        const struct qkv_sums_call *call) {
    const struct qkv_order *order = call->order;
    struct qkv_order_carry *carry = call->carry;
    if (carry) carry->done = false;
    if (!call->M || !call->N || !order->terms || !order->groups) return QKV_OK;
    struct ordered p = {.ctx = ctx,
                        .c = call->c,
                        .ldc = call->ldc,
                        .M = call->M,
                        .N = call->N,
                        .a = call->a,
                        .b = call->b,
                        .order = order};
    assert(p.a.dtype == QKV_F32 && p.a.row_stride == 1 && p.b.column_stride == 1);
    assert(order->groups <= QKV_GROUPS_MAX && !(carry && carry->goes_on && order->groups > 1));
    ordered_tables(&p, mixed);
    assert(p.mixed || p.b.dtype == QKV_F32);
    ordered_plan(&p);
    if (carry && p.levels) { /* there is room for a separate sum of the group */
        p.carry = carry;
        carry->done = true;
    }
    p.apart = order->groups > 1 || p.carry;
    const size_t mark = qkv_arena_mark(scratch);
    const enum qkv_status status = ordered_take(&p, scratch) ? qkv_compute(ctx, ordered_run, &p) : QKV_MEMORY;
    qkv_arena_release(scratch, mark);
    return status;
}

/* ---- the two products -------------------------------------------------------------------------------------------- */

enum qkv_status qkv_gemm_ordered(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_sums_call *call) {
    return ordered_multiply(ctx, false, scratch, call);
}

enum qkv_status qkv_gemm_bf16_ordered(struct qkv_context *ctx, struct qkv_arena *scratch,
                                      const struct qkv_sums_call *call) {
    return ordered_multiply(ctx, true, scratch, call);
}

bool qkv_gemm_carries(const struct qkv_context *ctx, const struct qkv_order *order) {
    (void)ctx;
    return order->groups > 1 || ordered_all(order, 1, 1) <= ONE_PART;
}

bool qkv_gemm_bf16_carries(const struct qkv_context *ctx, const struct qkv_order *order) {
    const struct qkv_bf16_kernels *kernels = ctx->kernels->bf16;
    return order->groups > 1 || ordered_all(order, kernels->order_step, kernels->step) <= ONE_PART;
}
