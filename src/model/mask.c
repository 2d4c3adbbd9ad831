/* mask: causal, sliding-window and padding masks as one interval [lo, hi) of keys for each query, in O(T) memory.
 *
 * causal: j <= i. window w: |i − j| < w. padding: j < length. Their intersection is an interval too, empty where lo >= hi. */
#include "model/model.h"

void qkv_mask_intervals(const struct qkv_mask *m, int32_t *lo, int32_t *hi) {
    for (size_t b = 0; b < m->B; b++) {
        size_t length = m->Tk;
        if (m->lengths) {
            length = m->lengths[b] < 0 ? 0 : (size_t)m->lengths[b];
            if (length > m->Tk) {
                length = m->Tk;
            }
        }
        for (size_t t = 0; t < m->Tq; t++) {
            size_t i = m->offset + t, from = 0, to = length;
            if (m->window > 0) {
                from = i + 1 > m->window ? i + 1 - m->window : 0;
                if (to > i + m->window) {
                    to = i + m->window;
                }
            }
            if (m->causal && to > i + 1) {
                to = i + 1;
            }
            lo[b * m->Tq + t] = (int32_t)(from < to ? from : to);
            hi[b * m->Tq + t] = (int32_t)to;
        }
    }
}
