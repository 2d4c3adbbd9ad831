/* test_packed.c: packed batches, as rows without padding, over random specs: the bits of the rectangles with the
 * same sequences, forward and backward; vectors instead of ids, positions, chosen rows, and refusals. */
/* labels: numeric quick */
#include "model_grid.h"
#include "weights.h"

#include <math.h>

#include "model/model.h"

/* The sample's batch, packed. */
struct packed {
    int32_t ids[B * T], targets[B * T], source[B * T], cu_rows[B + 1], cu_source[B + 1];
    struct qkv_batch batch;
};

static size_t pack(const int32_t *from, const int32_t *lengths, int32_t *to, int32_t *cu) {
    size_t n = 0;
    for (size_t b = 0; b < B; b++) {
        cu[b] = (int32_t)n;
        for (size_t t = 0; t < (size_t)lengths[b]; t++) to[n++] = from[b * T + t];
    }
    cu[B] = (int32_t)n;
    return n;
}

static void pack_sample(const struct sample *s, struct packed *p) {
    p->batch = s->batch;
    p->batch.rows = pack(s->ids, s->lengths, p->ids, p->cu_rows);
    pack(s->targets, s->lengths, p->targets, p->cu_rows);
    p->batch.source_rows = pack(s->source, s->source_lengths, p->source, p->cu_source);
    p->batch.ids = p->ids, p->batch.targets = p->targets, p->batch.source = p->source;
    p->batch.cu_rows = p->cu_rows, p->batch.cu_source = p->cu_source;
    p->batch.lengths = p->batch.source_lengths = NULL;
}

/* A sample with a head of kind i % 3 where its model can have one, and with dropout. */
static void start_kind(struct sample *s, uint64_t i, bool drops) {
    const struct qkv_context_options options = {.size = sizeof options, .precision = i % 2 ? QKV_MIXED_BF16 : QKV_FP32};
    const enum topology topology = (enum topology)(i % 3);
    start(s, 2000 + i, topology, &options);
    s->ctx->threads = 1 + (int)(i % 4 ? i % 4 - 1 : 0);
    OWNED_SPEC struct qkv_spec spec = test_model_spec(s->model);
    struct qkv_model *model;
    if (topology == ENCODER && i / 3 % 3) {
        spec.tie = QKV_TIE_NONE;
        spec.head.kind = i / 3 % 3 == 1 ? QKV_HEAD_NONE : QKV_HEAD_CLASSIFY;
        spec.head.pool = i / 9 % 2 ? QKV_POOL_FIRST : QKV_POOL_MEAN;
        spec.head.classes = i / 3 % 3 == 1 ? 0 : 4;
        spec.head.bias = i / 3 % 3 != 1;
        for (size_t b = 0; b < B; b++) s->targets[b] = (int32_t)b;
    }
    drop_everywhere(&spec, drops ? 0.2 : 0);
    assert_ok(s->ctx, qkv_model_create(s->ctx, &spec, i, &model));
    qkv_model_free(s->model);
    s->model = model;
    s->batch.dropout_seed = i;
}

static bool is_classifier(const struct sample *s) {
    return qkv_model_spec(s->model)->head.kind == QKV_HEAD_CLASSIFY;
}

struct outcome {
    double loss;
    float *output, *gradients;
    size_t floats, outputs;
};

static struct outcome run(struct sample *s, struct qkv_pass *pass, const struct qkv_batch *batch) {
    struct outcome out = {.floats = s->model->weights.floats};
    assert_ok(s->ctx, qkv_pass_forward(pass, batch));
    out.loss = qkv_pass_loss(pass, NULL);
    const struct qkv_array y = qkv_pass_output(pass);
    out.outputs = qkv_array_elements(&y);
    out.output = copy_output(pass);
    assert_ok(s->ctx, qkv_pass_backward(pass));
    out.gradients = malloc(out.floats * sizeof(float));
    memcpy(out.gradients, s->model->weights.gradients, out.floats * sizeof(float));
    qkv_model_clear_gradients(s->model);
    return out;
}

