/* The benchmark: which rows exist and which are chosen, what peers get and what the library's product returns,
 * invalid options, a stop, and the file of results. */
#include "test.h"

#include <jansson.h>

#include "lab/bench/bench_room.h"

struct seen {
    size_t rows, calls, stop_at; /* stop_at: calls of progress after which it says stop; 0: never */
    bool begun;
    struct qkv_bench_row latest;
    struct qkv_bench_machine machine;
};

static void see_machine(void *user, const struct qkv_bench_machine *machine) {
    struct seen *seen = user;
    seen->begun = true;
    seen->machine = *machine;
}

static void see_row(void *user, const struct qkv_bench_row *row) {
    struct seen *seen = user;
    assert_true(seen->begun);
    seen->latest = *row;
    seen->rows++;
}

static bool see_progress(void *user, const char *what, double done, double total) {
    struct seen *seen = user;
    assert_non_null(strchr(what, ' '));
    assert_true(done >= 0 && done < total);
    return !seen->stop_at || ++seen->calls < seen->stop_at;
}

static struct qkv_context *make_context(void) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    return ctx;
}

static struct qkv_bench_options brief(const char *const *filters, size_t count, struct seen *seen) {
    return (struct qkv_bench_options){.filters = filters,
                                      .filter_count = count,
                                      .seconds = 1e-6,
                                      .rounds = 1,
                                      .precision = "fp32",
                                      .begin = see_machine,
                                      .row = see_row,
                                      .progress = see_progress,
                                      .user = seen};
}

static void rows_have_labels_of_their_own(void **state) {
    (void)state;
    struct qkv_bench_row row;
    char(*labels)[QKV_BENCH_LABEL] = calloc(1024, sizeof *labels);
    size_t count = 0, groups = 0;
    while (qkv_bench_group_at(groups, NULL)) groups++;
    bool *met = calloc(groups, sizeof *met);
    for (; qkv_bench_row_at(count, &row); count++) {
        assert_true(count < 1024);
        qkv_bench_label(&row, labels[count]);
        assert_true(strlen(labels[count]) < QKV_BENCH_LABEL - 1);
        for (size_t i = 0; i < count; i++) assert_string_not_equal(labels[i], labels[count]);
        for (size_t g = 0; g < groups; g++) met[g] = met[g] || strcmp(row.group, qkv_bench_group_at(g, NULL)) == 0;
        assert_true(row.left_out[0] == 0 && row.seconds == 0);
    }
    assert_true(count > 100);
    for (size_t g = 0; g < groups; g++) assert_true(met[g]);
    assert_false(qkv_bench_row_at(SIZE_MAX, &row));
    free(labels);
    free(met);
}

/* ---- a peer that computes the product itself and compares ------------------------------------------------------- */

static size_t peer_prepared, peer_runs, peer_released;
static double peer_error;
static const double peer_seconds = 1e-3; /* a product takes the peer at least this long */

static void *peer_prepare(const struct qkv_bench_product *product) {
    peer_prepared++;
    return (void *)(uintptr_t)product;
}

static void peer_run(void *prepared, size_t turn) {
    const double until = qkv_clock() + peer_seconds;
    const struct qkv_bench_product *p = prepared;
    const float *a = p->a, *b = p->b[turn % p->count], *c = p->c[turn % p->count];
    double worst = 0, size = 0;
    for (size_t m = 0; peer_runs == 0 && m < p->M; m += 7) { /* the library was first and has left its product */
        for (size_t n = 0; n < p->N; n++) {
            double sum = 0;
            for (size_t k = 0; k < p->K; k++)
                sum += (double)(p->a_transposed ? a[k * p->M + m] : a[m * p->K + k]) *
                       (double)(p->b_transposed ? b[n * p->K + k] : b[k * p->N + n]);
            worst = fmax(worst, fabs(sum - (double)c[m * p->N + n]));
            size = fmax(size, fabs(sum));
        }
    }
    if (peer_runs++ == 0) peer_error = worst / size;
    while (qkv_clock() < until) continue;
}

