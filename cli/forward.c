/* forward.c: "qkv forward" runs a model on the arrays of a safetensors file and writes all that comes out (logits,
 * loss, attention weights, gradients, losses over optimizer steps), to be compared with another implementation. */
#include <float.h>
#include <math.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_text.h"

struct arguments {
    const char *inputs, *output, *adamw, *names;
    bool gradients, weights, force, json;
    int64_t dropout_seed; /* negative: dropout is off */
    int64_t prefix;
    struct cli_fresh fresh;
    struct cli_common common;
};

static const struct arguments defaults = {
    .dropout_seed = -1, .prefix = -1, .fresh = CLI_FRESH_DEFAULTS, .common = {.precision = "fp32"}};

static const struct cli_option options[] = {
    {CLI_READ, 'i', "inputs", "FILE", offsetof(struct arguments, inputs),
     .help = "safetensors file to read, with in.ids and the other inputs", .subject = "input"},
    {CLI_WRITE, 'o', "output", "FILE", offsetof(struct arguments, output), .help = "safetensors file to write",
     .subject = "output"},
    CLI_FORCE(struct arguments),
    CLI_JSON(struct arguments, "the loss, and the names and shapes of the arrays,"),
    {CLI_FLAG, 0, "gradients", NULL, offsetof(struct arguments, gradients),
     .help = "also write the gradients, grad.PARAMETER", .subject = "output"},
    {CLI_TEXT, 0, "names", "WHOSE", offsetof(struct arguments, names), .choice = cli_choose_names,
     .help = "names of the gradients: qkv, or family for the names and shapes of the published model's own files",
     .before = "qkv", .subject = "output"},
    {CLI_FLAG, 0, "weights", NULL, offsetof(struct arguments, weights),
     .help = "also write the attention weights, out.weights.ATTENTION (B,H,Tq,Tk)", .subject = "output"},
    {CLI_COUNT, 0, "dropout-seed", "N", offsetof(struct arguments, dropout_seed),
     .help = "seed of dropout masks, which turns dropout on as in training, but not in the steps of --adamw; with "
             "--weights also write the weights after dropout, out.dropped.ATTENTION",
     .high = 9000000000000000000, .before = "dropout is off", .subject = "output"},
    {CLI_TEXT, 0, "adamw", "STEPS,RATE,BETA1,BETA2,EPS,DECAY", offsetof(struct arguments, adamw),
     .help = "also make AdamW steps on this batch, and write out.adamw_losses (before each step and after the last) "
             "and out.adamw_logits (after the last)",
     .subject = "output"},
    CLI_PREFIX(struct arguments, "none"),
    CLI_FRESH(struct arguments),
    CLI_COMMON(struct arguments),
    CLI_COMMON_ROW(CLI_TEXT, struct arguments, precision, "NAME", .choice = cli_choose_precision,
                   .help = CLI_PRECISION_HELP),
    CLI_IGNORE_MEMORY(struct arguments),
    CLI_IGNORE_DIGEST(struct arguments),
};

CLI_CONDITION(has_folder, struct arguments, arguments > 0)
CLI_CONDITION(has_no_gradients, struct arguments, !a->gradients)
CLI_CONDITION(is_fresh, struct arguments, cli_fresh_given(&a->fresh))

static const struct cli_rule rules[] = {
    {"set seed tokenizer", has_folder, CLI_WHY_FOLDER},
    {"ignore-digest", is_fresh, CLI_WHY_FRESH},
    {"names", is_fresh, CLI_WHY_FRESH},
    {"names", has_no_gradients, "it names gradients; add --gradients"},
};

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

struct outputs { /* arrays to write, each with its own name and data */
    struct qkv_array *arrays;
    size_t count;
};

static void outputs_free(struct outputs *out) {
    for (size_t i = 0; i < out->count; i++) {
        free((char *)out->arrays[i].name);
        free((void *)out->arrays[i].data);
    }
    free(out->arrays);
}

