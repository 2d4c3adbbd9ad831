/* attention: forward and backward of one sequence with 1024 channels of queries, or of many short ones, and one
 * query with a long cache.
 *
 * FLOPs are 4·H·Tq·Tk·D forward and 10·H·Tq·Tk·D backward, half of that with a causal mask; recomputed products do
 * not count. Decoding is bound by the bytes of keys and values: its turns cycle through caches that together exceed
 * the last-level cache, in bf16 over packed pages, as sessions have them; and once more with caches of q8_0. Heads of
 * 576 channels with values of 512 are too wide for packed pages. In latent attention the values are the first channels
 * of the keys; in MQA of the same widths they are separate. */
#include <math.h>

#include "lab/bench/bench_room.h"
#include "kernel/kernel.h"

static const size_t widths[] = {64, 128}, lengths[] = {512, 2048, 8192};
static const char *const masks[] = {"full", "causal"};
static const struct kind {
    const char *name;
    size_t divisor; /* of the heads; 0: one key-value head */
} kinds[] = {{"MHA", 1}, {"GQA", 4}, {"MQA", 0}};
enum { WIDTHS = 2, LENGTHS = 3, MASKS = 2, KINDS = 3, FORMS = 2, CHANNELS = 1024, CACHE = 8192, LONG = 8192 };
/* The costs of masks and biases, for MHA with heads of 64: all keys of 1,024 against as many in each row of 8,192 (a
 * causal window), and a trainable distance bias; and batches of many short sequences. */
static const struct extra {
    const char *name;
    size_t T, window;
    bool distances;
    size_t B;
} extras[] = {{"T1024 full", 1024, 0, false, 1},
              {"T8192 window", 8192, 1024, false, 1},
              {"T1024 distances", 1024, 0, true, 1},
              {"B128 T16 full", 16, 0, false, 128},
              {"B40 T48 full", 48, 0, false, 40}};
enum { EXTRAS = sizeof extras / sizeof *extras * 2, EXTRA_D = 64 };
/* One query of 16 heads on a cache with one key-value head, as in DeepSeek-V2: values beside the keys, and inside
 * them. */
static const struct latent {
    const char *name;
    bool shared;
} latents[] = {{"MQA", false}, {"latent", true}};
enum { LATENTS = 2, LATENT_HEADS = 16, LATENT_D = 576, LATENT_DV = 512, LATENT_CACHE = 4096 };
enum { BLOCKS = WIDTHS * LENGTHS * MASKS * KINDS * FORMS, DECODES = WIDTHS * KINDS, MAX_COPIES = 512 };
/* Rows of each kind, in this order; `STORED`: decoding with a cache of q8_0. */
enum { EXTRAS_AT = BLOCKS + DECODES, LATENTS_AT = EXTRAS_AT + EXTRAS, STORED_AT = LATENTS_AT + LATENTS };
#define SCRATCH ((size_t)2 << 30) /* virtual memory: the system backs only the pages that are used */

struct shape {
    size_t B, H, Hkv, Tq, Tk, D, Dv;
    bool causal, backward, decode;
    bool shared;                       /* values are channels of the keys */
    const struct qkv_page_type *cache; /* of decoding; NULL: the usual one */
    const struct kind *kind;
    const struct extra *extra; /* NULL: none */
};

static struct shape shape_of_extra(size_t i) {
    const struct extra *x = &extras[i / FORMS];
    const size_t H = CHANNELS / EXTRA_D;
    return (struct shape){.B = x->B,
                          .H = H,
                          .Hkv = H,
                          .Tq = x->T,
                          .Tk = x->T,
                          .D = EXTRA_D,
                          .Dv = EXTRA_D,
                          .causal = x->window > 0,
                          .backward = i % FORMS == 1,
                          .kind = &kinds[0],
                          .extra = x};
}

static struct shape shape_of_latent(size_t i) {
    return (struct shape){.B = 1,
                          .H = LATENT_HEADS,
                          .Hkv = 1,
                          .Tq = 1,
                          .Tk = LATENT_CACHE,
                          .D = LATENT_D,
                          .Dv = LATENT_DV,
                          .decode = true,
                          .shared = latents[i].shared};
}

