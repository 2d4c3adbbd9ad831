/* test_dtype: conversions of element types. Decoding f16 and bf16 is tested exhaustively against their definition;
 * encoding at, just below and just above the midpoint of every two neighbours. */
/* labels: quick */
#include <float.h>

#include "test.h"

static void dtype_sizes(void **state) {
    (void)state;
    static const size_t expected[QKV_DTYPE_COUNT] = {
        [QKV_F32] = 4, [QKV_F16] = 2, [QKV_BF16] = 2, [QKV_F64] = 8, [QKV_I8] = 1,  [QKV_U8] = 1,   [QKV_I16] = 2,
        [QKV_U16] = 2, [QKV_I32] = 4, [QKV_U32] = 4,  [QKV_I64] = 8, [QKV_U64] = 8, [QKV_BOOL] = 1, [QKV_F8_E4M3] = 1};
    for (int d = 0; d < QKV_DTYPE_COUNT; d++) assert_int_equal(qkv_type_size((enum qkv_dtype)d), expected[d]);
    assert_int_equal(qkv_type_size(QKV_DTYPE_COUNT), 0);
    assert_int_equal(qkv_type_size((enum qkv_dtype) - 1), 0);
}

/* The value of a 16-bit float with so many mantissa bits and that bias, by the definition of IEEE 754. */
static double defined_value(uint16_t h, int mantissa_bits, int bias) {
    int fraction = h & ((1 << mantissa_bits) - 1), exponent = (h & 0x7fff) >> mantissa_bits;
    int highest = (1 << (15 - mantissa_bits)) - 1;
    double value;
    if (exponent == highest) {
        value = fraction ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        value = ldexp(fraction, 1 - bias - mantissa_bits);
    } else {
        value = ldexp((1 << mantissa_bits) + fraction, exponent - bias - mantissa_bits);
    }
    return h & 0x8000 ? -value : value;
}

static uint16_t encode(enum qkv_dtype dtype, float x) {
    unsigned char odd[3];
    uint16_t h;
    qkv_from_float(odd + 1, &x, dtype, 1);
    memcpy(&h, odd + 1, sizeof h);
    return h;
}

static float decode(enum qkv_dtype dtype, uint16_t h) {
    unsigned char odd[3];
    float x;
    memcpy(odd + 1, &h, sizeof h);
    qkv_to_float(&x, odd + 1, dtype, 1);
    return x;
}

static void check_encoding(enum qkv_dtype dtype, float x, uint16_t expected) {
    uint16_t got = encode(dtype, x), negative = encode(dtype, -x);
    if (got != expected || negative != (expected | 0x8000)) {
        fail_msg("%a gave %04x and negated %04x, expected %04x", (double)x, got, negative, expected);
    }
}

static void check_half(enum qkv_dtype dtype, int mantissa_bits, int bias) {
    uint16_t infinity = (uint16_t)(0x7fff & ~((1 << mantissa_bits) - 1));
    for (unsigned h = 0; h <= 0xffff; h++) {
        double expected = defined_value((uint16_t)h, mantissa_bits, bias);
        float got = decode(dtype, (uint16_t)h);
        if (isnan(expected)) {
            assert_true(isnan(got));
            uint16_t again = encode(dtype, got);
            assert_true((again & infinity) == infinity && (again & ~infinity & 0x7fff));
            assert_int_equal(again & 0x8000, h & 0x8000);
        } else {
            assert_true((double)got == expected && !signbit(got) == !signbit(expected));
            assert_int_equal(encode(dtype, got), h);
        }
    }
    for (unsigned h = 0; h < infinity; h++) { /* above the largest lies what would be the next power of two */
        double value = defined_value((uint16_t)h, mantissa_bits, bias);
        double next = h + 1 == infinity ? ldexp(1, bias + 1) : defined_value((uint16_t)(h + 1), mantissa_bits, bias);
        float middle = (float)((value + next) / 2);
        assert_true((double)middle == (value + next) / 2);
        check_encoding(dtype, middle, (uint16_t)(h + (h & 1)));
        check_encoding(dtype, nextafterf(middle, 0), (uint16_t)h);
        check_encoding(dtype, nextafterf(middle, INFINITY), (uint16_t)(h + 1));
    }
    check_encoding(dtype, INFINITY, infinity);
    check_encoding(dtype, FLT_MAX, infinity);
    float payload; /* a NaN whose bits all lie below those kept */
    uint32_t bits = 0x7f800001;
    memcpy(&payload, &bits, sizeof bits);
    assert_true(isnan(decode(dtype, encode(dtype, payload))));
}