static void outcome_free(struct outcome *out) {
    free(out->output), free(out->gradients);
}

static void expect_same_bits(const struct outcome *a, const struct outcome *b) {
    assert_true(a->loss == b->loss);
    assert_memory_equal(a->gradients, b->gradients, a->floats * sizeof(float));
}

/* The rows of a rectangle (B,T,columns) are those of the packed matrix, and zeros past the lengths. */
static void expect_same_rows(const struct sample *s, const struct outcome *rectangle, const struct outcome *packed) {
    const size_t columns = rectangle->outputs / (B * T);
    const float *row = packed->output;
    for (size_t n = 0; n < (size_t)B * T; n++) {
        const float *y = rectangle->output + n * columns;
        if ((int64_t)(n % T) < s->lengths[n / T]) {
            assert_memory_equal(y, row, columns * sizeof *y);
            row += columns;
            continue;
        }
        for (size_t c = 0; c < columns; c++) assert_true(y[c] == 0);
    }
    assert_int_equal(row - packed->output, packed->outputs);
}

/* Some rows of some heads, of all stages. */
static void expect_same_weights(struct sample *s, struct qkv_pass *a, struct qkv_pass *b) {
    struct qkv_array w, v;
    for (size_t i = 0; qkv_pass_attention(a, i, &w); i++) {
        float one[T * T], other[T * T];
        assert_true(qkv_pass_attention(b, i, &v));
        assert_memory_equal(v.shape, w.shape, sizeof w.shape);
        const size_t row = qkv_random_below(&s->random, B), h = qkv_random_below(&s->random, w.shape[1]);
        const enum qkv_attention_stage stage =
            (enum qkv_attention_stage)qkv_random_below(&s->random, QKV_ATTENTION_DROPPED + 1);
        assert_ok(s->ctx, qkv_pass_weights(a, i, stage, row, h, 0, w.shape[2], one));
        assert_ok(s->ctx, qkv_pass_weights(b, i, stage, row, h, 0, w.shape[2], other));
        assert_memory_equal(one, other, w.shape[2] * w.shape[3] * sizeof(float));
    }
}

/* Groups of whole rows, as a trainer tells a pass; none for i % 4 = 0. */
static struct qkv_pass *kind_pass(struct sample *s, uint64_t i, struct qkv_pass_options o, double *losses) {
    const struct qkv_pass_part part = {
        .groups = 2 + i / 4 % 2, .first = {0, 1, i / 4 % 2 ? 2 : 3, 3}, .first_row = 5, .losses = losses};
    struct qkv_pass *pass;
    o.B = B, o.T = T, o.source_T = T, o.train = true, o.logits = true;
    assert_ok(s->ctx, qkv_pass_create_ordered(s->model, &o, i % 4 ? B : 0, &pass));
    if (i % 4) qkv_pass_set_part(pass, &part);
    return pass;
}

