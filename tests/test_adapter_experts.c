/* Adapters of the matrices of experts: their result is that of merged weights, their gradients are slopes, and rows
 * that choose an adapter have the bits that they have if all rows do. */
/* labels: quick numeric */
#include "op_fixture.h"

#include "op/experts.h"
#include "op/linear.h"
#include "op/weights.h"

enum { N = 9, E = 3, K = 2, C = 6, F = 5, PARTS = 5, OWN = 4, FIRST = 2 + OWN * E };

/* Parts of adapters, of several ranks and scales: rows [first, first + rows) of the up or down matrix of an expert, all
 * or some of its rows. The second one is of a gated up only (has_part). Expert 1 has none of up, expert 2 none of
 * down. */
static const struct {
    size_t expert, first, rows, rank;
    bool down;
    float scale;
} places[PARTS] = {{0, 0, F, 2, false, 1.5F},
                   {0, F, F, 3, false, -0.5F},
                   {0, 0, C, 2, true, 0.7F},
                   {1, 1, C - 2, 1, true, 2},
                   {2, 1, F - 1, 2, false, 1}};

struct mixed {
    bool inputs, merged, frozen;
    enum qkv_ffn_kind kind;
    float dropout;
    float logits[N * E];
    struct qkv_linear up[E], down[E];
    struct qkv_tensor *operands[OWN * E];
    struct qkv_expert_weights weights;
    struct qkv_adapter adapters[E][2];
    struct qkv_adapter_part parts[PARTS];
    struct qkv_tensor *learns[2 * PARTS];
    size_t number; /* of adapters that rows choose */
    struct qkv_adapter_run runs[2];
    size_t run_count;
};

static void mixed_begin(struct fixture *f, struct mixed *m, uint64_t stream) {
    const size_t H = qkv_ffn_gated(m->kind) ? 2 * F : F;
    start(f, stream);
    f->options = m;
    test_fill(&f->random, m->logits, TEST_COUNT(m->logits), 1);
    leaf(f, N, C, 0);
    leaf(f, N, K, 0);
    for (size_t e = 0; e < E; e++) {
        leaf(f, H, C, 0);
        leaf(f, 1, H, 0);
        leaf(f, C, F, 0);
        leaf(f, 1, C, 0);
    }
    for (size_t p = 0; p < PARTS; p++) {
        const size_t in = places[p].down ? F : C;
        leaf(f, places[p].rank, in, 0);
        leaf(f, places[p].rows, places[p].rank, 0);
    }
}

static struct qkv_tensor *base_leaf(struct fixture *f, size_t p) {
    return &f->leaves[2 + OWN * places[p].expert + (places[p].down ? 2 : 0)];
}

/* Part 1 is of up where there is a gate. */
static bool has_part(const struct mixed *m, size_t p) {
    return p != 1 || qkv_ffn_gated(m->kind);
}

static void mixed_adapt(struct fixture *f, struct mixed *m) {
    memset(m->adapters, 0, sizeof m->adapters);
    for (size_t p = 0; p < PARTS; p++) {
        const struct qkv_tensor *leaves = &f->leaves[FIRST + 2 * p];
        struct qkv_adapter *adapter = &m->adapters[places[p].expert][places[p].down];
        if (!has_part(m, p)) continue;
        m->parts[p] = (struct qkv_adapter_part){
            .a = leaves[0], .b = leaves[1], .first = places[p].first, .scale = places[p].scale};
        m->learns[2 * p] = &m->parts[p].a;
        m->learns[2 * p + 1] = &m->parts[p].b;
        if (!adapter->count) *adapter = (struct qkv_adapter){.parts = &m->parts[p], .operands = &m->learns[2 * p]};
        adapter->dropout = m->dropout;
        adapter->number = m->number;
        adapter->count++;
        adapter->operand_count += 2;
    }
    for (size_t e = 0; e < E; e++)
        for (int down = 0; down < 2; down++) {
            struct qkv_tensor *weight = down ? &m->down[e].weight : &m->up[e].weight;
            const struct qkv_adapter *adapter = m->adapters[e][down].count ? &m->adapters[e][down] : NULL;
            weight->operand.adapter = m->run_count ? NULL : adapter;
            weight->operand.named = m->run_count ? adapter : NULL;
        }
}

