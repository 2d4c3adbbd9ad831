/* GGUF files that the library writes. The files of tests/golden/gguf, which the gguf package wrote and whose scores
 * test_gguf_models.c compares with llama.cpp, are the oracle: written again from the model, they have the same keys and
 * the same tensors, to the bit. */
/* labels: numeric */
#include "gguf_fixture.h"
#include "gguf_write_fixture.h"

#include <dirent.h>

#include "io/gguf_own.h"
#include "io/gguf_write.h"
#include "model/model.h"
#include "model/spec.h"

/* ---- the writer -------------------------------------------------------------------------------------------------- */

static void expect_json(const struct qkv_gguf *g, const char *key, const char *text) {
    const struct qkv_gguf_value *value = qkv_gguf_find(g, key);
    if (!value) fail_msg("no key %s", key);
    json_t *json = qkv_gguf_value_json(g, value);
    char *have = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    assert_string_equal(have, text);
    free(have);
    json_decref(json);
}

static void keys_and_tensors_are_read_as_they_were_written(void **state) {
    struct qkv_context *ctx = *state;
    const float numbers[6] = {1, 2, 3, 4, 5, 6}, few[1] = {7};
    const struct qkv_array matrix = {.name = "a", .dtype = QKV_F32, .rank = 2, .shape = {2, 3}};
    const struct qkv_array vector = {.name = "b.weight", .dtype = QKV_F32, .rank = 1, .shape = {1}};
    struct qkv_gguf_writer w = {.ctx = ctx, .path = test_path("keys.gguf")};
    json_t *list = json_pack("[i, i, i]", 3, 0, 2), *reals = json_pack("[f, f]", 0.5, 1e-6);
    qkv_gguf_put_u32(&w, "u", 4000000000u);
    qkv_gguf_put_bool(&w, "yes", true);
    qkv_gguf_put_text(&w, "text", "a\tb", 3);
    qkv_gguf_put_json(&w, "list", list);
    qkv_gguf_put_json(&w, "reals", reals);
    json_decref(list);
    json_decref(reals);
    list = json_pack("[s, s]", "x", "");
    qkv_gguf_put_json(&w, "texts", list);
    json_decref(list);
    list = json_integer(-5);
    qkv_gguf_put_json(&w, "negative", list);
    json_decref(list);
    list = json_integer(5000000000);
    qkv_gguf_put_json(&w, "large", list);
    json_decref(list);
    qkv_gguf_put_tensor(&w, &matrix);
    qkv_gguf_put_tensor(&w, &vector);
    assert_int_equal(qkv_gguf_begin_data(&w), QKV_OK);
    qkv_gguf_write_data(&w, numbers, 8);
    qkv_gguf_write_data(&w, numbers + 2, 16);
    qkv_gguf_end_tensor(&w);
    qkv_gguf_write_data(&w, few, sizeof few);
    qkv_gguf_end_tensor(&w);
    assert_int_equal(qkv_gguf_commit(&w), QKV_OK);
    qkv_gguf_writer_free(&w);

    struct qkv_gguf *g;
    struct qkv_tensors *t;
    assert_int_equal(qkv_gguf_open(ctx, test_path("keys.gguf"), &g, &t), QKV_OK);
    expect_json(g, "u", "4000000000");
    expect_json(g, "yes", "true");
    expect_json(g, "text", "\"a\\tb\"");
    expect_json(g, "list", "[3,0,2]");
    expect_json(g, "reals", "[0.5,1e-6]");
    expect_json(g, "texts", "[\"x\",\"\"]");
    expect_json(g, "negative", "-5");
    expect_json(g, "large", "5000000000");
    const struct qkv_array *a = qkv_tensors_find(t, "a"), *b = qkv_tensors_find(t, "b.weight");
    assert_true(a && b && a->rank == 2 && a->shape[0] == 2 && a->shape[1] == 3 && b->rank == 1);
    assert_memory_equal(a->data, numbers, sizeof numbers);
    assert_memory_equal(b->data, few, sizeof few);
    qkv_gguf_free(g);
    qkv_tensors_close(t);
}

