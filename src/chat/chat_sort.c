/* A stable sort of values: merging, so that equal keys stay in order. */
#include "chat/chat.h"

#include <string.h>

struct sort_pair {
    struct chat_value key, item;
};

/* Merges from[a, middle) and from[middle, b) into to[a, b). `reverse`: from the largest key to the smallest. */
static enum qkv_status sort_merge(struct chat_run *run, const struct sort_pair *from, struct sort_pair *to, size_t a,
                                  size_t middle, size_t b, bool reverse) {
    enum qkv_status status = QKV_OK;
    size_t left = a, right = middle;
    for (size_t i = a; i < b && !status; i++) {
        bool less = right < b && left >= middle;
        if (left < middle && right < b)
            status = reverse ? qkv_chat_less(run, from[left].key, from[right].key, &less)
                             : qkv_chat_less(run, from[right].key, from[left].key, &less);
        to[i] = less ? from[right++] : from[left++];
    }
    return status;
}

enum qkv_status qkv_chat_sort(struct chat_run *run, struct chat_value *keys, struct chat_value *items, size_t count,
                              bool reverse) {
    struct sort_pair *from = qkv_chat_take(&run->pool, count, sizeof *from);
    struct sort_pair *to = qkv_chat_take(&run->pool, count, sizeof *to);
    enum qkv_status status = from && to ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < count && !status; i++) from[i] = (struct sort_pair){keys[i], items[i]};
    for (size_t width = 1; width < count && !status; width *= 2) {
        for (size_t a = 0; a < count && !status; a += 2 * width) {
            const size_t middle = qkv_min(a + width, count), b = qkv_min(a + 2 * width, count);
            status = sort_merge(run, from, to, a, middle, b, reverse);
        }
        struct sort_pair *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < count && !status; i++) {
        keys[i] = from[i].key;
        items[i] = from[i].item;
    }
    return status ? status : qkv_chat_work(run, count * sizeof *from);
}
