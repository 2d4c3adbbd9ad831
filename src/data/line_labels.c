/* Labels of lines, sorted: which one a text is, and the sentence for a text that is none. */
#include <string.h>

#include "data/data.h"
#include "data/tsv.h"

int qkv_labels_compare(const char *a, size_t na, const char *b, size_t nb) {
    int order = memcmp(a, b, na < nb ? na : nb);
    return order ? order : (na > nb) - (na < nb);
}

enum qkv_status qkv_labels_unknown(const struct qkv_line_coder *c, const struct qkv_tsv *file, size_t line,
                                   const char *label, size_t size) {
    char known[256] = "";
    for (size_t i = 0, used = 0; i < c->label_count && used < sizeof known; i++) {
        if (used > 200) {
            snprintf(known + used, sizeof known - used, ", …");
            break;
        }
        int n = snprintf(known + used, sizeof known - used, "%s%.40s", i ? ", " : "", c->labels[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return qkv_tsv_fail(file, line, "the label \"%.*s\" does not occur in training; the known ones are %s",
                        (int)(size < 100 ? size : 100), label, known);
}

size_t qkv_labels_find(const struct qkv_line_coder *c, const char *label, size_t size) {
    size_t low = 0, high = c->label_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = qkv_labels_compare(label, size, c->labels[middle], strlen(c->labels[middle]));
        if (order == 0) return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return c->label_count;
}
