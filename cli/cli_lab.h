/* cli_lab.h: for the commands that show products of the lab: comparisons, attention weights, inspections. */
#ifndef QKV_CLI_LAB_H
#define QKV_CLI_LAB_H

#include "cli.h"
#include "lab/lab.h"

/* Prints a row for each variant; marks the best of each column (compare_table.c). */
int cli_compare_table(const struct qkv_comparison *comparison);
/* What a model reads: --prompt or --file, --target, --ids. */
struct cli_reading {
    char *text;
    size_t size;
    int32_t *ids, *target_ids;
    size_t id_count, target_id_count;
    struct qkv_example *example; /* NULL: a text, or ids */
};
/* The rows --examples and --example for the option table of a command whose struct has them. */
#define CLI_EXAMPLE(type)                                                                                              \
    {CLI_READ,                                                                                                         \
     0,                                                                                                                \
     "examples",                                                                                                       \
     "FILE",                                                                                                           \
     offsetof(type, examples),                                                                                         \
     .subject = "input",                                                                                               \
     .help = "safetensors file of examples to read instead of a text, as in training: images, frames, vectors or "     \
             "ids"},                                                                                                   \
    {                                                                                                                  \
        CLI_COUNT, 0, "example", "N", offsetof(type, example),                                                         \
            .subject = "input", .help = "number of the example, counted from 0", .high = INT32_MAX, .before = "0"      \
    }
/* Refuses a command line without exactly one of the three. */
int cli_reading_check(const char *command, const char *prompt, const char *file, const char *examples);
/* Reads the prompt or the file; without both, leaves `reading` empty. */
int cli_reading_open(const char *prompt, const char *file, bool ids, struct cli_reading *reading);
/* With ids, reads the ids of the target (NULL: none), unless the model classifies: then the target is a class's
 * name. */
int cli_reading_aim(struct cli_reading *reading, const struct qkv_model *model, const char *target);
/* Reads example number `example` of a file (NULL: none) for this model; refuses a model that reads numbers and has
 * no example. */
int cli_reading_example(struct cli_reading *reading, struct qkv_model *model, const char *examples, int64_t example);
void cli_reading_close(struct cli_reading *reading);
/* Draws the map of one attention in the terminal, of one head or (negative) the mean of all, and lists the heads
 * (attend_picture.c). */
int cli_attend_picture(struct qkv_context *ctx, struct qkv_attention_view *look, const char *kind, int64_t layer,
                       int64_t head);

#endif