static void packed_batches_have_the_bits_of_rectangles(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 48; i++) {
        struct sample s;
        struct packed p;
        float given[B * T * 20], rows[B * T * 20];
        double losses[2][QKV_GROUPS_MAX] = {{0}};
        start_kind(&s, i, i / 2 % 2);
        pack_sample(&s, &p);
        const int32_t prefix[B] = {3, s.lengths[1], 0};
        if (i % 3 == DECODER && i % 4 < 2) s.batch.prefix = p.batch.prefix = prefix;
        const bool checkpoint = i % 5 == 4;
        const struct qkv_pass_options o = {
            .size = sizeof o, .dropout = true, .checkpoint = checkpoint, .weights = !checkpoint};
        if (qkv_model_spec(s.model)->head.kind == QKV_HEAD_NONE) {
            test_fill(&s.random, given, TEST_COUNT(given), 1);
            for (size_t n = 0, to = 0; n < (size_t)B * T; n++)
                if ((int64_t)(n % T) < s.lengths[n / T]) memcpy(rows + 20 * to++, given + 20 * n, 20 * sizeof *rows);
            s.batch.output_gradient = given, p.batch.output_gradient = rows;
        }
        if (is_classifier(&s)) p.batch.targets = s.targets;
        struct qkv_pass *rectangle = kind_pass(&s, i, o, losses[0]), *packed = kind_pass(&s, i, o, losses[1]);
        struct outcome a = run(&s, rectangle, &s.batch), b = run(&s, packed, &p.batch);
        expect_same_bits(&a, &b);
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
        if (is_classifier(&s))
            assert_memory_equal(a.output, b.output, a.outputs * sizeof(float));
        else
            expect_same_rows(&s, &a, &b);
        expect_same_weights(&s, rectangle, packed);
        p.batch.T = p.batch.source_T =
            0; /* counted: masks of dropout are numbered by another T, unless rows have groups */
        struct outcome c = run(&s, packed, &p.batch);
        if (!(qkv_model_spec(s.model)->dropout > 0)) expect_same_bits(&a, &c);
        outcome_free(&a), outcome_free(&b), outcome_free(&c);
        qkv_pass_free(rectangle), qkv_pass_free(packed);
        finish(&s);
    }
}

/* ---- vectors ---------------------------------------------------------------------------------------------------- */

static size_t find_tokens(const struct sample *s, const char *name, size_t *at) {
    *at = 0;
    for (size_t i = 0; i < qkv_model_parameters(s->model); i++) {
        const struct qkv_array *w = qkv_model_parameter(s->model, i);
        if (!strcmp(w->name, name)) return i;
        *at += qkv_array_elements(w);
    }
    fail_msg("there is no %s", name);
    return 0;
}

/* What the embedding of each row is multiplied by, as spec.h says it of masks. */
static void factor_rows(const struct sample *s, const struct qkv_batch *batch, const struct qkv_masked_spec *rule,
                        float *factors) {
    for (size_t n = 0; n < (size_t)B * T; n++) factors[n] = 1;
    for (size_t b = 0; b < B && rule->given; b++) {
        const size_t first = batch->cu_rows ? (size_t)batch->cu_rows[b] : b * T, count = (size_t)s->lengths[b];
        size_t masks = 0;
        for (size_t n = first; n < first + count; n++) masks += batch->ids[n] == rule->token;
        for (size_t n = first; n < first + count; n++)
            factors[n] =
                batch->ids[n] == rule->token ? 0 : (float)((1 - rule->share) * (double)count / (double)(count - masks));
    }
}

/* Embeddings given as vectors: the bits of the ids; and their gradient, added up by id, is what the table lacks. Masks
 * are no vectors: they are counted before. */
