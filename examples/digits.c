/* digits.c: draws images of digits, ten kinds of strokes, as a file of examples: in.pixels (N,1,28,28) and
 * in.targets (N).
 *
 * Each is rotated by at most 15 degrees, shifted by at most 2 pixels, drawn with a pen of varying width, and gets
 * noise.
 *     digits FILE [COUNT [SEED]]      5000 images, seed 1; another seed draws others
 *     qkv train --preset vit-tiny --examples digits.safetensors --out vit/
 *     qkv eval vit/ --examples unseen.safetensors */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <qkv.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, POINTS = 24, STROKES = 3 };

/* A stroke within (-1,-1) … (1,1), y downwards: a line from (x,y) to (a,b), or an arc around (x,y) with radii a and
 * b from one angle to the other, in quarter turns from the right downwards. */
struct stroke {
    int arc;
    double x, y, a, b, from, to;
};
static const struct stroke digits[10][STROKES] = {
    {{1, 0, 0, 0.55, 0.9, 0, 4}},
    {{0, -0.3, -0.5, 0.1, -0.9, 0, 0}, {0, 0.1, -0.9, 0.1, 0.9, 0, 0}},
    {{1, 0, -0.4, 0.5, 0.5, -2, 0.6}, {0, 0.3, 0.0, -0.5, 0.9, 0, 0}, {0, -0.5, 0.9, 0.55, 0.9, 0, 0}},
    {{1, 0, -0.45, 0.45, 0.45, -2, 1}, {1, 0, 0.45, 0.5, 0.45, -1, 2}},
    {{0, 0.2, -0.9, -0.55, 0.3, 0, 0}, {0, -0.55, 0.3, 0.6, 0.3, 0, 0}, {0, 0.25, -0.3, 0.25, 0.9, 0, 0}},
    {{0, 0.5, -0.9, -0.4, -0.9, 0, 0}, {0, -0.4, -0.9, -0.45, -0.1, 0, 0}, {1, -0.05, 0.35, 0.55, 0.55, -1.6, 1.7}},
    {{0, 0.3, -0.9, -0.4, 0.1, 0, 0}, {1, 0, 0.4, 0.45, 0.45, 0, 4}},
    {{0, -0.55, -0.9, 0.55, -0.9, 0, 0}, {0, 0.55, -0.9, -0.15, 0.9, 0, 0}},
    {{1, 0, -0.45, 0.4, 0.42, 0, 4}, {1, 0, 0.42, 0.5, 0.46, 0, 4}},
    {{1, 0, -0.4, 0.45, 0.45, 0, 4}, {0, 0.45, -0.4, 0.2, 0.9, 0, 0}},
};

static uint64_t state;

/* Uniform in [-1, 1) (SplitMix64, Steele et al. 2014). */
static double draw(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) / (double)(UINT64_C(1) << 52) - 1;
}

/* Draws a drop of ink at (x,y). */
static void ink(float *image, double x, double y, double width) {
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            const double dx = column - x, dy = row - y, value = exp(-(dx * dx + dy * dy) / (width * width));
            float *pixel = &image[row * SIDE + column];
            if (value > (double)*pixel) *pixel = (float)value;
        }
}

static void draw_digit(float *image, int digit) {
    const double turn = draw() * 15 * acos(-1.0) / 180, right = draw() * 2, down = draw() * 2;
    const double size = 9.5 + draw(), width = 1.25 + 0.35 * draw(), noise = 0.15;
    for (int i = 0; i < PIXELS; i++) image[i] = 0;
    for (int s = 0; s < STROKES; s++) {
        const struct stroke *p = &digits[digit][s];
        if (!p->arc && p->x == p->a && p->y == p->b) continue;
        for (int i = 0; i <= POINTS; i++) {
            const double t = (double)i / POINTS, angle = (p->from + t * (p->to - p->from)) * acos(0.0);
            const double x = p->arc ? p->x + p->a * cos(angle) : p->x + t * (p->a - p->x);
            const double y = p->arc ? p->y + p->b * sin(angle) : p->y + t * (p->b - p->y);
            const double middle = (SIDE - 1) / 2.0;
            ink(image, middle + right + size * (x * cos(turn) - y * sin(turn)),
                middle + down + size * (x * sin(turn) + y * cos(turn)), width);
        }
    }
    for (int i = 0; i < PIXELS; i++) image[i] += (float)(noise * draw());
}

int main(int argc, char **argv) {
    const size_t count = argc > 2 ? strtoul(argv[2], NULL, 10) : 5000;
    struct qkv_context *ctx;
    state = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    if (argc < 2 || count == 0 || count > 10000000) {
        fprintf(stderr, "digits: name a file: digits FILE [COUNT [SEED]]\n");
        return 1;
    }
    float *pixels = malloc(count * PIXELS * sizeof *pixels);
    int32_t *targets = malloc(count * sizeof *targets);
    if (!pixels || !targets || qkv_context_create(&ctx, NULL)) {
        fprintf(stderr, "digits: out of memory\n");
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        targets[i] = (int32_t)((draw() + 1) * 5);
        draw_digit(pixels + i * PIXELS, targets[i]);
    }
    const struct qkv_array arrays[] = {
        {.name = "in.pixels",
         .dtype = QKV_F32,
         .rank = 4,
         .shape = {count, 1, SIDE, SIDE},
         .data = pixels,
         .bytes = count * PIXELS * sizeof *pixels},
        {.name = "in.targets",
         .dtype = QKV_I32,
         .rank = 1,
         .shape = {count},
         .data = targets,
         .bytes = count * sizeof *targets},
    };
    if (qkv_tensors_write(ctx, argv[1], arrays, 2, NULL, 0)) {
        fprintf(stderr, "digits: %s\n", qkv_message(ctx));
        return 1;
    }
    printf("%zu digits in %s\n", count, argv[1]);
    qkv_context_free(ctx);
    free(pixels);
    free(targets);
    return 0;
}
