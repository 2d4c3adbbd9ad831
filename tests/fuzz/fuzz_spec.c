/* A config.json of ours: a spec that can be read is printed, and the text is read as the same spec. */
#include "fuzz.h"

#include "qkv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_spec spec = {0}, again = {0};
    char *text, *same;
    if (!fuzz_ok(qkv_spec_parse(ctx, &spec, "config.json", (const char *)data, size, NULL, 0))) return 0;
    if (!fuzz_ok(qkv_spec_print(ctx, &spec, &text))) abort();
    if (!fuzz_ok(qkv_spec_parse(ctx, &again, "config.json", text, strlen(text), NULL, 0))) {
        fprintf(stderr, "%s\n%s\n", qkv_message(ctx), text);
        abort();
    }
    FUZZ_CHECK(!qkv_spec_print(ctx, &again, &same) && !strcmp(text, same));
    qkv_free(text);
    qkv_free(same);
    qkv_spec_free(&spec);
    qkv_spec_free(&again);
    return 0;
}
