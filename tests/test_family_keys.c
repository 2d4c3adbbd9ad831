/* Keys of published configurations: each is read by its family's table, known to have no effect, or refused.
 * tests/golden/family_keys.json (tests/golden/make/hf_keys.py) records what each key changes in the reference
 * library. */
#include "test.h"

#include <math.h>

#include "family/family.h"
#include "model/spec.h"

static enum qkv_status keys_read(struct qkv_context *ctx, const json_t *config, char digest[QKV_DIGEST_TEXT]) {
    struct qkv_family_config read;
    OWNED_SPEC struct qkv_spec spec = {0};
    const enum qkv_status status = qkv_family_read(ctx, "config.json", config, NULL, NULL, &read, &spec);
    if (status) return status;
    qkv_family_config_free(&read);
    return qkv_spec_digest(ctx, &spec, digest);
}

static bool list_has(const char *list, const char *name) {
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == strlen(name) && !strncmp(at, name, strlen(name))) return true;
    return false;
}

/* Tables of one type, as T5's, differ in their classes. */
static const struct qkv_family *family_of(const json_t *config) {
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
    const struct qkv_family *found = NULL;
    assert_non_null(class);
    for (size_t i = 0; qkv_families[i]; i++)
        if (list_has(qkv_families[i]->type, type) && list_has(qkv_families[i]->architectures, class)) {
            if (found) fail_msg("two tables have the type %s and the class %s", type, class);
            found = qkv_families[i];
        }
    if (!found) fail_msg("no family has the type %s and the class %s", type, class);
    return found;
}

static json_t *keys_golden(void) {
    json_error_t error;
    json_t *rows = json_load_file(TEST_SOURCE_DIR "/tests/golden/family_keys.json", 0, &error);
    if (!rows) fail_msg("%s", error.text);
    return rows;
}

/* A sentence names the key, the object that it is in, or another key that it has to go with. */
static bool names_key(const char *message, const char *key, json_t *config) {
    char outer[96];
    const char *other;
    json_t *value;
    snprintf(outer, sizeof outer, "%.*s", (int)strcspn(key, "."), key);
    if (strstr(message, outer)) return true;
    json_object_foreach(config, other, value) {
        if (strlen(other) > 5 && strstr(message, other)) return true;
    }
    return false;
}

/* Values that give another spec, though the reference computes the same in its case: part of the type and of the value
 * ("": of all). */
static const struct {
    const char *type, *key, *value, *why;
} same_there[] = {
    {"", "max_position_embeddings", "", "the limit of positions, which no sequence of a case reaches"},
    {"", "n_positions", "", "the same"},
    {"mpt", "max_seq_len", "", "the same"},
    {"phimoe", "original_max_position_embeddings", "", "no sequence of the case is longer"},
    {"", "rope_parameters", "\"dynamic\"", "the rotation of sequences that are longer than the context"},
    {"gpt_neox", "rope_parameters", "77.0,\"partial_rotary_factor\":0.25", "the only pair turns alike at each base"},
    {"stablelm", "rope_parameters", "77.0,\"partial_rotary_factor\":0.25", "the only pair turns alike at each base"},
    {"esm", "rope_theta", "", "the reference loads the frequencies; qkv refuses those of another base"},
    {"t5_encoder", "relative_attention_max_distance", "17", "no distance of the case is in the bucket that changes"},
    {"deepseek_v2_grouped", "n_group", "6", "the same experts are chosen in the case"},
    {"deepseek_v2_grouped", "topk_group", "3", "the same experts are chosen in the case"},
    {"mpt", "expansion_ratio", "", "left out there; the tensors have the width, and another one is refused"},
    {"mpt", "attn_config.alibi_bias_max", "", "left out there, but not by the authors of MPT"},
    {"smollm3_windows", "use_sliding_window", "false", "the reference windows with a mask, but not without one"},
};
enum { SAME_THERE = sizeof same_there / sizeof *same_there };

/* The number of the exception; SAME_THERE: none. */
static size_t same_number(const char *type, const char *key, const char *value) {
    size_t i = 0;
    while (i < SAME_THERE && (!strstr(type, same_there[i].type) || strcmp(key, same_there[i].key) != 0 ||
                              !strstr(value, same_there[i].value)))
        i++;
    return i;
}