/* ---- golden files ------------------------------------------------------------------------------------------------ */

/* Keys that files of one writer have and those of another one need not have. */
static bool key_is_free(const char *key) {
    return !strcmp(key, "general.file_type") || !strcmp(key, "general.type") || !strncmp(key, "split.", 6) ||
           strstr(key, ".vocab_size") || strstr(key, ".attention.causal");
}

/* Keys that files of ours have and the golden ones do not: what readers of Gemma 3 take for granted, and the end token
 * of a folder without a tokenizer, whose config.json the writer of the golden file did not read. */
static bool key_is_added(const char *key) {
    return !strcmp(key, "gemma3.attention.sliding_window_pattern") || !strcmp(key, "gemma3.rope.freq_base_swa") ||
           !strcmp(key, "tokenizer.ggml.eos_token_id");
}

static void expect_keys(const struct qkv_gguf *have, const struct qkv_gguf *want, const char *path) {
    for (size_t i = 0; i < want->count; i++) {
        const char *key = want->values[i].key;
        const struct qkv_gguf_value *value = qkv_gguf_find(have, key);
        if (key_is_free(key)) continue;
        if (!value) fail_msg("%s: the key %s is missing", path, key);
        json_t *x = qkv_gguf_value_json(have, value), *y = qkv_gguf_value_json(want, &want->values[i]);
        char *text = json_dumps(x, JSON_ENCODE_ANY), *other = json_dumps(y, JSON_ENCODE_ANY);
        if (strcmp(text, other) != 0 || value->type != want->values[i].type)
            fail_msg("%s: %s is %.80s of type %d, not %.80s of type %d", path, key, text, value->type, other,
                     want->values[i].type);
        free(text);
        free(other);
        json_decref(x);
        json_decref(y);
    }
    for (size_t i = 0; i < have->count; i++) {
        const char *key = have->values[i].key;
        if (!key_is_free(key) && !key_is_added(key) && !qkv_gguf_find(want, key))
            fail_msg("%s: the key %s is one too many", path, key);
    }
}

static void expect_tensors(const struct qkv_tensors *have, const struct qkv_tensors *want, const char *path) {
    for (size_t i = 0; i < qkv_tensors_count(want); i++) {
        const struct qkv_array *y = qkv_tensors_at(want, i), *x = qkv_tensors_find(have, y->name);
        if (!x) fail_msg("%s: the tensor %s is missing", path, y->name);
        if (x->dtype != y->dtype || x->rank != y->rank || memcmp(x->shape, y->shape, (size_t)x->rank * sizeof(size_t)))
            fail_msg("%s: %s has another shape or type", path, y->name);
        if (memcmp(x->data, y->data, y->bytes) != 0) fail_msg("%s: %s has other numbers", path, y->name);
    }
    if (qkv_tensors_count(have) != qkv_tensors_count(want))
        fail_msg("%s: %zu tensors, not %zu", path, qkv_tensors_count(have), qkv_tensors_count(want));
}

/* Writes the model of `from`, a GGUF file or a folder, and compares it with a file. family: NULL for the usual one. */
static void check_golden(const char *from, const char *path, const char *family) {
    struct opened o = open_path(from);
    struct qkv_gguf_options options = qkv_gguf_defaults();
    options.family = family;
    struct qkv_gguf *have, *want;
    struct qkv_tensors *x, *y;
    char *notes = write_model(o.model, &options, test_path("again.gguf"));
    if (strstr(notes, "architecture qkv")) fail_msg("%s: %s", path, notes);
    free(notes);
    assert_int_equal(qkv_gguf_open(o.ctx, test_path("again.gguf"), &have, &x), QKV_OK);
    assert_int_equal(qkv_gguf_open(o.ctx, path, &want, &y), QKV_OK);
    expect_keys(have, want, path);
    expect_tensors(x, y, path);
    qkv_gguf_free(have);
    qkv_gguf_free(want);
    qkv_tensors_close(x);
    qkv_tensors_close(y);
    close_opened(&o);
}

