/* report: models and runs as HTML pages and JSON.
 *
 * lab/report.h declares what callers use; the files of this room share what is declared here. A page has three
 * parts: a skeleton, assets (page.c; the build turns the files of assets/ into arrays), and data as JSON. Scripts
 * draw everything in the browser from the data. */
#ifndef QKV_REPORT_ROOM_H
#define QKV_REPORT_ROOM_H

#include "base/base.h"
#include "lab/report.h"

/* ---- pages (page.c) ---------------------------------------------------------------------------------------------- */

/* A file of lab/report/assets/ (made by the build). */
struct qkv_asset {
    const char *name; /* "page.js" */
    const unsigned char *data;
    size_t size;
};
extern const struct qkv_asset qkv_assets[];
extern const size_t qkv_asset_count;
const struct qkv_asset *qkv_asset_find(const char *name); /* NULL if there is none. */

struct qkv_page {
    const char *title;          /* plain text, as the others; shown in the tab and on the page */
    const char *summary;        /* a line below it; NULL: none */
    const char *const *scripts; /* assets besides page.js, in their order; NULL at the end */
    const char *data;           /* JSON that qkv_json_* wrote: it cannot end its element */
    size_t data_size;
    int refresh; /* seconds until the page reloads itself; 0: never */
};
enum qkv_status qkv_page_write(struct qkv_context *ctx, const struct qkv_page *page, const char *path);

/* ---- tables (csv.c) ---------------------------------------------------------------------------------------------- */

/* A table being written: begin with {.ctx = ctx}, check `status` once, and end it with qkv_buffer_free(&text). */
struct qkv_csv {
    struct qkv_context *ctx;
    struct qkv_buffer text;
    enum qkv_status status;
    bool more; /* the line has a field already */
};
void qkv_csv_text(struct qkv_csv *table, const char *text);
/* Writes x with this many significant digits, or as few as read back as x; nothing if it is not finite. */
void qkv_csv_number(struct qkv_csv *table, double x, int digits);
void qkv_csv_real(struct qkv_csv *table, double x);
void qkv_csv_end_line(struct qkv_csv *table);

/* CRC-32C of some bytes (run_events.c). */
uint32_t qkv_crc32c(const void *data, size_t size);

/* ---- views of attention (attention_view.c, attention_view_page.c, attention_view_json.c) ------------------------- */

enum { QKV_LOOK_NUMBER = 12 }; /* an id in digits */
struct qkv_look_side {
    int32_t *ids;
    size_t count;
    const struct qkv_tokenizer *tokenizer; /* NULL if a model without one reads ids */
    char (*numbers)[QKV_LOOK_NUMBER];      /* the names of tokens then */
    bool features;                         /* positions of numbers: there are no ids */
};
struct qkv_attention_view {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_pass *pass;
    struct qkv_look_side encoder, decoder;
    struct qkv_attention_view_head *attentions;
    struct qkv_head_statistics **statistics; /* for each attention, for each head */
    size_t count;
    float *rows;                   /* scratch: QKV_LOOK_ROWS rows of the largest number of keys */
    float *sum;                    /* the same, for the mean over the heads */
    bool greedy;                   /* the model itself found the target */
    const struct qkv_batch *batch; /* of the options; NULL: texts or ids */
};
/* The batch that the view shows. */
struct qkv_batch qkv_look_batch(const struct qkv_attention_view *look);
enum { QKV_LOOK_ROWS = 64 }; /* rows of weights computed at a time */
/* Turns the texts into ids as in training; `look` has the context and the model. */
enum qkv_status qkv_look_read(struct qkv_attention_view *look, const struct qkv_look_options *options);
void qkv_look_forget(struct qkv_attention_view *look); /* Frees what was read. */
/* Whether an attention, or a head, is selected (NULL: everything is). */
bool qkv_look_selects(const struct qkv_look_selection *selection, const struct qkv_attention_view_head *attention,
                      size_t head);
/* Passes the attention's weights to `take`, QKV_LOOK_ROWS rows at a time; if `take` returns false, stops with
 * QKV_STOPPED. */
typedef bool qkv_take_rows(void *user, size_t first, size_t rows, const float *weights);
enum qkv_status qkv_look_walk(struct qkv_attention_view *look, size_t i, size_t head, qkv_take_rows *take, void *user);
/* Writes "tokens": {"encoder": …, "decoder": …}, for each side that has read something. */
void qkv_look_put_tokens(const struct qkv_attention_view *look, struct qkv_json *json);
/* Writes "name", "kind", "layer", "queries", "keys" into an open object. */
void qkv_look_put_attention(struct qkv_json *json, const struct qkv_attention_view_head *attention);

#endif
