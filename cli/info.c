/* info.c: "qkv info" prints the parts of a model with their shapes, and what it costs to train and to run. It needs
 * names and shapes alone, so it works on models of any size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli_ranks.h"

struct arguments {
    const char *preset, *spec;
    struct cli_texts set;
    int64_t batch, context, prefix, continuations, ranks, groups;
    double network;
    const char *lora;
    bool json;
    struct cli_common common;
};

static const struct arguments defaults = {.groups = 8, .network = 10};

static const struct cli_option options[] = {
    {CLI_TEXT, 0, "preset", "NAME", offsetof(struct arguments, preset), .choice = cli_choose_preset,
     .help = "named model", .subject = "model"},
    {CLI_READ, 0, "spec", "FILE", offsetof(struct arguments, spec), .help = "model described as JSON (config.json)",
     .subject = "model"},
    {CLI_TEXTS, 0, "set", "KEY=VALUE", offsetof(struct arguments, set),
     .help = "setting of the model: decoder.attention.kv_heads=2", .subject = "model"},
    {CLI_COUNT, 0, "batch", "N", offsetof(struct arguments, batch),
     .help = "sequences in a step, for the memory to train", .low = 1, .high = 1 << 20,
     .before = "1; with --ranks, the batch of training", .subject = "costs"},
    {CLI_COUNT, 0, "context", "N", offsetof(struct arguments, context),
     .help = "positions of a sequence, for the costs", .high = 1 << 24, .before = "the model's", .subject = "costs"},
    {CLI_COUNT, 0, "continuations", "N", offsetof(struct arguments, continuations),
     .help = "number of sequences that continue one prefix, for the pages of the cache", .high = 1 << 20,
     .before = "none", .subject = "costs"},
    {CLI_COUNT, 0, "prefix", "N", offsetof(struct arguments, prefix),
     .help = "with --continuations: positions of the prefix, which is stored once", .high = 1 << 24,
     .subject = "costs"},
    {CLI_COUNT, 0, "ranks", "N", offsetof(struct arguments, ranks),
     .help = "number of ranks that train the model together (mpirun), for their memory and traffic",
     .high = QKV_RANKS_MOST, .before = "none", .subject = "ranks"},
    {CLI_COUNT, 0, "groups", "N", offsetof(struct arguments, groups),
     .help = "with --ranks: groups of rows in a batch, which the ranks share (--groups of train)", .low = 1, .high = 64,
     .subject = "ranks"},
    {CLI_ABOVE, 0, "network", "GBIT", offsetof(struct arguments, network),
     .help = "with --ranks: gigabits a second that a rank sends and receives, for the time of a step", .high = 1000000,
     .subject = "ranks"},
    {CLI_TEXT, 0, "lora", "SETTINGS", offsetof(struct arguments, lora),
     .help = "adapter of these settings (--lora of train), for the memory to train it", .before = "none",
     .subject = "costs"},
    CLI_COMMON(struct arguments),
    CLI_PRECISION(struct arguments),
    CLI_CACHE(struct arguments),
    CLI_ADAPTER(struct arguments),
    {CLI_FLAG, 0, "json", NULL, offsetof(struct arguments, json), .help = "print the results as JSON",
     .subject = "output"},
};

CLI_CONDITION(has_one_rank, struct arguments, !a->ranks)

CLI_CONDITION(has_ranks, struct arguments, a->ranks)
CLI_CONDITION(has_adapter, struct arguments, a->common.adapter)
CLI_CONDITION(has_no_continuations, struct arguments, !a->continuations)
CLI_CONDITION(has_no_prefix, struct arguments, !a->prefix)

static const struct cli_rule rules[] = {
    {"groups network", has_one_rank, "it is for --ranks; add that"},
    {"lora adapter", has_ranks, "plans of ranks (--ranks) have no adapters; leave one of them out"},
    {"lora", has_adapter, "the model gets the adapter that --adapter names; leave one of them out"},
    {"prefix", has_no_continuations, "it is for --continuations; add that"},
    {"continuations", has_no_prefix, "it needs --prefix N, the positions that the continuations share"}};

/* ---- text and JSON ----------------------------------------------------------------------------------------------- */

