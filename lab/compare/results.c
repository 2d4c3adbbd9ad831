/* results: the files of a comparison: results.json, results.csv (RFC 4180) and index.html. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/compare/results.h"

/* ---- CSV --------------------------------------------------------------------------------------------------------------------------- */

struct table {
    struct qkv_context *ctx;
    struct qkv_buffer text;
    enum qkv_status status;
    bool more; /* a field stands before in this line */
};

static void results_put(struct table *t, const char *text, size_t size) {
    if (!t->status) t->status = qkv_buffer_append(t->ctx, &t->text, text, size);
}

static void put_field(struct table *t, const char *text) {
    if (t->more) results_put(t, ",", 1);
    t->more = true;
    if (!strpbrk(text, "\",\r\n")) {
        results_put(t, text, strlen(text));
        return;
    }
    results_put(t, "\"", 1);
    for (; *text; text++) results_put(t, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    results_put(t, "\"", 1);
}

static void put_number(struct table *t, double x, int digits) {
    char text[48] = "";
    if (isfinite(x)) snprintf(text, sizeof text, "%.*g", digits, x);
    char *point = text + strspn(text, "-+0123456789"); /* a comma in some locales */
    if (*point == ',') *point = '.';
    put_field(t, text);
}

static void end_line(struct table *t) {
    results_put(t, "\r\n", 2);
    t->more = false;
}

static void put_line(struct table *t, const struct qkv_comparison *c, const struct qkv_variant *v) {
    bool m = v->measured;
    put_field(t, v->name);
    put_number(t, m ? (double)v->costs.parameters : NAN, 15);
    put_number(t, m ? v->loss : NAN, 9);
    put_number(t, m ? v->deviation : NAN, 6);
    put_number(t, m ? v->train_speed : NAN, 6);
    put_number(t, m ? v->prompt_speed : NAN, 6);
    for (size_t i = 0; i < c->cache_count; i++) put_number(t, m ? v->decode_speeds[i] : NAN, 6);
    put_number(t, m ? (double)v->costs.cache_bytes_per_token : NAN, 15);
    put_number(t, m ? (double)v->memory : NAN, 15);
    put_number(t, m ? (double)v->costs.run_bytes : NAN, 15);
    put_field(t, v->failure ? v->failure : "");
    end_line(t);
}

static enum qkv_status write_csv(const struct qkv_comparison *c, const char *path) {
    static const char *const before[] = {
        "variant", "parameters", "valid_loss", "deviation", "train_tokens_per_second", "prompt_tokens_per_second"};
    static const char *const behind[] = {"cache_bytes_per_token", "train_bytes", "run_bytes", "failure"};
    struct table t = {.ctx = c->ctx};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) put_field(&t, before[i]);
    for (size_t i = 0; i < c->cache_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "decode_tokens_per_second_%zu", c->caches[i]);
        put_field(&t, name);
    }
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) put_field(&t, behind[i]);
    end_line(&t);
    for (size_t i = 0; i < c->count; i++) put_line(&t, c, &c->variants[i].shown);
    enum qkv_status status = t.status;
    if (!status) status = qkv_write_file(c->ctx, path, t.text.data, t.text.size);
    qkv_buffer_free(&t.text);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_comparison_write(struct qkv_comparison *c) {
    QKV_CALL(c->ctx);
    static enum qkv_status (*const writers[])(const struct qkv_comparison *, const char *) = {
        qkv_comparison_write_json, write_csv, qkv_comparison_write_page};
    static const char *const names[] = {"results.json", "results.csv", "index.html"};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
        char *path = qkv_join_path(c->ctx, c->folder, names[i]);
        status = path ? writers[i](c, path) : QKV_MEMORY;
        free(path);
    }
    return status;
}
