/* Which tokens of a row are hidden for masked-language modelling (Devlin et al. 2018).
 *
 * Each position is a target with probability p; of these 80 % are replaced by <mask>, 10 % by a token drawn
 * uniformly, and 10 % stay. */
#include "train/train.h"

size_t qkv_mask_row(const struct qkv_masking *masking, struct qkv_random *random, size_t T, int32_t *ids,
                    int32_t *targets) {
    size_t chosen = 0;
    for (size_t t = 0; t < T; t++) {
        targets[t] = QKV_IGNORE;
        if (qkv_random_uniform(random) >= masking->probability || ids[t] == masking->mask) continue;
        double what = qkv_random_uniform(random);
        targets[t] = ids[t];
        chosen++;
        if (what < 0.8)
            ids[t] = masking->mask;
        else if (what < 0.9)
            ids[t] = (int32_t)qkv_random_below(random, (uint64_t)masking->vocab);
    }
    return chosen;
}