static void golden_files_are_written_again_as_they_were(void **state) {
    (void)state;
    DIR *folder = opendir(TEST_SOURCE_DIR "/tests/golden/gguf");
    size_t count = 0, several = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[600];
        const size_t n = strlen(entry->d_name);
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/gguf/%s", entry->d_name);
        if (n < 6 || strcmp(entry->d_name + n - 5, ".gguf") != 0) continue;
        check_golden(path, path, NULL);
        if (!strncmp(entry->d_name, "falcon", 6)) { /* a family of several types */
            check_golden(path, path, "falcon");
            check_golden(path, path, "RefinedWeb");
            several++;
        }
        count++;
    }
    closedir(folder);
    assert_true(count >= 20 && several);
}

static void files_of_folders_are_those_of_the_gguf_package(void **state) {
    static const char *const names[] = {"llama_11_004", "mpt_11_004"};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char folder[600], path[600];
        snprintf(folder, sizeof folder, TEST_SOURCE_DIR "/tests/golden/hf_random/%s", names[i]);
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/gguf/%s.gguf", names[i]);
        check_golden(folder, path, NULL);
    }
}

/* ---- models of ours ---------------------------------------------------------------------------------------------- */

static void expect_same_weights(const struct qkv_model *a, const struct qkv_model *b) {
    assert_int_equal(qkv_model_parameters(a), qkv_model_parameters(b));
    for (size_t i = 0; i < qkv_model_parameters(a); i++) {
        const struct qkv_array *p = qkv_model_parameter(a, i), *q = qkv_model_parameter(b, i);
        const size_t n = qkv_array_elements(p);
        float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
        assert_string_equal(p->name, q->name);
        qkv_array_floats(p, x);
        qkv_array_floats(q, y);
        if (memcmp(x, y, n * sizeof *x) != 0) fail_msg("%s has other numbers", p->name);
        free(x);
        free(y);
    }
}

/* Writes a model with a tokenizer, opens the file, and compares spec, weights and ids. */
static void check_comes_back(struct qkv_model *model, const char *note, bool same_digest) {
    static const char text[] = "to be, or not 42 to be!";
    struct qkv_context *ctx = qkv_model_context(model);
    char x[QKV_DIGEST_TEXT], y[QKV_DIGEST_TEXT], *notes = write_model(model, NULL, test_path("back.gguf"));
    if (note ? !strstr(notes, note) : *notes) fail_msg("the notes are: %s", notes);
    free(notes);
    struct qkv_model *again;
    load_or_fail(ctx, test_path("back.gguf"), &again);
    assert_ok(ctx, qkv_spec_digest(ctx, qkv_model_spec(model), x));
    assert_ok(ctx, qkv_spec_digest(ctx, qkv_model_spec(again), y));
    if (same_digest) assert_string_equal(x, y);
    expect_same_weights(model, again);
    int32_t *ids[2];
    size_t count[2];
    const struct qkv_tokenizer *t[] = {qkv_model_tokenizer(model), qkv_model_tokenizer(again)};
    for (size_t i = 0; i < 2; i++)
        assert_ok(ctx, qkv_tokenizer_encode(ctx, t[i], text, sizeof text - 1, true, &ids[i], &count[i]));
    assert_int_equal(count[0], count[1]);
    assert_memory_equal(ids[0], ids[1], count[0] * sizeof *ids[0]);
    qkv_free(ids[0]);
    qkv_free(ids[1]);
    qkv_model_free(again);
}

static void give_tokenizer(struct qkv_model *model, int kind) {
    static const char text[] = "to be, or not to be! 42 the question is or to be not the thing";
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_tokenizer_options o = qkv_tokenizer_defaults();
    struct qkv_tokenizer *t;
    o.kind = (enum qkv_tokenizer_kind)kind;
    o.vocab = kind == QKV_TOKENIZER_BPE ? 280 : 0;
    assert_ok(ctx, qkv_tokenizer_train(ctx, &o, text, sizeof text - 1, &t));
    assert_ok(ctx, qkv_model_set_tokenizer(model, t));
}

