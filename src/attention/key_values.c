/* key_values: new keys and values go to the pages of a cache, in the types of the pages; attention reads them there. */
#include "attention/attention.h"
#include "op/steps.h"

void qkv_attention_append(const struct qkv_attention_args *f, struct qkv_columns kv, size_t T, bool whole) {
    const struct qkv_attend *call = f->attend;
    const struct qkv_tensor *x = kv.x;
    const struct qkv_page_rows rows = {
        .data = (const char *)x->data + qkv_type_span(x->dtype, kv.column), .dtype = x->dtype, .stride = x->columns};
    qkv_tape_failed(f->tape,
                    QKV_STEP(f->tape->ctx, append_pages, .cache = f->cache, .rows = rows, .lists = call->pages.lists,
                             .B = call->B, .T = T, .start = whole ? call->k_start : call->q_start,
                             .lengths = call->pasts, .length = call->Tk, .whole = whole));
}

static struct qkv_columns cached_tensor(const struct qkv_attention_args *f, const struct qkv_pages *pages) {
    struct qkv_tensor *x =
        qkv_tape_view(f->tape, pages->data, pages->count * pages->positions, pages->heads * pages->columns);
    if (x) x->dtype = pages->type->dtype;
    return (struct qkv_columns){x, 0};
}

bool qkv_attention_cached(const struct qkv_attention_args *f, struct qkv_columns *k, struct qkv_columns *v,
                          struct qkv_attend *call) {
    const struct qkv_key_values *cache = f->cache;
    *k = cached_tensor(f, &cache->k);
    *v = cache->shared ? *k : cached_tensor(f, &cache->v);
    call->pages.k = cache->k.type, call->pages.v = cache->v.type, call->pages.shared = cache->shared;
    return k->x && v->x;
}