static void f16(void **state) {
    (void)state;
    check_half(QKV_F16, 10, 15);
    check_encoding(QKV_F16, 65519.996f, 0x7bff);
    check_encoding(QKV_F16, 65520.0f, 0x7c00);
    check_encoding(QKV_F16, 1e10f, 0x7c00);
    check_encoding(QKV_F16, FLT_TRUE_MIN, 0);
}

static void bf16(void **state) {
    (void)state;
    check_half(QKV_BF16, 7, 127);
    check_encoding(QKV_BF16, 1.0f, 0x3f80);
    check_encoding(QKV_BF16, 3.14159265f, 0x4049);
}

/* The value of a byte by the definition of OFP8 E4M3: the exponent of all ones has numbers, too, except for one NaN
 * of each sign. */
static double defined_byte(unsigned byte) {
    const int exponent = (int)(byte >> 3 & 15), fraction = (int)(byte & 7);
    const double value = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    if ((byte & 0x7f) == 0x7f) return (double)NAN;
    return byte & 0x80 ? -value : value;
}

static unsigned encode_byte(float x) {
    unsigned char byte;
    qkv_from_float(&byte, &x, QKV_F8_E4M3, 1);
    return byte;
}

static void f8_e4m3(void **state) {
    (void)state;
    for (unsigned b = 0; b <= 0xff; b++) {
        const unsigned char byte = (unsigned char)b;
        float got;
        qkv_to_float(&got, &byte, QKV_F8_E4M3, 1);
        if ((b & 0x7f) == 0x7f) {
            assert_true(isnan(got));
        } else {
            assert_true((double)got == defined_byte(b) && !signbit(got) == !(b & 0x80));
        }
        assert_int_equal(encode_byte(got), b);
    }
    for (unsigned b = 0; b < 0x7f; b++) { /* above the largest lies what would be the next number */
        const double next = b == 0x7e ? 480 : defined_byte(b + 1);
        const float middle = (float)((defined_byte(b) + next) / 2);
        for (int negative = 0; negative < 2; negative++) {
            const float sign = negative ? -1 : 1;
            const unsigned bit = negative ? 0x80 : 0;
            assert_int_equal(encode_byte(sign * middle), bit | (b + (b & 1)));
            assert_int_equal(encode_byte(sign * nextafterf(middle, 0)), bit | b);
            assert_int_equal(encode_byte(sign * nextafterf(middle, INFINITY)), bit | (b + 1));
        }
    }
    assert_int_equal(encode_byte(INFINITY), 0x7f);
    assert_int_equal(encode_byte(-FLT_MAX), 0xff);
    assert_int_equal(encode_byte(FLT_TRUE_MIN), 0);
}