static struct shape shape_of(size_t i) {
    struct shape s = {.B = 1};
    if (i >= STORED_AT)
        s.cache = &qkv_page_type_q8_0, i -= STORED_AT - BLOCKS;
    else if (i >= LATENTS_AT)
        return shape_of_latent(i - LATENTS_AT);
    else if (i >= EXTRAS_AT)
        return shape_of_extra(i - EXTRAS_AT);
    s.decode = i >= BLOCKS;
    if (s.decode) {
        i -= BLOCKS;
        s.Tq = 1, s.Tk = CACHE;
    } else {
        s.backward = i % FORMS == 1, i /= FORMS;
    }
    s.kind = &kinds[i % KINDS], i /= KINDS;
    if (!s.decode) {
        s.causal = i % MASKS == 1, i /= MASKS;
        s.Tq = s.Tk = lengths[i % LENGTHS], i /= LENGTHS;
    }
    s.D = s.Dv = widths[i];
    s.H = CHANNELS / s.D;
    s.Hkv = s.kind->divisor ? s.H / s.kind->divisor : 1;
    return s;
}

bool qkv_bench_attention_case(size_t i, struct qkv_bench_row *row) {
    if (i >= STORED_AT + DECODES) return false;
    const struct shape s = shape_of(i);
    if (s.D != s.Dv)
        snprintf(row->name, sizeof row->name, "%s D%zu/%zu T1/%zu", latents[s.shared].name, s.D, s.Dv, s.Tk);
    else if (s.extra)
        snprintf(row->name, sizeof row->name, "%s D%zu %s", s.kind->name, s.D, s.extra->name);
    else if (s.decode)
        snprintf(row->name, sizeof row->name, "%s D%zu T1/%zu%s%s", s.kind->name, s.D, s.Tk, s.cache ? " " : "",
                 s.cache ? s.cache->name : "");
    else
        snprintf(row->name, sizeof row->name, "%s D%zu T%zu %s", s.kind->name, s.D, s.Tk, masks[s.causal]);
    row->form = s.decode ? "decode" : s.backward ? "backward" : "forward";
    row->big = !s.decode && s.Tk >= LONG;
    return true;
}

struct work {
    struct qkv_context *ctx;
    struct qkv_arena memory, scratch;
    struct qkv_attend a;
    struct qkv_attend_gradients g;
    char *caches;   /* of decoding: the keys and values of each cache, one after the other; or else: */
    int32_t *pages; /* the numbers of pages that are no rows */
    const int32_t *lists[1];
    size_t cache_bytes, count, values_at; /* values_at: where the values of an unpacked cache begin, in bytes */
};

static enum qkv_status bench_attention_forward(void *argument, size_t turn) {
    struct work *w = argument;
    if (w->pages) {
        w->lists[0] = w->pages + turn % w->count * (w->a.Tk / QKV_ATTEND_BLOCK);
    } else if (w->count) {
        w->a.k.data = w->caches + turn % w->count * w->cache_bytes;
        w->a.v.data = (char *)w->a.k.data + w->values_at;
    }
    return qkv_attend_forward(w->ctx, &w->scratch, &w->a);
}

static enum qkv_status bench_attention_backward(void *argument, size_t turn) {
    (void)turn;
    struct work *w = argument;
    return qkv_attend_backward(w->ctx, &w->scratch, &w->a, &w->g);
}

/* Returns random elements of this type from the arena; NULL without memory. */
static void *bench_attention_elements(struct work *w, enum qkv_dtype dtype, size_t n) {
    void *data = qkv_arena_take(&w->memory, n, qkv_type_size(dtype));
    if (data) qkv_bench_fill(w->ctx, data, dtype, n);
    return data;
}

/* Fills the pages of keys, or of values; returns where they begin. */
static void *bench_attention_fill(struct work *w, struct qkv_pages pages, size_t count) {
    const uint16_t *numbers = bench_attention_elements(w, QKV_BF16, QKV_ATTEND_BLOCK * pages.heads * pages.columns);
    pages.count = count;
    pages.data = qkv_arena_take(&w->memory, count, qkv_page_stored_bytes(&pages));
    if (!pages.data || !numbers) return NULL;
    const struct qkv_page_rows rows = {numbers, QKV_BF16, pages.heads * pages.columns};
    for (size_t i = 0; i < count; i++) {
        const struct qkv_page_part part = {.page = i, .heads = pages.heads, .count = QKV_ATTEND_BLOCK};
        pages.type->put(&pages, &part, &rows);
    }
    return pages.data;
}