static void vectors_do_what_their_ids_do(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 24; i++) {
        const struct qkv_context_options exact = {.size = sizeof exact, .precision = QKV_FP32};
        struct sample s;
        struct packed p;
        size_t at;
        start(&s, 2100 + i, (enum topology)(i % 3), &exact);
        pack_sample(&s, &p);
        const size_t token =
            find_tokens(&s, i % 3 == ENCODER ? "encoder.embed.token.weight" : "decoder.embed.token.weight", &at);
        const float *table = test_weights_mutable(s.model, token);
        const struct qkv_spec *spec = qkv_model_spec(s.model);
        const struct qkv_stack_spec *stack = i % 3 == ENCODER ? &spec->encoder : &spec->decoder;
        const float scale = (float)stack->embed.scale;
        const size_t C = (size_t)qkv_token_width(spec, stack);
        enum { WIDEST = 20 };
        float inputs[B * T * WIDEST], gradient[B * T * WIDEST] = {0}, factors[B * T];
        double sums[VOCAB * WIDEST] = {0};
        assert_true(C <= WIDEST);
        struct qkv_pass *pass = make_pass(&s, true);
        struct qkv_batch batch = i / 3 % 2 ? p.batch : s.batch;
        struct outcome ids = run(&s, pass, &batch);
        const size_t rows = i / 3 % 2 ? batch.rows : (size_t)B * T;
        factor_rows(&s, &batch, &stack->embed.masked, factors);
        for (size_t n = 0; n < rows * C; n++)
            inputs[n] = scale * table[(size_t)batch.ids[n / C] * C + n % C] * factors[n / C];
        const int32_t *which = batch.ids;
        batch.ids = NULL, batch.inputs = inputs, batch.input_gradient = gradient;
        struct outcome vectors = run(&s, pass, &batch);
        assert_true(vectors.loss == ids.loss);
        assert_memory_equal(vectors.output, ids.output, ids.outputs * sizeof(float));
        for (size_t n = 0; n < rows * C; n++)
            sums[(size_t)which[n / C] * C + n % C] += (double)scale * (double)factors[n / C] * (double)gradient[n];
        double off = 0, size = 1e-12;
        for (size_t k = 0; k < VOCAB * C; k++) {
            off += pow((double)ids.gradients[at + k] - (double)vectors.gradients[at + k] - sums[k], 2);
            size += pow((double)ids.gradients[at + k], 2);
        }
        if (!(sqrt(off) <= 1e-4 * sqrt(size)))
            fail_msg("spec %d: gradients are %g of %g apart", (int)i, sqrt(off), sqrt(size));
        outcome_free(&ids), outcome_free(&vectors);
        qkv_pass_free(pass);
        finish(&s);
    }
}

/* ---- chosen rows ------------------------------------------------------------------------------------------------ */

/* Each row with odds of 1 in 3, of a rectangle or of packed rows; places: of each of them in all outputs. */
static size_t choose(struct sample *s, const struct qkv_batch *b, size_t *scored) {
    size_t n = 0;
    for (size_t at = 0; at < (b->cu_rows ? b->rows : (size_t)B * T); at++) {
        const bool there = b->cu_rows || (int64_t)(at % T) < s->lengths[at / T];
        if (there && !qkv_random_below(&s->random, 3)) scored[n++] = at;
    }
    return n;
}

/* Scores and loss to the bit; the gradient of the head is summed over fewer rows. */
static void chosen_rows_have_the_scores_that_all_rows_have(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 36; i++) {
        struct sample s;
        struct packed p;
        double losses[2][QKV_GROUPS_MAX] = {{0}};
        size_t scored[B * T];
        int32_t targets[B * T], all[B * T];
        start_kind(&s, i % 9 < 6 ? i : i - 6, false); /* no classifier */
        pack_sample(&s, &p);
        struct qkv_batch batch = i / 3 % 2 ? p.batch : s.batch, few = batch;
        few.scored = scored, few.scored_count = choose(&s, &batch, scored);
        few.targets = targets, few.loss_count = batch.loss_count = 7;
        for (size_t n = 0; n < (size_t)B * T; n++) all[n] = QKV_IGNORE;
        for (size_t k = 0; k < few.scored_count; k++) targets[k] = all[scored[k]] = batch.targets[scored[k]];
        batch.targets = all;
        const struct qkv_pass_options o = {.size = sizeof o, .checkpoint = i % 2, .scored = i % 4 < 2 ? B * T : 0};
        struct qkv_pass *whole = kind_pass(&s, i, QKV_OPTIONS(qkv_pass_options, .checkpoint = i % 2), losses[0]);
        struct qkv_pass *chosen = kind_pass(&s, i, o, losses[1]);
        struct outcome a = run(&s, whole, &batch), b = run(&s, chosen, &few);
        const size_t columns = a.outputs / (batch.cu_rows ? batch.rows : (size_t)B * T);
        assert_int_equal(b.outputs, few.scored_count * columns);
        for (size_t k = 0; k < few.scored_count; k++)
            assert_memory_equal(b.output + k * columns, a.output + scored[k] * columns, columns * sizeof(float));
        assert_true(a.loss == b.loss);
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
        double off = 0, size = 1e-12;
        for (size_t k = 0; k < a.floats; k++) {
            off += pow((double)a.gradients[k] - (double)b.gradients[k], 2);
            size += pow((double)a.gradients[k], 2);
        }
        if (!(sqrt(off) <= (s.ctx->precision == QKV_FP32 ? 1e-5 : 1e-3) * sqrt(size)))
            fail_msg("spec %d: gradients are %g of %g apart", (int)i, sqrt(off), sqrt(size));
        outcome_free(&a), outcome_free(&b);
        qkv_pass_free(whole), qkv_pass_free(chosen);
        finish(&s);
    }
}