static void every_key_of_a_reference_configuration_is_read_or_known_or_refused(void **state) {
    (void)state;
    struct qkv_context *ctx;
    json_t *rows = keys_golden(), *row, *change;
    size_t i, k, read = 0, refused = 0, idle = 0, wrong = 0;
    bool seen[SAME_THERE] = {0};
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    json_array_foreach(rows, i, row) {
        const char *type = json_string_value(json_object_get(row, "type"));
        json_t *config = json_object_get(row, "config");
        char before[QKV_DIGEST_TEXT], after[QKV_DIGEST_TEXT];
        if (keys_read(ctx, config, before)) fail_msg("%s: %s", type, qkv_message(ctx));
        json_array_foreach(json_object_get(row, "changes"), k, change) {
            const char *key = json_string_value(json_array_get(change, 0));
            const char *what = json_string_value(json_array_get(change, 2));
            json_t *value = json_array_get(change, 1), *other = json_deep_copy(config);
            char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
            assert_true(qkv_family_put(other, key, json_incref(value)));
            if (!strchr(key, '.') && strcmp(key, "attn_config") && !qkv_family_knows(family_of(config), key))
                wrong++, print_error("%s: nothing says whether %s changes something\n", type, key);
            if (keys_read(ctx, other, after)) {
                if (!names_key(qkv_message(ctx), key, config))
                    wrong++, print_error("%s: %s %s: the sentence is \"%s\"\n", type, key, text, qkv_message(ctx));
                refused++;
            } else if (strcmp(before, after)) {
                const size_t same = strcmp(what, "none") ? SAME_THERE : same_number(type, key, text);
                if (same < SAME_THERE)
                    seen[same] = true;
                else if (!strcmp(what, "none"))
                    wrong++, print_error("%s: %s %s has an effect\n", type, key, text);
                read++;
            } else {
                if (!strcmp(what, "effect"))
                    wrong++, print_error("%s: %s %s is left out in silence\n", type, key, text);
                idle++;
            }
            free(text);
            json_decref(other);
        }
    }
    for (i = 0; i < SAME_THERE; i++)
        if (!seen[i]) fail_msg("no value of %s needs its exception: %s", same_there[i].key, same_there[i].why);
    assert_int_equal(wrong, 0);
    assert_true(read > 400 && refused > 200 && idle > 400);
    json_decref(rows);
    qkv_context_free(ctx);
}

static void every_family_has_a_reference_configuration(void **state) {
    (void)state;
    json_t *rows = keys_golden(), *row;
    size_t i;
    for (size_t f = 0; qkv_families[f]; f++) {
        bool found = false;
        json_array_foreach(rows, i, row) {
            found |= family_of(json_object_get(row, "config")) == qkv_families[f];
        }
        if (!found)
            fail_msg("%s (%s) has no configuration in family_keys.json", qkv_families[f]->type,
                     qkv_families[f]->architectures);
    }
    json_decref(rows);
}

static void keys_that_nobody_knows_are_refused_where_their_names_are_about_a_model(void **state) {
    (void)state;
    static const struct {
        const char *key, *value;
        bool refused;
    } cases[] = {
        {"attention_gate", "true", true},
        {"attention_gate", "false", false},
        {"qk_scale", "0.5", true},
        {"logit_scale", "0.0625", true},
        {"is_llama_config", "true", false},
        {"made_with", "'a tool'", false},
        {"final_logit_softcapping", "30.0", true},
        {"is_causal", "false", true},
        {"is_causal", "true", false},
        {"layer_types", "[]", false},
    };
    struct qkv_context *ctx;
    char digest[QKV_DIGEST_TEXT];
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        json_t *config = json_pack("{s:s}", "model_type", "llama");
        json_object_set_new(config, cases[i].key, qkv_family_constant(cases[i].value));
        const enum qkv_status status = keys_read(ctx, config, digest);
        if ((status == QKV_SPEC) != cases[i].refused) fail_msg("%s %s", cases[i].key, cases[i].value);
        if (status) assert_non_null(strstr(qkv_message(ctx), cases[i].key));
        json_decref(config);
    }
    qkv_context_free(ctx);
}

static json_t *json_of(const char *quoted) {
    char text[600];
    snprintf(text, sizeof text, "%s", quoted);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    return json_loads(text, 0, NULL);
}

/* Paths of a spec, and rules of a table, which no sentence about a config.json has. */
static const char *const inside[] = {"d_model", "decoder.", "encoder.", "embed.", "kinds.", "head.", "$", "@", "='"};

