/* Published folders with a fault: the message of each refusal names the key, the tensor or the file of the fault. */
/* labels: quick */
#include "test.h"

#include "family_fixture.h"

#include "model/spec.h"

#define GPT2 TEST_SOURCE_DIR "/tests/golden/hf/gpt2"

/* A folder with a changed config.json: the first text `from` in it is `to`. */
static const char *config_changed(const char *name, const char *golden, const char *from, const char *to) {
    const char *folder = test_path(name);
    char path[1200], text[1 << 15];
    link_folder(golden, folder, "config.legacy.json");
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    char *at = strstr(text, from), changed[1 << 15];
    assert_non_null(at);
    const int size = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    unlink(path);
    test_write_file(path, changed, (size_t)size);
    return folder;
}

static void expect_refused(const char *folder, enum qkv_status status, const char *says) {
    struct qkv_context *ctx;
    struct qkv_model *model = NULL;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    const enum qkv_status got = qkv_model_load(ctx, folder, &model);
    if (got != status || !strstr(qkv_message(ctx), says))
        fail_msg("%s: %s, which does not say \"%s\"", folder, got ? qkv_message(ctx) : "it was read", says);
    assert_null(model);
    qkv_context_free(ctx);
}

static void what_a_family_cannot_be_is_refused_by_its_key(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
        enum qkv_status status;
        const char *says;
    } cases[] = {
        {"\"gpt2\"", "\"gtp2\"", QKV_FORMAT, "the nearest are gpt2"},
        {"\"model_type\": \"gpt2\",", "", QKV_FORMAT, "no model_type"},
        {"GPT2LMHeadModel", "GPT2DoubleHeadsModel", QKV_SPEC, "GPT2LMHeadModel"},
        {"GPT2LMHeadModel", "GPT2ForMultipleChoice", QKV_SPEC,
         "architectures is \"GPT2ForMultipleChoice\"; gpt2 can have: GPT2LMHeadModel,GPT2Model,"},
        {"gelu_new", "mish", QKV_SPEC, "activation_function is \"mish\""},
        {"\"n_layer\": 2", "\"n_layer\": 2, \"scale_attn_by_inverse_layer_idx\": true", QKV_SPEC,
         "scale_attn_by_inverse_layer_idx is true"},
        {"\"n_layer\": 2", "\"n_layer\": 2, \"quantization_config\": {}", QKV_SPEC, "quantization_config"},
        {"\"n_layer\": 2", "\"n_layer\": 3", QKV_FORMAT, "no tensor transformer.h.2."},
        {"\"n_layer\": 2", "\"n_layer\": 1", QKV_FORMAT, "transformer.h.1."},
        {"\"n_layer\": 2", "\"n_layer\": -2", QKV_SPEC, "n_layer is -2; it must be"},
        {"\"n_layer\": 2", "\"n_layer\": 1e300", QKV_SPEC, "n_layer is"},
        {"\"vocab_size\": 128", "\"vocab_size\": 200", QKV_SHAPE, "transformer.wte.weight is (128, 32)"},
        {"\"n_head\": 4", "\"n_head\": \"four\"", QKV_SPEC, "n_head is \"four\""},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *folder = config_changed("changed", GPT2, cases[i].from, cases[i].to);
        expect_refused(folder, cases[i].status, cases[i].says);
        test_remove_tree(folder);
    }
}

