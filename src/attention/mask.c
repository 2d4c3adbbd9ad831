/* mask: causal, window, padding, prefix and document masks as one interval [lo, hi) of keys for each query, in O(T)
 * memory.
 *
 * causal: j <= i, or j < prefix. window w: |i − j| < w. sides: i − left <= j <= i + right. padding: start <= j <
 * length. documents: the run of keys with the query's number. Each is an interval, so their intersection is one too. */
#include "attention/attention.h"

#include <string.h>

/* A distance larger than any between two positions. */
#define FAR ((int64_t)1 << 40)

/* One side of a window: a number of keys, or −1 for all of them. */
static enum qkv_status check_side(struct qkv_context *ctx, const struct qkv_mask *m, const char *name, int64_t keys) {
    if (!m->sides && keys)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "mask: %s is %lld without sides; set sides for left and right to count, or leave them 0", name,
                        (long long)keys);
    if (keys < -1)
        return qkv_fail(ctx, QKV_ARGUMENT, "mask: %s is %lld; give how many keys a query sees there, or -1 for all",
                        name, (long long)keys);
    return QKV_OK;
}

static enum qkv_status check_sizes(struct qkv_context *ctx, const struct qkv_mask *m) {
    const size_t limit = (size_t)INT32_MAX;
    size_t pairs;
    if (m->B > limit || m->Tq > limit || m->Tk > limit || m->past > limit)
        return qkv_fail(ctx, QKV_SHAPE,
                        "mask: a dimension of (B,Tq,Tk) = (%zu,%zu,%zu), or the past of %zu keys, exceeds %zu", m->B,
                        m->Tq, m->Tk, m->past, limit);
    if (!qkv_multiply(m->B, m->Tq, &pairs) || !qkv_multiply(pairs, m->Tk ? m->Tk : 1, &pairs) ||
        !qkv_multiply(m->B, m->Tk, &pairs))
        return qkv_fail(ctx, QKV_SHAPE, "mask: (B,Tq,Tk) = (%zu,%zu,%zu) is more than this machine can address", m->B,
                        m->Tq, m->Tk);
    if (m->window < 0)
        return qkv_fail(ctx, QKV_ARGUMENT, "mask: window is %lld; give the number of positions, or 0 for no window",
                        (long long)m->window);
    if (m->offset > INT32_MAX || m->offset < -(int64_t)INT32_MAX)
        return qkv_fail(ctx, QKV_ARGUMENT, "mask: offset is %lld; positions lie within ±%d", (long long)m->offset,
                        INT32_MAX);
    if (m->prefix && !m->causal)
        return qkv_fail(ctx, QKV_ARGUMENT, "mask: prefix is given without causal; it opens keys that causal closes");
    if (m->query_documents && !m->key_documents)
        return qkv_fail(ctx, QKV_ARGUMENT, "mask: query_documents is given without key_documents");
    enum qkv_status status = check_side(ctx, m, "left", m->left);
    return status ? status : check_side(ctx, m, "right", m->right);
}

size_t qkv_mask_queries(const struct qkv_mask *m, size_t b) {
    return m->cu_q ? (size_t)(m->cu_q[b + 1] - m->cu_q[b]) : m->Tq;
}

/* The number of keys of the past and of the others. */
static size_t mask_keys(const struct qkv_mask *m, size_t b) {
    const size_t others = m->cu_k ? (size_t)(m->cu_k[b + 1] - m->cu_k[b]) : m->Tk - m->past;
    return others + (m->pasts ? (size_t)m->pasts[b] : m->past);
}

/* Checks cumulative lengths of sequences; `max_rows` is the maximum of rows of each, 0: unknown. */
static enum qkv_status check_cumulative(struct qkv_context *ctx, const struct qkv_mask *m, const char *name,
                                        const int32_t *cu, const char *Tname, size_t max_rows) {
    if (cu[0]) return qkv_fail(ctx, QKV_ARGUMENT, "mask: %s[0] is %d; the first sequence begins at row 0", name, cu[0]);
    for (size_t b = 0; b < m->B; b++) {
        if (cu[b + 1] < cu[b])
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "mask: %s[%zu] is %d, below %d before it; cumulative lengths do not fall", name, b + 1,
                            cu[b + 1], cu[b]);
        if (max_rows && (size_t)cu[b + 1] - (size_t)cu[b] > max_rows)
            return qkv_fail(ctx, QKV_SHAPE,
                            "mask: %s[%zu] is %d and makes sequence %zu %d rows long, but %s says that there are at "
                            "most %zu",
                            name, b + 1, cu[b + 1], b, cu[b + 1] - cu[b], Tname, max_rows);
    }
    return QKV_OK;
}