static void a_model_comes_back_from_its_file(void **state) {
    struct qkv_model *model = make_llama(*state, 2, 32);
    give_tokenizer(model, QKV_TOKENIZER_BPE);
    check_comes_back(model, NULL, false);
    /* a tokenizer that GGUF files have no name for */
    give_tokenizer(model, QKV_TOKENIZER_CHARS);
    check_comes_back(model, "the tokenizer is in the file as a tokenizer.json", false);
    qkv_model_free(model);
}

/* A tokenizer.json of each kind of tokenizers in GGUF files, apart from byte-level BPE, with ' for ". */
#define SPECIAL(id, text)                                                                                              \
    "{'id':" #id ",'content':'" text "','single_word':false,'lstrip':false,'rstrip':false,"                            \
    "'normalized':false,'special':true}"
#define AROUND(before, after, specials)                                                                                \
    "'post_processor':{'type':'TemplateProcessing','single':[" before "{'Sequence':{'id':'A','type_id':0}}" after      \
    "],'pair':[],'special_tokens':{" specials "}}"
#define PLACE(text)        "{'SpecialToken':{'id':'" text "','type_id':0}}"
#define TOKEN_OF(id, text) "'" text "':{'id':'" text "','ids':[" #id "],'tokens':['" text "']}"
static const struct {
    const char *kind, *json;
} kinds[] = {
    {"llama",
     "{'version':'1.0','added_tokens':[" SPECIAL(0, "<unk>") "," SPECIAL(1, "<s>") "," SPECIAL(
         2,
         "</s>") "],'normalizer':{'type':'Sequence','normalizers':[{'type':'Prepend','prepend':'▁'},{'type':'Replace',"
                 "'pattern':{'String':' '},'content':'▁'}]},'pre_tokenizer':null," AROUND(
                     PLACE("<s>") ",", "",
                     TOKEN_OF(1, "<s>")) ",'decoder':null,'model':{'type':'BPE','unk_token':'<unk>','fuse_unk':true,'"
                                         "byte_fallback':false,'vocab':{"
                                         "'<unk>':0,'<s>':1,'</"
                                         "s>':2,'▁':3,'t':4,'o':5,'b':6,'e':7,'▁t':8,'▁to':9,'be':10,'▁be':11,',':12},"
                                         "'merges':['▁ t','▁t o','b e','▁ be']}}"},
    {"bert",
     "{'version':'1.0','added_tokens':[" SPECIAL(0, "[PAD]") "," SPECIAL(1, "[UNK]") "," SPECIAL(
         2, "[CLS]") "," SPECIAL(3, "[SEP]") "],'normalizer':{'type':'BertNormalizer','clean_text':true,'handle_"
                                             "chinese_chars':true,"
                                             "'strip_accents':null,'lowercase':true},'pre_tokenizer':{'type':'"
                                             "BertPreTokenizer'}," AROUND(
                                                 PLACE("[CLS]") ",", "," PLACE("[SEP]"),
                                                 TOKEN_OF(2, "[CLS]") "," TOKEN_OF(
                                                     3, "[SEP]")) ",'decoder':null,'model':{'type':'WordPiece','unk_"
                                                                  "token':'[UNK]','continuing_subword_prefix':'##',"
                                                                  "'max_input_chars_per_word':100,'vocab':{'[PAD]':0,'["
                                                                  "UNK]':1,'[CLS]':2,'[SEP]':3,'to':4,'b':5,'##e':6,"
                                                                  "'or':7,'no':8,'##t':9,',':10,'t':11}}}"},
    {"t5", "{'version':'1.0','added_tokens':[" SPECIAL(0, "<pad>") "," SPECIAL(1, "</s>") "," SPECIAL(
               2, "<unk>") "],'normalizer':null,'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'"
                           "WhitespaceSplit'},{'type':"
                           "'Metaspace','replacement':'▁','prepend_scheme':'always','split':true}]}," AROUND(
                               "", "," PLACE("</s>"),
                               TOKEN_OF(1, "</s>")) ",'decoder':null,'model':{'type':'Unigram','unk_id':2,'byte_"
                                                    "fallback':false,'vocab':[['<pad>',0.0],['</s>',0.0],"
                                                    "['<unk>',0.0],['▁',-2.0],['▁to',-3.5],['▁be',-3.25],['t',-4.0],['"
                                                    "o',-4.5],['b',-4.0],['e',-4.0],['or',-5.0],"
                                                    "[',',-3.0]]}}"},
};

