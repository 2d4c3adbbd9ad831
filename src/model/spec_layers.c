/* Questions about a stack, its kinds of layers, and kinds of positions. */
#include "attention/attention.h"
#include "model/spec_tables.h"

#include <string.h>

int qkv_stack_width(const struct qkv_spec *spec, const struct qkv_stack_spec *stack) {
    if (!spec || !stack) return 0;
    return stack->d_model ? stack->d_model : spec->d_model;
}

int qkv_spec_width(const struct qkv_spec *spec) {
    if (!spec) return 0;
    return qkv_stack_width(spec, spec->decoder.layers ? &spec->decoder : &spec->encoder);
}

int qkv_stack_context(const struct qkv_spec *spec, const struct qkv_stack_spec *stack) {
    if (!spec || !stack) return 0;
    const bool source = stack == &spec->encoder && spec->decoder.layers != 0;
    return source && spec->source_context ? spec->source_context : spec->context;
}

size_t qkv_spec_source_length(const struct qkv_spec *spec, size_t T) {
    const size_t most = (size_t)qkv_stack_context(spec, &spec->encoder);
    const bool frames = spec->encoder.layers && spec->encoder.embed.input.kind == QKV_INPUT_FRAMES;
    return frames || T > most ? most : T;
}

int qkv_token_width(const struct qkv_spec *spec, const struct qkv_stack_spec *stack) {
    if (!spec || !stack) return 0;
    return stack->embed.width ? stack->embed.width : qkv_stack_width(spec, stack);
}

int qkv_position_width(const struct qkv_spec *spec, const struct qkv_stack_spec *stack) {
    if (!spec || !stack) return 0;
    const bool narrow = stack->embed.width && stack->embed.project == QKV_PROJECT_END;
    return narrow ? stack->embed.width : qkv_stack_width(spec, stack);
}

const struct qkv_layer_spec *qkv_stack_layer(const struct qkv_stack_spec *stack, size_t layer) {
    if (!stack) return NULL;
    return &stack->kinds[stack->kind_of[layer]];
}

size_t qkv_stack_weights_of(const struct qkv_stack_spec *stack, size_t layer) {
    return stack ? qkv_stack_first_of_group((size_t)stack->layers, (size_t)stack->share, layer) : 0;
}

size_t qkv_stack_first_of_group(size_t layers, size_t groups, size_t layer) {
    if (!groups) return layer;
    const size_t group = layer * groups / layers;
    return (group * layers + groups - 1) / groups;
}

const struct qkv_layer_spec *qkv_stack_find_causal(const struct qkv_stack_spec *stack, bool causal) {
    if (!stack) return NULL;
    for (int i = 0; i < stack->kind_count; i++)
        if (stack->kinds[i].attention.causal == causal) return &stack->kinds[i];
    return NULL;
}

static bool stack_drops(const struct qkv_spec *spec, const struct qkv_stack_spec *stack) {
    bool drops = stack->layers && qkv_dropout_rate(stack->embed.dropout, spec->dropout) > 0;
    for (int i = 0; stack->layers && i < stack->kind_count && !drops; i++) {
        const struct qkv_layer_spec *kind = &stack->kinds[i];
        const bool cross = stack == &spec->decoder && spec->encoder.layers;
        drops = qkv_dropout_rate(kind->attention.dropout, spec->dropout) > 0 || kind->ffn.dropout > 0 ||
                qkv_dropout_rate(kind->residual_dropout, spec->dropout) > 0 ||
                (cross && qkv_dropout_rate(kind->cross.dropout, spec->dropout) > 0);
    }
    return drops;
}

bool qkv_spec_drops(const struct qkv_spec *spec) {
    if (!spec) return false;
    return stack_drops(spec, &spec->encoder) || stack_drops(spec, &spec->decoder);
}

void qkv_kind_text(const char *stack, const struct qkv_layer_spec *kind, char text[QKV_KIND_TEXT]) {
    snprintf(text, QKV_KIND_TEXT, "%.16s%s%.*s", stack, kind->name[0] ? ".kinds." : "", QKV_KIND_NAME, kind->name);
}

bool qkv_position_in_attention(enum qkv_position_kind kind) {
#define SPEC_WRITTEN_IS(name, text, help, file) || kind == QKV_POSITION_##name
    return false QKV_ATTENTION_POSITION_LIST(SPEC_WRITTEN_IS);
}

bool qkv_position_in_embedding(enum qkv_position_kind kind) {
    return false QKV_EMBED_POSITION_LIST(SPEC_WRITTEN_IS);
#undef SPEC_WRITTEN_IS
}

size_t qkv_stack_period(const struct qkv_stack_spec *stack) {
    size_t layers = (size_t)stack->layers;
    for (size_t period = 1; period < layers; period++) {
        size_t i = period;
        while (layers % period == 0 && i < layers && stack->kind_of[i] == stack->kind_of[i - period]) i++;
        if (i == layers) return period;
    }
    return layers;
}

bool qkv_kind_name_valid(const char *name) {
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 0 && n < QKV_KIND_NAME && name[n] == 0;
}

double qkv_scale_beside(enum qkv_position_kind position, int d_model) {
    return position == QKV_POSITION_SINUSOIDAL ? sqrt(d_model) : 1;
}

bool qkv_place_has_one_kind(const struct qkv_place *p) {
    return !p->stack->kinds[0].name[0];
}

bool qkv_place_beside_an_encoder(const struct qkv_place *p) {
    bool of_kinds = p->object == (void *)p->stack && !qkv_place_has_one_kind(p);
    return p->stack == &p->spec->decoder && p->spec->encoder.layers != 0 && !of_kinds;
}