static struct qkv_tensor *build_mixed(struct fixture *f) {
    struct mixed *m = (struct mixed *)(uintptr_t)f->options;
    const struct qkv_route_options o = {.top_k = K, .groups = 1, .top_groups = 1, .scale = 1};
    const struct qkv_routing *routing;
    for (size_t e = 0; e < E; e++) {
        struct qkv_tensor *own = &f->leaves[2 + OWN * e];
        for (size_t i = 0; i < OWN; i++) own[i].learning.requires_grad = !m->frozen;
        m->up[e] = (struct qkv_linear){own[0], own[1]};
        m->down[e] = (struct qkv_linear){own[2], own[3]};
        struct qkv_tensor *const all[] = {&m->up[e].weight, &m->up[e].bias, &m->down[e].weight, &m->down[e].bias};
        memcpy(m->operands + OWN * e, all, sizeof all);
    }
    m->weights = (struct qkv_expert_weights){E, OWN * E, m->up, m->down, m->operands};
    if (!m->merged) mixed_adapt(f, m);
    struct qkv_tensor *logits = qkv_tape_view(&f->tape, m->logits, N, E);
    qkv_op_route(&f->tape, logits, NULL, &o, &routing);
    return qkv_op_experts(&f->tape, &f->leaves[0], &f->leaves[1], routing, &m->weights, m->kind, qkv_ffn_gated(m->kind),
                          0.9F, m->inputs);
}

static const enum qkv_ffn_kind kinds[] = {QKV_FFN_GELU, QKV_FFN_SWIGLU};

static void gradients_of_adapters_of_experts_are_slopes(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        struct fixture f;
        struct mixed m = {.kind = kinds[i % 2], .inputs = i / 2 % 2, .dropout = i / 4 ? 0.3F : 0};
        mixed_begin(&f, &m, 1400 + i);
        compare_slopes(&f, build_mixed, evaluate);
        finish(&f);
    }
}

/* No gradient of a frozen base is computed, and those of the adapters have the same bits. */
static void a_frozen_base_changes_no_gradient_of_adapters(void **state) {
    (void)state;
    float before[2 * PARTS][64];
    for (uint64_t i = 0; i < 2; i++) {
        struct fixture f;
        struct mixed m = {.kind = QKV_FFN_SWIGLU, .frozen = i, .dropout = 0.2F};
        mixed_begin(&f, &m, 1410);
        evaluate(&f, build_mixed, true);
        for (size_t l = FIRST; l < f.leaf_count; l++) {
            const size_t n = f.leaves[l].rows * f.leaves[l].columns;
            assert_true(n <= 64);
            if (i) assert_memory_equal(before[l - FIRST], f.leaves[l].learning.gradient, n * sizeof(float));
            memcpy(before[l - FIRST], f.leaves[l].learning.gradient, n * sizeof(float));
        }
        for (size_t l = 2; l < FIRST && i; l++)
            for (size_t k = 0; k < f.leaves[l].rows * f.leaves[l].columns; k++)
                assert_true(f.leaves[l].learning.gradient[k] == 0);
        finish(&f);
    }
}

/* w becomes w + scale·b·a. */
static void merge(struct fixture *f, const struct mixed *m) {
    for (size_t p = 0; p < PARTS; p++) {
        const struct qkv_tensor *weight = base_leaf(f, p);
        const float *a = f->values[FIRST + 2 * p], *b = f->values[FIRST + 2 * p + 1];
        for (size_t r = 0; r < places[p].rows && has_part(m, p); r++)
            for (size_t c = 0; c < weight->columns; c++) {
                float *w = (float *)weight->data + (places[p].first + r) * weight->columns + c;
                for (size_t k = 0; k < places[p].rank; k++)
                    *w += places[p].scale * b[r * places[p].rank + k] * a[k * weight->columns + c];
            }
    }
}

static void copy_result(struct fixture *f, const struct mixed *m, float y[N * C]) {
    qkv_arena_release(&f->arena, 0);
    qkv_arena_release(&f->graph_arena, 0);
    qkv_tape_start(&f->tape, f->ctx, &f->arena, &f->graph_arena, false);
    f->tape.runs = (struct qkv_adapter_runs){m->runs, m->run_count};
    const struct qkv_tensor *out = build_mixed(f);
    assert_non_null(out);
    for (size_t i = 0; i < N * C; i++) y[i] = cell(out, i);
}