static void tokenizers_of_each_kind_come_back(void **state) {
    static const char text[] = "to be, or not  to be";
    struct qkv_context *ctx = *state;
    struct qkv_model *model = make_llama(ctx, 1, 32);
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        struct qkv_tokenizer *t, *again;
        struct qkv_gguf *g;
        struct qkv_tensors *tensors;
        int32_t *ids[2];
        size_t count[2];
        char *json = strdup(kinds[i].json), wanted[32];
        for (char *c = json; *c; c++)
            if (*c == '\'') *c = '"';
        assert_ok(ctx, qkv_tokenizer_parse(ctx, json, strlen(json), kinds[i].kind, &t));
        free(json);
        assert_ok(ctx, qkv_model_set_tokenizer(model, t));
        char *notes = write_model(model, NULL, test_path("kind.gguf"));
        if (*notes) fail_msg("%s: %s", kinds[i].kind, notes);
        free(notes);
        assert_ok(ctx, qkv_gguf_open(ctx, test_path("kind.gguf"), &g, &tensors));
        snprintf(wanted, sizeof wanted, "\"%s\"", kinds[i].kind);
        expect_json(g, "tokenizer.ggml.model", wanted);
        qkv_gguf_free(g);
        qkv_tensors_close(tensors);
        assert_ok(ctx, qkv_folder_tokenizer(ctx, test_path("kind.gguf"), &again));
        assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, t, text, sizeof text - 1, true, &ids[0], &count[0]));
        assert_ok(ctx, qkv_tokenizer_encode_sequence(ctx, again, text, sizeof text - 1, true, &ids[1], &count[1]));
        if (count[0] != count[1] || memcmp(ids[0], ids[1], count[0] * sizeof *ids[0]) != 0)
            fail_msg("%s: %zu and %zu ids, or others", kinds[i].kind, count[0], count[1]);
        assert_true(count[0] > 6);
        qkv_free(ids[0]);
        qkv_free(ids[1]);
        qkv_tokenizer_free(again);
    }
    qkv_model_free(model);
}

static void a_model_without_an_architecture_is_a_file_of_our_own(void **state) {
    struct qkv_model *model = make_model(
        *state, "{'format':'qkv','version':2,'vocab':300,'context':32,'d_model':16,'decoder':{'layers':2,'attention':{"
                "'heads':2,'position':{'kind':'buckets'}},'norm':{'placement':'post'}},'head':{'kind':'lm'}}");
    give_tokenizer(model, QKV_TOKENIZER_BPE);
    check_comes_back(model, "the file is of architecture qkv", true);
    qkv_model_free(model);
}

/* ---- blocks ---------------------------------------------------------------------------------------------------- */