/* Alternative names of known keys give the same spec. */
static void a_family_is_read_under_its_other_names(void **state) {
    (void)state;
    static const struct {
        const char *golden, *from, *to;
    } cases[] = {
        {"deepseek_v3_plain", "\"deepseek_v3\"", "\"kimi_k2\""},
        {"bart_small", "BartForConditionalGeneration", "BartModel"},
        {"bert_pretraining", "BertForPreTraining", "BertForMaskedLM"},
        {"t5_encoder", "T5EncoderModel", "MT5EncoderModel"},
        {"umt5", "\"umt5\"", "\"umt5\", \"scalable_attention\": true"},
        {"umt5_encoder", "\"umt5\"", "\"umt5\", \"scalable_attention\": true"},
        {"qwen3_classify", "\"Qwen3ForSequenceClassification\"", "\"Qwen3ForSequenceClassification\", \"Qwen3Model\""},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_context *ctx;
        struct qkv_model *one, *other;
        char golden[600], a[QKV_DIGEST_TEXT], b[QKV_DIGEST_TEXT];
        snprintf(golden, sizeof golden, TEST_SOURCE_DIR "/tests/golden/hf/%s", cases[i].golden);
        const char *folder = config_changed("names", golden, cases[i].from, cases[i].to);
        assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
        load_or_fail(ctx, golden, &one);
        load_or_fail(ctx, folder, &other);
        assert_int_equal(qkv_spec_digest(ctx, qkv_model_spec(one), a), QKV_OK);
        assert_int_equal(qkv_spec_digest(ctx, qkv_model_spec(other), b), QKV_OK);
        assert_string_equal(a, b);
        qkv_model_free(one);
        qkv_model_free(other);
        qkv_context_free(ctx);
        test_remove_tree(folder);
    }
}

/* Sentence models: the encoder alone, under the name of a masked language model. */
static void a_masked_language_model_without_a_head_is_an_encoder(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"mpnet_model", "MPNetModel", "MPNetForMaskedLM"},
        {"bert_model", "BertModel", "BertForMaskedLM"},
        {"nomic_bert_model", "NomicBertModel", "NomicBertForMaskedLM"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char golden[600], digests[2][QKV_DIGEST_TEXT];
        snprintf(golden, sizeof golden, TEST_SOURCE_DIR "/tests/golden/hf/%s", cases[i][0]);
        const char *folder = config_changed("masked", golden, cases[i][1], cases[i][2]);
        struct opened plain = open_path(golden), masked = open_path(folder);
        assert_int_equal(qkv_spec_digest(plain.ctx, qkv_model_spec(plain.model), digests[0]), QKV_OK);
        assert_int_equal(qkv_spec_digest(masked.ctx, qkv_model_spec(masked.model), digests[1]), QKV_OK);
        assert_string_equal(digests[0], digests[1]);
        assert_int_equal(qkv_model_spec(masked.model)->head.kind, QKV_HEAD_NONE);
        close_opened(&plain);
        close_opened(&masked);
        test_remove_tree(folder);
    }
}

/* The key that says which layers have experts is no list, or no number: all layers would be of one kind. */
static void what_says_the_kinds_of_layers_is_refused_by_its_key(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"mlp_only_layers\": [", "\"mlp_only_layers\": 1, \"other\": [", "mlp_only_layers is 1; models of type"},
        {"\"mlp_only_layers\": [", "\"mlp_only_layers\": [\"1\"], \"other\": [", "can have: a list of layers"},
        {"\"decoder_sparse_step\": ", "\"decoder_sparse_step\": \"2\", \"other\": ", "decoder_sparse_step is \"2\""},
        {"\"decoder_sparse_step\": ", "\"decoder_sparse_step\": 1.5, \"other\": ", "decoder_sparse_step is 1.5"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *folder =
            config_changed("kinds", TEST_SOURCE_DIR "/tests/golden/hf/qwen3_moe_dense", cases[i].from, cases[i].to);
        expect_refused(folder, QKV_SPEC, cases[i].says);
        test_remove_tree(folder);
    }
}

