/* Files that another program truncates while they are read: a message and no signal, and the run stays intact. */
/* labels: quick */
#include "train_fixture.h"

#include "text/text.h"

#define FIXTURE_CONTEXT fixture_context(2)
#include "context_fixture.h"

static enum qkv_status read_on(struct qkv_text_stream *stream) {
    enum qkv_status status = QKV_OK;
    while (!status && stream->position < stream->file.size) {
        struct qkv_text_tokens tokens = {0};
        status = qkv_text_next(stream, &tokens);
        qkv_text_tokens_free(&tokens);
    }
    return status;
}

static void a_text_that_shrinks_gives_a_sentence(void **state) {
    (void)state;
    const char *path = test_path("shrinks.txt");
    struct qkv_tokenizer_options options = {.size = sizeof options, .kind = QKV_TOKENIZER_BYTES};
    struct qkv_tokenizer *tokenizer;
    struct qkv_text_stream stream;
    struct qkv_text_tokens tokens = {0};
    fixture_text(path, (size_t)3 << 20, 1);
    assert_ok(ctx, qkv_tokenizer_train(ctx, &options, NULL, 0, &tokenizer));
    assert_ok(ctx, qkv_text_open(ctx, path, tokenizer, &stream));
    assert_ok(ctx, qkv_text_next(&stream, &tokens));
    qkv_text_tokens_free(&tokens);
    assert_int_equal(truncate(path, 5000), 0);
    assert_status(ctx, read_on(&stream), QKV_FILE);
    assert_message(ctx, "has become shorter while it was read");
    qkv_text_close(&stream);
    qkv_tokenizer_free(tokenizer);
}

static void tokens_that_shrink_stop_the_run_which_stays_whole(void **state) {
    (void)state;
    const char *folder = fixture_run("shrinks");
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_train_report report;
    char path[2048];
    size_t size;
    o.save_every = 2;
    struct qkv_trainer *t = fixture_begin(ctx, folder, &o);
    fixture_steps(ctx, t, 2);
    char *tokens = fixture_read(folder, "tokens.data.bin", &size);
    snprintf(path, sizeof path, "%s/tokens.data.bin", folder);
    assert_int_equal(truncate(path, 0), 0);
    assert_status(ctx, qkv_trainer_step(t, &report), QKV_FILE);
    assert_message(ctx, "tokens.data.bin has become shorter");
    assert_message(ctx, "restore the file; or remove it, and it is made again from the text");
    assert_message(ctx, "remove it, and it is made again");
    qkv_trainer_free(t);
    assert_int_equal(unlink(path), 0);
    assert_ok(ctx, qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &t));
    fixture_steps(ctx, t, 6);
    qkv_trainer_free(t);
    size_t again_size;
    char *again = fixture_read(folder, "tokens.data.bin", &again_size);
    assert_int_equal(again_size, size);
    assert_memory_equal(again, tokens, size);
    free(again);
    free(tokens);
}

static void files_that_shrink_are_not_half_read(void **state) {
    (void)state;
    const char *path = test_path("shorter.bin");
    struct qkv_file file;
    char bytes[100] = {0};
    test_write_file(path, bytes, sizeof bytes);
    assert_ok(ctx, qkv_file_open(ctx, path, &file));
    assert_ok(ctx, qkv_file_read(&file, 40, bytes, 60));
    assert_int_equal(truncate(path, 99), 0);
    assert_ok(ctx, qkv_file_read(&file, 40, bytes, 59));
    assert_status(ctx, qkv_file_read(&file, 40, bytes, 60), QKV_FILE);
    assert_message(ctx, "it had 100 bytes and ends now before byte 100");
    qkv_file_close(&file);
}

/* A tokenizer learnt from pieces that are cut where it allows, of at least 1 to 40 bytes. */
static struct qkv_tokenizer *learn_in_pieces(const struct qkv_tokenizer_options *options, const char *text, size_t size,
                                             struct qkv_random *random) {
    struct qkv_learner *learner;
    struct qkv_tokenizer *t;
    size_t at = 0, pieces = 0;
    assert_ok(ctx, qkv_learner_begin(ctx, options, &learner));
    for (; at < size; pieces++) {
        size_t take = 0;
        for (size_t piece = 1 + (size_t)qkv_random_below(random, 40); take == 0; piece *= 2) {
            bool end = piece >= size - at;
            take = qkv_learner_cut(learner, text + at, end ? size - at : piece, end);
        }
        assert_ok(ctx, qkv_learner_read(learner, text + at, take));
        at += take;
    }
    assert_true(pieces > 10);
    assert_ok(ctx, qkv_learner_end(learner, &t));
    qkv_learner_free(learner);
    return t;
}

static void a_tokenizer_of_pieces_is_that_of_the_whole_text(void **state) {
    (void)state;
    static const char *const specials[] = {"<|endoftext|>", "<|end|>"};
    static const char *const parts[] = {
        "the cat's ", "<|endoftext|>", "na\xc3\xafve  ", "\xe2\x82\xac 1234", "\r\n\r\n ", "<|end", "|>",
        "\xff\xfe",   "don't ",        "<|end|>"};
    for (int kind = QKV_TOKENIZER_CHARS; kind < TEST_KINDS; kind++) {
        struct qkv_random random = qkv_random_start(test_seed(), (uint64_t)kind);
        struct qkv_tokenizer_options options = {.size = sizeof options,
                                                .kind = (enum qkv_tokenizer_kind)kind,
                                                .vocab = 320,
                                                .specials = specials,
                                                .special_count = 2};
        struct qkv_buffer text = {0}, a = {0}, b = {0};
        struct qkv_tokenizer *whole, *pieces;
        for (int i = 0; i < 400; i++) {
            const char *part = parts[qkv_random_below(&random, TEST_COUNT(parts))];
            assert_ok(ctx, qkv_buffer_append(ctx, &text, part, strlen(part)));
        }
        assert_ok(ctx, qkv_tokenizer_train(ctx, &options, text.data, text.size, &whole));
        pieces = learn_in_pieces(&options, text.data, text.size, &random);
        assert_ok(ctx, qkv_tokenizer_print(ctx, whole, &a));
        assert_ok(ctx, qkv_tokenizer_print(ctx, pieces, &b));
        assert_string_equal(a.data, b.data);
        qkv_tokenizer_free(whole);
        qkv_tokenizer_free(pieces);
        qkv_buffer_free(&text);
        qkv_buffer_free(&a);
        qkv_buffer_free(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_shrinks_gives_a_sentence),
        cmocka_unit_test(tokens_that_shrink_stop_the_run_which_stays_whole),
        cmocka_unit_test(files_that_shrink_are_not_half_read),
        cmocka_unit_test(a_tokenizer_of_pieces_is_that_of_the_whole_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