struct subject {
    const char *name;   /* the model as the user typed it */
    const char *preset; /* NULL: none */
    struct qkv_spec spec;
    struct qkv_model *plan;
    struct qkv_costs costs;
    struct qkv_use_costs uses;
    int tokens;            /* of the tokenizer */
    const char *tokenizer; /* where it comes from; NULL: there is none */
    size_t own;            /* bytes of a process with the tokenizer and without weights; the costs are added to it */
    size_t batch, context, prefix, continuations;
    const char *precision;
    int threads;
    char types[64];                /* of the weights, as types_text has them */
    char threads_why[160];         /* why this many */
    bool guessed, classes_guessed; /* the vocabulary; the number of classes */
    struct qkv_run_condition run;  /* of a folder; unknown if it is no run */
    struct cli_info_ranks ranks;   /* ranks 0: --ranks is not given */
};

static void print_row(const char *label, const char *value, const char *remark) {
    printf("  %-22s %14s  %s\n", label, value, remark);
}

static const char *type_name(const struct qkv_array *array) {
    return array->dtype == QKV_F32 ? "fp32" : qkv_type_name(array->dtype);
}

/* "in fp32", "in bf16, vectors in fp32", "in bf16 and fp32". */
static void types_text(const struct qkv_model *plan, char *text, size_t size) {
    const char *matrices = NULL, *other = NULL;
    for (size_t i = 0; i < qkv_model_parameters(plan); i++) {
        const struct qkv_array *array = qkv_model_parameter(plan, i);
        if (array->rank < 2) continue;
        if (!matrices) matrices = type_name(array);
        if (strcmp(matrices, type_name(array)) != 0) other = type_name(array);
    }
    if (!matrices) matrices = "fp32";
    const char *vectors = strcmp(matrices, "fp32") != 0 && !other ? ", biases and norms in fp32" : "";
    snprintf(text, size, "in %s%s%s%s", matrices, other ? " and " : "", other ? other : "", vectors);
}

/* Finds how many threads a command with the same --threads gets here, and why. */
static void info_threads(const struct cli_common *common, const struct qkv_context *ctx, struct subject *s) {
    const struct qkv_cpus cpus = qkv_cpus_allowed();
    const char *told = getenv("QKV_THREADS"), *openmp = getenv("OMP_NUM_THREADS");
    char why[96];
    s->threads = qkv_context_threads(ctx);
    if (qkv_context_threads_note(ctx))
        snprintf(why, sizeof why, "as many as the system makes");
    else if (common->threads > 0)
        snprintf(why, sizeof why, "as --threads says");
    else if (told && *told)
        snprintf(why, sizeof why, "as $QKV_THREADS says");
    else if (cpus.quota < cpus.affinity)
        snprintf(why, sizeof why, "the limit of this process's control group; there are %d CPUs", cpus.online);
    else if (cpus.affinity < cpus.online)
        snprintf(why, sizeof why, "the CPUs that this process may run on (affinity), of %d", cpus.online);
    else
        snprintf(why, sizeof why, "all CPUs of this machine");
    snprintf(s->threads_why, sizeof s->threads_why, "%s%s", why,
             openmp && *openmp ? "; OMP_NUM_THREADS is not read, --threads is" : "");
}

/* Prints a row for each kind of layer whose rotations are scaled to a longer context. */
static void print_scalings(const struct qkv_spec *spec) {
#define INFO_SCALING(name, text, help, by_length) {text, (by_length) ? ", by the length of a sequence" : ""},
    static const char *const kinds[][2] = {QKV_SCALING_LIST(INFO_SCALING)};
    const struct qkv_stack_spec *const stacks[] = {&spec->encoder, &spec->decoder};
    for (size_t i = 0; i < 2; i++)
        for (int k = 0; stacks[i]->layers && k < stacks[i]->kind_count; k++) {
            const struct qkv_layer_spec *kind = &stacks[i]->kinds[k];
            const struct qkv_scaling_spec *scaling = &kind->attention.position.scaling;
            if (kind->attention.position.kind != QKV_POSITION_ROPE || !scaling->given) continue;
            const int original = scaling->original_context;
            char remark[200], from[64] = "";
            const double factor =
                scaling->factor != 0 || !original ? scaling->factor : (double)spec->context / original;
            if (original) snprintf(from, sizeof from, ", from an original context of %d", original);
            snprintf(remark, sizeof remark, "%s%s%s: factor %.9g%s%s", i ? "decoder" : "encoder",
                     kind->name[0] ? ".kinds." : "", kind->name, factor, from, kinds[scaling->kind][1]);
            print_row("rotation scaled", kinds[scaling->kind][0], remark);
        }
}

