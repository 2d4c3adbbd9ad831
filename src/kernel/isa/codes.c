/* codes: products of integers with scales (codes.h).
 *
 * A panel has the blocks of its rows one after the other. A block of the panel has groups of 32 numbers of each row;
 * then the scales of all parts, and the minimums, a byte each, part by part, a row after the other (of parts of 16,
 * the minimums of two parts are side by side); then the scales, and the minimums, in f16. A group has words of four
 * bytes, each for all rows. Codes are stored as code − low, without a sign. The first four words have numbers 4w … in
 * the lower halves of the bytes of word w, and 16 + 4w … in the upper halves. The fifth bits of all 32 codes are one
 * more word: bit v of byte i belongs to number 4v + i. The fifth and sixth bits of codes of 6 bits are two more words,
 * for 16 numbers each: bits 2v and 2v + 1 of byte i. Codes of 8 bits are eight words, with signs. */
#include "kernel/isa/codes.h"

#include "kernel/isa/isa.h"
#include "type/type_unpack.h"

struct shape { /* of the blocks: known when the kernels are compiled */
    size_t block, part;
    int bits, low;
    bool scales, minimum;
};

enum {
    WORD = 4 * W, /* bytes of a word for all rows */
    AHEAD = 8192  /* bytes that are read ahead, into all levels of cache: a product of few rows waits for them else */
};

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static void pack_word(unsigned char *group, size_t word, size_t row, uint32_t value) {
    memcpy(group + word * WORD + row * sizeof value, &value, sizeof value);
}

/* 32 codes of a row. */
static void pack_group(unsigned char *group, size_t row, const signed char *code, int bits, int low) {
    unsigned char plain[32];
    uint32_t word[8], fifth = 0, sixth[2] = {0, 0};
    if (bits == 8) {
        memcpy(word, code, sizeof word);
        for (size_t v = 0; v < 8; v++) pack_word(group, v, row, word[v]);
        return;
    }
    for (size_t k = 0; k < 32; k++) plain[k] = (unsigned char)(code[k] - low);
    memcpy(word, plain, sizeof word);
    for (size_t v = 0; v < 4; v++) pack_word(group, v, row, (word[v] & 0x0f0f0f0f) | (word[v + 4] & 0x0f0f0f0f) << 4);
    for (size_t v = 0; bits == 5 && v < 8; v++) fifth |= (word[v] >> 4 & 0x01010101) << v;
    for (size_t v = 0; bits == 6 && v < 8; v++) sixth[v / 4] |= (word[v] >> 4 & 0x03030303) << (v % 4 * 2);
    if (bits == 5) pack_word(group, 4, row, fifth);
    for (size_t i = 0; bits == 6 && i < 2; i++) pack_word(group, 4 + i, row, sixth[i]);
}

/* A block of a row. */
static void pack_block(unsigned char *to, size_t row, const struct qkv_type *type, const struct qkv_codes *codes) {
    const struct qkv_type_codes *kind = type->codes;
    const size_t parts = kind->scales ? type->block / kind->part : 0;
    for (size_t k = 0; k < type->block; k += 32, to += (size_t)kind->bits * WORD)
        pack_group(to, row, codes->code + k, kind->bits, kind->low);
    for (size_t p = 0; p < parts; p++) to[p * W + row] = (unsigned char)codes->scales[p];
    to += parts * W;
    const size_t pair = kind->part == 16 ? 2 : 1;
    for (size_t p = 0; kind->minimum && p < parts; p++)
        to[p / pair * pair * W + row * pair + p % pair] = (unsigned char)codes->minimums[p];
    to += kind->minimum ? parts * W : 0;
    memcpy(to + row * sizeof codes->scale, &codes->scale, sizeof codes->scale);
    if (kind->minimum) memcpy(to + (W + row) * sizeof codes->minimum, &codes->minimum, sizeof codes->minimum);
}

