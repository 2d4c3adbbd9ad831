/* Notes: messages of a run that are no failures, stored in order for the caller to show. */
/* labels: quick */
#include "train_fixture.h"

static void notes_stay_in_order_and_whole(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    struct qkv_train_options o = fixture_options(ctx);
    struct qkv_trainer *t = fixture_begin(ctx, fixture_run("notes"), &o);
    char name[5000], expected[5100];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_null(qkv_trainer_note(t, 0));
    assert_ok(ctx, qkv_trainer_add_note(t, "%s has %d lines", name, 7));
    assert_ok(ctx, qkv_trainer_add_note(t, "the rate is %g", 0.5));
    snprintf(expected, sizeof expected, "%s has 7 lines", name);
    assert_string_equal(qkv_trainer_note(t, 0), expected);
    fixture_steps(ctx, t, 2);
    assert_string_equal(qkv_trainer_note(t, 1), "the rate is 0.5");
    assert_null(qkv_trainer_note(t, 2));
    assert_null(qkv_trainer_note(t, SIZE_MAX));
    qkv_trainer_free(t);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_stay_in_order_and_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
