/* unpack: the kernels of this table for types: conversion of stored numbers, in unaligned memory, to fp32, and
 * products of a few rows with them. A type without a line here is converted by its own file, a piece at a time. */
#include "kernel/isa/gemm_few.h"
#include "kernel/isa/isa.h"
#include "type/type_form.h"
#include "type/type_unpack.h"

/* Halves i, i + 1, … of an unaligned array, m of them, then zeros. */
#define UNPACK_HALVES(lanes, in, i, m)                                                                                 \
    uint16_t lanes[W] = {0};                                                                                           \
    memcpy(lanes, (const unsigned char *)(in) + 2 * (i), 2 * (m))

static void unpack_bf16(float *out, const void *in, size_t n) {
    QKV_EACH(i, m, n, {
        UNPACK_HALVES(lanes, in, i, m);
        vf_store_n(out + i, load_bf16(lanes, W), m);
    });
}

static void unpack_f16(float *out, const void *in, size_t n) {
    QKV_EACH(i, m, n, {
        UNPACK_HALVES(lanes, in, i, m);
        vf_store_n(out + i, load_f16(lanes, W), m);
    });
}

static void few_bf16(const struct qkv_gemm_few *few) {
    few_product(FEW_KIND_BF16, few);
}

static void few_f16(const struct qkv_gemm_few *few) {
    few_product(FEW_KIND_F16, few);
}

/* Blocks as the types read them (type/type_unpack.h): the loops become vectors of this instruction set. */
TYPE_UNPACK_LOOP(q8_0, 32, 34, 32, false)
TYPE_UNPACK_LOOP(q4_0, 32, 18, 32, false)
TYPE_UNPACK_LOOP(q4_K, 256, 144, 32, true)
TYPE_UNPACK_LOOP(q5_K, 256, 176, 32, true)
TYPE_UNPACK_LOOP(q6_K, 256, 210, 16, false)

TYPE_FORM_FROM(i8_32, 32)
TYPE_FORM_FROM(i8_256, 256)

const struct qkv_type_kernels QKV_K(type_kernels)[QKV_DTYPE_COUNT] = {
    [QKV_BF16] = {.to_float = unpack_bf16, .few = few_bf16},
    [QKV_F16] = {.to_float = unpack_f16, .few = few_f16},
    [QKV_Q8_0] = {.to_float = q8_0_to_float},
    [QKV_Q4_0] = {.to_float = q4_0_to_float},
    [QKV_Q4_K] = {.to_float = q4_K_to_float},
    [QKV_Q5_K] = {.to_float = q5_K_to_float},
    [QKV_Q6_K] = {.to_float = q6_K_to_float},
    [QKV_I8_32] = {.from_float = i8_32_from_float},
    [QKV_I8_256] = {.from_float = i8_256_from_float},
};