static void the_result_is_that_of_merged_weights(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        struct fixture f;
        struct mixed m = {.kind = kinds[i % 2], .inputs = i / 2 % 2, .dropout = 0.5F}; /* not while it evaluates */
        float adapted[N * C], base[N * C], merged[N * C];
        double change = 0, norm = 0, error = 0;
        mixed_begin(&f, &m, 1420 + i);
        copy_result(&f, &m, adapted);
        m.merged = true;
        copy_result(&f, &m, base);
        merge(&f, &m);
        copy_result(&f, &m, merged);
        for (size_t k = 0; k < N * C; k++) {
            change += pow((double)adapted[k] - (double)base[k], 2);
            error += pow((double)adapted[k] - (double)merged[k], 2);
            norm += pow((double)merged[k], 2);
        }
        const double limit = qkv_context_precision(f.ctx) == QKV_FP32 ? 1e-5 : 3e-2;
        assert_true(sqrt(change) > 0.1 * sqrt(norm));
        assert_true(sqrt(error) <= limit * sqrt(norm));
        finish(&f);
    }
}

/* Rows [2, 6) choose the adapter: those have the bits of all rows with it, the others those of none. */
static void rows_choose_an_adapter(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        struct fixture f;
        struct mixed m = {.kind = kinds[i], .number = 3};
        float all[N * C], none[N * C], some[N * C];
        mixed_begin(&f, &m, 1430 + i);
        copy_result(&f, &m, all);
        m.runs[0] = (struct qkv_adapter_run){.number = 1, .first = 0, .count = N};
        m.run_count = 1;
        copy_result(&f, &m, none);
        m.runs[1] = (struct qkv_adapter_run){.number = 3, .first = 2, .count = 4};
        m.run_count = 2;
        copy_result(&f, &m, some);
        assert_memory_not_equal(all + 2 * C, none + 2 * C, 4 * C * sizeof(float));
        for (size_t n = 0; n < N; n++)
            assert_memory_equal(some + n * C, (n >= 2 && n < 6 ? all : none) + n * C, C * sizeof(float));
        finish(&f);
    }
}

enum { MASKED = 200 };

/* What the adapter of an expert adds to zeros, if a and b are 1 and all numbers of x are 1: the mask, 0 or 2. */
static void masks_of(struct fixture *f, const struct qkv_expert_adapters *adapters, const struct qkv_tensor *weight,
                     size_t expert, float y[MASKED]) {
    float ones[MASKED], low[MASKED];
    int32_t row[MASKED];
    for (int32_t i = 0; i < MASKED; i++) ones[i] = 1, row[i] = i;
    memset(y, 0, MASKED * sizeof *y);
    const struct qkv_expert_rows rows = {
        .expert = expert, .N = MASKED, .row = row, .x = {.data = ones, .rows = MASKED, .columns = 1}};
    assert_ok(f->ctx, qkv_expert_adapter_forward(&f->tape, adapters, &rows, weight, y, low));
}

/* A row that goes to two experts has another mask in each. */
static void experts_have_masks_of_their_own(void **state) {
    (void)state;
    struct fixture f;
    float one = 1, first[MASKED], again[MASKED], other[MASKED];
    struct qkv_adapter_part part = {
        .a = {.data = &one, .rows = 1, .columns = 1}, .b = {.data = &one, .rows = 1, .columns = 1}, .scale = 1};
    const struct qkv_adapter adapter = {.parts = &part, .count = 1, .dropout = 0.5F};
    const struct qkv_linear linear = {.weight = {.data = &one, .rows = 1, .columns = 1, .operand.adapter = &adapter}};
    struct qkv_expert_adapters adapters;
    size_t apart = 0, kept = 0;
    start(&f, 1440);
    qkv_tape_start(&f.tape, f.ctx, &f.arena, &f.graph_arena, true);
    qkv_tape_train(&f.tape, 9);
    qkv_expert_adapters_start(&f.tape, &linear, 1, &adapters);
    masks_of(&f, &adapters, &linear.weight, 0, first);
    masks_of(&f, &adapters, &linear.weight, 0, again);
    masks_of(&f, &adapters, &linear.weight, 1, other);
    assert_memory_equal(first, again, sizeof first);
    for (size_t i = 0; i < MASKED; i++) {
        assert_true((first[i] == 0 || first[i] == 2) && (other[i] == 0 || other[i] == 2));
        apart += first[i] != other[i];
        kept += first[i] != 0;
    }
    assert_in_range(apart, MASKED / 4, MASKED - MASKED / 4); /* 100, six times 7 apart */
    assert_in_range(kept, MASKED / 4, MASKED - MASKED / 4);
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_adapters_of_experts_are_slopes),
        cmocka_unit_test(a_frozen_base_changes_no_gradient_of_adapters),
        cmocka_unit_test(the_result_is_that_of_merged_weights),
        cmocka_unit_test(rows_choose_an_adapter),
        cmocka_unit_test(experts_have_masks_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