/* Writes the tensors of a folder again; `change` changes one of them, or removes it (rank -1). */
static const char *tensors_changed(struct qkv_context *ctx, const char *golden, const char *name,
                                   void (*change)(struct qkv_array *), const char *more) {
    const char *folder = test_path("tensors");
    static const float zero[1];
    struct qkv_tensors *file;
    struct qkv_array arrays[192];
    size_t count = 0;
    char path[1200];
    link_folder(golden, folder, NULL);
    snprintf(path, sizeof path, "%s/model.safetensors", golden);
    assert_int_equal(qkv_tensors_open(ctx, path, &file), QKV_OK);
    for (size_t i = 0; i < qkv_tensors_count(file); i++) {
        arrays[count] = *qkv_tensors_at(file, i);
        if (change && !strcmp(arrays[count].name, name)) change(&arrays[count]);
        count += arrays[count].rank >= 0;
    }
    if (more) arrays[count++] = (struct qkv_array){more, QKV_F32, 1, {1}, zero, sizeof zero};
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    assert_int_equal(qkv_tensors_write(ctx, path, arrays, count, NULL, 0), QKV_OK);
    qkv_tensors_close(file);
    return folder;
}

static void leave_out(struct qkv_array *array) {
    array->rank = -1;
}

static void turn(struct qkv_array *array) {
    array->shape[0] = 16;
    array->shape[1] = 64;
}

static void make_integers(struct qkv_array *array) {
    array->dtype = QKV_I32;
}

static void tensors_that_are_missing_left_over_or_others_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        void (*change)(struct qkv_array *);
        const char *more;
        enum qkv_status status;
        const char *says;
    } cases[] = {
        {leave_out, NULL, QKV_FORMAT, "no tensor transformer.wpe.weight"},
        {turn, NULL, QKV_SHAPE, "transformer.wpe.weight is (16, 64)"},
        {make_integers, NULL, QKV_FORMAT, "transformer.wpe.weight is of type I32"},
        {NULL, "transformer.h.0.adapter.weight", QKV_FORMAT, "a tensor transformer.h.0.adapter.weight"},
    };
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *folder = tensors_changed(ctx, GPT2, "transformer.wpe.weight", cases[i].change, cases[i].more);
        expect_refused(folder, cases[i].status, cases[i].says);
        test_remove_tree(folder);
    }
    /* Buffers of masks, and a head beside a tied embedding, are left out. */
    static const char *const ignored[] = {"transformer.h.0.attn.bias", "transformer.h.1.attn.masked_bias",
                                          "lm_head.weight"};
    for (size_t i = 0; i < TEST_COUNT(ignored); i++) {
        struct qkv_model *model;
        const char *folder = tensors_changed(ctx, GPT2, "", NULL, ignored[i]);
        load_or_fail(ctx, folder, &model);
        qkv_model_free(model);
        test_remove_tree(folder);
    }
    qkv_context_free(ctx);
}

/* Those of ESM-2 have learned positions, though rotations are their positions; those of ESM-1b use them. */
static void learned_positions_beside_rotations_are_left_out(void **state) {
    (void)state;
#define POSITIONS "esm.embeddings.position_embeddings.weight"
    struct qkv_context *ctx;
    struct qkv_model *model;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    const char *folder = tensors_changed(ctx, TEST_SOURCE_DIR "/tests/golden/hf/esm", "", NULL, POSITIONS);
    load_or_fail(ctx, folder, &model);
    qkv_model_free(model);
    test_remove_tree(folder);
    folder = tensors_changed(ctx, TEST_SOURCE_DIR "/tests/golden/hf/esm_absolute", POSITIONS, leave_out, NULL);
    expect_refused(folder, QKV_FORMAT, "no tensor " POSITIONS);
    test_remove_tree(folder);
    qkv_context_free(ctx);
#undef POSITIONS
}

/* The share of masks is counted by their id. */
static void masks_that_are_counted_have_an_id(void **state) {
    (void)state;
    const char *const golden = TEST_SOURCE_DIR "/tests/golden/hf/esm";
    const char *folder = config_changed("masks", golden, "\"mask_token_id\": 7", "\"mask_token_id\": null");
    expect_refused(folder, QKV_SPEC, "mask_token_id");
    test_remove_tree(folder);
    folder = config_changed("masks", golden, "\"token_dropout\": true", "\"token_dropout\": null");
    struct opened opened = open_path(folder);
    assert_false(qkv_model_spec(opened.model)->encoder.embed.masked.given);
    close_opened(&opened);
    test_remove_tree(folder);
}

