/* attend_pages: the pages that a call of attention reads. */
#include "kernel/isa/attend.h"

struct qkv_pages qkv_attend_pages(const struct qkv_attend_plan *plan, enum qkv_page_side side) {
    const struct qkv_attend *a = plan->a;
    const struct qkv_page_table *table = &a->pages;
    const bool keys = side == QKV_PAGE_KEYS || table->shared;
    struct qkv_pages pages =
        qkv_pages_of(plan->kernels, keys ? table->k : table->v, keys ? QKV_PAGE_KEYS : QKV_PAGE_VALUES, a->Hkv,
                     keys ? a->D : a->Dv, table->positions);
    pages.count = table->count;
    pages.data = keys ? a->past_k.data : a->past_v.data;
    return pages;
}
