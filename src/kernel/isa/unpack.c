/* unpack: the kernels of this table for types: conversion of stored numbers, in unaligned memory, to fp32, and
 * products of a few rows with them. A type without a line here is converted by its own file, a piece at a time. */
#include "kernel/isa/gemm_few.h"
#include "kernel/isa/isa.h"
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

/* Blocks: the loops of the types (type/type_unpack.h), which become vectors of this instruction set. */
TYPE_UNPACK_LOOP(q8_0, 32, 34)
TYPE_UNPACK_LOOP(q4_0, 32, 18)
TYPE_UNPACK_LOOP(q4_K, 256, 144)
TYPE_UNPACK_LOOP(q5_K, 256, 176)
TYPE_UNPACK_LOOP(q6_K, 256, 210)

const struct qkv_type_kernels QKV_K(type_kernels)[QKV_DTYPE_COUNT] = {
    [QKV_BF16] = {unpack_bf16, few_bf16}, [QKV_F16] = {unpack_f16, few_f16},  [QKV_Q8_0] = {q8_0_to_float, NULL},
    [QKV_Q4_0] = {q4_0_to_float, NULL},   [QKV_Q4_K] = {q4_K_to_float, NULL}, [QKV_Q5_K] = {q5_K_to_float, NULL},
    [QKV_Q6_K] = {q6_K_to_float, NULL},
};
