/* test_pages: random programs that grow, fork, truncate and free lists of pages, compared with sequences that are
 * copied as a whole: the contents of lists, the number of pages that they hold, and that no page is lost; and a full
 * pool. */
/* labels: quick */
#include "test.h"

#include "sequence/pages.h"

enum { LISTS = 9, LAYERS = 3, LENGTH = 700 };

static struct qkv_context *ctx;

static int setup(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 2));
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

/* The plain model: each sequence owns its numbers, and pages are told apart by who wrote them. */
struct twin {
    size_t length;
    float numbers[LENGTH];
};

struct world {
    struct qkv_attention_spec specs[LAYERS];
    struct qkv_page_pool *pool;
    struct qkv_page_list lists[LISTS];
    struct twin twins[LISTS];
    int32_t ids[LISTS][LENGTH];
    float next;
};

static const struct qkv_attention_spec layers[LAYERS] = {{.kv_heads = 1, .head_dim = 3, .value_dim = 2},
                                                         {.kv_heads = 2, .head_dim = 4, .value_dim = 4},
                                                         {.kv_heads = 3, .head_dim = 1, .value_dim = 5}};

static size_t block_of(const struct qkv_page_type *type) {
    return type ? qkv_types[type->dtype]->block : 1;
}

/* Heads of whole blocks of both types. */
static void world_start(struct world *w, struct qkv_page_types types, struct qkv_page_shape shape) {
    const struct qkv_attention_spec *const attentions[LAYERS] = {&w->specs[0], &w->specs[1], &w->specs[2]};
    const int block = (int)(block_of(types.k) > block_of(types.v) ? block_of(types.k) : block_of(types.v));
    memset(w, 0, sizeof *w);
    for (size_t i = 0; i < LAYERS; i++) {
        w->specs[i] = layers[i];
        w->specs[i].head_dim *= block, w->specs[i].value_dim *= block;
    }
    assert_ok(ctx, qkv_page_pool_create(ctx, attentions, LAYERS, types, "the test's pool", &w->pool));
    assert_ok(ctx, qkv_page_pool_begin(w->pool, &shape));
    for (size_t i = 0; i < LISTS; i++) w->lists[i].pages = w->ids[i];
    w->next = 1;
}

/* The content of position j of a list in a layer: every channel of keys, or values, has the same number. Blocks hold
 * 127 times a whole number exactly. */
static void world_cell(struct world *w, size_t list, size_t j, size_t layer, bool write, float number) {
    const struct qkv_page_pool *p = w->pool;
    for (int side = 0; side < 2; side++) {
        const struct qkv_pages *pages = side ? &p->attention[layer].v : &p->attention[layer].k;
        float numbers[512], have[512];
        struct qkv_page_part part = {.page = (size_t)w->lists[list].pages[j / p->positions],
                                     .heads = pages->heads,
                                     .first = j % p->positions,
                                     .count = 1};
        assert_true(pages->heads * pages->columns <= TEST_COUNT(numbers));
        for (size_t c = 0; c < pages->heads * pages->columns; c++)
            numbers[c] = block_of(pages->type) > 1 ? 127 * number : number;
        const struct qkv_page_rows rows = {numbers, QKV_F32, pages->heads * pages->columns};
        if (write) pages->type->put(pages, &part, &rows);
        for (part.heads = 1; part.head < pages->heads; part.head++) {
            pages->type->read(pages, &part, pages->columns, have);
            assert_memory_equal(have, numbers, pages->columns * sizeof *have);
        }
    }
}

/* bf16 holds whole numbers up to 256 exactly. */
static float world_number(struct world *w) {
    w->next = w->next >= 256 ? 1 : w->next + 1;
    return w->next;
}

static void expect_contents(struct world *w) {
    for (size_t i = 0; i < LISTS; i++) {
        assert_int_equal(w->lists[i].length, w->twins[i].length);
        assert_int_equal(w->lists[i].count, qkv_page_count(w->pool->positions, w->twins[i].length));
        for (size_t j = 0; j < w->twins[i].length; j++)
            for (size_t layer = 0; layer < LAYERS; layer++) world_cell(w, i, j, layer, false, w->twins[i].numbers[j]);
    }
}

/* Every page is held by as many lists as its count says, and is spare, once, where that is 0. */
static void expect_counts(const struct world *w) {
    const struct qkv_page_pool *p = w->pool;
    int32_t *held = calloc(p->count + 1, sizeof *held);
    size_t used = 0;
    assert_non_null(held);
    for (size_t i = 0; i < LISTS; i++)
        for (size_t k = 0; k < w->lists[i].count; k++) {
            assert_in_range(w->lists[i].pages[k], 0, p->count - 1);
            held[w->lists[i].pages[k]]++;
        }
    for (size_t k = 0; k < p->count; k++) {
        assert_int_equal(p->references[k], held[k]);
        used += held[k] > 0;
    }
    assert_int_equal(p->spare_count, p->count - used);
    for (size_t k = 0; k < p->spare_count; k++) assert_int_equal(held[p->spare[k]]--, 0);
    free(held);
}

/* The pages needed, by a plain count: for each list the pages after its end, and one more if it continues in a page
 * that will have other holders than the lists continued before it here. */
static size_t plain_need(const struct world *w, const size_t *more) {
    const size_t positions = w->pool->positions;
    size_t need = 0;
    for (size_t i = 0; i < LISTS; i++) {
        const struct qkv_page_list *list = &w->lists[i];
        if (!more[i]) continue;
        need += (list->length + more[i] + positions - 1) / positions - (list->length + positions - 1) / positions;
        if (list->length % positions == 0) continue;
        const size_t at = list->length / positions;
        bool others =
            false; /* of the lists that hold the page, the last of those that go on may keep it, unless another stays */
        for (size_t k = 0; k < LISTS; k++) {
            const struct qkv_page_list *other = &w->lists[k];
            if (k == i || other->count <= at || other->pages[at] != list->pages[at]) continue;
            const bool leaves = more[k] && other->length % positions && other->length / positions == at;
            others = others || !leaves || k > i;
        }
        need += others;
    }
    return need;
}

