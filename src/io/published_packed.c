/* Published folders: the numbers of a tensor in a format with few bits.
 *
 * 8 bits (DeepSeek V3): a matrix NAME.weight of F8_E4M3 has scales in NAME.weight_scale_inv, one per block of rows and
 * columns; the last blocks may be cut.
 * MXFP4 (OCP 2023, gpt-oss): the experts (E, in, out) of NAME are NAME_blocks (E, out, in/32, 16), two numbers of 4 bits
 * per byte, the low half first, and NAME_scales (E, out, in/32), exponents of two. */
#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "io/published_files.h"
#include "op/steps.h"
#include "io/safetensors.h"

enum { BLOCK = 32, BLOCK_BYTES = BLOCK / 2 }; /* numbers of a block of MXFP4, and the bytes of the numbers alone */

static enum qkv_status check_shape(const struct qkv_published *p, size_t file, const struct qkv_array *got,
                                   const struct qkv_array *want) {
    char asked[QKV_SHAPE_TEXT], found[QKV_SHAPE_TEXT];
    bool same = got->rank == want->rank;
    for (int d = 0; d < want->rank && same; d++) same = got->shape[d] == want->shape[d];
    if (same) return QKV_OK;
    return qkv_fail(p->ctx, QKV_SHAPE, "%s: %s is %s but %s makes it %s", p->files[file].path, got->name,
                    qkv_shape_text(got->shape, got->rank, found), p->asker,
                    qkv_shape_text(want->shape, want->rank, asked));
}

static enum qkv_status check_type(const struct qkv_published *p, size_t file, const struct qkv_array *got, bool fits,
                                  const char *what) {
    if (fits) return QKV_OK;
    return qkv_fail(p->ctx, QKV_FORMAT, "%s: %s is of type %s; %s", p->files[file].path, got->name,
                    qkv_types[got->dtype]->safetensors, what);
}

static enum qkv_status find_beside(const struct qkv_published *p, const char *name, const char *end, size_t *file,
                                   const struct qkv_array **out) {
    char whole[QKV_FAMILY_NAME + 16];
    snprintf(whole, sizeof whole, "%s%s", name, end);
    *out = qkv_published_find(p, whole, file);
    if (*out) return QKV_OK;
    return qkv_fail(p->ctx, QKV_FORMAT, "%s has no tensor %s, which %s asks for",
                    p->count == 1 ? p->files[0].path : p->folder, whole, p->asker);
}

/* Finds the scales of a matrix in 8 bits. */
static enum qkv_status locate_scales(const struct qkv_published *p, struct qkv_published_entry *e) {
    const size_t *block = p->config.block;
    struct qkv_array want = {.rank = 2};
    if (!block[0] || e->theirs->rank != 2)
        return check_type(p, e->file, e->theirs, false,
                          "quantization_config must describe such numbers, and their tensors must be matrices");
    enum qkv_status status = find_beside(p, e->theirs->name, "_scale_inv", &e->scales_file, &e->scales);
    if (status) return status;
    for (size_t d = 0; d < 2; d++) want.shape[d] = (e->theirs->shape[d] + block[d] - 1) / block[d];
    status = check_type(p, e->scales_file, e->scales, qkv_type_is_real(e->scales->dtype), "scales are floats");
    return status ? status : check_shape(p, e->scales_file, e->scales, &want);
}

/* Finds blocks and scales of experts in 4 bits, whose shape as floats is `want`. */
static enum qkv_status locate_blocks(const struct qkv_published *p, const struct qkv_array *whole,
                                     struct qkv_published_entry *e) {
    struct qkv_array want = {.rank = 4,
                             .shape = {whole->shape[0], whole->shape[2], whole->shape[1] / BLOCK, BLOCK_BYTES}};
    enum qkv_status status = find_beside(p, e->view.name, "_blocks", &e->file, &e->theirs);
    if (!status) status = find_beside(p, e->view.name, "_scales", &e->scales_file, &e->scales);
    if (!status && whole->shape[1] % BLOCK)
        status = qkv_fail(p->ctx, QKV_SHAPE, "%s: %zu numbers cannot be cut into blocks of %d", e->theirs->name,
                          whole->shape[1], BLOCK);
    if (!status) status = check_shape(p, e->file, e->theirs, &want);
    if (!status) status = check_type(p, e->file, e->theirs, e->theirs->dtype == QKV_U8, "blocks are bytes (U8)");
    want.rank = 3;
    if (!status) status = check_shape(p, e->scales_file, e->scales, &want);
    if (!status)
        status = check_type(p, e->scales_file, e->scales, e->scales->dtype == QKV_U8, "their scales are bytes (U8)");
    e->packed = true;
    return status;
}

