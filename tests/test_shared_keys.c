/* test_shared_keys: layers that read the keys and values of other layers: which layers these are, bytes of a cache,
 * passes without recording, bits of gradients for groups and threads, and the sentences about shares that cannot be.
 * The golden cases share_* anchor values and gradients; the tests over the grid of specs (model_grid.h) compare caches,
 * checkpoints and differences. */
/* labels: numeric quick */
#include "search_fixture.h"

#define FIXTURE_OPTIONS .threads = 2, .precision = QKV_PRECISION_AUTO
#include "context_fixture.h"

#include "model/decode.h"
#include "model/spec.h"
#include "qkv.h"
#include "weights.h"

/* Two sorts of layers that have keys and values, and layers that read them (as in Gemma 3n). */
static const char json[] =
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 23, \"d_model\": 16, \"context\": 40, \"decoder\": {\"layers\": "
    "7, "
    "\"pattern\": [\"local\", \"global\", \"local\", \"low\", \"high\", \"low\", \"back\"], "
    "\"attention\": {\"heads\": 4, \"kv_heads\": 2, \"position\": {\"kind\": \"rope\"}}, \"kinds\": {"
    "\"local\": {\"attention\": {\"window\": 3}}, \"global\": {}, \"low\": {\"attention\": {\"window\": 3, \"share\": "
    "1}}, "
    "\"high\": {\"attention\": {\"share\": 1}}, \"back\": {\"attention\": {\"window\": 3, \"share\": 4}}}}}";

static struct qkv_spec parse(const char *const *settings, size_t count) {
    struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", json, strlen(json), settings, count));
    return spec;
}

static struct qkv_model *make(const struct qkv_spec *spec) {
    struct qkv_model *m;
    struct qkv_random r = test_random(3);
    assert_ok(ctx, qkv_model_create(ctx, spec, 5, &m));
    for (size_t i = 0; i < qkv_model_parameters(m); i++) {
        float *x = test_weights_mutable(m, i);
        const size_t n = qkv_array_elements(qkv_model_parameter(m, i));
        for (size_t k = 0; k < n; k++) x[k] += 0.2F * (float)qkv_random_normal(&r);
    }
    return m;
}

static void a_layer_reads_the_last_owner_that_its_share_reaches(void **state) {
    (void)state;
    static const size_t owners[] = {0, 1, 2, 2, 1, 2, 0}, ends[] = {7, 5, 6, 4, 5, 6, 7};
    OWNED_SPEC struct qkv_spec spec = parse(NULL, 0);
    struct qkv_model *m = make(&spec);
    for (size_t i = 0; i < TEST_COUNT(owners); i++) {
        assert_int_equal(qkv_stack_keys_of(&spec.decoder, i), owners[i]);
        assert_int_equal(m->decoder.layers[i].keys_of, owners[i]);
        assert_int_equal(m->decoder.layers[i].keys_end, ends[i]);
    }
    qkv_model_free(m);
}

static size_t page_bytes(struct qkv_model *m) {
    struct qkv_session *s;
    assert_ok(ctx, qkv_session_create(m, NULL, &s));
    const size_t bytes = qkv_session_pages(s).bytes;
    qkv_session_free(s);
    return bytes;
}

static void a_cache_has_pages_of_owners_only(void **state) {
    (void)state;
    static const char *const none[] = {"decoder.kinds.low.attention.share=0", "decoder.kinds.high.attention.share=0",
                                       "decoder.kinds.back.attention.share=0"};
    static const char *const latent[] = {
        "decoder.attention.kv_heads=4",
        "decoder.attention.latent={\"rank\":5,\"rope_dim\":2}",
    };
    const char *const apart[] = {latent[0], latent[1], none[0], none[1], none[2]};
    for (size_t i = 0; i < 2; i++) {
        OWNED_SPEC struct qkv_spec shared = parse(latent, i ? 2 : 0), whole = parse(i ? apart : none, i ? 5 : 3);
        struct qkv_model *a = make(&shared), *b = make(&whole);
        size_t bytes[2];
        assert_int_equal(page_bytes(a) * 7, page_bytes(b) * 3);
        assert_ok(ctx, qkv_session_measure(a, 0, &bytes[0]));
        assert_ok(ctx, qkv_session_measure(b, 0, &bytes[1]));
        assert_true(bytes[0] < bytes[1]);
        qkv_model_free(a);
        qkv_model_free(b);
    }
}

enum { B = 4, T = 9, V = 23 };

/* Loss and gradients of a training pass in groups. */
static double backward(struct qkv_model *m, size_t groups, bool checkpoint, const int32_t *ids, float *gradients) {
    struct qkv_pass *pass;
    const struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = T, .train = true, .checkpoint = checkpoint};
    const struct qkv_batch batch = {.B = B, .T = T, .ids = ids, .targets = ids};
    assert_ok(ctx, qkv_pass_create_ordered(m, &o, groups, &pass));
    qkv_model_clear_gradients(m);
    assert_ok(ctx, qkv_pass_forward(pass, &batch));
    assert_ok(ctx, qkv_pass_backward(pass));
    const double loss = qkv_pass_loss(pass, NULL);
    for (size_t i = 0; i < qkv_model_parameters(m); i++) {
        const size_t n = qkv_array_elements(qkv_model_parameter(m, i));
        memcpy(gradients, test_gradient(m, i), n * sizeof *gradients);
        gradients += n;
    }
    qkv_pass_free(pass);
    return loss;
}