static void shorten(struct qkv_array *array) {
    array->shape[0]--;
    array->bytes -= sizeof(float);
}

static void change_frequency(struct qkv_array *array) {
    static const float others[] = {1, 0.1F, 0.010003F, 0.001F};
    array->data = others;
}

static void round_frequencies(struct qkv_array *array) {
    static const uint16_t numbers[] = {0x3F80, 0x3DCD, 0x3C24, 0x3A83};
    array->dtype = QKV_BF16;
    array->data = numbers;
    array->bytes /= 2;
}

static void round_wrong_frequencies(struct qkv_array *array) {
    static const uint16_t numbers[] = {0x3F80, 0x3DCD, 0x3C25, 0x3A83};
    round_frequencies(array);
    array->data = numbers;
}

static void cut_frequencies(struct qkv_array *array) {
    array->shape[0] = 3;
    array->bytes -= sizeof(float);
}

/* The reference computes with the frequencies that the file has; transformers 5.24 saves them under this name. */
static void frequencies_are_those_of_the_base(void **state) {
    (void)state;
#define FREQUENCIES "esm.encoder.layer.*.attention.self.rotary_embeddings.inv_freq"
    struct qkv_context *ctx;
    struct qkv_model *model;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    const char *const golden = TEST_SOURCE_DIR "/tests/golden/hf/esm";
    const char *folder = tensors_changed(ctx, golden, FREQUENCIES, change_frequency, NULL);
    expect_refused(folder, QKV_SPEC, FREQUENCIES " has 0.010003 at place 2, but rope_theta 10000 makes it 0.01");
    test_remove_tree(folder);
    folder = tensors_changed(ctx, golden, FREQUENCIES, round_wrong_frequencies, NULL);
    expect_refused(folder, QKV_SPEC, FREQUENCIES " has 0.0100708 at place 2");
    test_remove_tree(folder);
    folder = tensors_changed(ctx, golden, FREQUENCIES, cut_frequencies, NULL);
    expect_refused(folder, QKV_SHAPE, FREQUENCIES " has 3 frequencies, but config.json makes them 4");
    test_remove_tree(folder);
    folder = tensors_changed(ctx, golden, FREQUENCIES, round_frequencies, NULL);
    load_or_fail(ctx, folder, &model);
    qkv_model_free(model);
    test_remove_tree(folder);
    folder = tensors_changed(ctx, golden, FREQUENCIES, leave_out, NULL);
    load_or_fail(ctx, folder, &model);
    qkv_model_free(model);
    test_remove_tree(folder);
    struct qkv_tensors *was, *is; /* an export has them again */
    char path[1200];
    load_or_fail(ctx, golden, &model);
    folder = test_path("written");
    assert_int_equal(qkv_model_export_published(model, NULL, "f32", folder), QKV_OK);
    snprintf(path, sizeof path, "%s/model.safetensors", golden);
    assert_int_equal(qkv_tensors_open(ctx, path, &was), QKV_OK);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(qkv_tensors_open(ctx, path, &is), QKV_OK);
    const struct qkv_array *a = qkv_tensors_find(was, FREQUENCIES), *b = qkv_tensors_find(is, FREQUENCIES);
    assert_true(a && b && a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes));
    qkv_tensors_close(was);
    qkv_tensors_close(is);
    qkv_model_free(model);
    test_remove_tree(folder);
    qkv_context_free(ctx);
#undef FREQUENCIES
}

