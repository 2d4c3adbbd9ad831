/* q8_0: the blocks of the type q8_0, along the channels of a head, in groups of positions (page_groups.h): 8.5 bits a
 * number. Heads are stored one after the other. */
#include "kernel/page.h"
#include "kernel/page_groups.h"

#include <string.h>

enum { Q8_CHANNELS = QKV_GROUP_CHANNELS, Q8_POSITIONS = QKV_GROUP_POSITIONS, Q8_BYTES = 2 + Q8_CHANNELS };

static size_t q8_0_blocks(const struct qkv_pages *pages) {
    return pages->columns / Q8_CHANNELS;
}

static size_t q8_0_bytes(const struct qkv_pages *pages) {
    return pages->heads * qkv_group_count(pages->positions) * q8_0_blocks(pages) * sizeof(struct qkv_page_group);
}

static struct qkv_page_group *q8_0_head(const struct qkv_pages *pages, size_t page, size_t head) {
    struct qkv_page_group *groups = (void *)((char *)pages->data + page * pages->bytes);
    return groups + head * qkv_group_count(pages->positions) * q8_0_blocks(pages);
}

static const struct qkv_page_group *q8_0_groups(const struct qkv_pages *pages, size_t page, size_t head) {
    return q8_0_head(pages, page, head);
}

/* The number of channel 0 at a position of a group, and the distance from one channel to the next. */
static size_t q8_0_first(const struct qkv_pages *pages, size_t position) {
    return pages->side == QKV_PAGE_KEYS ? position : position * Q8_CHANNELS;
}
static size_t q8_0_step(const struct qkv_pages *pages) {
    return pages->side == QKV_PAGE_KEYS ? Q8_POSITIONS : 1;
}

/* Writes the channels of a head at a position of a group. */
static void q8_0_put_row(const struct qkv_pages *pages, struct qkv_page_group *groups, size_t position, const void *row,
                         enum qkv_dtype dtype) {
    const size_t first = q8_0_first(pages, position), step = q8_0_step(pages);
    for (size_t b = 0; b < q8_0_blocks(pages); b++) {
        float numbers[Q8_CHANNELS];
        unsigned char block[Q8_BYTES];
        qkv_to_float(numbers, (const char *)row + qkv_type_span(dtype, b * Q8_CHANNELS), dtype, Q8_CHANNELS);
        qkv_from_float(block, numbers, QKV_Q8_0, Q8_CHANNELS);
        memcpy(&groups[b].scales[position], block, 2);
        for (size_t c = 0; c < Q8_CHANNELS; c++) groups[b].numbers[first + c * step] = (int8_t)block[2 + c];
    }
}

static void q8_0_put(const struct qkv_pages *pages, const struct qkv_page_part *part,
                     const struct qkv_page_rows *rows) {
    for (size_t n = 0; n < part->heads; n++) {
        struct qkv_page_group *groups = q8_0_head(pages, part->page, part->head + n);
        for (size_t i = 0; i < part->count; i++) {
            const size_t at = part->first + i, from = i * rows->stride + n * pages->columns;
            q8_0_put_row(pages, groups + at / Q8_POSITIONS * q8_0_blocks(pages), at % Q8_POSITIONS,
                         (const char *)rows->data + qkv_type_span(rows->dtype, from), rows->dtype);
        }
    }
}

static void q8_0_copy(const struct qkv_pages *pages, size_t to, size_t from, size_t count) {
    const size_t bytes = qkv_group_count(count) * q8_0_blocks(pages) * sizeof(struct qkv_page_group);
    for (size_t n = 0; n < pages->heads; n++) memcpy(q8_0_head(pages, to, n), q8_0_head(pages, from, n), bytes);
}

static void q8_0_read(const struct qkv_pages *pages, const struct qkv_page_part *part, size_t columns, float *out) {
    const struct qkv_page_group *groups = q8_0_head(pages, part->page, part->head);
    const size_t step = q8_0_step(pages);
    for (size_t i = 0; i < part->count; i++, out += columns) {
        const size_t at = part->first + i, first = q8_0_first(pages, at % Q8_POSITIONS);
        const struct qkv_page_group *group = groups + at / Q8_POSITIONS * q8_0_blocks(pages);
        for (size_t c = 0; c < columns; c += Q8_CHANNELS, group++) {
            float scale;
            qkv_to_float(&scale, &group->scales[at % Q8_POSITIONS], QKV_F16, 1);
            for (size_t k = 0; k < qkv_min(columns - c, Q8_CHANNELS); k++)
                out[c + k] = scale * (float)group->numbers[first + k * step];
        }
    }
}

const struct qkv_page_type qkv_page_type_q8_0 = {.name = "q8_0",
                                                 .help = "8.5 bits: blocks of 32 channels with a scale",
                                                 .dtype = QKV_Q8_0,
                                                 .shared = true,
                                                 .bytes = q8_0_bytes,
                                                 .put = q8_0_put,
                                                 .copy = q8_0_copy,
                                                 .read = q8_0_read,
                                                 .groups = q8_0_groups};