/* whole_pages: the whole pages of the prefix, which all continuations share. shared_pages: these, and for each
 * continuation the pages of the rest of its context. */
static size_t whole_pages(const struct subject *s) {
    return s->prefix / s->costs.page_positions;
}
static size_t shared_pages(const struct subject *s) {
    return whole_pages(s) + s->continuations * (s->costs.pages - whole_pages(s));
}

static void print_shared_pages(const struct subject *s) {
    char number[CLI_NUMBER], apart[CLI_NUMBER], bytes[CLI_NUMBER], remark[300];
    const size_t pages = shared_pages(s);
    snprintf(remark, sizeof remark,
             "hold %zu such contexts that share a prefix of %zu: %zu once, %zu for each, %s; %s if they shared nothing",
             s->continuations, s->prefix, whole_pages(s), s->costs.pages - whole_pages(s),
             cli_bytes(bytes, pages * s->costs.page_bytes), cli_grouped(apart, s->continuations * s->costs.pages));
    print_row("with a shared prefix", cli_grouped(number, pages), remark);
}

static void print_use(const char *what, size_t bytes, size_t own, const char *remark) {
    char number[CLI_NUMBER], label[64];
    snprintf(label, sizeof label, "%s%s", *what ? "memory " : "", what);
    if (bytes) print_row(label, cli_bytes(number, bytes + own), remark);
}

