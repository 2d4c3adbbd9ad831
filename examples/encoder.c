/* encoder: an encoder block on the vectors of a padded batch, without a model around it; block.cpp is the same in C++,
 * modules.c trains one.
 *     encoder */
#include <math.h>
#include <stdio.h>
#include <string.h>

#define QKV_EXPERIMENTAL /* attention, modules, ranks and costs may still change */
#include <qkv.h>

enum { B = 2, T = 5, C = 32 };

int main(void) {
    static const char text[] =
        "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 8, \"context\": 16, \"d_model\": 32, \"decoder\": null,"
        " \"encoder\": {\"layers\": 1, \"attention\": {\"heads\": 4, \"causal\": false}, \"ffn\": {\"d_ff\": 64}}}";
    static const int32_t lengths[B] = {5, 3}; /* positions 3 and 4 of the second sequence are padding */
    struct qkv_spec spec = {0};
    static float x[B * T * C], y[B * T * C];
    struct qkv_context *ctx = NULL;
    struct qkv_module *block = NULL;
    struct qkv_module_options options = qkv_module_defaults();
    struct qkv_module_input in = qkv_module_input_defaults();
    options.kind = QKV_MODULE_ENCODER_BLOCK, options.seed = 7;
    for (int i = 0; i < B * T * C; i++) x[i] = sinf((float)i);
    in.x = (struct qkv_vectors){x, B, T, C}, in.self.mask.lengths = lengths;

    enum qkv_status status = qkv_context_create(&ctx, NULL);
    if (!status) status = qkv_spec_parse(ctx, &spec, "the example", text, strlen(text), NULL, 0);
    if (!status) status = qkv_module_create(ctx, &spec, &options, &block);
    if (!status) status = qkv_module_forward(block, &in, (struct qkv_vectors){y, B, T, C});
    if (status) fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
    for (int b = 0; b < B && !status; b++)
        for (int t = 0; t < lengths[b]; t++) {
            double square = 0;
            for (int c = 0; c < C; c++) square += pow((double)y[(b * T + t) * C + c], 2);
            printf("sequence %d, position %d: |y| = %.4f\n", b, t, sqrt(square));
        }
    qkv_module_free(block);
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return status ? 1 : 0;
}