static enum qkv_status check_packing(struct qkv_context *ctx, const struct qkv_mask *m) {
    if (!m->cu_q && !m->cu_k) return QKV_OK;
    if (!m->cu_q || !m->cu_k)
        return qkv_fail(ctx, QKV_ARGUMENT, "mask: %s is given without %s; packed sequences need both",
                        m->cu_q ? "cu_q" : "cu_k", m->cu_q ? "cu_k" : "cu_q");
    if (m->key_documents)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "mask: key_documents are given with cu_q and cu_k, which keep sequences apart already");
    enum qkv_status status = check_cumulative(ctx, m, "cu_q", m->cu_q, "Tq", m->Tq);
    return status ? status : check_cumulative(ctx, m, "cu_k", m->cu_k, "Tk", m->Tk);
}

static enum qkv_status check_pasts(struct qkv_context *ctx, const struct qkv_mask *m) {
    if (m->past > m->Tk && (!m->cu_k || m->Tk))
        return qkv_fail(ctx, QKV_SHAPE, "mask: the past has %zu keys, but there are only %zu in all (Tk)", m->past,
                        m->Tk);
    if (m->pasts && m->key_documents)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "mask: key_documents are given with pasts, whose keys begin at other numbers in each row");
    for (size_t b = 0; m->pasts && b < m->B; b++)
        if (m->pasts[b] < 0 || (size_t)m->pasts[b] > m->past)
            return qkv_fail(ctx, QKV_SHAPE,
                            "mask: pasts[%zu] is %d, but the past has room for 0 to %zu keys a sequence", b,
                            m->pasts[b], m->past);
    for (size_t b = 0; m->cu_k && m->Tk && b < m->B; b++)
        if (mask_keys(m, b) > m->Tk)
            return qkv_fail(
                ctx, QKV_SHAPE,
                "mask: sequence %zu has %zu keys with those of its past, but Tk says that there are at most "
                "%zu",
                b, mask_keys(m, b), m->Tk);
    return QKV_OK;
}

enum qkv_status qkv_mask_set_past(struct qkv_context *ctx, struct qkv_mask *m, size_t B) {
    const size_t limit = (size_t)INT32_MAX;
    int64_t longest = 0;
    if (!m->pasts) return QKV_OK;
    if (B > limit) return qkv_fail(ctx, QKV_SHAPE, "mask: %zu sequences exceed %zu", B, limit);
    enum qkv_status status = qkv_aligned(ctx, "mask.pasts", m->pasts, sizeof(int32_t));
    if (status) return status;
    for (size_t b = 0; b < B; b++) {
        if (m->pasts[b] < 0)
            return qkv_fail(ctx, QKV_SHAPE, "mask: pasts[%zu] is %d; a past has 0 keys or more", b, m->pasts[b]);
        if (m->pasts[b] > longest) longest = m->pasts[b];
    }
    if (!m->past) m->past = (size_t)longest;
    return QKV_OK;
}

/* The mask of packed sequences, with Tq and Tk set to the maximum of all sequences if they are 0. */
static struct qkv_mask mask_filled(const struct qkv_mask *m) {
    struct qkv_mask out = *m;
    if (m->cu_q && !m->Tk) out.Tk = m->past;
    for (size_t b = 0; m->cu_q && b < m->B; b++) {
        if (!m->Tq && qkv_mask_queries(m, b) > out.Tq) out.Tq = qkv_mask_queries(m, b);
        if (!m->Tk && mask_keys(m, b) > out.Tk) out.Tk = mask_keys(m, b);
    }
    return out;
}

static enum qkv_status check_counts(struct qkv_context *ctx, const struct qkv_mask *m, const char *name,
                                    const int32_t *counts) {
    for (size_t b = 0; counts && b < m->B; b++)
        if (counts[b] < 0 || (size_t)counts[b] > mask_keys(m, b))
            return qkv_fail(ctx, QKV_ARGUMENT, "mask: %s[%zu] is %d, but there are 0 to %zu keys", name, b, counts[b],
                            mask_keys(m, b));
    return QKV_OK;
}

