/* cli_lab.h: for the commands that show products of the lab: what was compared, measured or looked into. */
#ifndef QKV_CLI_LAB_H
#define QKV_CLI_LAB_H

#include "cli.h"
#include "lab/lab.h"

/* What was measured, a row a variant; the best of each column marked (compare_table.c). */
int cli_compare_table(const struct qkv_comparison *comparison);
/* The map of one attention in the terminal, of one head or the mean of all (negative), and the list of the heads
 * (attend_picture.c). */
int cli_attend_picture(struct qkv_context *ctx, struct qkv_attention_view *look, const char *kind, int64_t layer,
                       int64_t head);

#endif
