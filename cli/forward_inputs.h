/* forward_inputs: what "qkv forward" reads. */
#ifndef CLI_FORWARD_INPUTS_H
#define CLI_FORWARD_INPUTS_H

#include "cli.h"

struct cli_inputs {
    struct qkv_tensors *file;
    int32_t *ids, *lengths, *targets, *source, *source_lengths, *types, *source_types, *prefix;
    float *output_gradient, *features;
    struct qkv_batch batch;
};

/* The batch of a file, with the arrays that it points to; freed even after a failure. */
int cli_inputs_read(struct qkv_context *ctx, const struct qkv_spec *spec, const char *path, struct cli_inputs *in);
/* The prefix of each row: so many positions, or as many as it has; negative: none. */
int cli_inputs_set_prefix(struct cli_inputs *in, int64_t prefix);
void cli_inputs_free(struct cli_inputs *in);

#endif
