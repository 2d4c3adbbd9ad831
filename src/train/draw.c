/* What a step draws at random: where its windows begin and which dropout masks it has. Each is a pure function of
 * (seed, step, place), so nothing of it needs saving. Streams are told apart by their top byte; the weights' streams
 * (model room) are small numbers. */
#include "train/train.h"

#define STREAM_WINDOW  (UINT64_C(1) << 56)
#define STREAM_DROPOUT (UINT64_C(2) << 56)

/* Each place has 2^16 counters of the step's stream to itself: a draw without bias may need more than one. */
static struct qkv_random place(uint64_t seed, uint64_t stream, uint64_t n) {
    struct qkv_random random = qkv_random_start(seed, stream);
    random.counter = n << 16;
    return random;
}

size_t qkv_draw_window(uint64_t seed, uint64_t step, uint64_t row, size_t windows) {
    struct qkv_random random = place(seed, STREAM_WINDOW + step, row);
    return (size_t)qkv_random_below(&random, windows);
}

uint64_t qkv_draw_dropout(uint64_t seed, uint64_t step, uint64_t part) {
    struct qkv_random random = place(seed, STREAM_DROPOUT + step, part);
    return qkv_random_bits(&random);
}