/* Fills caches as a session has them. */
static bool bench_attention_pages(struct work *w, const struct shape *s, struct qkv_page_types types) {
    struct qkv_attend *a = &w->a;
    const size_t count = w->count * s->Tk / QKV_ATTEND_BLOCK, positions = QKV_ATTEND_BLOCK;
    const struct qkv_kernels *kernels = w->ctx->kernels;
    w->pages = qkv_arena_take(&w->memory, count, sizeof *w->pages);
    for (size_t i = 0; w->pages && i < count; i++) w->pages[i] = (int32_t)i;
    a->pages = (struct qkv_page_table){w->lists, positions, count, types.k, types.v, false};
    a->past = s->Tk;
    a->past_k.data =
        bench_attention_fill(w, qkv_pages_of(kernels, types.k, QKV_PAGE_KEYS, s->Hkv, s->D, positions), count);
    a->past_v.data =
        bench_attention_fill(w, qkv_pages_of(kernels, types.v, QKV_PAGE_VALUES, s->Hkv, s->Dv, positions), count);
    return w->pages && a->past_k.data && a->past_v.data;
}

/* Places queries, keys and values side by side in rows, as a fused projection leaves them; an unpacked cache has one
 * head after the other. */
static bool bench_attention_place(struct work *w, const struct shape *s, enum qkv_dtype dtype, struct qkv_heads *q,
                                  struct qkv_heads *k, struct qkv_heads *v) {
    const size_t C = s->H * s->D, Ckv = s->Hkv * s->D, row = s->decode ? C : C + 2 * Ckv, size = qkv_type_size(dtype);
    char *x = bench_attention_elements(w, dtype, s->B * s->Tq * row);
    if (!x) return false;
    *q = (struct qkv_heads){x, s->Tq * row, row, s->D, dtype};
    if (!s->decode) {
        *k = (struct qkv_heads){x + C * size, s->Tk * row, row, s->D, dtype};
        *v = (struct qkv_heads){x + (C + Ckv) * size, s->Tk * row, row, s->D, dtype};
        return true;
    }
    const struct qkv_page_heads heads = {s->Hkv, s->D, s->Dv, s->shared, s->shared ? "latent attention" : NULL};
    const struct qkv_page_types types = qkv_page_types_of(
        w->ctx, &heads, (struct qkv_page_types){s->cache, s->cache, .precision = qkv_context_precision(w->ctx)});
    if (!types.k->rows && !types.v->rows) return bench_attention_pages(w, s, types);
    *k = *v = (struct qkv_heads){NULL, s->Tk * Ckv, s->D, s->Tk * s->D, dtype};
    if (!s->shared) *v = (struct qkv_heads){NULL, s->Tk * s->Hkv * s->Dv, s->Dv, s->Tk * s->Dv, dtype};
    w->values_at = s->shared ? 0 : s->Tk * Ckv * size;
    w->caches = bench_attention_elements(w, dtype, w->count * w->cache_bytes / size);
    return w->caches != NULL;
}

/* Makes a table of distance biases with room for its gradient. */
static bool bench_attention_distances(struct work *w, const struct shape *s) {
    struct qkv_distance_bias bias = {.row = 2 * s->Tk - 1, .zero = s->Tk - 1};
    int32_t *position = qkv_arena_take(&w->memory, s->Tq, sizeof *position);
    bias.table = bench_attention_elements(w, QKV_F32, s->H * bias.row);
    w->g.ddistance_bias = bench_attention_elements(w, QKV_F32, s->H * bias.row);
    for (size_t i = 0; position && i < s->Tq; i++) position[i] = (int32_t)i;
    w->a.position = position, w->a.distance_bias = bias;
    return position && bias.table && w->g.ddistance_bias;
}

