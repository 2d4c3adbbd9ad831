/* help_files.c: "qkv help files": the files in the folder of a model and of a run (qkv/files.h). */
#include <stdio.h>
#include <string.h>

#include "cli_help.h"

struct file_row {
    const char *name, *content, *written, *removal;
};
#define ROW(...) {__VA_ARGS__},
static const struct file_row model_files[] = {QKV_MODEL_FILE_LIST(ROW) QKV_PUBLISHED_FILE_LIST(ROW){0}};
static const struct file_row run_files[] = {QKV_RUN_FILE_LIST(ROW) QKV_NUMBERED_FILE_LIST(ROW){0}};
#undef ROW

/* Files of lines of JSON: a line of each, and its fields in the order in which they are written. A test compares them
 * with the files of runs. */
struct file_field {
    const char *name, *help;
};
static const struct file_field log_fields[] = {
    {"step", "the number of the step, from 1"},
    {"loss", "the mean loss of the step's batch, in nats a token"},
    {"norm", "the norm of the gradient, before it is clipped"},
    {"rate", "the learning rate"},
    {"tokens", "the number of tokens trained on since the run began"},
    {"tokens_per_second", "the speed of this step"},
    {"flops_share", "the FLOPs of this step as a share of the machine's peak, from 0 to 1; 0 if the peak is not known"},
    {"seconds", "seconds since the run began, without the pauses before resumes"},
    {"expert_load", "with experts: the tokens of the busiest expert of a layer divided by the mean of the layer; the "
                    "largest of all layers"},
    {"experts_unused", "with experts: the number of experts, of all layers, that no token went through"},
    {"expert_loads",
     "with experts: the expert_load of each layer, encoder layers first; null for a layer without experts"},
    {"valid_loss", "after an evaluation: the loss on the validation data, in nats a token"},
    {"METRIC", "after an evaluation, for a run with another metric than loss: its value, under its name"},
    {0}};
static const struct file_field state_fields[] = {
    {"state", "running, done, failed or interrupted"},
    {"step", "the number of steps that are done"},
    {"saved", "the step of the checkpoint"},
    {"steps", "the number of all steps of the run"},
    {"seconds", "seconds since the run began, without the pauses before resumes"},
    {"pid", "the id of the process that trains"},
    {"host", "the name of its machine"},
    {"boot", "the id of that machine's latest start"},
    {"space", "the namespace of process ids that pid belongs to"},
    {"started", "when this process began, in UTC"},
    {"updated", "when the file was written, in UTC"},
    {"message", "why the run failed; else null"},
    {"qkv", "the version of qkv"},
    {0}};
static const struct file_field machine_fields[] = {
    {"step", "the step that training continued from; 0 at the beginning of the run"},
    {"time", "when, in UTC"},
    {"cpu", "the name of the processor"},
    {"cpus", "the number of processors that the process may use"},
    {"threads", "the number of threads that train"},
    {"isa", "the kernel table"},
    {"precision", "fp32 or bf16"},
    {"memory", "the memory of the machine in bytes"},
    {"system", "the operating system, its release and the architecture"},
    {"qkv", "the version of qkv"},
    {0}};
static const struct file_field sample_fields[] = {
    {"step", "the step after which the model wrote the text"}, {"text", "the text"}, {0}};
static const struct {
    const char *name, *example;
    const struct file_field *fields;
} line_files[] = {
    {QKV_LOG_FILE,
     "{\"step\":250,\"loss\":2.1872,\"norm\":0.4127,\"rate\":0.001,\"tokens\":192000,\"tokens_per_second\":21500.3,"
     "\"flops_share\":0.1873,\"seconds\":9.312,\"valid_loss\":2.2046}",
     log_fields},
    {QKV_STATE_FILE,
     "{\"state\":\"running\",\"step\":250,\"saved\":250,\"steps\":2000,\"seconds\":9.312,\"pid\":4711,\"host\":\"lab\","
     "\"boot\":\"5c0f…\",\"space\":\"pid:[4026531836]\",\"started\":\"2026-05-01T12:00:00Z\","
     "\"updated\":\"2026-05-01T12:00:12Z\",\"message\":null,\"qkv\":\"0.1.0\"}",
     state_fields},
    {QKV_MACHINE_FILE,
     "{\"step\":0,\"time\":\"2026-05-01T12:00:00Z\",\"cpu\":\"AMD EPYC "
     "7B13\",\"cpus\":8,\"threads\":8,\"isa\":\"avx2\","
     "\"precision\":\"fp32\",\"memory\":33435049984,\"system\":\"Linux 6.1.0 x86_64\",\"qkv\":\"0.1.0\"}",
     machine_fields},
    {QKV_SAMPLES_FILE, "{\"step\":250,\"text\":\"ROMEO: I have seen the day\"}", sample_fields},
};