int64_t qkv_mask_position(const struct qkv_mask *m, size_t b, size_t t) {
    return m->offset + (m->offsets ? m->offsets[b] : 0) + (int64_t)t;
}

/* The index of the first number that is not below `number`. Document numbers do not fall; padding (negative) comes
 * last. */
static int64_t lower_bound(const int32_t *numbers, size_t count, int64_t number) {
    size_t from = 0, to = count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (numbers[middle] >= 0 && numbers[middle] < number)
            from = middle + 1;
        else
            to = middle;
    }
    return (int64_t)from;
}

struct interval {
    int64_t lo, hi;
};

/* The keys of the document with that number; an empty interval if there are none. */
static struct interval document_keys(const struct qkv_mask *m, size_t b, int64_t number) {
    const int32_t *numbers = m->key_documents + b * m->Tk;
    return (struct interval){lower_bound(numbers, m->Tk, number), lower_bound(numbers, m->Tk, number + 1)};
}

enum qkv_status qkv_mask_check_positions(struct qkv_context *ctx, const struct qkv_mask *m) {
    if (!m->query_documents || !m->Tq) return QKV_OK;
    for (size_t row = 0; row < m->B * m->Tq; row++) {
        const size_t b = row / m->Tq, t = row % m->Tq;
        const int64_t number = m->query_documents[row], i = qkv_mask_position(m, b, t);
        if (number < 0) continue;
        const struct interval own = document_keys(m, b, number);
        if (own.lo < own.hi && (i < own.lo || i >= own.hi))
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "mask: query %zu of batch row %zu stands at position %lld, but its document %lld has keys "
                            "%lld to %lld; where causal, a window or ALiBi counts, a query stands among its own keys",
                            t, b, (long long)i, (long long)number, (long long)own.lo, (long long)own.hi - 1);
    }
    return QKV_OK;
}

static enum qkv_status check_documents(struct qkv_context *ctx, const struct qkv_mask *m) {
    for (size_t b = 0; m->key_documents && b < m->B; b++) {
        const int32_t *numbers = m->key_documents + b * m->Tk;
        for (size_t j = 1; j < m->Tk; j++)
            if (numbers[j] >= 0 && numbers[j] < numbers[j - 1])
                return qkv_fail(ctx, QKV_ARGUMENT,
                                "mask: key_documents of batch row %zu go from %d down to %d at key %zu; number the "
                                "documents in the order they are packed in",
                                b, numbers[j - 1], numbers[j], j);
            else if (numbers[j] >= 0 && numbers[j - 1] < 0)
                return qkv_fail(ctx, QKV_ARGUMENT,
                                "mask: key_documents of batch row %zu have document %d at key %zu behind padding (%d); "
                                "padding comes last",
                                b, numbers[j], j, numbers[j - 1]);
    }
    return m->causal || m->window || m->sides ? qkv_mask_check_positions(ctx, m) : QKV_OK;
}

static enum qkv_status check_pointers(struct qkv_context *ctx, const struct qkv_mask *m) {
    const struct {
        const char *name;
        const void *data;
    } arrays[] = {{"mask.offsets", m->offsets},
                  {"mask.lengths", m->lengths},
                  {"mask.starts", m->starts},
                  {"mask.prefix", m->prefix},
                  {"mask.key_documents", m->key_documents},
                  {"mask.query_documents", m->query_documents},
                  {"mask.cu_q", m->cu_q},
                  {"mask.cu_k", m->cu_k},
                  {"mask.pasts", m->pasts}};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0] && !status; i++)
        status = qkv_aligned(ctx, arrays[i].name, arrays[i].data, sizeof(int32_t));
    return status;
}

enum qkv_status qkv_mask_check(struct qkv_context *ctx, const struct qkv_mask *m) {
    if (!ctx || !m) return qkv_fail(ctx, QKV_ARGUMENT, "mask: the mask is NULL");
    enum qkv_status status = check_sizes(ctx, m);
    if (!status) status = check_pointers(ctx, m);
    if (!status) status = check_packing(ctx, m);
    if (!status) status = check_pasts(ctx, m);
    if (!status) status = check_counts(ctx, m, "lengths", m->lengths);
    if (!status) status = check_counts(ctx, m, "starts", m->starts);
    if (!status) status = check_counts(ctx, m, "prefix", m->prefix);
    return !status ? check_documents(ctx, m) : status;
}