static void peer_release(void *prepared) {
    (void)prepared;
    peer_released++;
}

static void *peer_refuse(const struct qkv_bench_product *product) {
    (void)product;
    return NULL;
}

static void peers_get_the_same_product(void **state) {
    (void)state;
    struct qkv_context *ctx = make_context();
    const struct qkv_bench_peer peers[] = {{"absent", peer_refuse, peer_run, peer_release},
                                           {"slow", peer_prepare, peer_run, peer_release}};
    const char *const forms[] = {"64x384x384 x.wT", "64x384x384 dy.w", "64x384x384 dyT.x"};
    for (size_t i = 0; i < TEST_COUNT(forms); i++) {
        struct seen seen = {0};
        struct qkv_bench_options o = brief(&forms[i], 1, &seen);
        o.peers = peers, o.peer_count = TEST_COUNT(peers);
        peer_prepared = peer_runs = peer_released = 0;
        peer_error = 1;
        const double began = qkv_clock();
        assert_int_equal(qkv_bench(ctx, &o), QKV_OK);
        const double took = qkv_clock() - began;
        assert_int_equal(seen.rows, 1);
        assert_int_equal(peer_prepared, 1);
        assert_int_equal(peer_released, 1);
        assert_true(peer_runs >= 2);
        assert_true(peer_error < 1e-5);
        assert_int_equal(seen.latest.peer_count, 1);
        assert_string_equal(seen.latest.peers[0].name, "slow");
        assert_true(seen.latest.peers[0].seconds >= peer_seconds);
        assert_true(seen.latest.seconds + (double)(peer_runs - 1) * seen.latest.peers[0].seconds <= took);
        assert_true(seen.latest.fastest == seen.latest.seconds); /* of one round */
        assert_true(seen.latest.flops == 2.0 * 64 * 384 * 384);
        assert_true(seen.latest.spread == 0 && seen.latest.peak_flops > 0 && seen.latest.peak_read == 0);
        double share = seen.latest.flops / seen.latest.peak_flops / seen.latest.seconds;
        assert_true(!seen.latest.reads && fabs(seen.latest.share / share - 1) < 1e-12);
    }
    qkv_context_free(ctx);
}

/* The time is that of the median round, and the spread that between the slowest and the fastest. */
static void rounds_lie_apart(void **state) {
    (void)state;
    struct qkv_context *ctx = make_context();
    const char *const filters[] = {"64x384x384 x.wT fp32"};
    struct seen seen = {0};
    struct qkv_bench_options o = brief(filters, 1, &seen);
    o.rounds = 5;
    assert_int_equal(qkv_bench(ctx, &o), QKV_OK);
    const struct qkv_bench_row *row = &seen.latest;
    assert_true(row->spread > 0 && row->fastest <= row->seconds);
    assert_true(row->spread * row->seconds >= (row->seconds - row->fastest) * (1 - 1e-9));
    qkv_context_free(ctx);
}

/* Every group measures something, and leaves the context as it was. */
static void each_group_runs(void **state) {
    (void)state;
    struct qkv_context *ctx = make_context();
    const char *const filters[] = {"MQA D128 T1/", "GQA D64 T512 causal backward", "C128 F168 T768 8 groups",
                                   "nano-gpt 12x64"};
    struct seen seen = {0};
    struct qkv_bench_options o = brief(filters, TEST_COUNT(filters), &seen);
    assert_int_equal(qkv_bench(ctx, &o), QKV_OK);
    assert_int_equal(seen.rows, 5); /* a cache of q8_0, too */
    assert_string_equal(seen.latest.group, "training");
    assert_true(seen.latest.tokens == 12 * 64 && seen.latest.memory > seen.latest.pass_memory &&
                seen.latest.pass_memory > 0);
    assert_true(seen.machine.read_bytes > 0 && seen.machine.threads == qkv_context_threads(ctx));
    assert_string_equal(seen.machine.isa, qkv_context_isa(ctx));
    assert_string_equal(qkv_message(ctx), "");
    const char *const order = "order nano-gpt";
    struct seen groups = {0};
    o = brief(&order, 1, &groups);
    const double began = qkv_clock();
    assert_int_equal(qkv_bench(ctx, &o), QKV_OK);
    const double took = qkv_clock() - began;
    assert_int_equal(groups.rows, 1);
    assert_true(groups.latest.tokens == 12 * 64 && groups.latest.peer_count == 1);
    assert_string_equal(groups.latest.peers[0].name, "one group");
    assert_true(groups.latest.seconds + groups.latest.peers[0].seconds <= took);
    qkv_context_free(ctx);
}

