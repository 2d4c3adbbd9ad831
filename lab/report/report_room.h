/* report: what is known about models and runs as HTML pages and JSON.
 *
 * Offers its callers what lab/report.h declares; the files of this room share what is declared here. A page is made
 * of three things: a skeleton with its assets (page.c; the files in assets, which the build turns into arrays), data as JSON,
 * and nothing else: what it shows is drawn in the browser from the data. */
#ifndef QKV_REPORT_ROOM_H
#define QKV_REPORT_ROOM_H

#include "base/base.h"
#include "lab/report.h"

/* ---- pages (page.c) ------------------------------------------------------------------------------------------------------ */

/* A file of lab/report/assets/ (made by the build). */
struct qkv_asset {
    const char *name; /* "page.js" */
    const unsigned char *data;
    size_t size;
};
extern const struct qkv_asset qkv_assets[];
extern const size_t qkv_asset_count;
const struct qkv_asset *qkv_asset_find(const char *name); /* NULL: there is none */

struct qkv_page {
    const char *title;          /* plain text, as the others; it stands in the tab and on the page */
    const char *summary;        /* a line below it; NULL: none */
    const char *const *scripts; /* assets beside page.js, in their order; NULL at the end */
    const char *data;           /* JSON as qkv_json_* write it: nothing in it can end its element */
    size_t data_size;
    int refresh; /* seconds after which the page loads itself again; 0: never */
};
enum qkv_status qkv_page_write(struct qkv_context *ctx, const struct qkv_page *page, const char *path);

/* ---- tables (csv.c) ------------------------------------------------------------------------------------------------------ */

/* A table being written: begin with {.ctx = ctx}, check `status` once, and end it with qkv_buffer_free(&text). */
struct qkv_csv {
    struct qkv_context *ctx;
    struct qkv_buffer text;
    enum qkv_status status;
    bool more; /* a field stands before in this line */
};
void qkv_csv_text(struct qkv_csv *table, const char *text);
/* With so many significant digits, or as few as read back as x; nothing where it is not finite. */
void qkv_csv_number(struct qkv_csv *table, double x, int digits);
void qkv_csv_real(struct qkv_csv *table, double x);
void qkv_csv_end_line(struct qkv_csv *table);

/* CRC-32C of some bytes (run_events.c). */
uint32_t qkv_crc32c(const void *data, size_t size);

/* ---- views of attention (attention_view.c makes them; attention_view_page.c, attention_view_json.c write them) ------------------------------------------------------- */

enum { QKV_LOOK_NUMBER = 12 }; /* an id in digits */
struct qkv_look_side {
    int32_t *ids;
    size_t count;
    const struct qkv_tokenizer *tokenizer; /* NULL where ids are read by a model without one */
    char (*numbers)[QKV_LOOK_NUMBER];      /* what tokens are called then */
    bool features;                         /* positions of numbers: there are no ids */
};
struct qkv_attention_view {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_pass *pass;
    struct qkv_look_side encoder, decoder;
    struct qkv_attention_view_head *attentions;
    struct qkv_head_statistics **statistics; /* of each attention, of each head */
    size_t count;
    float *rows; /* scratch: LOOK_ROWS rows of the most keys */
    float *sum;  /* the same: while a mean over the heads is taken */
    bool greedy; /* the target is what the model found itself */
    const struct qkv_batch *batch; /* of the options; NULL: texts or ids */
};
/* The batch that is looked at. */
struct qkv_batch qkv_look_batch(const struct qkv_attention_view *look);
enum { QKV_LOOK_ROWS = 64 }; /* rows of weights that are looked at at a time */
/* Turns the texts into the ids that the model read in training; of `look` the context and the model are set. */
enum qkv_status qkv_look_read(struct qkv_attention_view *look, const struct qkv_look_options *options);
void qkv_look_forget(struct qkv_attention_view *look); /* frees what was read */
/* Whether an attention, or a head, is selected (NULL: everything is). */
bool qkv_look_selects(const struct qkv_look_selection *selection, const struct qkv_attention_view_head *attention,
                      size_t head);
/* The attention's weights, QKV_LOOK_ROWS rows at a time; returning false from `take` ends it (QKV_STOPPED). */
typedef bool qkv_take_rows(void *user, size_t first, size_t rows, const float *weights);
enum qkv_status qkv_look_walk(struct qkv_attention_view *look, size_t i, size_t head, qkv_take_rows *take, void *user);
/* "tokens": {"encoder": …, "decoder": …}, of a side that has read something. */
void qkv_look_put_tokens(const struct qkv_attention_view *look, struct qkv_json *json);
/* "name", "kind", "layer", "queries", "keys": members of an object that is begun. */
void qkv_look_put_attention(struct qkv_json *json, const struct qkv_attention_view_head *attention);

#endif