/* Copies an array of floats under the name prefix + array->name. */
static int forward_add(struct outputs *out, const char *prefix, const struct qkv_array *array) {
    size_t n = strlen(prefix) + strlen(array->name) + 1, bytes = qkv_array_elements(array) * sizeof(float);
    struct qkv_array *grown = realloc(out->arrays, (out->count + 1) * sizeof *grown);
    if (grown) out->arrays = grown;
    char *name = malloc(n);
    void *data = malloc(bytes ? bytes : 1);
    if (!grown || !name || !data) {
        free(name);
        free(data);
        return cli_failed("out of memory");
    }
    snprintf(name, n, "%s%s", prefix, array->name);
    memcpy(data, array->data, bytes);
    struct qkv_array *copy = &out->arrays[out->count++];
    *copy = *array;
    copy->name = name;
    copy->data = data;
    copy->bytes = bytes;
    return CLI_DONE;
}

/* Copies all weights of one attention, before or after dropout, head by head. */
static int add_weights(struct outputs *out, struct qkv_context *ctx, struct qkv_pass *pass, size_t i,
                       enum qkv_attention_stage stage, struct qkv_array *array) {
    size_t rows = array->shape[2], head = rows * array->shape[3];
    float *weights = malloc(array->bytes ? array->bytes : 1);
    int code = weights ? CLI_DONE : cli_failed("out of memory");
    for (size_t n = 0; !code && n < array->shape[0] * array->shape[1]; n++)
        if (qkv_pass_weights(pass, i, stage, n / array->shape[1], n % array->shape[1], 0, rows, weights + n * head))
            code = cli_broken(ctx);
    array->data = weights;
    if (!code) code = forward_add(out, stage == QKV_ATTENTION_DROPPED ? "out.dropped." : "out.weights.", array);
    free(weights);
    return code;
}

static int add_numbers(struct outputs *out, const char *name, const float *numbers, size_t n) {
    struct qkv_array array = {.name = name, .dtype = QKV_F32, .rank = 1, .shape = {n}, .data = numbers};
    return forward_add(out, "", &array);
}

/* Names the gradients as the files of the published model's family do. */
static int add_family_gradients(struct outputs *out, struct qkv_context *ctx, struct qkv_model *model) {
    struct qkv_family_tensors *tensors;
    const struct qkv_array *array;
    if (qkv_model_family_tensors(model, true, &tensors)) return cli_broken(ctx);
    int code = CLI_DONE;
    for (size_t i = 0; !code && (array = qkv_family_tensors_at(tensors, i)); i++)
        code = forward_add(out, "grad.", array);
    qkv_family_tensors_free(tensors);
    return code;
}

static int add_gradients(struct outputs *out, struct qkv_context *ctx, const struct qkv_model *model) {
    int code = CLI_DONE;
    for (size_t i = 0; i < qkv_model_parameters(model) && !code; i++) {
        struct qkv_array array = *qkv_model_parameter(model, i);
        const size_t n = qkv_array_elements(&array);
        float *gradient = malloc((n + 1) * sizeof *gradient);
        if (!gradient) return cli_failed("out of memory");
        array.data = gradient;
        if (qkv_model_get_gradient(model, i, gradient, n)) code = cli_broken(ctx);
        if (!code) code = forward_add(out, "grad.", &array);
        free(gradient);
    }
    return code;
}

static int add_result(struct outputs *out, const struct qkv_pass *pass, bool hidden, bool loss) {
    struct qkv_array array = qkv_pass_output(pass);
    float value = (float)qkv_pass_loss(pass, NULL);
    array.name = hidden ? "out.hidden" : "out.logits";
    int code = forward_add(out, "", &array);
    return code || !loss ? code : add_numbers(out, "out.loss", &value, 1);
}

/* ---- the passes -------------------------------------------------------------------------------------------------- */

/* The last hidden states of a stack, which a hook of the pass copies; they are written for published models. */
struct hidden {
    float *values;
    size_t rows, columns;
};