static void big_rows_are_asked_for(void **state) {
    (void)state;
    struct qkv_context *ctx = make_context();
    struct seen seen = {0};
    const char *const group = "training nano-gpt rec", *const part = "RECIPE", *const form = "run fp32";
    struct qkv_bench_options o = brief(&form, 1, &seen); /* is in the label, but not in the name */
    assert_int_equal(qkv_bench(ctx, &o), QKV_OK);
    assert_int_equal(seen.rows, 0);
    o.big = true;
    assert_int_equal(qkv_bench(ctx, &o), QKV_OK);
    assert_int_equal(seen.rows, 1);
    assert_string_equal(seen.latest.left_out, "no text was given to train on");
    o.big = false, o.filters = &part;
    assert_int_equal(qkv_bench(ctx, &o), QKV_OK);
    assert_int_equal(seen.rows, 2);
    o.filters = &group;
    assert_int_equal(qkv_bench(ctx, &o), QKV_OK);
    assert_int_equal(seen.rows, 3);
    qkv_context_free(ctx);
}

static void refusals(void **state) {
    (void)state;
    struct qkv_context *ctx = make_context();
    const char *const filter = "64x384x384 x.wT", *const unknown = "xyzzy";
    struct seen seen = {0};
    const struct qkv_bench_options good = brief(&filter, 1, &seen);
    struct qkv_bench_options o = good;
    o.filters = &unknown;
    assert_int_equal(qkv_bench(ctx, &o), QKV_ARGUMENT);
    assert_message(ctx, "\"xyzzy\"");
    assert_message(ctx, "products, attention, experts, training, order, generation");
    o = good, o.seconds = -1;
    assert_int_equal(qkv_bench(ctx, &o), QKV_ARGUMENT);
    assert_message(ctx, "seconds");
    o = good, o.seconds = NAN;
    assert_int_equal(qkv_bench(ctx, &o), QKV_ARGUMENT);
    o = good, o.rounds = 1000;
    assert_int_equal(qkv_bench(ctx, &o), QKV_ARGUMENT);
    assert_message(ctx, "rounds is 1000");
    o = good, o.precision = "fp8";
    assert_int_equal(qkv_bench(ctx, &o), QKV_ARGUMENT);
    assert_message(ctx, "\"fp8\"; known: fp32");
    o = good, o.peer_count = QKV_BENCH_MAX_PEERS + 1;
    assert_int_equal(qkv_bench(ctx, &o), QKV_ARGUMENT);
    o = good, o.json = test_path("missing/results.json");
    assert_int_equal(qkv_bench(ctx, &o), QKV_FILE);
    assert_message(ctx, "missing/results.json");
    assert_false(seen.begun); /* all of that is found before anything is measured */
    qkv_context_free(ctx);
}

