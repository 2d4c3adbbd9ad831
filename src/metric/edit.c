/* Edit distance (Levenshtein 1966): the fewest insertions, deletions and substitutions, by the table of Wagner & Fischer (1974)
 * of which one row is kept. What both have at the front and at the end costs nothing and is left out. */
#include <stdlib.h>

#include "metric/metric.h"

size_t qkv_edit_distance(const int32_t *a, size_t n, const int32_t *b, size_t m) {
    for (; n && m && *a == *b; a++, b++, n--, m--) {
    }
    for (; n && m && a[n - 1] == b[m - 1]; n--, m--) {
    }
    if (n < m) return qkv_edit_distance(b, m, a, n); /* the row is the shorter one */
    if (m == 0) return n;
    size_t *row = qkv_allocate(NULL, m + 1, sizeof *row);
    if (!row) return SIZE_MAX;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < gap ? change : gap;
        }
    }
    size_t distance = row[m];
    free(row);
    return distance;
}
