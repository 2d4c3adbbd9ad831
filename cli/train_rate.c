/* train_rate.c: "qkv train --find-rate": a range test of the learning rate (Smith 2017). A run in a temporary folder
 * makes steps whose rate grows; where its loss falls fastest is a rate to train with. */
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "cli_train.h"

enum { RATE_STEPS = 100, RATE_LINES = 16 };
static const double rate_low = 1e-7, rate_high = 10;

struct rate_point {
    double rate, loss, smooth;
};
struct rate_test {
    struct rate_point *points;
    size_t count, lowest, best; /* lowest: of the smoothed loss; best: the suggestion */
    bool falls;                 /* there is one */
};

/* ---- the run ----------------------------------------------------------------------------------------------------- */

/* Nothing is evaluated or saved before the last step, which is one more than the test has. */
int cli_train_rate_options(const struct cli_train_arguments *a, struct qkv_train_options *options) {
    const char *name;
    bool given = false;
    for (size_t i = 0; qkv_train_option_at(i, &name, NULL, NULL); i++)
        given |= !strcmp(name, "steps") && cli_train_value(&a->training, i);
    if (!given) options->steps = RATE_STEPS;
    if (options->steps < 2) return cli_usage("train: the test of --find-rate has at least two steps (--steps)");
    options->steps++;
    options->epochs = -1;
    options->warmup = options->eval_every = options->save_every = options->patience = 0;
    options->keep = 1;
    options->average = 0; /* of a file of options */
    return CLI_DONE;
}

