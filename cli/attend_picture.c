/* attend_picture.c: attention weights in the terminal: a map with one row a query and one column a key, drawn in
 * shades, and the list of the heads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli_lab.h"

enum { LABEL = 12, DOWN = 6, MAX_ROWS = 48 };

struct map {
    struct qkv_attention_view *look;
    struct qkv_attention_view_head attention;
    bool blocks;                 /* false: ASCII */
    size_t row, rows, key, keys; /* the part of the map that is shown */
    int cell;                    /* terminal columns a key */
};

/* ---- labels ------------------------------------------------------------------------------------------------------ */

static size_t attend_picture_put(char *out, size_t used, size_t size, const char *text) {
    size_t n = strlen(text);
    if (used + n >= size) return used;
    memcpy(out + used, text, n + 1);
    return used + n;
}

/* Writes token t so that a terminal can show it: spaces and line ends become visible characters; control characters
 * and bytes that are no UTF-8 become escapes. */
static void label_of(const struct map *m, bool encoder, size_t t, char *out, size_t size) {
    size_t n, used = 0, length;
    const char *text = qkv_look_token(m->look, encoder, t, &n);
    out[0] = 0;
    for (size_t i = 0; i < n; i += length ? length : 1) {
        char piece[8] = "";
        unsigned char c = (unsigned char)text[i];
        length = qkv_utf8_length(text + i, n - i);
        if (c == ' ')
            snprintf(piece, sizeof piece, "%s", m->blocks ? "\u2423" : "_");
        else if (c == '\n')
            snprintf(piece, sizeof piece, "%s", m->blocks ? "\u21B5" : "\\n");
        else if (!length || c < 32 || c == 127 || (length > 1 && !m->blocks) ||
                 (length == 2 && c == 0xC2 && (unsigned char)text[i + 1] < 0xA0))
            snprintf(piece, sizeof piece, "\\x%02x", c), length = 1;
        else
            snprintf(piece, sizeof piece, "%.*s", (int)length, text + i);
        used = attend_picture_put(out, used, size, piece);
    }
}

/* Returns the terminal columns of the character at `text`; *bytes becomes its length. */
static int width_of(const char *text, size_t *bytes) {
    wchar_t wide;
    mbstate_t state = {0};
    size_t n = mbrtowc(&wide, text, strlen(text), &state);
    int width = n == 0 || n > 4 ? 1 : wcwidth(wide);
    *bytes = n == 0 || n > 4 ? 1 : n;
    return width < 0 ? 1 : width;
}

/* Prints a label flush right in LABEL columns, cut to them. */
static void print_label(const char *label) {
    int width = 0;
    size_t n, end = 0;
    for (size_t i = 0; label[i]; i += n) {
        int w = width_of(label + i, &n);
        if (width + w > LABEL) break;
        width += w;
        end = i + n;
    }
    printf("%*s%.*s ", LABEL - width, "", (int)end, label);
}

/* Prints the labels of the keys from top to bottom, one character a line. */
static void print_keys(const struct map *m) {
    char label[64];
    size_t n;
    for (size_t line = 0; line < DOWN; line++) {
        char text[4096] = "";
        size_t used = 0, inked = 0;
        for (size_t k = 0; k < m->keys; k++) {
            label_of(m, m->attention.encoder_keys, m->key + k, label, sizeof label);
            const char *at = label;
            for (size_t i = 0; i < line && *at; i++) {
                width_of(at, &n);
                at += n;
            }
            int width = *at ? width_of(at, &n) : 0;
            if (width == 0 || width > m->cell) { /* the label has ended, or the character is too wide for the column */
                used = attend_picture_put(text, used, sizeof text, m->cell == 2 ? "  " : " ");
                continue;
            }
            char cell[16];
            snprintf(cell, sizeof cell, "%.*s%*s", (int)n, at, m->cell - width, "");
            used = attend_picture_put(text, used, sizeof text, cell);
            inked = used;
        }
        if (!inked) return;
        printf("%*s %.*s\n", LABEL, "", (int)inked, text);
    }
}

/* ---- the map ----------------------------------------------------------------------------------------------------- */

static const char *attend_picture_shade(const struct map *m, float weight) {
    static const char *const blocks[] = {" ", "\u00B7", "\u2591", "\u2592", "\u2593", "\u2588"};
    static const char *const plain[] = {" ", ".", ":", "+", "*", "#"};
    static const float from[] = {1e-6f, 0.02f, 0.1f, 0.3f, 0.6f};
    size_t level = 0;
    while (level < 5 && weight >= from[level]) level++;
    return m->blocks ? blocks[level] : plain[level];
}

static int print_rows(struct qkv_context *ctx, const struct map *m, size_t i, size_t head) {
    float *row = malloc(m->attention.keys * sizeof *row);
    char label[256];
    if (!row) return cli_failed("out of memory");
    for (size_t r = 0; r < m->rows; r++) {
        if (qkv_look_weights(m->look, i, head, m->row + r, 1, row)) {
            free(row);
            return cli_broken(ctx);
        }
        label_of(m, m->attention.encoder_queries, m->row + r, label, sizeof label);
        print_label(label);
        size_t end = m->keys;
        while (end > 0 && row[m->key + end - 1] < 1e-6f) end--;
        for (size_t k = 0; k < end; k++)
            for (int c = 0; c < m->cell; c++) fputs(attend_picture_shade(m, row[m->key + k]), stdout);
        putchar('\n');
    }
    free(row);
    return CLI_DONE;
}

