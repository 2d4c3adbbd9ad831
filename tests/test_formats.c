/* Types of stored weights: conversions against the definition of IEEE 754 in double arithmetic, and model
 * folders against the same numbers in fp32, bit for bit. test_stored_products.c tests the products alone. */
#include "stored_fixture.h"
#include "weights.h"

#include "type/type.h"
#include "io/safetensors.h"
#include "kernel/kernel.h"
#include "model/model.h"
#include "op/weights.h"

#include <sys/wait.h>

/* ---- conversions ------------------------------------------------------------------------------------------------ */

/* The number of a 16-bit pattern with so many bits of fraction, by the definition: sign, exponent, fraction. */
static double value_of(uint16_t bits, int fraction_bits) {
    const int exponent_bits = 15 - fraction_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1),
              fraction = bits & ((1 << fraction_bits) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

static const struct {
    const struct qkv_type *format;
    int fraction_bits;
} halves[] = {{&qkv_type_f16, 10}, {&qkv_type_bf16, 7}};

static bool same_number(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static void every_pattern_of_16_bits_reads_as_its_definition_says(void **state) {
    (void)state;
    static unsigned char bytes[2 * 65536 + 1]; /* unaligned */
    static float out[65536], own[65536];
    for (size_t h = 0; h < TEST_COUNT(halves); h++) {
        for (uint32_t i = 0; i < 65536; i++) memcpy(bytes + 1 + 2 * i, &(uint16_t){(uint16_t)i}, 2);
        qkv_type_floats(halves[h].format, out, bytes + 1, 65536);
        for (uint32_t i = 0; i < 65536; i++)
            if (!same_number((double)out[i], value_of((uint16_t)i, halves[h].fraction_bits)))
                fail_msg("%s %04x is %g", halves[h].format->name, i, (double)out[i]);
        const int type = qkv_type_of_name(halves[h].format->name);
        const struct qkv_kernels *kernels;
        for (size_t t = 0; (kernels = qkv_kernels_at(t)); t++) {
            if (!kernels->types[type].to_float) continue;
            for (size_t skip = 0; skip < 19; skip++) { /* ragged lengths */
                memset(own, 0, sizeof own);
                kernels->types[type].to_float(own, bytes + 1 + 2 * skip, 65536 - 2 * skip);
                for (size_t i = 0; i < 65536 - 2 * skip; i++)
                    if (!same_number((double)own[i], (double)out[i + skip]))
                        fail_msg("%s, %s: number %zu is %g, not %g", kernels->isa, halves[h].format->name, i,
                                 (double)own[i], (double)out[i + skip]);
                for (size_t i = 65536 - 2 * skip; i < 65536; i++) assert_true(own[i] == 0);
            }
        }
    }
}

static uint16_t written(const struct qkv_type *format, double x) {
    const float in = (float)x;
    unsigned char out[3];
    uint16_t bits;
    qkv_type_quantise(format, out + 1, &in, 1, NULL);
    memcpy(&bits, out + 1, 2);
    return bits;
}

/* Between two neighbours the nearer one, in the middle the even one; past the last one, infinity. */
static void writing_rounds_to_nearest_even(void **state) {
    (void)state;
    for (size_t h = 0; h < TEST_COUNT(halves); h++) {
        const struct qkv_type *f = halves[h].format;
        const int bits = halves[h].fraction_bits;
        const uint16_t infinite = (uint16_t)(0x8000 - (1 << bits));
        for (uint32_t i = 0; i < infinite; i++) {
            const double low = value_of((uint16_t)i, bits);
            const bool last = i + 1u == infinite;
            const double high = last ? 2 * low - value_of((uint16_t)(i - 1), bits) : value_of((uint16_t)(i + 1), bits);
            const double middle = low + (high - low) / 2;
            const uint16_t even = (uint16_t)(i % 2 ? i + 1 : i);
            const struct {
                double x;
                uint16_t expected;
            } cases[] = {{low, (uint16_t)i},
                         {middle, even},
                         {nextafterf((float)middle, -INFINITY), (uint16_t)i},
                         {nextafterf((float)middle, INFINITY), (uint16_t)(i + 1)}};
            for (size_t k = 0; k < TEST_COUNT(cases); k++) {
                if (isinf((float)cases[k].x)) continue; /* half of bf16's last step is past fp32 */
                if (written(f, cases[k].x) != cases[k].expected ||
                    written(f, -cases[k].x) != (cases[k].expected | 0x8000))
                    fail_msg("%s: %a became %04x, not %04x", f->name, cases[k].x, written(f, cases[k].x),
                             cases[k].expected);
            }
        }
        assert_int_equal(written(f, (double)INFINITY), infinite);
        assert_true(isnan(value_of(written(f, (double)NAN), bits)));
    }
}

static void types_are_found_by_their_names(void **state) {
    (void)state;
    const char *name, *help;
    size_t weights = 0;
    for (size_t i = 0; i < QKV_DTYPE_COUNT; i++) {
        const struct qkv_type *f = qkv_types[i];
        assert_true(*f->help);
        assert_int_equal(qkv_type_of_name(f->name), i);
        assert_string_equal(qkv_type_name((enum qkv_dtype)i), f->name);
        if (f->safetensors) assert_int_equal(qkv_type_of_safetensors(f->safetensors), i);
        for (size_t k = 0; k < i; k++) assert_true(f->gguf < 0 || f->gguf != qkv_types[k]->gguf);
        if (qkv_type_is_written(f))
            assert_true(qkv_format_at(weights++, &name, &help) && name == f->name && help == f->help);
        assert_true(f->block >= 1 && f->block <= QKV_TYPE_BLOCK_MAX && (f->block & (f->block - 1)) == 0);
        assert_true(f->kind == QKV_CLASS_BLOCKS || f->block == 1);
        assert_int_equal(qkv_type_size((enum qkv_dtype)i), f->block == 1 ? f->bytes : 0);
        size_t bytes;
        assert_true(qkv_type_bytes(f, 3, 5 * f->block, &bytes) && bytes == 15 * f->bytes);
        assert_int_equal(qkv_type_span((enum qkv_dtype)i, 15 * f->block), bytes);
        assert_false(qkv_type_bytes(f, SIZE_MAX / f->bytes, 4 * f->block, &bytes));
        if (f->block > 1) assert_false(qkv_type_bytes(f, 1, f->block + 1, &bytes));
    }
    assert_true(weights >= 3 && !qkv_format_at(weights, &name, &help));
    assert_int_equal(qkv_type_of_name("f8"), -1);
    assert_int_equal(qkv_type_of_safetensors("f8"), -1);
    assert_null(qkv_type_name(QKV_DTYPE_COUNT));
}

/* ---- model folders ---------------------------------------------------------------------------------------------- */

/* A random type of weights, of those that are multiplied as fp32 and whose blocks rows of so many columns are made
 * of. */
static enum qkv_dtype weight_type(struct qkv_random *r, size_t columns) {
    enum qkv_dtype dtype;
    do dtype = (enum qkv_dtype)qkv_random_below(r, QKV_DTYPE_COUNT);
    while (!qkv_types[dtype]->weights || !qkv_types[dtype]->safetensors || columns % qkv_types[dtype]->block ||
           !is_as_fp32(dtype));
    return dtype;
}

/* Writes the sample's weights into two folders: each rounded to a random type (matrices and vectors), as fp32 and in
 * the type. The order of the tensors is reversed. */
static void write_folders(struct sample *s, const char *plain, const char *stored) {
    const size_t count = qkv_model_parameters(s->model);
    struct qkv_array *arrays = calloc(2 * count, sizeof *arrays);
    char path[700];
    assert_ok(s->ctx, qkv_model_save(s->model, plain));
    assert_ok(s->ctx, qkv_model_save(s->model, stored));
    const bool mixed = qkv_random_below(&s->random, 2);
    const enum qkv_dtype all = qkv_random_below(&s->random, 2) ? QKV_BF16 : QKV_F16;
    for (size_t i = 0; i < count; i++) {
        const struct qkv_array *from = qkv_model_parameter(s->model, count - 1 - i);
        const size_t n = qkv_array_elements(from), columns = from->rank ? from->shape[from->rank - 1] : 1;
        const enum qkv_dtype dtype = mixed ? weight_type(&s->random, columns) : all;
        const struct qkv_type *f = qkv_types[dtype];
        void *bytes = malloc(qkv_type_span(dtype, n));
        float *floats = malloc(n * sizeof *floats);
        qkv_type_quantise(f, bytes, from->data, n, NULL);
        qkv_type_floats(f, floats, bytes, n);
        arrays[i] = arrays[count + i] = *from;
        arrays[i].data = floats;
        arrays[count + i].data = bytes;
        arrays[count + i].dtype = dtype;
        arrays[count + i].bytes = qkv_type_span(dtype, n);
    }
    for (size_t k = 0; k < 2; k++) {
        snprintf(path, sizeof path, "%s/model.safetensors", k ? stored : plain);
        assert_ok(s->ctx, qkv_tensors_write(s->ctx, path, arrays + k * count, count, NULL, 0));
    }
    for (size_t i = 0; i < 2 * count; i++) free((void *)(uintptr_t)arrays[i].data);
    free(arrays);
}

static void load_folder(struct sample *s, const char *folder) {
    qkv_model_free(s->model);
    assert_ok(s->ctx, qkv_model_load(s->ctx, folder, &s->model));
}

static void compute(struct sample *s, enum topology topology, struct qkv_buffer *out) {
    run_pass(s, out);
    if (topology == DECODER) run_session(s, out);
}

static void check_folders(uint64_t stream, enum topology topology, const char *isa, enum qkv_precision precision) {
    struct sample s;
    struct qkv_buffer plain = {0}, stored = {0};
    char a[600], b[600];
    start(&s, stream, topology, &QKV_OPTIONS(qkv_context_options, .threads = 2, .isa = isa, .precision = precision));
    snprintf(a, sizeof a, "%s/plain", test_folder());
    snprintf(b, sizeof b, "%s/stored", test_folder());
    write_folders(&s, a, b);
    load_folder(&s, a);
    assert_null(qkv_weights_stored(&s.model->weights));
    compute(&s, topology, &plain);
    load_folder(&s, b);
    compute(&s, topology, &stored);
    if (plain.size != stored.size || memcmp(plain.data, stored.data, plain.size))
        fail_msg("stream %llu, %s, precision %d: other bits", (unsigned long long)stream, isa, (int)precision);
    qkv_buffer_free(&plain);
    qkv_buffer_free(&stored);
    finish(&s);
}

static void a_folder_in_other_formats_gives_the_bits_of_one_in_fp32(void **state) {
    (void)state;
    const char *isa;
    for (size_t t = 0; (isa = qkv_isa_at(t)); t++)
        for (uint64_t i = 0; i < 6; i++)
            check_folders(200 + 10 * t + i, (enum topology)(i % 3), isa, i % 2 ? QKV_MIXED_BF16 : QKV_FP32);
}

/* A folder all in bf16, made of the sample. */
static void make_bf16(struct sample *s, uint64_t stream, const char *folder) {
    start(s, stream, DECODER, NULL);
    assert_ok(s->ctx, qkv_model_export(s->model, "bf16", folder));
    load_folder(s, folder);
}

static void matrices_in_bf16_take_no_memory_of_the_model(void **state) {
    (void)state;
    struct sample s;
    struct qkv_model *plan;
    make_bf16(&s, 300, test_path("small"));
    assert_ok(s.ctx, qkv_model_plan_load(s.ctx, test_path("small"), &plan));
    assert_int_equal(plan->arena.peak, s.model->arena.peak);
    size_t stored = 0;
    for (size_t i = 0; i < s.model->weights.count; i++) {
        const struct qkv_weight *w = &s.model->weights.list[i];
        /* Norms of each head and sinks are no operands of products, and do not decay. */
        assert_true(w->stored == (w->array.rank == 2 && w->decays));
        assert_int_equal(w->array.dtype, w->stored ? QKV_BF16 : QKV_F32);
        assert_true((test_weights(s.model, i) == NULL) == w->stored);
        if (w->stored) stored += 2 * w->rows * w->columns;
    }
    struct qkv_model *whole; /* all in fp32 */
    assert_ok(s.ctx, qkv_model_plan(s.ctx, qkv_model_spec(s.model), &whole));
    size_t saved = 0;
    for (size_t i = 0; i < s.model->weights.tensor_count; i++) {
        const struct qkv_tensor *t = s.model->weights.tensors[i];
        const size_t bytes = t->rows * t->columns * sizeof(float);
        if (t->operand.stored.count) saved += (bytes + QKV_CACHE_LINE - 1) / QKV_CACHE_LINE * QKV_CACHE_LINE;
    }
    assert_int_equal(s.model->arena.peak + saved, whole->arena.peak);
    qkv_model_free(whole);
    assert_int_equal(qkv_weights_stored_bytes(&s.model->weights), stored);
    struct qkv_costs costs, plain;
    assert_ok(s.ctx, qkv_model_costs(plan, 1, CONTEXT, &costs));
    assert_ok(s.ctx, qkv_measure_costs(s.ctx, qkv_model_spec(plan), 1, CONTEXT, &plain));
    assert_int_equal(costs.parameters, plain.parameters);
    assert_true(costs.parameter_bytes < plain.parameter_bytes && costs.run_bytes < plain.run_bytes);
    assert_int_equal(costs.train_bytes, plain.train_bytes);
    qkv_model_free(plan);
    finish(&s);
}

/* The most memory that this process has had, in bytes. */
static size_t peak_bytes(void) {
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %zu kB", &kib);
    if (file) fclose(file);
    return kib * 1024;
}

/* Decodes a few tokens; the memory that it took. */
static size_t memory_to_run(const char *folder) {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_session *session;
    const size_t before = peak_bytes();
    const int32_t ids[] = {1, 2, 3};
    if (qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 1)) ||
        qkv_model_load(ctx, folder, &model) || qkv_session_create(model, NULL, &session) ||
        qkv_session_append(session, ids, 3))
        return 0;
    return peak_bytes() - before;
}