static int print_text(const struct subject *s, struct qkv_context *ctx) {
    char number[CLI_NUMBER], remark[128];
    const int code = cli_info_print_tree(s->plan, s->name);
    if (code) return code;
    printf("\n");
    cli_info_print_spec(&s->spec);
    char training[512];
    if (s->preset && *cli_preset_training(s->preset, training, sizeof training))
        printf("  %-22s  %s\n", "trains with", training);
    printf("\n");
    cli_info_state(&s->run, s->name);
    if (qkv_model_warning(s->plan)) print_row("note", "", qkv_model_warning(s->plan));
    const bool shares = s->spec.encoder.share || s->spec.decoder.share;
    snprintf(training, sizeof training, "tokens, of %s", s->tokenizer ? s->tokenizer : "");
    if (s->tokenizer) print_row("tokenizer", cli_grouped(number, (uint64_t)s->tokens), training);
    print_row("parameters", cli_grouped(number, s->costs.parameters),
              shares ? "tied and shared ones once" : "tied ones once");
    if (s->costs.active_parameters < s->costs.parameters)
        print_row("", cli_grouped(number, s->costs.active_parameters), "active: a token goes through these alone");
    print_row("weights", cli_bytes(number, s->costs.parameter_bytes), s->types);
    if (s->costs.packed_bytes)
        print_row("", cli_bytes(number, s->costs.packed_bytes),
                  strncmp(s->types, "in fp32", 7) ? "more: their copy as products read it; none with --map"
                                                  : "more: their copy as products read it");
    snprintf(remark, sizeof remark, "in %s: weights, gradients, moments, a step and an evaluation of %zu x %zu",
             s->precision, s->batch, s->context);
    print_row("memory to train", cli_bytes(number, s->costs.train_bytes + s->own), remark);
    snprintf(remark, sizeof remark, "with --checkpoint-activations: %.0f%% more FLOPs, and about as much more time",
             100 * (s->costs.checkpoint_flops / s->costs.train_flops - 1));
    print_row("", cli_bytes(number, s->costs.checkpoint_bytes + s->own), remark);
    snprintf(remark, sizeof remark, "weights, a cache of %zu positions, one sequence", s->context);
    print_row("memory to run", cli_bytes(number, s->costs.run_bytes + s->own), remark);
    print_use("for lines", s->uses.lines_bytes, s->own,
              "embedded or classified: weights, a batch as long as the context");
    print_use("to translate", s->uses.search_bytes, s->own, "weights, a batch of sources and of targets as long");
    print_use("to evaluate", s->uses.evaluate_bytes, s->own, "weights, a batch of sequences as long");
    print_use("to export", s->uses.export_bytes, s->own, "weights");
    print_use("", s->uses.publish_bytes, s->own, "--to huggingface: and a tensor that a family joins or transposes");
    print_row("", cli_bytes(number, s->own), "of all these: the program itself, and the tokenizers");
    snprintf(number, sizeof number, "%d", s->threads);
    print_row("threads", number, s->threads_why);
    print_scalings(&s->spec);
    print_row("cache a token", cli_bytes(number, s->costs.cache_bytes_per_token),
              "keys and values, or latents, of all layers");
    if (s->costs.decode_bytes)
        print_row("decoding reads", cli_bytes(number, s->costs.decode_bytes),
                  "of weights for each token, and its cache");
    if (s->costs.pages) {
        char bytes[CLI_NUMBER];
        snprintf(remark, sizeof remark, "of %zu positions, %s each, hold a context of %zu", s->costs.page_positions,
                 cli_bytes(bytes, s->costs.page_bytes), s->context);
        print_row("pages", cli_grouped(number, s->costs.pages), remark);
        print_row("cache by type", "", cli_info_caches(s->plan, s->context, remark, sizeof remark));
    }
    if (s->continuations) print_shared_pages(s);
    snprintf(remark, sizeof remark, "forward, in a context of %zu; multiply and add are two", s->context);
    print_row("FLOPs a token", cli_short(number, s->costs.forward_flops), remark);
    print_row("", cli_short(number, s->costs.train_flops), "forward and backward");
    if (s->guessed)
        printf("\nThe vocabulary will come from the tokenizer; shown for %d. Another: --set vocab=N\n", s->spec.vocab);
    if (s->classes_guessed)
        printf("The classes will come from the labels; shown for %d. Another: --set head.classes=N\n",
               s->spec.head.classes);
    return s->ranks.ranks ? cli_info_print_ranks(ctx, &s->ranks) : CLI_DONE;
}

static void put_tensors(struct qkv_json *out, const struct qkv_model *plan) {
    qkv_json_key(out, "tensors");
    qkv_json_begin(out, '[');
    for (size_t i = 0; i < qkv_model_parameters(plan); i++) {
        const struct qkv_array *array = qkv_model_parameter(plan, i);
        qkv_json_line(out, 0);
        qkv_json_begin(out, '{');
        qkv_json_put_text(out, "name", array->name);
        qkv_json_key(out, "shape");
        qkv_json_begin(out, '[');
        for (int j = 0; j < array->rank; j++) qkv_json_count(out, array->shape[j]);
        qkv_json_end(out, ']');
        qkv_json_put_text(out, "dtype", type_name(array));
        qkv_json_end(out, '}');
    }
    qkv_json_end(out, ']');
}

static void put_uses(struct qkv_json *out, const struct qkv_use_costs *uses) {
    qkv_json_line(out, 0);
    qkv_json_put_count(out, "lines_bytes", uses->lines_bytes);
    qkv_json_put_count(out, "search_bytes", uses->search_bytes);
    qkv_json_put_count(out, "evaluate_bytes", uses->evaluate_bytes);
    qkv_json_put_count(out, "export_bytes", uses->export_bytes);
    qkv_json_put_count(out, "publish_bytes", uses->publish_bytes);
}