/* Shows the end of a text that does not fit: its last rows decide the next token. */
static void choose_part(struct map *m) {
    size_t columns = (size_t)cli_width(STDOUT_FILENO);
    columns = columns > LABEL + 12 ? columns - LABEL - 2 : 12;
    if (columns > 400) columns = 400;
    m->cell = 2 * m->attention.keys <= columns ? 2 : 1;
    m->keys = m->attention.keys <= columns ? m->attention.keys : columns;
    m->key = m->attention.keys - m->keys;
    m->rows = m->attention.queries < MAX_ROWS ? m->attention.queries : MAX_ROWS;
    m->row = m->attention.queries - m->rows;
}

static void print_title(const struct map *m, int64_t head) {
    static const char *const kinds[] = {"encoder", "decoder", "cross attention"};
    char which[48] = "mean of the heads";
    if (head >= 0) snprintf(which, sizeof which, "head %lld", (long long)head);
    if (m->attention.heads == 1) snprintf(which, sizeof which, "its only head");
    printf("%s, layer %zu, %s: rows look at columns\n", kinds[m->attention.kind], m->attention.layer, which);
    if (m->row || m->key)
        printf("(the last %zu of %zu tokens at the last %zu of %zu; -o FILE shows all)\n", m->rows,
               m->attention.queries, m->keys, m->attention.keys);
    if (m->attention.queries == 1 && m->attention.keys == 1) printf("(one token: it can attend to itself only)\n");
}

static void print_heads(const struct qkv_attention_view *look, int64_t layer, int64_t head) {
    struct qkv_attention_view_head a;
    struct qkv_head_statistics s;
    static const char *const kinds[] = {"encoder", "decoder", "cross"};
    printf("\n%-10s %5s %5s %9s %9s\n", "attention", "layer", "head", "entropy", "distance");
    for (size_t i = 0; qkv_attention_view_head(look, i, &a); i++)
        for (size_t h = 0; h < a.heads; h++)
            if ((layer < 0 || (size_t)layer == a.layer) && (head < 0 || (size_t)head == h) &&
                !qkv_look_head(look, i, h, &s))
                printf("%-10s %5zu %5zu %9.2f %9.2f\n", kinds[a.kind], a.layer, h, s.entropy, s.distance);
}

/* ---- choosing an attention --------------------------------------------------------------------------------------- */

/* Returns the attention of this kind (NULL: cross, else the first kind) and this layer (negative: the last);
 * SIZE_MAX if there is none. */
static size_t attend_picture_find(const struct qkv_attention_view *look, const char *kind, int64_t layer) {
    static const char *const kinds[] = {"encoder", "decoder", "cross"};
    struct qkv_attention_view_head a;
    size_t found = SIZE_MAX;
    bool cross = qkv_look_tokens(look, true) && qkv_look_tokens(look, false);
    for (size_t i = 0; qkv_attention_view_head(look, i, &a); i++)
        if ((kind ? !strcmp(kind, kinds[a.kind]) : !cross || a.kind == QKV_LOOK_CROSS) &&
            (layer < 0 || (size_t)layer == a.layer))
            found = i;
    return found;
}

int cli_attend_picture(struct qkv_context *ctx, struct qkv_attention_view *look, const char *kind, int64_t layer,
                       int64_t head) {
    const char *no_color = getenv("NO_COLOR");
    struct map m = {.look = look, .blocks = cli_locale_utf8() && !(no_color && *no_color)};
    size_t i = attend_picture_find(look, kind, layer);
    if (i == SIZE_MAX && kind && attend_picture_find(look, kind, -1) == SIZE_MAX)
        return cli_failed("attend: this model has no %s attention: it is %s", kind,
                          qkv_look_tokens(look, true) ? "an encoder" : "a decoder");
    if (i == SIZE_MAX) return cli_failed("attend: there is no layer %lld of this kind", (long long)layer);
    qkv_attention_view_head(look, i, &m.attention);
    if (head >= 0 && (size_t)head >= m.attention.heads)
        return cli_failed("attend: there is no head %lld: %s has heads 0 to %zu", (long long)head, m.attention.name,
                          m.attention.heads - 1);
    choose_part(&m);
    print_title(&m, head);
    print_keys(&m);
    int code = print_rows(ctx, &m, i, head < 0 ? SIZE_MAX : (size_t)head);
    if (code) return code;
    printf("%*s %s 2%% %s 10%% %s 30%% %s 60%% %s\n", LABEL, "", attend_picture_shade(&m, 1e-3f),
           attend_picture_shade(&m, 0.05f), attend_picture_shade(&m, 0.2f), attend_picture_shade(&m, 0.4f),
           attend_picture_shade(&m, 1));
    print_heads(look, layer, head);
    return CLI_DONE;
}