/* Mapped weights, arenas and little else: as much as the plan says, and much less than the weights in fp32. */
static void decoding_from_bf16_takes_the_memory_of_the_plan(void **state) {
    (void)state;
#ifdef TEST_ADDRESS_SANITIZER
    skip(); /* its shadow is memory too */
#endif
    static const char json[] =
        "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 256, \"d_model\": 512, \"context\": 32, "
        "\"decoder\": {\"layers\": 4, \"attention\": {\"heads\": 8}}}";
    struct qkv_context *ctx;
    struct qkv_model *model;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_costs costs;
    const char *folder = test_path("large");
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 1)), QKV_OK);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "large", json, sizeof json - 1, NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    const size_t whole = model->weights.count ? model->arena.peak : 0;
    assert_ok(ctx, qkv_model_export(model, "bf16", folder));
    qkv_model_free(model);
    assert_ok(ctx, qkv_model_plan_load(ctx, folder, &model));
    assert_ok(ctx, qkv_model_costs(model, 1, 32, &costs));
    qkv_model_free(model);
    int ends[2];
    size_t taken = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        taken = memory_to_run(folder);
        _exit(write(ends[1], &taken, sizeof taken) != sizeof taken);
    }
    assert_int_equal(read(ends[0], &taken, sizeof taken), sizeof taken);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]), close(ends[1]);
    const size_t slack = (size_t)6 << 20; /* graph, heap, pages */
    if (!taken || taken > costs.run_bytes + slack || taken + slack < costs.run_bytes || taken > whole * 3 / 4)
        fail_msg("%zu bytes were taken, the plan says %zu, fp32 weights are %zu", taken, costs.run_bytes, whole);
    qkv_context_free(ctx);
}