enum qkv_status qkv_published_locate(const struct qkv_published *p, const struct qkv_array *want,
                                     struct qkv_published_entry *e) {
    const unsigned flags = QKV_FAMILY_STACKED | QKV_FAMILY_TRANSPOSED;
    e->theirs = qkv_published_find(p, e->view.name, &e->file);
    if (!e->theirs && p->config.packed && (e->view.flags & flags) == flags && want->rank == 3)
        return locate_blocks(p, want, e);
    enum qkv_status status = e->theirs ? QKV_OK : find_beside(p, e->view.name, "", &e->file, &e->theirs);
    if (!status) status = check_shape(p, e->file, e->theirs, want);
    if (!status && e->theirs->dtype == QKV_F8_E4M3) return locate_scales(p, e);
    return status ? status
                  : check_type(p, e->file, e->theirs, qkv_type_is_real(e->theirs->dtype), "weights are floats");
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Slice `slice` of `slices` along the first dimension, as floats; the caller frees them. */
static enum qkv_status read_slice(const struct qkv_published *p, size_t file, const struct qkv_array *array,
                                  size_t slice, size_t slices, float **out) {
    struct qkv_array part = *array;
    part.shape[0] /= slices;
    part.bytes /= slices;
    part.data = (const char *)part.data + slice * part.bytes;
    *out = qkv_allocate(p->ctx, qkv_array_elements(&part), sizeof **out);
    return *out ? qkv_tensors_floats(p->files[file].tensors, &part, *out) : QKV_MEMORY;
}

static void scale_blocks(const struct qkv_array *matrix, const size_t block[2], const float *scales, float *x) {
    const size_t rows = matrix->shape[0], columns = matrix->shape[1], across = (columns + block[1] - 1) / block[1];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) x[r * columns + c] *= scales[r / block[0] * across + c / block[1]];
}

enum qkv_status qkv_published_floats(const struct qkv_published *p, const struct qkv_published_entry *e, float **out) {
    const size_t slices = e->view.flags & QKV_FAMILY_STACKED ? e->view.slices : 1;
    float *numbers = NULL, *scales = NULL;
    *out = NULL;
    enum qkv_status status = read_slice(p, e->file, e->theirs, e->view.slice, slices, &numbers);
    if (!status && e->scales) status = read_slice(p, e->scales_file, e->scales, 0, 1, &scales);
    if (!status && scales) scale_blocks(e->theirs, p->config.block, scales, numbers);
    const bool plus = !status && e->view.flags & QKV_FAMILY_PLUS_ONE;
    for (size_t i = 0, n = plus ? qkv_array_elements(e->theirs) / slices : 0; i < n; i++) numbers[i] -= 1;
    if (!status) {
        *out = numbers;
        numbers = NULL;
    }
    free(numbers);
    free(scales);
    return status;
}

/* ---- MXFP4 ------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_published_join(const struct qkv_published *p, const struct qkv_published_entry *e, size_t rows,
                                   void *ours) {
    size_t *places = qkv_published_places(p->ctx, &e->view, rows);
    if (!places) return QKV_MEMORY;
    struct qkv_array numbers = *e->theirs, exponents = *e->scales;
    numbers.bytes /= e->view.slices, exponents.bytes /= e->view.slices;
    numbers.data = (const char *)numbers.data + e->view.slice * numbers.bytes;
    exponents.data = (const char *)exponents.data + e->view.slice * exponents.bytes;
    enum qkv_status status =
        QKV_STEP(p->ctx, join_blocks, .ours = ours, .numbers = numbers.data, .exponents = exponents.data,
                 .places = places, .rows = rows, .blocks = e->theirs->shape[2]);
    free(places);
    qkv_tensors_forget(p->files[e->file].tensors, &numbers);
    return status;
}