static void world_grow(struct world *w, struct qkv_random *random) {
    size_t more[LISTS], before[LISTS];
    for (size_t i = 0; i < LISTS; i++) {
        const size_t left = LENGTH - w->lists[i].length;
        more[i] = test_between(random, 0, 2) ? 0 : test_between(random, 0, test_between(random, 0, 3) ? 5 : 300);
        if (more[i] > left) more[i] = left;
        before[i] = w->lists[i].length;
    }
    const size_t need = plain_need(w, more), spare = w->pool->spare_count;
    enum qkv_status status = qkv_page_lists_grow(w->pool, w->lists, more, LISTS);
    if (need > spare) {
        char part[64];
        assert_int_equal(status, QKV_FULL);
        snprintf(part, sizeof part, "is full: %zu pages are missing", need - spare);
        assert_message(ctx, part);
        assert_int_equal(w->pool->spare_count, spare);
        return;
    }
    assert_ok(ctx, status);
    assert_int_equal(w->pool->spare_count, spare - need);
    for (size_t i = 0; i < LISTS; i++)
        for (size_t j = before[i]; j < before[i] + more[i]; j++) {
            const float number = w->twins[i].numbers[j] = world_number(w);
            w->twins[i].length++;
            for (size_t layer = 0; layer < LAYERS; layer++) world_cell(w, i, j, layer, true, number);
        }
}

static void world_step(struct world *w, struct qkv_random *random) {
    const size_t i = test_between(random, 0, LISTS - 1), from = test_between(random, 0, LISTS - 1);
    switch (test_between(random, 0, 5)) {
    case 0:
        if (w->lists[i].length || i == from) break;
        qkv_page_list_fork(w->pool, &w->lists[i], &w->lists[from]);
        w->twins[i] = w->twins[from];
        break;
    case 1: {
        const size_t length = test_between(random, 0, LENGTH);
        qkv_page_list_truncate(w->pool, &w->lists[i], length);
        if (length < w->twins[i].length) w->twins[i].length = length;
        break;
    }
    case 2:
        qkv_page_list_truncate(w->pool, &w->lists[i], 0);
        w->twins[i].length = 0;
        break;
    default:
        world_grow(w, random);
    }
}

static void test_lists_hold_what_copies_would_hold(void **state) {
    (void)state;
    static struct world w;
    struct qkv_random random = test_random(1);
    static const size_t lengths[] = {LENGTH, LENGTH, 90};
    size_t types = 0;
    while (qkv_page_type_at(types)) types++;
    for (size_t turn = 0; turn < 3 * types; turn++) {
        const struct qkv_page_types chosen = {.k = qkv_page_type_at(turn % types),
                                              .v = qkv_page_type_at(turn * turn % types)};
        struct qkv_page_shape shape = {.length = LENGTH, .pages = test_between(&random, 1, 40), .sequences = LISTS};
        shape.length = lengths[turn % 3];
        world_start(&w, chosen, shape);
        for (size_t step = 0; step < 200; step++) {
            world_step(&w, &random);
            expect_counts(&w);
            if (step % 10 == 0) expect_contents(&w);
        }
        expect_contents(&w);
        for (size_t i = 0; i < LISTS; i++) qkv_page_list_truncate(w.pool, &w.lists[i], 0);
        assert_int_equal(w.pool->spare_count, w.pool->count);
        qkv_page_pool_free(w.pool);
    }
}

static void test_a_pool_of_0_pages_has_as_many_as_its_sequences_need(void **state) {
    (void)state;
    static struct world w;
    const struct qkv_page_types bf16 = {.k = &qkv_page_type_bf16, .v = &qkv_page_type_bf16};
    world_start(&w, bf16, (struct qkv_page_shape){.length = 129, .sequences = 3});
    assert_int_equal(w.pool->positions, QKV_PAGE_POSITIONS);
    assert_int_equal(w.pool->count, 6);
    assert_ok(ctx, qkv_page_pool_begin(w.pool, &(struct qkv_page_shape){.length = 5, .sequences = 4}));
    assert_int_equal(w.pool->positions, 5);
    assert_int_equal(w.pool->count, 4);
    const struct qkv_page_shape shape = {.length = 5};
    assert_int_equal(qkv_page_bytes(w.pool, &shape), (5 + 16 + 18) * 5 * 2);
    qkv_page_pool_free(w.pool);
}

static void test_sizes_past_all_numbers_are_refused(void **state) {
    (void)state;
    static struct world w;
    world_start(&w, (struct qkv_page_types){0}, (struct qkv_page_shape){.length = 129, .sequences = 1});
    const struct qkv_page_shape shapes[] = {{.length = SIZE_MAX, .sequences = SIZE_MAX},
                                            {.length = 1000, .pages = SIZE_MAX},
                                            {.length = 1000, .pages = (size_t)INT32_MAX + 1},
                                            {.length = 1000, .pages = INT32_MAX}};
    for (size_t i = 0; i < TEST_COUNT(shapes); i++) {
        assert_status(ctx, qkv_page_pool_begin(w.pool, &shapes[i]), QKV_MEMORY);
        assert_int_equal(w.pool->count, 0);
    }
    qkv_page_pool_free(w.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_hold_what_copies_would_hold),
        cmocka_unit_test(test_a_pool_of_0_pages_has_as_many_as_its_sequences_need),
        cmocka_unit_test(test_sizes_past_all_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