enum qkv_status qkv_mask_pack(struct qkv_context *ctx, struct qkv_mask *m, size_t queries, size_t keys) {
    enum qkv_status status = qkv_mask_check(ctx, m);
    if (status) return status;
    const struct {
        const char *name, *of;
        int32_t end;
        size_t rows;
    } sides[] = {{"cu_q", "q", m->cu_q[m->B], queries}, {"cu_k", "k", m->cu_k[m->B], keys}};
    for (size_t i = 0; i < 2; i++)
        if ((size_t)sides[i].end != sides[i].rows)
            return qkv_fail(ctx, QKV_SHAPE,
                            "mask: %s[%zu] is %d, but %s has %zu rows; the last cumulative length of %zu sequences (B) "
                            "is how many rows there are",
                            sides[i].name, m->B, sides[i].end, sides[i].of, sides[i].rows, m->B);
    *m = mask_filled(m);
    return qkv_mask_check(ctx, m);
}

enum qkv_status qkv_mask_fit(struct qkv_context *ctx, struct qkv_mask *m, size_t B, size_t Tq, size_t Tk) {
    if (m->cu_q || m->cu_k)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "mask: %s is given, but here every row of the batch has %zu positions; packed sequences go to "
                        "attention on plain buffers",
                        m->cu_q ? "cu_q" : "cu_k", Tq);
    if (m->past || m->pasts)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "mask: %s is given, but here no keys lie in a past of their own, as they may for attention on "
                        "plain buffers",
                        m->past ? "past" : "pasts");
    return qkv_mask_size(ctx, m, B, Tq, Tk);
}

enum qkv_status qkv_mask_size(struct qkv_context *ctx, struct qkv_mask *m, size_t B, size_t Tq, size_t Tk) {
    if ((m->B && m->B != B) || (m->Tq && m->Tq != Tq) || (m->Tk && m->Tk != Tk))
        return qkv_fail(ctx, QKV_SHAPE,
                        "attention: the mask is made for (B,Tq,Tk) = (%zu,%zu,%zu), but queries and keys make "
                        "(%zu,%zu,%zu)",
                        m->B, m->Tq, m->Tk, B, Tq, Tk);
    m->B = B, m->Tq = Tq, m->Tk = Tk;
    return qkv_mask_check(ctx, m);
}

static void mask_keep(struct interval *keys, int64_t lo, int64_t hi) {
    if (keys->lo < lo) keys->lo = lo;
    if (keys->hi > hi) keys->hi = hi;
}

/* The number of keys on one side of a window. */
static int64_t mask_reach(int64_t keys) {
    return keys < 0 || keys > FAR ? FAR : keys;
}

/* The keys of query t of batch row b; with a chunk, which is no part of a caller's mask, those of its chunk. */
static struct interval keys_of(const struct qkv_mask *m, int64_t chunk, size_t b, size_t t) {
    const int64_t Tk = (int64_t)mask_keys(m, b), i = qkv_mask_position(m, b, t);
    int64_t first = 0; /* of the query's document */
    struct interval keys = {m->starts ? m->starts[b] : 0, m->lengths ? m->lengths[b] : Tk};
    if (m->causal) {
        int64_t open = m->prefix ? m->prefix[b] : 0;
        mask_keep(&keys, 0, i + 1 > open ? i + 1 : open);
    }
    if (m->window > 0 && m->window <= INT32_MAX) mask_keep(&keys, i - m->window + 1, i + m->window);
    if (m->sides) mask_keep(&keys, i - mask_reach(m->left), i + mask_reach(m->right) + 1);
    if (m->key_documents) {
        const int32_t *numbers = m->key_documents + b * m->Tk;
        int64_t number = m->query_documents ? m->query_documents[b * m->Tq + t] : i >= 0 && i < Tk ? numbers[i] : -1;
        if (number < 0) return (struct interval){0, 0};
        struct interval own = document_keys(m, b, number);
        mask_keep(&keys, own.lo, own.hi);
        first = own.lo;
    }
    if (chunk > 0 && i >= first) {
        const int64_t begin = first + (i - first) / chunk * chunk;
        mask_keep(&keys, begin, begin + chunk);
    }
    return keys.lo < keys.hi ? keys : (struct interval){0, 0};
}