/* Types whose blocks are read with the instructions of this table. */
static const struct {
    const struct qkv_type *type;
    void (*read)(struct qkv_codes *out, const unsigned char *block);
} readers[] = {{&qkv_type_q8_0, type_q8_0_read},
               {&qkv_type_q4_0, type_q4_0_read},
               {&qkv_type_q4_K, type_q4_K_read},
               {&qkv_type_q5_K, type_q5_K_read},
               {&qkv_type_q6_K, type_q6_K_read}};

static void pack(void *panel, const struct qkv_codes_rows *rows) {
    const struct qkv_type *type = rows->type;
    const size_t blocks = rows->K / type->block, bytes = qkv_codes_row_bytes(type, type->block) * W;
    void (*read)(struct qkv_codes *, const unsigned char *) = type->codes->read;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (readers[i].type == type) read = readers[i].read;
    if (rows->rows < W) memset(panel, 0, blocks * bytes);
    for (size_t b = 0; b < blocks; b++) {
        for (size_t row = 0; row < rows->rows; row++) {
            struct qkv_codes codes;
            read(&codes, rows->data + row * rows->bytes + b * type->bytes);
            pack_block((unsigned char *)panel + b * bytes, row, type, &codes);
        }
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* The v-th word of a group: numbers 4v … 4v + 3 of each row. */
QKV_INLINE vi codes_word_of(const struct shape s, const unsigned char *group, const size_t v) {
    if (s.bits == 8) return codes_load(group + v * WORD);
    vi code = codes_load(group + v % 4 * WORD);
    code = vi_and(v < 4 ? code : vi_shr(code, 4), vi_set(0x0f0f0f0f));
    if (s.bits == 5) {
        const vi fifth = codes_load(group + 4 * WORD);
        code = vi_or(code, vi_and(v < 4 ? vi_shl(fifth, 4 - (int)v) : vi_shr(fifth, (int)v - 4), vi_set(0x10101010)));
    }
    if (s.bits == 6) {
        const vi sixth = codes_load(group + (4 + v / 4) * WORD);
        const int at = (int)(v % 4) * 2;
        code = vi_or(code, vi_and(at < 4 ? vi_shl(sixth, 4 - at) : vi_shr(sixth, at - 4), vi_set(0x30303030)));
    }
    return code;
}

/* A group of x: word i of row r. */
QKV_INLINE vi x_word(const uint32_t *x, const size_t rows, const size_t i, const size_t r) {
    return vi_set(x[i * rows + r]);
}

/* Adds the products of a group. Sums of pairs have 16 bits: they hold 32 products of codes of 4 bits, with or without
 * `low`, and of 5 bits with it, and 16 of others; so they are added to the totals when a part ends, or before. */
QKV_INLINE void codes_group(const struct shape s, const size_t rows, const unsigned char *group, const uint32_t *x,
                            const vi *scale, vi *total) {
    const bool halves = s.part == 16 || (s.bits == 5 && !s.low);
    vi sum[QKV_CODES_TILE];
    QKV_UNROLL_LOOP
    for (size_t h = 0; h < 2; h++) {
        QKV_UNROLL_LOOP
        for (size_t r = 0; r < rows; r++) sum[r] = h == 0 || halves ? vi_set(0) : sum[r];
        QKV_UNROLL_LOOP
        for (size_t v = 4 * h; v < 4 * h + 4; v++) {
            const vi code = codes_word_of(s, group, v);
            QKV_UNROLL_LOOP
            for (size_t r = 0; r < rows; r++) sum[r] = codes_dot(sum[r], code, x_word(x, rows, v, r));
        }
        QKV_UNROLL_LOOP
        for (size_t r = 0; r < rows; r++)
            sum[r] = s.low ? codes_offset(sum[r], x_word(x, rows, QKV_CODES_X_PAIRS + h, r), s.low) : sum[r];
        QKV_UNROLL_LOOP
        for (size_t r = 0; r < rows; r++)
            total[r] = h == 1 || halves ? codes_scaled(total[r], sum[r], scale[s.part == 16 ? h : 0]) : total[r];
    }
}

/* The same of codes of 8 bits. */
QKV_INLINE void codes_group_bytes(const struct shape s, const size_t rows, const unsigned char *group,
                                  const uint32_t *x, const unsigned char *scales, vi *total) {
    vi sum[QKV_CODES_TILE];
    QKV_UNROLL_LOOP
    for (size_t r = 0; r < rows; r++) sum[r] = s.scales ? vi_set(0) : total[r];
    QKV_UNROLL_LOOP
    for (size_t v = 0; v < 8; v++) {
        const vi code = codes_word_of(s, group, v);
        QKV_UNROLL_LOOP
        for (size_t r = 0; r < rows; r++) sum[r] = codes_dot_bytes(sum[r], code, x_word(x, rows, v, r));
    }
    QKV_UNROLL_LOOP
    for (size_t r = 0; r < rows; r++)
        total[r] = s.scales ? vi_add(total[r], codes_times(sum[r], codes_load_bytes(scales))) : sum[r];
}

QKV_INLINE vf codes_halves(const unsigned char *p) {
    uint16_t lanes[W];
    memcpy(lanes, p, sizeof lanes);
    return load_f16(lanes, W);
}

/* Adds the minimums of a group, times the sums of x. */
QKV_INLINE void codes_minimums(const struct shape s, const size_t rows, const unsigned char *minimums,
                               const uint32_t *x, vi *less) {
    const vi pair = !s.scales ? codes_twice(1) : s.part == 16 ? codes_load_pairs(minimums) : codes_load_twice(minimums);
    QKV_UNROLL_LOOP
    for (size_t r = 0; r < rows; r++) less[r] = codes_dot_pairs(less[r], pair, x_word(x, rows, QKV_CODES_X_SUMS, r));
}

/* Some rows of x. */
QKV_INLINE void codes_tile(const struct shape s, const size_t rows, const struct qkv_codes_work *w, size_t row) {
    const size_t parts = s.scales ? s.block / s.part : 0, groups = s.block / 32;
    const size_t group_bytes = (size_t)s.bits * WORD;
    const size_t bytes = qkv_codes_row_bytes(w->type, s.block) * W;
    const size_t x_words = QKV_CODES_X_WORDS * rows, share = bytes / groups;
    const unsigned char *block = w->panel;
    const uint32_t *x = w->x + row * (w->K / 32 * QKV_CODES_X_WORDS);
    vf sum[QKV_CODES_TILE];
    QKV_UNROLL_LOOP
    for (size_t r = 0; r < rows; r++) sum[r] = vf_set(0.0f);
    for (size_t k = 0; k < w->K; k += s.block, block += bytes) {
        const unsigned char *scales = block + groups * group_bytes, *minimums = scales + parts * W;
        const unsigned char *ends = minimums + (s.minimum ? parts * W : 0);
        vi total[QKV_CODES_TILE], less[QKV_CODES_TILE];
        QKV_UNROLL_LOOP
        for (size_t r = 0; r < rows; r++) total[r] = less[r] = vi_set(0);
        for (size_t g = 0; g < groups; g++, x += x_words) {
            for (size_t line = 0; line < share; line += 64)
                QKV_PREFETCH_NEAR((const void *)((uintptr_t)block + g * share + line + AHEAD));
            const unsigned char *own = scales + g * (32 / s.part) * W;
            if (s.bits == 8) {
                codes_group_bytes(s, rows, block + g * group_bytes, x, own, total);
            } else {
                const vi scale[2] = {s.scales ? codes_load_scale(own) : codes_scale(1),
                                     s.part == 16 ? codes_load_scale(own + W) : vi_set(0)};
                codes_group(s, rows, block + g * group_bytes, x, scale, total);
            }
            if (s.minimum) codes_minimums(s, rows, minimums + g * (32 / s.part) * W, x, less);
        }
        const vf d = codes_halves(ends), dmin = s.minimum ? codes_halves(ends + 2 * W) : d;
        QKV_UNROLL_LOOP
        for (size_t r = 0; r < rows; r++) {
            const vf x_scale = vf_from_bits(x_word(x - x_words, rows, QKV_CODES_X_SCALE, r));
            sum[r] = vf_fma(vf_mul(d, x_scale), vf_from_int(total[r]), sum[r]);
            if (s.minimum) sum[r] = vf_fnma(vf_mul(dmin, x_scale), vf_from_int(less[r]), sum[r]);
        }
    }
    QKV_UNROLL_LOOP
    for (size_t r = 0; r < rows; r++) vf_store(w->sums + (row + r) * W, sum[r]);
}

QKV_INLINE void codes_rows(const struct shape s, const struct qkv_codes_work *w) {
    size_t row = 0;
    for (; row + QKV_CODES_TILE <= w->rows; row += QKV_CODES_TILE) codes_tile(s, QKV_CODES_TILE, w, row);
    for (; QKV_CODES_TILE > 2 && row + 2 <= w->rows; row += 2) codes_tile(s, 2, w, row);
    for (; row < w->rows; row++) codes_tile(s, 1, w, row);
}

#if defined(QKV_CODES_PLAIN)
enum { NATIVE = false };
/* One kernel for all shapes: plain C is not made for speed, and this one is small. */
static void multiply_any(const struct qkv_codes_work *w) {
    const struct qkv_type_codes *c = w->type->codes;
    codes_rows((struct shape){w->type->block, c->part, c->bits, c->low, c->scales, c->minimum}, w);
}

static qkv_codes_multiply *multiply(const struct qkv_type *type) {
    return type->codes ? multiply_any : NULL;
}
#else
enum { NATIVE = true };
/* Every shape that blocks of types have: X(name, numbers of a block, of a part, bits, low, scales, minimum). */
#define SHAPES(X)                                                                                                      \
    X(bytes, 32, 32, 8, -128, false, false)                                                                            \
    X(fours, 32, 32, 4, -8, false, false)                                                                              \
    X(fours_minimum, 32, 32, 4, 0, false, true)                                                                        \
    X(fives, 32, 32, 5, -16, false, false)                                                                             \
    X(fives_minimum, 32, 32, 5, 0, false, true)                                                                        \
    X(wide_twos, 256, 16, 4, 0, true, true)                                                                            \
    X(wide_threes, 256, 16, 4, -4, true, false)                                                                        \
    X(wide_fours, 256, 32, 4, 0, true, true)                                                                           \
    X(wide_fives, 256, 32, 5, 0, true, true)                                                                           \
    X(wide_sixes, 256, 16, 6, -32, true, false)                                                                        \
    X(wide_bytes, 256, 32, 8, -128, true, false)
#define SHAPE_KERNEL(name, ...)                                                                                        \
    static void multiply_##name(const struct qkv_codes_work *w) {                                                      \
        codes_rows((struct shape){__VA_ARGS__}, w);                                                                    \
    }
SHAPES(SHAPE_KERNEL)

static const struct {
    struct shape shape;
    qkv_codes_multiply *multiply;
} kernels[] = {
#define SHAPE_ROW(name, ...) {{__VA_ARGS__}, multiply_##name},
    SHAPES(SHAPE_ROW)};

static qkv_codes_multiply *multiply(const struct qkv_type *type) {
    const struct qkv_type_codes *codes = type->codes;
    for (size_t i = 0; codes && i < sizeof kernels / sizeof *kernels; i++) {
        const struct shape *s = &kernels[i].shape;
        if (s->block == type->block && s->part == codes->part && s->bits == codes->bits && s->low == codes->low &&
            s->scales == codes->scales && s->minimum == codes->minimum)
            return kernels[i].multiply;
    }
    return NULL;
}
#endif

const struct qkv_codes_kernels QKV_T(codes_kernels) = {
    .unit = QKV_CODES_UNIT, .native = NATIVE, .nr = W, .tile = QKV_CODES_TILE, .pack = pack, .multiply = multiply};