/* StableLM has a tensor for each head of a norm. */
static void norms_that_are_a_tensor_for_each_head_are_refused_by_name(void **state) {
    (void)state;
#define NORM "model.layers.1.self_attn.k_layernorm.norms."
    static const struct {
        void (*change)(struct qkv_array *);
        const char *more;
        enum qkv_status status;
        const char *says;
    } cases[] = {
        {leave_out, NULL, QKV_FORMAT, "no tensor " NORM "1.weight"},
        {shorten, NULL, QKV_SHAPE, NORM "1.weight is (7) but config.json makes it (8)"},
        {make_integers, NULL, QKV_FORMAT, NORM "1.weight is of type I32"},
        {NULL, NORM "2.weight", QKV_FORMAT, "a tensor " NORM "2.weight"},
    };
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *folder = tensors_changed(ctx, TEST_SOURCE_DIR "/tests/golden/hf/stablelm_norms", NORM "1.weight",
                                             cases[i].change, cases[i].more);
        expect_refused(folder, cases[i].status, cases[i].says);
        test_remove_tree(folder);
    }
    qkv_context_free(ctx);
#undef NORM
}

/* A table of scores, stored although config.json ties it to the embedding, must have the numbers of the embedding;
 * else the folder is refused. */
static void a_head_beside_the_embedding_that_it_is_tied_to_has_its_numbers(void **state) {
    (void)state;
    const char *folder = test_path("head");
    char path[1200];
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_tensors *file;
    struct qkv_array arrays[64];
    size_t count = 0;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_tensors_open(ctx, GPT2 "/model.safetensors", &file), QKV_OK);
    for (; count < qkv_tensors_count(file); count++) arrays[count] = *qkv_tensors_at(file, count);
    const struct qkv_array *embed = qkv_tensors_find(file, "transformer.wte.weight");
    float *head = malloc(embed->bytes);
    memcpy(head, embed->data, embed->bytes);
    arrays[count] = *embed;
    arrays[count].name = "lm_head.weight";
    arrays[count++].data = head;
    for (int other = 0; other < 2; other++) {
        head[5] += (float)other;
        link_folder(GPT2, folder, NULL);
        snprintf(path, sizeof path, "%s/model.safetensors", folder);
        unlink(path);
        assert_int_equal(qkv_tensors_write(ctx, path, arrays, count, NULL, 0), QKV_OK);
        if (other) {
            expect_refused(folder, QKV_SPEC, "lm_head.weight has other numbers than transformer.wte.weight");
        } else {
            load_or_fail(ctx, folder, &model);
            qkv_model_free(model);
        }
        test_remove_tree(folder);
    }
    free(head);
    qkv_tensors_close(file);
    qkv_context_free(ctx);
}

/* ---- numbers in few bits ---------------------------------------------------------------------------------------- */

#define FP8    TEST_SOURCE_DIR "/tests/golden/hf/deepseek_v3_fp8"
#define MXFP4  TEST_SOURCE_DIR "/tests/golden/hf/gpt_oss_mxfp4"
#define KV_B   "model.layers.0.self_attn.kv_b_proj.weight"
#define BLOCKS "model.layers.0.mlp.experts.down_proj_blocks"
#define SCALES "model.layers.0.mlp.experts.down_proj_scales"

/* One row of the first dimension less. */
static void cut(struct qkv_array *array) {
    array->bytes -= array->bytes / array->shape[0];
    array->shape[0]--;
}

static void make_bytes(struct qkv_array *array) {
    array->dtype = QKV_I8;
}

static void make_floats(struct qkv_array *array) {
    array->shape[array->rank - 1] /= 4;
    array->dtype = QKV_F32;
}