static void a_pass_for_few_scores_takes_less_memory(void **state) {
    (void)state;
    struct sample s;
    struct qkv_pass *all, *few;
    start(&s, 2300, DECODER, NULL);
    struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = T, .logits = true, .train = true};
    assert_ok(s.ctx, qkv_pass_create(s.model, &o, &all));
    o.scored = 2;
    assert_ok(s.ctx, qkv_pass_create(s.model, &o, &few));
    const size_t scored[] = {1, 3};
    const size_t bytes = qkv_pass_bytes(few);
    s.batch.scored = scored, s.batch.scored_count = 2, s.batch.targets = NULL, s.batch.lengths = NULL;
    assert_ok(s.ctx, qkv_pass_forward(few, &s.batch));
    assert_true(bytes < qkv_pass_bytes(all));
    assert_int_equal(qkv_pass_bytes(few), bytes);
    s.batch.scored_count = 0;
    assert_ok(s.ctx, qkv_pass_forward(few, &s.batch));
    const struct qkv_array none = qkv_pass_output(few);
    assert_int_equal(none.shape[0], 0);
    qkv_pass_free(all), qkv_pass_free(few);
    finish(&s);
}

/* ---- positions -------------------------------------------------------------------------------------------------- */

struct heard {
    float rows[B * T * 20];
};

static void hear(void *user, const struct qkv_hook_point *point) {
    struct heard *h = user;
    if (point->kind == QKV_HOOK_EMBEDDING) memcpy(h->rows, point->values, point->rows * point->columns * sizeof(float));
}

/* Whether a stack reads a sequence only as a whole: its distances are those of rows, or its embedding counts masks. */
static bool needs_all(const struct qkv_stack *stack) {
    if (stack->spec->embed.masked.given) return true;
    for (int k = 0; k < stack->spec->kind_count; k++)
        if (qkv_position_has_distances(&stack->tables[k])) return true;
    return false;
}

/* Some rows of a sequence, at their positions in it, have the embeddings that they have among all rows. Positions
 * that are equal to the default change no bit. */