static void put_costs(struct qkv_json *out, const struct qkv_costs *c) {
    qkv_json_line(out, 0);
    qkv_json_put_count(out, "parameters", c->parameters);
    if (c->active_parameters < c->parameters) qkv_json_put_count(out, "active_parameters", c->active_parameters);
    qkv_json_put_count(out, "parameter_bytes", c->parameter_bytes);
    qkv_json_put_count(out, "train_bytes", c->train_bytes);
    qkv_json_put_count(out, "checkpoint_bytes", c->checkpoint_bytes);
    qkv_json_put_count(out, "run_bytes", c->run_bytes);
    qkv_json_put_count(out, "packed_bytes", c->packed_bytes);
    qkv_json_line(out, 0);
    qkv_json_put_count(out, "decode_bytes", c->decode_bytes);
    qkv_json_put_count(out, "cache_bytes_per_token", c->cache_bytes_per_token);
    qkv_json_put_count(out, "page_positions", c->page_positions);
    qkv_json_put_count(out, "page_bytes", c->page_bytes);
    qkv_json_put_count(out, "pages", c->pages);
    qkv_json_put_number(out, "forward_flops", c->forward_flops, 17);
    qkv_json_put_number(out, "train_flops", c->train_flops, 17);
    qkv_json_put_number(out, "checkpoint_flops", c->checkpoint_flops, 17);
}

static int print_json(const struct subject *s, struct qkv_context *ctx) {
    char *spec;
    if (qkv_spec_print(ctx, &s->spec, &spec)) return cli_broken(ctx);
    size_t n = strlen(spec);
    while (n && spec[n - 1] == '\n') spec[--n] = 0;
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "name", s->name);
    cli_info_put_state(&out, &s->run);
    if (s->tokenizer) qkv_json_put_text(&out, "tokenizer", s->tokenizer);
    if (qkv_model_warning(s->plan)) qkv_json_put_text(&out, "note", qkv_model_warning(s->plan));
    put_costs(&out, &s->costs);
    if (s->costs.pages) cli_info_put_caches(&out, s->plan, s->context);
    put_uses(&out, &s->uses);
    qkv_json_put_count(&out, "process_bytes", s->own);
    qkv_json_put_text(&out, "precision", s->precision);
    qkv_json_put_count(&out, "batch", s->batch);
    qkv_json_put_count(&out, "context", s->context);
    if (s->continuations) {
        qkv_json_put_count(&out, "prefix", s->prefix);
        qkv_json_put_count(&out, "continuations", s->continuations);
        qkv_json_put_count(&out, "shared_pages", shared_pages(s));
    }
    qkv_json_put_integer(&out, "threads", s->threads);
    qkv_json_put_text(&out, "threads_why", s->threads_why);
    qkv_json_line(&out, 0);
    qkv_json_put_raw(&out, "spec", spec);
    qkv_json_line(&out, 0);
    put_tensors(&out, s->plan);
    int code = s->ranks.ranks ? cli_info_put_ranks(ctx, &s->ranks, &out) : CLI_DONE;
    qkv_json_end(&out, '}');
    qkv_free(spec);
    if (!code) return cli_json_end(&out);
    qkv_json_free(&out);
    return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int read_spec(struct qkv_context *ctx, const struct arguments *a, const char *folder, struct subject *s) {
    int code;
    if (folder) {
        if (qkv_spec_check_settings(ctx, a->set.items, a->set.count)) return cli_misused(ctx);
        code = qkv_folder_spec(ctx, folder, a->set.items, a->set.count, &s->spec) ? cli_broken(ctx) : CLI_DONE;
    } else {
        code = cli_spec_read(ctx, a->preset, a->spec, &a->set, &s->spec);
    }
    if (code) return code;
    s->guessed = s->spec.vocab == 0 && qkv_spec_has_tokens(&s->spec);
    if (s->guessed) s->spec.vocab = 256;
    if (s->guessed && s->spec.source_vocab == 0) s->spec.source_vocab = 256;
    s->classes_guessed = cli_has_classes(&s->spec) && s->spec.head.classes == 0;
    if (s->classes_guessed) s->spec.head.classes = CLI_CLASSES_GUESSED;
    return CLI_DONE;
}

/* Loads the tokenizer of sources if the model has one. */
static void info_source(struct qkv_context *ctx, const char *model, struct qkv_tokenizer **source) {
    const char *checkpoint = NULL;
    char path[4096 + sizeof "/" QKV_SOURCE_FILE], *folder = cli_model_folder(model, &checkpoint);
    struct stat info;
    if (folder) {
        const int n = snprintf(path, sizeof path, "%s/%s", folder, QKV_SOURCE_FILE);
        if (n > 0 && (size_t)n < sizeof path && stat(path, &info) == 0) qkv_tokenizer_load(ctx, path, source);
    }
    free(folder);
}

