/* positions.c: attention alone sees a set of words without order; the program shows what each kind of position
 * changes.
 *
 * First it runs the words of one sentence in two orders, through new models that differ in their positions only:
 *     an encoder          prints each word's vector in the new order minus its vector in the old order
 *     causal, 1 or 2      layers: prints the same for the last word, which stays the last
 * Without positions, the encoder gives the same vectors in another order. One causal layer gives the same last
 * vector, because its last row sees all words. In a second causal layer, the keys depend on the words before them,
 * so the vectors differ.
 *
 * Then it shows what depends on the distance alone, here 3: the products of rotated queries and keys (RoPE), those
 * of sinusoids, and the bias of ALiBi. The program checks every number, and fails if a check does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QKV_EXPERIMENTAL /* attention, modules, ranks and costs may still change */
#include <qkv.h>

enum { T = 7, C = 64, HEAD = 32, FAR = 1000, DISTANCE = 3 };

static const char *const words[T] = {"the", "dog", "chased", "a", "small", "cat", "home"};
static const int32_t order[T] = {5, 2, 0, 4, 1, 3, 6}; /* the last word stays */

static int wrong; /* checks that failed */

static _Noreturn void fail(const struct qkv_context *ctx) {
    fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
    exit(1);
}

static void check(bool right, const char *what, const char *of) {
    if (!right) printf("NOT SO: %s: %s\n", of, what);
    wrong += !right;
}

/* ---- one sentence in two orders ---------------------------------------------------------------------------------- */

struct form {
    const char *stack;
    int layers;
};

/* The vectors (T,C) of ids after the last norm; the weights are new, and the same for both orders. */
static void read_ids(struct qkv_context *ctx, const struct form *form, const char *kind, const int32_t *ids, float *y) {
    char text[300], position[40];
    const char *const settings[] = {position};
    struct qkv_spec spec = {0};
    struct qkv_module *model;
    struct qkv_module_input in = qkv_module_input_defaults();
    int size = snprintf(text, sizeof text,
                        "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 7, \"d_model\": 64, \"context\": 7,"
                        " \"init\": {\"kind\": \"torch\"}, \"embed\": {\"scale\": 1}, \"head\": {\"kind\": \"none\"},"
                        " \"%s\": {\"layers\": %d, \"attention\": {\"heads\": 2}}}",
                        form->stack, form->layers);
    snprintf(position, sizeof position, "position.kind=%s", kind);
    if (qkv_spec_parse(ctx, &spec, "the example", text, (size_t)size, settings, 1) ||
        qkv_module_create(ctx, &spec, &QKV_OPTIONS(qkv_module_options, .kind = QKV_MODULE_MODEL, .seed = 1), &model))
        fail(ctx);
    in.x = (struct qkv_vectors){NULL, 1, T, 0}, in.ids = ids;
    if (qkv_module_forward(model, &in, (struct qkv_vectors){y, 1, T, C})) fail(ctx);
    qkv_module_free(model);
    qkv_spec_free(&spec);
}

/* The largest difference between a word's two vectors, over the words that are now at `first` and later. */
static double difference(struct qkv_context *ctx, const struct form *form, const char *kind, size_t first) {
    static const int32_t plain[T] = {0, 1, 2, 3, 4, 5, 6};
    float before[T * C], after[T * C];
    double greatest = 0;
    read_ids(ctx, form, kind, plain, before);
    read_ids(ctx, form, kind, order, after);
    for (size_t t = first; t < T; t++)
        for (size_t c = 0; c < C; c++)
            greatest = fmax(greatest, fabs((double)(after[t * C + c] - before[(size_t)order[t] * C + c])));
    return greatest;
}

static void orders(struct qkv_context *ctx) {
    static const char *const kinds[] = {"none", "learned", "sinusoidal", "rope", "alibi"};
    static const struct form encoder = {"encoder", 2}, one = {"decoder", 1}, two = {"decoder", 2};
    printf("before: ");
    for (size_t t = 0; t < T; t++) printf("%s ", words[t]);
    printf("\nafter:  ");
    for (size_t t = 0; t < T; t++) printf("%s ", words[order[t]]);
    printf("\n\ngreatest difference of a word's vector, whose numbers have deviation 1:\n");
    printf("position      encoder   causal, 1 layer   causal, 2 layers\n");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const double whole = difference(ctx, &encoder, kinds[k], 0), last = difference(ctx, &one, kinds[k], T - 1),
                     second = difference(ctx, &two, kinds[k], T - 1);
        printf("%-10s   %8.1e   %8.1e          %8.1e\n", kinds[k], whole, last, second);
        check(k ? whole > 1e-3 : whole < 1e-5, "an encoder sees the order by its positions only", kinds[k]);
        check(k ? last > 1e-3 : last < 1e-5, "so does the last word in one causal layer", kinds[k]);
        check(second > 1e-3, "two causal layers see the order", kinds[k]);
    }
}

/* ---- what depends on the distance alone -------------------------------------------------------------------------- */

static double product(const float *a, const float *b, size_t count) {
    double sum = 0;
    for (size_t e = 0; e < count; e++) sum += (double)a[e] * (double)b[e];
    return sum;
}

/* q·k for one query and one key, rotated to positions t and t − DISTANCE. */
static double rotated(struct qkv_context *ctx, const float *table, int32_t t) {
    float x[2 * HEAD];
    const int32_t positions[] = {t, t - DISTANCE};
    const struct qkv_view view = qkv_view_bhtd(x, QKV_F32, 1, 1, 2, HEAD);
    struct qkv_rotation rotation = qkv_rotation_defaults();
    rotation.table = table, rotation.count = FAR, rotation.pairs = HEAD / 2, rotation.positions = positions;
    for (size_t c = 0; c < HEAD; c++) x[c] = (float)sin(1 + (double)c), x[HEAD + c] = (float)cos(2 * (double)c);
    if (qkv_rotate(ctx, &view, &rotation)) fail(ctx);
    return product(x, x + HEAD, HEAD);
}

static void distances(struct qkv_context *ctx) {
    static float angles[FAR * HEAD], sines[FAR * C];
    static const int32_t places[] = {3, 30, 300, 999};
    float slopes[2];
    double rope[4], sinusoid[4];
    if (qkv_rotation_table(ctx, 10000, FAR, HEAD / 2, angles) || qkv_sinusoid_table(ctx, FAR, C, sines)) fail(ctx);
    qkv_alibi_slopes(2, slopes);
    printf("\nposition of the query, the key %d before it:   rope q·k   sinusoids p·p   alibi, head 0\n", DISTANCE);
    for (size_t i = 0; i < 4; i++) {
        const size_t t = (size_t)places[i];
        rope[i] = rotated(ctx, angles, places[i]);
        sinusoid[i] = product(sines + t * C, sines + (t - DISTANCE) * C, C);
        printf("%44zu   %8.4f   %13.4f   %13.4f\n", t, rope[i], sinusoid[i], (double)(-slopes[0] * DISTANCE));
        check(fabs(rope[i] - rope[0]) < 1e-4, "q·k depends on the distance only", "rope");
        check(fabs(sinusoid[i] - sinusoid[0]) < 1e-4, "p·p depends on the distance only", "sinusoids");
    }
}

int main(void) {
    struct qkv_context *ctx;
    if (qkv_context_create(&ctx, NULL)) fail(ctx);
    orders(ctx);
    distances(ctx);
    qkv_context_free(ctx);
    return wrong > 0;
}
