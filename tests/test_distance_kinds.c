/* test_distance_kinds: stacks in which some kinds of layers learn distance biases: the table reaches the layers of
 * its kinds and no others. The golden case distance_kinds anchors the numbers. */
/* labels: numeric quick */
#include "model_grid.h"
#include "weights.h"

enum { KIND_SETS = 72 };

/* A stack of two kinds, "a" with the position `first` and "b" with `second`, with the same number of heads, alone or
 * with another stack. */
static void start_kinds(struct sample *s, uint64_t stream, const char *first, const char *second) {
    memset(s, 0, sizeof *s);
    s->random = test_random(stream);
    const bool encoder = qkv_random_below(&s->random, 2);
    OWNED_SPEC struct qkv_spec spec = {0};
    char json[1200];
    snprintf(
        json, sizeof json,
        "{\"format\": \"qkv\", \"version\": 2, \"vocab\": %d, \"d_model\": 16, \"context\": %d, \"tie\": \"none\", "
        "\"%s\": {\"layers\": 4, \"attention\": {\"heads\": 2, \"window\": %s}, \"ffn\": {\"kind\": \"tanh\"}, "
        "\"kinds\": {\"a\": {\"attention\": {\"position\": %s}}, \"b\": {\"attention\": {\"position\": %s}}}, "
        "\"pattern\": [%s]}}",
        VOCAB, CONTEXT, encoder ? "encoder" : "decoder", PICK(&s->random, "0", "4"), first, second,
        PICK(&s->random, "\"a\", \"b\"", "\"b\", \"a\"", "\"a\", \"b\", \"b\", \"a\""));
    assert_int_equal(qkv_context_create(&s->ctx, NULL), QKV_OK);
    if (qkv_spec_parse(s->ctx, &spec, "kinds", json, strlen(json), NULL, 0)) fail_msg("%s", qkv_message(s->ctx));
    if (qkv_model_create(s->ctx, &spec, qkv_random_bits(&s->random), &s->model)) fail_msg("%s", qkv_message(s->ctx));
    for (size_t n = 0; n < (size_t)B * T; n++) {
        s->ids[n] = (int32_t)qkv_random_below(&s->random, VOCAB);
        s->targets[n] = (int32_t)qkv_random_below(&s->random, VOCAB);
    }
    for (size_t b = 0; b < B; b++) s->lengths[b] = b ? (int32_t)test_between(&s->random, 1, T) : T;
    s->batch = (struct qkv_batch){.B = B, .T = T, .ids = s->ids, .lengths = s->lengths, .targets = s->targets};
}

/* The layers of a kind give nothing to the stream. */
static void silence(struct sample *s, const char *kind) {
    const struct qkv_spec *spec = qkv_model_spec(s->model);
    const bool encoder = spec->encoder.layers;
    const struct qkv_stack_spec *stack = encoder ? &spec->encoder : &spec->decoder;
    char start[60];
    for (int layer = 0; layer < stack->layers; layer++) {
        snprintf(start, sizeof start, "%s.layers.%d.attn.o", encoder ? "encoder" : "decoder", layer);
        for (size_t i = 0;
             i < qkv_model_parameters(s->model) && !strcmp(stack->kinds[stack->kind_of[layer]].name, kind); i++) {
            const struct qkv_array *p = qkv_model_parameter(s->model, i);
            float *w = test_weights_mutable(s->model, i);
            for (size_t k = 0; k < qkv_array_elements(p) && !strncmp(p->name, start, strlen(start)); k++) w[k] = 0;
        }
    }
}

/* Draws new weights of distance biases; returns how many. */
static size_t redraw(struct sample *s) {
    size_t count = 0;
    for (size_t i = 0; i < qkv_model_parameters(s->model); i++) {
        const struct qkv_array *p = qkv_model_parameter(s->model, i);
        float *w = test_weights_mutable(s->model, i);
        if (!strstr(p->name, ".buckets") && !strstr(p->name, ".relative") && !strstr(p->name, ".slopes")) continue;
        for (size_t k = 0; k < qkv_array_elements(p); k++, count++) w[k] = (float)qkv_random_normal(&s->random);
    }
    return count;
}

/* Whether new tables change the scores where the layers of one kind are silent. */
static bool tables_reach(uint64_t stream, const char *first, const char *second, const char *silent) {
    struct sample s;
    start_kinds(&s, stream, first, second);
    silence(&s, silent);
    if (!redraw(&s)) fail_msg("no weights of distances: %s and %s", first, second);
    struct qkv_pass *pass = make_pass(&s, true);
    forward(&s, pass);
    float *before = copy_output(pass);
    redraw(&s);
    forward(&s, pass);
    const float *after = qkv_pass_output(pass).data;
    bool changed = false; /* of the rows that are no padding */
    for (size_t b = 0; b < B; b++)
        changed = changed || memcmp(before + b * T * VOCAB, after + b * T * VOCAB,
                                    (size_t)s.lengths[b] * VOCAB * sizeof *after) != 0;
    free(before);
    qkv_pass_free(pass);
    finish(&s);
    return changed;
}

static const char *const learned[] =
    {"{\"kind\": \"buckets\", \"buckets\": 8, \"max_distance\": 6}",
     "{\"kind\": \"relative\", \"max_distance\": 4}",
     "{\"kind\": \"alibi\", \"learn\": true}",
     "{\"kind\": \"buckets\", \"buckets\": 8, \"max_distance\": 6, \"per_layer\": true}",
     "{\"kind\": \"relative\", \"max_distance\": 4, \"per_layer\": true}",
     "{\"kind\": \"alibi\", \"learn\": true, \"per_layer\": true}"},
                         *const fixed[] = {"{\"kind\": \"none\"}", "{\"kind\": \"rope\"}", "{\"kind\": \"alibi\"}"};

static void tables_of_distances_reach_the_layers_of_their_kind_alone(void **state) {
    (void)state;
    for (uint64_t i = 0; i < KIND_SETS; i++) {
        const char *table = learned[i % TEST_COUNT(learned)], *none = fixed[i / 6 % TEST_COUNT(fixed)];
        if (tables_reach(9600 + i, table, none, "a")) fail_msg("the table of %s reaches layers of %s", table, none);
        if (tables_reach(9600 + i, none, table, "b")) fail_msg("%s has the table of %s", none, table);
        if (!tables_reach(9600 + i, table, none, "b"))
            fail_msg("the table of %s reaches nothing beside %s", table, none);
        if (!tables_reach(9600 + i, none, table, "a"))
            fail_msg("the table of %s reaches nothing behind %s", table, none);
        if (!tables_reach(9600 + i, table, table, "a")) fail_msg("the second kind of %s has no table", table);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_of_distances_reach_the_layers_of_their_kind_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
