/* Scores of a classifier from its confusion matrix: accuracy, and the macro average of F1 (van Rijsbergen 1979) over
 * the classes that occur among labels or predictions. */
#include "metric/metric.h"

double qkv_accuracy(const size_t *confusion, size_t classes) {
    size_t hits = 0, all = 0;
    for (size_t i = 0; i < classes * classes; i++) all += confusion[i];
    for (size_t k = 0; k < classes; k++) hits += confusion[k * classes + k];
    return all ? (double)hits / (double)all : 0;
}

double qkv_macro_f1(const size_t *confusion, size_t classes) {
    double sum = 0;
    size_t occurring = 0;
    for (size_t k = 0; k < classes; k++) {
        size_t labels = 0, predictions = 0;
        for (size_t other = 0; other < classes; other++) {
            labels += confusion[k * classes + other];
            predictions += confusion[other * classes + k];
        }
        if (labels + predictions == 0) continue;
        sum += 2 * (double)confusion[k * classes + k] / (double)(labels + predictions);
        occurring++;
    }
    return occurring ? sum / (double)occurring : 0;
}
