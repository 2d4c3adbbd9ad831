/* fresh.c: untrained models, of a preset or a spec, with the weights that training begins with and a tokenizer:
 * commands that look into a model or run one do not need a run. The tokenizer comes from a file, else it has one
 * token a byte and the special tokens that the model needs, if the vocabulary has room for them. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Returns the kind if `tokenizer` names one that learns from a text; a fresh model has no text. */
static const char *fresh_kind(const char *tokenizer) {
    static const char *const kinds[] = {
#define KIND(name, text, help) text,
        QKV_TOKENIZER_LIST(KIND)
#undef KIND
    };
    for (size_t i = 0; tokenizer && i < CLI_COUNT_OF(kinds); i++) {
        size_t n = strlen(kinds[i]);
        if (!strncmp(tokenizer, kinds[i], n) && (!tokenizer[n] || tokenizer[n] == ':')) return kinds[i];
    }
    return NULL;
}

int cli_fresh_check(const struct cli_fresh *fresh, const char *command, size_t folders) {
    const char *both = fresh->preset ? "--preset" : "--spec";
    if (fresh->preset && fresh->spec)
        return cli_usage("%s: --preset and --spec exclude each other; name one model", command);
    if (folders && (fresh->preset || fresh->spec))
        return cli_usage("%s: a model folder and %s exclude each other; name one model", command, both);
    if (fresh_kind(fresh->tokenizer))
        return cli_usage("%s: --tokenizer is \"%s\", but a fresh model has no text to learn one from; name a "
                         "tokenizer.json (without it: a token for each byte)",
                         command, fresh->tokenizer);
    return CLI_DONE;
}

bool cli_fresh_given(const struct cli_fresh *fresh) {
    return fresh->preset || fresh->spec;
}

const char *cli_fresh_name(const struct cli_fresh *fresh) {
    return fresh->preset ? fresh->preset : fresh->spec;
}

int cli_spec_read(struct qkv_context *ctx, const char *preset, const char *path, const struct cli_texts *set,
                  struct qkv_spec *spec) {
    if (preset) return qkv_spec_preset(ctx, spec, preset, set->items, set->count) ? cli_misused(ctx) : CLI_DONE;
    if (qkv_spec_check_settings(ctx, set->items, set->count)) return cli_misused(ctx);
    return qkv_spec_read(ctx, spec, path, set->items, set->count) ? cli_broken(ctx) : CLI_DONE;
}

bool cli_has_classes(const struct qkv_spec *spec) {
    return spec->head.kind == QKV_HEAD_CLASSIFY || spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS;
}

/* Lists the special tokens that training would give this model's tokenizer. */
static size_t fresh_specials(const struct qkv_spec *spec, const char *specials[2]) {
    const bool pair = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    specials[0] = QKV_TOKEN_BEGIN;
    specials[1] = QKV_TOKEN_END;
    if (pair || cli_has_classes(spec)) return 2;
    specials[0] = QKV_TOKEN_MASK;
    return spec->head.kind == QKV_HEAD_LM && spec->encoder.layers > 0;
}

/* Reads the tokenizer of a file, or makes one with a token a byte. *tokenizer is NULL if the model reads no tokens,
 * or if its vocabulary has no room for all bytes, as that of a model that reads ids. */
static int fresh_tokenizer(struct qkv_context *ctx, const struct cli_fresh *fresh, const struct qkv_spec *spec,
                           struct qkv_tokenizer **tokenizer) {
    const char *specials[2];
    struct qkv_tokenizer_options options = qkv_tokenizer_defaults();
    options.kind = QKV_TOKENIZER_BYTES;
    options.specials = specials;
    options.special_count = fresh_specials(spec, specials);
    *tokenizer = NULL;
    if (!qkv_spec_has_tokens(spec) && fresh->tokenizer)
        return cli_usage("--tokenizer has no effect: the model reads no tokens; leave it out");
    if (!qkv_spec_has_tokens(spec)) return CLI_DONE;
    if (fresh->tokenizer) return qkv_tokenizer_load(ctx, fresh->tokenizer, tokenizer) ? cli_broken(ctx) : CLI_DONE;
    const int min = 256 + (int)options.special_count;
    if ((spec->vocab && spec->vocab < min) || (spec->source_vocab && spec->source_vocab < min)) return CLI_DONE;
    return qkv_tokenizer_train(ctx, &options, "", 0, tokenizer) ? cli_broken(ctx) : CLI_DONE;
}

/* Fills in what a spec leaves to tokenizers and labels. */
static void fresh_settle(struct qkv_spec *spec, const struct qkv_tokenizer *tokenizer) {
    if (!spec->vocab && qkv_spec_has_tokens(spec))
        spec->vocab = tokenizer ? qkv_tokenizer_vocab(tokenizer) : spec->source_vocab;
    if (!spec->source_vocab) spec->source_vocab = spec->vocab;
    if (cli_has_classes(spec) && !spec->head.classes) spec->head.classes = CLI_CLASSES_GUESSED;
}

int cli_fresh_create(const struct cli_fresh *fresh, struct qkv_context *ctx, struct qkv_model **model) {
    struct qkv_spec spec = {0};
    struct qkv_tokenizer *tokenizer = NULL;
    int code = cli_spec_read(ctx, fresh->preset, fresh->spec, &fresh->set, &spec);
    if (!code) code = fresh_tokenizer(ctx, fresh, &spec, &tokenizer);
    if (!code) fresh_settle(&spec, tokenizer);
    if (!code && qkv_model_create(ctx, &spec, (uint64_t)fresh->seed, model)) {
        qkv_tokenizer_free(tokenizer);
        code = cli_broken(ctx);
    }
    qkv_spec_free(&spec);
    if (code) return code;
    return tokenizer && qkv_model_set_tokenizer(*model, tokenizer) ? cli_broken(ctx) : CLI_DONE;
}

int cli_fresh_load(const struct cli_common *common, const struct cli_fresh *fresh, struct qkv_context *ctx,
                   const char *folder, struct qkv_model **model) {
    if (folder) return cli_load(common, ctx, folder, model);
    int code = cli_set_precision(common, ctx, NULL);
    if (!code) code = cli_fresh_create(fresh, ctx, model);
    if (!code && qkv_context_precision(ctx) != QKV_FP32) cli_say_emulated(ctx, NULL);
    return code;
}
