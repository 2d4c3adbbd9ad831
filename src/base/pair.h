/* pair: a sum of two doubles, for results with about 100 bits. The files of math.h use it.
 *
 * In a pair, |low| is at most half a unit in the last place of `high`. Sums are Knuth's (The Art of Computer
 * Programming, volume 2, section 4.2.2), products those of Dekker 1971 ("A floating-point technique for extending the
 * available precision"): they need no fused multiplication and addition, so all processors compute the same bits.
 * Numbers are finite, and so small that 2^28 times a factor is finite. */
#ifndef QKV_PAIR_H
#define QKV_PAIR_H

struct qkv_pair {
    double high, low;
};

/* a + b exactly. */
static inline struct qkv_pair qkv_pair_sum(double a, double b) {
    const double sum = a + b, of_b = sum - a, of_a = sum - of_b;
    return (struct qkv_pair){sum, (a - of_a) + (b - of_b)};
}

/* The upper half of x: at most 26 bits. The rest has at most 26 bits and a sign. */
static inline double qkv_pair_upper(double x) {
    const double large = x * 0x1p27 + x;
    return large - (large - x);
}

/* a · b exactly, unless the product is so small that its last bits are less than the smallest number. */
static inline struct qkv_pair qkv_pair_product(double a, double b) {
    const double product = a * b, a1 = qkv_pair_upper(a), b1 = qkv_pair_upper(b), a2 = a - a1, b2 = b - b1;
    return (struct qkv_pair){product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
}

/* a + b, with an error of about 2^-104 times |a| + |b|. */
static inline struct qkv_pair qkv_pair_add(struct qkv_pair a, struct qkv_pair b) {
    const struct qkv_pair sum = qkv_pair_sum(a.high, b.high);
    return qkv_pair_sum(sum.high, sum.low + (a.low + b.low));
}

/* a · b, with a relative error of about 2^-102. */
static inline struct qkv_pair qkv_pair_multiply(struct qkv_pair a, struct qkv_pair b) {
    const struct qkv_pair product = qkv_pair_product(a.high, b.high);
    return qkv_pair_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

#endif
