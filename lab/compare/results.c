/* results: what was measured as results.json and results.csv (RFC 4180):
 *
 *   {"format": "qkv-comparison", "version": 1, "machine": …, "valid": …, "seeds": [1337], "prompt_tokens": 512,
 *    "cache_lengths": [64, …],
 *    "variants": [{"name": "gqa:2", "folders": […], "failure": null, "parameters": …, "valid_losses": […], "valid_loss": …,
 *                  "deviation": null, "train_tokens_per_second": …, "prompt_tokens_per_second": …,
 *                  "decode_tokens_per_second": […], "cache_bytes_per_token": …, "train_bytes": …, "run_bytes": …}]} */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/compare/results.h"

/* ---- JSON ------------------------------------------------------------------------------------------------------------------------ */

static void put_numbers(struct qkv_json *json, const char *key, const double *x, size_t count, int digits) {
    qkv_json_key(json, key);
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < count; i++) qkv_json_number(json, x[i], digits);
    qkv_json_end(json, ']');
}

static void put_measures(struct qkv_json *json, const struct qkv_comparison *c, const struct qkv_variant *v) {
    qkv_json_put_integer(json, "parameters", (int64_t)v->costs.parameters);
    put_numbers(json, "valid_losses", v->losses, c->seeds, 9);
    qkv_json_put_number(json, "valid_loss", v->loss, 9);
    qkv_json_put_number(json, "deviation", v->deviation, 6);
    qkv_json_put_number(json, "train_tokens_per_second", v->train_speed, 6);
    qkv_json_put_number(json, "prompt_tokens_per_second", v->prompt_speed, 6);
    put_numbers(json, "decode_tokens_per_second", v->decode_speeds, c->cache_count, 6);
    qkv_json_put_integer(json, "cache_bytes_per_token", (int64_t)v->costs.cache_bytes_per_token);
    qkv_json_put_integer(json, "train_bytes", (int64_t)v->memory);
    qkv_json_put_integer(json, "run_bytes", (int64_t)v->costs.run_bytes);
}

static void put_variant(struct qkv_json *json, const struct qkv_comparison *c, const struct qkv_variant_state *v,
                        bool curves) {
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "name", v->shown.name);
    qkv_json_key(json, "folders");
    qkv_json_begin(json, '[');
    for (size_t s = 0; s < v->folders.count; s++) qkv_json_text(json, v->folders.items[s]);
    qkv_json_end(json, ']');
    qkv_json_put_text(json, "failure", v->shown.failure);
    if (v->shown.measured) put_measures(json, c, &v->shown);
    if (curves) qkv_comparison_put_curves(json, c, v);
    qkv_json_end(json, '}');
}

/* The machine of the latest run, in words. */
static void put_machine(struct qkv_json *json, const struct qkv_comparison *c) {
    const char *machine = NULL;
    struct qkv_run *run = NULL;
    for (size_t i = c->count; i-- > 0 && !machine;) {
        char *folder = qkv_join_path(c->ctx, c->folder, c->variants[i].folders.items[0]);
        qkv_run_free(run);
        run = NULL;
        if (folder && !qkv_run_read(c->ctx, folder, &run)) machine = qkv_run_machine(run);
        free(folder);
    }
    qkv_json_put_text(json, "machine", machine);
    qkv_run_free(run);
}

void qkv_comparison_put(struct qkv_json *json, const struct qkv_comparison *c, bool curves) {
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "format", "qkv-comparison");
    qkv_json_put_integer(json, "version", 1);
    put_machine(json, c);
    qkv_json_put_text(json, "valid", c->valid);
    qkv_json_key(json, "seeds");
    qkv_json_begin(json, '[');
    for (size_t s = 0; s < c->seeds; s++) qkv_json_integer(json, c->seed + (int64_t)s);
    qkv_json_end(json, ']');
    qkv_json_put_integer(json, "prompt_tokens", (int64_t)c->prompt);
    qkv_json_key(json, "cache_lengths");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < c->cache_count; i++) qkv_json_integer(json, (int64_t)c->caches[i]);
    qkv_json_end(json, ']');
    qkv_json_key(json, "variants");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < c->count; i++) put_variant(json, c, &c->variants[i], curves);
    qkv_json_end(json, ']');
    qkv_json_end(json, '}');
}

static enum qkv_status write_json(const struct qkv_comparison *c, const char *path) {
    struct qkv_json json = {.ctx = c->ctx};
    qkv_comparison_put(&json, c, false);
    enum qkv_status status = json.status ? json.status : qkv_buffer_append(c->ctx, &json.text, "\n", 1);
    if (!status) status = qkv_write_file(c->ctx, path, json.text.data, json.text.size);
    qkv_buffer_free(&json.text);
    return status;
}

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
    static enum qkv_status (*const writers[])(const struct qkv_comparison *,
                                              const char *) = {write_json, write_csv, qkv_comparison_write_page};
    static const char *const names[] = {"results.json", "results.csv", "index.html"};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
        char *path = qkv_join_path(c->ctx, c->folder, names[i]);
        status = path ? writers[i](c, path) : QKV_MEMORY;
        free(path);
    }
    return status;
}
