/* What a step draws at random: where its windows begin, in which order examples come, which tokens are hidden and which
 * dropout masks it has. Each is a pure function of
 * (seed, step, place), so nothing of it needs saving. Streams are told apart by their top byte; the weights' streams
 * (model room) are small numbers. */
#include "data/data.h"

#define STREAM_WINDOW  (UINT64_C(1) << 56)
#define STREAM_DROPOUT (UINT64_C(2) << 56)
#define STREAM_EPOCH   (UINT64_C(3) << 56)
#define STREAM_MASKS   (UINT64_C(4) << 56)
#define STREAM_VALID   (UINT64_C(5) << 56)
#define STREAM_PREFIX  (UINT64_C(6) << 56)
#define STREAM_MIX     (UINT64_C(9) << 56)
#define STREAM_ORDER   (UINT64_C(10) << 56)

/* Each place has 2^16 counters of the step's stream to itself: a draw without bias may need more than one. */
static struct qkv_random rng_streams_place(uint64_t seed, uint64_t stream, uint64_t n) {
    struct qkv_random random = qkv_random_start(seed, stream);
    random.counter = n << 16;
    return random;
}

size_t qkv_draw_window(uint64_t seed, uint64_t step, uint64_t row, size_t windows) {
    struct qkv_random random = rng_streams_place(seed, STREAM_WINDOW + step, row);
    return (size_t)qkv_random_below(&random, windows);
}

uint64_t qkv_draw_dropout(uint64_t seed, uint64_t step, uint64_t part) {
    struct qkv_random random = rng_streams_place(seed, STREAM_DROPOUT + step, part);
    return qkv_random_bits(&random);
}

size_t qkv_draw_prefix(uint64_t seed, uint64_t step, uint64_t row, size_t tokens) {
    struct qkv_random random = rng_streams_place(seed, STREAM_PREFIX + step, row);
    return (size_t)qkv_random_below(&random, tokens);
}

struct qkv_random qkv_draw_epoch(uint64_t seed, uint64_t epoch) {
    return qkv_random_start(seed, STREAM_EPOCH + epoch);
}

struct qkv_random qkv_draw_masks(uint64_t seed, uint64_t step, uint64_t row) {
    struct qkv_random random = qkv_random_start(seed, STREAM_MASKS + step);
    random.counter = row << 32;
    return random;
}

struct qkv_random qkv_draw_valid_masks(uint64_t seed, uint64_t window) {
    return qkv_random_start(seed, STREAM_VALID + window);
}

struct qkv_random qkv_draw_mix(uint64_t seed, uint64_t block) {
    return qkv_random_start(seed, STREAM_MIX + block);
}

struct qkv_random qkv_draw_order(uint64_t seed, size_t source, uint64_t epoch) {
    return qkv_random_start(seed, STREAM_ORDER + epoch * QKV_FILES_MAX + source);
}
