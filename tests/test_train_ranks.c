/* Training on several ranks, which are threads of one process here: any number of them gives the losses, norms,
 * weights and moments of one. */
#include "rank_fixture.h"

enum { FORMS = 8, EXPERTS = 4, MUON = 5, MUON_EXPERTS = 6, ADAFACTOR = 7 };

static const int64_t form_groups[FORMS] = {8, 5, 4, 4, 7, 5, 7, 4};

/* Tables used twice, layers that share weights, experts whose corrections move, frozen weights, and optimizers that
 * need whole gradients. */
static struct run make_run(struct qkv_context *ctx, size_t chosen, bool bf16, int64_t groups, struct qkv_spec *spec) {
    static const char *const settings[EXPERTS][6] = {
        {NULL},
        {"decoder.norm.kind=rmsnorm", "position.kind=rope", "tie=none"},
        {"tie=head", "decoder.layers=3", "decoder.share=1", "decoder.ffn.kind=swiglu"},
        {"decoder.norm.placement=sandwich", "position.kind=alibi", "d_model=160", "decoder.attention.heads=4"}};
    struct run run = {.spec = spec, .options = fixture_options(ctx), .until = 3};
    const size_t form = chosen == MUON ? 1 : chosen == MUON_EXPERTS ? EXPERTS : chosen == ADAFACTOR ? 3 : chosen;
    if (chosen != form) run.options.optimizer = chosen == ADAFACTOR ? "adafactor" : "muon";
    static const char experts[] =
        "{\"format\":\"qkv\",\"version\":2,\"d_model\":32,\"context\":16,\"embed\":{\"position\":{\"kind\":\"learned\"}"
        "},"
        "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2},\"ffn\":{\"kind\":\"swiglu\",\"d_ff\":16,\"experts\":"
        "{\"count\":4,\"top_k\":2,\"scores\":\"sigmoid\",\"correction\":true,\"correction_rate\":0.01,\"balance_loss\":"
        "0.01}}}}";
    if (form < EXPERTS) *spec = fixture_spec(ctx, settings[form]);
    if (form == EXPERTS) assert_ok(ctx, qkv_spec_parse(ctx, spec, "experts", experts, sizeof experts - 1, NULL, 0));
    run.options.precision = bf16 ? "bf16" : "fp32";
    run.options.steps = run.until = 4, run.options.batch = form % 2 ? 11 : 8, run.options.groups = groups;
    run.options.warmup = 1, run.options.eval_every = 2, run.options.save_every = 2;
    run.options.dropout = form == 1 ? 0.2 : 0;
    run.options.accumulate = form == 2 ? 2 : 1;
    return run;
}

static void any_number_of_ranks_makes_the_bits_of_one(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    for (size_t form = 0; form < FORMS; form++) {
        for (int bf16 = 0; bf16 < 2; bf16++) {
            OWNED_SPEC struct qkv_spec spec = {0};
            struct run run = make_run(ctx, form, bf16, form_groups[form], &spec);
            make_run_of_one(&run, "several");
            for (int ranks = 2; ranks <= 4; ranks++) {
                run.folder = fixture_run("several");
                expect_run(&run, ranks);
                print_message("form %zu, %s, %d ranks\n", form, bf16 ? "bf16" : "fp32", ranks);
                assert_as_one(ctx, &run);
            }
        }
    }
    qkv_context_free(ctx);
}

static void another_number_of_ranks_goes_on(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    for (int form = 0; form < 3; form++) {
        OWNED_SPEC struct qkv_spec spec = {0};
        struct run run = make_run(ctx, form ? form == 1 ? MUON : ADAFACTOR : 2, form == 1, 4, &spec);
        make_run_of_one(&run, "several");
        for (int64_t step = 1; step <= 4; step++) {
            run.until = step;
            run.again = step > 1;
            expect_run(&run, (int[]){4, 1, 3, 2}[step - 1]);
        }
        assert_as_one(ctx, &run);
    }
    qkv_context_free(ctx);
}

/* ---- what is planned is what is taken and sent ------------------------------------------------------------------ */