static void positions_say_where_rows_stand(void **state) {
    (void)state;
    for (uint64_t i = 0, tested = 0; tested < 12; i++) {
        struct sample s;
        struct heard whole, some;
        struct qkv_pass *passes[2];
        int32_t ids[T], positions[T], natural[T];
        size_t from[T], n = 0;
        start(&s, 2400 + i, i % 2 ? ENCODER : DECODER, NULL);
        const bool all = needs_all(i % 2 ? &s.model->encoder : &s.model->decoder);
        for (size_t t = 0; t < T; t++) {
            natural[t] = (int32_t)t;
            if (!all && !qkv_random_below(&s.random, 2)) ids[n] = s.ids[t], positions[n] = (int32_t)t, from[n++] = t;
        }
        for (size_t k = 0; k < 2; k++)
            assert_ok(s.ctx, qkv_pass_create(s.model,
                                             &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = T, .logits = true,
                                                          .hook = hear, .hook_user = k ? &some : &whole),
                                             &passes[k]));
        struct qkv_batch batch = {.B = 1, .T = T, .ids = s.ids};
        assert_ok(s.ctx, qkv_pass_forward(passes[0], &batch));
        float *y = copy_output(passes[0]);
        batch.positions = natural;
        assert_ok(s.ctx, qkv_pass_forward(passes[0], &batch));
        assert_memory_equal(qkv_pass_output(passes[0]).data, y, T * VOCAB * sizeof(float));
        free(y);
        const int32_t cu[] = {0, (int32_t)n};
        batch = (struct qkv_batch){.B = 1, .ids = ids, .cu_rows = cu, .rows = n, .positions = positions};
        if (n) assert_ok(s.ctx, qkv_pass_forward(passes[1], &batch));
        for (size_t k = 0; k < n; k++)
            assert_memory_equal(some.rows + k * 20, whole.rows + from[k] * 20, 20 * sizeof(float));
        tested += n > 0;
        qkv_pass_free(passes[0]), qkv_pass_free(passes[1]);
        finish(&s);
    }
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* A pass for few rows of many sequences takes less memory than one for all possible rows, and the plan is enough. */
static void memory_is_planned_for_the_rows_that_come(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 12; i++) {
        struct sample s;
        struct qkv_pass *all, *few;
        start(&s, 2500 + i, (enum topology)(i % 3), NULL);
        struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = T, .source_T = T, .train = true, .logits = true};
        assert_ok(s.ctx, qkv_pass_create(s.model, &o, &all));
        o.rows = o.source_rows = T;
        assert_ok(s.ctx, qkv_pass_create(s.model, &o, &few));
        const size_t bytes = qkv_pass_bytes(few);
        assert_true(bytes < qkv_pass_bytes(all));
        for (int k = 0; k < 4; k++) {
            struct packed p;
            const size_t first = qkv_random_below(&s.random, T + 1),
                         second = qkv_random_below(&s.random, T + 1 - first);
            s.lengths[0] = s.source_lengths[2] = (int32_t)first, s.lengths[1] = s.source_lengths[1] = (int32_t)second;
            s.lengths[2] = s.source_lengths[0] = (int32_t)(T - first - second);
            pack_sample(&s, &p);
            struct outcome a = run(&s, all, &p.batch), b = run(&s, few, &p.batch);
            expect_same_bits(&a, &b);
            assert_int_equal(qkv_pass_bytes(few), bytes);
            outcome_free(&a), outcome_free(&b);
        }
        qkv_pass_free(all), qkv_pass_free(few);
        finish(&s);
    }
}

/* ---- bad input -------------------------------------------------------------------------------------------------- */

static void refuse(struct sample *s, struct qkv_pass *pass, const struct qkv_batch *batch, const char *sentence) {
    if (qkv_pass_forward(pass, batch) == QKV_OK) fail_msg("a batch is taken that is to be refused: %s", sentence);
    assert_message(s->ctx, sentence);
}

/* Three sequences of 4, 0 and 3 rows. */
static void packed_batches_that_make_no_sense_are_refused(void **state) {
    (void)state;
    struct sample s;
    const struct qkv_context_options exact = {.size = sizeof exact, .precision = QKV_FP32};
    for (uint64_t i = 2600; start(&s, i, DECODER, &exact), needs_all(&s.model->decoder); i++) finish(&s);
    const int32_t cu[] = {0, 4, 4, 7};
    struct qkv_pass *pass;
    const struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = 6, .rows = 9, .logits = true};
    assert_ok(s.ctx, qkv_pass_create(s.model, &o, &pass));
    const struct qkv_batch good = {.B = B, .ids = s.ids, .cu_rows = cu, .rows = 7};
    assert_ok(s.ctx, qkv_pass_forward(pass, &good));
