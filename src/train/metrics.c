/* What an evaluation is judged by: the names of the option `metric`, and which of two values is the better one. */
#include <string.h>

#include "train/train.h"

static const struct {
    const char *name;
    bool more;
} metrics[] = {
#define METRIC(name, text, more) {text, more},
    QKV_METRIC_LIST(METRIC)
#undef METRIC
};

bool qkv_metric_find(const char *name, enum qkv_metric *metric) {
    for (size_t i = 0; name && i < sizeof metrics / sizeof *metrics; i++) {
        if (strcmp(metrics[i].name, name) != 0) continue;
        *metric = (enum qkv_metric)i;
        return true;
    }
    return false;
}

bool qkv_metric_better(enum qkv_metric metric, double value, double best) {
    return metrics[metric].more ? !(value <= best) : !(value >= best);
}
