/* labels.txt of a model with three classes. */
#include "fuzz.h"

#include "io/labels.h"
#include "qkv.h"

static struct qkv_model *labels_model(void) {
    static const char json[] =
        "{\"format\":\"qkv\",\"version\":1,\"vocab\":4,\"d_model\":4,\"context\":4,\"position\":{\"kind\":\"rope\"},"
        "\"head\":{\"kind\":\"classify\",\"classes\":3},\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2},"
        "\"ffn\":{\"d_ff\":4}}}";
    static struct qkv_model *model;
    struct qkv_spec spec;
    if (model) return model;
    if (qkv_spec_parse(fuzz_context(), &spec, "config.json", json, sizeof json - 1, NULL, 0) ||
        qkv_model_create(fuzz_context(), &spec, 1, &model)) {
        fprintf(stderr, "%s\n", qkv_message(fuzz_context()));
        abort();
    }
    qkv_spec_free(&spec);
    return model;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qkv_model *model = labels_model();
    qkv_forgive(fuzz_context());
    if (fuzz_ok(qkv_labels_read(model, fuzz_file("labels.txt", (struct fuzz_part){(const char *)data, size}))))
        for (size_t i = 0; i < 3; i++) FUZZ_CHECK(strlen(qkv_model_label(model, i)) <= size);
    return 0;
}