/* Counts the pairs of a query and a key that it may see, in all sequences. */
static double bench_attention_pairs(const struct shape *s) {
    const double T = (double)s->Tq, window = s->extra ? (double)s->extra->window : 0;
    if (window > 0) return T * window - window * (window - 1) / 2;
    return (double)s->B * T * (double)s->Tk * (s->causal ? 0.5 : 1.0);
}

static bool bench_attention_make(struct work *w, const struct shape *s, enum qkv_dtype dtype) {
    const size_t window = s->extra ? s->extra->window : 0;
    const size_t C = s->H * s->Dv;
    w->a = (struct qkv_attend){.B = s->B, .H = s->H, .Hkv = s->Hkv, .Tq = s->Tq, .Tk = s->Tk, .D = s->D, .Dv = s->Dv};
    w->a.scale = 1 / sqrtf((float)s->D);
    w->a.y = (struct qkv_heads){bench_attention_elements(w, dtype, s->B * s->Tq * C), s->Tq * C, C, s->Dv, dtype};
    w->a.lse = bench_attention_elements(w, QKV_F32, s->B * s->Tq * s->H);
    const size_t rows = s->B * s->Tq;
    int32_t *interval = qkv_arena_take(&w->memory, 2 * rows, sizeof *interval);
    if (!w->a.y.data || !w->a.lse || !interval || !bench_attention_place(w, s, dtype, &w->a.q, &w->a.k, &w->a.v))
        return false;
    for (size_t r = 0; r < rows; r++) {
        const size_t i = r % s->Tq;
        interval[r] = (int32_t)(window && i >= window ? i + 1 - window : 0);
        interval[rows + r] = (int32_t)(s->causal ? i + 1 : s->Tk);
    }
    w->a.lo = interval, w->a.hi = interval + rows;
    if (s->extra && s->extra->distances && !bench_attention_distances(w, s)) return false;
    if (!s->backward) return true;
    w->g.dy = (struct qkv_heads){bench_attention_elements(w, dtype, s->B * s->Tq * C), s->Tq * C, C, s->Dv, dtype};
    return w->g.dy.data && bench_attention_place(w, s, dtype, &w->g.dq, &w->g.dk, &w->g.dv);
}

enum qkv_status qkv_bench_attention(struct qkv_bench *b, size_t i, struct qkv_bench_row *row) {
    const struct shape s = shape_of(i);
    const enum qkv_dtype dtype = b->precision->dtype;
    struct work w = {.ctx = b->ctx};
    const size_t C = s.H * s.D, Ckv = s.Hkv * s.D, cached = s.Tk * s.Hkv * (s.D + (s.shared ? 0 : s.Dv)),
                 cache = qkv_type_span(s.cache ? s.cache->dtype : dtype, cached);
    row->flops = 2.0 * (double)(s.H * (s.D + s.Dv)) * bench_attention_pairs(&s) * (s.backward ? 2.5 : 1.0);
    if (s.decode) {
        row->bytes = (double)cache;
        w.cache_bytes = cache;
        w.count = qkv_bench_copies(cache);
        if (w.count > MAX_COPIES) w.count = MAX_COPIES;
    }
    size_t bytes = s.B * s.Tq * (4 * C + 4 * Ckv + s.H + 2) * sizeof(float) * 2 + w.count * cache + ((size_t)1 << 21);
    if (!qkv_bench_has_memory(row, bytes)) return QKV_OK;
    enum qkv_status status = qkv_arena_create(b->ctx, &w.memory, bytes, "operands of attention");
    if (status == QKV_OK) status = qkv_arena_create(b->ctx, &w.scratch, SCRATCH, "scratch of attention");
    if (status == QKV_OK && !bench_attention_make(&w, &s, dtype)) status = QKV_MEMORY;
    if (status == QKV_OK && s.backward) status = bench_attention_forward(&w, 0);
    const struct qkv_bench_contestant us = {"qkv", s.backward ? bench_attention_backward : bench_attention_forward, &w};
    if (status == QKV_OK) status = qkv_bench_measure(b, row, &us, 1);
    qkv_arena_free(&w.scratch);
    qkv_arena_free(&w.memory);
    return status;
}
