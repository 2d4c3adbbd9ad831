/* edit: the fewest insertions, deletions and substitutions that turn one sequence into another (Levenshtein 1966), by
 * the table of Wagner & Fischer (1974), of which only the latest rows are stored. For names, a swap of neighbours is
 * one edit too (optimal string alignment). */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { EDIT_NAME = 40 }; /* longer names are not compared */

/* The common prefix and suffix cost nothing and are skipped; `rows` has 3 × (m + 1) elements. */
static size_t edit_table(const int32_t *a, size_t n, const int32_t *b, size_t m, bool swaps, size_t *rows) {
    size_t *row = rows, *above = rows + m + 1, *second = rows + 2 * (m + 1);
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *oldest = second;
        second = above;
        above = row;
        row = oldest;
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = qkv_min(qkv_min(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (swaps && i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = qkv_min(row[j], second[j - 2] + 1);
        }
    }
    return row[m];
}

size_t qkv_edit_distance(const int32_t *a, size_t n, const int32_t *b, size_t m) {
    if ((n && !a) || (m && !b)) return 0;
    for (; n && m && *a == *b; a++, b++, n--, m--) {
    }
    for (; n && m && a[n - 1] == b[m - 1]; n--, m--) {
    }
    if (n < m) return qkv_edit_distance(b, m, a, n); /* the table's rows have the length of the shorter one */
    if (m == 0) return n;
    size_t *rows = qkv_allocate(NULL, m + 1, 3 * sizeof *rows);
    if (!rows) return SIZE_MAX;
    size_t distance = edit_table(a, n, b, m, false, rows);
    free(rows);
    return distance;
}

size_t qkv_name_distance(const char *a, const char *b) {
    int32_t left[EDIT_NAME], right[EDIT_NAME];
    size_t n = strlen(a), m = strlen(b), rows[3 * (EDIT_NAME + 1)];
    if (n > EDIT_NAME || m > EDIT_NAME) return SIZE_MAX;
    for (size_t i = 0; i < n; i++) left[i] = a[i] == '_' ? '-' : a[i];
    for (size_t i = 0; i < m; i++) right[i] = b[i] == '_' ? '-' : b[i];
    return edit_table(left, n, right, m, true, rows);
}

const char *qkv_closest_name(const char *word, const char *(*name_at)(const void *list, size_t i), const void *list,
                             size_t count) {
    if (!word || !name_at) return NULL;
    const char *best = NULL;
    size_t n = strlen(word), nearest = n < 6 ? 3 : n / 3 + 2;
    for (size_t i = 0; i < count; i++) {
        const char *name = name_at(list, i);
        size_t distance = qkv_name_distance(word, name);
        if (n >= 3 && !strncmp(word, name, n)) distance = 1; /* an abbreviation */
        if (distance < nearest && distance < strlen(name)) nearest = distance, best = name;
    }
    return best;
}