static void weights_in_few_bits_that_do_not_fit_are_refused_by_key_and_by_tensor(void **state) {
    (void)state;
    static const struct {
        const char *golden, *from, *to;
        enum qkv_status status;
        const char *says;
    } keys[] = {
        {FP8, "\"fp8\"", "\"gptq\"", QKV_SPEC, "quantization_config.quant_method is \"gptq\""},
        {FP8, "\"e4m3\"", "\"e5m2\"", QKV_SPEC, "quantization_config.fmt is \"e5m2\""},
        {FP8, "\"weight_block_size\"", "\"block\"", QKV_SPEC, "quantization_config.weight_block_size is missing"},
        {FP8, "\"weight_block_size\": [\n   4,", "\"weight_block_size\": [\n   0,", QKV_SPEC,
         "weight_block_size is [0,6]"},
        {FP8, "\"weight_block_size\": [\n   4,", "\"weight_block_size\": [\n   1e99,", QKV_SPEC,
         "weight_block_size is"},
        {FP8, "\"weight_block_size\": [\n   4,", "\"weight_block_size\": [\n   1, 4,", QKV_SPEC,
         "weight_block_size is [1,4,6]"},
        {FP8, "\"weight_block_size\": [\n   4,", "\"weight_block_size\": [\n   5,", QKV_SHAPE, "_scale_inv is"},
        {FP8, "\"fp8\"", "\"mxfp4\"", QKV_FORMAT, "is of type F8_E4M3"},
        {MXFP4, "\"quantization_config\"", "\"quantization\"", QKV_FORMAT,
         "no tensor model.layers.0.mlp.experts.gate_up_proj,"},
        {MXFP4, "\"intermediate_size\": 32", "\"intermediate_size\": 40", QKV_SHAPE, "config.json makes it"},
    };
    static const struct {
        const char *golden, *name;
        void (*change)(struct qkv_array *);
        enum qkv_status status;
        const char *says;
    } tensors[] = {
        {FP8, KV_B "_scale_inv", leave_out, QKV_FORMAT, "no tensor " KV_B "_scale_inv"},
        {FP8, KV_B "_scale_inv", cut, QKV_SHAPE, KV_B "_scale_inv is"},
        {FP8, KV_B "_scale_inv", make_integers, QKV_FORMAT, "scales are floats"},
        {FP8, KV_B, cut, QKV_SHAPE, KV_B " is"},
        {MXFP4, BLOCKS, leave_out, QKV_FORMAT, "no tensor " BLOCKS},
        {MXFP4, SCALES, leave_out, QKV_FORMAT, "no tensor " SCALES},
        {MXFP4, BLOCKS, cut, QKV_SHAPE, BLOCKS " is"},
        {MXFP4, SCALES, cut, QKV_SHAPE, SCALES " is"},
        {MXFP4, BLOCKS, make_bytes, QKV_FORMAT, "blocks are bytes"},
        {MXFP4, SCALES, make_bytes, QKV_FORMAT, "scales are bytes"},
        {MXFP4, BLOCKS, make_floats, QKV_SHAPE, BLOCKS " is"},
    };
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        const char *folder = config_changed("packed", keys[i].golden, keys[i].from, keys[i].to);
        expect_refused(folder, keys[i].status, keys[i].says);
        test_remove_tree(folder);
    }
    for (size_t i = 0; i < TEST_COUNT(tensors); i++) {
        const char *folder = tensors_changed(ctx, tensors[i].golden, tensors[i].name, tensors[i].change, NULL);
        expect_refused(folder, tensors[i].status, tensors[i].says);
        test_remove_tree(folder);
    }
    qkv_context_free(ctx);
}

/* The tensors of layers behind the last one, which predict a second token, are left out of DeepSeek's. */
static void a_layer_behind_the_last_one_is_none_of_deepseek(void **state) {
    (void)state;
    struct qkv_context *ctx;
    struct qkv_model *model;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    const char *folder = tensors_changed(ctx, FP8, "", NULL, "model.layers.2.eh_proj.weight");
    load_or_fail(ctx, folder, &model);
    qkv_model_free(model);
    test_remove_tree(folder);
    folder = tensors_changed(ctx, FP8, "", NULL, "model.layers.3.eh_proj.weight");
    expect_refused(folder, QKV_FORMAT, "a tensor model.layers.3.eh_proj.weight");
    test_remove_tree(folder);
    qkv_context_free(ctx);
}