/* Measures what a process needs beside the model: it reads the tokenizers, as a command that uses the model does. A
 * tokenizer that cannot be read is not counted, as such a command would not have it either. */
static void info_own(struct qkv_context *ctx, const char *model, struct subject *s) {
    struct qkv_tokenizer *tokenizer = NULL, *source = NULL;
    if (model) qkv_folder_tokenizer(ctx, model, &tokenizer);
    if (model) info_source(ctx, model, &source);
    s->own = cli_memory_peak() + CLI_MEMORY_AT_WORK;
    s->tokens = qkv_tokenizer_vocab(tokenizer);
    s->tokenizer = tokenizer ? qkv_tokenizer_origin(tokenizer) : NULL;
    qkv_tokenizer_free(tokenizer);
    qkv_tokenizer_free(source);
}

/* Plans the model as it is stored if its folder has weights; else (a spec, or a model that --set changes) as
 * training makes it. */
static enum qkv_status info_plan(struct qkv_context *ctx, const struct arguments *a, const char *model,
                                 struct subject *s) {
    const char *checkpoint = NULL;
    char *folder = model && !a->set.count ? cli_model_folder(model, &checkpoint) : NULL;
    const bool stored = folder && (checkpoint || qkv_folder_has_weights(folder));
    free(folder);
    enum qkv_status status =
        stored ? qkv_model_plan_load(ctx, model, &s->plan) : qkv_model_plan(ctx, &s->spec, &s->plan);
    if (!status) types_text(s->plan, s->types, sizeof s->types); /* of the model: an adapter has its own */
    if (!status && a->common.adapter) status = qkv_adapter_load(s->plan, a->common.adapter);
    if (!status && a->lora) status = qkv_adapter_create(s->plan, a->lora, 0);
    return status;
}

/* Reads the spec of a folder, and the state of its run unless one checkpoint is named. */
static int info_look(struct qkv_context *ctx, const struct arguments *a, const char *model, struct subject *s) {
    const char *checkpoint = NULL;
    char *folder = model ? cli_model_folder(model, &checkpoint) : NULL;
    if (model && !folder) return CLI_FAILED;
    s->name = model ? model : a->preset ? a->preset : a->spec;
    int code = read_spec(ctx, a, folder, s);
    if (!code && folder && !checkpoint && qkv_run_condition_read(ctx, folder, &s->run)) code = cli_broken(ctx);
    free(folder);
    return code;
}

/* Plans --ranks once before anything is printed, so that an error comes first. */
static int info_ranks(struct qkv_context *ctx, const struct arguments *a, struct subject *s) {
    struct qkv_train_options training;
    struct qkv_rank_plan plan;
    if (!a->ranks) return CLI_DONE;
    s->ranks = (struct cli_info_ranks){.model = s->plan,
                                       .preset = a->preset,
                                       .ranks = a->ranks,
                                       .groups = a->groups,
                                       .batch = s->batch,
                                       .context = s->context,
                                       .network = a->network};
    if (qkv_train_defaults(ctx, a->preset, &training)) return cli_broken(ctx);
    training.groups = a->groups;
    return qkv_rank_plan(s->plan, &training, s->batch, s->context, (int)a->ranks, 0, &plan) ? cli_misused(ctx)
                                                                                            : CLI_DONE;
}

/* Sets the batch: --batch, else 1; with --ranks, else that of the preset's training. */
static int info_batch(struct qkv_context *ctx, const struct arguments *a, struct subject *s) {
    struct qkv_train_options training;
    s->batch = a->batch ? (size_t)a->batch : 1;
    if (a->batch || !a->ranks) return CLI_DONE;
    if (qkv_train_defaults(ctx, a->preset, &training)) return cli_broken(ctx);
    if (training.batch) s->batch = (size_t)training.batch;
    return CLI_DONE;
}

