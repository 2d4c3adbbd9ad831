/* forward_inputs.c: reads the arrays of a safetensors file as a batch for "qkv forward". */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

void cli_inputs_free(struct cli_inputs *in) {
    qkv_tensors_close(in->file);
    free(in->ids);
    free(in->lengths);
    free(in->targets);
    free(in->source);
    free(in->source_lengths);
    free(in->types);
    free(in->source_types);
    free(in->prefix);
    free(in->output_gradient);
    free(in->features);
}

static int wrong_shape(const struct qkv_array *array, const char *path, const char *expected) {
    char shape[160] = "";
    size_t used = 0;
    for (int i = 0; i < array->rank && used < sizeof shape - 24; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, i ? ",%zu" : "%zu", array->shape[i]);
    return cli_failed("%s: %s has the shape (%s), but must be %s", path, array->name, shape, expected);
}

/* Reads an array of I32 or I64 and checks that each number fits; *out stays NULL if there is no such array. */
static int read_integers(const struct cli_inputs *in, const char *path, const char *name, int32_t **out) {
    const struct qkv_array *array = qkv_tensors_find(in->file, name);
    if (!array) return CLI_DONE;
    if (array->dtype != QKV_I32 && array->dtype != QKV_I64) return cli_failed("%s: %s must be I32 or I64", path, name);
    size_t n = qkv_array_elements(array);
    if (!(*out = malloc(n ? n * sizeof **out : 1))) return cli_failed("out of memory");
    for (size_t i = 0; i < n; i++) {
        int64_t wide;
        if (array->dtype == QKV_I32) {
            memcpy(*out + i, (const char *)array->data + 4 * i, 4);
            continue;
        }
        memcpy(&wide, (const char *)array->data + 8 * i, 8);
        if (wide < INT32_MIN || wide > INT32_MAX)
            return cli_failed("%s: element %zu of %s is %lld, which is not a token id", path, i, name, (long long)wide);
        (*out)[i] = (int32_t)wide;
    }
    return CLI_DONE;
}

/* Checks that an array, if it is there, has the shape (rows), or (rows, columns) if columns > 0. */
static int check_shape(const struct cli_inputs *in, const char *path, const char *name, size_t rows, size_t columns) {
    const struct qkv_array *array = qkv_tensors_find(in->file, name);
    char expected[64];
    if (!array) return CLI_DONE;
    if (columns ? array->rank == 2 && array->shape[0] == rows && array->shape[1] == columns
                : array->rank == 1 && array->shape[0] == rows)
        return CLI_DONE;
    snprintf(expected, sizeof expected, columns ? "(%zu,%zu)" : "(%zu)", rows, columns);
    return wrong_shape(array, path, expected);
}

/* Reads the array of a stack that reads numbers instead of tokens; sets B, and T to the positions that it yields. */
static int read_features(struct cli_inputs *in, const struct qkv_stack_spec *stack, const char *path, size_t *B,
                         size_t *T, size_t *frames) {
    const struct qkv_input_spec *input = &stack->embed.input;
    const char *name = input->kind == QKV_INPUT_PATCHES  ? "in.pixels"
                       : input->kind == QKV_INPUT_FRAMES ? "in.features"
                                                         : "in.vectors";
    const struct qkv_array *array = qkv_tensors_find(in->file, name);
    char expected[80];
    if (!array) return cli_failed("%s has no %s, which this model reads", path, name);
    const size_t *shape = array->shape, channels = (size_t)input->channels;
    bool right = array->rank == 3 && shape[0] && shape[1] && shape[2];
    if (input->kind == QKV_INPUT_PATCHES) {
        snprintf(expected, sizeof expected, "(B,%d,%d,%d)", input->channels, input->height, input->width);
        right = array->rank == 4 && shape[0] && shape[1] == channels && shape[2] == (size_t)input->height &&
                shape[3] == (size_t)input->width;
        *T = qkv_stack_patches(stack);
    } else if (input->kind == QKV_INPUT_FRAMES) {
        snprintf(expected, sizeof expected, "(B,%d,frames)", input->channels);
        right = right && shape[1] == channels;
        *frames = shape[2];
        *T = shape[2] ? (shape[2] - 1) / (size_t)input->stride + 1 : 0;
    } else {
        snprintf(expected, sizeof expected, "(B,T,%d)", input->channels);
        right = right && shape[2] == channels;
        *T = shape[1];
    }
    if (!right) return wrong_shape(array, path, expected);
    *B = shape[0];
    if (!(in->features = malloc(qkv_array_elements(array) * sizeof *in->features))) return cli_failed("out of memory");
    qkv_array_floats(array, in->features);
    return CLI_DONE;
}

/* Reads ids, or the numbers in their place; they determine B and T. */
static int read_ids(struct cli_inputs *in, const struct qkv_spec *spec, const char *path) {
    const struct qkv_stack_spec *stack = spec->decoder.layers ? &spec->decoder : &spec->encoder;
    const struct qkv_array *ids = qkv_tensors_find(in->file, "in.ids");
    struct qkv_batch *batch = &in->batch;
    if (stack->embed.input.kind != QKV_INPUT_TOKENS) {
        int code = read_features(in, stack, path, &batch->B, &batch->T, &batch->frames);
        batch->features = in->features;
        return code;
    }
    if (!ids) return cli_failed("%s has no in.ids", path);
    if (ids->rank != 2 || !ids->shape[0] || !ids->shape[1]) return wrong_shape(ids, path, "(B,T), neither of them 0");
    batch->B = ids->shape[0];
    batch->T = ids->shape[1];
    return CLI_DONE;
}

