/* train_result.c: what a training run came to, for other programs: "qkv train --json". */
#include <string.h>

#include "cli_train.h"

int cli_train_json(struct qkv_trainer *trainer, const struct cli_train_arguments *a, const struct qkv_train_report *r,
                   const char *state) {
    const struct qkv_model *model = qkv_trainer_model(trainer);
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "folder", a->resume ? a->resume : a->out);
    qkv_json_put_text(&out, "state", state);
    qkv_json_put_bool(&out, "ended_by_patience", r->ended);
    qkv_json_put_integer(&out, "step", r->step);
    qkv_json_put_integer(&out, "steps", qkv_trainer_options(trainer)->steps);
    qkv_json_put_count(&out, "parameters", cli_parameters(model));
    qkv_json_put_number(&out, "loss", r->loss, 9);
    qkv_json_put_number(&out, "valid_loss", r->valid_loss, 9);
    qkv_json_put_text(&out, "metric", qkv_trainer_options(trainer)->metric);
    qkv_json_put_number(&out, "best", r->best_metric, 9);
    qkv_json_put_number(&out, "tokens_per_second", r->tokens_per_second, 9);
    qkv_json_put_fixed(&out, "seconds", r->seconds, 3);
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}