struct work {
    struct qkv_context *ctx;
    struct qkv_model *model;
    const struct arguments *arguments;
    struct cli_inputs in;
    struct outputs out;
    bool hidden, loss;
    struct hidden states[2]; /* [0]: of the decoder, or of the only encoder; [1]: of an encoder with a decoder */
    bool listening, full;    /* listening: the hook copies; full: out of memory */
};

static void forward_listen(void *user, const struct qkv_hook_point *point) {
    struct work *w = user;
    const struct qkv_spec *spec = qkv_model_spec(w->model);
    struct hidden *to = &w->states[point->encoder && spec->decoder.layers > 0];
    const bool before = qkv_model_family_hidden(w->model) == QKV_FAMILY_HIDDEN_BEFORE_NORM;
    if (point->kind != QKV_HOOK_RESIDUAL && (point->kind != QKV_HOOK_FINAL || before)) return;
    const size_t bytes = point->rows * point->columns * sizeof(float);
    float *values = realloc(to->values, bytes ? bytes : 1);
    if (!values) {
        w->full = true;
        return;
    }
    memcpy(values, point->values, bytes);
    *to = (struct hidden){values, point->rows, point->columns};
}

/* Multiplies hidden states by the matrix that projects them to the width of the head. */
static int forward_project(struct work *w, struct hidden *h) {
    const struct qkv_array *matrix = NULL;
    for (size_t i = 0; i < qkv_model_parameters(w->model) && !matrix; i++)
        if (!strcmp(qkv_model_parameter(w->model, i)->name, "head.transform.weight"))
            matrix = qkv_model_parameter(w->model, i);
    if (!matrix) return CLI_DONE;
    const size_t width = matrix->shape[0];
    float *m = malloc(qkv_array_elements(matrix) * sizeof *m), *out = calloc(h->rows * width + 1, sizeof *out);
    if (m && out) qkv_array_floats(matrix, m);
    for (size_t r = 0; m && out && r < h->rows; r++)
        for (size_t i = 0; i < width; i++)
            for (size_t c = 0; c < h->columns; c++)
                out[r * width + i] += h->values[r * h->columns + c] * m[i * h->columns + c];
    free(m);
    if (!out || !m) {
        free(out);
        return cli_failed("out of memory");
    }
    free(h->values);
    *h = (struct hidden){out, h->rows, width};
    return CLI_DONE;
}

static int add_hidden(struct work *w) {
    static const char *const names[] = {"out.hidden", "out.encoder_hidden"};
    int code = w->full ? cli_failed("out of memory") : CLI_DONE;
    if (!code && w->states[0].values && qkv_model_family_hidden(w->model) == QKV_FAMILY_HIDDEN_NARROWED)
        code = forward_project(w, &w->states[0]);
    for (size_t i = 0; i < 2 && !code; i++) {
        const struct hidden *h = &w->states[i];
        if (!h->values || (i == 0 && w->hidden)) continue;
        const struct qkv_array array = {.name = names[i],
                                        .dtype = QKV_F32,
                                        .rank = 3,
                                        .shape = {w->in.batch.B, h->rows / w->in.batch.B, h->columns},
                                        .data = h->values};
        code = forward_add(&w->out, "", &array);
    }
    return code;
}

static int make_pass(struct work *w, bool train, bool dropout, bool weights, struct qkv_pass **pass) {
    const struct qkv_batch *batch = &w->in.batch;
    struct qkv_pass_options o = {.size = sizeof o,
                                 .B = batch->B,
                                 .T = batch->T,
                                 .source_T = batch->source_T,
                                 .train = train,
                                 .dropout = dropout,
                                 .logits = true,
                                 .weights = weights,
                                 .padding = true};
    if (w->listening) {
        o.hook = forward_listen;
        o.hook_user = w;
    }
    return qkv_pass_create(w->model, &o, pass) ? cli_broken(w->ctx) : CLI_DONE;
}