static size_t count_of(const struct qkv_model *m) {
    size_t n = 0;
    for (size_t i = 0; i < qkv_model_parameters(m); i++) n += qkv_array_elements(qkv_model_parameter(m, i));
    return n;
}

static void checkpoints_and_passes_without_recording_have_the_same_bits(void **state) {
    (void)state;
    static const char *const forms[][3] = {
        {"decoder.norm.placement=pre", "decoder.attention.kv_heads=2", "dropout=0.2"},
        {"decoder.norm.placement=parallel", "decoder.attention.kv_heads=4",
         "decoder.attention.latent={\"rank\":5,\"rope_dim\":2}"}};
    int32_t ids[B * T];
    struct qkv_random r = test_random(9);
    for (size_t i = 0; i < B * T; i++) ids[i] = (int32_t)qkv_random_below(&r, V);
    for (size_t i = 0; i < TEST_COUNT(forms); i++) {
        OWNED_SPEC struct qkv_spec spec = parse(forms[i], 3);
        struct qkv_model *m = make(&spec);
        const size_t n = count_of(m);
        float *plain = malloc(n * sizeof *plain), *again = malloc(n * sizeof *again);
        const double loss = backward(m, 0, false, ids, plain);
        assert_true(backward(m, 0, true, ids, again) == loss);
        assert_memory_equal(plain, again, n * sizeof *plain);
        struct qkv_pass *pass;
        const struct qkv_pass_options o = {.size = sizeof o, .B = B, .T = T, .logits = true};
        assert_ok(ctx, qkv_pass_create(m, &o, &pass));
        assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = B, .T = T, .ids = ids, .targets = ids}));
        assert_true(qkv_pass_loss(pass, NULL) == loss);
        qkv_pass_free(pass);
        free(plain);
        free(again);
        qkv_model_free(m);
    }
}

static void a_share_that_reaches_no_layer_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *setting, *first, *second;
    } cases[] = {{"decoder.kinds.local.attention.share=1",
                  "decoder.kinds.local.attention.share is 1, but layer 0 is the first",
                  "choose 0, or give that layer a kind of its own"},
                 {"decoder.kinds.low.attention.share=3",
                  "of the layers before layer 3 only 2 have keys and values like its own", "choose at most 2"},
                 {"decoder.kinds.low.attention.window=4",
                  "no layer before layer 3 has keys and values like its own: compared "
                  "with layer 2, of kind \"local\", window is 4, not 3",
                  "make them alike, or choose 0"},
                 {"decoder.kinds.high.attention.kv_heads=4",
                  "compared with layer 1, of kind \"global\", kv_heads is 4, not 2", "make them alike, or choose 0"},
                 {"decoder.kinds.low.attention.share=-1", "decoder.kinds.low.attention.share is -1",
                  "it must be a whole number from 0 to"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        OWNED_SPEC struct qkv_spec spec = {0};
        const enum qkv_status status = qkv_spec_parse(ctx, &spec, "test", json, strlen(json), &cases[i].setting, 1);
        assert_int_equal(status, QKV_SPEC);
        if (!strstr(qkv_message(ctx), cases[i].first) || !strstr(qkv_message(ctx), cases[i].second))
            fail_msg("%s", qkv_message(ctx));
        assert_non_null(strstr(qkv_message_key(ctx), "attention.share"));
    }
}

static void parts_that_do_not_run_alone_are_refused(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = parse(NULL, 0);
    struct qkv_model *m = make(&spec);
    struct qkv_module *module;
    assert_fails(ctx, qkv_module_of_model(m, "decoder.layers.3", &module), QKV_ARGUMENT,
                 "\"decoder.layers.3\" reads the keys and values of layer 2");
    assert_fails(ctx, qkv_module_of_model(m, "decoder.layers.6.attn", &module), QKV_ARGUMENT,
                 "reads the keys and values of layer 0 (attention.share is 4)");
    assert_ok(ctx, qkv_module_of_model(m, "decoder.layers.3.ffn", &module));
    qkv_module_free(module);
    assert_ok(ctx, qkv_module_of_model(m, "decoder", &module));
    qkv_module_free(module);
    struct qkv_attention_module_spec single = {.in = 8, .attention = {.heads = 2, .share = 1}};
    assert_fails(ctx, qkv_module_create_attention(ctx, &single, 1, &module), QKV_SPEC,
                 "attention.share is 1, but there are no layers before it");
    qkv_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_layer_reads_the_last_owner_that_its_share_reaches),
                                       cmocka_unit_test(a_cache_has_pages_of_owners_only),
                                       cmocka_unit_test(checkpoints_and_passes_without_recording_have_the_same_bits),
                                       cmocka_unit_test(a_share_that_reaches_no_layer_is_refused),
                                       cmocka_unit_test(parts_that_do_not_run_alone_are_refused)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
