/* doctor.c: "qkv doctor" prints what the command finds on this machine, what it chooses and why, and what is
 * missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include "cli_ranks.h"

struct arguments {
    bool json;
    struct cli_common common;
};

static const struct arguments defaults = {0};

static const struct cli_option options[] = {
    {CLI_FLAG, 0, "json", NULL, offsetof(struct arguments, json), .help = "print the results as JSON"},
    CLI_COMMON(struct arguments),
};

enum { VALUE = 512, ADVICE = 8 };

/* What was found: the value of each row, and what to do about a missing part. */
struct finding {
    struct qkv_context *ctx;
    char cpu[128], tables[VALUE], kernels_why[VALUE], precision_why[VALUE], threads_why[VALUE], libraries[VALUE];
    struct qkv_cpus cpus;
    struct qkv_memory_left memory;
    char module[CLI_MODULE_PATH]; /* "": there is none */
    const char *advice[ADVICE];
    size_t advised;
};

static void advise(struct finding *f, const char *advice) {
    if (advice && f->advised < ADVICE) f->advice[f->advised++] = advice;
}

static const char *doctor_set(const char *variable) {
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

static void find_kernels(struct finding *f, const struct arguments *a) {
    const char *isa = qkv_context_isa(f->ctx), *best = qkv_isa_at(0), *table;
    size_t used = 0;
    for (size_t i = 0; (table = qkv_isa_at(i)) && used < sizeof f->tables - 32; i++)
        used += (size_t)snprintf(f->tables + used, sizeof f->tables - used, "%s%s", i ? ", " : "", table);
    snprintf(f->kernels_why, sizeof f->kernels_why, "%s",
             a->common.isa           ? "as --isa says"
             : doctor_set("QKV_ISA") ? "as QKV_ISA says"
                                     : "the best of this build that the processor runs");
    if (!strcmp(isa, "scalar") && !strcmp(best, "scalar"))
        advise(
            f,
            "only the portable kernels run here: the processor has no AVX2 (x86-64) or NEON (ARM), or the build has no "
            "kernels for it; \"make\" builds those of all processors");
    else if (strcmp(isa, best) != 0)
        advise(f, "better kernels are there; leave out --isa and QKV_ISA to use them");
    advise(f, qkv_context_isa_note(f->ctx));
}

static const char *find_precision(struct finding *f) {
    const bool bf16 = qkv_auto_precision(f->ctx) == QKV_MIXED_BF16, native = qkv_context_native_bf16(f->ctx);
    const char *said = doctor_set("QKV_PRECISION");
    snprintf(f->precision_why, sizeof f->precision_why, "%s; %s",
             said && strcmp(said, "auto") != 0 ? "as QKV_PRECISION says" : "for new runs; --precision sets another",
             native ? "these kernels multiply bf16 themselves" : "bf16 would be emulated, no faster than fp32");
    return bf16 ? "bf16" : "fp32";
}

/* Whether the system says which limits control groups set. */
static bool doctor_reads_groups(void) {
    static const char *const marks[] = {"cgroup.controllers", "memory", "cpu"}; /* of v2, of v1 */
    char path[64];
    bool mounted = false;
    for (size_t i = 0; i < CLI_COUNT_OF(marks); i++) {
        snprintf(path, sizeof path, "/sys/fs/cgroup/%s", marks[i]);
        mounted |= access(path, R_OK) == 0;
    }
    return mounted && access("/proc/self/cgroup", R_OK) == 0;
}

#ifdef QKV_ZLIB
#define GZIP_NOTE "zlib " QKV_ZLIB
#else
#define GZIP_NOTE "no zlib (with it, training reads .gz)"
#endif
#ifdef QKV_ZSTD
#define ZSTD_NOTE "libzstd " QKV_ZSTD
#else
#define ZSTD_NOTE "no libzstd (with it, training reads .zst)"
#endif

static void find_libraries(struct finding *f) {
    char pcre2[64] = "?";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    pcre2[strcspn(pcre2, " ")] = 0; /* the date follows */
    const char *editor = cli_chat_editor();
    const char *http = cli_serve_library();
    snprintf(f->libraries, sizeof f->libraries, "jansson %s, PCRE2 %s, utf8proc %s, %s, %s, %s, %s", JANSSON_VERSION,
             pcre2, utf8proc_version(), GZIP_NOTE, ZSTD_NOTE,
             editor ? editor : "no libedit (with it, qkv chat edits its lines)",
             http ? http : "no libmicrohttpd (with it, there is qkv serve)");
}

static void find_threads(struct finding *f, const struct arguments *a) {
    char quota[32] = "no limit";
    f->cpus = qkv_cpus_allowed();
    if (!doctor_reads_groups()) {
        snprintf(quota, sizeof quota, "unknown");
        advise(
            f,
            "control groups cannot be read (/proc/self/cgroup, /sys/fs/cgroup), so the limits of a container on CPUs "
            "and memory are not known; --threads N sets the threads");
    }
    if (f->cpus.quota != INT32_MAX) snprintf(quota, sizeof quota, "%d", f->cpus.quota);
    snprintf(f->threads_why, sizeof f->threads_why,
             "%s; CPUs: %d of the machine, %d for this process, %s by control groups",
             a->common.threads           ? "as --threads says"
             : doctor_set("QKV_THREADS") ? "as QKV_THREADS says"
                                         : "one for each CPU that may be used",
             f->cpus.online, f->cpus.affinity, quota);
    advise(f, qkv_context_threads_note(f->ctx));
}

static void find_memory(struct finding *f) {
    f->memory = qkv_memory_available();
    if (f->memory.bytes == UINT64_MAX)
        advise(
            f,
            "the system does not say how much memory is left (/proc/meminfo cannot be read), so plans are not refused "
            "before they fail");
}

static void find_ranks(struct finding *f) {
    if (cli_ranks_module(f->module)) return;
    f->module[0] = 0;
    advise(f,
           "to train with several processes (mpirun), install Open MPI (Debian: libopenmpi-dev, openmpi-bin) and build "
           "again; without it one process uses all CPUs");
}

enum { COLUMN = 13 };

static void doctor_row(const char *name, const char *text) {
    printf("%-*s", COLUMN, name);
    cli_print_wrapped(text, COLUMN, COLUMN);
}

static void doctor_print(const struct finding *f, const char *precision) {
    char text[3 * VALUE], number[CLI_NUMBER];
    doctor_row("qkv", qkv_version());
    doctor_row("processor", f->cpu);
    snprintf(text, sizeof text, "%s: %s (%s)", qkv_context_isa(f->ctx), f->kernels_why, f->tables);
    doctor_row("kernels", text);
    snprintf(text, sizeof text, "%s: %s", precision, f->precision_why);
    doctor_row("precision", text);
    snprintf(text, sizeof text, "%d: %s", qkv_context_threads(f->ctx), f->threads_why);
    doctor_row("threads", text);
    snprintf(text, sizeof text, "%s left: %s", cli_bytes(number, (size_t)f->memory.bytes), f->memory.why);
    doctor_row("memory", f->memory.bytes == UINT64_MAX ? "unknown" : text);
    doctor_row("libraries", f->libraries);
    doctor_row("ranks", *f->module ? f->module : "no module");
    if (f->advised) printf("\nwhat could be better:\n");
    for (size_t i = 0; i < f->advised; i++) {
        printf("  - ");
        cli_print_wrapped(f->advice[i], 4, 4);
    }
}

static int doctor_print_json(const struct finding *f, const char *precision) {
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "version", qkv_version());
    qkv_json_put_text(&out, "processor", f->cpu);
    qkv_json_put_text(&out, "kernels", qkv_context_isa(f->ctx));
    qkv_json_put_text(&out, "kernels_why", f->kernels_why);
    qkv_json_key(&out, "tables");
    qkv_json_begin(&out, '[');
    for (size_t i = 0; qkv_isa_at(i); i++) qkv_json_text(&out, qkv_isa_at(i));
    qkv_json_end(&out, ']');
    qkv_json_put_text(&out, "precision", precision);
    qkv_json_put_text(&out, "precision_why", f->precision_why);
    qkv_json_put_integer(&out, "threads", qkv_context_threads(f->ctx));
    qkv_json_put_text(&out, "threads_why", f->threads_why);
    qkv_json_key(&out, "memory_bytes");
    if (f->memory.bytes == UINT64_MAX)
        qkv_json_raw(&out, "null");
    else
        qkv_json_count(&out, f->memory.bytes);
    qkv_json_put_text(&out, "memory_why", f->memory.bytes == UINT64_MAX ? NULL : f->memory.why);
    qkv_json_put_text(&out, "libraries", f->libraries);
    qkv_json_put_text(&out, "ranks_module", *f->module ? f->module : NULL);
    qkv_json_key(&out, "advice");
    qkv_json_begin(&out, '[');
    for (size_t i = 0; i < f->advised; i++) qkv_json_text(&out, f->advice[i]);
    qkv_json_end(&out, ']');
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

static int doctor_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    const struct qkv_context_options open = {
        .size = sizeof open, .threads = (int)a->common.threads, .isa = a->common.isa};
    struct finding f = {0};
    (void)words, (void)count;
    const enum qkv_status status = qkv_context_create(&f.ctx, &open);
    int code = !f.ctx ? cli_failed("out of memory") : !status ? CLI_DONE : cli_misused(f.ctx);
    if (!code) {
        qkv_cpu_name(f.cpu, sizeof f.cpu);
        find_kernels(&f, a);
        const char *precision = find_precision(&f);
        find_threads(&f, a);
        find_memory(&f);
        find_libraries(&f);
        find_ranks(&f);
        if (a->json)
            code = doctor_print_json(&f, precision);
        else
            doctor_print(&f, precision);
    }
    qkv_context_free(f.ctx);
    return code;
}

const struct cli_command *cli_doctor(void) {
    static const struct cli_command command = {
        .name = "doctor",
        .summary = "print what this machine can run, and why",
        .usage = "[--json] [options]",
        .description = "Prints the processor, the kernels and the precision of new runs, the threads, the free memory "
                       "and what limits it, the libraries, and the module that ranks need, each with the reason. A "
                       "list of possible improvements follows, with instructions. A value that the system does not "
                       "report is printed as unknown. The exit code is 0 whatever is found.",
        .examples = "qkv doctor\nqkv doctor --json",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .defaults = &defaults,
        .size = sizeof defaults,
        .run = doctor_run,
    };
    return &command;
}