static json_t *read_results(const char *path) {
    json_error_t error;
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!json) fail_msg("%s:%d: %s", path, error.line, error.text);
    return json;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void the_file_has_it_all(void **state) {
    (void)state;
    struct qkv_context *ctx = make_context();
    const char *const filters[] = {"64x384x384 x.wT", "recipe"}, *path = test_path("results.json");
    struct seen seen = {0};
    struct qkv_bench_options o = brief(filters, 2, &seen);
    o.json = path;
    assert_int_equal(qkv_bench(ctx, &o), QKV_OK);
    json_t *json = read_results(path), *machine = json_object_get(json, "machine"),
           *rows = json_object_get(json, "rows");
    assert_string_equal(json_string_value(json_object_get(json, "version")), qkv_version());
    assert_true(json_is_true(json_object_get(json, "complete")));
    assert_string_equal(json_string_value(json_object_get(machine, "cpu")), seen.machine.cpu);
    assert_true(fabs(number(machine, "fp32_flops") / seen.machine.fp32_flops - 1) < 1e-9);
    assert_int_equal(json_array_size(rows), 2);
    const json_t *first = json_array_get(rows, 0), *second = json_array_get(rows, 1);
    assert_string_equal(json_string_value(json_object_get(first, "form")), "x.wT");
    const double rate = number(first, "flops_per_second");
    assert_true(number(first, "flops") == 2.0 * 64 * 384 * 384);
    assert_true(fabs(rate * number(first, "seconds") / number(first, "flops") - 1) < 1e-9);
    assert_true(fabs(rate / number(first, "peak_flops") / number(first, "share") - 1) < 1e-9);
    assert_true(number(first, "spread") == 0 && number(first, "peak_read_bytes") == 0);
    assert_true(json_is_null(json_object_get(first, "left_out")) && json_is_null(json_object_get(first, "loss")));
    assert_string_equal(json_string_value(json_object_get(second, "left_out")), "no text was given to train on");
    json_decref(json);

    /* Stopped in the second row: the first one is there. */
    seen = (struct seen){.stop_at = 1 + 1 + 1 + 1};
    o.filters = (const char *const[]){"64x384x384"}, o.filter_count = 1;
    assert_int_equal(qkv_bench(ctx, &o), QKV_STOPPED);
    json = read_results(path);
    assert_true(json_is_false(json_object_get(json, "complete")));
    assert_int_equal(json_array_size(json_object_get(json, "rows")), seen.rows);
    assert_true(seen.rows >= 1 && seen.rows < 3);
    json_decref(json);
    size_t kept = seen.rows;

    /* Stopped before the first row: nothing to write, so the file stays. */
    seen = (struct seen){.stop_at = 1};
    assert_int_equal(qkv_bench(ctx, &o), QKV_STOPPED);
    assert_message(ctx, "stopped");
    json = read_results(path);
    assert_int_equal(json_array_size(json_object_get(json, "rows")), kept);
    json_decref(json);
    qkv_context_free(ctx);
}

static void the_machine(void **state) {
    (void)state;
    assert_true(qkv_memory_available().bytes > (uint64_t)1 << 20);
    assert_true(qkv_bench_copies(1) > 2);
    assert_int_equal(qkv_bench_copies(SIZE_MAX / 4), 2);
    struct qkv_bench_row row = {0};
    assert_true(qkv_bench_has_memory(&row, 1) && row.left_out[0] == 0);
    if (qkv_memory_available().bytes < UINT64_MAX) {
        assert_false(qkv_bench_has_memory(&row, SIZE_MAX / 2));
        assert_non_null(strstr(row.left_out, "needs 9223372036.9 GB of memory, "));
    }
    struct qkv_context *ctx = make_context();
    float x[1000];
    qkv_bench_fill(ctx, x, QKV_F32, TEST_COUNT(x));
    double mean = 0, square = 0;
    for (size_t i = 0; i < TEST_COUNT(x); i++) {
        assert_true(x[i] >= -0.5f && x[i] < 0.5f);
        mean += (double)x[i] / 1000, square += (double)x[i] * (double)x[i] / 1000;
    }
    assert_true(fabs(mean) < 0.05 && fabs(square - 1.0 / 12) < 0.01);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_labels_of_their_own),
        cmocka_unit_test(peers_get_the_same_product),
        cmocka_unit_test(rounds_lie_apart),
        cmocka_unit_test(each_group_runs),
        cmocka_unit_test(big_rows_are_asked_for),
        cmocka_unit_test(refusals),
        cmocka_unit_test(the_file_has_it_all),
        cmocka_unit_test(the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