static void files_that_are_missing_or_others_are_refused(void **state) {
    (void)state;
    static const char sharded[] = TEST_SOURCE_DIR "/tests/golden/hf/llama_sharded";
    static const uint64_t header = UINT64_C(2) << 30;
    char path[1200];
    const char *folder = test_path("shards");
    link_folder(sharded, folder, NULL);
    snprintf(path, sizeof path, "%s/model-00002-of-00003.safetensors", folder);
    if (access(path, F_OK)) snprintf(path, sizeof path, "%s/model-00001-of-00002.safetensors", folder);
    assert_int_equal(unlink(path), 0);
    expect_refused(folder, QKV_FILE, "is missing; model.safetensors.index.json says that it has weights");
    test_remove_tree(folder);

    link_folder(sharded, folder, NULL);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    unlink(path);
    test_write_file(path, "{\"weight_map\": {\"model.norm.weight\": \"../x.safetensors\"}}", 57);
    expect_refused(folder, QKV_FORMAT, "does not name a file in the folder");
    test_remove_tree(folder);

    folder = test_path("pickle");
    link_folder(GPT2, folder, NULL);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    expect_refused(folder, QKV_FILE, "neither model.safetensors nor");
    test_write_file(path, &header, sizeof header);
    expect_refused(folder, QKV_FORMAT, "its header would have 2147483648 bytes");
    unlink(path);
    snprintf(path, sizeof path, "%s/pytorch_model.bin", folder);
    test_write_file(path, "PK", 2);
    expect_refused(folder, QKV_FILE, "is a pickle, which can run any code");
    expect_refused(folder, QKV_FILE, "GPT2LMHeadModel.from_pretrained(DIR).save_pretrained(NEW)");
    struct qkv_context *ctx; /* its shape alone, too: that is no model to look at */
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    assert_int_equal(qkv_folder_spec(ctx, folder, NULL, 0, &spec), QKV_FILE);
    assert_non_null(strstr(qkv_message(ctx), "is a pickle"));
    qkv_context_free(ctx);
    test_remove_tree(folder);
}

/* All tensors that the index names are there: the model is read, and the sum is warned of. */
static void an_index_whose_total_is_another_is_read_with_a_warning(void **state) {
    (void)state;
    static const char sharded[] = TEST_SOURCE_DIR "/tests/golden/hf/llama_sharded";
    char path[1200], text[1 << 15], *at;
    const char *folder = test_path("total");
    link_folder(sharded, folder, NULL);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    assert_non_null(at = strstr(text, "\"total_size\": "));
    at[14] = at[14] == '9' ? '8' : (char)(at[14] + 1);
    unlink(path);
    test_write_file(path, text, n);
    struct qkv_context *ctx;
    struct qkv_model *model;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    load_or_fail(ctx, sharded, &model);
    assert_null(qkv_model_warning(model));
    qkv_model_free(model);
    load_or_fail(ctx, folder, &model);
    assert_non_null(strstr(qkv_model_warning(model), "total_size is"));
    qkv_model_free(model);
    qkv_context_free(ctx);
    test_remove_tree(folder);
}

static int make_folder(void **state) {
    *state = (void *)(uintptr_t)test_folder();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_family_cannot_be_is_refused_by_its_key),
        cmocka_unit_test(a_family_is_read_under_its_other_names),
        cmocka_unit_test(a_masked_language_model_without_a_head_is_an_encoder),
        cmocka_unit_test(what_says_the_kinds_of_layers_is_refused_by_its_key),
        cmocka_unit_test(masks_that_are_counted_have_an_id),
        cmocka_unit_test(frequencies_are_those_of_the_base),
        cmocka_unit_test(norms_that_are_a_tensor_for_each_head_are_refused_by_name),
        cmocka_unit_test(learned_positions_beside_rotations_are_left_out),
        cmocka_unit_test(tensors_that_are_missing_left_over_or_others_are_refused_by_name),
        cmocka_unit_test(a_head_beside_the_embedding_that_it_is_tied_to_has_its_numbers),
        cmocka_unit_test(weights_in_few_bits_that_do_not_fit_are_refused_by_key_and_by_tensor),
        cmocka_unit_test(a_layer_behind_the_last_one_is_none_of_deepseek),
        cmocka_unit_test(files_that_are_missing_or_others_are_refused),
        cmocka_unit_test(an_index_whose_total_is_another_is_read_with_a_warning),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
