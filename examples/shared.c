/* shared.c: one model, several threads: each has a context and a share of the model, and continues the prompt with a
 * seed of its own. Weights, their packed forms and the tokenizer are in memory once. A text does not depend on the
 * others. Prints the texts and all threads' tokens a second.
 *     shared MODEL PROMPT [THREADS [TOKENS [THREADS_OF_EACH]]] */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "qkv.h"

struct user {
    pthread_t thread;
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_generate_options options;
    const char *prompt;
    enum qkv_status status;
    size_t made, size;
    char text[1 << 16];
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool keep(void *user, const char *text, size_t size) {
    struct user *u = user;
    if (size > sizeof u->text - u->size) return false;
    memcpy(u->text + u->size, text, size);
    u->size += size;
    return true;
}

static void *run(void *user) {
    struct user *u = user;
    struct qkv_generate_report report = {0};
    u->status = qkv_generate(u->model, u->prompt, strlen(u->prompt), &u->options, keep, u, &report);
    u->made = report.tokens;
    return NULL;
}

/* Gives a thread its context and its share of the model. */
static enum qkv_status begin(struct user *u, struct qkv_model *model, const struct qkv_context_options *options) {
    enum qkv_status status = qkv_context_create(&u->ctx, options);
    if (!status) status = qkv_model_share(model, u->ctx, &u->model);
    if (status) fprintf(stderr, "%s\n", qkv_message(u->ctx));
    return status;
}

int main(int argc, char **argv) {
    const int count = argc > 3 ? atoi(argv[3]) : 4, tokens = argc > 4 ? atoi(argv[4]) : 40;
    struct qkv_context *ctx = NULL;
    struct qkv_model *model = NULL;
    struct qkv_context_options options = qkv_context_defaults();
    size_t made = 0;
    int started = 0;
    if (argc < 3 || count < 1 || count > 64 || tokens < 1) {
        fprintf(stderr, "usage: shared MODEL PROMPT [THREADS [TOKENS [THREADS_OF_EACH]]]\n");
        return 2;
    }
    options.threads = argc > 5 ? atoi(argv[5]) : 1;
    struct user *users = calloc((size_t)count, sizeof *users);
    if (!users) return 1;
    enum qkv_status status = qkv_context_create(&ctx, &options);
    if (!status) status = qkv_model_load(ctx, argv[1], &model);
    if (status) fprintf(stderr, "%s\n", qkv_message(ctx));
    for (int i = 0; i < count && !status; i++) {
        users[i].prompt = argv[2];
        users[i].options = qkv_generate_defaults();
        users[i].options.tokens = (size_t)tokens;
        users[i].options.sampling.seed = (uint64_t)i;
        status = begin(&users[i], model, &options);
    }
    const double began = now();
    while (!status && started < count && !pthread_create(&users[started].thread, NULL, run, &users[started])) started++;
    for (int i = 0; i < started; i++) pthread_join(users[i].thread, NULL);
    const double seconds = now() - began;
    for (int i = 0; i < count; i++) {
        if (users[i].status) fprintf(stderr, "%s\n", qkv_message(users[i].ctx));
        if (users[i].status) status = users[i].status;
        if (i < started) printf("%d: %.*s\n", i, (int)users[i].size, users[i].text);
        made += users[i].made;
        qkv_model_free(users[i].model);
        qkv_context_free(users[i].ctx);
    }
    if (!status) printf("%.0f tokens/s\n", (double)made / seconds);
    qkv_model_free(model);
    qkv_context_free(ctx);
    free(users);
    return status || started < count ? 1 : 0;
}
