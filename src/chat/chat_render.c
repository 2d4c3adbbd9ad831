/* A rendering: its variables, its limits, its text. */
#include "chat/chat_nodes.h"

#include <stdlib.h>
#include <string.h>

const struct chat_limits qkv_chat_limits = {
    .steps = QKV_CHAT_STEPS, .memory = QKV_CHAT_MEMORY, .output = QKV_CHAT_OUTPUT};

static const struct chat_calls calls = {
    .filter = qkv_chat_filter,
    .test = qkv_chat_test,
    .macro = qkv_chat_call_macro,
    .again = qkv_chat_call_loop,
    .item = qkv_chat_item,
};

/* The value of a variable by its name; NULL: no object has it. Objects that come later win. */
static const json_t *render_variable(const json_t *const *variables, size_t count, struct chat_value name) {
    for (size_t i = count; i-- > 0;) {
        const json_t *value = json_object_get(variables[i], name.text);
        if (value) return value;
    }
    return NULL;
}

static enum qkv_status render_names(struct chat_run *run, const json_t *const *variables, size_t count) {
    const struct chat_program *program = run->program;
    enum qkv_status status = QKV_OK;
    run->names = qkv_chat_take(&run->pool, program->name_count, sizeof *run->names);
    if (!run->names) return QKV_MEMORY;
    for (size_t i = 0; i < program->name_count && !status; i++) {
        const struct chat_value name = program->names[i];
        const json_t *value = render_variable(variables, count, name);
        const struct chat_row *row = value ? NULL : qkv_chat_global(name.text, name.size);
        if (value) status = qkv_chat_from_json(run, value, &run->names[i]);
        if (row) run->names[i] = (struct chat_value){.kind = CHAT_FUNCTION, .row = row};
    }
    return status;
}

enum qkv_status qkv_chat_render(struct qkv_context *ctx, const struct chat_program *program,
                                const json_t *const *variables, size_t count, const struct chat_limits *limits,
                                int64_t now, struct chat_rendered *out) {
    struct chat_run run = {.ctx = ctx, .program = program, .calls = &calls, .limits = *limits, .line = 1, .now = now};
    run.pool = (struct chat_pool){.ctx = ctx, .limit = limits->memory, .what = program->name};
    *out = (struct chat_rendered){0};
    enum qkv_status status = render_names(&run, variables, count);
    if (!status) status = qkv_chat_execute(&run, program->body);
    if (!status && !run.text.data) status = qkv_buffer_append(ctx, &run.text, "", 0);
    qkv_chat_pool_free(&run.pool);
    if (status) {
        qkv_buffer_free(&run.text);
        free(run.spans);
        return status;
    }
    *out = (struct chat_rendered){run.text.data, run.text.size, run.spans, run.span_count};
    out->text[out->size] = 0;
    return QKV_OK;
}
