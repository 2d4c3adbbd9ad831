/* sampling.c: how tokens are chosen: the command line, else the model's folder, else defaults. */
#include <time.h>

#include "cli_text.h"

void cli_sampling_settle(const struct cli_sampling *sampling, const struct qkv_model *model, bool chooses,
                         struct qkv_generate_options *o) {
    const struct cli_sampling *s = sampling;
    const bool said = qkv_generate_settings(model, o);
    chooses |= s->top_k >= 0 || s->top_p >= 0 || s->min_p >= 0 || s->seed >= 0;
    if (!said) o->sampling.repeat_last = 64;
    if (s->temperature >= 0)
        o->sampling.temperature = s->temperature;
    else if (!said || (o->sampling.temperature == 0 && chooses))
        o->sampling.temperature = 0.8;
    if (s->top_k >= 0) o->sampling.top_k = (int)s->top_k;
    if (s->top_p >= 0) o->sampling.top_p = s->top_p;
    if (s->min_p >= 0) o->sampling.min_p = s->min_p;
    if (s->repeat_penalty >= 0) o->sampling.repeat_penalty = s->repeat_penalty, o->sampling.repeat_last = 64;
    if (s->repeat_last >= 0) o->sampling.repeat_last = (int)s->repeat_last;
    o->sampling.seed = s->seed >= 0 ? (uint64_t)s->seed : (uint64_t)time(NULL);
}
