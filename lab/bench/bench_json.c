/* json: the results as one JSON object: the machine, then a line for each row. */
#include <time.h>

#include "lab/bench/bench_room.h"

enum { DIGITS = 12 };

void qkv_bench_json_begin(struct qkv_json *json, const struct qkv_bench_machine *machine) {
    char date[QKV_UTC_TEXT];
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "version", qkv_version());
    qkv_json_put_text(json, "date", qkv_utc_text(date, (int64_t)time(NULL)));
    qkv_json_line(json, 0);
    qkv_json_key(json, "machine");
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "cpu", machine->cpu);
    qkv_json_put_text(json, "compiler", machine->compiler);
    qkv_json_put_text(json, "isa", machine->isa);
    qkv_json_put_integer(json, "threads", machine->threads);
    qkv_json_key(json, "cache_bytes");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < sizeof machine->cache / sizeof *machine->cache; i++) qkv_json_count(json, machine->cache[i]);
    qkv_json_end(json, ']');
    qkv_json_put_number(json, "fp32_flops", machine->fp32_flops, DIGITS);
    qkv_json_put_number(json, "bf16_flops", machine->bf16_flops, DIGITS);
    qkv_json_put_number(json, "read_bytes", machine->read_bytes, DIGITS);
    qkv_json_end(json, '}');
    qkv_json_line(json, 0);
    qkv_json_key(json, "rows");
    qkv_json_begin(json, '[');
}

static void put_peers(struct qkv_json *json, const struct qkv_bench_row *row) {
    qkv_json_key(json, "peers");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < row->peer_count; i++) {
        qkv_json_begin(json, '{');
        qkv_json_put_text(json, "name", row->peers[i].name);
        qkv_json_put_number(json, "seconds", row->peers[i].seconds, DIGITS);
        qkv_json_end(json, '}');
    }
    qkv_json_end(json, ']');
}

void qkv_bench_json_row(struct qkv_json *json, const struct qkv_bench_row *row) {
    const double rate = row->seconds > 0 ? 1 / row->seconds : 0;
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"seconds", row->seconds},
        {"fastest", row->fastest},
        {"flops", row->flops},
        {"flops_per_second", row->flops * rate},
        {"bytes", row->bytes},
        {"bytes_per_second", row->bytes * rate},
        {"tokens", row->tokens},
        {"tokens_per_second", row->tokens * rate},
        {"share", row->share},
        {"spread", row->spread},
        {"peak_flops", row->peak_flops},
        {"peak_read_bytes", row->peak_read},
        {"memory", (double)row->memory},
        {"pass_memory", (double)row->pass_memory},
        {"loss", row->loss},
    };
    qkv_json_line(json, 0);
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "group", row->group);
    qkv_json_put_text(json, "name", row->name);
    qkv_json_put_text(json, "form", row->form);
    qkv_json_put_text(json, "precision", row->precision);
    qkv_json_put_text(json, "left_out", row->left_out[0] ? row->left_out : NULL);
    qkv_json_put_text(json, "share_of", row->reads ? "read_bytes" : "flops");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        qkv_json_put_number(json, numbers[i].key, numbers[i].value, DIGITS);
    put_peers(json, row);
    qkv_json_end(json, '}');
}

void qkv_bench_json_end(struct qkv_json *json, bool complete) {
    qkv_json_line(json, 0);
    qkv_json_end(json, ']');
    qkv_json_line(json, 0);
    qkv_json_put_bool(json, "complete", complete);
    qkv_json_end(json, '}');
    qkv_json_line(json, 0);
    qkv_json_flush(json);
}