static int first_pass(struct work *w) {
    const struct arguments *a = w->arguments;
    struct qkv_pass *pass = NULL;
    struct qkv_array array;
    struct qkv_batch batch = w->in.batch;
    const bool drops = a->dropout_seed >= 0;
    if (drops) batch.dropout_seed = (uint64_t)a->dropout_seed;
    w->listening = qkv_model_family(w->model) && !drops;
    int code = make_pass(w, a->gradients || drops, drops, a->weights, &pass);
    if (!code && qkv_pass_forward(pass, &batch)) code = cli_broken(w->ctx);
    if (!code) code = add_result(&w->out, pass, w->hidden, w->loss);
    if (!code) code = add_hidden(w);
    w->listening = false;
    for (size_t i = 0; !code && a->weights && qkv_pass_attention(pass, i, &array); i++)
        code = add_weights(&w->out, w->ctx, pass, i, QKV_ATTENTION_WEIGHTS, &array);
    for (size_t i = 0; !code && a->weights && drops && qkv_pass_attention(pass, i, &array); i++)
        code = add_weights(&w->out, w->ctx, pass, i, QKV_ATTENTION_DROPPED, &array);
    if (!code && a->gradients) {
        if (qkv_pass_backward(pass))
            code = cli_broken(w->ctx);
        else
            code = a->names && !strcmp(a->names, "family") ? add_family_gradients(&w->out, w->ctx, w->model)
                                                           : add_gradients(&w->out, w->ctx, w->model);
    }
    qkv_pass_free(pass);
    return code;
}

enum { ADAMW_STEPS = 1000000 };

struct adamw {
    int64_t steps;
    double number[5]; /* rate, beta1, beta2, eps, decay */
};

/* The ranges of the numbers: [low, high). */
static const struct {
    const char *name, *range;
    double low, high;
} adamw_numbers[] = {{"RATE", "from 0 to 3.4e38", 0, (double)FLT_MAX},
                     {"BETA1", "at least 0 and less than 1", 0, 1},
                     {"BETA2", "at least 0 and less than 1", 0, 1},
                     {"EPS", "from 1.2e-38 to 3.4e38", (double)FLT_MIN, (double)FLT_MAX},
                     {"DECAY", "from 0 to 3.4e38", 0, (double)FLT_MAX}};

/* Reads part i of --adamw: the steps, then the numbers. */
static int read_adamw_part(const char *word, int i, struct adamw *adamw) {
    if (i == 0) {
        if (cli_read_count(word, 1, ADAMW_STEPS, &adamw->steps)) return CLI_DONE;
        return cli_usage("--adamw: STEPS is \"%s\"; it must be a whole number from 1 to %d", word, ADAMW_STEPS);
    }
    double *x = &adamw->number[i - 1];
    if (cli_read_real(word, x) && *x >= adamw_numbers[i - 1].low && *x < adamw_numbers[i - 1].high) return CLI_DONE;
    return cli_usage("--adamw: %s is \"%s\"; it must be a number, %s", adamw_numbers[i - 1].name, word,
                     adamw_numbers[i - 1].range);
}

static int read_adamw(const char *text, struct adamw *adamw) {
    const char *const form = "--adamw needs STEPS,RATE,BETA1,BETA2,EPS,DECAY, as 3,0.01,0.9,0.95,1e-8,0.1, not \"%s\"";
    char word[64];
    const char *at = text;
    for (int i = 0; i < 6; i++) {
        size_t n = strcspn(at, ",");
        if (n >= sizeof word || (at[n] == 0) != (i == 5)) return cli_usage(form, text);
        memcpy(word, at, n);
        word[n] = 0;
        int code = read_adamw_part(word, i, adamw);
        if (code) return code;
        at += n + 1;
    }
    return CLI_DONE;
}

static int forward_optimize(struct work *w, const struct adamw *adamw, struct qkv_optimizer *optimizer,
                            struct qkv_pass *pass, float *losses) {
    for (int64_t step = 0; step < adamw->steps; step++) {
        qkv_model_clear_gradients(w->model);
        if (qkv_pass_forward(pass, &w->in.batch)) return cli_broken(w->ctx);
        losses[step] = (float)qkv_pass_loss(pass, NULL);
        if (qkv_pass_backward(pass) || qkv_optimizer_step(optimizer, adamw->number[0], 1)) return cli_broken(w->ctx);
    }
    return CLI_DONE;
}

