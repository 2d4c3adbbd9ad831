/* generate.c: loads a model folder and continues a text, writing it token by token.
 *     generate RUN [PROMPT [TOKENS]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkv.h>

static bool write_text(void *user, const char *text, size_t size) {
    (void)user;
    return fwrite(text, 1, size, stdout) == size && fflush(stdout) == 0; /* false stops the generation */
}

int main(int argc, char **argv) {
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    struct qkv_generate_report report;
    struct qkv_generate_options options = qkv_generate_defaults();
    const char *prompt = argc > 2 ? argv[2] : "";

    enum qkv_precision precision = QKV_FP32;
    if (argc < 2) {
        fprintf(stderr, "usage: %s RUN [PROMPT [TOKENS]]\n", argv[0]);
        return 2;
    }
    if (argc > 3) options.tokens = strtoul(argv[3], NULL, 10);
    options.sampling.temperature = 0.8;
    options.sampling.seed = 7;

    /* each call returns a status; the context has the message of a failure */
    enum qkv_status status = qkv_context_create(&ctx, NULL);
    if (!status) status = qkv_model_precision(ctx, argv[1], &precision);
    if (!status) qkv_context_set_precision(ctx, precision); /* the precision that the model was trained in */
    if (!status) status = qkv_model_load(ctx, argv[1], &model);
    if (!status) status = qkv_generate(model, prompt, strlen(prompt), &options, write_text, NULL, &report);
    if (status)
        fprintf(stderr, "%s: %s\n", argv[0], qkv_message(ctx));
    else
        printf("\n(%zu tokens, %.0f a second)\n", report.tokens, (double)report.tokens / report.seconds);
    qkv_model_free(model);
    qkv_context_free(ctx);
    return status ? 1 : 0;
}