/* Reads what the encoder of an encoder-decoder reads. */
static int read_source(struct cli_inputs *in, const struct qkv_spec *spec, const char *path) {
    const bool both = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    const struct qkv_array *source = qkv_tensors_find(in->file, "in.source");
    struct qkv_batch *batch = &in->batch;
    size_t B = 0;
    if (both && spec->encoder.embed.input.kind != QKV_INPUT_TOKENS) {
        int code = read_features(in, &spec->encoder, path, &B, &batch->source_T, &batch->source_frames);
        if (!code && B != batch->B)
            code = cli_failed("%s has %zu rows for the encoder and %zu for the decoder; they must be equal", path, B,
                              batch->B);
        batch->source_features = in->features;
        return code;
    }
    if (both && !source) return cli_failed("%s has no in.source, which the encoder of this model reads", path);
    if (!both && source) return cli_failed("%s has in.source, but this model is no encoder-decoder", path);
    if (source && (source->rank != 2 || source->shape[0] != batch->B || !source->shape[1]))
        return wrong_shape(source, path, "(B,source T) with the B of in.ids");
    batch->source_T = source ? source->shape[1] : 0;
    return CLI_DONE;
}

static int read_shapes(struct cli_inputs *in, const struct qkv_spec *spec, const char *path) {
    struct qkv_batch *batch = &in->batch;
    int code = read_ids(in, spec, path);
    if (!code) code = read_source(in, spec, path);
    if (code) return code;
    if (spec->head.kind == QKV_HEAD_NONE && qkv_tensors_find(in->file, "in.targets"))
        return cli_failed("%s has in.targets, but this model has no head; give in.output_gradient instead", path);
    code = check_shape(in, path, "in.lengths", batch->B, 0);
    if (!code) code = check_shape(in, path, "in.source_lengths", batch->B, 0);
    if (!code) code = check_shape(in, path, "in.token_types", batch->B, batch->T);
    if (!code) code = check_shape(in, path, "in.source_token_types", batch->B, batch->source_T);
    if (!code)
        code = check_shape(in, path, "in.targets", batch->B, spec->head.kind == QKV_HEAD_CLASSIFY ? 0 : batch->T);
    return code;
}

static int read_output_gradient(struct cli_inputs *in, const struct qkv_spec *spec, const char *path) {
    const struct qkv_array *array = qkv_tensors_find(in->file, "in.output_gradient");
    char expected[96];
    if (!array) return CLI_DONE;
    if (spec->head.kind != QKV_HEAD_NONE)
        return cli_failed("%s has in.output_gradient, but this model has a head; give in.targets instead", path);
    snprintf(expected, sizeof expected, "(%zu,%zu,%d)", in->batch.B, in->batch.T, qkv_spec_width(spec));
    if (array->rank != 3 || array->shape[0] != in->batch.B || array->shape[1] != in->batch.T ||
        array->shape[2] != (size_t)qkv_spec_width(spec))
        return wrong_shape(array, path, expected);
    if (!(in->output_gradient = malloc(qkv_array_elements(array) * sizeof(float)))) return cli_failed("out of memory");
    qkv_array_floats(array, in->output_gradient);
    return CLI_DONE;
}

int cli_inputs_read(struct qkv_context *ctx, const struct qkv_spec *spec, const char *path, struct cli_inputs *in) {
    /* the pass refuses longer rows with a better message */
    const size_t context = (size_t)spec->context, source = (size_t)qkv_stack_context(spec, &spec->encoder);
    if (qkv_tensors_open(ctx, path, &in->file)) return cli_broken(ctx);
    int code = read_shapes(in, spec, path);
    if (!code) code = read_integers(in, path, "in.ids", &in->ids);
    if (!code) code = read_integers(in, path, "in.lengths", &in->lengths);
    if (!code) code = read_integers(in, path, "in.targets", &in->targets);
    if (!code) code = read_integers(in, path, "in.source", &in->source);
    if (!code) code = read_integers(in, path, "in.source_lengths", &in->source_lengths);
    if (!code) code = read_integers(in, path, "in.token_types", &in->types);
    if (!code) code = read_integers(in, path, "in.source_token_types", &in->source_types);
    if (!code) code = read_output_gradient(in, spec, path);
    in->batch.ids = in->ids;
    in->batch.lengths = in->lengths;
    in->batch.targets = in->targets;
    in->batch.source = in->source;
    in->batch.source_lengths = in->source_lengths;
    in->batch.types = in->types;
    in->batch.source_types = in->source_types;
    in->batch.length = in->batch.T < context ? in->batch.T : context;
    in->batch.source_length = in->batch.source_T < source ? in->batch.source_T : source;
    in->batch.output_gradient = in->output_gradient;
    return code;
}

int cli_inputs_set_prefix(struct cli_inputs *in, int64_t prefix) {
    if (prefix < 0) return CLI_DONE;
    if (!(in->prefix = malloc(in->batch.B * sizeof *in->prefix))) return cli_failed("out of memory");
    for (size_t b = 0; b < in->batch.B; b++) {
        const int64_t max = in->lengths ? in->lengths[b] : (int64_t)in->batch.T;
        in->prefix[b] = (int32_t)(prefix < max ? prefix : max > 0 ? max : 0);
    }
    in->batch.prefix = in->prefix;
    return CLI_DONE;
}
