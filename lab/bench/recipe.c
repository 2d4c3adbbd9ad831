/* recipe: a whole training of nano-gpt with the recipe of karpathy/nanoGPT for a CPU: characters, batch 12, context
 * 64, 2,000 steps, no dropout, rate 1e-3. The run has a temporary folder in $TMPDIR or /tmp, which is removed at the
 * end. */
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/bench/bench_room.h"

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static enum qkv_status recipe_train(struct qkv_bench *b, struct qkv_bench_row *row, const char *folder) {
    struct qkv_train_options options;
    struct qkv_spec spec = {0};
    struct qkv_costs costs;
    struct qkv_trainer *trainer = NULL;
    struct qkv_train_report report = {0};
    enum qkv_status status = qkv_train_defaults(b->ctx, "nano-gpt", &options);
    options.data = b->options->text;
    options.precision = b->precision->name;
    options.batch = 12;
    options.steps = 2000;
    options.rate = 1e-3;
    options.dropout = 0;
    options.eval_every = options.eval_batches = options.save_every = 0;
    if (status == QKV_OK) status = qkv_spec_preset(b->ctx, &spec, "nano-gpt", NULL, 0);
    if (status == QKV_OK) status = qkv_trainer_create(b->ctx, &spec, &options, folder, NULL, NULL, &trainer);
    if (status == QKV_OK) {
        const struct qkv_spec *learnt = qkv_model_spec(qkv_trainer_model(trainer));
        status = qkv_measure_costs(b->ctx, learnt, 12, (size_t)learnt->context, &costs);
    }
    double start = qkv_clock();
    while (status == QKV_OK && report.step < options.steps) {
        /* the last step ends with an evaluation, which is not part of the time */
        if (report.step == options.steps - 1) row->seconds = row->fastest = qkv_clock() - start;
        status = qkv_bench_goes_on(b, row) ? qkv_trainer_step(trainer, &report) : QKV_STOPPED;
    }
    if (status == QKV_OK) {
        row->tokens = (double)(options.steps - 1) * 12 * spec.context;
        row->flops = costs.train_flops * row->tokens;
        row->loss = report.valid_loss;
        row->memory = costs.train_bytes;
        qkv_bench_rate(b, row);
    }
    qkv_trainer_free(trainer);
    qkv_spec_free(&spec);
    return status;
}

enum qkv_status qkv_bench_recipe(struct qkv_bench *b, struct qkv_bench_row *row) {
    const char *parent = getenv("TMPDIR");
    char root[512], folder[600];
    if (!b->options->text) {
        snprintf(row->left_out, sizeof row->left_out, "no text was given to train on");
        return QKV_OK;
    }
    snprintf(root, sizeof root, "%s/qkv-bench-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(root)) return qkv_fail(b->ctx, QKV_FILE, "cannot make a folder %s; name another one in TMPDIR", root);
    snprintf(folder, sizeof folder, "%s/run", root);
    enum qkv_status status = recipe_train(b, row, folder);
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return status;
}