/* Long arrays, where the loops are vectors, give what single blocks give. */
static void arrays_are_elements(void **state) {
    (void)state;
    struct qkv_random random = test_random(1);
    enum { COUNT = 4 * QKV_TYPE_BLOCK_MAX };
    static unsigned char stored[8 * COUNT + 1], again[8 * COUNT + 1];
    static float x[COUNT], one[QKV_TYPE_BLOCK_MAX];
    for (int d = 0; d < QKV_DTYPE_COUNT; d++) {
        enum qkv_dtype dtype = (enum qkv_dtype)d;
        const size_t block = qkv_types[dtype]->block, n = block == 1 ? 1001 : COUNT;
        for (size_t i = 0; i < sizeof stored; i++) stored[i] = (unsigned char)qkv_random_bits(&random);
        qkv_to_float(x, stored + 1, dtype, n);
        for (size_t i = 0; i < n; i += block) {
            qkv_to_float(one, stored + 1 + qkv_type_span(dtype, i), dtype, block);
            assert_memory_equal(one, &x[i], block * sizeof *one);
        }
        test_fill(&random, x, n, 300);
        qkv_from_float(stored + 1, x, dtype, n);
        for (size_t i = 0; i < n; i += block) qkv_from_float(again + 1 + qkv_type_span(dtype, i), &x[i], dtype, block);
        assert_memory_equal(stored + 1, again + 1, qkv_type_span(dtype, n));
        qkv_to_float(NULL, NULL, dtype, 0);
        qkv_from_float(NULL, NULL, dtype, 0);
    }
    x[0] = 5;
    qkv_to_float(x, stored, QKV_DTYPE_COUNT, 1);
    assert_true(x[0] == 0);
}

#define CHECK_INTEGER(dtype, type, input, expected)                                                                    \
    do {                                                                                                               \
        float x_ = (input);                                                                                            \
        type got_;                                                                                                     \
        qkv_from_float(&got_, &x_, dtype, 1);                                                                          \
        assert_true(got_ == (type)(expected));                                                                         \
    } while (0)

#define CHECK_INTEGER_TYPE(dtype, type, low, high)                                                                     \
    do {                                                                                                               \
        CHECK_INTEGER(dtype, type, NAN, 0);                                                                            \
        CHECK_INTEGER(dtype, type, INFINITY, high);                                                                    \
        CHECK_INTEGER(dtype, type, -INFINITY, low);                                                                    \
        CHECK_INTEGER(dtype, type, 1e30f, high);                                                                       \
        CHECK_INTEGER(dtype, type, (float)(high), high);                                                               \
        CHECK_INTEGER(dtype, type, (float)(low), low);                                                                 \
        CHECK_INTEGER(dtype, type, 2.5f, 2);                                                                           \
        CHECK_INTEGER(dtype, type, 3.5f, 4);                                                                           \
        CHECK_INTEGER(dtype, type, -0.5f, 0);                                                                          \
        for (int v = 0; v <= 127; v++) CHECK_INTEGER(dtype, type, (float)v, v);                                        \
        type extreme_[2] = {low, high};                                                                                \
        float back_[2];                                                                                                \
        qkv_to_float(back_, extreme_, dtype, 2);                                                                       \
        assert_true(back_[0] == (float)(low) && back_[1] == (float)(high));                                            \
    } while (0)

static void integers(void **state) {
    (void)state;
    CHECK_INTEGER_TYPE(QKV_I8, int8_t, INT8_MIN, INT8_MAX);
    CHECK_INTEGER_TYPE(QKV_U8, uint8_t, 0, UINT8_MAX);
    CHECK_INTEGER_TYPE(QKV_I16, int16_t, INT16_MIN, INT16_MAX);
    CHECK_INTEGER_TYPE(QKV_U16, uint16_t, 0, UINT16_MAX);
    CHECK_INTEGER_TYPE(QKV_I32, int32_t, INT32_MIN, INT32_MAX);
    CHECK_INTEGER_TYPE(QKV_U32, uint32_t, 0, UINT32_MAX);
    CHECK_INTEGER_TYPE(QKV_I64, int64_t, INT64_MIN, INT64_MAX);
    CHECK_INTEGER_TYPE(QKV_U64, uint64_t, 0, UINT64_MAX);
    CHECK_INTEGER(QKV_I8, int8_t, -3.5f, -4);
    CHECK_INTEGER(QKV_I8, int8_t, 127.4f, 127);
    CHECK_INTEGER(QKV_I8, int8_t, -128.6f, -128);
    CHECK_INTEGER(QKV_I32, int32_t, 2147483520.0f, 2147483520);
    CHECK_INTEGER(QKV_I64, int64_t, 9223371487098961920.0f, 9223371487098961920);
    /* to float: nearest, ties to even */
    int32_t wide[3] = {16777217, 16777219, -16777217};
    float x[3];
    qkv_to_float(x, wide, QKV_I32, 3);
    assert_true(x[0] == 16777216.0f && x[1] == 16777220.0f && x[2] == -16777216.0f);
}

