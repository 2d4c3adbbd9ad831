/* attention: attention on your own buffers, without a model.
 *
 * Two documents are packed into one sequence. Queries, keys and values, 4 query heads on 2 key-value heads, are in
 * one packed array, as a fused projection leaves them. The program runs causal attention, reads the weights of one
 * head, takes the gradient of ½·|y|² and checks it along a random direction. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QKV_EXPERIMENTAL /* attention, modules, ranks and costs may still change */
#include <qkv.h>

enum { T = 8, H = 4, HKV = 2, D = 16, WIDTH = (H + 2 * HKV) * D };

/* ½·|y|² of one forward pass. */
static double half_square(struct qkv_context *ctx, const struct qkv_attention_call *call) {
    const float *y = call->y.data;
    double sum = 0;
    if (qkv_attention_forward(ctx, call)) {
        fprintf(stderr, "%s\n", qkv_message(ctx));
        exit(1);
    }
    for (size_t e = 0; e < (size_t)T * H * D; e++) sum += 0.5 * (double)y[e] * (double)y[e];
    return sum;
}

int main(void) {
    static float packed[T * WIDTH], gradient[T * WIDTH], along[T * WIDTH], y[T * H * D], lse[H * T], row[T];
    int32_t documents[T];
    struct qkv_context *ctx;
    if (qkv_context_create(&ctx, NULL)) {
        fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
        return 1;
    }
    srand(1);
    for (size_t e = 0; e < (size_t)T * WIDTH; e++) {
        packed[e] = (float)rand() / (float)RAND_MAX - 0.5f;
        along[e] = (float)rand() / (float)RAND_MAX - 0.5f;
    }

    /* the packed rows are (q heads, k heads, v heads): views of some of the heads */
    struct qkv_view all = qkv_view_bthd(packed, QKV_F32, 1, T, H + 2 * HKV, D);
    struct qkv_view grads = qkv_view_bthd(gradient, QKV_F32, 1, T, H + 2 * HKV, D);
    struct qkv_attention_call call = qkv_attention_call_defaults();
    call.q = qkv_view_heads(all, 0, H), call.k = qkv_view_heads(all, H, HKV);
    call.v = qkv_view_heads(all, H + HKV, HKV), call.y = qkv_view_bthd(y, QKV_F32, 1, T, H, D);
    call.lse = lse;
    call.mask.causal = true, call.mask.key_documents = documents;
    struct qkv_attention_gradients g = qkv_attention_gradients_defaults();
    g.dy = call.y; /* the gradient of ½·|y|² by y is y */
    g.dq = qkv_view_heads(grads, 0, H), g.dk = qkv_view_heads(grads, H, HKV);
    g.dv = qkv_view_heads(grads, H + HKV, HKV);
    if (qkv_mask_documents(ctx, (const size_t[]){5, 3}, 2, T, documents) || half_square(ctx, &call) < 0 ||
        qkv_attention_backward(ctx, &call, &g)) {
        fprintf(stderr, "%s\n", qkv_message(ctx));
        return 1;
    }

    printf("weights of head 0, a line for each query:\n");
    for (size_t i = 0; i < T; i++) {
        if (qkv_attention_weights(ctx, &call, QKV_ATTENTION_WEIGHTS, 0, 0, i, 1, row)) return 1;
        for (size_t j = 0; j < T; j++) printf(" %.3f", (double)row[j]);
        printf("\n");
    }

    /* the gradient times a direction is the slope of the result along it */
    double expected = 0, step = 1e-2, change;
    for (size_t e = 0; e < (size_t)T * WIDTH; e++) expected += (double)gradient[e] * (double)along[e];
    for (size_t e = 0; e < (size_t)T * WIDTH; e++) packed[e] += (float)step * along[e];
    change = half_square(ctx, &call);
    for (size_t e = 0; e < (size_t)T * WIDTH; e++) packed[e] -= 2 * (float)step * along[e];
    change = (change - half_square(ctx, &call)) / (2 * step);
    printf("slope along a random direction: %.4f by the gradient, %.4f measured\n", expected, change);
    qkv_context_free(ctx);
    return fabs(expected - change) > 1e-2 * fabs(change);
}
