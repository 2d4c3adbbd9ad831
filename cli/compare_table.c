/* compare_table.c: the table that "qkv compare" prints. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_lab.h"

enum { CELL = 32, COLUMNS = 32 };

struct column {
    char head[2][CELL]; /* the title, in two lines */
    char (*cells)[CELL];
    double best; /* NaN: none */
    size_t width;
};
struct table {
    const struct qkv_comparison *c;
    size_t rows, count, name_width;
    struct column columns[COLUMNS];
};

static size_t columns_of(const char *text) { /* counts characters: a user's names may have any */
    size_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* The number that a column shows. The parameter `better` of a column: −1 smaller is better, 1 larger is better, 0
 * neither. */
enum what { PARAMETERS, LOSS, TRAIN, PROMPT, DECODE, CACHE, MEMORY };

static double value_of(const struct qkv_variant *v, enum what what, size_t cache) {
    switch (what) {
    case PARAMETERS:
        return (double)v->costs.parameters;
    case LOSS:
        return v->loss;
    case TRAIN:
        return v->train_speed;
    case PROMPT:
        return v->prompt_speed;
    case DECODE:
        return v->decode_speeds[cache];
    case CACHE:
        return (double)v->costs.cache_bytes_per_token;
    case MEMORY:
        return (double)v->memory;
    }
    return NAN;
}

static void write_cell(char cell[CELL], const struct qkv_variant *v, enum what what, double x, bool best) {
    char number[CLI_NUMBER];
    const char *mark = best ? " *" : "  "; /* both are two wide, so that numbers end in the same column */
    if (what == LOSS && isfinite(v->deviation))
        snprintf(cell, CELL, cli_locale_utf8() ? "%.4f \u00B1 %.4f%s" : "%.4f +- %.4f%s", x, v->deviation, mark);
    else if (what == LOSS)
        snprintf(cell, CELL, "%.4f%s", x, mark);
    else if (what == CACHE || what == MEMORY)
        snprintf(cell, CELL, "%s%s", cli_bytes(number, (size_t)x), mark);
    else
        snprintf(cell, CELL, "%s%s", isfinite(x) ? cli_short(number, x) : "-", mark);
}

/* Returns the best value of a column; NaN if all values are equal. */
static double best_of(const struct table *t, enum what what, size_t cache, int better) {
    const struct qkv_variant *v = qkv_comparison_best(t->c);
    if (what == LOSS) return v ? v->loss : NAN; /* NULL if the seeds differ by more */
    if (what == PROMPT || what == DECODE) {     /* NULL if measurements differ by more */
        v = qkv_comparison_fastest(t->c, what == PROMPT ? SIZE_MAX : cache);
        return v ? value_of(v, what, cache) : NAN;
    }
    double best = NAN, worst = NAN;
    for (size_t i = 0; (v = qkv_comparison_variant(t->c, i)); i++) {
        double x = v->measured ? value_of(v, what, cache) : NAN;
        if (!isfinite(x)) continue;
        if (!(better * x <= better * best)) best = x;
        if (!(better * x >= better * worst)) worst = x;
    }
    return better && best != worst ? best : NAN;
}

static bool add_column(struct table *t, const char *above, const char *below, enum what what, size_t cache,
                       int better) {
    struct column *column = &t->columns[t->count];
    const struct qkv_variant *v;
    if (t->count == COLUMNS) return true;
    column->cells = calloc(t->rows, sizeof *column->cells);
    if (!column->cells) return false;
    t->count++;
    snprintf(column->head[0], CELL, "%.20s  ", above);
    snprintf(column->head[1], CELL, "%.20s  ", below);
    column->best = best_of(t, what, cache, better);
    for (size_t i = 0; (v = qkv_comparison_variant(t->c, i)); i++) {
        if (!v->measured) continue;
        double x = value_of(v, what, cache);
        write_cell(column->cells[i], v, what, x, x == column->best);
        if (columns_of(column->cells[i]) > column->width) column->width = columns_of(column->cells[i]);
    }
    for (int line = 0; line < 2; line++)
        if (strlen(column->head[line]) > column->width) column->width = strlen(column->head[line]);
    return true;
}

static bool add_columns(struct table *t) {
    size_t count, prompt;
    const size_t *caches = qkv_comparison_caches(t->c, &count, &prompt);
    char text[CELL], number[CLI_NUMBER];
    bool good = add_column(t, "", "parameters", PARAMETERS, 0, 0) && add_column(t, "validation", "loss", LOSS, 0, -1) &&
                /* not ranked: trainings do not alternate, so the machine's load differs */
                add_column(t, "training", "tokens/s", TRAIN, 0, 0);
    snprintf(text, sizeof text, "prompt %s", cli_grouped(number, prompt));
    good = good && add_column(t, text, "tokens/s", PROMPT, 0, 1);
    for (size_t i = 0; i < count && good; i++) {
        snprintf(text, sizeof text, "at %s", cli_grouped(number, caches[i]));
        good = add_column(t, text, "tokens/s", DECODE, i, 1);
    }
    return good && add_column(t, "cache", "a token", CACHE, 0, -1) &&
           add_column(t, "memory", "to train", MEMORY, 0, -1);
}

static void print_padded(const char *text, size_t width, bool right) {
    size_t n = columns_of(text), room = width > n ? width - n : 0;
    if (right) printf("%*s", (int)room, "");
    for (const char *c = text; *c; c++) putchar((unsigned char)*c < 32 || *c == 127 ? '?' : *c);
    if (!right) printf("%*s", (int)room, "");
}

static void print_table(const struct table *t) {
    const struct qkv_variant *v;
    for (int line = 0; line < 2; line++) {
        print_padded(line ? "variant" : "", t->name_width, false);
        for (size_t k = 0; k < t->count; k++) {
            printf("  ");
            print_padded(t->columns[k].head[line], t->columns[k].width, true);
        }
        putchar('\n');
    }
    for (size_t i = 0; (v = qkv_comparison_variant(t->c, i)); i++) {
        print_padded(v->name, t->name_width, false);
        for (size_t k = 0; k < t->count && v->measured; k++) {
            printf("  ");
            const char *cell = t->columns[k].cells[i];
            const bool best = strchr(cell, '*') != NULL;
            printf("%s", best ? cli_style(STDOUT_FILENO, CLI_BEST) : "");
            print_padded(cell, t->columns[k].width, true);
            printf("%s", best ? cli_style(STDOUT_FILENO, CLI_PLAIN) : "");
        }
        if (!v->measured) {
            printf("  failed: ");
            print_padded(v->failure ? v->failure : "not measured", 0, false);
        }
        putchar('\n');
    }
}

int cli_compare_table(const struct qkv_comparison *c) {
    struct table t = {.c = c, .rows = qkv_comparison_count(c), .name_width = strlen("variant")};
    const struct qkv_variant *v;
    for (size_t i = 0; (v = qkv_comparison_variant(c, i)); i++)
        if (columns_of(v->name) > t.name_width) t.name_width = columns_of(v->name);
    int code = add_columns(&t) ? CLI_DONE : cli_failed("out of memory");
    if (!code) print_table(&t);
    for (size_t k = 0; k < t.count; k++) free(t.columns[k].cells);
    return code;
}