static void doubles_and_truths(void **state) {
    (void)state;
    double d[4] = {0.1, 1e300, -1e300, (double)NAN}, back[2];
    float x[4];
    qkv_to_float(x, d, QKV_F64, 4);
    assert_true(x[0] == 0.1f && x[1] == INFINITY && x[2] == -INFINITY && isnan(x[3]));
    qkv_from_float(back, x, QKV_F64, 2);
    assert_true(back[0] == (double)0.1f && back[1] == (double)INFINITY);
    unsigned char truths[4] = {0, 1, 2, 255};
    qkv_to_float(x, truths, QKV_BOOL, 4);
    assert_true(x[0] == 0 && x[1] == 1 && x[2] == 1 && x[3] == 1);
    float mixed[4] = {-0.0f, 1e-40f, -3, NAN};
    qkv_from_float(truths, mixed, QKV_BOOL, 4);
    assert_true(truths[0] == 0 && truths[1] == 1 && truths[2] == 1 && truths[3] == 1);
}

/* By the definition of the standard: (−1)^s · 2^(e − 1) · (1 + m/2), or m/2 where e is 0, times 2^(exponent − 127). */
static void mxfp4_blocks(void **state) {
    (void)state;
    unsigned char block[18], back[17];
    float x[32];
    for (unsigned exponent = 0; exponent < 256; exponent++)
        for (unsigned shift = 0; shift < 16; shift++) {
            block[1] = (unsigned char)exponent; /* unaligned */
            for (size_t k = 0; k < 16; k++)
                block[2 + k] = (unsigned char)((k + shift) % 16 | (k * 7 + 3 * shift) % 16 << 4);
            qkv_to_float(x, block + 1, QKV_MXFP4, 32);
            for (size_t k = 0; k < 32; k++) {
                const unsigned bits = k < 16 ? block[2 + k] & 15 : block[2 + k - 16] >> 4;
                const int e = (int)(bits >> 1 & 3), m = (int)(bits & 1);
                const double value = ldexp(e ? ldexp(1 + m / 2.0, e - 1) : m / 2.0, (int)exponent - 127);
                const double expected = exponent == 255 ? (double)NAN : bits & 8 ? -value : value;
                if (isnan(expected) ? !isnan(x[k])
                                    : (double)x[k] != expected && !(fabs(expected) > (double)FLT_MAX && isinf(x[k])))
                    fail_msg("%u, %u: %g, not %g", exponent, bits, (double)x[k], expected);
            }
            if (exponent > 251 || exponent < 1) continue;
            qkv_from_float(back, x, QKV_MXFP4, 32);
            float again[32];
            qkv_to_float(again, back, QKV_MXFP4, 32);
            assert_memory_equal(again, x, sizeof x); /* numbers that are there already stay */
        }
    const float numbers[32] = {1, -1.25f, 1.75f, 2.5f, 3.5f, 5, -5.1f, 0.25f, 0.26f, 0.75f, 7, -7.9f};
    const float expected[32] = {1, -1, 2, 2, 4, 4, -6, 0, 0.5f, 1, 6, -6};
    qkv_from_float(back, numbers, QKV_MXFP4, 32);
    qkv_to_float(x, back, QKV_MXFP4, 32);
    for (size_t k = 0; k < 32; k++) assert_true(x[k] == expected[k]);
    float odd[32] = {[7] = NAN};
    qkv_from_float(back, odd, QKV_MXFP4, 32);
    qkv_to_float(x, back, QKV_MXFP4, 32);
    assert_true(isnan(x[0]) && isnan(x[31]));
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtype_sizes), cmocka_unit_test(mxfp4_blocks),
        cmocka_unit_test(f16),         cmocka_unit_test(bf16),
        cmocka_unit_test(f8_e4m3),     cmocka_unit_test(arrays_are_elements),
        cmocka_unit_test(integers),    cmocka_unit_test(doubles_and_truths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
