/* Chat templates and talks: a template, then a talk. Renderings end within small limits. */
#include "fuzz.h"

#include <jansson.h>

#include "base/json_load.h"
#include "chat/chat_nodes.h"

static void fuzz_render(const struct chat_program *program, const char *talk, size_t size) {
    static const struct chat_limits limits = {.steps = 50000, .memory = 8 << 20, .output = 1 << 20};
    struct qkv_context *ctx = fuzz_context();
    const struct qkv_json_text text = {.name = "talk", .data = talk, .size = size, .max_size = 1 << 16};
    struct chat_rendered out;
    json_t *root = NULL;
    if (qkv_json_load(ctx, &text, &root) || !json_is_object(root)) {
        qkv_forgive(ctx);
        json_decref(root);
        root = json_pack("{s:[{s:s, s:s}, {s:s, s:n}], s:i, s:[i, f, b]}", "messages", "role", "user", "content",
                         "Gr\xC3\xBC\xC3\x9F"
                         "e",
                         "role", "assistant", "content", "n", 7, "l", 1, 2.5, 1);
    }
    if (fuzz_ok(qkv_chat_render(ctx, program, &(const json_t *){root}, 1, &limits, 1, &out))) {
        for (size_t i = 0; i < out.span_count; i++)
            FUZZ_CHECK(out.spans[i].begin <= out.spans[i].end && out.spans[i].end <= out.size);
        FUZZ_CHECK(!out.text[out.size]);
        free(out.text);
        free(out.spans);
    }
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    struct chat_program *program;
    struct fuzz_part parts[2];
    fuzz_parts(data, size, parts, 2);
    qkv_forgive(ctx);
    if (fuzz_ok(
            qkv_chat_parse(ctx, "template", parts[0].data ? (const char *)parts[0].data : "", parts[0].size, &program)))
        fuzz_render(program, parts[1].data ? (const char *)parts[1].data : "", parts[1].size);
    qkv_chat_program_free(program);
    return 0;
}
