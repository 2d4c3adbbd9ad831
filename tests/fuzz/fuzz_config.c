/* config.json of a published model, with a generation_config.json: a config that can be read is written, and read
 * again. */
#include "fuzz.h"

#include "io/generation.h"
#include "io/published_files.h"

static void config_write(const char *type, const struct qkv_spec *spec) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_family_config config = {0};
    if (fuzz_ok(qkv_family_write(ctx, type, NULL, spec, &config))) {
        char *text = qkv_family_text(ctx, &config, "float32");
        FUZZ_CHECK(text);
        free(text);
    }
    qkv_forgive(ctx);
    qkv_family_config_free(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_context *ctx = fuzz_context();
    struct qkv_published *published;
    struct qkv_spec spec = {0};
    struct qkv_model_generation generation;
    struct fuzz_part parts[2];
    fuzz_parts(data, size, parts, 2);
    fuzz_file("config.json", parts[0]);
    fuzz_file("generation_config.json", parts[1]);
    qkv_forgive(ctx);
    if (!fuzz_ok(qkv_published_open(ctx, fuzz_folder(), false, &published, &spec)) || !published) return 0;
    fuzz_ok(qkv_published_generation(published, &spec, &generation));
    qkv_forgive(ctx);
    char **labels = qkv_published_labels(published, &spec);
    for (int i = 0; labels && i < spec.head.classes; i++) free(labels[i]);
    free(labels);
    config_write(published->config.family->type, &spec);
    qkv_published_close(published);
    qkv_spec_free(&spec);
    return 0;
}