static bool says_what_is_inside(const char *message, const json_t *config) {
    for (size_t k = 0; k < TEST_COUNT(inside); k++)
        if (strstr(message, inside[k]) && !json_object_get(config, inside[k])) return true;
    return false;
}

/* Every key of every family with values that do not fit the others. */
static void no_sentence_about_a_configuration_has_a_path_of_a_spec(void **state) {
    (void)state;
    static const char *const values[] = {"-1", "0", "1", "3", "100000", "0.3", "\"x\"", "null"};
    struct qkv_context *ctx;
    json_t *rows = keys_golden(), *row, *was;
    const char *key;
    size_t i, refused = 0, wrong = 0;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    json_array_foreach(rows, i, row) {
        json_t *config = json_object_get(row, "config");
        json_object_foreach(config, key, was) {
            for (size_t v = 0; v < TEST_COUNT(values); v++) {
                char digest[QKV_DIGEST_TEXT];
                json_t *other = json_deep_copy(config);
                json_object_set_new(other, key, json_loads(values[v], JSON_DECODE_ANY, NULL));
                if (keys_read(ctx, other, digest)) {
                    refused++;
                    if (says_what_is_inside(qkv_message(ctx), config) && wrong++ < 40)
                        print_error("%s: %s %s: \"%s\"\n", json_string_value(json_object_get(row, "type")), key,
                                    values[v], qkv_message(ctx));
                }
                json_decref(other);
            }
        }
    }
    assert_int_equal(wrong, 0);
    assert_true(refused > 2000);
    json_decref(rows);
    qkv_context_free(ctx);
}

/* The keys of the file, as it spells them. */
static void sentences_name_the_keys_of_the_file(void **state) {
    (void)state;
    static const struct {
        const char *config, *says;
    } cases[] = {
        {"{'model_type':'llama','hidden_size':-40}", "config.json: hidden_size is -40; it must be"},
        {"{'model_type':'llama','num_key_value_heads':3}",
         "num_key_value_heads is 3, which does not divide num_attention_heads 32"},
        {"{'model_type':'llama','rms_norm_eps':-1}", "rms_norm_eps is -1; it must be"},
        {"{'model_type':'llama','vocab_size':1e30}", "vocab_size is 1e30; it must be"},
        {"{'model_type':'llama','num_hidden_layers':'2'}", "num_hidden_layers is \"2\"; it must be"},
        {"{'model_type':'llama','rope_scaling':{'rope_type':'yarn','factor':0.5}}", "rope_scaling.factor is 0.5"},
        {"{'model_type':'llama','rope_parameters':{'rope_type':'linear','factor':0.5}}",
         "rope_parameters.factor is 0.5"},
        {"{'model_type':'llama','rope_parameters':{'rope_type':'proportional'}}",
         "rope_parameters.rope_type is \"proportional\"; models of type llama can have: default,"},
        {"{'model_type':'llama','rope_parameters':3}", "rope_parameters is 3"},
        {"{'model_type':'llama','rope_scaling':'linear'}", "rope_scaling is \"linear\""},
        {"{'model_type':'llama','partial_rotary_factor':0.5}", "partial_rotary_factor is 0.5"},
        {"{'model_type':'gemma3_text','rope_parameters':{'full_attention':{'rope_type':'linear','factor':0}}}",
         "rope_parameters.full_attention.factor is 0"},
        {"{'model_type':'gemma3_text','rope_parameters':{'rope_type':'linear','factor':2}}", "rope_parameters is {"},
        {"{'model_type':'gemma3_text','layer_types':'sliding_attention'}", "layer_types is \"sliding_attention\""},
        {"{'model_type':'gemma3_text','layer_types':['sliding_attention']}", "layer_types is [\"sliding_attention\"]"},
        {"{'model_type':'gpt2','n_ctx':-1}", "n_ctx is -1; it must be"},
        {"{'model_type':'gpt2','num_hidden_layers':-1}", "num_hidden_layers is -1; it must be"},
        {"{'model_type':'bart','scale_embedding':1}", "scale_embedding is 1; models of type bart can have: "},
        {"{'model_type':'deepseek_v2','num_experts_per_tok':2,'num_key_value_heads':2}",
         "num_key_value_heads is 2, but with kv_lora_rank each of the 32 heads has keys and values of its own (choose "
         "32)"},
        {"{'model_type':'gpt_neox','rotary_pct':0.01}",
         "rotary_pct is 0.01, which rotates none of the 96 channels of head_dim"},
        {"{'model_type':'gptj','rotary_dim':1}", "rotary_dim is 1, which rotates none of the 256 channels of head_dim"},
        {"{'model_type':'llama','head_dim':1}", "head_dim is 1, but rotations turn pairs of channels"},
        {"{'model_type':'mixtral','num_experts_per_tok':9}", "num_experts_per_tok is 9"},
        {"{'model_type':'roberta','pad_token_id':null}", "pad_token_id"},
        {"{'model_type':'vit','image_size':30}", "the key image_size (30) is not a multiple of patch_size"},
        {"{'model_type':'codegen','n_embd':6,'n_head':1,'rotary_dim':2}", "the key n_embd (6) is not a multiple of 4"},
        {"{'model_type':'esm','is_folding_model':true}",
         "is_folding_model is true; models of type esm can have: false"},
        {"{'model_type':'gpt_neo','num_layers':25}", "attention_layers is missing"},
        {"{'model_type':'eurobert','architectures':['EuroBertForSequenceClassification'],'classifier_pooling':'max'}",
         "classifier_pooling"},
        {"{'model_type':'exaone4','sliding_window_pattern':'LLLG'}", "layer_types is missing"},
        {"{'model_type':'mpnet','relative_attention_num_buckets':16}", "relative_attention_num_buckets is 16"},
        {"{'model_type':'gemma3','text_config':{'num_hidden_layers':-4}}",
         "config.json: num_hidden_layers is -4; it must"},
        {"{'model_type':'gemma3','text_config':3}", "text_config is 3; models of type gemma3 can have: an object"},
        {"{'model_type':'gemma3','architectures':['Gemma3ForSequenceClassification']}",
         "architectures is [\"Gemma3ForSequenceClassification\"]; models of type gemma3 can have: "},
        {"{'model_type':'qwen3_vl','text_config':{'model_type':'llama'}}",
         "text_config.model_type is \"llama\"; models of type qwen3_vl can have: qwen3_vl_text"},
        {"{'model_type':'llava','text_config':{},'attention_gate':true}",
         "attention_gate is true; models of type llava can have: no such key"},
        {"{'model_type':'t5','num_layers':1,'feed_forward_proj':'mish'}",
         "feed_forward_proj is \"mish\", dense_act_fn is null, is_gated_act is null; models of type t5,mt5 can have"},
    };
    struct qkv_context *ctx;
    char digest[QKV_DIGEST_TEXT];
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        json_t *config = json_of(cases[i].config);
        assert_non_null(config);
        if (!keys_read(ctx, config, digest)) fail_msg("%s is read", cases[i].config);
        if (!strstr(qkv_message(ctx), cases[i].says))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].config, qkv_message(ctx), cases[i].says);
        if (says_what_is_inside(qkv_message(ctx), config)) fail_msg("\"%s\"", qkv_message(ctx));
        json_decref(config);
    }
    qkv_context_free(ctx);
}