static int adamw_steps(struct work *w, const struct adamw *adamw) {
    struct qkv_optimizer_options o = {.size = sizeof o,
                                      .kind = QKV_OPTIMIZER_ADAMW,
                                      .beta1 = adamw->number[1],
                                      .beta2 = adamw->number[2],
                                      .eps = adamw->number[3],
                                      .weight_decay = adamw->number[4]};
    struct qkv_optimizer *optimizer = NULL;
    struct qkv_pass *train = NULL, *after = NULL;
    float *losses = calloc((size_t)adamw->steps + 1, sizeof *losses);
    int code = losses ? make_pass(w, true, false, false, &train) : cli_failed("out of memory");
    if (!code) code = make_pass(w, false, false, false, &after);
    if (!code && qkv_optimizer_create(w->model, &o, &optimizer)) code = cli_broken(w->ctx);
    if (!code) code = forward_optimize(w, adamw, optimizer, train, losses);
    if (!code && qkv_pass_forward(after, &w->in.batch)) code = cli_broken(w->ctx);
    if (!code) {
        struct qkv_array array = qkv_pass_output(after);
        array.name = w->hidden ? "out.adamw_hidden" : "out.adamw_logits";
        losses[adamw->steps] = (float)qkv_pass_loss(after, NULL);
        code = add_numbers(&w->out, "out.adamw_losses", losses, (size_t)adamw->steps + 1);
        if (!code) code = forward_add(&w->out, "", &array);
    }
    qkv_optimizer_free(optimizer);
    qkv_pass_free(train);
    qkv_pass_free(after);
    free(losses);
    return code;
}

static int forward_all(struct work *w, const char *folder) {
    const struct arguments *a = w->arguments;
    struct adamw adamw;
    int code = a->adamw ? read_adamw(a->adamw, &adamw) : CLI_DONE;
    if (!code) code = cli_open(&a->common, &w->ctx);
    if (!code) code = cli_fresh_load(&a->common, &a->fresh, w->ctx, folder, &w->model);
    if (!code) code = cli_inputs_read(w->ctx, qkv_model_spec(w->model), a->inputs, &w->in);
    if (!code) code = cli_inputs_set_prefix(&w->in, a->prefix);
    if (code) return code;
    cli_say_causal(w->model, folder ? folder : cli_fresh_name(&a->fresh), a->prefix);
    if (a->dropout_seed >= 0 && !qkv_spec_drops(qkv_model_spec(w->model)))
        return cli_failed("--dropout-seed has no effect: every dropout of the model's spec is 0");
    w->hidden = qkv_model_spec(w->model)->head.kind == QKV_HEAD_NONE;
    w->loss = w->in.batch.targets || w->in.batch.output_gradient;
    if (!w->loss && (a->gradients || a->adamw))
        return cli_failed("%s has no %s, and --%s needs it for the loss", a->inputs,
                          w->hidden ? "in.output_gradient" : "in.targets", a->gradients ? "gradients" : "adamw");
    code = first_pass(w);
    if (!code && a->adamw) code = adamw_steps(w, &adamw);
    if (!code && qkv_tensors_write(w->ctx, a->output, w->out.arrays, w->out.count, NULL, 0)) code = cli_broken(w->ctx);
    return code;
}

/* The loss among the results; NaN: there is none. */
static double forward_loss(const struct work *w) {
    for (size_t i = 0; i < w->out.count; i++)
        if (!strcmp(w->out.arrays[i].name, "out.loss")) return (double)*(const float *)w->out.arrays[i].data;
    return NAN;
}

static void forward_tell(const struct work *w) {
    const double loss = forward_loss(w);
    const char *plural = w->out.count == 1 ? "" : "s";
    if (isnan(loss))
        cli_wrote(w->arguments->output, "%zu array%s", w->out.count, plural);
    else
        cli_wrote(w->arguments->output, "%zu array%s, loss %.4f", w->out.count, plural, loss);
}

