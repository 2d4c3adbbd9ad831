/* The loss of a vocabulary that is computed in several parts, with a softcap and a teacher: its value beside the
 * formula in float64, and its gradient beside directional differences. test_op has losses of one part, and test_teacher
 * compares runs with float64. */
/* labels: numeric quick */
#include "op_fixture.h"

enum { ROWS = 7, COLUMNS = 8, VOCAB = 1100 }; /* three parts */

static const int32_t targets[ROWS] = {4, QKV_IGNORE, 511, 512, 1099, 700, QKV_IGNORE};

struct loss_case {
    struct qkv_softcap softcap;
    float smoothing, temperature, share; /* share 0: there is no teacher */
};
struct loss_scores {
    struct loss_case of;
    float teacher[ROWS * VOCAB], used[ROWS * VOCAB], logits[ROWS * VOCAB];
    bool wants_logits;
};

static double run_loss(struct fixture *f, build *make, bool record) {
    (void)make;
    struct loss_scores *s = (struct loss_scores *)(uintptr_t)f->options;
    struct qkv_loss loss;
    struct qkv_cross_entropy_options o = {
        .targets = targets, .scale = 1, .smoothing = s->of.smoothing, .softcap = s->of.softcap};
    memcpy(s->used, s->teacher, sizeof s->used); /* a loss uses them up */
    if (s->of.share > 0)
        o.rows = (struct qkv_loss_rows){.teacher = s->used, .temperature = s->of.temperature, .share = s->of.share};
    if (s->wants_logits) o.logits = s->logits;
    qkv_arena_release(&f->arena, 0);
    qkv_arena_release(&f->graph_arena, 0);
    qkv_tape_start(&f->tape, f->ctx, &f->arena, &f->graph_arena, record);
    struct qkv_tensor *x = qkv_op_activation(&f->tape, &f->leaves[0], QKV_FFN_SILU);
    qkv_op_cross_entropy(&f->tape, x, &f->leaves[1], NULL, &o, &loss);
    if (record) assert_int_equal(qkv_tape_backward(&f->tape), QKV_OK);
    assert_int_equal(f->tape.status, QKV_OK);
    assert_int_equal(loss.counted, 5);
    return loss.sum;
}

/* log Σ exp(scores/t) */
static double lse_of(const float *scores, double t) {
    double sum = 0;
    for (size_t v = 0; v < VOCAB; v++) sum += exp((double)scores[v] / t);
    return log(sum);
}

static double loss_by_formula(const struct loss_scores *s) {
    const double t = s->of.share > 0 ? (double)s->of.temperature : 1, share = (double)s->of.share;
    const double smoothing = (double)s->of.smoothing;
    double all = 0;
    for (size_t n = 0; n < ROWS; n++) {
        const float *own = s->logits + n * VOCAB, *teacher = s->teacher + n * VOCAB;
        double mean = 0, apart = 0;
        if (targets[n] == QKV_IGNORE) continue;
        const double lse = lse_of(own, 1), own_lse = lse_of(own, t), teacher_lse = lse_of(teacher, t);
        for (size_t v = 0; v < VOCAB; v++) {
            const double p = (double)teacher[v] / t - teacher_lse, q = (double)own[v] / t - own_lse;
            mean += (double)own[v] / VOCAB;
            apart += exp(p) * (p - q);
        }
        const double hard = lse - (1 - smoothing) * (double)own[targets[n]] - smoothing * mean;
        all += (1 - share) * hard + share * t * t * apart;
    }
    return all;
}

static void losses_of_several_parts_are_those_of_the_formula(void **state) {
    (void)state;
    static const struct loss_case cases[] = {
        {.softcap = {.cap = 1.5F}, .smoothing = 0.1F},
        {.temperature = 2, .share = 0.5F},
        {.softcap = {.scale = 0.7F, .cap = 1.5F}, .temperature = 3, .share = 0.7F, .smoothing = 0.1F},
        {.softcap = {.scale = 2, .cap = 4}, .temperature = 0.5F, .share = 1},
    };
    struct loss_scores *s = calloc(1, sizeof *s);
    for (uint64_t i = 0; i < TEST_COUNT(cases); i++) {
        struct fixture f;
        start(&f, 200 + i);
        f.options = s;
        s->of = cases[i];
        test_fill(&f.random, s->teacher, ROWS * VOCAB, 2);
        leaf(&f, ROWS, COLUMNS, 0);
        leaf(&f, VOCAB, COLUMNS, 0);
        s->wants_logits = true;
        const double with_logits = run_loss(&f, NULL, false), expected = loss_by_formula(s);
        s->wants_logits = false;
        const double found = run_loss(&f, NULL, false);
        if (!(fabs(found - expected) < 1e-5 * (1 + expected) && fabs(with_logits - expected) < 1e-5 * (1 + expected)))
            fail_msg("case %d: loss %.9g, with logits %.9g, not %.9g", (int)i, found, with_logits, expected);
        compare_slopes(&f, NULL, run_loss);
        finish(&f);
    }
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_of_several_parts_are_those_of_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
