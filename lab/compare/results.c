/* results: the files of a comparison: results.json, results.csv (RFC 4180) and index.html. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/compare/results.h"

static void put_line(struct qkv_csv *t, const struct qkv_comparison *c, const struct qkv_variant *v) {
    bool m = v->measured;
    qkv_csv_text(t, v->name);
    qkv_csv_number(t, m ? (double)v->costs.parameters : NAN, 15);
    qkv_csv_number(t, m ? v->loss : NAN, 9);
    qkv_csv_number(t, m ? v->deviation : NAN, 6);
    qkv_csv_number(t, m ? v->train_speed : NAN, 6);
    qkv_csv_number(t, m ? v->prompt_speed : NAN, 6);
    for (size_t i = 0; i < c->cache_count; i++) qkv_csv_number(t, m ? v->decode_speeds[i] : NAN, 6);
    qkv_csv_number(t, m ? (double)v->costs.cache_bytes_per_token : NAN, 15);
    qkv_csv_number(t, m ? (double)v->memory : NAN, 15);
    qkv_csv_number(t, m ? (double)v->costs.run_bytes : NAN, 15);
    qkv_csv_text(t, v->failure ? v->failure : "");
    qkv_csv_end_line(t);
}

static enum qkv_status write_csv(const struct qkv_comparison *c, const char *path) {
    static const char *const before[] = {
        "variant", "parameters", "valid_loss", "deviation", "train_tokens_per_second", "prompt_tokens_per_second"};
    static const char *const behind[] = {"cache_bytes_per_token", "train_bytes", "run_bytes", "failure"};
    struct qkv_csv t = {.ctx = c->ctx};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) qkv_csv_text(&t, before[i]);
    for (size_t i = 0; i < c->cache_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "decode_tokens_per_second_%zu", c->caches[i]);
        qkv_csv_text(&t, name);
    }
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) qkv_csv_text(&t, behind[i]);
    qkv_csv_end_line(&t);
    for (size_t i = 0; i < c->count; i++) put_line(&t, c, &c->variants[i].shown);
    enum qkv_status status = t.status;
    if (!status) status = qkv_write_file(c->ctx, path, t.text.data, t.text.size);
    qkv_buffer_free(&t.text);
    return status;
}

/* ---- all files --------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_comparison_write(struct qkv_comparison *c) {
    QKV_CALL(c->ctx);
    static enum qkv_status (*const writers[])(const struct qkv_comparison *, const char *) = {
        qkv_comparison_write_json, write_csv, qkv_comparison_write_page};
    static const char *const names[] = {QKV_COMPARISON_RESULTS, QKV_COMPARISON_TABLE, QKV_COMPARISON_PAGE};
    enum qkv_status status = QKV_OK;
    if (c->ranks.rank) return QKV_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
        char *path = qkv_join_path(c->ctx, c->folder, names[i]);
        status = path ? writers[i](c, path) : QKV_MEMORY;
        free(path);
    }
    return status;
}