/* The loss, and the names and shapes of the arrays that were written. */
static int forward_json(const struct work *w) {
    struct qkv_json out = cli_json();
    const double loss = forward_loss(w);
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "file", w->arguments->output);
    qkv_json_put_number(&out, "loss", loss, 9);
    qkv_json_key(&out, "arrays");
    qkv_json_begin(&out, '[');
    for (size_t i = 0; i < w->out.count; i++) {
        qkv_json_begin(&out, '{');
        qkv_json_put_text(&out, "name", w->out.arrays[i].name);
        qkv_json_key(&out, "shape");
        qkv_json_begin(&out, '[');
        for (int d = 0; d < w->out.arrays[i].rank; d++) qkv_json_count(&out, w->out.arrays[i].shape[d]);
        qkv_json_end(&out, ']');
        qkv_json_end(&out, '}');
    }
    qkv_json_end(&out, ']');
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

static int forward_run(const void *values, const char *const *words, size_t count) {
    struct work w = {.arguments = values};
    const struct cli_fresh *fresh = &w.arguments->fresh;
    if (!count && !cli_fresh_given(fresh))
        return cli_usage(
            "forward: name a model folder, or a model with --preset or --spec: %s forward RUN --inputs FILE -o FILE",
            cli_program);
    if (cli_fresh_check(fresh, "forward", count)) return CLI_USAGE;
    if (!w.arguments->inputs) return cli_usage("forward: name a file of arrays to read: --inputs FILE");
    if (!w.arguments->output) return cli_usage("forward: name a file to write: -o FILE");
    int code = forward_all(&w, count ? words[0] : NULL);
    if (!code && w.arguments->json)
        code = forward_json(&w);
    else if (!code)
        forward_tell(&w);
    outputs_free(&w.out);
    free(w.states[0].values);
    free(w.states[1].values);
    cli_inputs_free(&w.in);
    qkv_model_free(w.model);
    qkv_context_free(w.ctx);
    return code;
}

const struct cli_command *cli_forward(void) {
    static const struct cli_command command = {
        .name = "forward",
        .words = CLI_WORD_MODEL,
        .summary = "run a model on given arrays and write its results as arrays",
        .usage = "RUN --inputs FILE -o FILE [--gradients] [--weights] [--adamw STEPS,RATE,BETA1,BETA2,EPS,DECAY]\n"
                 "--preset NAME [--set KEY=VALUE] [--seed N] --inputs FILE -o FILE [options]\n"
                 "--spec FILE [--set KEY=VALUE] [--seed N] --inputs FILE -o FILE [options]",
        .description =
            "Runs a model on arrays, to compare it with another implementation. The input file is a safetensors file "
            "with in.ids (B,T) (in.pixels, in.features or in.vectors for a stack that reads numbers), and optionally "
            "in.lengths (B), in.targets ((B,T), or (B) for a classifier; -100 is ignored), in.token_types (B,T) "
            "(models whose embedding has types), in.source, in.source_lengths and in.source_token_types "
            "(encoder-decoders), and in.output_gradient (B,T,C) (models without a head). Integers are I32 or I64.\n\n"
            "The output file has out.logits or out.hidden, out.loss if there are targets, and the arrays of the "
            "options. Positions past a length are computed too. Rotations that depend on the length of a sequence "
            "(scaling dynamic, longrope) use T, or the T of the sources, whatever the lengths are. Dropout is off "
            "unless --dropout-seed is given.\n\n"
            "For a published model (a Hugging Face folder) the output file also has out.hidden and, for an "
            "encoder-decoder, out.encoder_hidden, and --names family names gradients as the files of the model do. "
            "--preset and --spec use a model with the fresh weights that training begins with.",
        .examples = "qkv forward run/ --inputs case.safetensors -o out.safetensors --gradients --weights\n"
                    "qkv forward run/ --inputs case.safetensors -o out.safetensors --adamw 3,0.01,0.9,0.95,1e-8,0.1",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .run = forward_run,
    };
    return &command;
}