#define REFUSE(sentence, ...)                                                                                          \
    do {                                                                                                               \
        struct qkv_batch b = good;                                                                                     \
        __VA_ARGS__;                                                                                                   \
        refuse(&s, pass, &b, sentence);                                                                                \
    } while (0)
    REFUSE("cu_rows falls from 4 to 3 at sequence 1", b.cu_rows = (const int32_t[]){0, 4, 3, 7});
    REFUSE("cu_rows begins at 1", b.cu_rows = (const int32_t[]){1, 4, 4, 7});
    REFUSE("cu_rows begins at -1", b.cu_rows = (const int32_t[]){-1, 4, 4, 7});
    REFUSE("cu_rows ends at 7, but the batch has 8 rows", b.rows = 8);
    REFUSE("sequence 2 has 17 rows, more than the model's context of 16", b.cu_rows = (const int32_t[]){0, 0, 0, 17});
    REFUSE("sequences of 7 rows, but the pass was made for at most 6", b.cu_rows = (const int32_t[]){0, 0, 0, 7});
    REFUSE("the batch has 10 rows, but the pass was made for at most 9", b.cu_rows = (const int32_t[]){0, 5, 5, 10},
           b.rows = 10);
    REFUSE("sequence 0 has 4 rows, more than the given maximum of 3", b.T = 3);
    REFUSE("leave lengths out", b.lengths = s.lengths);
    REFUSE("give each document one of its own", b.documents = s.ids);
    REFUSE("the prefix of batch row 1 is 1, but the row has 0 to 0", b.prefix = (const int32_t[]){4, 1, 0});
    REFUSE("is (4,0)", b.B = 4);
    REFUSE("positions out of order: sequence 2 goes from 5 to 5", b.positions = (const int32_t[]){0, 1, 2, 3, 4, 5, 5});
    REFUSE("positions out of order: sequence 0 goes from 2 to 1", b.positions = (const int32_t[]){0, 2, 1, 3, 0, 1, 2});
    REFUSE("position 16 of sequence 2", b.positions = (const int32_t[]){0, 1, 2, 3, 4, 5, 16});
    REFUSE("position -1 of sequence 0", b.positions = (const int32_t[]){-1, 1, 2, 3, 4, 5, 6});
    REFUSE("row 7 of 7 is chosen", b.scored = (const size_t[]){2, 7}, b.scored_count = 2);
    REFUSE("row 2 of 7 is chosen; name rows of the batch, each once, in order", b.scored = (const size_t[]){2, 2},
           b.scored_count = 2);
    REFUSE("row 5 is chosen, which is past the length of sequence 0, 3", b.cu_rows = NULL, b.T = 6,
           b.lengths = (const int32_t[]){3, 0, 1}, b.scored = (const size_t[]){5}, b.scored_count = 1);
    float vectors[7 * 20] = {0};
    REFUSE("the batch has ids and inputs; give one of them", b.inputs = vectors);
    REFUSE("the batch has no ids", b.ids = NULL);
    REFUSE("which needs inputs and a pass made with train", b.input_gradient = vectors);
    REFUSE("which needs inputs and a pass made with train", b.ids = NULL, b.inputs = vectors,
           b.input_gradient = vectors);
#undef REFUSE
    assert_ok(s.ctx, qkv_pass_forward(pass, &good));
    qkv_pass_free(pass);
    struct qkv_pass_options bad = {.size = sizeof bad, .B = 2, .T = 4, .rows = 9};
    assert_int_equal(qkv_pass_create(s.model, &bad, &pass), QKV_ARGUMENT);
    assert_message(s.ctx, "9 rows are more than 2 sequences of at most 4 positions have");
    finish(&s);
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_batches_have_the_bits_of_rectangles),
        cmocka_unit_test(vectors_do_what_their_ids_do),
        cmocka_unit_test(chosen_rows_have_the_scores_that_all_rows_have),
        cmocka_unit_test(a_pass_for_few_scores_takes_less_memory),
        cmocka_unit_test(positions_say_where_rows_stand),
        cmocka_unit_test(memory_is_planned_for_the_rows_that_come),
        cmocka_unit_test(packed_batches_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
