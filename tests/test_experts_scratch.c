/* Experts: the number of rows of each is known only when it runs, so a dry run computes a bound of the memory.
 * Random routings run in exactly that much, forward alone and both ways, in both precisions: an arena that needs
 * more reports it. */
/* labels: numeric quick */
#include "op_fixture.h"

#include "op/weights.h"

enum { EXPERTS = 6, GROUPS = 8, ROUNDS = 24, MOST_ROWS = 400, MOST_WIDTH = 90, CROWDED = 3 };

struct scratch {
    struct fixture f;
    size_t N, E, K, C, F;
    enum qkv_ffn_kind kind;
    bool bias, crowded;
    struct qkv_route_options route;
    struct qkv_row_order order;
    size_t first[GROUPS + 1], start[GROUPS + 1];
    float *logits;
    struct qkv_linear up[EXPERTS], down[EXPERTS];
    struct qkv_tensor *operands[4 * EXPERTS];
    struct qkv_expert_weights weights;
    bool adapted; /* with adapters, which rows choose in some rounds, where nothing is recorded */
    float dropout;
    size_t rank[2];
    struct qkv_adapter adapters[2][EXPERTS];
    struct qkv_adapter_part parts[2][EXPERTS];
    struct qkv_tensor *learns[2][EXPERTS][2];
    struct qkv_adapter_run every, some; /* of the rows: in a plan, and as it runs */
};

static size_t drawn(struct fixture *f, size_t from, size_t to) {
    return from + (size_t)qkv_random_below(&f->random, to - from + 1);
}

/* Sequences of any lengths, one or more a group. */
static void draw_order(struct scratch *s) {
    const size_t groups = drawn(&s->f, 1, GROUPS);
    for (size_t q = 0; q <= groups; q++) {
        s->first[q] = q;
        s->start[q] = q == 0 ? 0 : q == groups ? s->N : drawn(&s->f, s->start[q - 1], s->N);
    }
    s->order = (struct qkv_row_order){
        .sums = {.groups = groups, .sequences = groups, .terms = s->N, .first = s->first, .start = s->start}};
}

/* `crowded`: all rows go to the same experts first, as far as these reach, and others may get none. */
static void draw_logits(struct scratch *s) {
    s->logits = malloc(s->N * s->E * sizeof *s->logits);
    test_fill(&s->f.random, s->logits, s->N * s->E, 1);
    for (size_t i = 0; s->crowded && i < s->N * s->E; i++) s->logits[i] += 4 * (float)(i % s->E);
}

static void draw(struct scratch *s, size_t round) {
    static const enum qkv_ffn_kind kinds[] = {QKV_FFN_GELU, QKV_FFN_SWIGLU};
    struct fixture *f = &s->f;
    memset(s, 0, sizeof *s);
    start(f, 4000 + round);
    f->ctx->precision = round % 2 ? QKV_MIXED_BF16 : QKV_FP32;
    s->kind = kinds[round / 2 % 2];
    s->crowded = round % CROWDED == 0;
    s->bias = round / 4 % 2;
    s->N = drawn(f, 1, round % 5 ? 60 : MOST_ROWS);
    s->E = drawn(f, 1, EXPERTS);
    s->K = drawn(f, 1, s->E);
    s->C = drawn(f, 1, MOST_WIDTH);
    s->F = drawn(f, 1, MOST_WIDTH);
    s->route = (struct qkv_route_options){.top_k = s->K, .groups = 1, .top_groups = 1, .scale = 1};
    draw_order(s);
    draw_logits(s);
    leaf(f, s->N, s->C, 0);
    leaf(f, s->N, s->K, 0);
    const size_t H = qkv_ffn_gated(s->kind) ? 2 * s->F : s->F;
    const size_t shapes[4][2] = {{H, s->C}, {1, H}, {s->C, s->F}, {1, s->C}};
    /* Experts of one shape: the leaves of the first one are those of all, and their gradients are added up. */
    for (size_t i = 0; i < 4; i++) leaf(f, shapes[i][0], shapes[i][1], 0);
    s->adapted = round % 3 != 1;
    s->dropout = round % 2 ? 0.3F : 0;
    for (size_t i = 0; i < 2; i++) {
        s->rank[i] = drawn(f, 1, 20);
        leaf(f, s->rank[i], shapes[2 * i][1], 0);
        leaf(f, shapes[2 * i][0], s->rank[i], 0);
    }
    s->every = (struct qkv_adapter_run){.count = SIZE_MAX};
    s->some.first = drawn(f, 0, s->N - 1);
    s->some.count = drawn(f, 1, s->N - s->some.first);
}