static void a_file_that_becomes_shorter_ends_in_a_sentence(void **state) {
    (void)state;
    struct sample s;
    make_bf16(&s, 301, test_path("cut"));
    struct qkv_pass *pass = make_pass(&s, false);
    struct qkv_session *session;
    assert_ok(s.ctx, qkv_session_create(s.model, NULL, &session));
    assert_ok(s.ctx, qkv_pass_forward(pass, &s.batch));
    assert_ok(s.ctx, qkv_session_append(session, s.ids, 2));
    assert_int_equal(truncate(test_path("cut/model.safetensors"), 100), 0);
    assert_status(s.ctx, qkv_pass_forward(pass, &s.batch), QKV_FILE);
    assert_non_null(strstr(qkv_message(s.ctx), "has become shorter"));
    assert_status(s.ctx, qkv_session_append(session, s.ids, 2), QKV_FILE);
    assert_non_null(strstr(qkv_message(s.ctx), "has become shorter"));
    assert_int_equal(qkv_session_length(session), 2);
    qkv_session_free(session);
    qkv_pass_free(pass);
    finish(&s);
}

static void an_optimizer_makes_fp32_of_stored_weights_first(void **state) {
    (void)state;
    struct sample s;
    struct qkv_optimizer *optimizer;
    struct qkv_optimizer_options o = {
        .size = sizeof o, .kind = QKV_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
    struct qkv_buffer before = {0}, after = {0};
    make_bf16(&s, 302, test_path("learns"));
    run_pass(&s, &before);
    assert_ok(s.ctx, qkv_optimizer_create(s.model, &o, &optimizer));
    assert_null(qkv_weights_stored(&s.model->weights));
    run_pass(&s, &after);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    size_t q = 0;
    while (strcmp(qkv_model_parameter(s.model, q)->name, "decoder.layers.0.attn.o.weight") != 0) q++;
    const float old = test_weights(s.model, q)[0];
    assert_ok(s.ctx, qkv_optimizer_step(optimizer, 0.1, 1));
    assert_true(test_weights(s.model, q)[0] != old);
    qkv_optimizer_free(optimizer);
    qkv_buffer_free(&before);
    qkv_buffer_free(&after);
    finish(&s);
}

static void numbers_that_a_format_cannot_hold_are_not_exported(void **state) {
    (void)state;
    struct sample s;
    start(&s, 303, DECODER, NULL);
    test_weights_mutable(s.model, 0)[3] = 70000;
    assert_status(s.ctx, qkv_model_export(s.model, "f16", test_path("large")), QKV_NUMBER);
    assert_non_null(strstr(qkv_message(s.ctx), "choose another format"));
    assert_ok(s.ctx, qkv_model_export(s.model, "bf16", test_path("large")));
    assert_status(s.ctx, qkv_model_export(s.model, "f8", test_path("large")), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(s.ctx), "f32, f16, bf16"));
    finish(&s);
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_of_16_bits_reads_as_its_definition_says),
        cmocka_unit_test(writing_rounds_to_nearest_even),
        cmocka_unit_test(types_are_found_by_their_names),
        cmocka_unit_test(a_folder_in_other_formats_gives_the_bits_of_one_in_fp32),
        cmocka_unit_test(matrices_in_bf16_take_no_memory_of_the_model),
        cmocka_unit_test(decoding_from_bf16_takes_the_memory_of_the_plan),
        cmocka_unit_test(a_file_that_becomes_shorter_ends_in_a_sentence),
        cmocka_unit_test(an_optimizer_makes_fp32_of_stored_weights_first),
        cmocka_unit_test(numbers_that_a_format_cannot_hold_are_not_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