/* Published files and those of newer versions of transformers say the same model in other words. */
static void other_words_of_published_files_give_the_same_model(void **state) {
    (void)state;
    static const struct {
        const char *one, *other;
    } cases[] = {
        {"{'model_type':'nomic_bert','hidden_size':64,'num_attention_heads':4,'intermediate_size':96,"
         "'num_hidden_layers':3,'max_position_embeddings':99,'rope_parameters':{'rope_theta':77.0}}",
         "{'model_type':'nomic_bert','n_embd':64,'n_head':4,'n_inner':96,'n_layer':3,'n_positions':99,"
         "'rotary_emb_base':77,'rotary_emb_fraction':1.0,'activation_function':'swiglu','causal':false,"
         "'prenorm':false,'layer_norm_epsilon':1e-12,'scale_attn_weights':true,'fused_bias_fc':true}"},
        {"{'model_type':'minimax_m2','rope_parameters':{'rope_theta':5000000,'partial_rotary_factor':0.5}}",
         "{'model_type':'minimax_m2','rope_theta':5000000,'rotary_dim':64,'scoring_func':'sigmoid',"
         "'use_routing_bias':true,'qk_norm_type':'per_layer','num_mtp_modules':3,'use_mtp':true}"},
        {"{'model_type':'gpt_neo','num_layers':4,'attention_types':[[['global','local'],2]]}",
         "{'model_type':'gpt_neo','num_layers':4,'attention_layers':['global','local','global','local']}"},
        {"{'model_type':'gpt_neo','num_layers':3,'attention_types':[[['global'],1],[['local'],2]]}",
         "{'model_type':'gpt_neo','num_layers':3,'attention_layers':['global','local','local']}"},
        {"{'model_type':'exaone4','num_hidden_layers':2,'sliding_window_pattern':2}",
         "{'model_type':'exaone4','num_hidden_layers':2,'sliding_window_pattern':'LLLG',"
         "'layer_types':['sliding_attention','full_attention']}"},
        {"{'model_type':'cohere2','num_hidden_layers':4}",
         "{'model_type':'cohere2','num_hidden_layers':4,'sliding_window_pattern':4,'layer_switch':4,"
         "'order_of_interleaved_layers':'local_attn_first','position_embedding_type':'rope_gptj'}"},
        {"{'model_type':'olmo3','num_hidden_layers':4,'rope_parameters':{'full_attention':{'rope_type':'linear',"
         "'factor':4.0,'rope_theta':500000.0},'sliding_attention':{'rope_theta':500000.0}}}",
         "{'model_type':'olmo3','num_hidden_layers':4,'rope_theta':500000,"
         "'rope_scaling':{'rope_type':'linear','factor':4.0}}"},
        {"{'model_type':'gemma3_text','hidden_size':64,'num_hidden_layers':6,'head_dim':16}",
         "{'model_type':'gemma3','text_config':{'hidden_size':64,'num_hidden_layers':6,'head_dim':16},"
         "'mm_tokens_per_image':256,'boi_token_index':255999,'vision_config':{'hidden_size':8}}"},
        {"{'model_type':'llama4_text','num_hidden_layers':4,'no_rope_layers':[1,1,1,0]}",
         "{'model_type':'llama4','text_config':{'model_type':'llama4_text','num_hidden_layers':4,"
         "'moe_layers':[0,1,2,3],'for_llm_compressor':false},'boi_token_index':200080,'vision_config':{}}"},
        {"{'model_type':'qwen2','rope_theta':1e6,'rms_norm_eps':1e-5,'num_hidden_layers':2}",
         "{'model_type':'qwen2_5_vl','num_hidden_layers':2,'image_token_id':3,'vision_config':{'depth':32},"
         "'rope_scaling':{'type':'mrope','mrope_section':[16,24,24]}}"},
        {"{'model_type':'qwen3','rope_theta':5e6,'max_position_embeddings':128000,'tie_word_embeddings':true}",
         "{'model_type':'qwen3_vl','text_config':{'model_type':'qwen3_vl_text','tie_word_embeddings':true,"
         "'rope_parameters':{'rope_theta':5e6,'rope_type':'default','mrope_section':[24,20,20],"
         "'mrope_interleaved':true}},'vision_config':{'depth':27}}"},
        {"{'model_type':'ernie4_5_moe','num_hidden_layers':4,'moe_layer_end_index':3}",
         "{'model_type':'ernie4_5_moe','num_hidden_layers':4,'moe_layer_end_index':-1,'moe_capacity':[64,64,64],"
         "'moe_gate':'topk','moe_use_aux_free':true}"},
        {"{'model_type':'ernie4_5_moe','num_hidden_layers':4}",
         "{'model_type':'ernie4_5_moe','num_hidden_layers':4,'use_bias':null}"},
        {"{'model_type':'ernie4_5','num_hidden_layers':4}",
         "{'model_type':'ernie4_5','num_hidden_layers':4,'use_bias':null}"},
    };
    struct qkv_context *ctx;
    char x[QKV_DIGEST_TEXT], y[QKV_DIGEST_TEXT];
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        json_t *one = json_of(cases[i].one), *other = json_of(cases[i].other);
        assert_true(one && other);
        if (keys_read(ctx, one, x) || keys_read(ctx, other, y)) fail_msg("%s: %s", cases[i].one, qkv_message(ctx));
        if (strcmp(x, y) != 0) fail_msg("%s is another model than %s", cases[i].one, cases[i].other);
        json_decref(one);
        json_decref(other);
    }
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_a_reference_configuration_is_read_or_known_or_refused),
        cmocka_unit_test(every_family_has_a_reference_configuration),
        cmocka_unit_test(keys_that_nobody_knows_are_refused_where_their_names_are_about_a_model),
        cmocka_unit_test(no_sentence_about_a_configuration_has_a_path_of_a_spec),
        cmocka_unit_test(sentences_name_the_keys_of_the_file),
        cmocka_unit_test(other_words_of_published_files_give_the_same_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
