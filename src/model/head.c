/* head: the result for classes, from their scores. */
#include "base/math.h"
#include "model/model.h"

bool qkv_scores_take(const float *scores, size_t n, float *out) {
    double most = -INFINITY, sum = 0;
    for (size_t k = 0; k < n; k++) {
        if (!isfinite(scores[k])) return false;
        most = qkv_fmax(most, (double)scores[k]);
    }
    if (n == 1) {
        *out = *scores;
        return true;
    }
    for (size_t k = 0; k < n; k++) sum += qkv_exp((double)scores[k] - most);
    for (size_t k = 0; k < n; k++) out[k] = (float)(qkv_exp((double)scores[k] - most) / sum);
    return true;
}

void qkv_scores_none(size_t count, size_t classes, float *out) {
    for (size_t i = 0; i < count * classes; i++) out[i] = classes == 1 ? NAN : 0;
}