/* Every expert has an adapter of up, every second one of down. choose: rows choose it. */
static void build_adapters(struct scratch *s, bool choose) {
    const struct qkv_tensor *own = &s->f.leaves[6];
    for (size_t i = 0; i < 2; i++)
        for (size_t e = 0; e < s->E; e++) {
            struct qkv_tensor *weight = i ? &s->down[e].weight : &s->up[e].weight;
            struct qkv_adapter_part *part = &s->parts[i][e];
            if (i && e % 2) continue;
            *part = (struct qkv_adapter_part){.a = own[2 * i], .b = own[2 * i + 1], .scale = 0.5F};
            s->learns[i][e][0] = &part->a;
            s->learns[i][e][1] = &part->b;
            s->adapters[i][e] = (struct qkv_adapter){
                .parts = part, .operands = s->learns[i][e], .count = 1, .operand_count = 2, .dropout = s->dropout};
            if (choose)
                weight->operand.named = &s->adapters[i][e];
            else
                weight->operand.adapter = &s->adapters[i][e];
        }
}

static void build_weights(struct scratch *s) {
    struct qkv_tensor none = {0};
    for (size_t e = 0; e < s->E; e++) {
        const struct qkv_tensor *own = &s->f.leaves[2];
        s->up[e] = (struct qkv_linear){own[0], s->bias ? own[1] : none};
        s->down[e] = (struct qkv_linear){own[2], s->bias ? own[3] : none};
        struct qkv_tensor *const all[] = {&s->up[e].weight, &s->up[e].bias, &s->down[e].weight, &s->down[e].bias};
        memcpy(s->operands + 4 * e, all, sizeof all);
    }
    s->weights = (struct qkv_expert_weights){s->E, 4 * s->E, s->up, s->down, s->operands};
}

/* One pass, forward or both ways; what the arena reached. */
static size_t run(struct scratch *s, struct qkv_arena *arena, bool both) {
    struct fixture *f = &s->f;
    const struct qkv_routing *routing;
    struct qkv_loss loss;
    qkv_arena_release(&f->graph_arena, 0);
    qkv_tape_start(&f->tape, f->ctx, arena, &f->graph_arena, both);
    if (both && s->adapted) qkv_tape_train(&f->tape, 7);
    build_weights(s);
    if (s->adapted) build_adapters(s, !both && s->N % 2);
    f->tape.runs = (struct qkv_adapter_runs){arena->measuring ? &s->every : &s->some, both ? 0 : 1};
    f->leaves[0].learning.order = &s->order;
    struct qkv_tensor *logits = qkv_tape_view(&f->tape, s->logits, s->N, s->E);
    qkv_op_route(&f->tape, logits, NULL, &s->route, &routing);
    struct qkv_tensor *y = qkv_op_experts(&f->tape, &f->leaves[0], &f->leaves[1], routing, &s->weights, s->kind,
                                          qkv_ffn_gated(s->kind), 0, s->N % 2);
    if (both && y) qkv_op_inner_product(&f->tape, y, f->values[0], 1, &loss);
    enum qkv_status status = f->tape.status;
    if (both && !status) status = qkv_tape_backward(&f->tape);
    if (status) {
        fail_msg("N %zu, E %zu, top %zu, C %zu, F %zu, %zu groups, precision %d: %s", s->N, s->E, s->K, s->C, s->F,
                 s->order.sums.groups, (int)f->ctx->precision, qkv_message(f->ctx));
    }
    return arena->peak;
}

static void experts_take_no_more_than_a_dry_run_says(void **state) {
    (void)state;
    for (size_t round = 0; round < ROUNDS; round++) {
        for (int both = 0; both < 2; both++) {
            struct scratch s;
            struct qkv_arena measure, real;
            draw(&s, round);
            qkv_arena_measure(s.f.ctx, &measure, "a dry run");
            const struct qkv_planning had = qkv_planning_begin(s.f.ctx);
            const size_t said = run(&s, &measure, both);
            qkv_planning_end(s.f.ctx, had);
            assert_status(s.f.ctx, qkv_arena_create(s.f.ctx, &real, said, "what the dry run said"), QKV_OK);
            const size_t took = run(&s, &real, both);
            assert_true(took <= said);
            assert_true(took >= s.N * s.C * sizeof(float)); /* it ran: the output is there */
            qkv_arena_free(&real);
            qkv_arena_free(&measure);
            free(s.logits);
            finish(&s.f);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(experts_take_no_more_than_a_dry_run_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
