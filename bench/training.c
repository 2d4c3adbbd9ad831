/* Training: steps of some presets on random tokens as a share of the peak, and the nano-gpt recipe on real text to its end.
 *
 * The recipe is karpathy/nanoGPT's for a CPU: batch 12, context 64, 2,000 steps, no dropout, rate 1e-3, characters. Its text
 * is the file that $QKV_BENCH_TEXT names (make bench asks scripts/get-data). */
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

struct steps {
    struct qkv_model *model;
    struct qkv_pass *pass;
    struct qkv_optimizer *optimizer;
    struct qkv_batch batch;
    int32_t *ids;
};

static void one_step(void *argument) {
    struct steps *s = argument;
    qkv_model_clear_gradients(s->model);
    qkv_pass_forward(s->pass, &s->batch);
    qkv_pass_backward(s->pass);
    qkv_optimizer_step(s->optimizer, 1e-6, 1);
}

static enum qkv_status make_steps(struct qkv_context *ctx, const struct qkv_spec *spec, size_t B, size_t T,
                                  struct steps *s) {
    struct qkv_pass_options pass = {.B = B, .T = T, .train = true, .dropout = true};
    struct qkv_optimizer_options adamw = {
        .kind = QKV_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    enum qkv_status status = qkv_model_create(ctx, spec, 1, &s->model);
    if (status == QKV_OK) {
        status = qkv_pass_create(s->model, &pass, &s->pass);
    }
    if (status == QKV_OK) {
        status = qkv_optimizer_create(s->model, &adamw, &s->optimizer);
    }
    s->ids = calloc(B * T + 1, sizeof *s->ids);
    struct qkv_random random = qkv_random_start(1, 0);
    for (size_t i = 0; s->ids && i <= B * T; i++) {
        s->ids[i] = (int32_t)qkv_random_below(&random, (uint64_t)spec->vocab);
    }
    s->batch = (struct qkv_batch){.B = B, .T = T, .ids = s->ids, .targets = s->ids + 1};
    return s->ids ? status : QKV_MEMORY;
}

static void step_row(struct bench *b, const char *preset, int vocab, size_t B, size_t T) {
    struct steps s = {0};
    struct qkv_spec spec;
    struct qkv_costs costs;
    char label[64];
    enum qkv_status status = qkv_spec_preset(b->ctx, &spec, preset, NULL, 0);
    if (vocab) {
        spec.vocab = vocab;
    }
    if (status == QKV_OK) {
        status = qkv_measure_costs(b->ctx, &spec, B, T, &costs);
    }
    if (status == QKV_OK) {
        status = make_steps(b->ctx, &spec, B, T, &s);
    }
    snprintf(label, sizeof label, "%s step, %zu x %zu", preset, B, T);
    if (status == QKV_OK) {
        struct bench_contestant us = {"qkv", one_step, &s};
        double seconds = bench_row(b, label, costs.train_flops * (double)(B * T), &us, 1);
        printf("  %-34s  %.0f tokens/s\n", "", (double)(B * T) / seconds);
    } else {
        printf("  %-34s  %s\n", label, qkv_message(b->ctx));
    }
    qkv_optimizer_free(s.optimizer);
    qkv_pass_free(s.pass);
    qkv_model_free(s.model);
    free(s.ids);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

/* Trains to the end of the recipe; prints losses and the time. */
static enum qkv_status run_recipe(struct bench *b, const char *text, const char *folder) {
    struct qkv_train_options options;
    struct qkv_spec spec;
    struct qkv_trainer *trainer = NULL;
    struct qkv_train_report report = {0};
    enum qkv_status status = qkv_train_defaults(b->ctx, "nano-gpt", &options);
    options.data = text;
    options.batch = 12;
    options.steps = 2000;
    options.rate = 1e-3;
    options.dropout = 0;
    options.eval_every = 0;
    options.eval_batches = 0;
    options.save_every = 0;
    if (status == QKV_OK) {
        status = qkv_spec_preset(b->ctx, &spec, "nano-gpt", NULL, 0);
    }
    if (status == QKV_OK) {
        status = qkv_trainer_create(b->ctx, &spec, &options, folder, NULL, NULL, &trainer);
    }
    double start = bench_now(), training = 0;
    while (status == QKV_OK && report.step < options.steps) {
        if (report.step == options.steps - 1) {
            training = bench_now() - start;
        }
        status = qkv_trainer_step(trainer, &report);
    }
    if (status == QKV_OK) {
        double tokens = (double)(options.steps - 1) * 12 * 64;
        printf("  %-34s  validation loss %.4f, %.1f s of training, %.0f tokens/s\n", "nano-gpt recipe, 2000 steps",
               report.valid_loss, training, tokens / training);
        if (b->json) {
            fprintf(b->json,
                    "%s\n  {\"group\": \"training\", \"label\": \"nano-gpt recipe\", \"valid_loss\": %.9g, "
                    "\"seconds\": %.9g}",
                    b->json_started ? "," : "", report.valid_loss, training);
            b->json_started = true;
        }
    }
    qkv_trainer_free(trainer);
    return status;
}

static void recipe_row(struct bench *b) {
    const char *text = getenv("QKV_BENCH_TEXT"), *parent = getenv("TMPDIR");
    char root[512], folder[600];
    if (!text) {
        printf("  %-34s  left out: QKV_BENCH_TEXT names no text\n", "nano-gpt recipe, 2000 steps");
        return;
    }
    snprintf(root, sizeof root, "%s/qkv-bench-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(root)) {
        perror(root);
        return;
    }
    snprintf(folder, sizeof folder, "%s/run", root);
    if (run_recipe(b, text, folder) != QKV_OK) {
        printf("  %-34s  %s\n", "nano-gpt recipe, 2000 steps", qkv_message(b->ctx));
    }
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void bench_training(struct bench *b) {
    step_row(b, "nano-gpt", 321, 12, 64);
    step_row(b, "baby-gpt", 321, 16, 256);
    step_row(b, "gpt2-small", 0, 4, 64);
    recipe_row(b);
}