/* A file in blocks that gets the same type again has the same bytes; another type is told. */
static void blocks_are_copied_or_told(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_model *model = make_llama(ctx, 2, 64), *few;
    struct qkv_gguf *g[2];
    struct qkv_tensors *t[2];
    struct qkv_gguf_options o = qkv_gguf_defaults();
    o.format = "q4_0";
    o.pure = true;
    free(write_model(model, &o, test_path("few.gguf")));
    load_or_fail(ctx, test_path("few.gguf"), &few);
    char *notes = write_model(few, &o, test_path("twice.gguf"));
    assert_null(strstr(notes, "rounded again"));
    free(notes);
    assert_ok(ctx, qkv_gguf_open(ctx, test_path("few.gguf"), &g[0], &t[0]));
    assert_ok(ctx, qkv_gguf_open(ctx, test_path("twice.gguf"), &g[1], &t[1]));
    expect_tensors(t[0], t[1], "twice.gguf");
    o.format = "q5_1";
    notes = write_model(few, &o, test_path("other.gguf"));
    assert_non_null(strstr(notes, "are in blocks of few bits already and are rounded again"));
    free(notes);
    for (size_t i = 0; i < 2; i++) {
        qkv_gguf_free(g[i]);
        qkv_tensors_close(t[i]);
    }
    qkv_model_free(few);
    qkv_model_free(model);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static size_t files_in_folder(void) {
    DIR *folder = opendir(test_folder());
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.' || entry->d_name[1] > '.';
    closedir(folder);
    return count;
}

static bool stop_at_once(void *user, const char *what, double done, double total) {
    (void)user, (void)what, (void)total;
    return done == 0;
}

static void faults_leave_the_old_file(void **state) {
    struct qkv_context *ctx = *state;
    struct qkv_model *model = make_llama(ctx, 1, 32);
    struct qkv_gguf_options o = qkv_gguf_defaults();
    float *x = NULL, *norm = NULL;
    for (size_t i = 0; i < qkv_model_parameters(model); i++) {
        const struct qkv_array *p = qkv_model_parameter(model, i);
        if (strstr(p->name, "attn.k")) x = (float *)(uintptr_t)p->data;
        if (!strcmp(p->name, "decoder.layers.0.attn_norm.weight")) norm = (float *)(uintptr_t)p->data;
    }
    assert_true(x && norm);
    test_write_file(test_path("old.gguf"), "old", 3);
    const size_t files = files_in_folder();
    o.progress = stop_at_once;
    assert_int_equal(qkv_model_export_gguf(model, &o, test_path("old.gguf"), NULL), QKV_STOPPED);
    o = qkv_gguf_defaults();
    o.format = "q8_0";
    x[40] = NAN;
    assert_int_equal(qkv_model_export_gguf(model, &o, test_path("old.gguf"), NULL), QKV_NUMBER);
    assert_non_null(strstr(qkv_message(ctx), "blk.0.attn_k.weight holds numbers that are not finite"));
    static const char *const reals[] = {"f32", "f16", "bf16"};
    for (size_t i = 0; i < TEST_COUNT(reals); i++) {
        o.format = reals[i];
        assert_int_equal(qkv_model_export_gguf(model, &o, test_path("old.gguf"), NULL), QKV_NUMBER);
        assert_non_null(strstr(qkv_message(ctx), "blk.0.attn_k.weight holds numbers that are not finite"));
    }
    x[40] = 1;
    norm[3] = INFINITY;
    o.format = "q8_0";
    assert_int_equal(qkv_model_export_gguf(model, &o, test_path("old.gguf"), NULL), QKV_NUMBER);
    assert_non_null(strstr(qkv_message(ctx), "blk.0.attn_norm.weight holds numbers that are not finite"));
    norm[3] = 1;
    o.format = "f16";
    x[40] = 1e6f;
    assert_int_equal(qkv_model_export_gguf(model, &o, test_path("old.gguf"), NULL), QKV_NUMBER);
    assert_non_null(strstr(qkv_message(ctx), "blk.0.attn_k.weight holds numbers that are too large for f16"));
    o.format = "f32";
    o.family = "gpt2";
    assert_int_equal(qkv_model_export_gguf(model, &o, test_path("old.gguf"), NULL), QKV_SPEC);
    o.family = "llamas";
    assert_int_equal(qkv_gguf_options_check(ctx, &o), QKV_ARGUMENT);
    assert_non_null(strstr(qkv_message(ctx), "GGUF files have no family \"llamas\"; there are gpt2, llama"));
    const char *once = strstr(qkv_message(ctx), ", t5,");
    assert_true(once && !strstr(once + 1, ", t5,"));
    assert_int_equal(files_in_folder(), files);
    struct stat info;
    assert_true(stat(test_path("old.gguf"), &info) == 0 && info.st_size == 3);
    qkv_model_free(model);
}

static void poolings_of_unknown_numbers_are_none(void **state) {
    static const struct {
        double number;
        bool given;
    } cases[] = {{-1, false}, {0, false}, {1, true}, {3, true}, {4, false}, {4e9, false}, {1e300, false}};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_model_pooling pooling = {0};
        qkv_gguf_set_pooling(&pooling, cases[i].number);
        assert_int_equal(pooling.given, cases[i].given);
    }
}

