/* softcap: the slope of a softcap of scores. */
#include "op/softcap.h"

enum { ELEMENTS_A_PIECE = 4096 };

bool qkv_softcap_is_none(const struct qkv_softcap *o) {
    return o->cap == 0 && (o->scale == 0 || o->scale == 1);
}

void qkv_softcap_slope(const struct qkv_softcap *o, float *dx, const float *dy, const float *y, size_t n) {
    const float scale = o->scale == 0 ? 1 : o->scale, inverse = o->cap == 0 ? 0 : 1 / o->cap;
    for (size_t i = 0; i < n; i++) {
        const float t = y[i] * inverse;
        dx[i] = dy[i] * scale * ((1 - t) * (1 + t));
    }
}

struct slopes {
    const struct qkv_softcap *options;
    float *dx;
    const float *dy, *y;
};

static void softcap_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct slopes *s = argument;
    qkv_softcap_slope(s->options, s->dx + begin, s->dy + begin, s->y + begin, end - begin);
}

void qkv_softcap_slopes(struct qkv_context *ctx, const struct qkv_softcap *options, float *dx, const float *dy,
                        const float *y, size_t n) {
    struct slopes s = {options, dx, dy, y};
    qkv_parallel_range(ctx, n, ELEMENTS_A_PIECE, softcap_piece, &s);
}
