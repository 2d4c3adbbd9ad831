/* The folder of a run as reports read it: state.json, log.jsonl, train.json, samples.jsonl, machine.jsonl,
 * config.json. */
#include "fuzz.h"

#include "lab/lab.h"
#include "qkv.h"
#include "train/train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"state.json",    "log.jsonl",     "train.json",
                                        "samples.jsonl", "machine.jsonl", "config.json"};
    enum { FILES = sizeof names / sizeof *names };
    struct qkv_context *ctx = fuzz_context();
    struct fuzz_part parts[FILES];
    struct qkv_run *run;
    struct qkv_run_condition condition;
    struct qkv_train_options options;
    struct qkv_run_facts facts;
    enum qkv_precision precision;
    char *texts = NULL;
    bool documents;
    fuzz_parts(data, size, parts, FILES);
    for (size_t i = 0; i < FILES; i++) fuzz_file(names[i], parts[i]);
    fuzz_ok(qkv_run_condition_read(ctx, fuzz_folder(), &condition));
    if (fuzz_ok(qkv_run_read(ctx, fuzz_folder(), &run))) qkv_run_free(run);
    fuzz_ok(qkv_model_precision(ctx, fuzz_folder(), &precision));
    fuzz_ok(qkv_model_documents(ctx, fuzz_folder(), &documents));
    if (!fuzz_ok(qkv_train_defaults(ctx, NULL, &options))) abort();
    if (fuzz_ok(qkv_train_read_options(ctx, fuzz_path("train.json"), &options, &texts))) qkv_free(texts);
    qkv_forgive(ctx);
    if (fuzz_ok(qkv_train_json_read(ctx, fuzz_folder(), &options, &facts))) {
        qkv_train_release(&options);
        qkv_text_files_free(&facts.texts.data_files);
        qkv_text_files_free(&facts.texts.valid_files);
        qkv_seams_free(&facts.seams);
    }
    qkv_forgive(ctx);
    return 0;
}
