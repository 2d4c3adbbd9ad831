/* view: heads anywhere in memory, and arrays over pairs of query and key: constructors, and the checks of every stride
 * and size. */
#include "attention/attention.h"

#include <inttypes.h>
#include <stdio.h>

struct qkv_view qkv_view_defaults(void) {
    return (struct qkv_view){0};
}

struct qkv_pair_shape qkv_pair_shape_defaults(void) {
    return (struct qkv_pair_shape){0};
}

struct qkv_view qkv_view_bhtd(void *data, enum qkv_dtype dtype, size_t B, size_t H, size_t T, size_t D) {
    return (struct qkv_view){
        .data = data, .dtype = dtype, .B = B, .H = H, .T = T, .D = D, .batch = H * T * D, .head = T * D, .row = D};
}

struct qkv_view qkv_view_bthd(void *data, enum qkv_dtype dtype, size_t B, size_t T, size_t H, size_t D) {
    return (struct qkv_view){
        .data = data, .dtype = dtype, .B = B, .H = H, .T = T, .D = D, .batch = T * H * D, .head = D, .row = H * D};
}

static struct qkv_view view_moved(struct qkv_view view, size_t elements) {
    if (view.data) view.data = (unsigned char *)view.data + elements * qkv_type_size(view.dtype);
    return view;
}

struct qkv_view qkv_view_heads(struct qkv_view view, size_t first, size_t count) {
    if (first > view.H || count > view.H - first) return (struct qkv_view){.dtype = view.dtype};
    view.H = count;
    return view_moved(view, first * view.head);
}

struct qkv_view qkv_view_rows(struct qkv_view view, size_t first, size_t count) {
    if (first > view.T || count > view.T - first) return (struct qkv_view){.dtype = view.dtype};
    view.T = count;
    return view_moved(view, first * view.row);
}

enum qkv_status qkv_aligned(struct qkv_context *ctx, const char *name, const void *data, size_t size) {
    if ((uintptr_t)data % size == 0) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT, "attention: %s is at %p, which is not a multiple of its %zu-byte elements", name,
                    data, size);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* One dimension of an array: its size and stride. */
struct dimension {
    size_t count, stride;
};

static void sort_by_stride(struct dimension d[3]) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 2; i++)
            if (d[i].stride > d[i + 1].stride) {
                struct dimension swap = d[i];
                d[i] = d[i + 1], d[i + 1] = swap;
            }
}

/* The number of elements from the first to the last one of an array whose innermost `inner` elements are contiguous;
 * false if no machine can address them. *apart: no two elements share memory. */
static bool view_extent(struct dimension d[3], size_t inner, size_t size, bool *apart) {
    size_t elements = inner;
    *apart = true;
    if (!d[0].count || !d[1].count || !d[2].count) return true;
    sort_by_stride(d);
    for (int i = 0; i < 3; i++) {
        size_t step;
        if (d[i].count <= 1) continue;
        if (d[i].stride < elements) *apart = false;
        if (!qkv_multiply(d[i].count - 1, d[i].stride, &step) || !qkv_add_size(elements, step, &elements)) return false;
    }
    return elements <= (size_t)PTRDIFF_MAX / size;
}

static enum qkv_status check_storage(struct qkv_context *ctx, const char *name, const struct qkv_view *v,
                                     bool written) {
    size_t size = v->dtype == QKV_F32 ? sizeof(float) : sizeof(uint16_t);
    if (v->dtype != QKV_F32 && v->dtype != QKV_BF16 && v->dtype != QKV_F16)
        return qkv_fail(ctx, QKV_ARGUMENT, "attention: %s has dtype %d; it must be QKV_F32, QKV_BF16 or QKV_F16", name,
                        (int)v->dtype);
    if (!v->B || !v->H || !v->T || !v->D) return QKV_OK;
    if (!v->data) return qkv_fail(ctx, QKV_ARGUMENT, "attention: %s has no data", name);
    if (qkv_aligned(ctx, name, v->data, size)) return QKV_ARGUMENT;
    struct dimension d[3] = {{v->B, v->batch}, {v->H, v->head}, {v->T, v->row}};
    bool apart;
    if (!view_extent(d, v->D, size, &apart))
        return qkv_fail(
            ctx, QKV_SHAPE,
            "attention: %s (%zu,%zu,%zu,%zu) with strides %zu, %zu, %zu reaches further than this machine can "
            "address",
            name, v->B, v->H, v->T, v->D, v->batch, v->head, v->row);
    if (written && !apart)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "attention: %s (%zu,%zu,%zu,%zu) is written, but with strides %zu, %zu, %zu its elements overlap", name,
            v->B, v->H, v->T, v->D, v->batch, v->head, v->row);
    return QKV_OK;
}