struct sent {
    struct qkv_communicator inner;
    struct qkv_rank_plan plan;
    double exchanged, small, bytes, received; /* of the second step: messages, and bytes of those exchanged */
    size_t taken;
};
static struct sent sent[RANKS_MOST]; /* of each rank */

static int counted_exchange(void *state, int to, const void *data, size_t bytes, int from, void *received,
                            size_t received_bytes) {
    struct sent *s = state;
    s->exchanged++;
    s->bytes += (double)bytes;
    s->received += (double)received_bytes;
    return s->inner.exchange(s->inner.state, to, data, bytes, from, received, received_bytes);
}

static int counted_gather(void *state, int root, const void *own, size_t bytes, void *all) {
    struct sent *s = state;
    s->small++;
    return s->inner.gather(s->inner.state, root, own, bytes, all);
}

static int counted_broadcast(void *state, int root, void *data, size_t bytes) {
    struct sent *s = state;
    s->small++;
    return s->inner.broadcast(s->inner.state, root, data, bytes);
}

static void plan_and_count(struct qkv_trainer *t, int64_t step, int rank) {
    struct sent *s = &sent[rank];
    struct qkv_communicator *c = &t->ctx->ranks;
    if (step == 0) {
        struct qkv_context *ctx = fixture_context(1);
        struct qkv_model *model;
        qkv_context_set_precision(ctx, qkv_context_precision(t->ctx));
        if (qkv_model_plan(ctx, qkv_model_spec(t->model), &model)) abort();
        if (qkv_rank_plan(model, &t->options, (size_t)t->options.batch, t->data.T, c->ranks, rank, &s->plan)) abort();
        s->taken = qkv_trainer_bytes(t);
        qkv_model_free(model);
        qkv_context_free(ctx);
    } else if (step == 1) {
        s->inner = *c;
        *c = (struct qkv_communicator){c->rank,           c->ranks,        s,   counted_exchange, counted_gather,
                                       counted_broadcast, s->inner.reason, NULL};
    } else if (step == 2) {
        *c = s->inner;
    }
}

static void expect_plan(const struct sent *s) {
    const struct qkv_rank_plan *p = &s->plan;
    assert_int_equal(s->taken, p->train_bytes);
    assert_true(s->exchanged == p->gradient_messages + p->weight_messages);
    assert_true(s->bytes == p->gradient_sent + p->weight_sent);
    assert_true(s->received == p->received);
    assert_true(s->small == p->small_messages);
    assert_true(p->late_messages <= p->gradient_messages && p->late_sent <= p->gradient_sent);
    assert_true(p->late_messages + p->rounds > 0 || p->gradient_messages == 0); /* of one row none may travel */
}

static void memory_and_messages_are_as_planned(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    for (size_t i = 0; i < 2 * FORMS; i++)
        for (int ranks = 1; ranks <= 4; ranks++) {
            const size_t form = i % FORMS;
            OWNED_SPEC struct qkv_spec spec = {0};
            struct run run = make_run(ctx, form, (form + (size_t)ranks) % 2, form_groups[form], &spec);
            memset(sent, 0, sizeof sent);
            if (i >= FORMS)
                run.options.batch = run.options.accumulate = 1; /* on one rank, where nothing is added later */
            run.options.eval_every = run.options.save_every = 100;
            run.options.gradients = form == 3 ? "bf16" : "fp32";
            run.disturbs = plan_and_count;
            run.folder = fixture_run("planned");
            expect_run(&run, ranks);
            for (int r = 0; r < ranks; r++) expect_plan(&sent[r]);
        }
    qkv_context_free(ctx);
}

static void more_ranks_than_groups_are_refused(void **state) {
    (void)state;
    char message[1024];
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct run run = make_run(ctx, 0, false, 2, &spec);
    run.folder = fixture_run("few");
    assert_int_equal(run_ranks(&run, 3, message), QKV_ARGUMENT);
    assert_non_null(strstr(message, "there are 3 ranks and 2 groups"));
    assert_false(fixture_has(run.folder, "train.json"));
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_makes_the_bits_of_one),
        cmocka_unit_test(another_number_of_ranks_goes_on),
        cmocka_unit_test(memory_and_messages_are_as_planned),
        cmocka_unit_test(more_ranks_than_groups_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
