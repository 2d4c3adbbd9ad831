/* A hash table of byte strings: open addressing with 64-bit hashes; the strings are in one buffer, in order of
 * appearance. */
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

static uint64_t strings_mix(uint64_t h) {
    h ^= h >> 32;
    h *= UINT64_C(0xD6E8FEB86659FD93);
    h ^= h >> 29;
    return h;
}

uint64_t qkv_hash_bytes(const char *s, size_t n) {
    uint64_t h = UINT64_C(0x9E3779B97F4A7C15) ^ n;
    uint64_t word;
    for (; n >= sizeof word; s += sizeof word, n -= sizeof word) {
        memcpy(&word, s, sizeof word);
        h = strings_mix((h ^ word) * UINT64_C(0xFF51AFD7ED558CCD));
    }
    word = 0;
    memcpy(&word, s, n);
    return strings_mix(strings_mix((h ^ word) * UINT64_C(0xC4CEB9FE1A85EC53)));
}

/* The slot of a string, or the free slot where it belongs. */
static size_t find_slot(const struct qkv_strings *strings, const char *s, size_t n, uint64_t hash) {
    size_t mask = strings->slot_count - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        if (strings->slots[i] == 0) return i;
        const struct qkv_string *e = &strings->entries[strings->slots[i] - 1];
        if (e->hash == hash && e->size == n && memcmp(strings->bytes.data + e->offset, s, n) == 0) return i;
    }
}

static enum qkv_status grow_slots(struct qkv_context *ctx, struct qkv_strings *strings) {
    size_t count = strings->slot_count ? strings->slot_count * 2 : 64;
    uint32_t *slots = qkv_allocate(ctx, count, sizeof *slots);
    if (!slots) return QKV_MEMORY;
    for (size_t k = 0; k < strings->count; k++) {
        size_t i = (size_t)strings->entries[k].hash & (count - 1);
        while (slots[i]) i = (i + 1) & (count - 1);
        slots[i] = (uint32_t)(k + 1);
    }
    free(strings->slots);
    strings->slots = slots;
    strings->slot_count = count;
    return QKV_OK;
}

static enum qkv_status strings_grow(struct qkv_context *ctx, struct qkv_strings *strings) {
    if (strings->count >= UINT32_MAX - 1)
        return qkv_fail(ctx, QKV_MEMORY, "text: more than %u distinct pieces; use a smaller text", UINT32_MAX - 1);
    if (strings->count + strings->count / 2 >= strings->slot_count && grow_slots(ctx, strings)) return QKV_MEMORY;
    struct qkv_string *entries =
        qkv_list_room(ctx, strings->entries, &strings->capacity, strings->count, 1, sizeof *entries);
    if (!entries) return QKV_MEMORY;
    strings->entries = entries;
    return QKV_OK;
}

struct qkv_string *qkv_strings_add(struct qkv_context *ctx, struct qkv_strings *strings, const char *s, size_t n) {
    uint64_t hash = qkv_hash_bytes(s, n);
    if (strings->count > 0) {
        uint32_t entry = strings->slots[find_slot(strings, s, n, hash)];
        if (entry) return &strings->entries[entry - 1];
    }
    if (strings_grow(ctx, strings)) return NULL;
    size_t offset = strings->bytes.size;
    if (qkv_buffer_append(ctx, &strings->bytes, s, n)) return NULL;
    size_t slot = find_slot(strings, s, n, hash);
    struct qkv_string *entry = &strings->entries[strings->count++];
    *entry = (struct qkv_string){.offset = offset, .size = n, .hash = hash};
    strings->slots[slot] = (uint32_t)strings->count;
    return entry;
}

const struct qkv_string *qkv_strings_find(const struct qkv_strings *strings, const char *s, size_t n) {
    if (strings->count == 0) return NULL;
    uint32_t entry = strings->slots[find_slot(strings, s, n, qkv_hash_bytes(s, n))];
    return entry ? &strings->entries[entry - 1] : NULL;
}

void qkv_strings_free(struct qkv_strings *strings) {
    qkv_buffer_free(&strings->bytes);
    free(strings->entries);
    free(strings->slots);
    *strings = (struct qkv_strings){0};
}