static int rate_remove(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

char *cli_train_rate_folder(const char *picture) {
    const char *parent = getenv("TMPDIR");
    char root[4096], *folder = NULL;
    struct stat info;
    if (stat(picture, &info) == 0 && S_ISREG(info.st_mode)) {
        cli_failed("%s exists; name another file for the picture, or remove it", picture);
        return NULL;
    }
    if (!parent || !*parent) parent = "/tmp";
    const int n = snprintf(root, sizeof root, "%s/qkv-rate-XXXXXX", parent);
    const bool fits = n > 0 && (size_t)n + sizeof "/run" < sizeof root;
    if (fits && mkdtemp(root)) folder = malloc(strlen(root) + sizeof "/run");
    if (folder)
        sprintf(folder, "%s/run", root);
    else
        cli_failed("cannot make a folder in %s for the test of --find-rate; name another one in TMPDIR", parent);
    return folder;
}

void cli_train_rate_clear(const char *folder) {
    char root[4096];
    snprintf(root, sizeof root, "%.*s", (int)(strlen(folder) - strlen("/run")), folder);
    if (nftw(root, rate_remove, 16, FTW_DEPTH | FTW_PHYS)) cli_say("cannot remove %s; remove it", root);
}

/* Steps until the loss is no number, or four times the lowest one. */
static int rate_steps(struct qkv_trainer *trainer, struct cli_progress *progress, int64_t steps,
                      struct rate_test *test) {
    double mean = 0, share = 0, lowest = INFINITY;
    for (int64_t i = 0; i < steps; i++) {
        struct qkv_train_report r = {0};
        const enum qkv_status status = qkv_trainer_step(trainer, &r);
        if (status == QKV_NUMBER && i > 0) return CLI_DONE;
        if (status || cli_stopping) cli_progress_clear(progress);
        if (status) return cli_broken(qkv_model_context(qkv_trainer_model(trainer)));
        if (cli_stopping) {
            cli_say("interrupted after step %lld of %lld of the test; nothing was written", (long long)i + 1,
                    (long long)steps);
            return CLI_INTERRUPTED;
        }
        mean = 0.9 * mean + 0.1 * r.loss;
        share = 0.9 * share + 0.1;
        test->points[test->count++] = (struct rate_point){r.rate, r.loss, mean / share};
        lowest = fmin(lowest, mean / share);
        char step[64], rate[48], loss[48];
        const char *fields[] = {step, rate, loss};
        snprintf(step, sizeof step, "step %lld/%lld", (long long)i + 1, (long long)steps);
        snprintf(rate, sizeof rate, "rate %.2g", r.rate);
        snprintf(loss, sizeof loss, "loss %.4f", r.loss);
        if (cli_progress_due(progress)) cli_progress_show(progress, (double)i / (double)steps, fields, 3);
        if (mean / share > 4 * lowest) return CLI_DONE;
    }
    return CLI_DONE;
}

/* The rate before the lowest loss at which the smoothed loss falls most for the same factor of the rate. */
static void rate_choose(struct rate_test *test) {
    const struct rate_point *p = test->points;
    double steepest = 0;
    for (size_t i = 1; i < test->count; i++)
        if (p[i].smooth < p[test->lowest].smooth) test->lowest = i;
    for (size_t i = 2; i + 2 <= test->lowest; i++) {
        const double slope = (p[i + 2].smooth - p[i - 2].smooth) / log(p[i + 2].rate / p[i - 2].rate);
        if (slope >= steepest) continue;
        steepest = slope;
        test->best = i;
    }
    test->falls = steepest < 0 && p[test->lowest].smooth < 0.99 * p[0].smooth;
}

/* ---- what is shown ----------------------------------------------------------------------------------------------- */

static void rate_print(const struct rate_test *test) {
    const struct rate_point *p = test->points;
    const size_t stride = test->count > RATE_LINES ? (test->count + RATE_LINES - 1) / RATE_LINES : 1;
    printf("%10s  %10s  %10s\n", "rate", "loss", "smoothed");
    for (size_t i = 0; i < test->count; i += stride)
        printf("%10.2e  %10.4f  %10.4f\n", p[i].rate, p[i].loss, p[i].smooth);
    if (test->falls)
        printf("train with --rate %.1e: there the loss falls fastest; it is lowest at %.1e, and higher rates are too "
               "high\n",
               p[test->best].rate, p[test->lowest].rate);
    else
        printf("the loss does not fall at any rate; test more steps (--steps), a larger --batch, or other data\n");
}

enum { PICTURE_WIDTH = 720, PICTURE_HEIGHT = 400, PICTURE_LEFT = 64, PICTURE_TOP = 32, PICTURE_BOTTOM = 56 };

struct rate_axes {
    double low, high, bottom, top; /* log10 of rates; losses */
};

static double picture_x(const struct rate_axes *a, double rate) {
    return PICTURE_LEFT + (log10(rate) - a->low) / (a->high - a->low) * (PICTURE_WIDTH - PICTURE_LEFT - 16);
}

static double picture_y(const struct rate_axes *a, double loss) {
    const double share = (fmin(loss, a->top) - a->bottom) / (a->top - a->bottom);
    return PICTURE_HEIGHT - PICTURE_BOTTOM - share * (PICTURE_HEIGHT - PICTURE_BOTTOM - PICTURE_TOP);
}

/* Losses far above the first one are drawn at the upper edge. */
static struct rate_axes picture_axes(const struct rate_test *test) {
    const struct rate_point *p = test->points;
    struct rate_axes a = {log10(p[0].rate), log10(p[test->count - 1].rate), p[0].loss, p[0].loss};
    for (size_t i = 0; i < test->count; i++) {
        a.bottom = fmin(a.bottom, p[i].loss);
        a.top = fmax(a.top, fmin(p[i].loss, 1.25 * p[0].loss));
    }
    if (!(a.high > a.low)) a.high = a.low + 1;
    if (!(a.top > a.bottom)) a.top = a.bottom + 1;
    return a;
}

static void picture_line(FILE *out, const struct rate_test *test, const struct rate_axes *a, bool smooth,
                         const char *style) {
    fprintf(out, "<polyline fill=\"none\" %s points=\"", style);
    for (size_t i = 0; i < test->count; i++)
        fprintf(out, "%s%.1f,%.1f", i ? " " : "", picture_x(a, test->points[i].rate),
                picture_y(a, smooth ? test->points[i].smooth : test->points[i].loss));
    fprintf(out, "\"/>\n");
}

static void picture_scales(FILE *out, const struct rate_axes *a) {
    const int base = PICTURE_HEIGHT - PICTURE_BOTTOM;
    for (int e = (int)ceil(a->low - 1e-9); e <= (int)floor(a->high + 1e-9); e++) {
        const double x = picture_x(a, pow(10, e));
        fprintf(out, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#ddd\"/>\n", x, PICTURE_TOP, x, base);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">1e%d</text>\n", x, base + 18, e);
    }
    for (int i = 0; i <= 4; i++) {
        const double loss = a->bottom + (a->top - a->bottom) * i / 4, y = picture_y(a, loss);
        fprintf(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", PICTURE_LEFT, y,
                PICTURE_WIDTH - 16, y);
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n", PICTURE_LEFT - 8, y + 4, loss);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">learning rate</text>\n",
            (PICTURE_LEFT + PICTURE_WIDTH) / 2, PICTURE_HEIGHT - 12);
}

static void rate_draw(FILE *out, const struct rate_test *test) {
    const struct rate_axes a = picture_axes(test);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<title>Loss by learning rate</title>\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"#fff\"/>\n<text x=\"%d\" y=\"20\">Loss of a step (grey) and smoothed (blue)</text>\n",
            PICTURE_WIDTH, PICTURE_HEIGHT, PICTURE_LEFT);
    picture_scales(out, &a);
    picture_line(out, test, &a, false, "stroke=\"#999\"");
    picture_line(out, test, &a, true, "stroke=\"#05c\" stroke-width=\"2\"");
    if (test->falls) {
        const double rate = test->points[test->best].rate, x = picture_x(&a, rate);
        fprintf(out, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#c30\" stroke-dasharray=\"4\"/>\n", x,
                PICTURE_TOP, x, PICTURE_HEIGHT - PICTURE_BOTTOM);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" fill=\"#c30\">%.1e</text>\n", x + 4, PICTURE_TOP + 12, rate);
    }
    fprintf(out, "</svg>\n");
}

int cli_train_find_rate(struct qkv_trainer *trainer, struct cli_progress *progress,
                        const struct cli_train_arguments *a) {
    struct qkv_context *ctx = qkv_model_context(qkv_trainer_model(trainer));
    const int64_t steps = qkv_trainer_options(trainer)->steps - 1;
    struct rate_test test = {.points = calloc((size_t)steps, sizeof *test.points)};
    struct cli_output output = {0};
    size_t notes = 0;
    if (!test.points) return cli_failed("out of memory");
    cli_train_notes(progress, trainer, &notes);
    int code = cli_output_begin(ctx, a->find_rate, false, &output);
    if (!code) {
        if (qkv_trainer_test_rates(trainer, rate_low, rate_high, steps)) code = cli_broken(ctx);
        if (!code) code = rate_steps(trainer, progress, steps, &test);
        cli_progress_clear(progress);
        if (!code) rate_choose(&test);
        if (!code) rate_draw(output.file, &test);
        code = cli_output_end(&output, code);
    }
    if (!code) rate_print(&test);
    free(test.points);
    return code;
}