static int info_show(struct qkv_context *ctx, const struct arguments *a, const char *model, struct subject *s) {
    int code = CLI_DONE;
    if (qkv_context_precision(ctx) != QKV_FP32) cli_say_emulated(ctx, cli_asks_record(&a->common) ? model : NULL);
    info_threads(&a->common, ctx, s);
    s->precision = qkv_context_precision(ctx) == QKV_FP32 ? "fp32" : "bf16";
    if (a->context > s->spec.context) {
        cli_say("--context %lld is more than the %d positions of %s; --set context=%lld plans a model with that many",
                (long long)a->context, s->spec.context, s->name, (long long)a->context);
        return a->preset ? CLI_USAGE : CLI_FAILED;
    }
    s->context = a->context > 0 ? (size_t)a->context : (size_t)s->spec.context;
    s->prefix = (size_t)a->prefix, s->continuations = (size_t)a->continuations;
    if (s->prefix > s->context) {
        cli_say("--prefix %zu is more than a context of %zu positions (--context)", s->prefix, s->context);
        return CLI_USAGE;
    }
    if (info_plan(ctx, a, model, s) || (a->common.cache && qkv_model_set_cache(s->plan, a->common.cache)) ||
        qkv_model_costs(s->plan, s->batch, s->context, &s->costs) || qkv_model_use_costs(s->plan, &s->uses))
        code = cli_broken(ctx);
    if (!code) info_own(ctx, model, s);
    if (!code && s->continuations && !s->costs.pages) {
        cli_say("--continuations: %s has no decoder, so it continues no prefix", s->name);
        code = CLI_USAGE;
    }
    if (!code) code = info_ranks(ctx, a, s);
    if (!code) code = a->json ? print_json(s, ctx) : print_text(s, ctx);
    return code;
}

/* Sets the precision: of --precision, of the record of a model, or, of a model to be trained, that of new runs. */
static int info_precision(struct qkv_context *ctx, const struct arguments *a, const char *model) {
    const bool fresh = !model || a->set.count || a->lora;
    const int code = cli_set_precision(&a->common, ctx, model);
    if (!code && fresh && cli_asks_record(&a->common)) qkv_context_set_precision(ctx, QKV_PRECISION_AUTO);
    return code;
}

static int info_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    if (count + (a->preset != NULL) + (a->spec != NULL) != 1)
        return cli_usage("info: name one model: a model folder, --preset NAME or --spec FILE");
    const char *model = count ? words[0] : NULL;
    struct subject s = {.preset = a->preset};
    int code = cli_open(&a->common, &ctx);
    if (!code) code = info_look(ctx, a, model, &s);
    if (!code) code = info_batch(ctx, a, &s);
    if (!code) code = info_precision(ctx, a, model);
    if (!code) code = info_show(ctx, a, model, &s);
    qkv_model_free(s.plan);
    qkv_spec_free(&s.spec);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_info(void) {
    static const struct cli_command command = {
        .name = "info",
        .words = CLI_WORD_MODEL,
        .summary = "print the parts of a model and its costs in training and use",
        .usage = "RUN\n--preset NAME [--set KEY=VALUE]\n--spec FILE [--set KEY=VALUE]",
        .description =
            "Prints the tree of a model's parameters, the exact memory to train it and to run it, the FLOPs of a "
            "token, the bytes that a token adds to the key-value cache, and the pages of the cache. A dry run finds "
            "the memory without allocating it, for the threads and kernels that a run on this machine would have, or "
            "for those of --threads and --isa. A model that is not trained yet (--preset, --spec, --set, --lora) is "
            "planned in the precision of new runs, unless --precision names one.\n\n"
            "--ranks N plans each rank of a training run under mpirun: the groups of a batch whose gradients it "
            "computes, its memory, and the bytes that it sends and receives in a step. It also prints the seconds that "
            "these bytes take on a network of --network gigabits a second, and the seconds that the FLOPs of a step "
            "take at the peak measured on this machine, which no training reaches.",
        .examples = "qkv info run/\n"
                    "qkv info --preset gpt2-small --batch 8 --threads 8\n"
                    "qkv info --preset llama-style --set decoder.attention.kv_heads=1\n"
                    "qkv info --preset gpt2-small --batch 16 --ranks 4 --network 10",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .presets = true,
        .run = info_run,
    };
    return &command;
}