enum qkv_status qkv_view_check(struct qkv_context *ctx, const char *name, const struct qkv_view *v, const char *like,
                               size_t B, size_t H, size_t T, size_t D, bool written) {
    if (v->B != B || v->H != H || v->T != T || v->D != D)
        return qkv_fail(ctx, QKV_SHAPE,
                        "attention: %s is (%zu,%zu,%zu,%zu); to go with %s it must be (%zu,%zu,%zu,%zu)", name, v->B,
                        v->H, v->T, v->D, like, B, H, T, D);
    return check_storage(ctx, name, v, written);
}

struct qkv_heads qkv_view_for_kernel(const struct qkv_view *v) {
    return (struct qkv_heads){
        .data = v->data, .batch_stride = v->batch, .row_stride = v->row, .head_stride = v->head, .dtype = v->dtype};
}

/* Checks that the array called `name` (its elements have `size` bytes) fits (B,H,Tq,Tk); *out are its strides, 0 for
 * broadcast dimensions. */
static enum qkv_status view_pair_strides(struct qkv_context *ctx, const char *name, const struct qkv_pair_shape *s,
                                         size_t B, size_t H, size_t Tq, size_t Tk, size_t size, bool written,
                                         struct qkv_pairs *out) {
    bool agrees = (s->B == B || s->B == 1) && (s->H == H || s->H == 1) && (s->Tq == Tq || s->Tq == 1) && s->Tk <= Tk;
    if (!agrees)
        return qkv_fail(
            ctx, QKV_SHAPE,
            "attention: %s is (%zu,%zu,%zu,%zu), but q and k make (B,H,Tq,Tk) = (%zu,%zu,%zu,%zu); of these, "
            "all but the keys may be 1, and the keys may be fewer",
            name, s->B, s->H, s->Tq, s->Tk, B, H, Tq, Tk);
    struct qkv_pair_shape p = *s;
    if (!p.batch && !p.head && !p.row && (!qkv_multiply(p.Tq, p.Tk, &p.head) || !qkv_multiply(p.head, p.H, &p.batch)))
        p.batch = p.head = SIZE_MAX; /* set below */
    if (!s->batch && !s->head && !s->row) p.row = p.Tk;
    struct dimension d[3] = {{p.B, p.batch}, {p.H, p.head}, {p.Tq, p.row}};
    bool apart;
    if (!view_extent(d, p.Tk, size, &apart))
        return qkv_fail(
            ctx, QKV_SHAPE,
            "attention: %s (%zu,%zu,%zu,%zu) with strides %zu, %zu, %zu reaches further than this machine can "
            "address",
            name, s->B, s->H, s->Tq, s->Tk, s->batch, s->head, s->row);
    if (written && !apart)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "attention: the gradient of %s (%zu,%zu,%zu,%zu) is written, but with strides %zu, %zu, %zu its "
            "elements overlap",
            name, s->B, s->H, s->Tq, s->Tk, s->batch, s->head, s->row);
    *out = (struct qkv_pairs){.batch_stride = p.B <= 1 ? 0 : p.batch,
                              .head_stride = p.H <= 1 ? 0 : p.head,
                              .row_stride = p.Tq <= 1 ? 0 : p.row,
                              .missing = Tk - p.Tk};
    return QKV_OK;
}

enum qkv_status qkv_attend_set_pairs(struct qkv_context *ctx, struct qkv_attend *a, const uint8_t *dense,
                                     const struct qkv_pair_shape *dense_shape, const float *bias,
                                     const struct qkv_pair_shape *bias_shape, bool written) {
    enum qkv_status status = QKV_OK;
    a->mask = dense;
    a->attention_bias = bias;
    if (dense)
        status =
            view_pair_strides(ctx, "the dense mask", dense_shape, a->B, a->H, a->Tq, a->Tk, 1, false, &a->mask_strides);
    if (status || !bias) return status;
    return view_pair_strides(ctx, "bias", bias_shape, a->B, a->H, a->Tq, a->Tk, sizeof(float), written,
                             &a->attention_bias_strides);
}