/* The names of a row and of its neighbours with the same content, "2_Dense/config.json, …"; returns the next row. */
static const struct file_row *files_name(const struct file_row *row, const char *quote, char *text, size_t size) {
    const char *content = row->content;
    size_t used = 0;
    for (text[0] = 0; row->name && used < size && !strcmp(row->content, content); row++)
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", used ? ", " : "", quote, row->name, quote);
    return row;
}

/* A line of JSON, broken after commas into lines that a terminal of 80 columns shows. */
static void files_print_example(const char *json, const char *indent) {
    int at = printf("%s", indent);
    while (*json) {
        const size_t n = strcspn(json, ","), more = n + (json[n] == ',');
        if (at + (int)more > 79 && at > (int)strlen(indent)) at = printf("\n %s", indent) - 1;
        at += printf("%.*s", (int)more, json);
        json += more;
    }
    putchar('\n');
}

/* ---- plain text -------------------------------------------------------------------------------------------------- */

static void files_print_rows(const char *title, const struct file_row *rows) {
    char names[1024];
    printf("\n%s:\n", title);
    while (rows->name) {
        const struct file_row *row = rows;
        rows = files_name(row, "", names, sizeof names);
        printf("\n  ");
        cli_print_wrapped(names, 2, 2);
        printf("    ");
        cli_print_wrapped(row->content, 4, 4);
        printf("    written:");
        cli_print_wrapped(row->written, 12, 6);
        printf("    may be removed?");
        cli_print_wrapped(row->removal, 19, 6);
    }
}

static void files_print_lines(void) {
    for (size_t i = 0; i < CLI_COUNT_OF(line_files); i++) {
        printf("\n%s, a line:\n", line_files[i].name);
        files_print_example(line_files[i].example, "  ");
        for (const struct file_field *field = line_files[i].fields; field->name; field++) {
            const int at = printf("  %-18s ", field->name);
            cli_print_wrapped(field->help, at, 21);
        }
    }
}

/* ---- Markdown ---------------------------------------------------------------------------------------------------- */

static void files_markdown_rows(const char *title, const struct file_row *rows) {
    char names[1024], text[2048];
    printf("\n## %s\n", title);
    while (rows->name) {
        const struct file_row *row = rows;
        rows = files_name(row, "`", names, sizeof names);
        printf("\n- ");
        cli_markdown_wrapped(names, 2, "  ");
        snprintf(text, sizeof text, "%s", row->content);
        printf("\n  ");
        cli_markdown_wrapped(text, 2, "  ");
        printf("\n  ");
        snprintf(text, sizeof text, "Written: %c%s May it be removed? %s", row->written[0] | 32, row->written + 1,
                 row->removal);
        cli_markdown_wrapped(text, 2, "  ");
    }
}

static void files_markdown_lines(void) {
    for (size_t i = 0; i < CLI_COUNT_OF(line_files); i++) {
        printf("\n## The fields of `%s`\n\n```json\n", line_files[i].name);
        files_print_example(line_files[i].example, "");
        printf("```\n\n");
        for (const struct file_field *field = line_files[i].fields; field->name; field++) {
            const int at = printf("- `%s`: ", field->name);
            cli_markdown_wrapped(field->help, at, "  ");
        }
    }
}

int cli_help_files(bool markdown) {
    if (!markdown)
        printf("qkv help files: the files in the folder of a model and of a run\n\n"
               "A run is also a model: every command that takes a model takes the folder of a run.\n");
    (markdown ? files_markdown_rows : files_print_rows)(markdown ? "Files of a model" : "files of a model",
                                                        model_files);
    (markdown ? files_markdown_rows : files_print_rows)(markdown ? "More files of a run" : "more files of a run",
                                                        run_files);
    (markdown ? files_markdown_lines : files_print_lines)();
    return CLI_DONE;
}