void qkv_mask_keys(const struct qkv_mask *m, int64_t chunk, size_t b, size_t t, int32_t *lo, int32_t *hi) {
    const struct interval keys = keys_of(m, chunk, b, t);
    *lo = (int32_t)keys.lo, *hi = (int32_t)keys.hi;
}

double qkv_mask_pairs(const struct qkv_mask *m, int64_t chunk) {
    double pairs = 0;
    for (size_t b = 0; b < m->B; b++)
        for (size_t t = 0; t < qkv_mask_queries(m, b); t++) {
            struct interval keys = keys_of(m, chunk, b, t);
            pairs += (double)(keys.hi - keys.lo);
        }
    return pairs;
}

struct qkv_mask qkv_mask_defaults(void) {
    return (struct qkv_mask){0};
}

/* Copies and checks a caller's mask, and sets its maximum of keys of a past. */
static enum qkv_status mask_take(struct qkv_context *ctx, const struct qkv_mask *m, struct qkv_mask *own) {
    if (!m) return qkv_mask_check(ctx, m);
    *own = *m;
    enum qkv_status status = qkv_mask_set_past(ctx, own, own->B);
    return status ? status : qkv_mask_check(ctx, own);
}

enum qkv_status qkv_mask_intervals(struct qkv_context *ctx, const struct qkv_mask *mask, int32_t *lo, int32_t *hi) {
    QKV_CALL(ctx);
    struct qkv_mask m;
    enum qkv_status status = mask_take(ctx, mask, &m);
    if (status) return status;
    const size_t rows = m.cu_q ? (size_t)m.cu_q[m.B] : m.B * m.Tq;
    if (rows && (!lo || !hi)) return qkv_fail(ctx, QKV_ARGUMENT, "mask: lo and hi must both be given");
    for (size_t b = 0, row = 0; b < m.B; b++)
        for (size_t t = 0; t < qkv_mask_queries(&m, b); t++, row++) qkv_mask_keys(&m, 0, b, t, &lo[row], &hi[row]);
    return QKV_OK;
}

enum qkv_status qkv_mask_dense(struct qkv_context *ctx, const struct qkv_mask *mask, uint8_t *dense) {
    QKV_CALL(ctx);
    struct qkv_mask m;
    enum qkv_status status = mask_take(ctx, mask, &m);
    if (status) return status;
    m = mask_filled(&m);
    status = check_sizes(ctx, &m);
    if (status) return status;
    if (m.B && m.Tq && m.Tk && !dense) return qkv_fail(ctx, QKV_ARGUMENT, "mask: dense is NULL");
    for (size_t row = 0; m.Tk && row < m.B * m.Tq; row++) {
        const size_t b = row / m.Tq, t = row % m.Tq;
        memset(dense + row * m.Tk, 0, m.Tk);
        if (t >= qkv_mask_queries(&m, b)) continue;
        const struct interval keys = keys_of(&m, 0, b, t);
        memset(dense + row * m.Tk + keys.lo, 1, (size_t)(keys.hi - keys.lo));
    }
    return QKV_OK;
}

enum qkv_status qkv_mask_documents(struct qkv_context *ctx, const size_t *lengths, size_t count, size_t T,
                                   int32_t *documents) {
    QKV_CALL(ctx);
    size_t used = 0;
    if ((count && !lengths) || (T && !documents))
        return qkv_fail(ctx, QKV_ARGUMENT, "mask: %s is NULL", documents ? "lengths" : "documents");
    for (size_t n = 0; n < count; n++) {
        if (lengths[n] > T - used)
            return qkv_fail(ctx, QKV_SHAPE, "mask: document %zu of %zu has %zu positions, but only %zu of %zu are left",
                            n, count, lengths[n], T - used, T);
        if (n > (size_t)INT32_MAX) return qkv_fail(ctx, QKV_SHAPE, "mask: %zu documents are too many", count);
        for (size_t end = used + lengths[n]; used < end; used++) documents[used] = (int32_t)n;
    }
    for (; used < T; used++) documents[used] = -1;
    return QKV_OK;
}
