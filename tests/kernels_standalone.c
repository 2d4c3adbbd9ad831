/* The kernel checks without a test framework, for one static program that an emulator or a bare machine can run:
 * every table of the machine (or the one named), with a seed that may be given. Exit status 0 when all hold. */
#include <time.h>

#include "base/backend.h"
#include "kernel/cpu.h"
#include "check_attend_bf16.h"
#include "check_bf16.h"
#include "check_codes.h"
#include "check_cuts.h"
#include "check_gemm.h"
#include "check_tables.h"

static void run_vector_checks(const struct qkv_kernels *k, struct qkv_random *random) {
#define RUN_KERNEL_CHECK(name) check_##name(k, random);
    KERNEL_CHECKS(RUN_KERNEL_CHECK)
}

static void run_gemm_checks(const struct qkv_kernels *k, struct qkv_random *random) {
    struct qkv_context *ctx;
    struct qkv_arena scratch;
    for (int threads = 1; threads <= 2; threads++) {
        struct qkv_context_options options = {.size = sizeof options, .threads = threads, .isa = k->isa};
        if (qkv_context_make(&ctx, &options) || qkv_arena_create(ctx, &scratch, (size_t)64 << 20, "scratch")) {
            fprintf(stderr, "%s\n", qkv_message(ctx));
            exit(2);
        }
#define RUN_GEMM_CHECK(name) check_##name(ctx, &scratch, random);
        GEMM_CHECKS(RUN_GEMM_CHECK)
        BF16_CHECKS(RUN_GEMM_CHECK)
        qkv_arena_free(&scratch);
        qkv_context_free(ctx);
    }
}

static void run_attend_checks(const struct qkv_kernels *k, uint64_t seed) {
    struct qkv_context ctx = {.threads = 2, .kernels = k, .backend = &qkv_backend_bare};
    CHECK(attend_check_random(&ctx, seed, 60, NULL), "attention and its gradient");
    CHECK(attend_check_threads(&ctx, seed, 10), "attention on more threads");
    CHECK(attend_check_parts(&ctx, seed, 20), "attention of a part");
    CHECK(attend_check_twins(&ctx, seed, 20), "attention stored and masked in another way");
    CHECK(attend_check_poisons(&ctx, seed, 20), "attention beside numbers that are not finite");
    qkv_team_free(&ctx);
}

static void run_table_checks(const struct qkv_kernels *k, struct qkv_random *random, uint64_t seed) {
    struct qkv_context ctx = {.threads = 2, .kernels = k, .backend = &qkv_backend_bare};
    check_tables(k, random);
    CHECK(attend_check_tables(&ctx, seed, 60), "attention with the bits of scalar");
    qkv_team_free(&ctx);
}

static void run_attend_bf16_checks(const struct qkv_kernels *k, uint64_t seed) {
    struct qkv_kernels kernels;
    struct qkv_context ctx = {.threads = 2, .kernels = k, .backend = &qkv_backend_bare};
    attend_bf16_context(&ctx, &kernels);
    CHECK(attend_bf16_check_random(&ctx, seed, 40, NULL), "attention in bf16 and its gradient");
    CHECK(attend_check_threads(&ctx, seed, 10), "attention in bf16 on more threads");
    CHECK(attend_check_parts(&ctx, seed, 20), "attention in bf16 of a part");
    CHECK(attend_check_twins(&ctx, seed, 20), "attention in bf16 stored and masked in another way");
    CHECK(attend_check_poisons(&ctx, seed, 20), "attention in bf16 beside numbers that are not finite");
    qkv_team_free(&ctx);
}

/* Products of integers of every entry of the build for a table: what a better entry replaces is checked too. */
#define CODES_ENTRY(name) extern const struct qkv_isa qkv_isa_##name;
#define X                 CODES_ENTRY
QKV_ISA_BUILT
#undef X
#define X(name) &qkv_isa_##name,
static const struct qkv_isa *const codes_entries[] = {QKV_ISA_BUILT};
#undef X

static void run_codes_checks(const struct qkv_kernels *k, struct qkv_random *random) {
    for (size_t i = 0; i < sizeof codes_entries / sizeof *codes_entries; i++) {
        const struct qkv_isa *entry = codes_entries[i];
        const bool own = !strcmp(entry->name, k->isa) || (entry->base && !strcmp(entry->base, k->isa));
        if (!own || !entry->kernels->codes || !qkv_cpu_has(entry->needs)) continue;
        for (int round = 0; round < 8; round++) check_codes(entry->kernels->codes, random);
    }
}

/* $QKV_CHECKS chooses among (v)ectors, (p)roducts, products of (i)ntegers, (a)ttention, attention in (b)f16, the bits of
 * all (t)ables; unset, all of them run. */
static bool chosen(char letter) {
    const char *letters = getenv("QKV_CHECKS");
    return !letters || !*letters || strchr(letters, letter);
}

int main(int count, char **text) {
    const char *wanted = count > 1 && text[1][0] ? text[1] : NULL;
    const uint64_t seed = count > 2 ? strtoull(text[2], NULL, 0) : (uint64_t)time(NULL);
    size_t ran = 0;
    for (size_t i = 0; qkv_kernels_at(i); i++) {
        const struct qkv_kernels *k = qkv_kernels_at(i);
        if (wanted && strcmp(wanted, k->isa) != 0) continue;
        struct qkv_random random = qkv_random_start(seed, i);
        const int before = check_failures;
        if (chosen('v')) run_vector_checks(k, &random);
        if (chosen('p')) run_gemm_checks(k, &random);
        if (chosen('i')) run_codes_checks(k, &random);
        if (chosen('a')) run_attend_checks(k, seed);
        if (chosen('t')) run_table_checks(k, &random, seed);
        if (chosen('b')) run_attend_bf16_checks(k, seed);
        printf("%-8s %2d floats a vector, seed %llu: %d failures\n", k->isa, k->width, (unsigned long long)seed,
               check_failures - before);
        fflush(stdout);
        ran++;
    }
    if (ran == 0) fprintf(stderr, "no table %s here\n", wanted ? wanted : "");
    return ran == 0 || check_failures ? 1 : 0;
}