/* What the architecture llama has no keys for: settings of sampling, and three of six end tokens. */
static void notes_say_what_the_file_does_not_have(void **state) {
    struct qkv_model *model = make_llama(*state, 1, 32);
    struct qkv_gguf_options o = qkv_gguf_defaults();
    struct qkv_gguf_notes *list;
    qkv_model_generation_clear(&model->generation);
    model->generation.given = true;
    model->generation.sampling = (struct qkv_sampling){.temperature = 0.5, .repeat_penalty = 1};
    for (int32_t id = 2; id < 8; id++) model->generation.ends[model->generation.end_count++] = id;
    char *notes = write_model(model, NULL, test_path("notes.gguf"));
    if (!strstr(notes, "the file does not have all of the model's settings of sampling (generation_config.json)\n") ||
        !strstr(notes, "the file does not have 3 of the tokens that end a text\n") ||
        !strstr(notes, "the model has no tokenizer, so the file reads ids only\n"))
        fail_msg("the notes are: %s", notes);
    free(notes);
    o.family = "qkv"; /* whose files have the settings */
    notes = write_model(model, &o, test_path("notes.gguf"));
    assert_null(strstr(notes, "does not have"));
    free(notes);
    model->generation.sampling.temperature = 0;
    model->generation.end_count = 3;
    notes = write_model(model, NULL, test_path("notes.gguf"));
    assert_null(strstr(notes, "does not have"));
    free(notes);
    assert_ok(*state, qkv_model_export_gguf(model, &o, test_path("notes.gguf"), &list));
    assert_string_equal(qkv_gguf_notes_architecture(list), "qkv");
    assert_string_equal(qkv_gguf_notes_format(list), "F32");
    qkv_gguf_notes_free(list);
    qkv_model_free(model);
    static const char *const folders[][2] = {
        {"hf_random/falcon_11_001", "the file is of architecture phi2, not of the model's family falcon: "},
        {"hf/bert_pretraining", "tensors of the source that the model does not use: "}};
    for (size_t i = 0; i < TEST_COUNT(folders); i++) {
        char path[600];
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/%s", folders[i][0]);
        struct opened other = open_path(path);
        notes = write_model(other.model, NULL, test_path("notes.gguf"));
        if (!strstr(notes, folders[i][1])) fail_msg("the notes of %s are: %s", path, notes);
        free(notes);
        close_opened(&other);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CONTEXT(keys_and_tensors_are_read_as_they_were_written),
        cmocka_unit_test(golden_files_are_written_again_as_they_were),
        cmocka_unit_test(files_of_folders_are_those_of_the_gguf_package),
        TEST_WITH_CONTEXT(a_model_comes_back_from_its_file),
        TEST_WITH_CONTEXT(tokenizers_of_each_kind_come_back),
        TEST_WITH_CONTEXT(a_model_without_an_architecture_is_a_file_of_our_own),
        TEST_WITH_CONTEXT(blocks_are_copied_or_told),
        TEST_WITH_CONTEXT(faults_leave_the_old_file),
        cmocka_unit_test(poolings_of_unknown_numbers_are_none),
        TEST_WITH_CONTEXT(notes_say_what_the_file_does_not_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
